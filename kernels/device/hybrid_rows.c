/* How each row of DEPTH floats is quantised to bytes: its scale, the factor that takes floats to
   integers, and its zero point. See kernels/_hybrid.py. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 row = GID0;
    if (row >= ROWS)
        return;
    /* lost: 0, or NaN where a value is not finite, which makes all that the row gives NaN */
    f32 low = 0.0f, high = 0.0f, lost = 0.0f;
    for (i32 i = 0; i < DEPTH; i++) {
        const f32 v = LOAD0(row * DEPTH + i);
        low = v < low ? v : low;
        high = v > high ? v : high;
        lost += v - v;
    }
#if ASYMMETRIC
    const f32 reach = high - low;
    const REAL step = (REAL)reach / 255.0f, scale = step == 0.0f ? 1.0f : step;
    const REAL below = (REAL)low / scale, above = (REAL)high / scale;
    const REAL from_low = -128.0f - below, from_high = 127.0f - above;
    REAL point = 128.0f + F_ABS(below) < 127.0f + F_ABS(above) ? from_low : from_high;
    point = point < -128.0f ? -128.0f : point > 127.0f ? 127.0f : point;
    const REAL rounded = point < 0.0f ? point - 0.5f : point + 0.5f;
    const f32 single = (f32)scale;
    STORE(3 * row, single + lost);
    STORE(3 * row + 1, (f32)(1.0f / (REAL)single));
    STORE(3 * row + 2, low == high ? 0.0f : (f32)F_TRUNC(rounded));
#else
    /* whatever the scale of a row of zeros, its values are 0 */
    f32 top = -low > high ? -low : high;
    top = top < 1e-36f ? 1e-36f : top;
    STORE(3 * row, (f32)((REAL)top / 127.0f) + lost);
    STORE(3 * row + 1, (f32)(127.0f / (REAL)top));
    STORE(3 * row + 2, 0.0f);
#endif
}
