/* Each unit sums its WINDOW of the state (input 0), weighted (input 1). */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 i = GID0;
    if (i >= COUNT)
        return;
    const i32 u = i % UNITS;
    ACC sum = 0;
    for (i32 k = 0; k < WINDOW; k++)
        sum += (ACC)LOAD0(i * WINDOW + k) * (ACC)LOAD1(u * WINDOW + k);
    STORE(i, FINISH(sum, u));
}
