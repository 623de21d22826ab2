/* Convolution of floats on a CPU: tiles of TY x TX output pixels by NV vectors of VW channels in
   registers. Image n begins at IMAGE(n), its weights at WEIGHTS(n); these come in blocks of
   NR = NV * VW channels: [block][tap][DEPTH][channel], BIAS in the same blocks; or, with DIRECT, as
   [DEPTH][N] of at least NR, where the last block is moved back to the end. A work-item does
   BANDY x BANDX tiles of one image and SHARE blocks. The pixels of a tile lie at constant distances
   in memory: in the input itself or, where windows reach outside of it, in a copy with zeros around.
   The last tile of a row or column is moved back to the edge, and stores only what the one before
   does not. */
#define NR (NV * VW)
#define SUMS VEC(f32, VW)
#define ZERO(m, j) SUMS s##m##_##j = VLOAD(VW, BIAS + block * NR + j * VW);
#define ROW_ZERO(m, in, out) EACH_VECTOR(ZERO, m)
#define WEIGHT(m, j) const SUMS w##j = VLOAD(VW, w + j * VW);
#define PRODUCT(m, j) s##m##_##j = MAD(v##m, w##j, s##m##_##j);
#define ROW_PRODUCT(m, in, out) const SUMS v##m = VSPLAT(f32, VW, x[c + in]); EACH_VECTOR(PRODUCT, m)
#if DIRECT
#define LAST 0
#define NEXT N
#define BLOCK_AT(block) n0
#else
#define LAST (N / GROUPS % NR) /* channels of the last block, where it is not a whole one */
#define NEXT NR
#define BLOCK_AT(block) ((block) * (KH * KW * DEPTH * NR))
#endif
#define KEPT(m) (m / TX >= ty - oy && m % TX >= tx - ox)
#ifdef STORE_VECTOR
#define SAVE(m, j) STORE_VECTOR(VW, to + j * VW, FINISH_VECTOR(s##m##_##j));
#define SAVE_LAST(m, j) \
    if (j * VW + VW <= LAST) \
        SAVE(m, j) \
    else { \
        f32 lanes[VW]; \
        VSTORE(VW, FINISH_VECTOR(s##m##_##j), lanes); \
        for (i32 i = 0; i < LAST - j * VW; i++) \
            STORE(to + j * VW + i, lanes[i]); \
    }
#define ROW_SAVE(m, in, out) if (KEPT(m)) { const i32 to = at + out; EACH_VECTOR(SAVE, m) }
#define ROW_SAVE_LAST(m, in, out) if (KEPT(m)) { const i32 to = at + out; EACH_VECTOR(SAVE_LAST, m) }
#else
#define SPILL(m, j) VSTORE(VW, s##m##_##j, sums + j * VW);
#define ROW_STORE(m, out, count) \
    if (KEPT(m)) { \
        f32 sums[NR]; \
        EACH_VECTOR(SPILL, m) \
        for (i32 j = 0; j < count; j++) \
            STORE(at + out + j, FINISH(sums[j])); \
    }
#define ROW_SAVE(m, in, out) ROW_STORE(m, out, NR)
#define ROW_SAVE_LAST(m, in, out) ROW_STORE(m, out, LAST)
#endif

KERNEL void KERNEL_NAME(PARAMETERS)
{
    MY_BAND(GID1)
    CONST_ARG f32* image = IN0 + (IMAGE(n));
#if PADS
    const i32 first = x0 * SW - PL, columns = (right - 1 - x0) * SW + (KW - 1) * DW + 1;
    const i32 rows = (bottom - 1 - y0) * SH + (KH - 1) * DH + 1;
    f32 patch[PATCH];
    for (i32 r = 0; r < rows; r++) {
        const i32 y = y0 * SH - PT + r;
        f32* to = patch + r * PITCH;
        const i32 inside = y >= 0 && y < H, before = first < 0 ? -first : 0;
        const i32 a = inside && before < columns ? before : columns;
        const i32 z = a < W - first && W - first < columns ? W - first : a < W - first ? columns : a;
        CONST_ARG f32* from = image + (y * W + first) * C;
        for (i32 i = 0; i < a * C; i++)
            to[i] = 0;
        for (i32 i = a * C; i < z * C; i++)
            to[i] = from[i];
        for (i32 i = z * C; i < columns * C; i++)
            to[i] = 0;
    }
#endif
    const i32 end = (GID0 + 1) * SHARE < BLOCKS ? (GID0 + 1) * SHARE : BLOCKS;
    for (i32 block = GID0 * SHARE; block < end; block++) {
        const i32 group = block / (BLOCKS / GROUPS);
#if DIRECT
        const i32 n0 = block * NR < N - NR ? block * NR : N - NR;
#else
        const i32 n0 = group * (N / GROUPS) + block % (BLOCKS / GROUPS) * NR;
#endif
        const i32 units = (group + 1) * (N / GROUPS) - n0;
        for (i32 ty = top; ty < bottom; ty += TY)
            for (i32 tx = left; tx < right; tx += TX) {
                const i32 oy = ty < OH - TY ? ty : OH - TY, ox = tx < OW - TX ? tx : OW - TX;
                CONST_ARG f32* w = IN1 + (WEIGHTS(n)) + BLOCK_AT(block);
                EACH_ROW(ROW_ZERO)
                for (i32 ky = 0; ky < KH; ky++)
                    for (i32 kx = 0; kx < KW * DEPTH / RUN; kx++) {
#if PADS
                        const f32* x = patch + ((oy - y0) * SH + ky * DH) * PITCH
                            + ((ox - x0) * SW + kx * DW) * C + group * DEPTH;
#else
                        CONST_ARG f32* x = image + (oy * SH + ky * DH) * PITCH
                            + (ox * SW + kx * DW) * C + group * DEPTH;
#endif
                        for (i32 c = 0; c < RUN; c++) {
                            EACH_VECTOR(WEIGHT, 0)
                            w += NEXT;
                            EACH_ROW(ROW_PRODUCT)
                        }
                    }
                const i32 at = ((n * OH + oy) * OW + ox) * N + n0;
                if (!LAST || units >= NR) {
                    EACH_ROW(ROW_SAVE)
                } else {
                    EACH_ROW(ROW_SAVE_LAST)
                }
            }
    }
}
#undef NR
#undef SUMS
#undef ZERO
#undef ROW_ZERO
#undef WEIGHT
#undef PRODUCT
#undef ROW_PRODUCT
#undef LAST
#undef NEXT
#undef BLOCK_AT
#undef KEPT
#undef SAVE
#undef SAVE_LAST
#undef ROW_SAVE
#undef ROW_SAVE_LAST
#undef SPILL
#undef ROW_STORE
