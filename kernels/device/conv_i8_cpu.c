/* Convolution and products of matrices of 8-bit integers on a CPU: MR pixels by NV vectors of 16
   channels in registers. What a tile of pixels sees is copied first, as unsigned
   bytes, which FLIP makes of signed ones; outside of the input all bytes are PADDING. Weights are
   signed and come in blocks of NV vectors: with DOT4 [block][DEPTH / 4][channel][4], else
   [block][DEPTH][channel]. Where they were moved to be signed, SUM_FACTOR times the sum of what a
   pixel sees is added. A work-item does ROWS pixels and SHARE blocks. The last tile and the last
   vector of channels are moved back to the end. With IN_PLACE nothing is copied, with FLAT a tile
   is copied at once. */
#define VALUES VEC(i32, 16)
#define FIRST(j) (16 * (block * NV + j) + 16 <= N || N < 16 ? 16 * (block * NV + j) : N - 16)
#define ZERO(m, j) VALUES s##m##_##j = VSPLAT(i32, 16, 0);
#define ROW_ZERO(m) EACH_VECTOR(ZERO, m)
#if DOT4
#define STEPS (DEPTH / 4)
#define SEEN_TYPE i32
#define WEIGHT(m, j) const VALUES w##j = VLOAD(16, w + j * 16);
#define PRODUCT(m, j) s##m##_##j = DOT4_U8I8(s##m##_##j, x##m, w##j);
#else
#define STEPS DEPTH
#define SEEN_TYPE u8
#define WEIGHT(m, j) const VALUES w##j = VCONVERT(i32, 16, VLOAD(16, w + j * 16));
#define PRODUCT(m, j) s##m##_##j = MAD(x##m, w##j, s##m##_##j);
#endif
#define ROW_PRODUCT(m) { \
    const VALUES x##m = VSPLAT(i32, 16, seen##m[k]); \
    EACH_VECTOR(PRODUCT, m) }
#define SPILL(m, j) sums[m * NV + j] = s##m##_##j;
#define ROW_SPILL(m) EACH_VECTOR(SPILL, m)
#if IN_PLACE
#define SEEN(m) CONST_ARG SEEN_TYPE* seen##m = (CONST_ARG SEEN_TYPE*)(IN0 + t0 * C + m * DEPTH);
#else
#define SEEN(m) const SEEN_TYPE* seen##m = (const SEEN_TYPE*)(panel + m * DEPTH);
#endif

KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 begin = GID1 * ROWS, end = begin + ROWS < M ? begin + ROWS : M;
    const i32 last = (GID0 + 1) * SHARE < BLOCKS ? (GID0 + 1) * SHARE : BLOCKS;
#if !IN_PLACE
    VALUES words[MR * DEPTH / 64 + 2];
    u8* panel = (u8*)words;
#endif
    for (i32 m0 = begin; m0 < end; m0 += MR) {
        const i32 t0 = m0 < M - MR ? m0 : M - MR, rows = end - t0 < MR ? end - t0 : MR;
#if FLAT
        copy_bytes(panel, (CONST_ARG u8*)(IN0 + t0 * C), MR * C, FLIP);
#elif !IN_PLACE
        i32 ox = t0 % OW, oy = t0 / OW % OH, image = t0 / (OH * OW) * H;
        for (i32 m = 0; m < MR; m++) {
            const i32 y0 = oy * SH - PT, x0 = ox * SW - PL;
            u8* row = panel + m * DEPTH;
            for (i32 ky = 0; ky < KH; ky++) {
                const i32 y = y0 + ky * DH, at = ((image + y) * W + x0) * C;
                u8* to = row + ky * (KW * C);
                CONST_ARG u8* from = (CONST_ARG u8*)IN0 + at;
#if PADS
                if (y < 0 || y >= H) {
                    for (i32 i = 0; i < KW * C; i++)
                        to[i] = PADDING;
                } else if (DW > 1 || x0 < 0 || x0 + KW > W) {
                    for (i32 kx = 0; kx < KW; kx++)
                        if (x0 + kx * DW < 0 || x0 + kx * DW >= W)
                            for (i32 i = 0; i < C; i++)
                                to[kx * C + i] = PADDING;
                        else
                            copy_bytes(to + kx * C, from + kx * DW * C, C, FLIP);
                } else
#endif
                if (DW > 1)
                    for (i32 kx = 0; kx < KW; kx++)
                        copy_bytes(to + kx * C, from + kx * DW * C, C, FLIP);
                else if (KW * C >= 16 || at + 16 > SIZE)
                    copy_bytes(to, from, KW * C, FLIP);
                else  /* more than is needed: what follows is written later */
                    VSTORE(16, VLOAD(16, from) ^ VSPLAT(u8, 16, FLIP), to);
            }
            for (i32 i = KH * KW * C; i < DEPTH; i++)
                row[i] = 0;
            if (++ox == OW) {
                ox = 0;
                if (++oy == OH) {
                    oy = 0;
                    image += H;
                }
            }
        }
#endif
#if SUM_FACTOR
        i32 terms[MR];
        for (i32 m = 0; m < MR; m++) {
#if IN_PLACE
            CONST_ARG u8* row = (CONST_ARG u8*)(IN0 + (t0 + m) * C);
#else
            const u8* row = panel + m * DEPTH;
#endif
            i32 sum = 0;
            for (i32 i = 0; i < KH * KW * C; i++)
                sum += row[i];
            terms[m] = sum * SUM_FACTOR;
        }
#endif
        EACH_ROW(SEEN)
        for (i32 block = GID0 * SHARE; block < last; block++) {
            CONST_ARG WT* w = IN1 + block * (STEPS * NV * 16);
            EACH_ROW(ROW_ZERO)
            for (i32 k = 0; k < STEPS; k++) {
                EACH_VECTOR(WEIGHT, 0)
                w += NV * 16;
                EACH_ROW(ROW_PRODUCT)
            }
            VALUES sums[MR * NV];
            EACH_ROW(ROW_SPILL)
            for (i32 j = 0; j < NV; j++) {
                const i32 n = FIRST(j);
                if (16 * (block * NV + j) >= N)
                    break;
                CONSTANTS(n)
                for (i32 m = m0 - t0; m < rows; m++) {
                    VALUES v = sums[m * NV + j] + bias;
#if SUM_FACTOR
                    v += VSPLAT(i32, 16, terms[m]);
#endif
                    v = REQUANTISE(v);
                    const i32 at = (t0 + m) * N + n;
#ifdef OUT
                    /* of few channels the rest is written later */
                    if (N >= 16 || at + 16 <= end * N) {
                        VSTORE(16, VCONVERT(XT, 16, v), OUT + at);
                        continue;
                    }
#elif defined(STORE_VECTOR)
                    if (N >= 16) {
                        STORE_VECTOR(16, at, v - VSPLAT(i32, 16, LIFT));
                        continue;
                    }
#endif
                    i32 stored[16];
                    VSTORE(16, v, stored);
                    for (i32 i = 0; i < (N < 16 ? N : 16); i++)
                        STORE(at + i, stored[i] - LIFT);
                }
            }
        }
    }
}
#undef VALUES
#undef FIRST
#undef ZERO
#undef ROW_ZERO
#undef STEPS
#undef WEIGHT
#undef PRODUCT
#undef ROW_PRODUCT
#undef SPILL
#undef ROW_SPILL
#undef SEEN
#undef SEEN_TYPE
