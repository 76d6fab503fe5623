/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEXT_UNICODE_H
#define ORR_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Classes of code points used by pre-tokenizer patterns: general categories (\p{Lu} ..., marks and
 * numbers as a whole), and white space (\s). */
typedef enum orr_unicode_class {
    ORR_UNICODE_OTHER,
    ORR_UNICODE_UPPER,    /* Lu */
    ORR_UNICODE_LOWER,    /* Ll */
    ORR_UNICODE_TITLE,    /* Lt */
    ORR_UNICODE_MODIFIER, /* Lm */
    ORR_UNICODE_LETTER,   /* Lo */
    ORR_UNICODE_MARK,     /* M  */
    ORR_UNICODE_NUMBER,   /* N  */
    ORR_UNICODE_SPACE,
    ORR_UNICODE_CLASSES
} orr_unicode_class;

/* The character at at[0 .. left), left > 0; an invalid byte is a character of its own, with code
 * UINT32_MAX and no class. */
typedef struct orr_character {
    uint32_t code;
    uint8_t class, len;
    bool may_change; /* may change under NFC: alone or with the character before it */
} orr_character;
orr_character orr_character_at(const char *at, size_t left);

/* Runs of code points of one class: start times 32; plus 16 where they may change; plus the
 * class. */
extern const uint32_t orr_unicode_runs[];
extern const uint32_t orr_unicode_runs_n;

#endif /* ORR_TEXT_UNICODE_H */
