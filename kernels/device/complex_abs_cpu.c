/* Absolute values of ROWS rows of N complex numbers on a CPU, EACH of them in a work-item: vectors of VW
   at once, the last one of a row moved back. As in complex.c the greater part is taken out. */
#define SOME VEC(f32, VW)

KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 begin = GID0 * EACH, end = begin + EACH < ROWS ? begin + EACH : ROWS;
    const SOME none = VSPLAT(f32, VW, 0);
    for (i32 row = begin; row < end; row++)
        for (i32 from = 0; from < N; from += VW) {
            const i32 at = row * N + (from < N - VW ? from : N - VW);
            CONST_ARG f32* x = (CONST_ARG f32*)IN0 + 2 * at;
            const SOME v = VLOAD(VW, x), w = VLOAD(VW, x + VW);
            const SOME a = F_ABS(EVENS(f32, VW, v, w)), b = F_ABS(ODDS(f32, VW, v, w));
            const SOME big = a > b ? a : b, little = a > b ? b : a, share = little / big;
            const SOME size = big * F_SQRT(share * share + 1.0f);
            const SOME found = big == none ? big : big > 3.4028234e38f ? big : size;
#ifdef STORE_VECTOR
            STORE_VECTOR(VW, at, found);
#else
            f32 lanes[VW];
            VSTORE(VW, found, lanes);
            for (i32 i = row * N + from - at; i < VW; i++)
                STORE(at + i, lanes[i]);
#endif
        }
}
#undef SOME
