/* Place of the greatest (or least: BETTER) of COUNT values, STRIDE apart, LANES outputs for a
   work-item; of equals the first. BASE(i) is the input where output i begins. ALONG: so many of the
   values of one output side by side at a time instead. NaN do not count. LANES_OF_FOUR: where there
   are some, as the reference compares contiguous values: element i in lane i % 4, and a lane of NaN
   alone spoils what it meets. A work-item does EACH times LANES outputs. PARTS: IN1 has what so many
   parts of each row came to, as arg_parts makes it. */
#define IN_PARTS(p) (((CONST_ARG f32*)IN1)[2 * (i0 * PARTS + (p))])
/* without branches */
#define WINS(v, best) (BETTER(v, best) | (((best) != (best)) & ((v) == (v))))

KERNEL void KERNEL_NAME(PARAMETERS)
{
    for (i32 i0 = GID0 * (EACH * LANES); i0 < (GID0 + 1) * (EACH * LANES) && i0 < SIZE; i0 += LANES) {
#if PARTS
        i32 known = 0;
        ACC most_known = IN_PARTS(0);
        for (i32 p = 0; p < PARTS && known >= 0; p++) {
            const ACC v = IN_PARTS(p);
            const i32 at = IN1[2 * (i0 * PARTS + p) + 1];
            if (at < 0 || !p || BETTER(v, most_known)) {
                most_known = v;
                known = at;
            }
        }
        if (known >= 0) {
            STORE(i0, known);
            continue;
        }
#endif
        ACC best[WIDE];
        i32 place[WIDE], holes[WIDE];
#if ALONG > 1
        const i32 base = BASE(i0);
        for (i32 p = 0; p < ALONG; p++) {
            best[p] = LOAD0(base + p);
            place[p] = p;
            holes[p] = best[p] != best[p];
        }
        i32 k = ALONG;
        for (; k + ALONG <= COUNT; k += ALONG)
            for (i32 p = 0; p < ALONG; p++) {
                const ACC v = LOAD0(base + k + p);
                const i32 wins = WINS(v, best[p]);
                holes[p] |= v != v;
                best[p] = wins ? v : best[p];
                place[p] = wins ? k + p : place[p];
            }
        for (i32 p = 1; p < ALONG; p++) {
            holes[0] |= holes[p];
            if (WINS(best[p], best[0]) || (best[p] == best[0] && place[p] < place[0])) {
                best[0] = best[p];
                place[0] = place[p];
            }
        }
        for (; k < COUNT; k++) {
            const ACC v = LOAD0(base + k);
            holes[0] |= v != v;
            if (WINS(v, best[0])) {
                best[0] = v;
                place[0] = k;
            }
        }
        if (best[0] != best[0])
            place[0] = 0;
#else
        i32 from[LANES];
        for (i32 j = 0; j < LANES; j++) {
            const i32 i = i0 + j < SIZE ? i0 + j : SIZE - 1;
            from[j] = BASE(i);
            best[j] = LOAD0(from[j]);
            place[j] = 0;
            holes[j] = best[j] != best[j];
        }
        for (i32 k = 1; k < COUNT; k++)
            for (i32 j = 0; j < LANES; j++) {
                const ACC v = LOAD0(from[j] + k * STRIDE);
                const i32 wins = WINS(v, best[j]);
                holes[j] |= v != v;
                best[j] = wins ? v : best[j];
                place[j] = wins ? k : place[j];
            }
#endif
#if LANES_OF_FOUR
        for (i32 j = 0; j < LANES; j++) {
            if (!holes[j])
                continue;
            const i32 whole = COUNT / 4 * 4, first = BASE(i0 + j < SIZE ? i0 + j : SIZE - 1);
            ACC value[4];
            i32 at[4];
            for (i32 p = 0; p < 4; p++) {
                value[p] = LOAD0(first + p);
                at[p] = p;
                for (i32 n = p; n < whole; n += 4) {
                    const ACC v = LOAD0(first + n);
                    const i32 wins = WINS(v, value[p]);
                    value[p] = wins ? v : value[p];
                    at[p] = wins ? n : at[p];
                }
            }
            const ACC left = BETTER(value[1], value[0]) ? value[1] : value[0];
            const ACC right = BETTER(value[3], value[2]) ? value[3] : value[2];
            ACC most = BETTER(right, left) ? right : left;
            i32 found = whole;
            for (i32 p = 0; p < 4; p++)
                if (value[p] == most && at[p] < found)
                    found = at[p];
            for (i32 n = whole; n < COUNT; n++) {
                const ACC v = LOAD0(first + n);
                if (v == v && !(v == most || BETTER(most, v))) {
                    most = v;
                    found = n;
                }
            }
            place[j] = most != most ? 0 : found;
        }
#endif
        for (i32 j = 0; j < LANES && i0 + j < SIZE; j++)
            STORE(i0 + j, place[j]);
    }
}
#undef WINS
#undef IN_PARTS
