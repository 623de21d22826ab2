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
