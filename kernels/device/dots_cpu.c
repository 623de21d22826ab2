/* Products of few rows with matrices whose rows lie along the sums, on a CPU: matrix b of IN0, M rows
   from A(b) on, by that of IN1, N rows from B(b) on, all of DEPTH. A work-item makes SHARE blocks of VW
   columns: as many sums, each in the lanes of a vector that are added up at the end. The last block is
   moved back to the end, the last vector of a row too: what it has twice counts once. */
#define SUMS VEC(f32, VW)
#define LAST (DEPTH - VW)
#define PAIRS(a, b) (EVENS(f32, VW, a, b) + ODDS(f32, VW, a, b))

KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 end = (GID0 + 1) * SHARE < BATCH * BLOCKS ? (GID0 + 1) * SHARE : BATCH * BLOCKS;
    f32 lanes[VW];
    for (i32 j = 0; j < VW; j++)
        lanes[j] = j < VW - DEPTH % VW ? 0.0f : 1.0f;
    const SUMS own = VLOAD(VW, lanes), none = VSPLAT(f32, VW, 0);
    for (i32 i = GID0 * SHARE; i < end; i++) {
        const i32 b = i / BLOCKS, block = i % BLOCKS * VW, n0 = block < N - VW ? block : N - VW;
        CONST_ARG f32* y = IN1 + B(b) + n0 * DEPTH;
        for (i32 m = 0; m < M; m++) {
            CONST_ARG f32* x = IN0 + A(b) + m * DEPTH;
            SUMS sums[VW];
#pragma unroll
            for (i32 j = 0; j < VW; j++)
                sums[j] = none;
            for (i32 k = 0; k + VW <= DEPTH; k += VW) {
                const SUMS v = VLOAD(VW, x + k);
#pragma unroll
                for (i32 j = 0; j < VW; j++)
                    sums[j] = MAD(v, VLOAD(VW, y + j * DEPTH + k), sums[j]);
            }
#if DEPTH % VW
            const SUMS v = own > none ? VLOAD(VW, x + LAST) : none;
#pragma unroll
            for (i32 j = 0; j < VW; j++) {
                const SUMS w = own > none ? VLOAD(VW, y + j * DEPTH + LAST) : none;
                sums[j] = MAD(v, w, sums[j]);
            }
#endif
            /* in each pass the lanes of two sums are added in pairs, and become one vector */
#pragma unroll
            for (i32 j = 0; j < VW / 2; j++)
                sums[j] = PAIRS(sums[2 * j], sums[2 * j + 1]);
#pragma unroll
            for (i32 j = 0; j < VW / 4; j++)
                sums[j] = PAIRS(sums[2 * j], sums[2 * j + 1]);
#if VW > 4
#pragma unroll
            for (i32 j = 0; j < VW / 8; j++)
                sums[j] = PAIRS(sums[2 * j], sums[2 * j + 1]);
#endif
#if VW > 8
            sums[0] = PAIRS(sums[0], sums[1]);
#endif
            const i32 at = (b * M + m) * N + n0;
#ifdef STORE_VECTOR
            STORE_VECTOR(VW, at, sums[0]);
#else
            VSTORE(VW, sums[0], lanes);
            for (i32 j = block - n0; j < VW; j++)
                STORE(at + j, lanes[j]);
#endif
        }
    }
}
#undef SUMS
#undef LAST
#undef PAIRS
