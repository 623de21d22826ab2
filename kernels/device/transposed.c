/* Transposed convolution, for ROWS output pixels and WIDE of N channels in a work-item: the sum over
   the taps whose input lies at a whole step. Weights are [tap][C][N]; the input is XH x XW. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 begin = GID1 * ROWS, end = begin + ROWS < M ? begin + ROWS : M;
    const i32 first = GID0 * WIDE, last = first + WIDE < N ? first + WIDE : N;
    for (i32 m = begin; m < end; m++) {
        const i32 top = m / W % H + PT, left = m % W + PL;
        CONST_ARG XT* image = IN0 + m / (H * W) * (XH * XW * C);
        for (i32 n = first; n < last; n++) {
            ACC sum = 0;
            for (i32 ky = 0; ky < KH; ky++)
                for (i32 kx = 0; kx < KW; kx++) {
                    const i32 y = (top - ky) / SH, x = (left - kx) / SW;
                    if (top < ky || (top - ky) % SH || y >= XH)
                        continue;
                    if (left < kx || (left - kx) % SW || x >= XW)
                        continue;
                    CONST_ARG WT* weights = IN1 + (ky * KW + kx) * (C * N) + n;
                    for (i32 c = 0; c < C; c++)
                        sum = MAD(
                            (ACC)image[(y * XW + x) * C + c] - ZERO, (ACC)weights[c * N], sum);
                }
            STORE(m * N + n, FINISH(n, sum));
        }
    }
}
