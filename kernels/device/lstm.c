/* All steps of an LSTM in floats, a work-group for each row of the batch. Gates stand side by side:
   output, input (unless CIFG), forget, cell; those of sigmoids are halved, for
   sigmoid(x) = tanh(x / 2) / 2 + 1 / 2. EARLY holds what the input adds to them, for all steps.
   The result of a row: the outputs of all steps, then the cell. */
#define OPENED(v) (F_TANH(v) * 0.5f + 0.5f)
#define Z(gate, u) LOADV(z + (gate) * N + (u))
#define ROW (STEPS * OUTPUTS + N)
#if HYBRID
/* x as integers of 8 bits in `whole` */
#define H_AT(k) h[k]
#define M_AT(k) m[k]
#define QUANTIZED(X, count, scale) \
    HYBRID_ROW(X, count, scale, inverse_, zero_) \
    EACH_OF(u, count) whole[u] = (f32)hybrid_value(X(u), inverse_, zero_); \
    SYNC
#endif
#define NORMALIZED(gate) { \
    f32 sum_ = 0.0f, squares_ = 0.0f; \
    for (i32 k_ = 0; k_ < N; k_++) \
        sum_ += z[(gate) * N + k_]; \
    const f32 mean_ = sum_ / (f32)N; \
    for (i32 k_ = 0; k_ < N; k_++) \
        squares_ += (z[(gate) * N + k_] - mean_) * (z[(gate) * N + k_] - mean_); \
    const f32 spread_ = F_SQRT(squares_ / (f32)N + 1e-8f); \
    SYNC \
    EACH_OF(u, N) z[(gate) * N + u] = \
        (z[(gate) * N + u] - mean_) / spread_ * NORM[(gate) * N + u] + BIAS[(gate) * N + u]; \
    SYNC }

KERNEL void KERNEL_NAME(PARAMETERS)
{
    WORK f32 h[OUTPUTS], c[N], m[N], z[LONGEST];
#if HYBRID
    WORK f32 whole[N > OUTPUTS ? N : OUTPUTS];
#endif
    const i32 lane = LID0, row = GID0 / GROUP;
    EACH_OF(u, OUTPUTS) h[u] = LOAD1(row * OUTPUTS + u);
    EACH_OF(u, N) c[u] = LOAD2(row * N + u);
    SYNC
    for (i32 step = 0; step < STEPS; step++) {
        const i32 t = BACKWARD ? STEPS - 1 - step : step;
        CONST_ARG f32* early = EARLY + (EARLY_ROW(t, row)) * (GATES * N);
#if DIAGONAL
        EACH_OF(u, GATES * N) z[u] = h[u % N] * RECURRENT[u] + early[u];
#elif HYBRID
        {
            QUANTIZED(H_AT, OUTPUTS, scale)
            TIMES_WEIGHTS(z, whole, OUTPUTS, RECURRENT, WIDE)
            SYNC
            EACH_OF(u, GATES * N) z[u] = z[u] * scale * RECURRENT_SCALE[u] + early[u];
        }
#else
        TIMES_WEIGHTS(z, h, OUTPUTS, RECURRENT, WIDE)
        SYNC
        EACH_OF(u, GATES * N) z[u] += early[u];
#endif
        SYNC
#if PEEPHOLES
        EACH_OF(u, (GATES - 2) * N) z[N + u] += c[u % N] * PEEPHOLE[u];
        SYNC
#endif
#if NORMS
        for (i32 g = PEEPHOLES; g < GATES; g++)
            NORMALIZED(g)
#endif
        EACH_LANE_VECTOR(u, N) {
            const FLOATS forget = OPENED(Z(GATES - 2, u)), update = ACTIVATE(Z(GATES - 1, u));
#if CIFG
            const FLOATS input = 1.0f - forget;
#else
            const FLOATS input = OPENED(Z(1, u));
#endif
            FLOATS cell = LOADV(c + u) * forget + input * update;
            cell = CLIPPED_CELL(cell);
            STOREV(cell, c + u);
        }
#if PEEPHOLES
        SYNC
        EACH_OF(u, N) z[u] += c[u] * OUTPUT_PEEPHOLE[u];
        SYNC
#if NORMS
        NORMALIZED(0)
#endif
#endif
        EACH_LANE_VECTOR(u, N) STOREV(OPENED(Z(0, u)) * ACTIVATE(LOADV(c + u)), m + u);
        SYNC
#if PROJECTED
#if HYBRID
        {
            QUANTIZED(M_AT, N, scale)
            TIMES_WEIGHTS(z, whole, N, PROJECTION, PROJECTION_WIDE)
            SYNC
            EACH_OF(u, OUTPUTS) z[u] = z[u] * scale * PROJECTION_SCALE[u];
        }
#else
        TIMES_WEIGHTS(z, m, N, PROJECTION, PROJECTION_WIDE)
#endif
        SYNC
        EACH_OF(u, OUTPUTS) {
            const f32 v = z[u] + PROJECTION_BIAS(u);
            h[u] = CLIPPED_OUTPUT(v);
        }
#else
        EACH_OF(u, N) h[u] = m[u];
#endif
        SYNC
        EACH_OF(u, OUTPUTS) STORE(row * ROW + t * OUTPUTS + u, h[u]);
    }
    EACH_OF(u, N) STORE(row * ROW + STEPS * OUTPUTS + u, c[u]);
}
#undef OPENED
#undef Z
#undef ROW
#undef QUANTIZED
#undef H_AT
#undef M_AT
#undef NORMALIZED
