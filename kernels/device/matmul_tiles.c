/* Products of matrices on a GPU, of BATCH pairs: a work-group makes TILE by TILE of one, both factors
   come through local memory, DEEP at a time. Each work-item makes EACH by EACH, which lie SIDE
   apart. The other macros are as in matmul.c. */
#define SIDE (TILE / EACH)
#define THREADS (SIDE * SIDE)
#define PITCH (TILE + 1)

KERNEL void KERNEL_NAME(PARAMETERS)
{
    LOCAL VALUE left[DEEP * PITCH];
    LOCAL VALUE right[DEEP * PITCH];
    const i32 lane = LID0, b = GID2, m0 = GID0 / THREADS * TILE, n0 = GID1 * TILE;
    const i32 a0 = A(b), b0 = B(b), row = lane / SIDE, column = lane % SIDE;
    ACC sums[EACH][EACH];
    for (i32 i = 0; i < EACH; i++)
        for (i32 j = 0; j < EACH; j++)
            sums[i][j] = 0;
    for (i32 k0 = 0; k0 < DEPTH; k0 += DEEP) {
        /* neighbours in memory by neighbouring work-items */
        for (i32 i = lane; i < DEEP * TILE; i += THREADS) {
            const i32 k = A_K == 1 ? i % DEEP : i / TILE, m = A_K == 1 ? i / DEEP : i % TILE;
            const i32 inside = m0 + m < M && k0 + k < DEPTH;
            left[k * PITCH + m] = inside ? LOAD0(a0 + (m0 + m) * A_M + (k0 + k) * A_K) : 0;
        }
        for (i32 i = lane; i < DEEP * TILE; i += THREADS) {
            const i32 k = B_N == 1 ? i / TILE : i % DEEP, n = B_N == 1 ? i % TILE : i / DEEP;
            const i32 inside = n0 + n < N && k0 + k < DEPTH;
            right[k * PITCH + n] = inside ? LOAD1(b0 + (k0 + k) * B_K + (n0 + n) * B_N) : 0;
        }
        BARRIER();
        const i32 deep = DEPTH - k0 < DEEP ? DEPTH - k0 : DEEP;
        for (i32 k = 0; k < deep; k++) {
            VALUE v[EACH], w[EACH];
            for (i32 i = 0; i < EACH; i++)
                v[i] = left[k * PITCH + row + i * SIDE];
            for (i32 j = 0; j < EACH; j++)
                w[j] = right[k * PITCH + column + j * SIDE];
            for (i32 i = 0; i < EACH; i++)
                for (i32 j = 0; j < EACH; j++)
                    sums[i][j] = SUM(sums[i][j], v[i], w[j]);
        }
        BARRIER();
    }
    for (i32 i = 0; i < EACH; i++)
        for (i32 j = 0; j < EACH; j++) {
            const i32 m = m0 + row + i * SIDE, n = n0 + column + j * SIDE;
            if (m < M && n < N)
                STORE((b * M + m) * N + n, FINISH(sums[i][j]));
        }
}
#undef SIDE
#undef THREADS
#undef PITCH
