/* Pooling of 8-bit integers on a CPU, 16 channels at a time; the last vector is moved back to the end.
   FINISH(v, count, inverse) makes the results of vectors of i32. A work-item does ROWS rows. */
#define VALUES VEC(i32, 16)
#if MAXIMUM
#define FOLDED VEC(XT, 16)
#define FIRST VSPLAT(XT, 16, START)
#define FOLD(a, v) ((v) > (a) ? (v) : (a))
#else
#define FOLDED VALUES
#define FIRST VSPLAT(i32, 16, 0)
#define FOLD(a, v) ((a) + VCONVERT(i32, 16, v))
#endif

KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 begin = GID0 * ROWS, end = begin + ROWS < M / OW ? begin + ROWS : M / OW;
    for (i32 row = begin; row < end; row++) {
        const i32 y0 = row % OH * SH - PT, image = row / OH * (H * W * C);
        const i32 top = y0 < 0 ? 0 : y0, bottom = y0 + KH < H ? y0 + KH : H;
        for (i32 ox = 0; ox < OW; ox++) {
            const i32 x0 = ox * SW - PL;
            const i32 left = x0 < 0 ? 0 : x0, right = x0 + KW < W ? x0 + KW : W;
            const i32 count = (bottom - top) * (right - left);
            const f32 inverse = 1.0f / (f32)count;
            for (i32 from = 0; from < C; from += 16) {
                const i32 c = from + 16 <= C ? from : C - 16, at = (row * OW + ox) * C + c;
                FOLDED folded = FIRST;
                for (i32 y = top; y < bottom; y++)
                    for (i32 x = left; x < right; x++) {
                        const VEC(XT, 16) v = VLOAD(16, IN0 + image + (y * W + x) * C + c);
                        folded = FOLD(folded, v);
                    }
                const VALUES v = FINISH(VCONVERT(i32, 16, folded), count, inverse);
#ifdef STORE_VECTOR
                STORE_VECTOR(16, at, v);
#else
                i32 stored[16];
                VSTORE(16, v, stored);
                for (i32 j = 0; j < 16; j++)
                    STORE(at + j, stored[j]);
#endif
            }
        }
    }
}
#undef VALUES
#undef FOLDED
#undef FIRST
#undef FOLD
