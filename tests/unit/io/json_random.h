/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_JSON_RANDOM_H
#define ORR_TESTS_JSON_RANDOM_H

#include "base/philox.h"
#include "io/stream/output.h"
#include "io/json/utf8.h"
#include "json_tokens.h"

/* A random document, and beside it the tokens that reading it must give. It is written by hand, not
 * by the writer of the library: any spacing, any way to escape. */
typedef struct random_json {
    orr_random random;
    orr_output *text, *tokens;
} random_json;

static inline bool one_in(random_json *r, uint64_t n)
{
    return orr_random_below(&r->random, n) == 0;
}

static inline void random_space(random_json *r)
{
    static const char spaces[] = " \n\r\t";
    if (one_in(r, 3))
        return;
    uint64_t n = one_in(r, 20) ? orr_random_below(&r->random, 80) : orr_random_below(&r->random, 3);
    for (; n > 0; n--)
        orr_output_write(r->text, &spaces[orr_random_below(&r->random, 4)], 1);
}

static inline uint32_t random_code(random_json *r)
{
    if (!one_in(r, 10))
        return (uint32_t)(' ' + orr_random_below(&r->random, 95));
    if (one_in(r, 2))
        return (uint32_t)orr_random_below(&r->random, 0x80);
    const uint32_t code = (uint32_t)orr_random_below(&r->random, one_in(r, 2) ? 0x110000 : 0x10000);
    return code >= 0xd800 && code < 0xe000 ? 0x20ac : code;
}

static inline void random_character(random_json *r, uint32_t code, const char *utf8, size_t n)
{
    static const char shorts[] = "\b\f\n\r\t\"\\/", letters[] = "bfnrt\"\\/";
    const char *known = code > 0 && code < 0x80 ? strchr(shorts, (int)code) : NULL;
    const bool must = code < 0x20 || code == '"' || code == '\\';
    if (known != NULL && (must || one_in(r, 2)) && !one_in(r, 4))
        orr_output_printf(r->text, "\\%c", letters[known - shorts]);
    else if (!must && !one_in(r, 20))
        orr_output_write(r->text, utf8, n);
    else if (code < 0x10000)
        orr_output_printf(r->text, one_in(r, 2) ? "\\u%04x" : "\\u%04X", (unsigned)code);
    else
        orr_output_printf(r->text, "\\u%04x\\u%04X", 0xd800 + (unsigned)((code - 0x10000) >> 10),
                          0xdc00 + (unsigned)((code - 0x10000) & 0x3ff));
}

static inline void random_string(random_json *r, char kind)
{
    char decoded[1024];
    size_t len = 0;
    uint64_t n = orr_random_below(&r->random, one_in(r, 30) ? 200 : 12);
    orr_output_text(r->text, "\"");
    for (; n > 0; n--) {
        const uint32_t code = random_code(r);
        const size_t bytes = orr_utf8_encode(decoded + len, code);
        random_character(r, code, decoded + len, bytes);
        len += bytes;
    }
    orr_output_text(r->text, "\"");
    put_token(r->tokens, kind, (orr_text){decoded, len});
}

static inline void random_number(random_json *r)
{
    char digits[64];
    size_t n = 0;
    if (one_in(r, 3))
        digits[n++] = '-';
    n += (size_t)snprintf(
        digits + n, 24, "%llu",
        (unsigned long long)(orr_random_u64(&r->random) >> orr_random_below(&r->random, 64)));
    if (one_in(r, 3))
        n += (size_t)snprintf(digits + n, 24, ".%03llu",
                              (unsigned long long)orr_random_below(&r->random, 100000));
    if (one_in(r, 6))
        n += (size_t)snprintf(digits + n, 16, "%s%02u",
                              one_in(r, 2)   ? "e-"
                              : one_in(r, 2) ? "E+"
                                             : "e",
                              (unsigned)orr_random_below(&r->random, 30));
    orr_output_write(r->text, digits, n);
    put_token(r->tokens, 'n', (orr_text){digits, n});
}

static inline void random_value(random_json *r, int depth);

static inline void random_container(random_json *r, int depth, bool object)
{
    orr_output_text(r->text, object ? "{" : "[");
    put_token(r->tokens, object ? '{' : '[', (orr_text){object ? "{" : "[", 1});
    random_space(r);
    const uint64_t n = orr_random_below(&r->random, 6);
    for (uint64_t i = 0; i < n; i++) {
        if (i > 0) {
            orr_output_text(r->text, ",");
            random_space(r);
        }
        if (object) {
            random_string(r, 'k');
            random_space(r);
            orr_output_text(r->text, ":");
        }
        random_value(r, depth - 1);
    }
    orr_output_text(r->text, object ? "}" : "]");
    orr_output_text(r->tokens, object ? "}\n" : "]\n");
}

static inline void random_value(random_json *r, int depth)
{
    static const char *const words[] = {"null", "false", "true"};
    random_space(r);
    const uint64_t kind = orr_random_below(&r->random, depth > 0 ? 10 : 6);
    if (kind < 1) {
        const uint64_t word = orr_random_below(&r->random, 3);
        orr_output_text(r->text, words[word]);
        put_token(
            r->tokens, "zft" [word], (orr_text) { words[word], strlen(words[word]) });
    } else if (kind < 4) {
        random_string(r, 's');
    } else if (kind < 6) {
        random_number(r);
    } else {
        random_container(r, depth, kind < 8);
    }
    random_space(r);
}

/* Both outputs are the caller's, empty. */
static inline void random_document(uint64_t seed, uint64_t stream, int depth, orr_output *text,
                                   orr_output *tokens)
{
    random_json r = {.random = orr_random_of(seed, stream), .text = text, .tokens = tokens};
    random_value(&r, depth);
    size_t n;
    (void)orr_output_memory(text, &n);
    orr_output_printf(tokens, "end at %zu\n", n);
}

#endif /* ORR_TESTS_JSON_RANDOM_H */
