/* Place of the greatest (or least: BETTER) of COUNT values, LANES neighbouring outputs for a
   work-item; of equals the first. BASE(i) is the input where output i begins, STRIDE how far apart
   its values lie. NaN do not count. LANES_OF_FOUR: where there are some, as the reference compares
   contiguous values: element i in lane i % 4, and a lane of NaN alone spoils what it meets. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 i0 = GID0 * LANES;
    if (i0 >= SIZE)
        return;
    const i32 base = BASE(i0);
    ACC best[LANES];
    i32 place[LANES];
    for (i32 j = 0; j < LANES; j++) {
        best[j] = LOAD0(base + j);
        place[j] = 0;
    }
#if FLOATS
    i32 holes = 0;
    for (i32 k = 0; k < COUNT; k++)
        for (i32 j = 0; j < LANES; j++) {
            const ACC v = LOAD0(base + k * STRIDE + j);
            const i32 wins = BETTER(v, best[j]) || (best[j] != best[j] && v == v);
            holes |= v != v;
            best[j] = wins ? v : best[j];
            place[j] = wins ? k : place[j];
        }
#if LANES_OF_FOUR
    if (holes) {
        const i32 whole = COUNT / 4 * 4;
        ACC value[4];
        i32 at[4];
        for (i32 j = 0; j < 4; j++) {
            value[j] = LOAD0(base + j);
            at[j] = j;
            for (i32 k = j; k < whole; k += 4) {
                const ACC v = LOAD0(base + k);
                const i32 wins = BETTER(v, value[j]) || (value[j] != value[j] && v == v);
                value[j] = wins ? v : value[j];
                at[j] = wins ? k : at[j];
            }
        }
        const ACC left = BETTER(value[1], value[0]) ? value[1] : value[0];
        const ACC right = BETTER(value[3], value[2]) ? value[3] : value[2];
        best[0] = BETTER(right, left) ? right : left;
        place[0] = whole;
        for (i32 j = 0; j < 4; j++)
            if (value[j] == best[0] && at[j] < place[0])
                place[0] = at[j];
        for (i32 k = whole; k < COUNT; k++) {
            const ACC v = LOAD0(base + k);
            if (v == v && !(v == best[0] || BETTER(best[0], v))) {
                best[0] = v;
                place[0] = k;
            }
        }
        if (best[0] != best[0])
            place[0] = 0;
    }
#endif
#else
    for (i32 k = 1; k < COUNT; k++)
        for (i32 j = 0; j < LANES; j++) {
            const ACC v = LOAD0(base + k * STRIDE + j);
            const i32 wins = BETTER(v, best[j]);
            best[j] = wins ? v : best[j];
            place[j] = wins ? k : place[j];
        }
#endif
    for (i32 j = 0; j < LANES; j++)
        STORE(i0 + j, place[j]);
}
