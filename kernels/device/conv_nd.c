/* Convolution over depth, height and width, or (TRANSPOSED) its transpose, PIXELS outputs in turn of
   NV vectors of VW channels. Weights come as [tap][C][N]. A tap at k meets the input at
   o * S + k * DIL - P, or, transposed, at (o + P - k * DIL) / S where that is whole. */
#if VW == 1
#define SUMS ACC
#define WEIGHTS(p) ((ACC)*(p))
#define SPLAT(v) ((ACC)(v))
#define SPILL(v, p) (*(p) = (v))
#else
#define SUMS VEC(ACC, VW)
#define WEIGHTS(p) VLOAD(VW, p)
#define SPLAT(v) VSPLAT(ACC, VW, v)
#define SPILL(v, p) VSTORE(VW, v, p)
#endif
#if TRANSPOSED
#define MEETS(at, o, k, S, DIL, P, size) \
    const i32 at##_ = (o) + P - (k) * DIL, at = at##_ / S; \
    if (at##_ < 0 || at * S != at##_ || at >= size) continue;
#else
#define MEETS(at, o, k, S, DIL, P, size) \
    const i32 at = (o) * S + (k) * DIL - P; \
    if (at < 0 || at >= size) continue;
#endif

KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 n0 = GID0 * (NV * VW);
    const i32 begin = GID1 * PIXELS, end = begin + PIXELS < M ? begin + PIXELS : M;
    for (i32 m = begin; m < end; m++) {
        const i32 ox = m % OW, oy = m / OW % OH, oz = m / (OW * OH) % OD;
        const i32 image = m / (OW * OH * OD) * (D * H * W * C);
        SUMS sums[NV];
        for (i32 v = 0; v < NV; v++)
            sums[v] = SPLAT(0);
        for (i32 kz = 0; kz < KD; kz++) {
            MEETS(z, oz, kz, SD, DD, PD, D)
            for (i32 ky = 0; ky < KH; ky++) {
                MEETS(y, oy, ky, SH, DH, PH, H)
                for (i32 kx = 0; kx < KW; kx++) {
                    MEETS(x, ox, kx, SW, DW, PW, W)
                    const i32 from = image + ((z * H + y) * W + x) * C;
                    CONST_ARG f32* weights = IN1 + ((kz * KH + ky) * KW + kx) * (C * N) + n0;
                    for (i32 c = 0; c < C; c++) {
                        const SUMS value = SPLAT(LOAD0(from + c));
                        for (i32 v = 0; v < NV; v++)
                            sums[v] = MAD(value, WEIGHTS(weights + c * N + v * VW), sums[v]);
                    }
                }
            }
        }
        ACC spilled[NV * VW];
        for (i32 v = 0; v < NV; v++)
            SPILL(sums[v], spilled + v * VW);
        for (i32 j = 0; j < NV * VW; j++)
            STORE(m * N + n0 + j, FINISH(n0 + j, spilled[j]));
    }
}
#undef SUMS
#undef WEIGHTS
#undef SPLAT
#undef SPILL
#undef MEETS
