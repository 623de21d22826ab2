/* Depthwise convolution of 8-bit integers on a CPU: tiles of TX neighbouring pixels of 16 channels.
   A column of input pixels is read once for all windows of the tile that see it: EACH_COLUMN says
   which columns these are and what becomes of them. With DOT4 four rows of a column go into one
   product. Bytes are unsigned, which FLIP makes of signed ones, weights signed:
   [vector][KW][rows of a column][channel]. Where weights were moved to be signed, SUM_FACTOR times
   the sum of what a window sees (ONES_g: 1 for each row of group g) is added. IN2: 16 bytes of
   padding. A work-item does ROWS rows and SHARE vectors; the last vector and the last tile of a row
   are moved back to the end. */
#define VALUES VEC(i32, 16)
#define LINE(k) \
    const i32 y##k = top + k * DH, inside##k = !PADY || (y##k >= 0 && y##k < H); \
    CONST_ARG u8* line##k = inside##k ? (CONST_ARG u8*)IN0 + image + y##k * (W * C) + n : IN2; \
    const i32 step##k = inside##k ? C : 0;
#define WEIGHT(k, g) const VALUES w##k##_##g = LOAD_WEIGHTS(w + (k * GROUPS + g) * 16);
#define ROW(k, i) VCONVERT(i32, 16, VLOAD(16, line##k + x##i * step##k))
#define GATHER(i, g) c##i##_##g = (GATHER_##g(i)) ^ VSPLAT(i32, 16, FLIPS);
#define EMPTY(i, g) VALUES c##i##_##g = VSPLAT(i32, 16, PADDINGS);
#define COLUMN(i) \
    const i32 x##i = left + i; \
    EACH_GROUP(EMPTY, i) \
    if (!PADX || (x##i >= 0 && x##i < W)) { EACH_GROUP(GATHER, i) }
#if DOT4
#define LOAD_WEIGHTS(p) VLOAD(16, p)
#define FLIPS (i32)(FLIP * 0x01010101u)
#define PADDINGS (i32)(PADDING * 0x01010101u)
#define ADDED(s, x, w) s = DOT4_U8I8(s, x, w);
#else
#define LOAD_WEIGHTS(p) VCONVERT(i32, 16, VLOAD(16, p))
#define FLIPS FLIP
#define PADDINGS PADDING
#define ADDED(s, x, w) s = MAD(x, w, s);
#endif
#if SUM_FACTOR
#define ZERO(t) VALUES s##t = VSPLAT(i32, 16, 0), all##t = VSPLAT(i32, 16, 0);
#define PRODUCT(t, i, k, g) \
    ADDED(s##t, c##i##_##g, w##k##_##g) ADDED(all##t, c##i##_##g, VSPLAT(i32, 16, ONES_##g))
#define SUM(t) (s##t + all##t * VSPLAT(i32, 16, SUM_FACTOR))
#else
#define ZERO(t) VALUES s##t = VSPLAT(i32, 16, 0);
#define PRODUCT(t, i, k, g) ADDED(s##t, c##i##_##g, w##k##_##g)
#define SUM(t) s##t
#endif
#ifdef OUT
#define PUT(t) { \
    const VALUES v = SUM(t) + bias; \
    VSTORE(16, VCONVERT(XT, 16, REQUANTISE(v)), OUT + at + t * C); }
#elif defined(STORE_VECTOR)
#define PUT(t) { \
    const VALUES v = SUM(t) + bias; \
    STORE_VECTOR(16, at + t * C, REQUANTISE(v) - VSPLAT(i32, 16, LIFT)); }
#else
#define PUT(t) { \
    const VALUES v = SUM(t) + bias; \
    i32 stored[16]; \
    VSTORE(16, REQUANTISE(v), stored); \
    for (i32 j = 0; j < 16; j++) \
        STORE(at + t * C + j, stored[j] - LIFT); }
#endif

KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 begin = GID1 * ROWS, end = begin + ROWS < M / OW ? begin + ROWS : M / OW;
    const i32 last = (GID0 + 1) * SHARE < SETS ? (GID0 + 1) * SHARE : SETS;
    for (i32 row = begin; row < end; row++) {
        const i32 top = row % OH * SH - PT, image = row / OH * (H * W * C);
        for (i32 vector = GID0 * SHARE; vector < last; vector++) {
            const i32 n = vector * 16 + 16 <= C ? vector * 16 : C - 16;
            CONST_ARG WT* w = IN1 + vector * (KW * GROUPS * 16);
            CONSTANTS(n)
            EACH_WEIGHT
            EACH_LINE
            for (i32 tile = 0; tile < OW; tile += TX) {
                const i32 ox = tile < OW - TX ? tile : OW - TX, left = ox * SW - PL;
                const i32 at = (row * OW + ox) * C + n;
                EACH_SUM(ZERO)
                EACH_COLUMN
                EACH_SUM(PUT)
            }
        }
    }
}
#undef VALUES
#undef LINE
#undef WEIGHT
#undef ROW
#undef GATHER
#undef EMPTY
#undef COLUMN
#undef LOAD_WEIGHTS
#undef FLIPS
#undef PADDINGS
#undef ADDED
#undef ZERO
#undef PRODUCT
#undef SUM
#undef PUT
