/* SPDX-License-Identifier: Apache-2.0 */
#include "io/json/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json/reader.h"

size_t orr_print_uint64(char out[ORR_INT_CHARS], uint64_t value)
{
    char digits[ORR_INT_CHARS];
    size_t n = 0;
    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    for (size_t i = 0; i < n; i++)
        out[i] = digits[n - 1 - i];
    return n;
}

static uint64_t magnitude(int64_t value)
{
    return value < 0 ? ~(uint64_t)value + 1 : (uint64_t)value;
}

size_t orr_print_int64(char out[ORR_INT_CHARS], int64_t value)
{
    const size_t sign = value < 0;
    if (sign)
        out[0] = '-';
    return sign + orr_print_uint64(out + sign, magnitude(value));
}

size_t orr_print_us(char out[ORR_INT_CHARS + 1], int64_t ns)
{
    size_t n = ns < 0;
    if (n)
        out[0] = '-';
    n += orr_print_uint64(out + n, magnitude(ns) / 1000);
    unsigned rest = (unsigned)(magnitude(ns) % 1000);
    if (rest == 0)
        return n;
    out[n++] = '.';
    for (unsigned unit = 100; rest > 0; rest %= unit, unit /= 10)
        out[n++] = (char)('0' + rest / unit);
    return n;
}

/* printf writes the decimal point of the program's locale. */
static size_t print_digits(char out[ORR_DOUBLE_CHARS], double value, int digits)
{
    const int n = snprintf(out, ORR_DOUBLE_CHARS, "%.*g", digits, value);
    for (int i = 0; i < n; i++)
        if (out[i] == ',')
            out[i] = '.';
    return (size_t)n;
}

size_t orr_print_double(char out[ORR_DOUBLE_CHARS], double value)
{
    /* Whole numbers, which most are, need no search. */
    if (fabs(value) < 1e15 && value == floor(value) && !(value == 0 && signbit(value)))
        return orr_print_int64(out, (int64_t)value);
    size_t n = 0;
    for (int digits = 15; digits <= 17; digits++) {
        double back;
        n = print_digits(out, value, digits);
        if (orr_text_double((orr_text){out, n}, &back) && back == value)
            break;
    }
    return n;
}
