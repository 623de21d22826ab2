/* The image IN0 at positions that the 4x4 matrix IN1 gives, bilinear; 0 outside. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 begin = GID0 * EACH, end = begin + EACH < COUNT ? begin + EACH : COUNT;
    f32 shift_x = LOAD1(3), shift_y = LOAD1(7);
#if CENTERED
    shift_x += LOAD1(0) * 0.5f + LOAD1(1) * 0.5f - 0.5f;
    shift_y += LOAD1(4) * 0.5f + LOAD1(5) * 0.5f - 0.5f;
#endif
    for (i32 p = begin; p < end; p++) {
        const f32 j = (f32)(p % OW), i = (f32)(p / OW);
        const f32 at_x = LOAD1(0) * j + LOAD1(1) * i + shift_x;
        const f32 at_y = LOAD1(4) * j + LOAD1(5) * i + shift_y;
        const i32 inside =
            at_x >= 0.0f && at_x <= (f32)(W - 1) && at_y >= 0.0f && at_y <= (f32)(H - 1);
        const f32 left = inside ? F_FLOOR(at_x) : 0.0f, top = inside ? F_FLOOR(at_y) : 0.0f;
        const f32 across = inside ? at_x - left : 0.0f, down = inside ? at_y - top : 0.0f;
        const i32 c0 = (i32)left, r0 = (i32)top;
        const i32 c1 = c0 + 1 < W ? c0 + 1 : c0, r1 = r0 + 1 < H ? r0 + 1 : r0;
        const i32 a = (r0 * W + c0) * C, b = (r0 * W + c1) * C;
        const i32 d = (r1 * W + c0) * C, e = (r1 * W + c1) * C;
        for (i32 c = 0; c < C; c++) {
            const f32 upper = (1.0f - across) * LOAD0(a + c) + across * LOAD0(b + c);
            const f32 lower = (1.0f - across) * LOAD0(d + c) + across * LOAD0(e + c);
            STORE(p * C + c, inside ? down * lower + (1.0f - down) * upper : 0.0f);
        }
    }
}
