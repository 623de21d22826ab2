/* Products of matrices, for ROWS rows of the output and WIDE of its N columns in a work-item.
   Element (m, k) of matrix A(b) of IN0 is A(b) + m * A_M + k * A_K, (k, n) of B(b) likewise; SUM
   adds a product, FINISH makes the result. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 begin = GID1 * ROWS, end = begin + ROWS < BATCH * M ? begin + ROWS : BATCH * M;
    const i32 first = GID0 * WIDE, last = first + WIDE < N ? first + WIDE : N;
    for (i32 row = begin; row < end; row++) {
        const i32 b = row / M, a0 = A(b) + row % M * A_M, b0 = B(b);
        for (i32 n = first; n < last; n++) {
            ACC sum = 0;
            for (i32 k = 0; k < DEPTH; k++)
                sum = SUM(sum, LOAD0(a0 + k * A_K), LOAD1(b0 + k * B_K + n * B_N));
            STORE(row * N + n, FINISH(sum));
        }
    }
}
