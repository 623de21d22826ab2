/* The vocabulary of kernels/device in CUDA C++, for NVRTC: no header is needed. */
typedef float f32;
typedef double f64;
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#define KERNEL extern "C" __global__
#define DEVICE static __device__ __forceinline__
#define GLOBAL
#define CONST_ARG const
#define LOCAL __shared__
#define RESTRICT __restrict__
#define BARRIER() __syncthreads()
#define GID0 ((i32)(blockIdx.x * blockDim.x + threadIdx.x))
#define GID1 ((i32)(blockIdx.y * blockDim.y + threadIdx.y))
#define GID2 ((i32)(blockIdx.z * blockDim.z + threadIdx.z))
#define LID0 ((i32)threadIdx.x)
#define LID1 ((i32)threadIdx.y)
/* a grid is whole blocks: threads beyond the work-items leave */
#define IN_GRID(x, y, z) if (GID0 >= (x) || GID1 >= (y) || GID2 >= (z)) return;

DEVICE f32 half_to_float(u16 bits)
{
    f32 v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
    return v;
}

DEVICE u16 float_to_half(f32 v)
{
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
    return bits;
}

#define LOAD_HALF(p, i) half_to_float(((const u16*)(p))[i])
#define STORE_HALF(p, i, v) (((u16*)(p))[i] = float_to_half((f32)(v)))
#define AS_F32(v) __uint_as_float((u32)(v))
#define AS_U32(v) __float_as_uint((f32)(v))
#define RAISE(p) atomicOr((i32*)(p), 1)

/* programs are compiled with -fmad=false: only what says MAD is fused */
template <class A, class B, class C>
static __device__ __forceinline__ auto mad(A a, B b, C c) -> decltype(a * b + c)
{
    return a * b + c;
}
DEVICE f32 mad(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
DEVICE f64 mad(f64 a, f64 b, f64 c) { return __fma_rn(a, b, c); }
#define MAD(a, b, c) mad(a, b, c)

#define F_EXP(x) exp(x)
#define F_LOG(x) log(x)
#define F_SQRT(x) sqrt(x)
#define F_SIN(x) sin(x)
#define F_COS(x) cos(x)
#define F_TANH(x) tanh(x)
#define F_ERFC(x) erfc(x)
#define F_EXPM1(x) expm1(x)
#define F_POW(x, y) pow(x, y)
#define F_ATAN2(y, x) atan2(y, x)
#define F_CBRT(x) cbrt(x)
#define F_ABS(x) fabs(x)
#define F_COPYSIGN(x, y) copysign(x, y)
#define F_FLOOR(x) floor(x)
#define F_CEIL(x) ceil(x)
#define F_RINT(x) rint(x)
#define F_TRUNC(x) trunc(x)
#define F_MOD(x, y) fmod(x, y)
#define F_MIN(x, y) fmin(x, y)
#define F_MAX(x, y) fmax(x, y)

/* as an instruction needs no header, and sm_61 has it */
DEVICE i32 dot4_i8i8(i32 c, i32 a, i32 b)
{
    i32 sum;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}
#define DOT4_I8I8(c, a, b) dot4_i8i8(c, a, b)
#define MMA_SCRATCH(n)
#define MMA_I8(c, a, b) \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, " \
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+r"((c)[0]), "+r"((c)[1]), "+r"((c)[2]), "+r"((c)[3]) \
                 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]))
