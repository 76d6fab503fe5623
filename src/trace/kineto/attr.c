/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/kineto/reader.h"

#include <string.h>

#include "io/json/plain.h"
#include "trace/kineto/recent.h"

/* Values of arguments, as attributes of the event being read. */

orr_status kineto_add_attr(kineto *k, orr_str name, orr_attr_kind kind, kineto_attr_value value,
                           orr_error *err)
{
    const orr_attr attr = {.name = name, .kind = (uint8_t)kind, .count = 1};
    if (!orr_array_push(&k->attrs, attr))
        return orr_fail_memory(err);
    if (!orr_array_push(&k->attr_values, value)) {
        k->attrs.n--;
        return orr_fail_memory(err);
    }
    return ORR_OK;
}

orr_status kineto_add_text_attr(kineto *k, orr_str name, orr_attr_kind kind, orr_text text,
                                orr_error *err)
{
    kineto_attr_value value = {0};
    ORR_TRY(kineto_str(k, text, &value.str, err));
    return kineto_add_attr(k, name, kind, value, err);
}

/* A JSON string with escapes, kept with its quotes. */
static orr_status add_escaped_attr(kineto *k, orr_str name, orr_text raw, orr_error *err)
{
    orr_stream *stream = NULL;
    orr_json *json = NULL;
    orr_text text;
    bool is;
    orr_status status;
    ORR_TRY_OUT(status, orr_stream_open_memory(raw.at, raw.n, &stream, err));
    ORR_TRY_OUT(status, orr_json_new(stream, true, &json, err));
    ORR_TRY_OUT(status, orr_json_text(json, &text, &is, err));
    if (is)
        status = kineto_add_text_attr(k, name, ORR_ATTR_STRING, text, err);
out:
    orr_json_free(json);
    orr_stream_close(stream);
    return status;
}

static orr_status add_raw_attr(kineto *k, orr_str name, orr_text raw, orr_error *err)
{
    kineto_attr_value value = {0};
    switch (raw.at[0]) {
    case '"':
        if (raw.n == 2)
            return ORR_OK; /* "" says nothing */
        if (memchr(raw.at, '\\', raw.n) != NULL)
            return add_escaped_attr(k, name, raw, err);
        return kineto_add_text_attr(k, name, ORR_ATTR_STRING, (orr_text){raw.at + 1, raw.n - 2},
                                    err);
    case '[':
        return raw.n == 2 ? ORR_OK : kineto_add_text_attr(k, name, ORR_ATTR_JSON, raw, err);
    case '{':
        return kineto_add_text_attr(k, name, ORR_ATTR_JSON, raw, err);
    case 't':
    case 'f':
        value.boolean = raw.at[0] == 't';
        return kineto_add_attr(k, name, ORR_ATTR_BOOL, value, err);
    case 'n':
        return ORR_OK;
    default:
        if (orr_text_int64(raw, &value.int64) && memchr(raw.at, '.', raw.n) == NULL)
            return kineto_add_attr(k, name, ORR_ATTR_INT64, value, err);
        if (orr_text_double(raw, &value.real))
            return kineto_add_attr(k, name, ORR_ATTR_DOUBLE, value, err);
        return kineto_add_text_attr(k, name, ORR_ATTR_JSON, raw, err);
    }
}

/* Digits as an attribute: an integer, or a double where there is a point. Up to 15 digits and the
 * power of ten are exact doubles, so that the quotient is rounded once, as orr_text_double() does.
 */
static bool plain_number(orr_json *json, orr_attr_kind *ret_kind, kineto_attr_value *ret)
{
    enum { EXACT_DIGITS = 15 };
    static const double powers[EXACT_DIGITS + 1] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                    1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    const uint8_t *const begin = orr_json_plain_value(json);
    uint64_t value;
    unsigned decimals;
    if (begin == NULL)
        return false;
    const uint8_t *const after =
        orr_json_plain_decimal(begin, json->end, EXACT_DIGITS, &value, &decimals);
    if (after == NULL || value > INT64_MAX || (decimals > 0 && after - begin - 1 > EXACT_DIGITS))
        return false;
    *ret_kind = decimals > 0 ? ORR_ATTR_DOUBLE : ORR_ATTR_INT64;
    if (decimals > 0)
        ret->real = (double)value / powers[decimals];
    else
        ret->int64 = (int64_t)value;
    orr_json_value_done(json, after);
    return true;
}

static orr_status read_list_attr(kineto *k, orr_str name, const uint8_t *p, orr_error *err)
{
    kineto_attr_value value = {0};
    orr_text raw;
    if (p[1] == ']' && k->json->end - p > 1 && k->json->depth < k->json->depth_limit) {
        orr_json_value_done(k->json, p + 2);
        return ORR_OK; /* says nothing */
    }
    orr_str *recent = kineto_recent_list(k, p);
    const size_t n = orr_strtab_len(k->builder->strings, *recent);
    if (n > 0 && (size_t)(k->json->end - p) >= n &&
        kineto_stands_at(p, orr_builder_text(k->builder, *recent), n)) {
        orr_json_value_done(k->json, p + n);
        value.str = *recent;
        return kineto_add_attr(k, name, ORR_ATTR_JSON, value, err);
    }
    ORR_TRY(orr_json_raw(k->json, &raw, err));
    if (raw.n <= 2)
        return ORR_OK;
    ORR_TRY(kineto_str(k, raw, &value.str, err));
    if (raw.n <= KINETO_RECENT_LIST_BYTES)
        *recent = value.str;
    return kineto_add_attr(k, name, ORR_ATTR_JSON, value, err);
}

orr_status kineto_read_attr(kineto *k, orr_str name, orr_error *err)
{
    orr_text raw;
    orr_attr_kind kind;
    kineto_attr_value value = {0};
    const uint8_t *const p = orr_json_plain_value(k->json);
    if (p != NULL && *p == '[')
        return read_list_attr(k, name, p, err);
    if (p != NULL && *p == '"' && orr_json_text_plain(k->json, &raw))
        return raw.n == 0 ? ORR_OK : kineto_add_text_attr(k, name, ORR_ATTR_STRING, raw, err);
    if (plain_number(k->json, &kind, &value))
        return kineto_add_attr(k, name, kind, value, err);
    ORR_TRY(orr_json_raw(k->json, &raw, err));
    return raw.n == 0 ? ORR_OK : add_raw_attr(k, name, raw, err);
}

orr_status kineto_put_attrs(kineto *k, orr_node_id node, orr_error *err)
{
    const size_t n = k->attrs.n;
    if (n == 0)
        return ORR_OK;
    for (size_t i = 0; i < n; i++)
        k->attrs.at[i].values = &k->attr_values.at[i];
    k->attrs.n = k->attr_values.n = 0;
    return orr_builder_attrs(k->builder, node, k->attrs.at, (uint32_t)n, err);
}
