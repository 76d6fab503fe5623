/* SPDX-License-Identifier: Apache-2.0 */
#include "io/json/base64.h"

#include <stdint.h>

static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void orr_base64_put(orr_output *out, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    orr_output_text(out, "\"");
    for (size_t i = 0; i < n; i += 3) {
        const size_t left = n - i;
        const uint32_t three = (uint32_t)at[i] << 16 | (left > 1 ? (uint32_t)at[i + 1] << 8 : 0) |
                               (left > 2 ? at[i + 2] : 0);
        const char four[4] = {ALPHABET[three >> 18], ALPHABET[three >> 12 & 63],
                              left > 1 ? ALPHABET[three >> 6 & 63] : '=',
                              left > 2 ? ALPHABET[three & 63] : '='};
        orr_output_write(out, four, sizeof four);
    }
    orr_output_text(out, "\"");
}

/* 0 to 63, or -1. */
static int digit_of(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

/* Four characters that stand for `n` bytes, the bits left over zero. */
static bool read_four(const char *at, size_t n, uint8_t *ret)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < 4; i++) {
        const int digit = i <= n ? digit_of(at[i]) : at[i] == '=' ? 0 : -1;
        if (digit < 0)
            return false;
        bits = bits << 6 | (uint32_t)digit;
    }
    for (size_t i = 0; i < n; i++)
        ret[i] = (uint8_t)(bits >> (16 - 8 * i));
    return (bits & ((UINT32_C(1) << (24 - 8 * n)) - 1)) == 0;
}

bool orr_base64_read(orr_text text, void *ret, size_t *ret_bytes)
{
    uint8_t *to = ret;
    size_t n = 0;
    if (text.n % 4 != 0)
        return false;
    for (size_t i = 0; i < text.n; i += 4) {
        const bool last = i + 4 == text.n;
        const size_t bytes = !last || text.at[i + 3] != '=' ? 3 : text.at[i + 2] != '=' ? 2 : 1;
        if (!read_four(text.at + i, bytes, to + n))
            return false;
        n += bytes;
    }
    *ret_bytes = n;
    return true;
}
