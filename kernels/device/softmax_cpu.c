/* SOFTMAX and LOG_SOFTMAX of float32 on a CPU: BLOCK rows of DEPTH in turn, VW values at a time.
   What is missing to whole vectors is filled with -inf, whose exponential is 0. */
#define WHOLE (DEPTH / VW * VW)
#define SUMS VEC(f32, VW)
#define SPLAT(v) VSPLAT(f32, VW, v)
#define SAME(v) (v)

KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 first = GID0 * BLOCK, end = first + BLOCK < ROWS ? first + BLOCK : ROWS;
    f32 powers[WHOLE + VW], lanes[VW];
    for (i32 row = first; row < end; row++) {
        const i32 base = row * DEPTH;
        for (i32 j = WHOLE; j < WHOLE + VW; j++)
            powers[j] = j < DEPTH ? IN0[base + j] : AS_F32(0xFF800000u);
        SUMS most = VLOAD(VW, powers + WHOLE), total = SPLAT(0);
        for (i32 j = 0; j < WHOLE; j += VW)
            most = F_MAX(most, VLOAD(VW, IN0 + base + j));
        VSTORE(VW, most, lanes);
        f32 top = lanes[0];
        for (i32 j = 1; j < VW; j++)
            top = F_MAX(top, lanes[j]);
        const SUMS tops = SPLAT(top), beta = SPLAT(BETA);
        for (i32 j = 0; j < WHOLE; j += VW) {
            const SUMS power = F_EXP((VLOAD(VW, IN0 + base + j) - tops) * beta);
            total += power;
            VSTORE(VW, power, powers + j);
        }
        const SUMS last = F_EXP((VLOAD(VW, powers + WHOLE) - tops) * beta);
        VSTORE(VW, last, powers + WHOLE);
        VSTORE(VW, total + last, lanes);
        f32 sum = lanes[0];
        for (i32 j = 1; j < VW; j++)
            sum += lanes[j];
#if LOGARITHM
        top += F_LOG(sum);
#define RESULT(powers, values, of) ((values) - of(top))
#else
#define RESULT(powers, values, of) ((powers) / of(sum))
#endif
        i32 done = 0;
#ifdef STORE_VECTOR
        for (; done < WHOLE; done += VW) {
            const SUMS result = RESULT(
                VLOAD(VW, powers + done), VLOAD(VW, IN0 + base + done), SPLAT);
            STORE_VECTOR(VW, base + done, result);
        }
#endif
        for (; done < DEPTH; done++)
            STORE(base + done, RESULT(powers[done], IN0[base + done], SAME));
    }
}
#undef WHOLE
#undef SUMS
#undef SPLAT
#undef SAME
#undef RESULT
