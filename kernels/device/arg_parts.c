/* The greatest (or least: BETTER) value of each of SPLIT parts of rows of COUNT, and its place in the
   row: pairs of an f32 and an i32, EACH of them in a work-item, on a CPU. Of equals the first. Where a
   part has a NaN, or nothing better than WORST, the place is -1: whoever reads it must look himself.
   Vectors are of VW, two of them side by side. */
#define SUMS VEC(f32, VW)
#define PLACES VEC(i32, VW)
#define TAKE(n) \
    { \
        const SUMS v = VLOAD(VW, x + k + n * VW); \
        const PLACES wins = BETTER(v, best##n); \
        holes |= v != v; \
        best##n = wins ? v : best##n; \
        place##n = wins ? at + n * VW : place##n; \
    }

KERNEL void KERNEL_NAME(PARAMETERS)
{
    f32 bests[2 * VW];
    i32 places[2 * VW], marks[VW];
    for (i32 j = 0; j < VW; j++)
        marks[j] = j;
    const PLACES first = VLOAD(VW, marks);
    for (i32 i = GID0 * EACH; i < (GID0 + 1) * EACH && i < SIZE * SPLIT; i++) {
        const i32 part = i % SPLIT, begin = COUNT / SPLIT * part;
        const i32 end = part < SPLIT - 1 ? begin + COUNT / SPLIT : COUNT;
        CONST_ARG f32* x = IN0 + BASE((i / SPLIT));
        SUMS best0 = VSPLAT(f32, VW, WORST), best1 = best0;
        PLACES place0 = VSPLAT(i32, VW, -1), place1 = place0, holes = VSPLAT(i32, VW, 0);
        PLACES at = first + begin;
        i32 k = begin;
        for (; k + 2 * VW <= end; k += 2 * VW) {
            TAKE(0)
            TAKE(1)
            at += 2 * VW;
        }
        VSTORE(VW, best0, bests);
        VSTORE(VW, best1, bests + VW);
        VSTORE(VW, place0, places);
        VSTORE(VW, place1, places + VW);
        VSTORE(VW, holes, marks);
        f32 most = WORST;
        i32 place = -1, hole = 0;
        for (i32 j = 0; j < 2 * VW; j++) {
            const i32 earlier = bests[j] == most && places[j] < place && places[j] >= 0;
            if (BETTER(bests[j], most) || earlier) {
                most = bests[j];
                place = places[j];
            }
            hole |= marks[j % VW];
        }
        for (; k < end; k++) {
            const f32 v = x[k];
            hole |= v != v;
            if (BETTER(v, most)) {
                most = v;
                place = k;
            }
        }
        ((GLOBAL f32*)OUT)[2 * i] = most;
        OUT[2 * i + 1] = hole ? -1 : place;
    }
}
#undef SUMS
#undef PLACES
#undef TAKE
