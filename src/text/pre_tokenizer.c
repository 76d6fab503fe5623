/* SPDX-License-Identifier: Apache-2.0 */
#include "text/pre_tokenizer.h"

#include <string.h>

#include "text/unicode.h"

/* The regular expressions of pre-tokenizers, as published (openai/gpt-2 encoder.py;
 * meta-llama/llama-models models/llama3/tokenizer.py and models/llama4/tokenizer.py; Qwen2's
 * tokenizer.json). The scanners below implement them alternative by alternative, with the result of
 * a backtracking matcher. */
static const struct {
    orr_pre_tokenizer split;
    const char *pattern;
} patterns[] = {
    {ORR_PRE_TOKENIZER_GPT2,
     "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {ORR_PRE_TOKENIZER_LLAMA3,
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {ORR_PRE_TOKENIZER_QWEN2, "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
                              " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {ORR_PRE_TOKENIZER_O200K,
     "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
     "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
     "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
};

bool orr_pre_tokenizer_of_pattern(orr_text pattern, orr_pre_tokenizer *ret)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (orr_text_equal(pattern, patterns[i].pattern, strlen(patterns[i].pattern))) {
            *ret = patterns[i].split;
            return true;
        }
    return false;
}

typedef uint32_t class_set;
#define IN(class) (UINT32_C(1) << ORR_UNICODE_##class)
static const class_set letters = IN(UPPER) | IN(LOWER) | IN(TITLE) | IN(MODIFIER) | IN(LETTER);
static const class_set numbers = IN(NUMBER);
static const class_set spaces = IN(SPACE);
static const class_set others = IN(OTHER) | IN(MARK); /* [^\s\p{L}\p{N}] */
static const class_set upper = IN(UPPER) | IN(TITLE) | IN(MODIFIER) | IN(LETTER) | IN(MARK);
static const class_set lower = IN(LOWER) | IN(MODIFIER) | IN(LETTER) | IN(MARK);

typedef struct scan {
    const char *at;
    size_t left;
} scan;

static bool has(const scan *s, size_t from, class_set set, size_t *ret_len)
{
    if (from >= s->left)
        return false;
    const orr_character c = orr_character_at(s->at + from, s->left - from);
    *ret_len = c.len;
    return (set >> c.class & 1) != 0;
}

/* End of the run of at most `most` characters in the set. */
static size_t run(const scan *s, size_t from, class_set set, size_t most)
{
    size_t len = 0;
    for (; most > 0 && has(s, from, set, &len); most--)
        from += len;
    return from;
}

static size_t run_of(const scan *s, size_t from, const char *bytes)
{
    while (from < s->left && s->at[from] != '\0' && strchr(bytes, s->at[from]) != NULL)
        from++;
    return from;
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d); U+017F, the long s, is another case of s. 0: none. */
static size_t contraction(const scan *s, size_t from, bool any_case)
{
    const char fold = any_case ? 0x20 : 0;
    const size_t left = from < s->left ? s->left - from : 0;
    const char *at = s->at + from;
    if (left < 2 || at[0] != '\'')
        return 0;
    if (any_case && left >= 3 && memcmp(at + 1, "\xc5\xbf", 2) == 0)
        return 3;
    const char a = (char)(at[1] | fold), b = left >= 3 ? (char)(at[2] | fold) : '\0';
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* \s*[\r\n]+ unless `lines` is false, then \s+(?!\S), then \s+ : at least one space is there. */
static size_t white_space(const scan *s, bool lines)
{
    size_t end = 0, last = 0, line_end = 0, len = 0;
    while (has(s, end, spaces, &len)) {
        last = end;
        end += len;
        if (s->at[last] == '\r' || s->at[last] == '\n')
            line_end = end;
    }
    if (lines && line_end > 0)
        return line_end;
    return end == s->left || last == 0 ? end : last;
}

/* [^\r\n\p{L}\p{N}] ; 0: no match. */
static size_t word_prefix(const scan *s)
{
    size_t len = 0;
    const bool may = has(s, 0, others | spaces, &len) && s->at[0] != '\r' && s->at[0] != '\n';
    return may ? len : 0;
}

/* ` ?` and a run of characters in the set; 0: no match. */
static size_t spaced_run(const scan *s, class_set set)
{
    const size_t space = s->at[0] == ' ' ? 1 : 0;
    const size_t end = run(s, space, set, SIZE_MAX);
    return end > space ? end : 0;
}

static size_t next_gpt2(const scan *s)
{
    size_t n = contraction(s, 0, false);
    if (n == 0)
        n = spaced_run(s, letters);
    if (n == 0)
        n = spaced_run(s, numbers);
    if (n == 0)
        n = spaced_run(s, others);
    return n != 0 ? n : white_space(s, false);
}

static size_t others_and_lines(const scan *s, const char *line_bytes)
{
    const size_t n = spaced_run(s, others);
    return n == 0 ? 0 : run_of(s, n, line_bytes);
}

static size_t next_llama3(const scan *s, size_t digits)
{
    size_t n = contraction(s, 0, true);
    if (n != 0)
        return n;
    const size_t prefix = word_prefix(s);
    n = run(s, prefix, letters, SIZE_MAX);
    if (n > prefix)
        return n;
    n = run(s, 0, numbers, digits);
    if (n == 0)
        n = others_and_lines(s, "\r\n");
    return n != 0 ? n : white_space(s, true);
}

/* upper* lower+ from `from`: as far as upper goes, then lower; if no lower follows, back to the
 * last character that is both. 0: no match. */
static size_t upper_then_lower(const scan *s, size_t from)
{
    size_t end = from, both_end = 0, len = 0;
    while (has(s, end, upper, &len)) {
        size_t same = 0;
        if (has(s, end, lower, &same))
            both_end = end + len;
        end += len;
    }
    const size_t low_end = run(s, end, lower, SIZE_MAX);
    return low_end > end ? low_end : both_end;
}

static size_t next_o200k(const scan *s)
{
    const size_t prefix = word_prefix(s);
    size_t n = upper_then_lower(s, prefix);
    if (n == 0 && prefix > 0)
        n = upper_then_lower(s, 0);
    if (n == 0)
        n = run(s, prefix, upper, SIZE_MAX) > prefix ? run(s, prefix, upper, SIZE_MAX) : 0;
    if (n == 0)
        n = run(s, 0, upper, SIZE_MAX);
    if (n != 0)
        return n + contraction(s, n, true);
    n = run(s, 0, numbers, 3);
    if (n == 0)
        n = others_and_lines(s, "\r\n/");
    return n != 0 ? n : white_space(s, true);
}

static size_t next_word(const scan *s)
{
    static const char mark[] = "\xe2\x96\x81";
    const char *next = s->left > 3 ? memmem(s->at + 1, s->left - 1, mark, 3) : NULL;
    return next == NULL ? s->left : (size_t)(next - s->at);
}

size_t orr_pre_tokenizer_next(orr_pre_tokenizer split, const char *at, size_t left)
{
    const scan s = {at, left};
    switch (split) {
    case ORR_PRE_TOKENIZER_GPT2:
        return next_gpt2(&s);
    case ORR_PRE_TOKENIZER_LLAMA3:
        return next_llama3(&s, 3);
    case ORR_PRE_TOKENIZER_QWEN2:
        return next_llama3(&s, 1);
    case ORR_PRE_TOKENIZER_O200K:
        return next_o200k(&s);
    case ORR_PRE_TOKENIZER_METASPACE:
        return next_word(&s);
    default:
        return left;
    }
}
