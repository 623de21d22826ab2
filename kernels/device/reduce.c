/* Reductions: output i combines COUNT inputs, LANES neighbouring outputs at once; SPLIT work-items
   share the inputs of one, and a work-item does EACH of them in turn. BASE(i) is the input where output
   i begins, STEP(k) how far from it element k lies. ALONG: k and the next ones lie side by side, and
   are combined in as many parts, which need not wait for each other. VW: lanes of vectors, on CPUs
   where IN0 is f32, as ACC is; parts and neighbours are in these. */
#define SUMS VEC(f32, VW)

KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 part = GID1;
    if (part >= SPLIT)
        return;
    for (i32 i0 = GID0 * (EACH * LANES); i0 < (GID0 + 1) * (EACH * LANES) && i0 < SIZE; i0 += LANES) {
        const i32 base = BASE(i0);
#if INTERLEAVED
        i32 k = part;
        const i32 last = COUNT;
#else
        i32 k = part * (COUNT / SPLIT) + (part < COUNT % SPLIT ? part : COUNT % SPLIT);
        const i32 last = k + COUNT / SPLIT + (part < COUNT % SPLIT);
#endif
        ACC folded[LANES];
        for (i32 j = 0; j < LANES; j++)
            folded[j] = START;
#if ALONG > 1
        const i32 j = 0;
#if VW > 1
        SUMS parts[4];
#pragma unroll
        for (i32 p = 0; p < 4; p++)
            parts[p] = VSPLAT(f32, VW, START);
        for (; k + 4 * VW <= last; k += 4 * VW)
#pragma unroll
            for (i32 p = 0; p < 4; p++)
                parts[p] = COMBINE(parts[p], VLOAD(VW, IN0 + base + k + p * VW));
        for (; k + VW <= last; k += VW)
            parts[0] = COMBINE(parts[0], VLOAD(VW, IN0 + base + k));
        parts[0] = COMBINE(parts[0], parts[2]);
        parts[1] = COMBINE(parts[1], parts[3]);
        SUMS all = COMBINE(parts[0], parts[1]);
        for (i32 fold = VW; fold > 1; fold /= 2) {
            const SUMS even = EVENS(f32, VW, all, all), odd = ODDS(f32, VW, all, all);
            all = COMBINE(even, odd);
        }
        f32 lanes[VW];
        VSTORE(VW, all, lanes);
        const f32 most = lanes[0];
#else
        ACC parts[ALONG];
        for (i32 p = 0; p < ALONG; p++)
            parts[p] = START;
        for (; k + ALONG <= last; k += ALONG)
            for (i32 p = 0; p < ALONG; p++)
                parts[p] = COMBINE(parts[p], LOAD0(base + k + p));
        for (i32 fold = ALONG / 2; fold > 0; fold /= 2)
            for (i32 p = 0; p < fold; p++)
                parts[p] = COMBINE(parts[p], parts[p + fold]);
        const ACC most = parts[0];
#endif
        for (; k < last; k++)
            folded[0] = COMBINE(folded[0], LOAD0(base + k));
        folded[0] = COMBINE(folded[0], most);
        STORE(part * SIZE + i0, FINISH(folded[0]));
#elif VW > 1
        SUMS beside[LANES / VW];
#pragma unroll
        for (i32 j = 0; j < LANES / VW; j++)
            beside[j] = VLOAD(VW, folded + j * VW);
        for (; k < last; k++) {
            CONST_ARG f32* at = IN0 + base + STEP(k);
#pragma unroll
            for (i32 j = 0; j < LANES / VW; j++)
                beside[j] = COMBINE(beside[j], VLOAD(VW, at + j * VW));
        }
#pragma unroll
        for (i32 j = 0; j < LANES / VW; j++)
            VSTORE(VW, beside[j], folded + j * VW);
        for (i32 j = 0; j < LANES; j++)
            STORE(part * SIZE + i0 + j, FINISH(folded[j]));
#else
        for (; k < last; k += INTERLEAVED ? SPLIT : 1) {
            const i32 at = base + STEP(k);
            for (i32 j = 0; j < LANES; j++)
                folded[j] = COMBINE(folded[j], LOAD0(at + j));
        }
        for (i32 j = 0; j < LANES; j++)
            STORE(part * SIZE + i0 + j, FINISH(folded[j]));
#endif
    }
}
#undef SUMS
