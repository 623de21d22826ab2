/* Each row of DEPTH values over its Euclidean norm, which is 1e-6 at least. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 row = GID0;
    if (row >= ROWS)
        return;
    const i32 base = row * DEPTH;
#if INTEGER
    i64 squares = 0;
    for (i32 j = 0; j < DEPTH; j++) {
        const i64 v = LOAD0(base + j) - ZERO;
        squares += v * v;
    }
    i32 shift;
    const i32 inverse = inverse_sqrt(squares, &shift);
    for (i32 j = 0; j < DEPTH; j++) {
        const i32 v = (LOAD0(base + j) - ZERO) * FACTOR;
        STORE(base + j, clamp_to((i64)multiply_quantized(v, inverse, shift + SHIFT) + MIDDLE, LOW, HIGH));
    }
#else
    /* several sums: one alone would wait for each addition, and lose more digits */
    ACC parts[8];
    for (i32 k = 0; k < 8; k++)
        parts[k] = 0;
    i32 j = 0;
    for (; j + 8 <= DEPTH; j += 8)
        for (i32 k = 0; k < 8; k++)
            parts[k] += LOAD0(base + j + k) * LOAD0(base + j + k);
    for (; j < DEPTH; j++)
        parts[0] += LOAD0(base + j) * LOAD0(base + j);
    ACC norm = ((parts[0] + parts[4]) + (parts[2] + parts[6])) +
        ((parts[1] + parts[5]) + (parts[3] + parts[7]));
    norm = F_SQRT(norm);
    norm = norm < (ACC)1e-6f ? (ACC)1e-6f : norm;
    for (j = 0; j < DEPTH; j++)
        STORE(base + j, LOAD0(base + j) / norm);
#endif
}
