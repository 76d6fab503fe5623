/* SPDX-License-Identifier: Apache-2.0 */
#include "io/json/utf8.h"
#include "text/tokenizer_build.h"
#include "text/unicode.h"

/* GPT-2's byte-level alphabet: printable bytes of ASCII and Latin-1 stand for themselves, the
 * others, in order, for the letters from U+0100 on (openai/gpt-2, src/encoder.py,
 * bytes_to_unicode()). */
static bool prints(uint32_t byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
           (byte >= 0xae && byte <= 0xff);
}

static uint32_t letter_of(uint8_t byte)
{
    if (prints(byte))
        return byte;
    uint32_t letter = 0x100;
    for (uint32_t b = 0; b < byte; b++)
        letter += !prints(b);
    return letter;
}

/* -1: none. The others are 0 .. 32, 127 .. 160 and 173. */
static int byte_of(uint32_t letter)
{
    if (letter < 0x100)
        return prints(letter) ? (int)letter : -1;
    if (letter <= 0x120)
        return (int)letter - 0x100;
    if (letter <= 0x142)
        return (int)letter - 0x121 + 127;
    return letter == 0x143 ? 173 : -1;
}

bool orr_byte_level_decode(orr_text text, char *ret, size_t *ret_len)
{
    for (size_t i = 0; i < text.n;) { /* all or nothing, since `ret` may be the text itself */
        const orr_character c = orr_character_at(text.at + i, text.n - i);
        if (byte_of(c.code) < 0)
            return false;
        i += c.len;
    }
    size_t n = 0;
    for (size_t i = 0; i < text.n;) {
        const orr_character c = orr_character_at(text.at + i, text.n - i);
        i += c.len;
        ret[n++] = (char)byte_of(c.code);
    }
    *ret_len = n;
    return true;
}

size_t orr_byte_level_encode(const char *bytes, size_t len, char *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += orr_utf8_encode(ret + n, letter_of((uint8_t)bytes[i]));
    return n;
}
