/* The vocabulary of kernels/device in OpenCL C 1.2 and later. */
typedef float f32;
typedef char i8;
typedef uchar u8;
typedef short i16;
typedef ushort u16;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double f64;
#define REAL f64
#else
#define REAL f32
#endif

#ifdef __has_attribute
#if defined(QUICK_EXP) && __has_attribute(intel_vec_len_hint)
/* Intel's compiler for CPUs: what has vectors in its text and groups of one work-item needs no form of
   several work-items, which would take as long to compile again */
#define KERNEL __kernel __attribute__((intel_vec_len_hint(1)))
#endif
#endif
#ifndef KERNEL
#define KERNEL __kernel
#endif
#define DEVICE static inline
#define GLOBAL __global
#define CONST_ARG __global const
#define LOCAL __local
#define RESTRICT restrict
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define GID0 ((i32)get_global_id(0))
#define GID1 ((i32)get_global_id(1))
#define GID2 ((i32)get_global_id(2))
#define LID0 ((i32)get_local_id(0))
#define LID1 ((i32)get_local_id(1))
#define IN_GRID(x, y, z)

#define LOAD_HALF(p, i) vload_half((i), (CONST_ARG half*)(p))
#define STORE_HALF(p, i, v) vstore_half_rte((f32)(v), (i), (GLOBAL half*)(p))
#define AS_F32(v) as_float((u32)(v))
#define AS_U32(v) as_uint((f32)(v))
#define RAISE(p) atomic_or((volatile GLOBAL i32*)(p), 1)

#define MAD(a, b, c) ((a) * (b) + (c))
#ifdef QUICK_EXP
#define F_EXP(x) quick_exp(x)
#define F_TANH(x) quick_tanh(x)
#define F_EXPM1(x) quick_expm1(x)
#define F_ERFC(x) quick_erfc(x)
#define F_MIN(x, y) quick_min(x, y)
#define F_MAX(x, y) quick_max(x, y)
#else
#define F_EXP(x) exp(x)
#endif

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define VEC_f32 float
#define VEC_f64 double
#define VEC_i64 long
#define VEC_i32 int
#define VEC_i16 short
#define VEC_u8 uchar
#define VEC_i8 char
#define VEC(type, W) VEC_1(type, W)
#define VEC_1(type, W) PASTE(VEC_##type, W)
#define VSPLAT(type, W, v) ((VEC(type, W))((type)(v)))
#define EVENS(type, W, a, b) ((VEC(type, W))((a).even, (b).even))
#define ODDS(type, W, a, b) ((VEC(type, W))((a).odd, (b).odd))
#ifdef __clang__
/* PoCL's vload and vstore take small numbers one by one, and its conversions too */
#define VLOAD(W, p) PASTE(load_vector, W)(p)
#define VSTORE(W, v, p) store_vector(v, p)
#define VCONVERT(type, W, v) __builtin_convertvector(v, VEC(type, W))
#define OVERLOADED static inline __attribute__((overloadable))
#define VECTORS(T) VECTORS_OF(T, 2) VECTORS_OF(T, 4) VECTORS_OF(T, 8) VECTORS_OF(T, 16)
#define VECTORS_OF(T, W) \
    typedef T##W unaligned_##T##W __attribute__((aligned(sizeof(T)))); \
    VECTORS_AT(T, W, __global) VECTORS_AT(T, W, __private)
