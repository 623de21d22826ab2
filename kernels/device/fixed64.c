/* a * m, rounded once, halves away from zero; int32 saturates, NaN is 0 */
DEVICE i32 round_product(i32 a, f64 m)
{
    const f64 nearly_half = 0.49999999999999994;
    f64 v = (f64)a * m;
    v = v < 0 ? v - nearly_half : v + nearly_half;
    return v > -2147483648.0 ? (v < 2147483648.0 ? (i32)v : 2147483647) : -2147483647 - 1;
}
