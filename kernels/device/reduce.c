/* Reductions: each output combines COUNT inputs, LANES neighbouring outputs for a work-item.
   BASE(i) is the input where output i begins, STEP(k) how far from it element k lies. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 i0 = GID0 * LANES;
    if (i0 >= SIZE)
        return;
    const i32 base = BASE(i0);
    ACC folded[LANES];
    for (i32 j = 0; j < LANES; j++)
        folded[j] = START;
    for (i32 k = 0; k < COUNT; k++) {
        const i32 at = base + STEP(k);
        for (i32 j = 0; j < LANES; j++)
            folded[j] = COMBINE(folded[j], LOAD0(at + j));
    }
    for (i32 j = 0; j < LANES; j++)
        STORE(i0 + j, FINISH(folded[j]));
}
