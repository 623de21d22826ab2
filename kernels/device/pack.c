/* Matrices B of IN0 in blocks of NR columns for conv_f32_cpu: [matrix][block][DEPTH][column], with
   zeros beyond N. Element (k, n) of B is k * STEP_K + n * STEP_N. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 matrix = GID1 / BLOCKS, n0 = GID1 % BLOCKS * NR;
    const i32 begin = GID0 * SHARE, end = begin + SHARE < DEPTH ? begin + SHARE : DEPTH;
    for (i32 k = begin; k < end; k++) {
        const i32 from = matrix * (DEPTH * N) + k * STEP_K, to = (GID1 * DEPTH + k) * NR;
        for (i32 j = 0; j < NR; j++)
            STORE(to + j, n0 + j < N ? LOAD0(from + (n0 + j) * STEP_N) : 0.0f);
    }
}
