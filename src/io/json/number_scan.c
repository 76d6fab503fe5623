/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "io/json/reader_parts.h"

/* Grammar of numbers (RFC 8259, section 6). All looks at p stay below `end`; what stops
 * there is incomplete unless the input ends. */

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static const uint8_t *digits(const uint8_t *p, const uint8_t *end)
{
    while (p < end && is_digit(*p))
        p++;
    return p;
}

/* NaN, Infinity, -Infinity, as Python's json writes them. */
static orr_status not_a_number(orr_json *json, const uint8_t *p, orr_json_value *ret,
                               const uint8_t **ret_after, orr_error *err)
{
    const char *word = *p == 'N' ? "NaN" : *p == 'I' ? "Infinity" : "-Infinity";
    const size_t n = strlen(word), left = (size_t)(json->end - p);
    if (memcmp(p, word, left < n ? left : n) != 0)
        return orr_json_fail(json, p, err, "malformed number");
    if (left < n)
        return ORR_JSON_INCOMPLETE;
    if (!json->tolerant)
        return orr_json_fail(json, p, err, "%s is not a JSON number", word);
    orr_json_count_fault(json, ORR_JSON_FAULT_NOT_A_NUMBER, p);
    *ret = (orr_json_value){ORR_JSON_NUMBER, {(const char *)p, n}};
    *ret_after = p + n;
    return ORR_OK;
}

/* A part that needs a digit and has none: at the end of the window it may still come. */
static orr_status digit_missing(orr_json *json, const uint8_t *p, orr_error *err)
{
    if (p >= json->end)
        return ORR_JSON_INCOMPLETE;
    return orr_json_fail(json, p, err, "malformed number: a digit is missing");
}

static bool may_follow(uint8_t c)
{
    return !is_digit(c) && c != '.' && c != '+' && c != '-' && c != '_' &&
           !((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

orr_status orr_json_scan_number(orr_json *json, const uint8_t *p, orr_json_value *ret,
                                const uint8_t **ret_after, orr_error *err)
{
    const uint8_t *const begin = p, *const end = json->end;
    if (*p == '-')
        p++;
    if (p < end && !is_digit(*p))
        return *p == 'N' || *p == 'I' ? not_a_number(json, begin, ret, ret_after, err)
                                      : digit_missing(json, p, err);
    const uint8_t *whole = p;
    p = digits(p, end);
    if (p == whole)
        return digit_missing(json, p, err);
    if (*whole == '0' && p - whole > 1)
        return orr_json_fail(json, whole, err, "malformed number: leading zero");
    if (p < end && *p == '.') {
        const uint8_t *fraction = p + 1;
        p = digits(fraction, end);
        if (p == fraction)
            return digit_missing(json, p, err);
    }
    if (p < end && (*p | 0x20) == 'e') {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        const uint8_t *exponent = p;
        p = digits(exponent, end);
        if (p == exponent)
            return digit_missing(json, p, err);
    }
    /* At the end of a cut file the last digits may be missing as well. */
    if (p >= end && (!json->ended || (json->tolerant && json->depth > 0)))
        return ORR_JSON_INCOMPLETE;
    if (p < end && !may_follow(*p))
        return orr_json_fail(json, p, err, "malformed number");
    *ret = (orr_json_value){ORR_JSON_NUMBER, {(const char *)begin, (size_t)(p - begin)}};
    *ret_after = p;
    return ORR_OK;
}
