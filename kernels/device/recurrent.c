/* What the recurrent kernels share: a work-group of GROUP sees to one row of the batch, and a
   work-item to blocks of NV vectors of VW units. Weights come as [block][depth][NV * VW], the last
   block filled up with zeros. SUMS is the type of VW sums; SPLAT, WEIGHTS and SPILL go with it. */

/* y[u] = sum of x[k] * weights[u, k] */
#define PRODUCT(y, x, depth, weights, width) \
    for (i32 u_ = lane * (NV * VW); u_ < (width); u_ += GROUP * (NV * VW)) { \
        SUMS sums_[NV]; \
        for (i32 v_ = 0; v_ < NV; v_++) \
            sums_[v_] = SPLAT(0); \
        CONST_ARG WT* w_ = (weights) + u_ * (depth); \
        for (i32 k_ = 0; k_ < (depth); k_++) { \
            const SUMS x_ = SPLAT((x)[k_]); \
            for (i32 v_ = 0; v_ < NV; v_++) \
                sums_[v_] = MAD(x_, WEIGHTS(w_ + v_ * VW), sums_[v_]); \
            w_ += NV * VW; \
        } \
        for (i32 v_ = 0; v_ < NV; v_++) \
            SPILL(sums_[v_], (y) + u_ + v_ * VW); \
    }
#define EACH_OF(u, count) for (i32 u = lane; u < (count); u += GROUP)
/* in vectors of EW floats (FLOATS, LOADV, STOREV); EW divides the count */
#define EACH_VECTOR(u, count) for (i32 u = lane * EW; u < (count); u += GROUP * EW)
/* the greatest size in a row of floats: it becomes 127 */
#define TOP(top, x, count) \
    f32 top = 1e-36f; \
    for (i32 k_ = 0; k_ < (count); k_++) \
        top = F_MAX(top, F_ABS((x)[k_]));
