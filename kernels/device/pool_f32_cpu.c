/* Pooling of floats on a CPU: BAND output rows of SHARE blocks of VW channels. Rows of a window are
   combined apart, then JOINed: long sums keep their digits. The last block is moved back to the end
   of the channels, and stores what the one before does not. */
#define BLOCKS ((C + VW - 1) / VW)

KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 stop = (GID0 + 1) * SHARE < BLOCKS ? (GID0 + 1) * SHARE : BLOCKS;
    const i32 begin = GID1 * BAND, end = begin + BAND < ROWS ? begin + BAND : ROWS;
    for (i32 block = GID0 * SHARE; block < stop; block++) {
        const i32 c0 = block * VW < C - VW ? block * VW : C - VW;
        for (i32 row = begin; row < end; row++) {
            const i32 y0 = row % OH * SH - PT;
            const i32 top = y0 < 0 ? 0 : y0, bottom = y0 + KH < H ? y0 + KH : H;
            CONST_ARG f32* image = IN0 + row / OH * (H * W * C) + c0;
            for (i32 ox = 0; ox < OW; ox++) {
                const i32 x0 = ox * SW - PL;
                const i32 left = x0 < 0 ? 0 : x0, right = x0 + KW < W ? x0 + KW : W;
                VEC(f32, VW) all = VSPLAT(f32, VW, START);
                for (i32 y = top; y < bottom; y++) {
                    VEC(f32, VW) line = VSPLAT(f32, VW, START);
                    for (i32 x = left; x < right; x++) {
                        const VEC(f32, VW) v = VLOAD(VW, image + (y * W + x) * C);
                        line = COMBINE(line, v);
                    }
                    all = JOIN(all, line);
                }
                const i32 count = (bottom - top) * (right - left);
                const i32 at = (row * OW + ox) * C + c0;
                const VEC(f32, VW) pooled = FINISH(all, count);
#ifdef STORE_VECTOR
                if (C % VW == 0 || c0 == block * VW) {
                    STORE_VECTOR(VW, at, pooled);
                    continue;
                }
#endif
                f32 lanes[VW];
                VSTORE(VW, pooled, lanes);
                for (i32 i = block * VW - c0; i < VW; i++)
                    STORE(at + i, lanes[i]);
            }
        }
    }
}
#undef BLOCKS
