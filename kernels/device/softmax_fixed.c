/* SOFTMAX of 8-bit rows: IN1 holds exponentials of the distance to the row's greatest value, IN2
   the same with 12 bits less, which do not overflow when summed. A work-item does EACH rows. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    for (i32 row = GID0 * EACH; row < (GID0 + 1) * EACH && row < ROWS; row++) {
        const i32 base = row * DEPTH;
        i32 most = LOAD0(base);
        for (i32 j = 1; j < DEPTH; j++) {
            const i32 v = LOAD0(base + j);
            most = v > most ? v : most;
        }
        i64 total = 0;
        for (i32 j = 0; j < DEPTH; j++)
            total += IN2[most - LOAD0(base + j)];
        i32 bits = 1;
        i64 left = total;
        for (i32 step = 32; step > 0; step /= 2)
            if (left >> step) {
                left >>= step;
                bits += step;
            }
        const i64 inverse = reciprocal_of(total, bits);
        i32 exponent = bits - 20 + 31 - BITS;
        exponent = exponent < 32 ? exponent : 32;
        const i64 nudge = ((i64)1 << 30) + ((i64)1 << (exponent + 30));
        for (i32 j = 0; j < DEPTH; j++) {
            const i64 power = IN1[most - LOAD0(base + j)];
            const i64 v = (power * inverse + nudge) >> (exponent + 31);
            STORE(base + j, (i32)(v < 0 ? 0 : v > TOP ? TOP : v) - SIGN);
        }
    }
}
