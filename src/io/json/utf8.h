/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_JSON_UTF8_H
#define ORR_IO_JSON_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORR_UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Bytes of the one well-formed sequence at at[0..left) (Unicode 15, table 3-7: no overlong
 * forms, no surrogates, nothing over U+10FFFF); 0 when there is none. */
static inline size_t orr_utf8_len(const uint8_t *at, size_t left)
{
    if (left == 0)
        return 0;
    const uint8_t c = at[0];
    if (c < 0x80)
        return 1;
    const size_t n = c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    if (n == 0 || left < n)
        return 0;
    const uint8_t low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    const uint8_t high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    if (at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

/* Bytes of a code point written to `out`. */
static inline size_t orr_utf8_encode(char out[4], uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    const size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    out[0] = (char)(lead[n] | code);
    return n;
}

#endif /* ORR_IO_JSON_UTF8_H */
