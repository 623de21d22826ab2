/* Fourier transform of the columns of matrices: IN0 has ROWS rows of BINS pairs of floats for each,
   the result HEIGHT. IN1: cosine and sine of k / HEIGHT of a turn, backwards, for each k. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 begin = GID0 * EACH, end = begin + EACH < SIZE ? begin + EACH : SIZE;
    for (i32 i = begin; i < end; i++) {
        const i32 bin = i % BINS, h = i / BINS % HEIGHT, from = i / (BINS * HEIGHT) * STRIDE + 2 * bin;
        f32 real = 0.0f, imaginary = 0.0f;
        for (i32 row = 0; row < ROWS; row++) {
            const i32 turn = (i32)((i64)h * row % HEIGHT);
            const f32 c = IN1[2 * turn], s = IN1[2 * turn + 1];
            const f32 a = IN0[from + 2 * row * BINS], b = IN0[from + 2 * row * BINS + 1];
            real += a * c - b * s;
            imaginary += a * s + b * c;
        }
        STORE(i, (i64)(((u64)AS_U32(imaginary) << 32) | (u64)AS_U32(real)));
    }
}
