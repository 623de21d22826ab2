/* Fixed point of 16 bits, as kernels/_fixedpoint16.py has it. */

/* the product of Q(m) and Q(n), in Q(m + n) */
DEVICE i32 times_16(i32 a, i32 b)
{
    const i32 ab = a * b, total = ab + (ab >= 0 ? 1 << 14 : 1 - (1 << 14));
    return ab == 1 << 30 ? 32767 : total >= 0 ? total >> 15 : -(-total >> 15);
}

/* halves away from zero */
DEVICE i32 shifted_right_16(i32 a, i32 right)
{
    const i32 mask = (1 << right) - 1;
    return (a >> right) + ((a & mask) > (mask >> 1) + (a < 0));
}
