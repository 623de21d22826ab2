/* Fourier transforms of real rows on a CPU, VW rows side by side in the lanes of vectors. Row r of IN0
   begins at r * STRIDE, USED of its values count, zeros make it N long; the result is N / 2 + 1 pairs
   of floats. IN1: cosine and sine of k / N of a turn, backwards, for k up to N / 2. IN2: k with its
   digits reversed. The pairs of a row are taken as M = N / 2 complex numbers, transformed in place, four
   at a time, and taken apart: Z[k] and Z[M - k] hold the transforms of even and odd values. */
#define SOME VEC(f32, VW)
#define M (N / 2)

KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 first = GID0 * VW;
    SOME re[M], im[M], tile[VW];
    f32 lanes[VW];
    for (i32 t = 0; t < N; t += VW) {
        for (i32 i = 0; i < VW; i++) {
            CONST_ARG f32* x = IN0 + (first + i < ROWS ? first + i : ROWS - 1) * STRIDE + t;
            if (t + VW <= USED) {
                tile[i] = VLOAD(VW, x);
                continue;
            }
            for (i32 j = 0; j < VW; j++)
                lanes[j] = t + j < USED ? x[j] : 0.0f;
            tile[i] = VLOAD(VW, lanes);
        }
        TURN(tile);
        for (i32 i = 0; i < VW / 2; i++) {
            const i32 k = IN2[t / 2 + i];
            re[k] = tile[2 * i];
            im[k] = tile[2 * i + 1];
        }
    }
    i32 span = 1;
#if TWO_FIRST
    for (i32 k = 0; k < M; k += 2) {
        const SOME ar = re[k], ai = im[k], br = re[k + 1], bi = im[k + 1];
        re[k] = ar + br;
        im[k] = ai + bi;
        re[k + 1] = ar - br;
        im[k + 1] = ai - bi;
    }
    span = 2;
#endif
    for (; span < M; span *= 4)
        for (i32 j = 0; j < span; j++) {
            const i32 turn = j * (M / span) / 2;
            const f32 c1 = IN1[2 * turn], s1 = IN1[2 * turn + 1];
            const f32 c2 = IN1[4 * turn], s2 = IN1[4 * turn + 1];
            for (i32 k = j; k < M; k += 4 * span) {
                const SOME ar = re[k], ai = im[k];
                const SOME br = re[k + span], bi = im[k + span];
                const SOME cr = re[k + 2 * span], ci = im[k + 2 * span];
                const SOME dr = re[k + 3 * span], di = im[k + 3 * span];
                const SOME er = br * c2 - bi * s2, ei = br * s2 + bi * c2;
                const SOME fr = dr * c2 - di * s2, fi = dr * s2 + di * c2;
                const SOME pr = ar + er, pi = ai + ei, qr = ar - er, qi = ai - ei;
                const SOME ur = cr + fr, ui = ci + fi, vr = cr - fr, vi = ci - fi;
                const SOME xr = ur * c1 - ui * s1, xi = ur * s1 + ui * c1;
                const SOME yr = vr * c1 - vi * s1, yi = vr * s1 + vi * c1;
                re[k] = pr + xr;
                im[k] = pi + xi;
                re[k + span] = qr + yi;
                im[k + span] = qi - yr;
                re[k + 2 * span] = pr - xr;
                im[k + 2 * span] = pi - xi;
                re[k + 3 * span] = qr - yi;
                im[k + 3 * span] = qi + yr;
            }
        }
    for (i32 k0 = 0; k0 <= M; k0 += VW / 2) {
        for (i32 i = 0; i < VW / 2; i++) {
            const i32 k = k0 + i < M ? k0 + i : M, a = k % M, b = (M - k) % M;
            const f32 c = IN1[2 * k] * 0.5f, s = IN1[2 * k + 1] * 0.5f;
            const SOME odd_r = im[a] + im[b], odd_i = re[b] - re[a];
            tile[2 * i] = (re[a] + re[b]) * 0.5f + odd_r * c - odd_i * s;
            tile[2 * i + 1] = (im[a] - im[b]) * 0.5f + odd_r * s + odd_i * c;
        }
        TURN(tile);
        const i32 count = 2 * (M + 1 - k0);
        for (i32 i = 0; i < VW && first + i < ROWS; i++) {
            GLOBAL f32* to = (GLOBAL f32*)OUT + (first + i) * (N + 2) + 2 * k0;
            if (count >= VW) {
                VSTORE(VW, tile[i], to);
                continue;
            }
            VSTORE(VW, tile[i], lanes);
            for (i32 j = 0; j < count; j++)
                to[j] = lanes[j];
        }
    }
}
#undef SOME
#undef M
