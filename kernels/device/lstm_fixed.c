/* All steps of an LSTM on int8 with 16-bit gates and cell, to the bit as kernels/_lstm_integer.py
   has it; a work-group for each row of the batch. Gates stand side by side: output, input (unless
   CIFG), forget, cell. EARLY holds what the input adds to them, for all steps. The result of a row:
   the outputs of all steps, then the cell. */
#define CLIPPED_16(v) ((v) < -32768 ? -32768 : (v) > 32767 ? 32767 : (v))
#define ROW (STEPS * OUTPUTS + N)
#define QUOTIENT(a, d) ((a) < 0 ? -(-(a) / (d)) : (a) / (d))
#define AWAY(v, shift) \
    ((v) < 0 ? -((-(v) + ((1 << (shift)) >> 1)) >> (shift)) : ((v) + ((1 << (shift)) >> 1)) >> (shift))
/* a gate plus what the cell says through its peephole; PEEPHOLE holds the weights of a row of the
   batch, then come multiplier and shift of each gate */
#define PEEP(gate, u) \
    const i64 sum_ = (i64)z[(gate) * N + (u)] + multiply_quantized( \
        c[u] * PEEPHOLE[(row * PEEPS + (gate)) * N + (u)], PEEPHOLE_SCALE[2 * (gate)], \
        PEEPHOLE_SCALE[2 * (gate) + 1]); \
    z[(gate) * N + (u)] = (i32)CLIPPED_16(sum_);
#define NORMALIZED(gate) { \
    i64 sum_ = 0, squares_ = 0; \
    for (i32 k_ = 0; k_ < N; k_++) { \
        const i64 v_ = z[(gate) * N + k_]; \
        sum_ += v_; \
        squares_ += v_ * v_; \
    } \
    const i64 mean_ = QUOTIENT(sum_ * 1024, N); \
    const i64 spread_ = squares_ * (((i64)1 << 20) / N) - mean_ * mean_; \
    i64 variance_ = QUOTIENT(spread_, (i64)1 << 20); \
    variance_ = variance_ < 1 ? NORM_SCALE[3 * (gate) + 2] : variance_; \
    i32 shift_; \
    const i32 inverse_ = inverse_sqrt(variance_, &shift_); \
    SYNC \
    EACH_OF(u, N) { \
        const i32 normal_ = multiply_quantized( \
            (i32)(1024 * (i64)z[(gate) * N + u] - mean_), inverse_, shift_); \
        const i64 sum64_ = (i64)normal_ * NORM[(gate) * N + u] + BIAS[(gate) * N + u]; \
        const i64 weighted_ = (i32)(u32)(u64)sum64_; \
        const i64 nudged_ = weighted_ + (weighted_ > 0 ? 512 : -512); \
        const i32 result_ = multiply_quantized( \
            (i32)QUOTIENT(nudged_, 1024), NORM_SCALE[3 * (gate)], NORM_SCALE[3 * (gate) + 1]); \
        z[(gate) * N + u] = CLIPPED_16(result_); \
    } \
    SYNC }

KERNEL void KERNEL_NAME(PARAMETERS)
{
    WORK i32 h[OUTPUTS], c[N], m[N], z[LONGEST];
    const i32 lane = LID0, row = GID0 / GROUP;
    EACH_OF(u, OUTPUTS) h[u] = LOAD_H(row * OUTPUTS + u);
    EACH_OF(u, N) c[u] = LOAD2(row * N + u);
    SYNC
    for (i32 step = 0; step < STEPS; step++) {
        const i32 early = (EARLY_ROW(step, row)) * (GATES * N);
        TIMES_WEIGHTS(z, h, OUTPUTS, RECURRENT, WIDE)
        SYNC
        EACH_OF(u, GATES * N) {
            const i64 v = (i64)multiply_quantized(
                z[u] + RECURRENT_OFFSET[u], RECURRENT_SCALE[2 * (u / N)],
                RECURRENT_SCALE[2 * (u / N) + 1]) + LOAD0(early + u);
            z[u] = (i32)CLIPPED_16(v);
        }
        SYNC
#if PEEPS
        for (i32 g = 1; g < GATES - 1; g++)
            EACH_OF(u, N) { PEEP(g, u) }
        SYNC
#endif
#if NORMS
        for (i32 g = PEEPS ? 1 : 0; g < GATES; g++)
            NORMALIZED(g)
#endif
        EACH_OF(u, N) {
            const i32 forget = SIGMOID[(u16)z[(GATES - 2) * N + u]];
            const i32 update = TANH[(u16)z[(GATES - 1) * N + u]];
#if CIFG
            const i32 input = 32767 - forget;
#else
            const i32 input = SIGMOID[(u16)z[N + u]];
#endif
            const i32 kept = forget * c[u], added = input * update;
            const i32 cell = AWAY(kept, 15) + AWAY(added, CELL_SHIFT);
            c[u] = cell < -CELL_LOW ? -CELL_LOW : cell > CELL_HIGH ? CELL_HIGH : cell;
        }
#if PEEPS
        SYNC
        EACH_OF(u, N) { PEEP(0, u) }
        SYNC
#if NORMS
        NORMALIZED(0)
#endif
#endif
        EACH_OF(u, N) {
            const i32 v = (i32)SIGMOID[(u16)z[u]] * SQUASH[(u16)c[u]];
            m[u] = clamp_to((i64)multiply_quantized(v, HIDDEN_Q, HIDDEN_SHIFT) + HIDDEN_ZERO, -128, 127);
        }
        SYNC
#if PROJECTED
        TIMES_WEIGHTS(z, m, N, PROJECTION, PROJECTION_WIDE)
        SYNC
        EACH_OF(u, OUTPUTS) {
            const i32 v = clamp_to((i64)multiply_quantized(
                z[u] + PROJECTION_OFFSET[u], PROJECTION_Q, PROJECTION_SHIFT) + OUTPUT_ZERO, -128, 127);
            h[u] = v < OUTPUT_LOW ? OUTPUT_LOW : v > OUTPUT_HIGH ? OUTPUT_HIGH : v;
        }
#else
        EACH_OF(u, N) h[u] = m[u];
#endif
        SYNC
        EACH_OF(u, OUTPUTS) STORE(row * ROW + step * OUTPUTS + u, h[u]);
    }
    EACH_OF(u, N) STORE(row * ROW + STEPS * OUTPUTS + u, c[u]);
}
#undef CLIPPED_16
#undef ROW
#undef QUOTIENT
#undef AWAY
#undef PEEP
#undef NORMALIZED
