/* Products of few rows and a matrix on a GPU, which read the matrix once and wait for memory: a
   work-group makes 32 channels of a row, SLICES work-items each, every one of a part of the words.
   A word is one f32 or four neighbouring channels of 8 bits; weights are [block][word][channel]. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    LOCAL ACC parts[32 * SLICES];
    const i32 lane = LID0, block = GID0 / (32 * SLICES), m = GID1, n = block * 32 + lane % 32;
    ACC sum = 0;
    for (i32 k = lane / 32; k < DEPTH; k += SLICES) {
#if !INTEGER
        sum = MAD(LOAD0(m * C + k), LOAD1((block * DEPTH + k) * 32 + lane % 32), sum);
#else
#if ALIGNED
        const i32 word = LOAD_WORD0(m * C + k * 4) ^ FLIP;
#else
        i32 word = 0;
        for (i32 c = 0; c < 4; c++)
            if (k * 4 + c < C)
                word |= (i32)((u32)(u8)LOAD0(m * C + k * 4 + c) << (8 * c));
        word ^= FLIP;
#endif
        sum = DOT4_I8I8(sum, word, LOAD1((block * DEPTH + k) * 32 + lane % 32));
#endif
    }
    parts[lane] = sum;
    BARRIER();
    for (i32 slice = 1; slice < SLICES && lane < 32; slice++)
        sum += parts[slice * 32 + lane];
    if (lane < 32 && n < N)
        STORE(m * N + n, FINISH(n, sum));
}
