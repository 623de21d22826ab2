/* Depthwise convolution on a GPU: a work-item makes TY by TX pixels of V channels, which are
   neighbours in memory, and reads what they see of the input once. Weights are [tap][N]. HELD: all of
   them stay in registers; else those of a row do, TY is 1; or, where LOOSE, none, TX is 1 too. Channel
   n / MULTIPLIER of the input makes channel n; where MULTIPLIER is not 1, V is. */
#define ROWS ((TY - 1) * SH + (KH - 1) * DH + 1)
#define COLUMNS ((TX - 1) * SW + (KW - 1) * DW + 1)
#if HELD
#define LINES ROWS
#define APART 1
#define TAPS (KH * KW)
#else
#define LINES KH
#define APART DH
#define TAPS KW
#endif
#if V == 4
#define INPUT(at, v) LOAD_FOUR0(at, v)
#define WEIGHTS(at, v) LOAD_FOUR1(at, v)
#define RESULTS(at, v) STORE_FOUR(at, v)
#else
#define INPUT(at, v) (v)[0] = LOAD0(at)
#define WEIGHTS(at, v) (v)[0] = LOAD1(at)
#define RESULTS(at, v) STORE(at, (v)[0])
#endif

KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 n = GID0 * V, strip = GID1;
    const i32 ox = strip % ACROSS * TX, oy = strip / ACROSS % DOWN * TY;
    const i32 x0 = ox * SW - PL, y0 = oy * SH - PT, image = strip / (ACROSS * DOWN);
    const i32 base = image * (H * W * C) + n / MULTIPLIER;
    ACC sums[TY][TX][V];
#pragma unroll
    for (i32 i = 0; i < TY * TX * V; i++)
        sums[i / (TX * V)][i / V % TX][i % V] = 0;
#if !LOOSE
    ACC weights[TAPS][V];
#endif
#if HELD
#pragma unroll
    for (i32 t = 0; t < TAPS; t++)
        WEIGHTS(t * N + n, weights[t]);
#pragma unroll
#endif
    for (i32 line = 0; line < LINES; line++) {
        const i32 y = y0 + line * APART;
        if (y < 0 || y >= H)
            continue;
#if LOOSE
        for (i32 kx = 0; kx < KW; kx++) {
            const i32 x = x0 + kx * DW;
            if (x < 0 || x >= W)
                continue;
            ACC v[V], w[V];
            INPUT(base + (y * W + x) * C, v);
            WEIGHTS((line * KW + kx) * N + n, w);
            for (i32 j = 0; j < V; j++)
                sums[0][0][j] = MAD(v[j] - ZERO, w[j], sums[0][0][j]);
        }
#else
#if !HELD
#pragma unroll
        for (i32 t = 0; t < TAPS; t++)
            WEIGHTS((line * KW + t) * N + n, weights[t]);
#endif
#pragma unroll
        for (i32 c = 0; c < COLUMNS; c++) {
            const i32 x = x0 + c;
            ACC v[V];
            if (x >= 0 && x < W) {
                INPUT(base + (y * W + x) * C, v);
#pragma unroll
                for (i32 j = 0; j < V; j++)
                    v[j] = v[j] - ZERO;
            } else {
#pragma unroll
                for (i32 j = 0; j < V; j++)
                    v[j] = 0;
            }
#pragma unroll
            for (i32 i = 0; i < TY * TX; i++) {
                const i32 dy = HELD ? line - i / TX * SH : 0, dx = c - i % TX * SW;
                const i32 met = dy >= 0 && dy % DH == 0 && dy / DH < KH;
                if (met && dx >= 0 && dx % DW == 0 && dx / DW < KW)
#pragma unroll
                    for (i32 j = 0; j < V; j++)
                        sums[i / TX][i % TX][j] = MAD(
                            v[j], weights[dy / DH * KW + dx / DW][j], sums[i / TX][i % TX][j]);
            }
        }
#endif
    }
#pragma unroll
    for (i32 i = 0; i < TY * TX; i++) {
        const i32 y = oy + i / TX, x = ox + i % TX;
        if (y < OH && x < OW) {
            ACC values[V];
#pragma unroll
            for (i32 j = 0; j < V; j++)
                values[j] = FINISH(n + j, sums[i / TX][i % TX][j]);
            RESULTS(((image * OH + y) * OW + x) * N + n, values);
        }
    }
}
#undef ROWS
#undef COLUMNS
#undef LINES
#undef APART
#undef TAPS
#undef INPUT
#undef WEIGHTS
#undef RESULTS
