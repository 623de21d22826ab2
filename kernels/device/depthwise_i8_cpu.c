/* Depthwise convolution: PIXELS outputs in turn of VW channels; weights are [tap][N]. */
#if VW == 1
#define SUMS ACC
#define INPUT(p) ((ACC)*(p))
#define WEIGHTS(p) ((ACC)*(p))
#define SPLAT(v) ((ACC)(v))
#else
#define SUMS VEC(ACC, VW)
#define SPLAT(v) VSPLAT(ACC, VW, v)
#if INTEGER
#define INPUT(p) VCONVERT(i32, VW, VLOAD(VW, p))
#define WEIGHTS(p) VCONVERT(i32, VW, VLOAD(VW, p))
#else
#define INPUT(p) VLOAD(VW, p)
#define WEIGHTS(p) VLOAD(VW, p)
#endif
#endif

KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 n0 = GID0 * VW;
    const i32 begin = GID1 * PIXELS, end = begin + PIXELS < M ? begin + PIXELS : M;
    for (i32 m = begin; m < end; m++) {
        const i32 y0 = m / OW % OH * SH - PT, x0 = m % OW * SW - PL;
        CONST_ARG XT* image = IN0 + m / (OH * OW) * (H * W * C) + n0 / MULTIPLIER;
        SUMS sum = SPLAT(0);
        const i32 top = y0 < 0 ? (-y0 + DH - 1) / DH : 0, left = x0 < 0 ? (-x0 + DW - 1) / DW : 0;
        const i32 low = y0 + (KH - 1) * DH < H ? KH : (H - y0 + DH - 1) / DH;
        const i32 right = x0 + (KW - 1) * DW < W ? KW : (W - x0 + DW - 1) / DW;
        for (i32 ky = top; ky < low; ky++)
            for (i32 kx = left; kx < right; kx++) {
                const SUMS v = INPUT(image + ((y0 + ky * DH) * W + x0 + kx * DW) * C) - SPLAT(ZERO);
                sum = MAD(v, WEIGHTS(IN1 + (ky * KW + kx) * N + n0), sum);
            }
#if VW == 1
        STORE(m * N + n0, FINISH(n0, sum));
#else
        ACC sums[VW];
        VSTORE(VW, sum, sums);
        for (i32 j = 0; j < VW; j++)
            STORE(m * N + n0 + j, FINISH(n0 + j, sums[j]));
#endif
    }
}
#undef SUMS
#undef INPUT
#undef WEIGHTS
#undef SPLAT
