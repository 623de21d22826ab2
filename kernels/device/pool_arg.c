/* Largest value of each window (PLACES 0), or where it is (PLACES 1): FIRST(c) where nothing is
   above the least number, else PLACE(y, x, ky, kx, c) of the input position and the tap. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 begin = GID0 * EACH, end = begin + EACH < SIZE ? begin + EACH : SIZE;
    for (i32 i = begin; i < end; i++) {
        const i32 c = i % C, x0 = i / C % OW * SW - PW, y0 = i / (C * OW) % OH * SH - PH;
        const i32 image = i / (C * OW * OH);
        f32 largest = LEAST;
        KIND place = FIRST(c);
        for (i32 ky = 0; ky < KH; ky++)
            for (i32 kx = 0; kx < KW; kx++) {
                const i32 y = y0 + ky, x = x0 + kx;
                if (y < 0 || y >= H || x < 0 || x >= W)
                    continue;
                const f32 v = LOAD0(((image * H + y) * W + x) * C + c);
                if (v > largest) {
                    largest = v;
                    place = PLACE(y, x, ky, kx, c);
                }
            }
#if PLACES
        STORE(i, place);
#else
        STORE(i, largest < LOW ? LOW : largest > HIGH ? HIGH : largest);
#endif
    }
}
