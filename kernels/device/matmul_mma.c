/* Products of matrices of floats on a GPU's matrix unit, of BATCH pairs, as halves that are added in
   f32: a work-group makes TILE by TILE of one, as mma_tile.c says. Both factors come through local
   memory, DEEP words at a time, each two neighbours along the depth. A_PAIRS, B_PAIRS: these are
   neighbours in memory, too. The other macros are as in matmul.c. */
#define THREADS (TILE * TILE / 32)
#if A_PAIRS
#define A_WORD(at, k) LOAD_WORD0(at)
#else
#define A_WORD(at, k) PACK_HALVES(LOAD0(at), (k) + 1 < DEPTH ? LOAD0((at) + A_K) : 0.0f)
#endif
#if B_PAIRS
#define B_WORD(at, k) LOAD_WORD1(at)
#else
#define B_WORD(at, k) PACK_HALVES(LOAD1(at), (k) + 1 < DEPTH ? LOAD1((at) + B_K) : 0.0f)
#endif

KERNEL void KERNEL_NAME(PARAMETERS)
{
    LOCAL i32 left[MMA_WORDS(DEEP, TILE)];
    LOCAL i32 right[MMA_WORDS(DEEP, TILE)];
    MMA_SCRATCH(THREADS)
    const i32 lane = LID0, b = GID2, m0 = GID0 / THREADS * TILE, n0 = GID1 * TILE;
    const i32 high = lane / 32 / (TILE / 32) * 32, wide = lane / 32 % (TILE / 32) * 32;
    const i32 a0 = A(b), b0 = B(b);
    f32 sums[2][4][4];
    for (i32 i = 0; i < 32; i++)
        MMA_SUM(sums, i) = 0;
    for (i32 k0 = 0; k0 < DEPTH; k0 += 2 * DEEP) {
        /* neighbours in memory by neighbouring work-items */
        for (i32 i = lane; i < DEEP * TILE; i += THREADS) {
            const i32 word = A_K == 1 ? i % DEEP : i / TILE, m = A_K == 1 ? i / DEEP : i % TILE;
            const i32 k = k0 + 2 * word, at = a0 + (m0 + m) * A_M + k * A_K;
            left[MMA_AT(word, m, TILE)] = m0 + m < M && k < DEPTH ? A_WORD(at, k) : 0;
        }
        for (i32 i = lane; i < DEEP * TILE; i += THREADS) {
            const i32 word = B_N == 1 ? i / TILE : i % DEEP, n = B_N == 1 ? i % TILE : i / DEEP;
            const i32 k = k0 + 2 * word, at = b0 + k * B_K + (n0 + n) * B_N;
            right[MMA_AT(word, n, TILE)] = n0 + n < N && k < DEPTH ? B_WORD(at, k) : 0;
        }
        BARRIER();
        for (i32 k = 0; k < DEEP; k += 8)
            MMA_STEP(MMA_F16, sums, left, right, k, lane, high, TILE, wide, TILE);
        BARRIER();
    }
    for (i32 i = 0; i < 32; i++) {
        const i32 m = m0 + high + MMA_ROW(i, lane), n = n0 + wide + MMA_COLUMN(i, lane);
        if (m < M && n < N)
            STORE((b * M + m) * N + n, FINISH(MMA_SUM(sums, i)));
    }
}
#undef THREADS
#undef A_WORD
#undef B_WORD
