/* Convolution, one output element for each work-item; weights are [tap][C / GROUPS][N]. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 n = GID0, m = GID1;
    if (n >= N || m >= M)
        return;
    const i32 y0 = m / OW % OH * SH - PT, x0 = m % OW * SW - PL, depth = C / GROUPS;
    const i32 image = m / (OH * OW) * (H * W * C) + n / (N / GROUPS) * depth;
    i32 weights = n;
    ACC sum = 0;
    for (i32 ky = 0; ky < KH; ky++)
        for (i32 kx = 0; kx < KW; kx++) {
            const i32 y = y0 + ky * DH, x = x0 + kx * DW;
            if (y >= 0 && y < H && x >= 0 && x < W)
                for (i32 c = 0; c < depth; c++)
                    sum = MAD(
                        (ACC)LOAD0(image + (y * W + x) * C + c) - ZERO,
                        (ACC)LOAD1(weights + c * N),
                        sum);
            weights += depth * N;
        }
    STORE(m * N + n, FINISH(n, sum));
}
