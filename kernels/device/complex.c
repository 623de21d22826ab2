/* Complex numbers, which are pairs of floats. */

/* absolute value; the greater part is taken out, so that no square overflows */
DEVICE f32 size_of_pair(f32 real, f32 imaginary)
{
    const f32 a = F_ABS(real), b = F_ABS(imaginary);
    const f32 big = a > b ? a : b, small_ = a > b ? b : a;
    const f32 share = small_ / big, size = big * F_SQRT(1.0f + share * share);
    return big == 0.0f || big > 3.4028234e38f ? big : size;
}
