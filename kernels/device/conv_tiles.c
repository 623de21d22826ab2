/* Convolution on a GPU as a product of matrices: a work-group makes TM pixels by TN channels. Both
   factors come through local memory, TK words at a time; a word is VALUES neighbouring channels: an
   f32, two halves or four of 8 bits. Weights are [block of TN channels][word][channel]; a tap is
   DEPTH words. FINISH(n, sum) makes the result of channel n; row m of the product is pixel PLACE(m)
   of the output. With MATRIX_UNIT every 32 work-items make 32 pixels by 32 channels on it
   (mma_tile.c), else each makes RM by RN, which lie ROWS and COLUMNS apart. */
#define WORDS (KH * KW * DEPTH)
#define ROUNDED ((WORDS + TK - 1) / TK * TK)
#define EACH (TM * TK / THREADS)
#define APART (THREADS / TK)
#if MATRIX_UNIT
#define LEFT(k, m) left[MMA_AT(k, m, TM)]
#define RIGHT(k, n) right[MMA_AT(k, n, TN)]
#define SIZE(tile) MMA_WORDS(TK, tile)
#else
#define LEFT(k, m) left[(k) * (TM + 1) + (m)]
#define RIGHT(k, n) right[(k) * (TN + 1) + (n)]
#define SIZE(tile) (TK * ((tile) + 1))
#endif

KERNEL void KERNEL_NAME(PARAMETERS)
{
    LOCAL WORD left[SIZE(TM)];
    LOCAL WORD right[SIZE(TN)];
    const i32 lane = LID0, m0 = GID0 / THREADS * TM, block = GID1;
    const i32 group = block / BLOCKS, n0 = group * (N / GROUPS) + block % BLOCKS * TN;
    /* which words of the left factor this work-item brings */
    const i32 own = lane % TK, first = lane / TK;
    i32 image[EACH], top[EACH], side[EACH];
    for (i32 i = 0; i < EACH; i++) {
        const i32 m = m0 + first + i * APART;
        image[i] = m / (OH * OW) * (H * W * C) + group * (C / GROUPS);
        top[i] = m < M ? m / OW % OH * SH - PT : -(1 << 28);
        side[i] = m % OW * SW - PL;
    }
#if MATRIX_UNIT
    MMA_SCRATCH(THREADS)
    const i32 high = lane / 32 / (TN / 32) * 32, wide = lane / 32 % (TN / 32) * 32;
    ACC sums[2][4][4];
    for (i32 i = 0; i < 32; i++)
        MMA_SUM(sums, i) = 0;
#else
    const i32 row = lane / COLUMNS, column = lane % COLUMNS;
    ACC sums[RM][RN];
    for (i32 i = 0; i < RM; i++)
        for (i32 j = 0; j < RN; j++)
            sums[i][j] = 0;
#endif
    for (i32 k0 = 0; k0 < ROUNDED; k0 += TK) {
        const i32 word = k0 + own, tap = word / DEPTH, channel = word % DEPTH * VALUES;
        const i32 ky = tap / KW * DH, kx = tap % KW * DW;
        for (i32 i = 0; i < EACH; i++) {
            const i32 y = top[i] + ky, x = side[i] + kx;
            WORD value = PADDING;
            if (word < WORDS && y >= 0 && y < H && x >= 0 && x < W) {
                const i32 at = image[i] + (y * W + x) * C + channel;
#if VALUES == 1
                value = LOAD0(at);
#elif ALIGNED
                value = LOAD_WORD0(at) ^ FLIP;
#elif VALUES == 2
                value = PACK_HALVES(LOAD0(at), channel + 1 < C / GROUPS ? LOAD0(at + 1) : 0.0f);
#else
                value = 0;
                for (i32 c = 0; c < 4; c++)
                    if (channel + c < C / GROUPS)
                        value |= (i32)((u32)(u8)LOAD0(at + c) << (8 * c));
                value ^= FLIP;
#endif
            }
            LEFT(own, first + i * APART) = value;
        }
        for (i32 i = lane; i < TK * TN; i += THREADS)
            RIGHT(i / TN, i % TN) = LOAD1((block * ROUNDED + k0) * TN + i);
        BARRIER();
#if MATRIX_UNIT
        for (i32 k = 0; k < TK; k += 8)
            MMA_STEP(MMA, sums, left, right, k, lane, high, TM, wide, TN);
#else
        for (i32 k = 0; k < TK; k++) {
            WORD a[RM], b[RN];
            for (i32 i = 0; i < RM; i++)
                a[i] = LEFT(k, row + i * ROWS);
            for (i32 j = 0; j < RN; j++)
                b[j] = RIGHT(k, column + j * COLUMNS);
            for (i32 i = 0; i < RM; i++)
                for (i32 j = 0; j < RN; j++)
#if INTEGER
                    sums[i][j] = DOT4_I8I8(sums[i][j], a[i], b[j]);
#else
                    sums[i][j] = MAD(a[i], b[j], sums[i][j]);
#endif
        }
#endif
        BARRIER();
    }
    const i32 end = (group + 1) * (N / GROUPS);
#if MATRIX_UNIT
    for (i32 i = 0; i < 32; i++) {
        const i32 m = m0 + high + MMA_ROW(i, lane), n = n0 + wide + MMA_COLUMN(i, lane);
        if (m < M && n < end)
            STORE(PLACE(m) * N + n, FINISH(n, MMA_SUM(sums, i)));
    }
#else
    for (i32 i = 0; i < RM; i++)
        for (i32 j = 0; j < RN; j++) {
            const i32 m = m0 + row + i * ROWS, n = n0 + column + j * COLUMNS;
            if (m < M && n < end)
                STORE(PLACE(m) * N + n, FINISH(n, sums[i][j]));
        }
#endif
}
#undef WORDS
#undef ROUNDED
#undef EACH
#undef APART
#undef LEFT
#undef RIGHT
#undef SIZE
