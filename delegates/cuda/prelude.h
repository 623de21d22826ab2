/* The vocabulary of kernels/device in CUDA C++, for NVRTC: no header is needed. */
typedef float f32;
typedef double f64;
#define REAL f64
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

/* as an instruction needs no header, and sm_61 has it */
DEVICE i32 dot4_i8i8(i32 c, i32 a, i32 b)
{
    i32 sum;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}
#define DOT4_I8I8(c, a, b) dot4_i8i8(c, a, b)

/* two halves in one word, the first in the lower bits */
DEVICE i32 pack_halves(f32 low, f32 high)
{
#if __CUDA_ARCH__ >= 800
    i32 word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    return (i32)float_to_half(low) | (i32)float_to_half(high) << 16;
#endif
}
#define PACK_HALVES(low, high) pack_halves(low, high)

#define MMA_SCRATCH(n)
#if __CUDA_ARCH__ >= 800
#define MMA_I8(c, a, b) \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, " \
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+r"((c)[0]), "+r"((c)[1]), "+r"((c)[2]), "+r"((c)[3]) \
                 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]))
#define MMA_F16(c, a, b) \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, " \
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3]) \
                 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]))
#else
/* sm_75 has smaller ones, whose fragments are parts of the others' */
#define MMA_I8_PART(c, d, a, b) \
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};" \
                 : "+r"(c), "+r"(d) : "r"(a), "r"(b))
#define MMA_I8(c, a, b) \
    do { \
        MMA_I8_PART((c)[0], (c)[1], (a)[0], (b)[0]); \
        MMA_I8_PART((c)[2], (c)[3], (a)[1], (b)[0]); \
        MMA_I8_PART((c)[0], (c)[1], (a)[2], (b)[1]); \
        MMA_I8_PART((c)[2], (c)[3], (a)[3], (b)[1]); \
    } while (0)
#define MMA_F16_PART(c, a, d, b) \
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, " \
                 "{%4, %5}, {%6}, {%0, %1, %2, %3};" \
                 : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3]) \
                 : "r"(a), "r"(d), "r"(b))
#define MMA_F16(c, a, b) \
    do { \
        MMA_F16_PART(c, (a)[0], (a)[1], (b)[0]); \
        MMA_F16_PART(c, (a)[2], (a)[3], (b)[1]); \
    } while (0)
#endif

/* four neighbours at once */
DEVICE void load4(const f32* p, f32* v)
{
    const float4 four = *(const float4*)p;
    v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
}
DEVICE void load4(const i8* p, i32* v)
{
    const char4 four = *(const char4*)p;
    v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
}
DEVICE void load4(const u8* p, i32* v)
{
    const uchar4 four = *(const uchar4*)p;
    v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
}
DEVICE void load4_half(const u16* p, f32* v)
{
    const ushort4 four = *(const ushort4*)p;
    v[0] = half_to_float(four.x), v[1] = half_to_float(four.y);
    v[2] = half_to_float(four.z), v[3] = half_to_float(four.w);
}
DEVICE void store4(f32* p, const f32* v) { *(float4*)p = make_float4(v[0], v[1], v[2], v[3]); }
DEVICE void store4(i8* p, const i32* v) { *(char4*)p = make_char4(v[0], v[1], v[2], v[3]); }
DEVICE void store4(u8* p, const i32* v) { *(uchar4*)p = make_uchar4(v[0], v[1], v[2], v[3]); }
DEVICE void store4_half(u16* p, const f32* v)
{
    *(int2*)p = make_int2(pack_halves(v[0], v[1]), pack_halves(v[2], v[3]));
}
#define READ_FOUR(p, i, v) load4((p) + (i), v)
#define READ_FOUR_HALVES(p, i, v) load4_half((p) + (i), v)
#define WRITE_FOUR(type, p, i, v) store4((p) + (i), v)
#define WRITE_FOUR_HALVES(p, i, v) store4_half((p) + (i), v)
