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

static inline void orr_json_plain_done(orr_json *json, const uint8_t *after)
{
    json->at = after;
    json->expect = json->depth > 0 ? ORR_JSON_EXPECT_MORE : ORR_JSON_EXPECT_VALUE;
}

static inline bool orr_json_ends_number(uint8_t c)
{
    return c == ',' || c == '}' || c == ']' || orr_json_is_space(c);
}

/* digits[.digits] of at most 18 digits together and at most `most_decimals` behind the point, as
 * one number in units of the last place. */
static inline const uint8_t *orr_json_plain_decimal(const uint8_t *p, const uint8_t *end,
                                                    unsigned most_decimals, uint64_t *ret,
                                                    unsigned *ret_decimals)
{
    enum { MOST_DIGITS = 18 };
    const uint8_t *const begin = p, *point = NULL;
    uint64_t value = 0;
    for (; p < end && orr_json_is_digit(*p); p++)
        value = value * 10 + (uint64_t)(*p - '0');
    if (p == begin || (*begin == '0' && p - begin > 1))
        return NULL;
    if (p < end && *p == '.' && most_decimals > 0) {
        point = p++;
        for (; p < end && orr_json_is_digit(*p); p++)
            value = value * 10 + (uint64_t)(*p - '0');
        if (p == point + 1 || p - point - 1 > most_decimals)
            return NULL;
    }
    if (p >= end || p - begin > MOST_DIGITS || !orr_json_ends_number(*p))
        return NULL;
    *ret = value;
    *ret_decimals = point == NULL ? 0 : (unsigned)(p - point - 1);
    return p;
}

static inline const uint8_t *orr_json_plain_int(const uint8_t *p, const uint8_t *end, int64_t *ret)
{
    const bool negative = *p == '-';
    uint64_t value;
    unsigned decimals;
    p = orr_json_plain_decimal(p + negative, end, 0, &value, &decimals);
    if (p != NULL)
        *ret = negative ? -(int64_t)value : (int64_t)value;
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

#endif /* ORR_IO_JSON_PLAIN_H */
