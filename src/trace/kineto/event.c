/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/kineto/reader.h"

#include <string.h>

#include "io/json/plain.h"
#include "trace/kineto/recent.h"

/* Parses one element of traceEvents into a kineto_event: keys, times, arguments, attributes. */

/* Integers as tracers write them: as number or as text; addresses may need all 64 bits. */
static bool as_int(orr_text text, int64_t *ret)
{
    uint64_t wide;
    if (orr_text_int64(text, ret))
        return true;
    if (!orr_text_uint64(text, &wide))
        return false;
    *ret = (int64_t)wide;
    return true;
}

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
    ORR_TRY(orr_builder_str(k->builder, text.at, text.n, &value.str, err));
    return kineto_add_attr(k, name, kind, value, err);
}

/* Values as they are mostly written are read here, where the key is known; others by the reader. */
static inline orr_status read_text(kineto *k, orr_text *ret, bool *ret_is, orr_error *err)
{
    *ret_is = true;
    return orr_json_text_plain(k->json, ret) ? ORR_OK : orr_json_text(k->json, ret, ret_is, err);
}

static inline orr_status read_us(kineto *k, int64_t *ret_ns, bool *ret_is, orr_error *err)
{
    *ret_is = true;
    return orr_json_us_as_ns_plain(k->json, ret_ns)
               ? ORR_OK
               : orr_json_us_as_ns(k->json, ret_ns, ret_is, err);
}

