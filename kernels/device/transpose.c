/* A transpose that moves the last dimension: tiles of TILE input rows (COLUMNS of the output) by
   TILE neighbours (ROWS of the output). Element (a, b) of matrix m lies at IN_BASE(m) + a * IN_ROW
   + b of the input, with b < ROWS, and at OUT_BASE(m) + b * OUT_ROW + a of the output. On CPUs a
   work-item does EACH of all TILES, SPAN rows of the output in each. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
#if SHARED
    LOCAL KIND tile[TILE * (TILE + 1)];
    const i32 tiles = (COLUMNS + TILE - 1) / TILE, m = GID1 / SIDE / tiles;
    const i32 a0 = GID1 / SIDE % tiles * TILE, b0 = GID0 / TILE * TILE;
    const i32 from = IN_BASE(m), to = OUT_BASE(m);
    for (i32 a = LID1; a < TILE; a += SIDE)
        if (a0 + a < COLUMNS && b0 + LID0 < ROWS)
            tile[a * (TILE + 1) + LID0] = LOAD0(from + (a0 + a) * IN_ROW + b0 + LID0);
    BARRIER();
    for (i32 b = LID1; b < TILE; b += SIDE)
        if (b0 + b < ROWS && a0 + LID0 < COLUMNS)
            STORE(to + (b0 + b) * OUT_ROW + a0 + LID0, tile[LID0 * (TILE + 1) + b]);
#else
    const i32 tiles = (COLUMNS + TILE - 1) / TILE;
    for (i32 t = GID1 * EACH; t < (GID1 + 1) * EACH && t < TILES; t++) {
        const i32 m = t / tiles, a0 = t % tiles * TILE, from = IN_BASE(m), to = OUT_BASE(m);
        const i32 a1 = a0 + TILE < COLUMNS ? a0 + TILE : COLUMNS;
        for (i32 b0 = GID0 * SPAN; b0 < (GID0 + 1) * SPAN && b0 < ROWS; b0 += TILE) {
            if (a1 - a0 == TILE && b0 + TILE <= ROWS) {
#if defined(STORE_VECTOR) && VECTORS
                /* small integers are floats for the way, and vectors of 16 */
                VEC(f32, TILE) tile[TILE];
                for (i32 a = 0; a < TILE; a++)
                    tile[a] = VCONVERT(f32, TILE, VLOAD(TILE, IN0 + from + (a0 + a) * IN_ROW + b0));
                TURN(tile);
                for (i32 b = 0; b < TILE; b++)
                    STORE_VECTOR(
                        TILE, to + (b0 + b) * OUT_ROW + a0, VCONVERT(KIND, TILE, tile[b]));
#else
                KIND tile[TILE * TILE];
                for (i32 a = 0; a < TILE; a++)
                    for (i32 b = 0; b < TILE; b++)
                        tile[a * TILE + b] = LOAD0(from + (a0 + a) * IN_ROW + b0 + b);
                for (i32 b = 0; b < TILE; b++)
                    for (i32 a = 0; a < TILE; a++)
                        STORE(to + (b0 + b) * OUT_ROW + a0 + a, tile[a * TILE + b]);
#endif
            } else
                for (i32 b = b0; b < b0 + TILE && b < ROWS; b++)
                    for (i32 a = a0; a < a1; a++)
                        STORE(to + b * OUT_ROW + a, LOAD0(from + a * IN_ROW + b));
        }
    }
#endif
}
