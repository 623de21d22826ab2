/* What an integer of 8 bits stands for in a row of floats from `low` to `high`, 0 among them, and
   its zero point; see kernels/_hybrid.py. */
DEVICE f32 asymmetric_scale(f32 low, f32 high, f32* zero)
{
    const f64 step = (f64)(f32)(high - low) / 255.0, scale = step == 0.0 ? 1.0 : step;
    const f64 below = (f64)low / scale, above = (f64)high / scale;
    f64 point = 128.0 + F_ABS(below) < 127.0 + F_ABS(above) ? -128.0 - below : 127.0 - above;
    point = point < -128.0 ? -128.0 : point > 127.0 ? 127.0 : point;
    *zero = low == high ? 0.0f : (f32)F_TRUNC(point < 0.0 ? point - 0.5 : point + 0.5);
    return (f32)scale;
}
