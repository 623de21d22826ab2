/* Requantisation of 16 channels at once, to the bit as kernels/_quant.py has it. */

/* a * q / 2^31 / 2^right, rounded twice: the first rounding of halves is up, the second away from
   zero, which takes 2^31 off negative products before the one shift that does both */
DEVICE VEC(i32, 16) requantize_16(VEC(i32, 16) a, VEC(i32, 16) q, VEC(i32, 16) right)
{
    const VEC(i64, 16) one = VSPLAT(i64, 16, 1), wide = VCONVERT(i64, 16, a);
    const VEC(i64, 16) s = VCONVERT(i64, 16, right);
    const VEC(i64, 16) middle = (one << s) >> one << 31, twice = (s > 0) & one << 31;
    const VEC(i64, 16) product = wide * VCONVERT(i64, 16, q) + (one << 30) + middle;
    return VCONVERT(i32, 16, (product - (wide >> 63 & twice)) >> (s + 31));
}

/* a * m, rounded once, halves away from zero. A product and a sum that were joined would not be
   rounded as two. */
DEVICE VEC(i32, 16) round_products_16(VEC(i32, 16) a, VEC(f64, 16) m)
{
    const VEC(f64, 16) product = VCONVERT(f64, 16, a) * m;
    const VEC(f64, 16) nudge = F_COPYSIGN(VSPLAT(f64, 16, 0.49999999999999994), product);
    const VEC(f64, 16) v = product + nudge;
    return VCONVERT(i32, 16, v);
}

DEVICE VEC(i32, 16) clamp_16(VEC(i32, 16) v, i32 low, i32 high)
{
    const VEC(i32, 16) least = VSPLAT(i32, 16, low), most = VSPLAT(i32, 16, high);
    v = v < least ? least : v;
    return v > most ? most : v;
}

/* n bytes, each with the bits of `flip` turned. `words`: both begin where a word does. */
DEVICE void copy_bytes(u8* to, CONST_ARG u8* from, i32 n, i32 flip, i32 words)
{
    i32 i = 0;
    if (words) {
        const VEC(i32, 16) turned = VSPLAT(i32, 16, flip * 0x01010101u);
        for (; i + 64 <= n; i += 64)
            VSTORE(16, VLOAD(16, (CONST_ARG i32*)(from + i)) ^ turned, (i32*)(to + i));
    }
    const VEC(u8, 16) turned = VSPLAT(u8, 16, flip);
    for (; i + 16 <= n; i += 16)
        VSTORE(16, VLOAD(16, from + i) ^ turned, to + i);
    if (i < n && n > 16) {
        i = n - 16;
        VSTORE(16, VLOAD(16, from + i) ^ turned, to + i);
        return;
    }
    for (; i < n; i++)
        to[i] = from[i] ^ flip;
}

/* To nearest, halves to even: what is added leaves no bits of a fraction. Beyond 2^22 (2^51) a whole
   number near it. Some compilers have no instruction for rint. */
DEVICE VEC(i32, 16) nearest_f32_16(VEC(f32, 16) v)
{
    const VEC(f32, 16) whole = v + VSPLAT(f32, 16, 12582912.0f);
    return VCONVERT(i32, 16, whole - VSPLAT(f32, 16, 12582912.0f));
}

DEVICE VEC(i32, 16) nearest_f64_16(VEC(f64, 16) v)
{
    const VEC(f64, 16) whole = v + VSPLAT(f64, 16, 6755399441055744.0);
    return VCONVERT(i32, 16, whole - VSPLAT(f64, 16, 6755399441055744.0));
}

/* a * m0 + b * m1 + rest, to nearest. Each step is rounded by itself: kernels/_pair_vectors.py tries
   what comes of that on all pairs. */
DEVICE VEC(i32, 16) sum_f32_16(VEC(i32, 16) a, VEC(i32, 16) b, f32 m0, f32 m1, f32 rest)
{
    const VEC(f32, 16) x = VCONVERT(f32, 16, a) * VSPLAT(f32, 16, m0);
    const VEC(f32, 16) y = VCONVERT(f32, 16, b) * VSPLAT(f32, 16, m1);
    const VEC(f32, 16) products = x + y;
    const VEC(f32, 16) total = products + VSPLAT(f32, 16, rest);
    return nearest_f32_16(total);
}

DEVICE VEC(i32, 16) sum_f64_16(VEC(i32, 16) a, VEC(i32, 16) b, f64 m0, f64 m1, f64 rest)
{
    const VEC(f64, 16) x = VCONVERT(f64, 16, a) * VSPLAT(f64, 16, m0);
    const VEC(f64, 16) y = VCONVERT(f64, 16, b) * VSPLAT(f64, 16, m1);
    const VEC(f64, 16) products = x + y;
    const VEC(f64, 16) total = products + VSPLAT(f64, 16, rest);
    return nearest_f64_16(total);
}

DEVICE VEC(i32, 16) product_f32_16(VEC(i32, 16) a, VEC(i32, 16) b, f32 m)
{
    const VEC(f32, 16) v = VCONVERT(f32, 16, a * b) * VSPLAT(f32, 16, m);
    return nearest_f32_16(v);
}

DEVICE VEC(i32, 16) product_f64_16(VEC(i32, 16) a, VEC(i32, 16) b, f64 m)
{
    const VEC(f64, 16) v = VCONVERT(f64, 16, a * b) * VSPLAT(f64, 16, m);
    return nearest_f64_16(v);
}

/* sums / count, halves away from zero. Half a step more is never a whole number of counts, so that
   no rounding of a product with the inverse reaches the next one: |sums| < 2^20. */
DEVICE VEC(i32, 16) means_16(VEC(i32, 16) sums, i32 count, f32 inverse)
{
    const VEC(i32, 16) size = sums < 0 ? -sums : sums;
    const VEC(f32, 16) v = VCONVERT(f32, 16, size + count / 2) + VSPLAT(f32, 16, 0.5f);
    const VEC(i32, 16) means = VCONVERT(i32, 16, v * VSPLAT(f32, 16, inverse));
    return sums < 0 ? -means : means;
}

/* v / 2^20, halves away from zero */
DEVICE VEC(i32, 16) round_shifted_16(VEC(i32, 16) v)
{
    return (v + (v >> 31) + (1 << 19)) >> 20;
}
