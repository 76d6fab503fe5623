/* SPDX-License-Identifier: Apache-2.0 */
#include "io/json/writer.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "io/json/scan.h"
#include "io/json/number.h"
#include "io/json/utf8.h"

enum { DEEPEST = 63 };

void orr_json_write_init(orr_json_writer *w, orr_output *out)
{
    *w = (orr_json_writer){.out = out};
}

/* The comma before a value or a key, where one belongs. */
static void separate(orr_json_writer *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    const uint64_t bit = UINT64_C(1) << w->depth;
    if ((w->has_value & bit) != 0)
        orr_output_write(w->out, ",", 1);
    w->has_value |= bit;
}

static void begin(orr_json_writer *w, const char *bracket)
{
    assert(w->depth < DEEPEST);
    separate(w);
    orr_output_write(w->out, bracket, 1);
    w->depth++;
    w->has_value &= ~(UINT64_C(1) << w->depth);
}

static void end(orr_json_writer *w, const char *bracket)
{
    assert(w->depth > 0 && !w->after_key);
    w->depth--;
    orr_output_write(w->out, bracket, 1);
}

void orr_json_write_object(orr_json_writer *w)
{
    begin(w, "{");
}

void orr_json_write_object_end(orr_json_writer *w)
{
    end(w, "}");
}

void orr_json_write_array(orr_json_writer *w)
{
    begin(w, "[");
}

void orr_json_write_array_end(orr_json_writer *w)
{
    end(w, "]");
}

/* One character that does not stand for itself; returns the bytes of it. */
static size_t write_escaped(orr_output *out, const uint8_t *at, size_t left)
{
    static const char shorts[] = "\b\f\n\r\t\"\\";
    static const char letters[] = "bfnrt\"\\";
    const char *known = *at != '\0' ? strchr(shorts, *at) : NULL;
    if (known != NULL) {
        const char pair[2] = {'\\', letters[known - shorts]};
        orr_output_write(out, pair, 2);
        return 1;
    }
    if (*at < 0x20) {
        orr_output_printf(out, "\\u%04x", *at);
        return 1;
    }
    const size_t n = orr_utf8_len(at, left);
    if (n == 0) {
        orr_output_write(out, ORR_UTF8_REPLACEMENT, 3);
        return 1;
    }
    orr_output_write(out, at, n);
    return n;
}

void orr_json_put_string(orr_output *out, const char *text, size_t len)
{
    const uint8_t *at = (const uint8_t *)text;
    const uint8_t *const end_at = at + len;
    orr_output_write(out, "\"", 1);
    while (at < end_at) {
        const uint8_t *plain = at;
        while (at < end_at && orr_json_is_plain(*at))
            at++;
        orr_output_write(out, plain, (size_t)(at - plain));
        if (at < end_at)
            at += write_escaped(out, at, (size_t)(end_at - at));
    }
    orr_output_write(out, "\"", 1);
}

void orr_json_write_key(orr_json_writer *w, const char *key)
{
    assert(!w->after_key);
    separate(w);
    orr_json_put_string(w->out, key, strlen(key));
    orr_output_write(w->out, ":", 1);
    w->after_key = true;
}

void orr_json_write_text(orr_json_writer *w, const char *text, size_t len)
{
    separate(w);
    orr_json_put_string(w->out, text, len);
}

void orr_json_write_cstr(orr_json_writer *w, const char *text)
{
    orr_json_write_text(w, text, strlen(text));
}

void orr_json_write_raw(orr_json_writer *w, const char *json, size_t len)
{
    separate(w);
    orr_output_write(w->out, json, len);
}

void orr_json_write_int(orr_json_writer *w, int64_t value)
{
    char digits[ORR_INT_CHARS];
    orr_json_write_raw(w, digits, orr_print_int64(digits, value));
}

void orr_json_write_uint(orr_json_writer *w, uint64_t value)
{
    char digits[ORR_INT_CHARS];
    orr_json_write_raw(w, digits, orr_print_uint64(digits, value));
}

void orr_json_write_double(orr_json_writer *w, double value)
{
    char digits[ORR_DOUBLE_CHARS];
    if (isfinite(value))
        orr_json_write_raw(w, digits, orr_print_double(digits, value));
    else
        orr_json_write_null(w);
}

void orr_json_write_bool(orr_json_writer *w, bool value)
{
    orr_json_write_raw(w, value ? "true" : "false", value ? 4 : 5);
}

void orr_json_write_null(orr_json_writer *w)
{
    orr_json_write_raw(w, "null", 4);
}

void orr_json_write_us(orr_json_writer *w, int64_t ns)
{
    char digits[ORR_INT_CHARS + 1];
    orr_json_write_raw(w, digits, orr_print_us(digits, ns));
}

void orr_json_write_newline(orr_json_writer *w)
{
    orr_output_write(w->out, "\n", 1);
}

void orr_json_member_int(orr_json_writer *w, const char *key, int64_t value)
{
    orr_json_write_key(w, key);
    orr_json_write_int(w, value);
}

void orr_json_member_uint(orr_json_writer *w, const char *key, uint64_t value)
{
    orr_json_write_key(w, key);
    orr_json_write_uint(w, value);
}

void orr_json_member_double(orr_json_writer *w, const char *key, double value)
{
    orr_json_write_key(w, key);
    orr_json_write_double(w, value);
}

void orr_json_member_bool(orr_json_writer *w, const char *key, bool value)
{
    orr_json_write_key(w, key);
    orr_json_write_bool(w, value);
}

void orr_json_member_text(orr_json_writer *w, const char *key, const char *text)
{
    orr_json_write_key(w, key);
    if (text != NULL)
        orr_json_write_cstr(w, text);
    else
        orr_json_write_null(w);
}
