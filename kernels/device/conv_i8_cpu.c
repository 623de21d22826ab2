/* Convolution and products of matrices of 8-bit integers on a CPU: tiles of TY x TX output pixels by
   NV vectors of 16 channels in registers. A pixel of a tile sees runs of RUN neighbouring bytes, KW
   pixels or one, which are read where they lie: in the input or, where COPIED, in a copy of it,
   PADDING around. With DOT4 four bytes go into one product: inputs as unsigned bytes, which FLIP
   makes of signed ones in the copy, weights as signed ones: [block][run][RUN / 4][channel][4], with
   zeros where a run has no more bytes; else [block][run][RUN][channel]. Where weights were moved to
   be signed, SUM_FACTOR times the sum of what a pixel sees is added. A work-item does BANDY x BANDX
   tiles of one image and SHARE blocks. The last vector of channels of a group and the last tile of
   a row or column are moved back to the edge; such a tile stores what the one before does not. */
#define VALUES VEC(i32, 16)
#define EACH (N / GROUPS)
#define FIRST(j) (16 * (j) + 16 <= EACH || EACH < 16 ? 16 * (j) : EACH - 16)
#if COPIED
#define BYTES const u8*
#else
#define BYTES CONST_ARG XT*
#endif
#if DOT4
#define STEPS ((RUN + 3) / 4)
#define FACTOR(p, k) WORD_AT((p) + 4 * (k))
#define WEIGHT(m, j) const VALUES w##j = VLOAD(16, w + j * 16);
#define PRODUCT(m, j) s##m##_##j = DOT4_U8I8(s##m##_##j, x##m, w##j);
#else
#define STEPS RUN
#define FACTOR(p, k) ((CONST_XT*)(p))[k]
#define WEIGHT(m, j) const VALUES w##j = VCONVERT(i32, 16, VLOAD(16, w + j * 16));
#define PRODUCT(m, j) s##m##_##j = MAD(x##m, w##j, s##m##_##j);
#if COPIED
#define CONST_XT const XT
#else
#define CONST_XT CONST_ARG XT
#endif
#endif
#define ZERO(m, j) VALUES s##m##_##j = VSPLAT(i32, 16, 0);
#define ROW_ZERO(m, in) EACH_VECTOR(ZERO, m)
#define ROW_PRODUCT(m, in) { \
    const VALUES x##m = VSPLAT(i32, 16, FACTOR(x + in, k)); \
    EACH_VECTOR(PRODUCT, m) }
#define SPILL(m, j) sums[m * NV + j] = s##m##_##j;
#define ROW_SPILL(m, in) EACH_VECTOR(SPILL, m)

