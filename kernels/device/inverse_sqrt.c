/* 1 / sqrt(x) as a fixed-point multiplier, as kernels/_inverse_sqrt.py has it. */
DEVICE i32 bits_of(i64 v)
{
    i32 bits = 0;
    while (v >> bits)
        bits++;
    return bits;
}

/* (a * b + 2^30) / 2^31, of int32 */
DEVICE i64 times_31(i64 a, i64 b)
{
    const i64 high = (a * b + ((i64)1 << 30)) >> 31;
    return high < 2147483647 ? high : 2147483647;
}

DEVICE i64 shifted_31(i64 v, i32 left)
{
    const i64 wide = v << left;
    return wide > 2147483647 ? 2147483647 : wide < -2147483647 - 1 ? -2147483647 - 1 : wide;
}

DEVICE i32 inverse_sqrt(i64 x, i32* shift)
{
    if (x <= 1) {
        *shift = 0;
        return 2147483647;
    }
    i32 down = bits_of(x) - 28;
    down = down > 0 ? down >> 1 : 0;
    i64 reduced = x >> (2 * down);
    reduced = reduced < 1 ? 1 : reduced;
    i32 up = (((32 - bits_of(reduced)) - 1) >> 1) - 1;
    up = up < 0 ? 0 : up;
    const i32 right = 11 + down - up;
    const i64 half_input = (((reduced << (2 * up)) >> 1) + 1) >> 1;
    i64 root = 1 << 28;
    for (i32 step = 0; step < 5; step++) {
        const i64 cube = shifted_31(times_31(times_31(root, root), root), 6);
        root = shifted_31(times_31(root, (i64)3 << 27) - times_31(half_input, cube), 3);
    }
    root = times_31(root, 1518500250);
    *shift = right > 0 ? -right : 0;
    return (i32)(right < 0 ? root << -right : root);
}
