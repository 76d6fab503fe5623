/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/chakra/python_repr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json/utf8.h"

typedef struct printer {
    orr_proto_buffer *out;
    const char *at, *end;
} printer;

static void put(printer *p, const char *text, size_t n)
{
    orr_proto_put_raw(p->out, text, n);
}

static void put_cstr(printer *p, const char *text)
{
    put(p, text, strlen(text));
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : 0;
}

static uint32_t four_digits(const char *at, const char *end)
{
    uint32_t value = 0;
    for (int i = 0; i < 4 && at + i < end; i++)
        value = value << 4 | (uint32_t)hex_value(at[i]);
    return value;
}

/* The character behind a backslash, as Python shows it. Moves past the escape. */
static void put_escape(printer *p, char quote)
{
    const char c = *p->at++;
    char hex[8];
    uint32_t code;
    switch (c) {
    case 'n':
        put_cstr(p, "\\n");
        return;
    case 't':
        put_cstr(p, "\\t");
        return;
    case 'r':
        put_cstr(p, "\\r");
        return;
    case 'b':
        put_cstr(p, "\\x08");
        return;
    case 'f':
        put_cstr(p, "\\x0c");
        return;
    case '\\':
        put_cstr(p, "\\\\");
        return;
    case 'u':
        code = four_digits(p->at, p->end);
        p->at += p->end - p->at < 4 ? p->end - p->at : 4;
        if (code >> 10 == 0x36 && p->end - p->at >= 6 && p->at[0] == '\\') {
            code = 0x10000 + ((code & 0x3ff) << 10) + (four_digits(p->at + 2, p->end) & 0x3ff);
            p->at += 6;
        }
        if (code >= 0x20 && code != 0x7f) {
            put(p, hex, orr_utf8_encode(hex, code));
            return;
        }
        snprintf(hex, sizeof hex, "\\x%02x", (unsigned)code);
        put_cstr(p, hex);
        return;
    default:
        if (c == quote)
            put(p, "\\", 1);
        put(p, &c, 1);
    }
}

/* In single quotes, or in double ones where only single ones are inside. */
static void put_string(printer *p)
{
    bool has_single = false, has_double = false;
    const char *close = ++p->at;
    for (; close < p->end && *close != '"'; close++) {
        has_single |= *close == '\'';
        if (*close == '\\' && close + 1 < p->end)
            has_double |= *++close == '"';
    }
    const char quote = has_single && !has_double ? '"' : '\'';
    put(p, &quote, 1);
    while (p->at < close) {
        const char *plain = p->at;
        while (p->at < close && *p->at != '\\' && *p->at != quote)
            p->at++;
        put(p, plain, (size_t)(p->at - plain));
        if (p->at >= close)
            break;
        const char c = *p->at++;
        if (c == '\\' && p->at < close) {
            put_escape(p, quote);
        } else {
            put(p, "\\", 1);
            put(p, &c, 1);
        }
    }
    p->at = close < p->end ? close + 1 : close;
    put(p, &quote, 1);
}

/* Shortest digits that read back, fixed for 1e-4 <= |x| < 1e16, with ".0" on whole numbers. */
static void put_float(printer *p, double value)
{
    char digits[40], text[64];
    int precision = 14;
    do
        snprintf(digits, sizeof digits, "%.*e", precision, value);
    while (strtod(digits, NULL) != value && ++precision <= 16);
    char *e = strchr(digits, 'e');
    if (e == NULL) { /* inf, nan */
        put_cstr(p, digits);
        return;
    }
    const int exponent = (int)strtol(e + 1, NULL, 10);
    while (e[-1] == '0')
        memmove(e - 1, e, strlen(e) + 1), e--;
    if (e[-1] == '.')
        memmove(e - 1, e, strlen(e) + 1), e--;
    if (exponent < -4 || exponent >= 16) {
        put_cstr(p, digits);
        return;
    }
    const int significant = (int)(e - digits) - (digits[0] == '-') - (strchr(digits, '.') != NULL);
    const int decimals = significant - 1 - exponent;
    snprintf(text, sizeof text, "%.*f", decimals > 1 ? decimals : 1, value);
    put_cstr(p, text);
}

static void put_number(printer *p)
{
    const char *begin = p->at;
    bool whole = true;
    for (; p->at < p->end && memchr("+-.0123456789eE", *p->at, 15) != NULL; p->at++)
        whole &= *p->at != '.' && *p->at != 'e' && *p->at != 'E';
    double value;
    if (p->at == begin)
        p->at++; /* no JSON: passed over */
    else if (whole || !orr_text_double((orr_text){begin, (size_t)(p->at - begin)}, &value))
        put(p, begin, (size_t)(p->at - begin));
    else
        put_float(p, value);
}

static const struct {
    const char *json, *python;
} WORDS[] = {
    {"true", "True"}, {"false", "False"}, {"null", "None"}, {"NaN", "nan"}, {"Infinity", "inf"}};

static bool put_word(printer *p)
{
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        const size_t n = strlen(WORDS[i].json);
        if ((size_t)(p->end - p->at) < n || memcmp(p->at, WORDS[i].json, n) != 0)
            continue;
        put_cstr(p, WORDS[i].python);
        p->at += n;
        return true;
    }
    return false;
}

void orr_python_repr(orr_proto_buffer *out, orr_text json)
{
    printer p = {out, json.at, json.at + json.n};
    while (p.at < p.end) {
        const char c = *p.at;
        if (c == '"') {
            put_string(&p);
        } else if (c == ',' || c == ':') {
            put(&p, c == ',' ? ", " : ": ", 2);
            p.at++;
        } else if (c == '[' || c == ']' || c == '{' || c == '}') {
            put(&p, &c, 1);
            p.at++;
        } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
            p.at++;
        } else if (!put_word(&p)) {
            put_number(&p);
        }
    }
}

/* The character behind a backslash, as JSON shows it. */
static void put_json_escape(printer *p)
{
    char hex[8];
    const char c = *p->at++;
    if (c == 'x' && p->end - p->at >= 2) {
        snprintf(hex, sizeof hex, "\\u00%c%c", p->at[0], p->at[1]);
        put(p, hex, 6);
        p->at += 2;
    } else if (c == '\'') {
        put(p, "'", 1);
    } else {
        const char escaped[] = {'\\', c};
        put(p, escaped, 2);
    }
}

static void put_json_string(printer *p)
{
    const char quote = *p->at++;
    put(p, "\"", 1);
    while (p->at < p->end && *p->at != quote) {
        const char c = *p->at++;
        if (c == '\\' && p->at < p->end)
            put_json_escape(p);
        else if (c == '"')
            put(p, "\\\"", 2);
        else
            put(p, &c, 1);
    }
    p->at += p->at < p->end;
    put(p, "\"", 1);
}

static bool put_json_word(printer *p)
{
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        const size_t n = strlen(WORDS[i].python);
        if ((size_t)(p->end - p->at) < n || memcmp(p->at, WORDS[i].python, n) != 0)
            continue;
        put_cstr(p, WORDS[i].json);
        p->at += n;
        return true;
    }
    return false;
}

void orr_python_to_json(orr_proto_buffer *out, orr_text python, bool blanks)
{
    printer p = {out, python.at, python.at + python.n};
    while (p.at < p.end) {
        const char c = *p.at;
        if (c == '\'' || c == '"') {
            put_json_string(&p);
        } else if (c == ' ') {
            if (blanks)
                put(&p, " ", 1);
            p.at++;
        } else if (!put_json_word(&p)) {
            put(&p, &c, 1);
            p.at++;
        }
    }
}
