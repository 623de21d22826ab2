/* Fixed-point 1 / x, as kernels/_fixedpoint.py has it. */
DEVICE i64 product_31(i64 a, i64 b)
{
    return (a * b + ((i64)1 << 30)) >> 31;
}

/* of a positive number of that many bits, in Q(0) of 1 / (1 + fraction) */
DEVICE i64 reciprocal_of(i64 x, i32 bits)
{
    const i64 normal = bits <= 32 ? x << (32 - bits) : x >> (bits - 32);
    const i64 fraction = (normal & 0xFFFFFFFFL) - ((i64)1 << 31);
    const i64 half_denominator = (fraction + ((i64)1 << 31)) >> 1;
    i64 v = 1515870810L + product_31(half_denominator, -1010580540L);
    for (i32 step = 0; step < 3; step++)
        v += product_31(v, ((i64)1 << 29) - product_31(half_denominator, v)) << 2;
    v <<= 1;
    return v < 2147483647L ? v : 2147483647L;
}
