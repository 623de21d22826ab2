/* Resizing: PIXELS outputs in turn, all C channels. IN1, IN2: the two rows and the two columns of
   each output row and column; IN3, IN4: their weights. BLEND(a, b, c, d) makes the result of the
   values at (first row, first column), (second, first), (first, second), (second, second). VW:
   channels taken at once, on CPUs, of vectors that TAKE loads; the last are moved back to the end. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 begin = GID0 * PIXELS, end = begin + PIXELS < M ? begin + PIXELS : M;
    for (i32 m = begin; m < end; m++) {
        const i32 row = m / OW % OH, column = m % OW, image = m / (OH * OW) * (H * W * C);
        const i32 above = image + IN1[row] * W * C, left = IN2[column] * C;
#if BILINEAR
        const i32 below = image + IN1[OH + row] * W * C, right = IN2[OW + column] * C;
        const ACC up = IN3[row], down = IN3[OH + row];
        const ACC near = IN4[column], far = IN4[OW + column];
        i32 c = 0;
#if VW > 1 && defined(STORE_VECTOR)
        for (; c < C; c += VW) {
            const i32 k = c + VW <= C ? c : C - VW;
            STORE_VECTOR(VW, m * C + k, BLEND_VECTOR(
                TAKE(IN0 + above + left + k), TAKE(IN0 + below + left + k),
                TAKE(IN0 + above + right + k), TAKE(IN0 + below + right + k)));
        }
#endif
        for (; c < C; c++)
            STORE(m * C + c, BLEND(
                LOAD0(above + left + c), LOAD0(below + left + c),
                LOAD0(above + right + c), LOAD0(below + right + c)));
#else
        for (i32 c = 0; c < C; c++)
            STORE(m * C + c, LOAD0(above + left + c));
#endif
    }
}
