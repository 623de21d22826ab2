/* Local response normalisation: x * (BIAS + ALPHA * sum of squares)^POWER, the sum over channels
   c - RADIUS to c + RADIUS - 1. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 begin = GID0 * EACH, end = begin + EACH < SIZE ? begin + EACH : SIZE;
    for (i32 i = begin; i < end; i++) {
        const i32 c = i % DEPTH, row = i - c;
        const i32 first = c - RADIUS < 0 ? 0 : c - RADIUS;
        const i32 last = c + RADIUS < DEPTH ? c + RADIUS : DEPTH;
        ACC sum = 0;
        for (i32 k = first; k < last; k++)
            sum += LOAD0(row + k) * LOAD0(row + k);
        STORE(i, LOAD0(i) * F_POW(BIAS + ALPHA * sum, (ACC)(POWER)));
    }
}
