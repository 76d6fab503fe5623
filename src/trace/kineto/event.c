/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/kineto/reader.h"

#include <string.h>

#include "io/json/plain.h"
#include "trace/kineto/recent.h"

/* Parses one element of traceEvents into a kineto_event: keys, times, arguments.
 *
 * The plain_ functions read a value as it is mostly written, at a pointer that stays in a register
 * from one value to the next, and return the byte behind it. Where one returns NULL nothing has
 * changed, and the read_ function of the same name reads the value through the reader, whatever it
 * is. */

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
        return orr_json_skip(k->json, err);
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
    ORR_TRY(orr_json_text(k->json, &text, &is, err));
    if (!is)
        return ORR_OK;
    if (!as_int(text, &value)) /* "0x0", HIP's default stream */
        return k->options->attributes
                   ? kineto_add_text_attr(k, k->arg_name[arg], ORR_ATTR_STRING, text, err)
                   : ORR_OK;
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
        return orr_json_skip(k->json, err);
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

/* Into the value that is next. */
static inline orr_status enter(kineto *k, orr_json_type *ret_type, orr_error *err)
{
    orr_json_value v = {.type = ORR_JSON_OBJECT};
    if (!orr_json_plain_object(k->json))
        ORR_TRY(orr_json_value_next(k->json, &v, err));
    *ret_type = v.type;
    return ORR_OK;
}

/* Past it, when it is no object. */
static orr_status leave(kineto *k, orr_json_type type, orr_error *err)
{
    orr_status status = ORR_OK;
    if (type == ORR_JSON_ARRAY)
        while (orr_json_next_element(k->json, &status, err))
            ORR_TRY(orr_json_skip(k->json, err));
    return status;
}

static inline const uint8_t *plain_arg(kineto *k, kineto_event *e, kineto_arg arg, const uint8_t *p)
{
    const uint8_t *const end = k->json->end;
    int64_t value;
    if (p >= end)
        return NULL;
    if (kineto_arg_uses[arg] == USE_NOT)
        return orr_json_pass_scalar(p, end);
    if (kineto_arg_uses[arg] != USE_INT || k->arg_name[arg] == 0 ||
        (p = orr_json_plain_int(p, end, &value)) == NULL)
        return NULL;
    set_value(e, arg, value);
    return p;
}

static orr_status read_args(kineto *k, kineto_event *e, orr_error *err)
{
    orr_json *const json = k->json;
    orr_status status;
    uint8_t *tag;
    orr_json_type type;
    ORR_TRY(enter(k, &type, err));
    if (type != ORR_JSON_OBJECT)
        return leave(k, type, err);
    k->arg_layout.last = 0;
    const uint8_t *p = json->at, *after;
    orr_json_expect expect = json->expect;
    while (orr_json_next_key_at(json, &k->arg_layout, &p, expect, &tag, &status, err)) {
        const kineto_arg arg = arg_of(k, tag);
        if ((after = plain_arg(k, e, arg, p)) == NULL) {
            orr_json_value_at(json, p);
            ORR_TRY(read_arg(k, e, arg, err));
            after = json->at;
        }
        p = after;
        expect = ORR_JSON_EXPECT_MORE;
    }
    return status;
}

static inline const uint8_t *plain_id(kineto *k, kineto_id *id, const uint8_t *p)
{
    const kineto_recent *r = kineto_recent_of(k->recent_ids, p);
    if (!kineto_is_recent(k->json, p, r))
        return NULL;
    id->number = r->number;
    if (r->number == INT64_MIN)
        id->text = r->text;
    return p + r->value_n;
}

static orr_status read_id(kineto *k, kineto_id *id, orr_error *err)
{
    const uint8_t *const p = orr_json_plain_value(k->json);
    const bool number = p != NULL && orr_json_int64_plain(k->json, &id->number);
    orr_text text = {0};
    const bool plain = number || (p != NULL && orr_json_text_plain(k->json, &text));
    bool is = true;
    if (!plain)
        ORR_TRY(orr_json_text(k->json, &text, &is, err));
    if (!is)
        return ORR_OK;
    if (!number && !orr_text_int64(text, &id->number)) {
        id->number = INT64_MIN;
        ORR_TRY(orr_builder_str(k->builder, text.at, text.n, &id->text, err));
    }
    if (plain) /* what has faults is to be read, and counted, again */
        kineto_remember(k->json, p, kineto_recent_of(k->recent_ids, p), id->number, id->text);
    return ORR_OK;
}

static inline const uint8_t *plain_cat(kineto *k, kineto_event *e, const uint8_t *p)
{
    const kineto_recent *r = kineto_recent_of(k->recent_cats, p);
    if (!kineto_is_recent(k->json, p, r))
        return NULL;
    e->cat = (uint8_t)r->number;
    return p + r->value_n;
}

