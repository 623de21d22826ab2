/* Rows times weights, EACH rows for a work-item in turn; see recurrent.c for the weights.
   FINISH(r, n, sum) makes the result. HYBRID: a row becomes integers of 8 bits first (by HYBRID_ROW),
   and scale is what one of them stands for. */
#define ELEMENT(k) LOAD0(r * DEPTH + (k))
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
        HYBRID_ROW(ELEMENT, DEPTH, scale, inverse, zero)
#endif
        for (i32 k = 0; k < DEPTH; k++) {
#if HYBRID
            const SUMS x = SPLAT(hybrid_value(ELEMENT(k), inverse, zero));
#else
            const SUMS x = SPLAT(ELEMENT(k));
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
#undef ELEMENT
