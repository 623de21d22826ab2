/* W vectors of W lanes, the rows of a matrix, become its columns: each pass deals out the lanes of
   two rows to two others, which turns the digits of a lane's number by one. Arrays
   stay in registers where no loop is left. */
#define UNROLLED _Pragma("unroll")
#define TURN_OF(W) \
    DEVICE void turn_##W(VEC(f32, W)* rows) \
    { \
        UNROLLED for (i32 pass = 1; pass < W; pass *= 2) { \
            VEC(f32, W) next[W]; \
            UNROLLED for (i32 i = 0; i < W / 2; i++) { \
                next[i] = EVENS(f32, W, rows[2 * i], rows[2 * i + 1]); \
                next[i + W / 2] = ODDS(f32, W, rows[2 * i], rows[2 * i + 1]); \
            } \
            UNROLLED for (i32 i = 0; i < W; i++) \
                rows[i] = next[i]; \
        } \
    }
TURN_OF(4)
TURN_OF(8)
TURN_OF(16)
#undef TURN_OF
#undef UNROLLED
