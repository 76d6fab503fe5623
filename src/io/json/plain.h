/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_JSON_PLAIN_H
#define ORR_IO_JSON_PLAIN_H

#include "io/json/reader_parts.h"
#include "io/json/scan.h"

/* Values as tracers write them, read in one go. Each function reads the value at p and returns the
 * byte behind it; NULL: it is not a plain one, or not whole in this window, and the grammar is to
 * read it. So a NULL changes no result. */

static inline bool orr_json_is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* Where the next value begins, if a value is next and in this window; else NULL. */
static inline const uint8_t *orr_json_plain_value(const orr_json *json)
{
    if (json->expect != ORR_JSON_EXPECT_VALUE)
        return NULL;
    const uint8_t *p = orr_json_skip_space(json->at, json->end);
    return p < json->end ? p : NULL;
}

/* The next of the reader's values in that way, or its next element; false: it is not plain, and
 * still next. */
static inline bool orr_json_plain_element(orr_json *json)
{
    const uint8_t *p = orr_json_skip_space(json->at, json->end);
    if (json->in_object || json->expect != ORR_JSON_EXPECT_MORE || p >= json->end || *p != ',')
        return false;
    p = orr_json_skip_space(p + 1, json->end);
    if (p >= json->end || *p == ']' || *p == '}')
        return false;
    json->at = p;
    json->expect = ORR_JSON_EXPECT_VALUE;
    return true;
}

/* The object that begins here. */
static inline bool orr_json_plain_object(orr_json *json)
{
    const uint8_t *p = orr_json_plain_value(json);
    if (p == NULL || *p != '{' || json->depth >= json->depth_limit ||
        json->depth >= json->is_object.room)
        return false;
    json->is_object.at[json->depth++] = true;
    json->in_object = true;
    json->expect = ORR_JSON_EXPECT_FIRST;
    json->at = p + 1;
    return true;
}

static inline bool orr_json_ends_number(uint8_t c)
{
    return c == ',' || c == '}' || c == ']' || orr_json_is_space(c);
}

/* How many digits stand at p, at most eight, and the number that they are: all eight at once (after
 * D. Lemire, "Quickly parsing eight digits", 2018). */
static inline unsigned orr_json_eight_digits(const uint8_t *p, uint64_t *ret)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ &&                        \
    !defined(ORR_JSON_NO_VECTORS)
    uint64_t t;
    memcpy(&t, p, sizeof t);
    t ^= UINT64_C(0x3030303030303030);
    /* The first byte that is no digit has its high bit set; those before it have not. */
    const uint64_t other = (t | (t + UINT64_C(0x7676767676767676))) & UINT64_C(0x8080808080808080);
    const unsigned n = other != 0 ? (unsigned)__builtin_ctzll(other) / 8 : 8;
    t = n > 0 ? t << (64 - 8 * n) : 0; /* leading zeros */
    t = t * 10 + (t >> 8);
    *ret = ((t & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x000f424000000064) +
            (t >> 16 & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x0000271000000001)) >>
           32;
    return n;
#else
    unsigned n = 0;
    for (*ret = 0; n < 8 && orr_json_is_digit(p[n]); n++)
        *ret = *ret * 10 + (uint64_t)(p[n] - '0');
    return n;
#endif
}

/* Behind the digits at p, which are appended to `value`; it wraps around beyond 19. */
static inline const uint8_t *orr_json_digits(const uint8_t *p, const uint8_t *end, uint64_t *value)
{
    static const uint32_t powers[9] = {1,      10,      100,      1000,     10000,
                                       100000, 1000000, 10000000, 100000000};
    unsigned n;
    do {
        uint64_t part;
        n = orr_json_eight_digits(p, &part);
        *value = *value * powers[n] + part;
        p += n;
    } while (n == 8 && p < end);
    return p;
}

/* digits[.digits] of at most 19 digits together and at most `most_decimals` behind the point, as
 * one number in units of the last place. */
static inline const uint8_t *orr_json_plain_decimal(const uint8_t *p, const uint8_t *end,
                                                    unsigned most_decimals, uint64_t *ret,
                                                    unsigned *ret_decimals)
{
    enum { MOST_DIGITS = 19 };
    const uint8_t *const begin = p, *point;
    uint64_t value = 0;
    p = point = orr_json_digits(p, end, &value);
    if (p == begin || (*begin == '0' && p - begin > 1))
        return NULL;
    if (*p == '.' && most_decimals > 0) {
        p = orr_json_digits(p + 1, end, &value);
        if (p == point + 1 || p - point - 1 > most_decimals)
            return NULL;
    }
    if (p >= end || p - begin - (p != point) > MOST_DIGITS || !orr_json_ends_number(*p))
        return NULL;
    *ret = value;
    *ret_decimals = p == point ? 0 : (unsigned)(p - point - 1);
    return p;
}

