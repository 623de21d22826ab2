/* A 4x4 matrix of a crop around landmarks (input 0; IN1 names those of the subset), as
   kernels/_landmarks.py has it. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    if (GID0 > 0)
        return;
    const REAL dx = (REAL)LOAD0(RIGHT * 3) - (REAL)LOAD0(LEFT * 3);
    const REAL dy = (REAL)LOAD0(RIGHT * 3 + 1) - (REAL)LOAD0(LEFT * 3 + 1);
    const REAL angle = ANGLE(dx, dy);
    const REAL c = F_COS(angle), s = F_SIN(angle);
    REAL low_x = 0, low_y = 0, high_x = 0, high_y = 0;
    for (i32 k = 0; k < COUNT; k++) {
        const REAL x = LOAD0(IN1[k] * 3), y = LOAD0(IN1[k] * 3 + 1);
        const REAL u = x * c - y * s, v = x * s + y * c;
        low_x = k == 0 || u < low_x ? u : low_x;
        high_x = k == 0 || u > high_x ? u : high_x;
        low_y = k == 0 || v < low_y ? v : low_y;
        high_y = k == 0 || v > high_y ? v : high_y;
    }
    /* turned back */
    const REAL u = (low_x + high_x) / 2, v = (low_y + high_y) / 2;
    const REAL middle_x = c * u + s * v, middle_y = c * v - s * u;
    const REAL across = (high_x - low_x) * SCALE_X, down = (high_y - low_y) * SCALE_Y;
    REAL m00 = c * across, m01 = s * down, m10 = -s * across, m11 = c * down;
#if FIRST_VERSION
    const REAL shift_x = OUT_OF_X * (middle_x * 2 / RANGE - 1 - (m00 + m01)) + OUT_OF_X;
    const REAL shift_y = OUT_OF_Y * (middle_y * 2 / RANGE - 1 - (m10 + m11)) + OUT_OF_Y;
    m00 *= OUT_OF_X * 2 / INTO_X;
    m01 *= OUT_OF_X * 2 / INTO_Y;
    m10 *= OUT_OF_Y * 2 / INTO_X;
    m11 *= OUT_OF_Y * 2 / INTO_Y;
#else
    const REAL shift_x = middle_x - (m00 * (REAL)WIDTH + m01 * (REAL)HEIGHT) / 2;
    const REAL shift_y = middle_y - (m10 * (REAL)WIDTH + m11 * (REAL)HEIGHT) / 2;
#endif
    STORE(0, (f32)m00);
    STORE(1, (f32)m01);
    STORE(2, 0.0f);
    STORE(3, (f32)shift_x);
    STORE(4, (f32)m10);
    STORE(5, (f32)m11);
    STORE(6, 0.0f);
    STORE(7, (f32)shift_y);
    for (i32 k = 8; k < 16; k++)
        STORE(k, k == 10 || k == 15 ? 1.0f : 0.0f);
}
