/* Reductions: output i combines COUNT inputs, LANES neighbouring outputs for a work-item; SPLIT
   work-items share the inputs of one. BASE(i) is the input where output i begins, STEP(k) how far
   from it element k lies. ALONG: k and the next ones lie side by side, and are combined in as many
   parts, which need not wait for each other. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 i0 = GID0 * LANES, part = GID1;
    if (i0 >= SIZE || part >= SPLIT)
        return;
    const i32 base = BASE(i0);
#if INTERLEAVED
    i32 k = part;
    const i32 last = COUNT;
#else
    i32 k = part * (COUNT / SPLIT) + (part < COUNT % SPLIT ? part : COUNT % SPLIT);
    const i32 last = k + COUNT / SPLIT + (part < COUNT % SPLIT);
#endif
    ACC folded[LANES];
    for (i32 j = 0; j < LANES; j++)
        folded[j] = START;
#if ALONG > 1
    const i32 j = 0;
    ACC parts[ALONG];
    for (i32 p = 0; p < ALONG; p++)
        parts[p] = START;
    for (; k + ALONG <= last; k += ALONG)
        for (i32 p = 0; p < ALONG; p++)
            parts[p] = COMBINE(parts[p], LOAD0(base + k + p));
    for (; k < last; k++)
        folded[0] = COMBINE(folded[0], LOAD0(base + k));
    for (i32 fold = ALONG / 2; fold > 0; fold /= 2)
        for (i32 p = 0; p < fold; p++)
            parts[p] = COMBINE(parts[p], parts[p + fold]);
    folded[0] = COMBINE(folded[0], parts[0]);
    STORE(part * SIZE + i0, FINISH(folded[0]));
#else
    for (; k < last; k += INTERLEAVED ? SPLIT : 1) {
        const i32 at = base + STEP(k);
        for (i32 j = 0; j < LANES; j++)
            folded[j] = COMBINE(folded[j], LOAD0(at + j));
    }
    for (i32 j = 0; j < LANES; j++)
        STORE(part * SIZE + i0 + j, FINISH(folded[j]));
#endif
}
