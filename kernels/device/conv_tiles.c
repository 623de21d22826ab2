/* Convolution on a GPU as a product of matrices: a work-group makes TM pixels by TN channels. Both
   factors come through local memory, TK words at a time; a word is one f32 or, of 8 bits, four
   neighbouring channels. Weights are [block of TN channels][word][channel]; a tap is DEPTH words.
   FINISH(n, sum) makes the result of channel n. With MATRIX_UNIT every 32 work-items make 32 pixels
   by 32 channels on it, else each makes RM by RN, which lie ROWS and COLUMNS apart. */
#define WORDS (KH * KW * DEPTH)
#define ROUNDED ((WORDS + TK - 1) / TK * TK)
#define EACH (TM * TK / THREADS)
#define APART (THREADS / TK)
#if MATRIX_UNIT
#define PITCH 8
#else
#define PITCH 1
#endif

KERNEL void KERNEL_NAME(PARAMETERS)
{
    LOCAL WORD left[TK * (TM + PITCH)];
    LOCAL WORD right[TK * (TN + PITCH)];
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
    const i32 outer = lane % 32 / 4, inner = lane % 4;
    i32 sums[2][4][4];
    for (i32 i = 0; i < 32; i++)
        sums[i / 16][i / 4 % 4][i % 4] = 0;
#else
    const i32 row = lane / COLUMNS, column = lane % COLUMNS;
    ACC sums[RM][RN];
    for (i32 i = 0; i < RM; i++)
        for (i32 j = 0; j < RN; j++)
            sums[i][j] = 0;
#endif
    for (i32 k0 = 0; k0 < ROUNDED; k0 += TK) {
        const i32 word = k0 + own, tap = word / DEPTH, channel = word % DEPTH * (INTEGER ? 4 : 1);
        const i32 ky = tap / KW * DH, kx = tap % KW * DW;
        for (i32 i = 0; i < EACH; i++) {
            const i32 y = top[i] + ky, x = side[i] + kx;
            WORD value = PADDING;
            if (word < WORDS && y >= 0 && y < H && x >= 0 && x < W) {
                const i32 at = image[i] + (y * W + x) * C + channel;
#if !INTEGER
                value = LOAD0(at);
#elif ALIGNED
                value = ((CONST_ARG i32*)(IN0))[at / 4] ^ FLIP;
#else
                value = 0;
                for (i32 c = 0; c < 4; c++)
                    if (channel + c < C / GROUPS)
                        value |= (i32)((u32)(u8)(IN0)[at + c] << (8 * c));
                value ^= FLIP;
#endif
            }
            left[own * (TM + PITCH) + first + i * APART] = value;
        }
        for (i32 i = lane; i < TK * TN; i += THREADS)
            right[i / TN * (TN + PITCH) + i % TN] = LOAD1((block * ROUNDED + k0) * TN + i);
        BARRIER();
#if MATRIX_UNIT
        for (i32 k = 0; k < TK; k += 8) {
            i32 a[2][4], b[4][2];
            for (i32 i = 0; i < 8; i++)
                a[i / 4][i % 4] = left[(k + i % 4 / 2 * 4 + inner) * (TM + PITCH) + high
                                       + i / 4 * 16 + i % 2 * 8 + outer];
            for (i32 j = 0; j < 8; j++)
                b[j / 2][j % 2] = right[(k + j % 2 * 4 + inner) * (TN + PITCH) + wide
                                        + j / 2 * 8 + outer];
            for (i32 i = 0; i < 2; i++)
                for (i32 j = 0; j < 4; j++)
                    MMA_I8(sums[i][j], a[i], b[j]);
        }
#else
        for (i32 k = 0; k < TK; k++) {
            WORD a[RM], b[RN];
            for (i32 i = 0; i < RM; i++)
                a[i] = left[k * (TM + PITCH) + row + i * ROWS];
            for (i32 j = 0; j < RN; j++)
                b[j] = right[k * (TN + PITCH) + column + j * COLUMNS];
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
        const i32 m = m0 + high + i / 16 * 16 + i % 4 / 2 * 8 + outer;
        const i32 n = n0 + wide + i / 4 % 4 * 8 + inner * 2 + i % 2;
        if (m < M && n < end)
            STORE(m * N + n, FINISH(n, sums[i / 16][i / 4 % 4][i % 4]));
    }
#else
    for (i32 i = 0; i < RM; i++)
        for (i32 j = 0; j < RN; j++) {
            const i32 m = m0 + row + i * ROWS, n = n0 + column + j * COLUMNS;
            if (m < M && n < end)
                STORE(m * N + n, FINISH(n, sums[i][j]));
        }
#endif
}
#undef WORDS
#undef ROUNDED
#undef EACH
#undef APART
#undef PITCH
