/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/step/square_sum.h"

#include <math.h>
#include <string.h>

/* A square of m 2^e with an integer m below 2^24 is an integer below 2^48 times 2^2e: squares of
 * one exponent are added as 64-bit integers, 2^16 of them without overflow. The bins of all
 * exponents are then shifted into the limbs. */

enum {
    LIMB_BITS = 32,
    EXPONENTS = 256,
    NOT_FINITE = EXPONENTS - 1, /* exponent of infinities and NaN */
    WAYS = 4,                   /* bins of neighbours differ, so that additions overlap */
    LEAST_EXPONENT = -298       /* of 2, in the square of the least subnormal number */
};

/* bins[exponent] += m^2 of each number. First what vector units do. */
static void fill_bins(const float *numbers, int64_t n, uint64_t bins[WAYS][EXPONENTS])
{
    enum { AT_ONCE = 64 };
    uint64_t square[AT_ONCE];
    uint32_t bits[AT_ONCE], exponent[AT_ONCE];
    for (int64_t at = 0; at < n; at += AT_ONCE) {
        const int64_t count = n - at < AT_ONCE ? n - at : AT_ONCE;
        memset(bits, 0, sizeof bits);
        memcpy(bits, numbers + at, (size_t)count * sizeof *bits);
        for (int i = 0; i < AT_ONCE; i++) {
            exponent[i] = bits[i] >> 23 & 0xff;
            const uint64_t m = (bits[i] & 0x7fffff) | (uint32_t)(exponent[i] > 0) << 23;
            square[i] = m * m;
        }
        for (int i = 0; i < AT_ONCE; i += WAYS)
            for (int way = 0; way < WAYS; way++)
                bins[way][exponent[i + way]] += square[i + way];
    }
}

static double not_finite(const float *numbers, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (isnan(numbers[i]))
            return NAN;
    return INFINITY;
}

/* limbs += bin 2^bit */
static void add_bin(uint64_t limbs[ORR_SQUARE_LIMBS], uint64_t bin, int bit)
{
    const int shift = bit % LIMB_BITS;
    uint64_t *at = limbs + bit / LIMB_BITS;
    const uint64_t low = bin << shift, high = shift > 0 ? bin >> (64 - shift) : 0;
    at[0] += low & UINT32_MAX;
    at[1] += low >> LIMB_BITS;
    at[2] += high;
}

/* All limbs below 2^32 but the last. */
static void carry(uint64_t limbs[ORR_SQUARE_LIMBS])
{
    for (int i = 0; i + 1 < ORR_SQUARE_LIMBS; i++) {
        limbs[i + 1] += limbs[i] >> LIMB_BITS;
        limbs[i] &= UINT32_MAX;
    }
}

void orr_square_sum_add(orr_square_sum *sum, const float *numbers, int64_t n)
{
    uint64_t bins[WAYS][EXPONENTS] = {{0}};
    fill_bins(numbers, n, bins);
    for (int way = 0; way < WAYS; way++) {
        for (int e = 0; e < NOT_FINITE; e++)
            if (bins[way][e] > 0)
                add_bin(sum->limb, bins[way][e], e > 0 ? 2 * (e - 1) : 0);
        if (bins[way][NOT_FINITE] > 0)
            sum->not_finite += not_finite(numbers, n);
    }
    carry(sum->limb);
}

void orr_square_sum_join(orr_square_sum *sum, const orr_square_sum *other)
{
    for (int k = 0; k < ORR_SQUARE_LIMBS; k++)
        sum->limb[k] += other->limb[k];
    carry(sum->limb);
    sum->not_finite += other->not_finite;
}

double orr_square_sum_value(const orr_square_sum *sum)
{
    double value = sum->not_finite;
    for (int k = ORR_SQUARE_LIMBS; k-- > 0;)
        value += ldexp((double)sum->limb[k], LIMB_BITS * k + LEAST_EXPONENT);
    return value;
}
