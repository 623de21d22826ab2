/* What products on a matrix unit share. Factors lie in local memory as words, MMA_AT(k, i, tile) word k
   of row or column i of `tile`: so that neither those who bring 16 words of a row nor those who read
   four of 8 rows meet in a bank. Every 32 work-items make 32 rows by 32 columns, of which each holds
   sums[2][4][4]; MMA is one of the vocabulary's. */
#define MMA_WORDS(deep, tile) ((deep) * ((tile) + 8) + (deep) / 2)
#define MMA_AT(k, i, tile) ((k) * ((tile) + 8) + (k) / 4 * 2 + (i))
/* adds the products of words k to k + 7, for the rows and columns from those given on */
#define MMA_STEP(MMA, sums, left, right, k, lane, row, rows, column, columns) \
    do { \
        i32 a_[2][4], b_[4][2]; \
        for (i32 i_ = 0; i_ < 8; i_++) \
            a_[i_ / 4][i_ % 4] = left[MMA_AT( \
                (k) + i_ % 4 / 2 * 4 + (lane) % 4, \
                (row) + i_ / 4 * 16 + i_ % 2 * 8 + (lane) % 32 / 4, \
                rows)]; \
        for (i32 j_ = 0; j_ < 8; j_++) \
            b_[j_ / 2][j_ % 2] = right[MMA_AT( \
                (k) + j_ % 2 * 4 + (lane) % 4, (column) + j_ / 2 * 8 + (lane) % 32 / 4, columns)]; \
        for (i32 i_ = 0; i_ < 2; i_++) \
            for (i32 j_ = 0; j_ < 4; j_++) \
                MMA(sums[i_][j_], a_[i_], b_[j_]); \
    } while (0)
/* where sum i of a work-item's 32 is; i = 16 * (half of the rows) + 4 * (eighth of columns) + … */
#define MMA_SUM(sums, i) sums[(i) / 16][(i) / 4 % 4][(i) % 4]
#define MMA_ROW(i, lane) ((i) / 16 * 16 + (i) % 4 / 2 * 8 + (lane) % 32 / 4)
#define MMA_COLUMN(i, lane) ((i) / 4 % 4 * 8 + (lane) % 4 * 2 + (i) % 2)
