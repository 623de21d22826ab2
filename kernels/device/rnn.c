/* All steps of a simple recurrent layer, a work-group for each row of the batch: h = the activation
   of EARLY, what the input adds, and the recurrent product. */
#define H_AT(k) h[k]

KERNEL void KERNEL_NAME(PARAMETERS)
{
    WORK f32 h[UNITS], z[WIDE];
#if HYBRID
    WORK f32 whole[UNITS];
#endif
    const i32 lane = LID0, row = GID0 / GROUP;
    EACH_OF(u, UNITS) h[u] = LOAD1(row * UNITS + u);
    SYNC
    for (i32 step = 0; step < STEPS; step++) {
        const i32 t = BACKWARD ? STEPS - 1 - step : step;
        CONST_ARG f32* early = EARLY + (EARLY_ROW(t, row)) * UNITS;
#if HYBRID
        HYBRID_ROW(H_AT, UNITS, scale, inverse, zero)
        EACH_OF(u, UNITS) whole[u] = (f32)hybrid_value(h[u], inverse, zero);
        SYNC
        TIMES_WEIGHTS(z, whole, UNITS, RECURRENT, WIDE)
        SYNC
        EACH_OF(u, UNITS) z[u] *= scale * RECURRENT_SCALE[u];
#else
        TIMES_WEIGHTS(z, h, UNITS, RECURRENT, WIDE)
#endif
        SYNC
        EACH_OF(u, UNITS) {
            h[u] = ACTIVATE(z[u] + early[u]);
            STORE((row * STEPS + t) * UNITS + u, h[u]);
        }
        SYNC
    }
}
#undef H_AT
