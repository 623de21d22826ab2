/* Products and sums of float32, each rounded once: by way of float64 where there is one, and of what
   finite numbers are not more than, so that no compiler joins a product and a sum. */
DEVICE f32 times_once(f32 a, f32 b)
{
    return F_MIN((f32)((REAL)a * (REAL)b), 3.402823466e+38f);
}

DEVICE f32 plus_once(f32 a, f32 b)
{
    return F_MIN((f32)((REAL)a + (REAL)b), 3.402823466e+38f);
}

DEVICE i32 blend_bytes(f32 a, f32 b, f32 c, f32 d, f32 up, f32 down, f32 near, f32 far)
{
    f32 sum = times_once(times_once(a, up), near);
    sum = plus_once(sum, times_once(times_once(b, down), near));
    sum = plus_once(sum, times_once(times_once(c, up), far));
    sum = plus_once(sum, times_once(times_once(d, down), far));
    return (i32)plus_once(sum, 0.5f);
}

#ifdef VEC
/* the same of 16 channels: products and sums in statements of their own stay apart */
DEVICE VEC(i32, 16) blend_bytes_16(
    VEC(f32, 16) a, VEC(f32, 16) b, VEC(f32, 16) c, VEC(f32, 16) d,
    f32 up, f32 down, f32 near, f32 far)
{
    const VEC(f32, 16) a1 = a * VSPLAT(f32, 16, up), a2 = a1 * VSPLAT(f32, 16, near);
    const VEC(f32, 16) b1 = b * VSPLAT(f32, 16, down), b2 = b1 * VSPLAT(f32, 16, near);
    const VEC(f32, 16) c1 = c * VSPLAT(f32, 16, up), c2 = c1 * VSPLAT(f32, 16, far);
    const VEC(f32, 16) d1 = d * VSPLAT(f32, 16, down), d2 = d1 * VSPLAT(f32, 16, far);
    const VEC(f32, 16) ab = a2 + b2, abc = ab + c2, sum = abc + d2;
    const VEC(f32, 16) nudged = sum + VSPLAT(f32, 16, 0.5f);
    return VCONVERT(i32, 16, nudged);
}
#endif
