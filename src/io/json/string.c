/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "io/json/reader_parts.h"
#include "io/json/scan.h"
#include "io/json/utf8.h"

/* A string being decoded. Bytes from `pending` to the reading point stand for themselves and
 * are not copied yet; a string where nothing else occurs is never copied. */
typedef struct decoding {
    orr_json *json;
    const uint8_t *pending;
    bool copied; /* something is in json->scratch */
    orr_error *err;
} decoding;

/* Replace source bytes [from, to) by text[0..n). */
static orr_status replace(decoding *d, const uint8_t *from, const uint8_t *to, const char *text,
                          size_t n)
{
    orr_json *json = d->json;
    const size_t plain = (size_t)(from - d->pending);
    if (!orr_array_reserve(&json->scratch, plain + n))
        return orr_fail_memory(d->err);
    memcpy(json->scratch.at + json->scratch.n, d->pending, plain);
    memcpy(json->scratch.at + json->scratch.n + plain, text, n);
    json->scratch.n += plain + n;
    d->pending = to;
    d->copied = true;
    return ORR_OK;
}

/* Four hexadecimal digits; UINT32_MAX when they are not. */
static uint32_t hex4(const uint8_t *p)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const uint8_t c = p[i], lower = c | 0x20;
        if (c >= '0' && c <= '9')
            value = value << 4 | (uint32_t)(c - '0');
        else if (lower >= 'a' && lower <= 'f')
            value = value << 4 | (uint32_t)(lower - 'a' + 10);
        else
            return UINT32_MAX;
    }
    return value;
}

static orr_status lone_surrogate(decoding *d, const uint8_t *p, const uint8_t **ret_after)
{
    if (!d->json->tolerant)
        return orr_json_fail(d->json, p, d->err, "half of a surrogate pair in a string");
    orr_json_count_fault(d->json, ORR_JSON_FAULT_LONE_SURROGATE, p);
    *ret_after = p + 6;
    return replace(d, p, p + 6, ORR_UTF8_REPLACEMENT, 3);
}

/* \uXXXX at p, or two of them that are a surrogate pair. */
static orr_status unicode_escape(decoding *d, const uint8_t *p, const uint8_t **ret_after)
{
    const uint8_t *const end = d->json->end;
    if (end - p < 6)
        return ORR_JSON_INCOMPLETE;
    uint32_t code = hex4(p + 2);
    if (code == UINT32_MAX)
        return orr_json_fail(d->json, p, d->err, "\\u without four hexadecimal digits");
    if (code >= 0xdc00 && code < 0xe000)
        return lone_surrogate(d, p, ret_after);
    const uint8_t *after = p + 6;
    if (code >= 0xd800 && code < 0xdc00) {
        if (end - p < 12 && memcmp(p + 6, "\\u", end - p >= 8 ? 2 : (size_t)(end - p - 6)) == 0)
            return ORR_JSON_INCOMPLETE;
        const bool paired = end - p >= 12 && p[6] == '\\' && p[7] == 'u';
        const uint32_t low = paired ? hex4(p + 8) : 0;
        if (low < 0xdc00 || low >= 0xe000)
            return lone_surrogate(d, p, ret_after);
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        after = p + 12;
    }
    char text[4];
    *ret_after = after;
    return replace(d, p, after, text, orr_utf8_encode(text, code));
}

static orr_status escape(decoding *d, const uint8_t *p, const uint8_t **ret_after)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char means[] = "\"\\/\b\f\n\r\t";
    if (d->json->end - p < 2)
        return ORR_JSON_INCOMPLETE;
    if (p[1] == 'u')
        return unicode_escape(d, p, ret_after);
    const char *known = p[1] != '\0' ? strchr(letters, p[1]) : NULL;
    if (known == NULL)
        return orr_json_fail(d->json, p, d->err, "unknown escape in a string");
    *ret_after = p + 2;
    return replace(d, p, p + 2, &means[known - letters], 1);
}

static orr_status control_character(decoding *d, const uint8_t *p, const uint8_t **ret_after)
{
    if (!d->json->tolerant)
        return orr_json_fail(d->json, p, d->err, "raw control character 0x%02x in a string", *p);
    orr_json_count_fault(d->json, ORR_JSON_FAULT_CONTROL_CHARACTER, p);
    *ret_after = p + 1;
    return ORR_OK;
}

static orr_status non_ascii(decoding *d, const uint8_t *p, const uint8_t **ret_after)
{
    const size_t left = (size_t)(d->json->end - p);
    const size_t n = orr_utf8_len(p, left);
    if (n > 0) {
        *ret_after = p + n;
        return ORR_OK;
    }
    if (left < 4 && !d->json->ended)
        return ORR_JSON_INCOMPLETE;
    if (!d->json->tolerant)
        return orr_json_fail(d->json, p, d->err, "a string is not UTF-8 (byte 0x%02x)", *p);
    orr_json_count_fault(d->json, ORR_JSON_FAULT_LONE_SURROGATE, p);
    *ret_after = p + 1;
    return replace(d, p, p + 1, ORR_UTF8_REPLACEMENT, 3);
}

orr_status orr_json_decode_string(orr_json *json, const uint8_t *p, orr_text *ret,
                                  const uint8_t **ret_after, orr_error *err)
{
    decoding d = {.json = json, .pending = p, .err = err};
    json->scratch.n = 0;
    for (;;) {
        p = orr_json_plain_end(p, json->end);
        if (p >= json->end)
            return ORR_JSON_INCOMPLETE;
        if (*p == '"')
            break;
        if (*p == '\\')
            ORR_TRY(escape(&d, p, &p));
        else if (*p < 0x20)
            ORR_TRY(control_character(&d, p, &p));
        else
            ORR_TRY(non_ascii(&d, p, &p));
    }
    *ret_after = p + 1;
    if (!d.copied) {
        *ret = (orr_text){.at = (const char *)d.pending, .n = (size_t)(p - d.pending)};
        return ORR_OK;
    }
    ORR_TRY(replace(&d, p, p, "", 0));
    *ret = (orr_text){.at = json->scratch.at, .n = json->scratch.n};
    return ORR_OK;
}
