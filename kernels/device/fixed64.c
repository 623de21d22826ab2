/* a * m, rounded once, halves away from zero; int32 saturates, NaN is 0 */
DEVICE i32 round_product(i32 a, f64 m)
{
    const f64 nearly_half = 0.49999999999999994;
    f64 v = (f64)a * m;
    v = v < 0 ? v - nearly_half : v + nearly_half;
    return v > -2147483648.0 ? (v < 2147483648.0 ? (i32)v : 2147483647) : -2147483647 - 1;
}

/* the same of a sum of 64 bits, which float64 holds */
DEVICE i64 round_product_wide(i64 a, f64 m)
{
    const f64 nearly_half = 0.49999999999999994, most = 4611686018427387904.0;
    const f64 product = (f64)a * m;
    const f64 v = product < 0 ? product - nearly_half : product + nearly_half;
    return v > -most ? (v < most ? (i64)v : (i64)1 << 62) : -((i64)1 << 62);
}
