/* Search in sorted numbers. */

/* The first place of `keys`, which are sorted, that is not below `key`; the last where there is
   none. */
DEVICE i32 sorted_place(CONST_ARG i32* keys, i32 count, i32 key)
{
    i32 low = 0, high = count - 1;
    while (low < high) {
        const i32 middle = low + (high - low) / 2;
        if (keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* How many of the boundaries are not above `v`; all of them where that is NaN. */
DEVICE i32 boundaries_below(CONST_ARG f32* boundaries, i32 count, f32 v)
{
    i32 low = 0, high = count;
    while (low < high) {
        const i32 middle = low + (high - low) / 2;
        if (boundaries[middle] > v)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}
