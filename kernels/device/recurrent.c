/* What the recurrent kernels share: a work-group of GROUP sees to one row of the batch, and a
   work-item to blocks of NV vectors of VW units. Weights come as [block][depth][NV * VW], the last
   block filled up with zeros. SUMS is the type of VW sums; SPLAT, WEIGHTS and SPILL go with it. */

/* y[u] = sum of x[k] * weights[u, k] */
#define TIMES_WEIGHTS(y, x, depth, weights, width) \
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
#define EACH_LANE_VECTOR(u, count) for (i32 u = lane * EW; u < (count); u += GROUP * EW)
/* a row X(k) of floats as integers of 8 bits: what one stands for, its inverse, the zero point;
   lost_ is 0, or NaN where a value is not finite, which makes all that the row gives NaN */
#define REACH(X, count) \
    f32 low_ = 0.0f, high_ = 0.0f, lost_ = 0.0f; \
    for (i32 k_ = 0; k_ < (count); k_++) { \
        const f32 v_ = X(k_); \
        low_ = v_ < low_ ? v_ : low_; \
        high_ = v_ > high_ ? v_ : high_; \
        lost_ += v_ - v_; \
    }
#define SYMMETRIC_ROW(X, count, scale, inverse, zero) \
    REACH(X, count) \
    f32 top_ = -low_ > high_ ? -low_ : high_; \
    top_ = top_ < 1e-36f ? 1e-36f : top_; \
    const f32 scale = top_ / 127.0f + lost_, inverse = 127.0f / top_, zero = 0.0f;
#define ASYMMETRIC_ROW(X, count, scale, inverse, zero) \
    REACH(X, count) \
    f32 zero; \
    const f32 scale = asymmetric_scale(low_, high_, &zero) + lost_, inverse = 1.0f / scale;
