/* Puts COUNT rows of INNER elements, one after the other, to rows of the output: PLACE says which,
   `to`, or none below 0. A work-item sees to WIDTH columns of BLOCK rows of the output, so that
   what meets in one place is combined in order: PUT(at, value). */
KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 left = GID0 * WIDTH, right = left + WIDTH < INNER ? left + WIDTH : INNER;
    const i32 low = GID1 * BLOCK, high = low + BLOCK;
    for (i32 r = 0; r < COUNT; r++) {
        i32 to = 0;
        PLACE
        if (to < low || to >= high)
            continue;
        for (i32 j = left; j < right; j++)
            PUT(to * INNER + j, VALUE(r, j));
    }
}
