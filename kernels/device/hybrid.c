/* What an integer of 8 bits stands for in a row of floats from `low` to `high`, 0 among them, and
   its zero point; see kernels/_hybrid.py. */
DEVICE f32 asymmetric_scale(f32 low, f32 high, f32* zero)
{
    const REAL step = (REAL)(f32)(high - low) / 255.0f, scale = step == 0.0f ? 1.0f : step;
    const REAL below = (REAL)low / scale, above = (REAL)high / scale;
    REAL point = 128.0f + F_ABS(below) < 127.0f + F_ABS(above) ? -128.0f - below : 127.0f - above;
    point = point < -128.0f ? -128.0f : point > 127.0f ? 127.0f : point;
    *zero = low == high ? 0.0f : (f32)F_TRUNC(point < 0.0f ? point - 0.5f : point + 0.5f);
    return (f32)scale;
}