static inline orr_status skip(kineto *k, orr_error *err)
{
    return orr_json_skip_plain(k->json) ? ORR_OK : orr_json_skip(k->json, err);
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
    ORR_TRY(orr_builder_str(k->builder, raw.at, raw.n, &value.str, err));
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

/* The key's name as a string of the graph. */
static orr_status attr_name(kineto *k, kineto_arg arg, orr_str *ret, orr_error *err)
{
    const uint16_t known = k->arg_layout.last;
    if (arg == ARG_OTHER && known != 0 && k->known_name[known] != 0) {
        *ret = k->known_name[known];
        return ORR_OK;
    }
    if (arg == ARG_OTHER || k->arg_name[arg] == 0) {
        const orr_text key = orr_json_layout_key(&k->arg_layout);
        ORR_TRY(orr_builder_str(k->builder, key.at, key.n, ret, err));
        k->arg_name[arg] = k->known_name[known] = *ret;
        return ORR_OK;
    }
    *ret = k->arg_name[arg];
    return ORR_OK;
}

static void set_value(kineto_event *e, kineto_arg arg, int64_t value)
{
    e->value[arg] = value;
    e->has |= UINT64_C(1) << arg;
}

/* What a communication is told by, and no attribute may be left out for: shapes and types, and the
 * values given to an operator of c10d, which name the peer of a send or receive. */
static bool tells_communication(const kineto *k, const kineto_event *e, kineto_arg arg)
{
    return arg == ARG_INPUT_DIMS || arg == ARG_INPUT_TYPE ||
           (arg == ARG_INPUT_VALUES &&
            strncmp(orr_builder_text(k->builder, e->name), "c10d::", 6) == 0);
}

static orr_status read_attr_arg(kineto *k, kineto_event *e, kineto_arg arg, orr_error *err)
{
    if (!k->options->attributes && !tells_communication(k, e, arg))
        return skip(k, err);
    orr_str name;
    ORR_TRY(attr_name(k, arg, &name, err));
    ORR_TRY(kineto_read_attr(k, name, err));
    if (arg == ARG_OTHER || k->attrs.n == 0)
        return ORR_OK;
    const orr_attr *attr = &k->attrs.at[k->attrs.n - 1];
    if (attr->name == name && (attr->kind == ORR_ATTR_JSON || attr->kind == ORR_ATTR_STRING))
        set_value(e, arg, k->attr_values.at[k->attrs.n - 1].str);
    return ORR_OK;
}

static orr_status read_int_arg(kineto *k, kineto_event *e, kineto_arg arg, orr_error *err)
{
    orr_str name = 0;
    orr_text text;
    bool is;
    const bool also = k->options->attributes && kineto_arg_uses[arg] == USE_INT_TOO;
    if (also || k->arg_name[arg] == 0) /* the key is invalidated by the next call */
        ORR_TRY(attr_name(k, arg, &name, err));
    int64_t value;
    if (!orr_json_int64_plain(k->json, &value)) {
        ORR_TRY(orr_json_text(k->json, &text, &is, err));
        if (!is)
            return ORR_OK;
        if (!as_int(text, &value)) /* "0x0", HIP's default stream */
            return k->options->attributes
                       ? kineto_add_text_attr(k, k->arg_name[arg], ORR_ATTR_STRING, text, err)
                       : ORR_OK;
    }
    set_value(e, arg, value);
    return also ? kineto_add_attr(k, name, ORR_ATTR_INT64, (kineto_attr_value){.int64 = value}, err)
                : ORR_OK;
}

static orr_status read_text_arg(kineto *k, kineto_event *e, kineto_arg arg, orr_error *err)
{
    orr_text text;
    orr_str str;
    bool is;
    ORR_TRY(orr_json_text(k->json, &text, &is, err));
    if (!is)
        return ORR_OK;
    ORR_TRY(orr_builder_str(k->builder, text.at, text.n, &str, err));
    set_value(e, arg, str);
    return ORR_OK;
}

/* `tag`: NULL or what the key was found to mean before, plus one. */
static inline kineto_arg arg_of(const kineto *k, uint8_t *tag)
{
    if (tag != NULL && *tag != 0)
        return (kineto_arg)(*tag - 1);
    const kineto_arg arg = kineto_arg_of(&k->words, orr_json_layout_key(&k->arg_layout));
    if (tag != NULL)
        *tag = (uint8_t)(arg + 1);
    return arg;
}

static orr_status read_arg(kineto *k, kineto_event *e, kineto_arg arg, orr_error *err)
{
    bool is;
    switch ((kineto_use)kineto_arg_uses[arg]) {
    case USE_NOT:
        return skip(k, err);
    case USE_INT:
    case USE_INT_TOO:
        return read_int_arg(k, e, arg, err);
    case USE_TEXT:
        return read_text_arg(k, e, arg, err);
    case USE_RATE:
        ORR_TRY(orr_json_double(k->json, &e->rate_gb_per_s, &is, err));
        return ORR_OK;
    case USE_ATTR:
        break;
    }
    return read_attr_arg(k, e, arg, err);
}

/* The object that is next; *ret_is: it was one, else it was passed over. */
static inline orr_status enter_object(kineto *k, bool *ret_is, orr_error *err)
{
    orr_json_value v;
    orr_status status = ORR_OK;
    *ret_is = true;
    if (orr_json_plain_object(k->json))
        return ORR_OK;
    ORR_TRY(orr_json_value_next(k->json, &v, err));
    *ret_is = v.type == ORR_JSON_OBJECT;
    if (v.type == ORR_JSON_ARRAY)
        while (orr_json_next_element(k->json, &status, err))
            ORR_TRY(orr_json_skip(k->json, err));
    return status;
}

static orr_status read_args(kineto *k, kineto_event *e, orr_error *err)
{
    bool is_object;
    orr_status status = ORR_OK;
    ORR_TRY(enter_object(k, &is_object, err));
    if (!is_object)
        return ORR_OK;
    uint8_t *tag;
    k->arg_layout.last = 0;
    while (orr_json_next_key_of(k->json, &k->arg_layout, &tag, &status, err))
        ORR_TRY(read_arg(k, e, arg_of(k, tag), err));
    return status;
}

static orr_status read_new_id(kineto *k, kineto_id *id, orr_error *err)
{
    const uint8_t *const p = orr_json_plain_value(k->json);
    const bool plain = p != NULL && (orr_json_int64_plain(k->json, &id->number) || *p == '"');
    const bool number = plain && *p != '"';
    orr_text text;
    bool is;
    if (!number) {
        ORR_TRY(orr_json_text(k->json, &text, &is, err));
        if (!is)
            return ORR_OK;
        if (!orr_text_int64(text, &id->number)) {
            id->number = INT64_MIN;
            ORR_TRY(orr_builder_str(k->builder, text.at, text.n, &id->text, err));
        }
    }
    if (number || (plain && text.at == (const char *)p + 1 &&
                   text.at + text.n + 1 == (const char *)k->json->at))
        kineto_remember(k->json, p, kineto_recent_of(k->recent_ids, p), id->number, id->text);
    return ORR_OK;
}

static inline orr_status read_id(kineto *k, kineto_id *id, orr_error *err)
{
    const uint8_t *const p = orr_json_plain_value(k->json);
    const kineto_recent *r = p != NULL ? kineto_recent_of(k->recent_ids, p) : NULL;
    if (r == NULL || !kineto_is_recent(k->json, p, r))
        return read_new_id(k, id, err);
    orr_json_value_done(k->json, p + r->value_n);
    id->number = r->number;
    if (r->number == INT64_MIN)
        id->text = r->text;
    return ORR_OK;
}

static inline orr_status read_cat(kineto *k, kineto_event *e, orr_error *err)
{
    const uint8_t *const p = orr_json_plain_value(k->json);
    kineto_recent *r = p != NULL ? kineto_recent_of(k->recent_cats, p) : NULL;
    if (r != NULL && kineto_is_recent(k->json, p, r)) {
        orr_json_value_done(k->json, p + r->value_n);
        e->cat = (uint8_t)r->number;
        return ORR_OK;
    }
    orr_text text;
    bool is = true;
    const bool plain = p != NULL && orr_json_text_plain(k->json, &text);
    if (!plain)
        ORR_TRY(orr_json_text(k->json, &text, &is, err));
    e->cat = (uint8_t)(is ? kineto_cat_of(&k->words, text) : CAT_OTHER);
    if (plain)
        kineto_remember(k->json, p, r, e->cat, 0);
    return ORR_OK;
}

/* Names of flows and instants are not interned. */
static orr_status read_name(kineto *k, kineto_event *e, orr_error *err)
{
    orr_text text;
    bool is;
    if (e->ph == 's' || e->ph == 'f')
        return skip(k, err);
    ORR_TRY(read_text(k, &text, &is, err));
    return is ? orr_builder_str(k->builder, text.at, text.n, &e->name, err) : ORR_OK;
}

/* Of what is let pass in any case: it changes no other event. */
static void count_fault(kineto *k, orr_trace_fault fault)
{
    k->report->faults[fault]++;
    if (k->event_byte < k->report->first_fault_byte)
        k->report->first_fault_byte = k->event_byte;
}

/* As arg_of(). */
static inline kineto_key key_of(const kineto *k, uint8_t *tag)
{
    if (tag != NULL && *tag != 0)
        return (kineto_key)(*tag - 1);
    const kineto_key name = kineto_key_of(orr_json_layout_key(&k->event_layout));
    if (tag != NULL)
        *tag = (uint8_t)(name + 1);
    return name;
}

static orr_status read_field(kineto *k, kineto_event *e, kineto_key name, orr_error *err)
{
    orr_text text;
    bool is;
    if (name != KEY_UNKNOWN && (e->keys >> name & 1) != 0)
        count_fault(k, ORR_TRACE_FAULT_DUPLICATE_KEY);
    e->keys |= (uint16_t)(1u << name);
    switch (name) {
    case KEY_PH:
        ORR_TRY(read_text(k, &text, &is, err));
        e->ph = (char)(is && text.n == 1 ? text.at[0] : '\0');
        return ORR_OK;
    case KEY_CAT:
        return read_cat(k, e, err);
    case KEY_NAME:
        return read_name(k, e, err);
    case KEY_PID:
        return read_id(k, &e->pid, err);
    case KEY_TID:
        return read_id(k, &e->tid, err);
    case KEY_TS:
        return read_us(k, &e->ts_ns, &e->has_ts, err);
    case KEY_DUR:
        return read_us(k, &e->dur_ns, &is, err);
    case KEY_ID:
        if (orr_json_uint64_plain(k->json, &e->id)) {
            e->has_id = true;
            return ORR_OK;
        }
        ORR_TRY(orr_json_text(k->json, &text, &is, err));
        e->has_id = is && orr_text_uint64(text, &e->id);
        return ORR_OK;
    case KEY_ARGS:
        return read_args(k, e, err);
    case KEY_UNKNOWN:
        break;
    }
    return skip(k, err);
}

static orr_status bad_event(kineto *k, uint64_t at_byte, const char *what, orr_error *err)
{
    if (!k->options->tolerant)
        return orr_fail_byte(err, ORR_PARSE, at_byte,
                             "at byte %llu: event without %s; read tolerantly to leave it out",
                             (unsigned long long)at_byte, what);
    k->report->faults[ORR_TRACE_FAULT_BAD_EVENT]++;
    if (at_byte < k->report->first_fault_byte)
        k->report->first_fault_byte = at_byte;
    return ORR_OK;
}

static orr_status use_event(kineto *k, kineto_event *e, uint64_t at_byte, orr_error *err)
{
    const bool whole = orr_json_faults(k->json, ORR_JSON_FAULT_TRUNCATED) == 0;
    if (!whole || e->ph == '\0') /* the tail of a truncated file may be half an event */
        return whole ? bad_event(k, at_byte, "\"ph\"", err) : ORR_OK;
    switch (e->ph) {
    case 'X':
        break;
    case 'i':
    case 'I':
        if (e->cat == CAT_INSTANT)
            break;
        k->report->ignored++;
        return ORR_OK;
    case 'M':
        k->report->ignored++;
        return kineto_add_label(k, e, err);
    case 's':
    case 'f':
        k->report->ignored++;
        return e->has_ts && e->has_id ? kineto_add_flow(k, e, err) : ORR_OK;
    default:
        k->report->ignored++;
        return ORR_OK;
    }
    if (!e->has_ts)
        return bad_event(k, at_byte, "a time (\"ts\")", err);
    if (e->ts_ns < -(INT64_MAX / 4) || e->ts_ns > INT64_MAX / 4 || e->dur_ns > INT64_MAX / 4)
        return bad_event(k, at_byte, "a time that is possible", err);
    if (e->dur_ns < 0)
        count_fault(k, ORR_TRACE_FAULT_NEGATIVE_DURATION);
    return kineto_add_node(k, e, err);
}

orr_status kineto_read_event(kineto *k, orr_error *err)
{
    kineto_event e;
    memset(&e, 0, offsetof(kineto_event, value));
    e.rate_gb_per_s = 0;
    e.pid.number = e.tid.number = INT64_MIN;
    k->attrs.n = k->attr_values.n = 0;

    const uint64_t at_byte = k->event_byte = orr_json_byte_pos(k->json);
    bool is_object;
    orr_status status = ORR_OK;
    ORR_TRY(enter_object(k, &is_object, err));
    k->report->events++;
    if (!is_object)
        return bad_event(k, at_byte, "fields", err);
    uint8_t *tag;
    k->event_layout.last = 0;
    while (orr_json_next_key_of(k->json, &k->event_layout, &tag, &status, err))
        ORR_TRY(read_field(k, &e, key_of(k, tag), err));
    ORR_TRY(status);
    return use_event(k, &e, at_byte, err);
}
