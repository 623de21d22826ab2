/* SOFTMAX and LOG_SOFTMAX of floats, a row of DEPTH for each work-item. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 row = GID0;
    if (row >= ROWS)
        return;
    const i32 base = row * DEPTH;
    f32 most = LOAD0(base), total = 0.0f;
    for (i32 j = 1; j < DEPTH; j++)
        most = F_MAX(most, LOAD0(base + j));
    for (i32 j = 0; j < DEPTH; j++)
        total += F_EXP((LOAD0(base + j) - most) * BETA);
#if LOGARITHM
    total = F_LOG(total);
    for (i32 j = 0; j < DEPTH; j++)
        STORE(base + j, LOAD0(base + j) - most - total);
#else
    for (i32 j = 0; j < DEPTH; j++)
        STORE(base + j, F_EXP((LOAD0(base + j) - most) * BETA) / total);
#endif
}
