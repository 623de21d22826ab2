/* Copies COUNT rows of INNER elements: PLACE says where row r begins, `from` in the input and `to`
   in the output, and whether that is `bad`: BAD is said once. With HOLES a row whose `from` is
   negative holds FILL. */
#ifndef VALUE
#define VALUE(at) LOAD0(at)
#define PLAIN_VALUE
#endif
#if HOLES
#define ELEMENT(j) (from < 0 ? (FILL) : VALUE(from + (j)))
#else
#define ELEMENT(j) VALUE(from + (j))
#endif

KERNEL void KERNEL_NAME(PARAMETERS)
{
#if EACH == 0
    const i32 r = GID0 / INNER, column = GID0 % INNER;
    if (r >= COUNT)
        return;
    i32 from = r * INNER, to = r * INNER, bad = 0;
    PLACE
    STORE(to + column, ELEMENT(column));
#else
    const i32 first = GID1 * EACH, last = first + EACH < COUNT ? first + EACH : COUNT;
#if WIDTH < INNER
    const i32 left = GID0 * WIDTH, right = left + WIDTH < INNER ? left + WIDTH : INNER;
#else
    const i32 left = 0, right = INNER;
#endif
    i32 bad = 0;
    for (i32 r = first; r < last; r++) {
        i32 from = r * INNER, to = r * INNER;
        PLACE
#if INNER == 1
        STORE(to, ELEMENT(0));
#else
        for (i32 j = left; j < right; j++)
            STORE(to + j, ELEMENT(j));
#endif
    }
#endif
    if (bad)
        BAD;
}
#undef ELEMENT
#ifdef PLAIN_VALUE
#undef VALUE
#undef PLAIN_VALUE
#endif
