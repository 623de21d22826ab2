/* Depthwise convolution of floats on a CPU: tiles of TX output pixels of a row by VW channels in
   registers. Weights are [tap][N]. A work-item does SHARE blocks of channels of BAND rows. The last
   tile of a row is moved back to its end, the last block of channels to theirs: they store what the
   ones before do not. Rows of the kernel outside the input are left out; columns outside read 0, in
   the tiles at the edges alone. */
#define SUMS VEC(f32, VW)
#define BEGIN(t) SUMS s##t = bias;
#define WEIGHT(kx) const SUMS w##kx = VLOAD(VW, w + kx * N);
#define INNER(column) const SUMS v##column = VLOAD(VW, p + column * C);
#define EDGE(column) \
    const SUMS v##column = \
        x + column >= 0 && x + column < W ? VLOAD(VW, p + column * C) : VSPLAT(f32, VW, 0);
#define PRODUCT(t, column, kx) s##t = MAD(v##column, w##kx, s##t);
#define BLOCKS ((N + VW - 1) / VW)
#define LAST (N % VW) /* channels of the last block, where it is not a whole one */
#ifdef STORE_VECTOR
#define SAVE(t) if (t >= tx - ox) STORE_VECTOR(VW, at + t * N, FINISH_VECTOR(s##t));
#define SAVE_LAST(t) \
    if (t >= tx - ox) { \
        VSTORE(VW, FINISH_VECTOR(s##t), lanes); \
        for (i32 i = VW - LAST; i < VW; i++) \
            STORE(at + t * N + i, lanes[i]); \
    }
#else
#define SAVE_FROM(t, first) \
    if (t >= tx - ox) { \
        VSTORE(VW, s##t, lanes); \
        for (i32 i = first; i < VW; i++) \
            STORE(at + t * N + i, FINISH(lanes[i])); \
    }
#define SAVE(t) SAVE_FROM(t, 0)
#define SAVE_LAST(t) SAVE_FROM(t, VW - LAST)
#endif

KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 end = (GID0 + 1) * SHARE < BLOCKS ? (GID0 + 1) * SHARE : BLOCKS;
    const i32 begin = GID1 * BAND, stop = begin + BAND < ROWS ? begin + BAND : ROWS;
    for (i32 block = GID0 * SHARE; block < end; block++) {
        const i32 n0 = block * VW < N - VW ? block * VW : N - VW;
        const SUMS bias = VLOAD(VW, IN2 + n0);
        for (i32 row = begin; row < stop; row++) {
            const i32 y = row % OH * SH - PT;
            const i32 top = y < 0 ? (-y + DH - 1) / DH : 0;
            const i32 low = y + (KH - 1) * DH < H ? KH : (H - y + DH - 1) / DH;
            CONST_ARG f32* image = IN0 + (row / OH * H + y) * (W * C) + n0;
            for (i32 tx = 0; tx < OW; tx += TX) {
                const i32 ox = tx < OW - TX ? tx : OW - TX, x = ox * SW - PL;
                EACH_SUM(BEGIN)
                if (x >= 0 && x + (TX - 1) * SW + (KW - 1) * DW < W)
                    for (i32 ky = top; ky < low; ky++) {
                        CONST_ARG f32* p = image + (ky * DH * W + x) * C;
                        CONST_ARG f32* w = IN1 + ky * (KW * N) + n0;
                        EACH_WEIGHT(WEIGHT)
                        EACH_COLUMN(INNER)
                        EACH_PRODUCT(PRODUCT)
                    }
                else
                    for (i32 ky = top; ky < low; ky++) {
                        CONST_ARG f32* p = image + (ky * DH * W + x) * C;
                        CONST_ARG f32* w = IN1 + ky * (KW * N) + n0;
                        EACH_WEIGHT(WEIGHT)
                        EACH_COLUMN(EDGE)
                        EACH_PRODUCT(PRODUCT)
                    }
                const i32 at = (row * OW + ox) * N + n0;
                f32 lanes[VW];
                if (!LAST || n0 == block * VW) {
                    EACH_SUM(SAVE)
                } else {
                    EACH_SUM(SAVE_LAST)
                }
            }
        }
    }
}
#undef SUMS
#undef BEGIN
#undef WEIGHT
#undef INNER
#undef EDGE
#undef PRODUCT
#undef BLOCKS
#undef LAST
#undef SAVE
#undef SAVE_LAST
#undef SAVE_FROM
