/* a * q / 2^shift, rounded as float64 has it, where a device has none: the product to 53 bits, halves
   to even, then to a whole number, halves away from zero. q is the mantissa of a real multiplier, of
   53 bits, or 0; |a| is less than 2^53. What 62 bits do not hold is 2^62. */
DEVICE i64 round_real(i64 a, i64 q, i32 shift)
{
    const u64 x = a < 0 ? -a : a, x0 = x & 0xFFFFFFFFu, x1 = x >> 32;
    const u64 q0 = (u64)q & 0xFFFFFFFFu, q1 = (u64)q >> 32;
    /* the product in 128 bits */
    const u64 p00 = x0 * q0, p01 = x0 * q1, p10 = x1 * q0;
    const u64 middle = (p00 >> 32) + (p01 & 0xFFFFFFFFu) + (p10 & 0xFFFFFFFFu);
    const u64 low = (p00 & 0xFFFFFFFFu) | (middle << 32);
    const u64 high = x1 * q1 + (p01 >> 32) + (p10 >> 32) + (middle >> 32);
    if (!(low | high))
        return 0;
    /* how many bits beyond 53 it has: 53 or less, as q has 53 */
    i32 more = 0;
    for (i32 step = 32; step; step /= 2) {
        const i32 at = 52 + more + step;
        if (at < 64 ? (low >> at) | high : high >> (at - 64))
            more += step;
    }
    u64 mantissa = low;
    if (more) {
        const u64 rest = low & (((u64)1 << more) - 1), half_way = (u64)1 << (more - 1);
        mantissa = (low >> more) | (high << (64 - more));
        mantissa += rest > half_way || (rest == half_way && (mantissa & 1));
    }
    const i32 right = shift - more;
    u64 whole = 0;
    if (right <= 0)
        whole = right > -9 ? mantissa << -right : (u64)1 << 62;
    else if (right <= 54)
        whole = (mantissa + ((u64)1 << (right - 1))) >> right;
    if (whole > (u64)1 << 62)
        whole = (u64)1 << 62;
    return a < 0 ? -(i64)whole : (i64)whole;
}