KERNEL void KERNEL_NAME(PARAMETERS)
{
    MY_BAND(GID1)
    CONST_ARG XT* image = IN0 + n * (H * W * C);
#if COPIED
    const i32 first = x0 * SW - PL, columns = (right - 1 - x0) * SW + (KW - 1) * DW + 1;
    const i32 rows = (bottom - 1 - y0) * SH + (KH - 1) * DH + 1;
    VALUES words[PATCH / 64 + 1];
    u8* patch = (u8*)words;
    for (i32 r = 0; r < rows; r++) {
        const i32 y = y0 * SH - PT + r;
        u8* to = patch + r * PITCH;
        const i32 inside = y >= 0 && y < H, before = first < 0 ? -first : 0;
        const i32 a = inside && before < columns ? before : columns;
        const i32 z = a < W - first && W - first < columns ? W - first : a < W - first ? columns : a;
        for (i32 i = 0; i < a * C; i++)
            to[i] = PADDING;
        if (a < z) {
            CONST_ARG u8* from = (CONST_ARG u8*)image + (y * W + first + a) * C;
            copy_bytes(to + a * C, from, (z - a) * C, FLIP, C % 4 == 0);
        }
        for (i32 i = z * C; i < columns * C; i++)
            to[i] = PADDING;
        for (i32 i = columns * C; i < PITCH; i++) /* zero weights meet these */
            to[i] = 0;
    }
#define SEEN(oy, ox) \
    (patch + ((oy - y0) * SH + ky * DH) * PITCH + ((ox - x0) * SW + kx * DW) * C + group * DEPTH)
#else
#define SEEN(oy, ox) (image + (oy * SH + ky * DH) * PITCH + (ox * SW + kx * DW) * C + group * DEPTH)
#endif
#if SUM_FACTOR
    i32 terms[BANDY * TY * BANDX * TX];
    for (i32 oy = y0; oy < bottom; oy++)
        for (i32 ox = x0; ox < right; ox++) {
            const i32 group = 0;
            i32 sum = 0;
            for (i32 ky = 0; ky < KH; ky++)
                for (i32 kx = 0; kx < KW * DEPTH / RUN; kx++) {
                    BYTES x = SEEN(oy, ox);
                    for (i32 i = 0; i < RUN; i++)
                        sum += x[i];
                }
            terms[(oy - y0) * (BANDX * TX) + ox - x0] = sum * SUM_FACTOR;
        }
#endif
    const i32 end = (GID0 + 1) * SHARE < BLOCKS ? (GID0 + 1) * SHARE : BLOCKS;
    for (i32 block = GID0 * SHARE; block < end; block++) {
        const i32 group = block / (BLOCKS / GROUPS), vector = block % (BLOCKS / GROUPS) * NV;
        const i32 vectors = (EACH + 15) / 16 - vector < NV ? (EACH + 15) / 16 - vector : NV;
        for (i32 ty = top; ty < bottom; ty += TY)
            for (i32 tx = left; tx < right; tx += TX) {
                const i32 oy = ty < OH - TY ? ty : OH - TY, ox = tx < OW - TX ? tx : OW - TX;
                CONST_ARG WT* w = IN1 + block * (KH * (KW * DEPTH / RUN) * STEPS * NV * 16);
                EACH_ROW(ROW_ZERO)
                for (i32 ky = 0; ky < KH; ky++)
                    for (i32 kx = 0; kx < KW * DEPTH / RUN; kx++) {
                        BYTES x = SEEN(oy, ox);
                        for (i32 k = 0; k < STEPS; k++) {
                            EACH_VECTOR(WEIGHT, 0)
                            w += NV * 16;
                            EACH_ROW(ROW_PRODUCT)
                        }
                    }
                VALUES sums[TY * TX * NV];
                EACH_ROW(ROW_SPILL)
                for (i32 j = 0; j < vectors; j++) {
                    const i32 c = group * EACH + FIRST(vector + j);
                    CONSTANTS(c)
                    for (i32 y = ty - oy; y < TY; y++) {
                        const i32 at = ((n * OH + oy + y) * OW + ox) * N + c;
#if EACH < 16
                        i32 line[TX * N + 16]; /* pixels side by side: what is more is written later */
#endif
                        for (i32 x = tx - ox; x < TX; x++) {
                            VALUES v = sums[(y * TX + x) * NV + j] + bias;
#if SUM_FACTOR
                            const i32 pixel = (oy + y - y0) * (BANDX * TX) + ox + x - x0;
                            v += VSPLAT(i32, 16, terms[pixel]);
#endif
                            v = REQUANTISE(v) - VSPLAT(i32, 16, LIFT);
#if EACH < 16
                            VSTORE(16, v, line + x * N);
#elif defined(STORE_VECTOR)
                            STORE_VECTOR(16, at + x * N, v);
#else
                            i32 stored[16];
                            VSTORE(16, v, stored);
                            for (i32 i = 0; i < 16; i++)
                                STORE(at + x * N + i, stored[i]);
#endif
                        }
#if EACH < 16
                        i32 i = (tx - ox) * N;
#ifdef STORE_VECTOR
                        for (; i + 16 <= TX * N; i += 16)
                            STORE_VECTOR(16, at + i, VLOAD(16, line + i));
#endif
                        for (; i < TX * N; i++)
                            STORE(at + i, line[i]);
#endif
                    }
                }
            }
    }
}
#undef VALUES
#undef EACH
#undef FIRST
#undef BYTES
#undef STEPS
#undef FACTOR
#undef CONST_XT
#undef WEIGHT
#undef PRODUCT
#undef ZERO
#undef ROW_ZERO
#undef ROW_PRODUCT
#undef SPILL
#undef ROW_SPILL
#undef SEEN
