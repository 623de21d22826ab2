/* Integer arithmetic without undefined cases, and remainders as numpy has them. */

/* quotient towards zero; of 0 the caller raises */
DEVICE i32 divide_i32(i32 a, i32 b)
{
    return b == 0 ? 0 : b == -1 ? (i32)(0u - (u32)a) : a / b;
}

DEVICE i64 divide_i64(i64 a, i64 b)
{
    return b == 0 ? 0 : b == -1 ? (i64)((u64)0 - (u64)a) : a / b;
}

DEVICE i32 floor_divide_i32(i32 a, i32 b)
{
    i32 q = divide_i32(a, b);
    return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

DEVICE i64 floor_divide_i64(i64 a, i64 b)
{
    i64 q = divide_i64(a, b);
    return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

DEVICE i32 floor_mod_i32(i32 a, i32 b)
{
    i32 r = b == 0 || b == -1 ? 0 : a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

DEVICE i64 floor_mod_i64(i64 a, i64 b)
{
    i64 r = b == 0 || b == -1 ? 0 : a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

DEVICE f32 floor_mod_f32(f32 a, f32 b)
{
    f32 r = F_MOD(a, b);
    if (r == 0.0f)
        return b < 0.0f ? -0.0f : 0.0f;
    return (r < 0.0f) != (b < 0.0f) ? r + b : r;
}

/* NaN stays */
DEVICE f32 clamp_f32(f32 v, f32 low, f32 high)
{
    return v < low ? low : v > high ? high : v;
}

DEVICE i64 at_least_i64(i64 v, i64 low)
{
    return v < low ? low : v;
}

DEVICE i64 at_most_i64(i64 v, i64 high)
{
    return v > high ? high : v;
}

/* powers of integers, which wrap; to a negative power 0, but for 1 and -1 */
DEVICE u64 power_u64(u64 base, u64 exponent)
{
    u64 v = 1;
    for (; exponent; exponent >>= 1) {
        if (exponent & 1)
            v *= base;
        base *= base;
    }
    return v;
}

DEVICE u32 power_u32(u32 base, u32 exponent)
{
    return (u32)power_u64(base, exponent);
}

DEVICE i64 power_i64(i64 base, i64 exponent)
{
    if (exponent < 0)
        return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
    return (i64)power_u64((u64)base, (u64)exponent);
}

DEVICE i32 power_i32(i32 base, i32 exponent)
{
    return (i32)power_i64(base, exponent);
}
