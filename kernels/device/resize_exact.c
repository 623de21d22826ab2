/* Products and sums of float32, each rounded once: by way of float64, so that no compiler joins
   a product and a sum. */
DEVICE f32 times_once(f32 a, f32 b)
{
    return (f32)((f64)a * (f64)b);
}

DEVICE f32 plus_once(f32 a, f32 b)
{
    return (f32)((f64)a + (f64)b);
}

DEVICE i32 blend_bytes(f32 a, f32 b, f32 c, f32 d, f32 up, f32 down, f32 near, f32 far)
{
    f32 sum = times_once(times_once(a, up), near);
    sum = plus_once(sum, times_once(times_once(b, down), near));
    sum = plus_once(sum, times_once(times_once(c, up), far));
    sum = plus_once(sum, times_once(times_once(d, down), far));
    return (i32)plus_once(sum, 0.5f);
}
