/* Rows times weights, EACH rows for a work-item in turn; see recurrent.c for the weights.
   FINISH(r, n, sum) makes the result. HYBRID: a row becomes integers of 8 bits first, and scale
   is what one of them stands for. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 n0 = GID0 * (NV * VW);
    const i32 begin = GID1 * EACH, end = begin + EACH < ROWS ? begin + EACH : ROWS;
    for (i32 r = begin; r < end; r++) {
        SUMS sums[NV];
        for (i32 v = 0; v < NV; v++)
            sums[v] = SPLAT(0);
        CONST_ARG WT* weights = IN1 + n0 * DEPTH;
#if HYBRID
        f32 top = 1e-36f;
        for (i32 k = 0; k < DEPTH; k++)
            top = F_MAX(top, F_ABS(LOAD0(r * DEPTH + k)));
        const f32 scale = top / 127.0f, inverse = 127.0f / top;
#endif
        for (i32 k = 0; k < DEPTH; k++) {
#if HYBRID
            const SUMS x = SPLAT(round_away(LOAD0(r * DEPTH + k) * inverse));
#else
            const SUMS x = SPLAT(LOAD0(r * DEPTH + k));
#endif
            for (i32 v = 0; v < NV; v++)
                sums[v] = MAD(x, WEIGHTS(weights + v * VW), sums[v]);
            weights += NV * VW;
        }
        ACC spilled[NV * VW];
        for (i32 v = 0; v < NV; v++)
            SPILL(sums[v], spilled + v * VW);
        for (i32 j = 0; j < NV * VW && n0 + j < UNITS; j++)
            STORE(r * UNITS + n0 + j, FINISH(r, n0 + j, spilled[j]));
    }
}