static inline const uint8_t *orr_json_plain_int(const uint8_t *p, const uint8_t *end, int64_t *ret)
{
    const bool negative = *p == '-';
    uint64_t value;
    unsigned decimals;
    p = orr_json_plain_decimal(p + negative, end, 0, &value, &decimals);
    if (p == NULL || value > INT64_MAX)
        return NULL;
    *ret = negative ? -(int64_t)value : (int64_t)value;
    return p;
}

/* digits[.ddd], microseconds. */
static inline const uint8_t *orr_json_plain_us(const uint8_t *p, const uint8_t *end,
                                               int64_t *ret_ns)
{
    static const uint64_t to_ns[4] = {1000, 100, 10, 1};
    uint64_t value;
    unsigned decimals;
    p = orr_json_plain_decimal(p, end, 3, &value, &decimals);
    if (p == NULL || value > INT64_MAX / to_ns[decimals])
        return NULL;
    *ret_ns = (int64_t)(value * to_ns[decimals]);
    return p;
}

/* The string whose quote is at p. */
static inline const uint8_t *orr_json_plain_string(const uint8_t *p, const uint8_t *end,
                                                   orr_text *ret)
{
    if (*p != '"')
        return NULL;
    const uint8_t *const begin = p + 1;
    p = orr_json_plain_end(begin, end);
    if (p >= end || *p != '"')
        return NULL;
    *ret = (orr_text){(const char *)begin, (size_t)(p - begin)};
    return p + 1;
}

/* Behind the string whose quote is at p; NULL: not a common one. */
static inline const uint8_t *orr_json_pass_string(const uint8_t *p, const uint8_t *end)
{
    p = orr_json_plain_end(p + 1, end);
    return p < end && *p == '"' ? p + 1 : NULL;
}

/* Behind a number without an exponent. */
static inline const uint8_t *orr_json_pass_number(const uint8_t *p, const uint8_t *end)
{
    uint64_t value = 0;
    p += *p == '-';
    const uint8_t *whole = p;
    p = orr_json_digits(p, end, &value);
    if (p == whole || (*whole == '0' && p - whole > 1))
        return NULL;
    if (*p == '.') {
        const uint8_t *fraction = ++p;
        p = orr_json_digits(p, end, &value);
        if (p == fraction)
            return NULL;
    }
    return p < end && orr_json_ends_number(*p) ? p : NULL;
}

static inline const uint8_t *orr_json_pass_word(const uint8_t *p, const uint8_t *end)
{
    if (end - p > 4 && (memcmp(p, "true", 4) == 0 || memcmp(p, "null", 4) == 0))
        return p + 4;
    return end - p > 5 && memcmp(p, "false", 5) == 0 ? p + 5 : NULL;
}

static inline const uint8_t *orr_json_pass_scalar(const uint8_t *p, const uint8_t *end)
{
    if (*p == '"')
        return orr_json_pass_string(p, end);
    return orr_json_is_digit(*p) || *p == '-' ? orr_json_pass_number(p, end)
                                              : orr_json_pass_word(p, end);
}

/* As orr_json_int64() and the others of reader.h, where the next value is a plain one. */
static inline bool orr_json_plain_take(orr_json *json, const uint8_t *after)
{
    if (after != NULL)
        orr_json_value_done(json, after);
    return after != NULL;
}

static inline bool orr_json_int64_plain(orr_json *json, int64_t *ret)
{
    const uint8_t *p = orr_json_plain_value(json);
    return p != NULL && orr_json_plain_take(json, orr_json_plain_int(p, json->end, ret));
}

static inline bool orr_json_us_as_ns_plain(orr_json *json, int64_t *ret_ns)
{
    const uint8_t *p = orr_json_plain_value(json);
    return p != NULL && orr_json_plain_take(json, orr_json_plain_us(p, json->end, ret_ns));
}

static inline bool orr_json_text_plain(orr_json *json, orr_text *ret)
{
    const uint8_t *p = orr_json_plain_value(json);
    return p != NULL && orr_json_plain_take(json, orr_json_plain_string(p, json->end, ret));
}

static inline bool orr_json_skip_plain(orr_json *json)
{
    const uint8_t *p = orr_json_plain_value(json);
    return p != NULL && orr_json_plain_take(json, orr_json_pass_scalar(p, json->end));
}

#endif /* ORR_IO_JSON_PLAIN_H */
