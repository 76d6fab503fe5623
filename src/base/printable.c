/* SPDX-License-Identifier: Apache-2.0 */
#include "base/printable.h"

#include <stdbool.h>
#include <string.h>

size_t orr_code_point_bytes(const char *text)
{
    const unsigned char first = (unsigned char)text[0];
    const size_t n = first < 0xC2 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 1;
    for (size_t i = 1; i < n; i++)
        if (((unsigned char)text[i] & 0xC0) != 0x80)
            return 1;
    return n;
}

/* The bidirectional controls are E2 80 8E-8F, E2 80 AA-AE and E2 81 A6-A9 in UTF-8. */
static bool is_bidirectional_control(const unsigned char *u)
{
    if (u[0] != 0xE2)
        return false;
    return (u[1] == 0x80 && ((u[2] >= 0x8E && u[2] <= 0x8F) || (u[2] >= 0xAA && u[2] <= 0xAE))) ||
           (u[1] == 0x81 && u[2] >= 0xA6 && u[2] <= 0xA9);
}

size_t orr_unprintable_bytes(const char *text)
{
    const size_t n = orr_code_point_bytes(text);
    const unsigned char *u = (const unsigned char *)text;
    const bool control = n == 1   ? u[0] < 0x20 || u[0] >= 0x7F
                         : n == 2 ? u[0] == 0xC2 && u[1] < 0xA0
                                  : n == 3 && is_bidirectional_control(u);
    return control ? n : 0;
}

void orr_text_make_printable(char *text)
{
    char *to = text;
    while (*text != '\0') {
        const size_t bad = orr_unprintable_bytes(text);
        const size_t n = bad > 0 ? bad : orr_code_point_bytes(text);
        if (bad > 0)
            *to = '?';
        else
            memmove(to, text, n);
        to += bad > 0 ? 1 : n;
        text += n;
    }
    *to = '\0';
}