#define VECTORS_AT(T, W, SPACE) \
    OVERLOADED T##W load_vector##W(SPACE const T* p) \
    { \
        return *(SPACE const unaligned_##T##W*)p; \
    } \
    OVERLOADED void store_vector(T##W v, SPACE T* p) \
    { \
        *(SPACE unaligned_##T##W*)p = v; \
    }
VECTORS(float) VECTORS(int) VECTORS(long) VECTORS(short) VECTORS(uchar) VECTORS(char)
#ifdef cl_khr_fp64
VECTORS(double)
#endif
#undef VECTORS
#undef VECTORS_OF
#undef VECTORS_AT
typedef int unaligned_int __attribute__((aligned(1)));
OVERLOADED int word_at(__global const void* p)
{
    return *(__global const unaligned_int*)p;
}
OVERLOADED int word_at(__private const void* p)
{
    return *(__private const unaligned_int*)p;
}
#define WORD_AT(p) word_at(p)
#else
#define WORD_AT(p) as_int(vload4(0, p))
#define VLOAD(W, p) PASTE(vload, W)(0, p)
#define VSTORE(W, v, p) PASTE(vstore, W)(v, 0, p)
#define VCONVERT(type, W, v) PASTE(convert_, VEC(type, W))(v)
#endif
#ifdef __clang__
#if defined(LOOKUP_INTRINSIC) || defined(DOT4_INTRINSIC)
typedef char bytes64 __attribute__((ext_vector_type(64)));
#endif
#ifdef LOOKUP_INTRINSIC
#define LOOKUP_ASSEMBLER
bytes64 permuted(bytes64 a, bytes64 index, bytes64 b) __asm__("llvm.x86.avx512.vpermi2var.qi.512");
static inline int16 lookup_64(int16 index, int16 a, int16 b)
{
    const bytes64 at = __builtin_astype(index, bytes64);
    const bytes64 low = __builtin_astype(a, bytes64), high = __builtin_astype(b, bytes64);
    return __builtin_astype(permuted(low, at, high), int16);
}
#elif defined(LOOKUP_ASSEMBLER)
static inline int16 lookup_64(int16 index, int16 a, int16 b)
{
    __asm__("vpermi2b %2, %1, %0" : "+v"(index) : "v"(a), "v"(b));
    return index;
}
#endif
#ifdef LOOKUP_ASSEMBLER
#define LOOKUP_OF(T) \
    OVERLOADED T##16 lookup_16(__global const T* table, int16 v) \
    { \
        const __global int* t = (const __global int*)table; \
        const int16 a = load_vector16(t), b = load_vector16(t + 16); \
        const int16 c = load_vector16(t + 32), d = load_vector16(t + 48); \
        const T##16 index = __builtin_convertvector(v, T##16); \
        const int16 at = (int16)(as_int4(index), (int4)(0), (int8)(0)); \
        const T##16 below = __builtin_astype(lookup_64(at, a, b).lo.lo, T##16); \
        const T##16 above = __builtin_astype(lookup_64(at, c, d).lo.lo, T##16); \
        return __builtin_astype(index, char16) < (char16)(0) ? above : below; \
    }
#else
#define LOOKUP_OF(T) \
    OVERLOADED T##16 lookup_16(__global const T* table, int16 v) \
    { \
        T##16 found; \
        for (int i = 0; i < 16; i++) \
            found[i] = table[v[i] & 255]; \
        return found; \
    }
#endif
LOOKUP_OF(char) LOOKUP_OF(uchar)
#undef LOOKUP_OF
#define LOOKUP_16(table, v) lookup_16(table, v)
#endif
#ifdef DOT4_INTRINSIC
int16 dot4_of_bytes(int16 c, bytes64 a, bytes64 b) __asm__("llvm.x86.avx512.vpdpbusd.512");
#define DOT4_U8I8(c, a, b) \
    dot4_of_bytes(c, __builtin_astype(a, bytes64), __builtin_astype(b, bytes64))
#elif defined(DOT4_ASSEMBLER)
static inline int16 dot4_u8i8(int16 c, int16 a, int16 b)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
}
#define DOT4_U8I8(c, a, b) dot4_u8i8(c, a, b)
#elif defined(HAS_DOT4)
#define DOT4_U8I8(c, a, b) __builtin_ia32_vpdpbusd512(c, a, b)
#endif

static inline int dot4_i8i8(int c, int a, int b)
{
    const char4 x = as_char4(a), y = as_char4(b);
    return c + x.s0 * y.s0 + x.s1 * y.s1 + x.s2 * y.s2 + x.s3 * y.s3;
}
#define DOT4_I8I8(c, a, b) dot4_i8i8(c, a, b)

/* two halves in one word, the first in the lower bits */
static inline int pack_halves(float low, float high)
{
    int word;
    vstore_half_rte(low, 0, (half*)&word);
    vstore_half_rte(high, 1, (half*)&word);
    return word;
}
#define PACK_HALVES(low, high) pack_halves(low, high)

/* No matrix unit: work-items show each other what they hold, where PTX's layout says */
static inline __local int* mma_show(const int* a, const int* b, __local int* words, int lane)
{
    __local int* all = words + lane / 32 * 192;
    for (int i = 0; i < 4; i++)
        all[lane % 32 * 6 + i] = a[i];
    for (int i = 0; i < 2; i++)
        all[lane % 32 * 6 + 4 + i] = b[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    return all;
}
/* where words k of the row and of the column of sum i are */
#define MMA_LEFT(lane, i, k) (((lane) % 32 / 4 * 4 + (k) % 4) * 6 + (i) / 2 + (k) / 4 * 2)
#define MMA_RIGHT(lane, i, k) (((lane) % 4 * 8 + (i) % 2 * 4 + (k) % 4) * 6 + 4 + (k) / 4)

static inline void mma_i8(int* c, const int* a, const int* b, __local int* words, int lane)
{
    __local int* all = mma_show(a, b, words, lane);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 8; k++)
            c[i] = dot4_i8i8(c[i], all[MMA_LEFT(lane, i, k)], all[MMA_RIGHT(lane, i, k)]);
    barrier(CLK_LOCAL_MEM_FENCE);
}

static inline void mma_f16(float* c, const int* a, const int* b, __local int* words, int lane)
{
    __local const half* all = (__local const half*)mma_show(a, b, words, lane);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 16; k++)
            c[i] += vload_half(MMA_LEFT(lane, i, k / 2) * 2 + k % 2, all)
                * vload_half(MMA_RIGHT(lane, i, k / 2) * 2 + k % 2, all);
    barrier(CLK_LOCAL_MEM_FENCE);
}
#define MMA_SCRATCH(n) __local int mma_words[(n) * 6];
#define MMA_I8(c, a, b) mma_i8(c, a, b, mma_words, LID0)
#define MMA_F16(c, a, b) mma_f16(c, a, b, mma_words, LID0)

/* four neighbours at once */
#define FOUR_OF(four, v) \
    ((v)[0] = (four).s0, (v)[1] = (four).s1, (v)[2] = (four).s2, (v)[3] = (four).s3)
#define READ_FOUR(p, i, v) FOUR_OF(vload4(0, (p) + (i)), v)
#define READ_FOUR_HALVES(p, i, v) FOUR_OF(vload_half4(0, (CONST_ARG half*)(p) + (i)), v)
#define WRITE_FOUR(type, p, i, v) \
    vstore4((VEC(type, 4))((type)(v)[0], (type)(v)[1], (type)(v)[2], (type)(v)[3]), 0, (p) + (i))
#define WRITE_FOUR_HALVES(p, i, v) \
    vstore_half4_rte((float4)((v)[0], (v)[1], (v)[2], (v)[3]), 0, (GLOBAL half*)(p) + (i))

#ifdef QUICK_EXP
/* exp to a unit or two of the last place, inline, so that loops over it become vectors: a polynomial
   (Cephes) in what is left of x beside n log 2, n then added to its exponent. What no normal number
   holds is 0: cores are slow at others. */
#define EXP_OF(F, I) \
    static inline __attribute__((overloadable)) F quick_exp(F x) \
    { \
        const F shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f; \
        const F r = x - n * 0.693359375f + n * 2.12194440e-4f; \
        F y = r * 1.9875691500e-4f + 1.3981999507e-3f; \
        y = y * r + 8.3334519073e-3f; \
        y = y * r + 4.1665795894e-2f; \
        y = y * r + 1.6666665459e-1f; \
        y = y * r + 5.0000001201e-1f; \
        y = y * (r * r) + r + 1.0f; \
        y = as_##F(as_##I(y) + (as_##I(shifted) << 23)); \
        y = x > 88.722839f ? (F)(INFINITY) : x < -87.33654f ? (F)(0.0f) : y; \
        return x != x ? x : y; \
    }
EXP_OF(float, int) EXP_OF(float2, int2) EXP_OF(float4, int4) EXP_OF(float8, int8)
EXP_OF(float16, int16)
#undef EXP_OF
/* tanh (Cephes near 0), exp(x) - 1 (Taylor near 0) and erfc (t exp(-x x) times a polynomial in t =
   1 / (1 + x / 2), fitted for this), on top of it, to a few units of the last place. The calls that the
   compilers make of their own are for one value each. */
#define QUICK_OF(F) \
    static inline __attribute__((overloadable)) F quick_tanh(F x) \
    { \
        const F a = fabs(x), z = x * x; \
        F y = z * -5.70498872745e-3f + 2.06390887954e-2f; \
        y = y * z - 5.37397155531e-2f; \
        y = y * z + 1.33314422036e-1f; \
        y = y * z - 3.33332819422e-1f; \
        const F far = 1.0f - 2.0f / (quick_exp(a + a) + 1.0f); \
        return a < 0.625f ? y * z * x + x : x < 0.0f ? -far : far; \
    } \
    static inline __attribute__((overloadable)) F quick_expm1(F x) \
    { \
        F y = x * 1.98412698e-4f + 1.38888889e-3f; \
        y = y * x + 8.33333333e-3f; \
        y = y * x + 4.16666667e-2f; \
        y = y * x + 1.66666667e-1f; \
        y = y * x + 0.5f; \
        return fabs(x) < 0.5f ? y * (x * x) + x : quick_exp(x) - 1.0f; \
    } \
    static inline __attribute__((overloadable)) F quick_erfc(F x) \
    { \
        const F a = fabs(x), t = 1.0f / (a * 0.5f + 1.0f); \
        F y = t * -6.0154941e-2f + 2.89665937e-1f; \
        y = y * t - 4.97271866e-1f; \
        y = y * t + 2.89005101e-1f; \
        y = y * t - 3.37246135e-2f; \
        y = y * t + 2.05492795e-1f; \
        y = y * t + 2.42447361e-1f; \
        y = y * t + 2.82458037e-1f; \
        y = y * t + 2.8208214e-1f; \
        y = y * t * quick_exp(-(a * a)); \
        return x < 0.0f ? 2.0f - y : y; \
    } \
    static inline __attribute__((overloadable)) F quick_max(F x, F y) \
    { \
        const F m = x > y ? x : y; \
        return y != y ? x : m; \
    } \
    static inline __attribute__((overloadable)) F quick_min(F x, F y) \
    { \
        const F m = x < y ? x : y; \
        return y != y ? x : m; \
    }
QUICK_OF(float) QUICK_OF(float2) QUICK_OF(float4) QUICK_OF(float8) QUICK_OF(float16)
#undef QUICK_OF
#ifdef cl_khr_fp64
#define DOUBLE_OF(NAME, BUILTIN) \
    static inline __attribute__((overloadable)) double NAME(double x) \
    { \
        return BUILTIN(x); \
    }
DOUBLE_OF(quick_exp, exp) DOUBLE_OF(quick_tanh, tanh) DOUBLE_OF(quick_expm1, expm1)
DOUBLE_OF(quick_erfc, erfc)
#undef DOUBLE_OF
static inline __attribute__((overloadable)) double quick_max(double x, double y)
{
    return fmax(x, y);
}
static inline __attribute__((overloadable)) double quick_min(double x, double y)
{
    return fmin(x, y);
}
#endif
#endif
