/* Pooling over depth, height and width. FINISH(v, count) makes the result of what COMBINE folded. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 begin = GID0 * EACH, end = begin + EACH < SIZE ? begin + EACH : SIZE;
    for (i32 i = begin; i < end; i++) {
        const i32 c = i % C, x0 = i / C % OW * SW - PW, y0 = i / (C * OW) % OH * SH - PH;
        const i32 z0 = i / (C * OW * OH) % OD * SD - PD, image = i / (C * OW * OH * OD);
        ACC pooled = START;
        i32 count = 0;
        for (i32 z = z0 < 0 ? 0 : z0; z < z0 + KD && z < D; z++)
            for (i32 y = y0 < 0 ? 0 : y0; y < y0 + KH && y < H; y++)
                for (i32 x = x0 < 0 ? 0 : x0; x < x0 + KW && x < W; x++) {
                    const ACC v = LOAD0((((image * D + z) * H + y) * W + x) * C + c);
                    pooled = COMBINE(pooled, v);
                    count++;
                }
        STORE(i, FINISH(pooled, count));
    }
}
