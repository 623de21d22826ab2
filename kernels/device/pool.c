/* Pooling: PIXELS outputs in turn of LANES channels. FINISH(v, count) makes the result. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 c0 = GID0 * LANES;
    const i32 begin = GID1 * PIXELS, end = begin + PIXELS < M ? begin + PIXELS : M;
    for (i32 m = begin; m < end; m++) {
        const i32 y0 = m / OW % OH * SH - PT, x0 = m % OW * SW - PL;
        const i32 top = y0 < 0 ? 0 : y0, bottom = y0 + KH < H ? y0 + KH : H;
        const i32 left = x0 < 0 ? 0 : x0, right = x0 + KW < W ? x0 + KW : W;
        const i32 image = m / (OH * OW) * (H * W * C) + c0;
        ACC pooled[LANES];
        for (i32 j = 0; j < LANES; j++)
            pooled[j] = START;
        for (i32 y = top; y < bottom; y++)
            for (i32 x = left; x < right; x++)
                for (i32 j = 0; j < LANES; j++)
                    pooled[j] = COMBINE(pooled[j], LOAD0(image + (y * W + x) * C + j));
        const i32 count = (bottom - top) * (right - left);
        for (i32 j = 0; j < LANES; j++)
            STORE(m * C + c0 + j, FINISH(pooled[j], count));
    }
}
