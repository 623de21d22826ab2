/* The image IN0 where the flow IN1 (rows, columns) comes from, bilinear, edges held. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 begin = GID0 * EACH, end = begin + EACH < COUNT ? begin + EACH : COUNT;
    for (i32 p = begin; p < end; p++) {
        const f32 y = (f32)(p / W % H) - LOAD1(2 * p), x = (f32)(p % W) - LOAD1(2 * p + 1);
        const f32 top = F_MIN(F_MAX(F_FLOOR(y), 0.0f), (f32)(H - 2));
        const f32 left = F_MIN(F_MAX(F_FLOOR(x), 0.0f), (f32)(W - 2));
        const f32 down = F_MIN(F_MAX(y - top, 0.0f), 1.0f);
        const f32 across = F_MIN(F_MAX(x - left, 0.0f), 1.0f);
        const i32 at = (p / (H * W) * (H * W) + (i32)top * W + (i32)left) * C;
        for (i32 c = 0; c < C; c++) {
            const f32 a = LOAD0(at + c), b = LOAD0(at + C + c);
            const f32 d = LOAD0(at + W * C + c), e = LOAD0(at + W * C + C + c);
            const f32 upper = (b - a) * across + a, lower = (e - d) * across + d;
            STORE(p * C + c, (lower - upper) * down + upper);
        }
    }
}
