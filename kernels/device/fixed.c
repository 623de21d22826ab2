/* Fixed-point requantisation, to the bit as kernels/_quant.py has it. */

/* a * q / 2^31 * 2^shift, rounded twice; the left shift wraps */
DEVICE i32 multiply_quantized(i32 a, i32 q, i32 shift)
{
    i32 left = shift > 0 ? shift : 0, right = shift > 0 ? 0 : -shift;
    i64 high = ((i64)(i32)((u32)a << left) * q + ((i64)1 << 30)) >> 31;
    i64 most = 2147483647;
    if (high > most)
        high = most;
    i64 nudge = right ? (i64)1 << (right - 1) : 0;
    return (i32)((high + nudge + (right && high < 0 ? -1 : 0)) >> right);
}

/* the form for wide accumulators: q has 16 bits, one rounding */
DEVICE i64 multiply_quantized_wide(i64 a, i32 q, i32 shift)
{
    i64 reduced = q < 0x7FFF0000 ? ((i64)q + (1 << 15)) >> 16 : 0x7FFF;
    i32 total = 15 - shift;
    return (a * reduced + ((i64)1 << (total - 1))) >> total;
}

DEVICE i32 clamp_to(i64 v, i32 low, i32 high)
{
    return v < low ? low : v > high ? high : (i32)v;
}

/* halves away from zero */
DEVICE f32 round_away(f32 v)
{
    f32 whole = F_TRUNC(v);
    return F_ABS(v - whole) >= 0.5f ? whole + (v < 0.0f ? -1.0f : 1.0f) : whole;
}

/* the same of a sum that int32 may not hold */
DEVICE i64 rescale(i64 total, i32 q, i32 shift)
{
    if (shift > 0)
        return multiply_quantized((i32)total, q, shift);
    i32 right = -shift;
    i64 high = (total * q + ((i64)1 << 30)) >> 31;
    return right ? (high + (high < 0 ? -1 : 0) + ((i64)1 << (right - 1))) >> right : high;
}

/* round(v) + zero, halves away from zero, saturated; NaN gives zero. v is x / scale. */
DEVICE i32 quantize(f32 v, i32 zero, i32 low, i32 high)
{
    f32 least = (f32)(low - zero), most = (f32)(high - zero);
    if (v != v)
        return zero;
    /* the greatest float below one half: adding it and cutting off rounds every float */
    v += v < 0.0f ? -0.49999997f : 0.49999997f;
    return (i32)(v < least ? least : v > most ? most : v) + zero;
}

/* v / 2^20, halves away from zero */
DEVICE i32 round_shifted(i64 v)
{
    return (i32)((v + (v < 0 ? -1 : 0) + (1 << 19)) >> 20);
}

/* a float as an integer, less its row's zero point, that a byte with it can hold; halves away from
   zero. Product and sum are rounded apart. */
DEVICE i32 hybrid_value(f32 x, f32 inverse, f32 zero)
{
    const f32 product = x * inverse;
    const f32 nudged = product + (product < 0.0f ? -0.49999997f : 0.49999997f);
    const f32 whole = F_TRUNC(nudged), least = -128.0f - zero, most = 127.0f - zero;
    return (i32)(whole < least ? least : whole > most ? most : whole);
}
