/* SOFTMAX and LOG_SOFTMAX of float32 on a CPU: BLOCK rows of DEPTH in turn, VW values at a time. The
   last vector of a row is moved back to its end: the sum leaves out what it has in common with the one
   before. */
#define WHOLE (DEPTH / VW * VW)
#define LAST (DEPTH - VW)
#define SUMS VEC(f32, VW)
#define SPLAT(v) VSPLAT(f32, VW, v)
#define SAME(v) (v)
/* all lanes become what is made of all of them */
#define FOLD(v, OF) \
    for (i32 lanes = VW; lanes > 1; lanes /= 2) { \
        const SUMS even = EVENS(f32, VW, v, v), odd = ODDS(f32, VW, v, v); \
        v = OF(even, odd); \
    }
#define ADDED(a, b) ((a) + (b))
#if LOGARITHM
#define RESULT(power, value, of) ((value) - of(shift))
#else
#define RESULT(power, value, of) ((power) * of(shift))
#endif

KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 first = GID0 * BLOCK, end = first + BLOCK < ROWS ? first + BLOCK : ROWS;
    const SUMS beta = SPLAT(BETA), none = SPLAT(0);
    f32 powers[WHOLE + VW], lanes_[VW];
    for (i32 j = 0; j < VW; j++)
        lanes_[j] = j < VW - DEPTH % VW ? 0.0f : 1.0f;
    const SUMS own = VLOAD(VW, lanes_);
    for (i32 row = first; row < end; row++) {
        CONST_ARG f32* x = IN0 + row * DEPTH;
        SUMS most = VLOAD(VW, x + LAST), total = none;
        for (i32 j = 0; j < WHOLE; j += VW)
            most = F_MAX(most, VLOAD(VW, x + j));
        FOLD(most, F_MAX)
        for (i32 j = 0; j < WHOLE; j += VW) {
            const SUMS power = F_EXP((VLOAD(VW, x + j) - most) * beta);
            total += power;
            VSTORE(VW, power, powers + j);
        }
#if DEPTH % VW
        const SUMS last = F_EXP((VLOAD(VW, x + LAST) - most) * beta);
        total += own > none ? last : none;
        VSTORE(VW, last, powers + LAST);
#endif
        FOLD(total, ADDED)
        VSTORE(VW, total, lanes_);
#if LOGARITHM
        const f32 sum = lanes_[0];
        VSTORE(VW, most, lanes_);
        const f32 shift = lanes_[0] + F_LOG(sum);
#else
        const f32 shift = 1.0f / lanes_[0];
#endif
        i32 done = 0;
#ifdef STORE_VECTOR
        for (; done < WHOLE; done += VW) {
            const SUMS result = RESULT(VLOAD(VW, powers + done), VLOAD(VW, x + done), SPLAT);
            STORE_VECTOR(VW, row * DEPTH + done, result);
        }
#endif
        for (; done < DEPTH; done++)
            STORE(row * DEPTH + done, RESULT(powers[done], x[done], SAME));
    }
}
#undef WHOLE
#undef LAST
#undef SUMS
#undef SPLAT
#undef SAME
#undef FOLD
#undef ADDED
#undef RESULT
