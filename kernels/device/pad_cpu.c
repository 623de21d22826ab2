/* Padding on a CPU: COUNT rows of the output, EACH of them in a work-item: BEFORE of FILL, INNER
   elements of the input, and FILL to the end of a row of WIDTH. PLACE sets where a row of the input
   begins, `from`, from the row `r`; negative where all of it is FILL. VW: lanes of vectors of the input,
   no more than INNER; the last one is moved back. */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 first = GID0 * EACH, last = first + EACH < COUNT ? first + EACH : COUNT;
    for (i32 r = first; r < last; r++) {
        const i32 to = r * WIDTH;
        i32 from = 0;
        PLACE
        const i32 begin = from < 0 ? WIDTH : BEFORE, end = from < 0 ? WIDTH : BEFORE + INNER;
        for (i32 j = 0; j < begin; j++)
            STORE(to + j, FILL);
#if VW > 1 && defined(STORE_VECTOR)
        for (i32 j = begin; j < end; j += VW) {
            const i32 k = j + VW <= end ? j : end - VW;
            STORE_VECTOR(VW, to + k, VLOAD(VW, IN0 + from + k - begin));
        }
#else
        for (i32 j = begin; j < end; j++)
            STORE(to + j, LOAD0(from + j - begin));
#endif
        for (i32 j = end; j < WIDTH; j++)
            STORE(to + j, FILL);
    }
}
