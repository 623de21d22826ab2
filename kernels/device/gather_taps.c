/* The end of a transposed convolution on a CPU: each output is the sum of what input pixels gave it,
   IN0 [image][XH][XW][tap][N], and of its BIAS; BAND rows of the output in a work-item. Vectors are
   of VW channels; the last one of a pixel is moved back, and stores what the one before does not. */
#if VW == 1
#define SUMS f32
#define SOME(p) (*(p))
#else
#define SUMS VEC(f32, VW)
#define SOME(p) VLOAD(VW, p)
#endif
#define LAST (N % VW)

KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 begin = GID0 * BAND, end = begin + BAND < ROWS ? begin + BAND : ROWS;
    for (i32 row = begin; row < end; row++) {
        const i32 top = row % H + PT;
        CONST_ARG f32* image = IN0 + row / H * (XH * XW * KH * KW * N);
        for (i32 ox = 0; ox < W; ox++) {
            const i32 left = ox + PL, at = (row * W + ox) * N;
            for (i32 block = 0; block < N; block += VW) {
                const i32 n0 = block < N - VW ? block : N - VW;
                SUMS sum = SOME(BIAS + n0);
                for (i32 ky = top % SH; ky < KH && ky <= top; ky += SH) {
                    const i32 y = (top - ky) / SH;
                    if (y >= XH)
                        continue;
                    for (i32 kx = left % SW; kx < KW && kx <= left; kx += SW) {
                        const i32 x = (left - kx) / SW;
                        if (x < XW)
                            sum += SOME(image + ((y * XW + x) * (KH * KW) + ky * KW + kx) * N + n0);
                    }
                }
#if VW == 1
                STORE(at + n0, FINISH(sum));
#else
#ifdef STORE_VECTOR
                if (!LAST || n0 == block) {
                    STORE_VECTOR(VW, at + n0, FINISH_VECTOR(sum));
                    continue;
                }
#endif
                f32 lanes[VW];
                VSTORE(VW, sum, lanes);
                for (i32 i = block - n0; i < VW; i++)
                    STORE(at + n0 + i, FINISH(lanes[i]));
#endif
            }
        }
    }
}
#undef SUMS
#undef SOME
#undef LAST
