/* Matrices B of IN0 in blocks of NR columns for conv_f32_cpu: [matrix][block][DEPTH][column], with
   zeros beyond N; SHARE rows in a work-item. Element (k, n) of B is k * STEP_K + n * STEP_N. Vectors
   are of VW columns: neighbours, or, where the k are, those of VW rows, turned by TURN. */
#define PLACE(k, j) ((GID1 * DEPTH + (k)) * NR + (j))
#define ELEMENT(k, j) (n0 + (j) < N ? LOAD0(from + (k) * STEP_K + (n0 + (j)) * STEP_N) : 0.0f)

KERNEL void KERNEL_NAME(PARAMETERS)
{
    const i32 from = GID1 / BLOCKS * (DEPTH * N), n0 = GID1 % BLOCKS * NR;
    const i32 begin = GID0 * SHARE, end = begin + SHARE < DEPTH ? begin + SHARE : DEPTH;
    for (i32 j = 0; j < NR; j += VW) {
        i32 k = begin;
#if STEP_N == 1
        if (n0 + j + VW <= N)
            for (; k < end; k++)
                STORE_VECTOR(VW, PLACE(k, j), VLOAD(VW, IN0 + from + k * STEP_K + n0 + j));
#else
        if (n0 + j + VW <= N)
            for (; k + VW <= end; k += VW) {
                VEC(f32, VW) tile[VW];
                for (i32 i = 0; i < VW; i++)
                    tile[i] = VLOAD(VW, IN0 + from + (n0 + j + i) * STEP_N + k);
                TURN(tile);
                for (i32 i = 0; i < VW; i++)
                    STORE_VECTOR(VW, PLACE(k + i, j), tile[i]);
            }
#endif
        for (; k < end; k++)
            for (i32 i = j; i < j + VW; i++)
                STORE(PLACE(k, i), ELEMENT(k, i));
    }
}
#undef PLACE
#undef ELEMENT
