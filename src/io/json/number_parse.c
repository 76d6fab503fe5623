/* SPDX-License-Identifier: Apache-2.0 */
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "io/json/reader.h"
#include "io/json/number.h"

/* A decimal number taken apart: sign, significant digits, power of ten. The value is
 * 0.d1 d2 d3... x 10^point. Digits beyond those kept only matter as `sticky`: some were
 * not zero. */
enum { MOST_DIGITS = 800 }; /* 768 decide any double */
typedef struct decimal {
    bool negative, sticky;
    int64_t point;
    size_t n;
    char digits[MOST_DIGITS + 1 + 32]; /* room for a sticky digit and an exponent */
} decimal;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void add_digit(decimal *d, char digit)
{
    if (d->n < MOST_DIGITS)
        d->digits[d->n++] = digit;
    else if (digit != '0')
        d->sticky = true;
}

/* [eE][+-]digits to the end; the exponent is held within what cannot be told apart. */
static bool split_exponent(const char *at, const char *end, int64_t *ret)
{
    static const int64_t most = INT64_C(1) << 40;
    at++;
    const bool negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    if (at == end)
        return false;
    int64_t value = 0;
    for (; at < end; at++) {
        if (!is_digit(*at))
            return false;
        value = value < most ? value * 10 + (*at - '0') : most;
    }
    *ret = negative ? -value : value;
    return true;
}

/* -?digits[.digits][exponent], at least one digit on each side of the point; the grammar of
 * JSON but for leading zeros. */
static bool split(orr_text text, decimal *d)
{
    const char *at = text.at, *const end = text.at + text.n;
    d->negative = d->sticky = false;
    d->n = 0;
    d->point = 0;
    if (at < end && *at == '-') {
        d->negative = true;
        at++;
    }
    if (at == end || !is_digit(*at))
        return false;
    for (; at < end && is_digit(*at); at++) {
        if (d->n == 0 && *at == '0')
            continue;
        add_digit(d, *at);
        d->point++;
    }
    if (at < end && *at == '.') {
        at++;
        if (at == end || !is_digit(*at))
            return false;
        for (; at < end && is_digit(*at); at++) {
            if (d->n == 0 && *at == '0')
                d->point--;
            else
                add_digit(d, *at);
        }
    }
    int64_t exponent = 0;
    if (at < end && ((*at | 0x20) != 'e' || !split_exponent(at, end, &exponent)))
        return false;
    d->point += exponent;
    return true;
}

/* Value x 10^scale as an integer, rounded half away from zero; false on overflow. *ret_exact:
 * nothing was rounded. */
static bool scale_to_int64(const decimal *d, int scale, int64_t *ret, bool *ret_exact)
{
    const int64_t whole_digits = d->n > 0 ? d->point + scale : 0;
    if (whole_digits > 19)
        return false;
    uint64_t value = 0;
    for (int64_t i = 0; i < whole_digits; i++) {
        const uint64_t digit = (size_t)i < d->n ? (uint64_t)(d->digits[i] - '0') : 0;
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *ret_exact = !d->sticky;
    for (size_t i = whole_digits > 0 ? (size_t)whole_digits : 0; i < d->n; i++)
        *ret_exact = *ret_exact && d->digits[i] == '0';
    if (whole_digits >= 0 && (size_t)whole_digits < d->n && d->digits[whole_digits] >= '5')
        value++;
    if (value > (uint64_t)INT64_MAX + d->negative)
        return false;
    *ret = (int64_t)(d->negative ? ~value + 1 : value);
    return true;
}

/* Up to 18 plain digits, the common case: *ret_n says how many. */
static const char *plain_digits(const char *at, const char *end, uint64_t *value)
{
    while (at < end && is_digit(*at)) {
        *value = *value * 10 + (uint64_t)(*at - '0');
        at++;
    }
    return at;
}

bool orr_text_int64(orr_text text, int64_t *ret)
{
    if (text.n > 0 && text.n <= 19) {
        const char *const end = text.at + text.n;
        const bool negative = text.at[0] == '-';
        uint64_t value = 0;
        if (text.n > negative && text.n - negative <= 18 &&
            plain_digits(text.at + negative, end, &value) == end) {
            *ret = negative ? -(int64_t)value : (int64_t)value;
            return true;
        }
    }
    decimal d;
    int64_t value;
    bool exact;
    if (!split(text, &d) || !scale_to_int64(&d, 0, &value, &exact) || !exact)
        return false;
    *ret = value;
    return true;
}

bool orr_text_uint64(orr_text text, uint64_t *ret)
{
    uint64_t value = 0;
    if (text.n == 0)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        if (!is_digit(text.at[i]) || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text.at[i] - '0'), &value))
            return false;
    }
    *ret = value;
    return true;
}

/* digits[.ddd], what tracers write, without taking it apart digit by digit twice. */
static bool us_fast(orr_text text, int64_t *ret_ns)
{
    static const uint64_t to_ns[4] = {1000, 100, 10, 1};
    if (text.n == 0 || text.n > 18 || !is_digit(text.at[0]))
        return false;
    const char *const end = text.at + text.n;
    uint64_t value = 0;
    const char *at = plain_digits(text.at, end, &value);
    size_t decimals = 0;
    if (at < end && *at == '.') {
        const char *point = at++;
        at = plain_digits(at, end, &value);
        decimals = (size_t)(at - point) - 1;
        if (decimals == 0)
            return false;
    }
    if (at != end || decimals > 3 || value > INT64_MAX / 1000)
        return false;
    *ret_ns = (int64_t)(value * to_ns[decimals]);
    return true;
}

bool orr_text_us_as_ns(orr_text text, int64_t *ret_ns)
{
    if (us_fast(text, ret_ns))
        return true;
    decimal d;
    bool exact;
    return split(text, &d) && scale_to_int64(&d, 3, ret_ns, &exact);
}

/* strtod reads the decimal point of the program's locale; ours is JSON's. */
static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static double round_slowly(decimal *d)
{
    if (d->sticky)
        d->digits[d->n++] = '1';
    int64_t exponent = d->point - (int64_t)d->n;
    if (exponent > 100000)
        exponent = 100000;
    if (exponent < -100000)
        exponent = -100000;
    size_t n = d->n;
    d->digits[n++] = 'e';
    n += orr_print_int64(d->digits + n, exponent);
    d->digits[n] = '\0';
    pthread_once(&c_locale_once, make_c_locale);
    return c_locale != (locale_t)0 ? strtod_l(d->digits, NULL, c_locale) : strtod(d->digits, NULL);
}

bool orr_text_double(orr_text text, double *ret)
{
    /* Powers of ten that a double holds exactly, so that one multiplication or division
     * of an exact mantissa rounds correctly (W. D. Clinger, PLDI 1990). */
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    decimal d;
    if (!split(text, &d))
        return false;
    double value = 0;
    const int64_t exponent = d.point - (int64_t)d.n;
    if (d.n > 0 && d.n <= 15 && exponent >= -22 && exponent <= 22) {
        uint64_t mantissa = 0;
        (void)plain_digits(d.digits, d.digits + d.n, &mantissa);
        value = (double)mantissa;
        value = exponent < 0 ? value / powers[-exponent] : value * powers[exponent];
    } else if (d.n > 0) {
        value = round_slowly(&d);
    }
    if (!isfinite(value))
        return false;
    *ret = d.negative ? -value : value;
    return true;
}
