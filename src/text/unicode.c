/* SPDX-License-Identifier: Apache-2.0 */
#include "text/unicode.h"

#include "io/json/utf8.h"

static orr_unicode_class class_of_ascii(uint32_t code)
{
    if (code - 'a' < 26)
        return ORR_UNICODE_LOWER;
    if (code - 'A' < 26)
        return ORR_UNICODE_UPPER;
    if (code - '0' < 10)
        return ORR_UNICODE_NUMBER;
    return code == ' ' || code - 9 < 5 ? ORR_UNICODE_SPACE : ORR_UNICODE_OTHER;
}

/* The run of a code point (binary search). */
static uint32_t run_of(uint32_t code)
{
    uint32_t low = 0, high = orr_unicode_runs_n; /* the run is in [low, high) */
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (orr_unicode_runs[middle] >> 5 <= code)
            low = middle;
        else
            high = middle;
    }
    return orr_unicode_runs[low];
}

orr_character orr_character_at(const char *at, size_t left)
{
    const uint8_t *b = (const uint8_t *)at;
    const size_t n = orr_utf8_len(b, left);
    if (n == 0)
        return (orr_character){.code = UINT32_MAX, .class = ORR_UNICODE_OTHER, .len = 1};
    uint32_t code = n == 1 ? b[0] : b[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++)
        code = code << 6 | (b[i] & 0x3f);
    if (n == 1)
        return (orr_character){.code = code, .class = (uint8_t)class_of_ascii(code), .len = 1};
    const uint32_t run = run_of(code);
    return (orr_character){
        .code = code, .class = run & 15, .len = (uint8_t)n, .may_change = (run & 16) != 0};
}
