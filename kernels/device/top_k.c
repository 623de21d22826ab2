/* Places of the K greatest of each row of DEPTH values, the greatest first; of equals the first
   leads, NaN come last. AHEAD(a, i, b, j): whether value a at i comes before value b at j. */
#if FLOATS
#define AHEAD(a, i, b, j) ((a) > (b) || ((a) == (a) && (b) != (b)) || \
    (((a) == (b) || ((a) != (a) && (b) != (b))) && (i) < (j)))
#else
#define AHEAD(a, i, b, j) ((a) > (b) || ((a) == (b) && (i) < (j)))
#endif

KERNEL void KERNEL_NAME(PARAMETERS)
{
#if BY_ROW
    /* the best so far in order; most values are no better than the last of them */
    const i32 row = GID0, base = row * DEPTH, out = row * K;
    for (i32 i = 0; i < DEPTH; i++) {
        const ACC v = LOAD0(base + i);
        i32 at = i < K ? i : K;
        if (at == K) {
            const i32 worst = (i32)OUT[out + K - 1];
            if (!AHEAD(v, i, LOAD0(base + worst), worst))
                continue;
            at = K - 1;
        }
        while (at > 0) {
            const i32 before = (i32)OUT[out + at - 1];
            if (AHEAD(LOAD0(base + before), before, v, i))
                break;
            OUT[out + at] = OUT[out + at - 1];
            at--;
        }
        OUT[out + at] = i;
    }
#else
    /* how many come before it is the place of each */
    const i32 row = GID0 / DEPTH, i = GID0 % DEPTH, base = row * DEPTH;
    if (row >= ROWS)
        return;
    const ACC v = LOAD0(base + i);
    i32 rank = 0;
    for (i32 j = 0; j < DEPTH; j++)
        rank += AHEAD(LOAD0(base + j), j, v, i);
    if (rank < K)
        STORE(row * K + rank, i);
#endif
}
#undef AHEAD
