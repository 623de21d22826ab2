/* Convolution and products of matrices on a CPU: MR output pixels by NV vectors of VW channels in
   registers. Weights come in blocks of NV * VW channels: [block][tap][C][channel]. Pixels outside
   the input read IN2, C values of padding. FINISH(n, sum) makes the result of channel n. */
#define NR (NV * VW)
#define SUMS VEC(ACC, VW)
#if INTEGER
#define WEIGHTS(p) VCONVERT(i32, VW, VLOAD(VW, p))
#else
#define WEIGHTS(p) VLOAD(VW, p)
#endif
#if NV == 2
#define SECOND(text) text
#else
#define SECOND(text)
#endif
#define BEGIN(m) \
    const i32 p##m = m0 + m < M ? m0 + m : M - 1; \
    const i32 y##m = p##m / OW % OH * SH - PT, x##m = p##m % OW * SW - PL; \
    CONST_ARG XT* image##m = IN0 + p##m / (OH * OW) * (H * W * C); \
    SUMS a##m = VSPLAT(ACC, VW, 0); \
    SECOND(SUMS b##m = VSPLAT(ACC, VW, 0);)
#if PADS
#define POINT(m) \
    const i32 row_##m = y##m + ky * DH, column_##m = x##m + kx * DW; \
    CONST_ARG XT* q##m = \
        row_##m >= 0 && row_##m < H && column_##m >= 0 && column_##m < W \
            ? image##m + (row_##m * W + column_##m) * C : IN2;
#else
#define POINT(m) CONST_ARG XT* q##m = image##m + ((y##m + ky * DH) * W + x##m + kx * DW) * C;
#endif
#define STEP(m) { \
    const SUMS v = VSPLAT(ACC, VW, q##m[c]); \
    a##m = MAD(v, w0, a##m); \
    SECOND(b##m = MAD(v, w1, b##m);) }
#define SPILL(m) VSTORE(VW, a##m, sums + m * NR); SECOND(VSTORE(VW, b##m, sums + m * NR + VW);)

KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 n0 = GID0 * NR, m0 = GID1 * MR;
    CONST_ARG WT* weights = IN1 + n0 * (KH * KW * C);
    EACH_ROW(BEGIN)
    for (i32 ky = 0; ky < KH; ky++)
        for (i32 kx = 0; kx < KW; kx++) {
            EACH_ROW(POINT)
            for (i32 c = 0; c < C; c++) {
                const SUMS w0 = WEIGHTS(weights);
                SECOND(const SUMS w1 = WEIGHTS(weights + VW);)
                weights += NR;
                EACH_ROW(STEP)
            }
        }
    ACC sums[MR * NR];
    EACH_ROW(SPILL)
    const i32 rows = M - m0 < MR ? M - m0 : MR;
    for (i32 r = 0; r < rows; r++) {
        if (n0 + NR <= N)
            for (i32 j = 0; j < NR; j++)
                STORE((m0 + r) * N + n0 + j, FINISH(n0 + j, sums[r * NR + j]));
        else
            for (i32 j = 0; j < N - n0; j++)
                STORE((m0 + r) * N + n0 + j, FINISH(n0 + j, sums[r * NR + j]));
    }
}
#undef NR
#undef SUMS
#undef WEIGHTS
#undef SECOND
#undef BEGIN
#undef POINT
#undef STEP
#undef SPILL
