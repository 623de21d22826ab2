/* Running sums along a line of COUNT values, STRIDE apart; LANES neighbouring lines for a work-item.
   BASE(i) is where line i begins; it is walked from FIRST on in steps of BY. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 i0 = GID0 * LANES;
    if (i0 >= SIZE)
        return;
    const i32 base = BASE(i0);
    ACC sum[LANES];
    for (i32 j = 0; j < LANES; j++)
        sum[j] = 0;
    for (i32 k = 0; k < COUNT; k++) {
        const i32 at = base + (FIRST + k * BY) * STRIDE;
        for (i32 j = 0; j < LANES; j++) {
            const ACC v = (ACC)LOAD0(at + j);
#if EXCLUSIVE
            STORE(at + j, sum[j]);
            sum[j] += v;
#else
            sum[j] += v;
            STORE(at + j, sum[j]);
#endif
        }
    }
}