static orr_status read_cat(kineto *k, kineto_event *e, orr_error *err)
{
    const uint8_t *const p = orr_json_plain_value(k->json);
    orr_text text;
    bool is = true;
    const bool plain = p != NULL && orr_json_text_plain(k->json, &text);
    if (!plain)
        ORR_TRY(orr_json_text(k->json, &text, &is, err));
    e->cat = (uint8_t)(is ? kineto_cat_of(&k->words, text) : CAT_OTHER);
    if (plain)
        kineto_remember(k->json, p, kineto_recent_of(k->recent_cats, p), e->cat, 0);
    return ORR_OK;
}

/* Names of flows are not interned. */
static inline const uint8_t *plain_name(kineto *k, kineto_event *e, const uint8_t *p,
                                        const uint8_t *end)
{
    orr_text text;
    if (e->ph == 's' || e->ph == 'f')
        return orr_json_pass_scalar(p, end);
    p = orr_json_plain_string(p, end, &text);
    return p != NULL && kineto_str(k, text, &e->name, NULL) == ORR_OK ? p : NULL;
}

static orr_status read_name(kineto *k, kineto_event *e, orr_error *err)
{
    orr_text text;
    bool is;
    if (e->ph == 's' || e->ph == 'f')
        return orr_json_skip(k->json, err);
    ORR_TRY(orr_json_text(k->json, &text, &is, err));
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

static inline const uint8_t *plain_field(kineto *k, kineto_event *e, kineto_key name,
                                         const uint8_t *p)
{
    const uint8_t *const end = k->json->end;
    unsigned decimals;
    if (p >= end)
        return NULL;
    switch (name) {
    case KEY_PH:
        if (end - p < 4 || p[0] != '"' || !orr_json_is_plain(p[1]) || p[2] != '"')
            return NULL;
        e->ph = (char)p[1];
        return p + 3;
    case KEY_CAT:
        return plain_cat(k, e, p);
    case KEY_NAME:
        return plain_name(k, e, p, end);
    case KEY_PID:
        return plain_id(k, &e->pid, p);
    case KEY_TID:
        return plain_id(k, &e->tid, p);
    case KEY_TS:
        p = orr_json_plain_us(p, end, &e->ts_ns);
        e->has_ts |= p != NULL;
        return p;
    case KEY_DUR:
        return orr_json_plain_us(p, end, &e->dur_ns);
    case KEY_ID:
        p = orr_json_plain_decimal(p, end, 0, &e->id, &decimals);
        e->has_id |= p != NULL;
        return p;
    case KEY_ARGS:
        return NULL;
    case KEY_UNKNOWN:
        break;
    }
    return orr_json_pass_scalar(p, end);
}

static orr_status read_field(kineto *k, kineto_event *e, kineto_key name, orr_error *err)
{
    orr_text text;
    bool is;
    switch (name) {
    case KEY_PH:
        ORR_TRY(orr_json_text(k->json, &text, &is, err));
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
        return orr_json_us_as_ns(k->json, &e->ts_ns, &e->has_ts, err);
    case KEY_DUR:
        return orr_json_us_as_ns(k->json, &e->dur_ns, &is, err);
    case KEY_ID:
        ORR_TRY(orr_json_text(k->json, &text, &is, err));
        e->has_id = is && orr_text_uint64(text, &e->id);
        return ORR_OK;
    case KEY_ARGS:
        return read_args(k, e, err);
    case KEY_UNKNOWN:
        break;
    }
    return orr_json_skip(k->json, err);
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

static orr_status read_fields(kineto *k, kineto_event *e, orr_error *err)
{
    orr_json *const json = k->json;
    const uint8_t *p = json->at, *after;
    orr_json_expect expect = json->expect;
    orr_status status;
    uint8_t *tag;
    k->event_layout.last = 0;
    while (orr_json_next_key_at(json, &k->event_layout, &p, expect, &tag, &status, err)) {
        const kineto_key name = key_of(k, tag);
        if (name != KEY_UNKNOWN && (e->keys >> name & 1) != 0)
            count_fault(k, ORR_TRACE_FAULT_DUPLICATE_KEY);
        e->keys |= (uint16_t)(1u << name);
        if ((after = plain_field(k, e, name, p)) == NULL) {
            orr_json_value_at(json, p);
            ORR_TRY(read_field(k, e, name, err));
            after = json->at;
        }
        p = after;
        expect = ORR_JSON_EXPECT_MORE;
    }
    return status;
}

orr_status kineto_read_event(kineto *k, orr_error *err)
{
    kineto_event e;
    memset(&e, 0, offsetof(kineto_event, value));
    e.rate_gb_per_s = 0;
    e.pid.number = e.tid.number = INT64_MIN;
    k->attrs.n = k->attr_values.n = 0;

    const uint64_t at_byte = k->event_byte = orr_json_byte_pos(k->json);
    orr_json_type type;
    ORR_TRY(enter(k, &type, err));
    k->report->events++;
    if (type != ORR_JSON_OBJECT) {
        ORR_TRY(leave(k, type, err));
        return bad_event(k, at_byte, "fields", err);
    }
    ORR_TRY(read_fields(k, &e, err));
    return use_event(k, &e, at_byte, err);
}
