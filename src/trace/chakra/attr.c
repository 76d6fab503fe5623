/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/chakra/chakra.h"

#include <assert.h>
#include <string.h>

#include "io/json/reader.h"
#include "trace/chakra/recorded.h"
#include "trace/common/attr_names.h"

/* Chakra's attributes (AttributeProto) to and from ours. What has no place in ours is kept as bytes
 * of kind UNKNOWN, so that a rewrite loses nothing. */

/* Wire encoding of each kind. Field numbers follow the order of orr_attr_kind: the scalar of kind k
 * is field 3 + 2 k, its list the next one. */
static const struct {
    orr_proto_wire wire;
    uint8_t bytes; /* of one value in orr_attr */
} KINDS[] = {
    [ORR_ATTR_DOUBLE] = {ORR_PROTO_FIXED64, 8},   [ORR_ATTR_FLOAT] = {ORR_PROTO_FIXED32, 4},
    [ORR_ATTR_INT32] = {ORR_PROTO_VARINT, 4},     [ORR_ATTR_INT64] = {ORR_PROTO_VARINT, 8},
    [ORR_ATTR_UINT32] = {ORR_PROTO_VARINT, 4},    [ORR_ATTR_UINT64] = {ORR_PROTO_VARINT, 8},
    [ORR_ATTR_SINT32] = {ORR_PROTO_VARINT, 4},    [ORR_ATTR_SINT64] = {ORR_PROTO_VARINT, 8},
    [ORR_ATTR_FIXED32] = {ORR_PROTO_FIXED32, 4},  [ORR_ATTR_FIXED64] = {ORR_PROTO_FIXED64, 8},
    [ORR_ATTR_SFIXED32] = {ORR_PROTO_FIXED32, 4}, [ORR_ATTR_SFIXED64] = {ORR_PROTO_FIXED64, 8},
    [ORR_ATTR_BOOL] = {ORR_PROTO_VARINT, 1},      [ORR_ATTR_STRING] = {ORR_PROTO_BYTES, 4},
    [ORR_ATTR_BYTES] = {ORR_PROTO_BYTES, 4},
};
#define N_KINDS (sizeof KINDS / sizeof *KINDS)
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "fixed-width lists are copied as they lie");

/* A decoded number as the kind's C type. */
static void store_number(orr_attr_kind kind, uint64_t wire, void *to)
{
    if (kind == ORR_ATTR_SINT32 || kind == ORR_ATTR_SINT64)
        wire = (uint64_t)orr_proto_unzigzag(wire);
    if (KINDS[kind].bytes == 4) {
        const uint32_t value = (uint32_t)wire;
        memcpy(to, &value, sizeof value);
    } else if (kind == ORR_ATTR_BOOL) {
        *(uint8_t *)to = wire != 0;
    } else {
        memcpy(to, &wire, sizeof wire);
    }
}

/* The reverse: the bits for the wire. */
static uint64_t load_number(orr_attr_kind kind, const void *from)
{
    uint64_t bits64;
    uint32_t bits32;
    switch (kind) {
    case ORR_ATTR_BOOL:
        return *(const uint8_t *)from != 0;
    case ORR_ATTR_INT32:
    case ORR_ATTR_SINT32:
        memcpy(&bits32, from, sizeof bits32);
        bits64 = (uint64_t)(int64_t)(int32_t)bits32;
        return kind == ORR_ATTR_INT32 ? bits64 : (uint32_t)orr_proto_zigzag((int64_t)bits64);
    case ORR_ATTR_SINT64:
        memcpy(&bits64, from, sizeof bits64);
        return orr_proto_zigzag((int64_t)bits64);
    default:
        if (KINDS[kind].bytes == 4) {
            memcpy(&bits32, from, sizeof bits32);
            return bits32;
        }
        memcpy(&bits64, from, sizeof bits64);
        return bits64;
    }
}

static orr_status store(orr_attr_kind kind, const orr_proto_field *f, orr_graph_builder *builder,
                        void *to, orr_error *err)
{
    if (KINDS[kind].wire == ORR_PROTO_BYTES)
        return orr_builder_str(builder, (const char *)f->bytes, f->len, to, err);
    store_number(kind, f->value, to);
    return ORR_OK;
}

static bool next_packed(orr_proto *p, orr_attr_kind kind, uint64_t *ret)
{
    if (KINDS[kind].wire == ORR_PROTO_VARINT)
        return orr_proto_varint(p, ret);
    const size_t bytes = KINDS[kind].wire == ORR_PROTO_FIXED64 ? 8 : 4;
    if ((size_t)(p->end - p->at) < bytes) {
        p->failed = p->at != p->end;
        return false;
    }
    *ret = 0;
    memcpy(ret, p->at, bytes);
    p->at += bytes;
    return true;
}

enum { NOT_PLAIN = -1, BROKEN = -2 };

/* Elements of a list message; NOT_PLAIN: it has unknown fields; BROKEN: malformed. */
static int64_t count_list(orr_attr_kind kind, const orr_proto_field *list)
{
    int64_t n = 0;
    orr_proto p = orr_proto_of(list->bytes, list->len);
    for (orr_proto_field f; orr_proto_next(&p, &f);) {
        if (f.number != 1 || (f.wire != KINDS[kind].wire && f.wire != ORR_PROTO_BYTES))
            return NOT_PLAIN;
        if (f.wire == KINDS[kind].wire) {
            n++;
            continue;
        }
        orr_proto packed = orr_proto_of(f.bytes, f.len);
        for (uint64_t value; next_packed(&packed, kind, &value);)
            n++;
        if (packed.failed)
            return BROKEN;
    }
    return p.failed ? BROKEN : n;
}

static orr_status store_list(orr_attr_kind kind, const orr_proto_field *list,
                             orr_graph_builder *builder, uint8_t *to, orr_error *err)
{
    const size_t bytes = KINDS[kind].bytes;
    orr_proto p = orr_proto_of(list->bytes, list->len);
    for (orr_proto_field f; orr_proto_next(&p, &f);) {
        if (f.wire == KINDS[kind].wire) {
            ORR_TRY(store(kind, &f, builder, to, err));
            to += bytes;
            continue;
        }
        orr_proto packed = orr_proto_of(f.bytes, f.len);
        for (uint64_t value; next_packed(&packed, kind, &value); to += bytes)
            store_number(kind, value, to);
    }
    return ORR_OK;
}

static orr_status push(orr_chakra_attrs *attrs, const orr_attr *attr, orr_error *err)
{
    if (!orr_array_push(&attrs->list, *attr))
        return orr_fail_memory(err);
    return ORR_OK;
}

/* The value of an attribute, when it has one plain value field; else *ret_plain is false. */
static orr_status read_value(orr_chakra_attrs *attrs, orr_graph_builder *builder,
                             const orr_proto_field *f, orr_attr *attr, bool *ret_plain,
                             orr_error *err)
{
    const uint32_t at = f->number - CHAKRA_ATTR_FIRST_VALUE;
    const orr_attr_kind kind = (orr_attr_kind)(at / 2);
    const bool list = at % 2 != 0;
    *ret_plain = false;
    if (at / 2 >= N_KINDS || f->wire != (list ? ORR_PROTO_BYTES : KINDS[kind].wire))
        return ORR_OK;
    const int64_t count = list ? count_list(kind, f) : 1;
    if (count == BROKEN)
        return orr_fail(err, ORR_PARSE, "an attribute holds a broken list");
    if (count < 0 || count > UINT32_MAX)
        return ORR_OK;
    uint8_t *values = orr_arena_alloc(attrs->arena, (size_t)count, KINDS[kind].bytes, 8);
    if (values == NULL)
        return orr_fail_memory(err);
    ORR_TRY(list ? store_list(kind, f, builder, values, err)
                 : store(kind, f, builder, values, err));
    attr->kind = (uint8_t)kind;
    attr->list = list;
    attr->count = (uint32_t)count;
    attr->values = values;
    *ret_plain = true;
    return ORR_OK;
}

static bool is_text(const orr_proto_field *f)
{
    return f->wire == ORR_PROTO_BYTES &&
           (f->number == CHAKRA_ATTR_NAME || f->number == CHAKRA_ATTR_DOC);
}

/* All fields but name and doc, unchanged, for a writer to append. */
static orr_status push_unknown(orr_chakra_attrs *attrs, orr_graph_builder *builder, orr_attr *attr,
                               const uint8_t *bytes, size_t len, orr_error *err)
{
    uint8_t *rest = orr_arena_alloc(attrs->arena, len, 1, 1);
    orr_str *text = orr_arena_one(attrs->arena, orr_str);
    if (rest == NULL || text == NULL)
        return orr_fail_memory(err);
    size_t n = 0;
    orr_proto p = orr_proto_of(bytes, len);
    for (orr_proto_field f; orr_proto_next(&p, &f);) {
        if (is_text(&f))
            continue;
        memcpy(rest + n, f.raw, f.raw_len);
        n += f.raw_len;
    }
    ORR_TRY(orr_builder_str(builder, (const char *)rest, n, text, err));
    attr->kind = ORR_ATTR_UNKNOWN;
    attr->list = false;
    attr->count = 1;
    attr->values = text;
    return push(attrs, attr, err);
}

bool orr_chakra_is_reserved(const char *name, size_t len)
{
    return (len > 7 && memcmp(name, "inputs.", 7) == 0) ||
           (len > 8 && memcmp(name, "outputs.", 8) == 0) ||
           (len > 7 && memcmp(name, "chakra.", 7) == 0);
}

orr_status orr_chakra_attr_read(orr_chakra_attrs *attrs, orr_graph_builder *builder,
                                const uint8_t *bytes, size_t len, orr_error *err)
{
    orr_attr attr = {.kind = ORR_ATTR_NONE, .count = 1};
    orr_proto_field value = {0};
    uint32_t n_values = 0;
    bool plain = true, reserved = false;
    orr_proto p = orr_proto_of(bytes, len);
    for (orr_proto_field f; orr_proto_next(&p, &f);) {
        if (!is_text(&f)) {
            value = f;
            n_values++;
            continue;
        }
        const char *text = (const char *)f.bytes;
        orr_str *to = f.number == CHAKRA_ATTR_NAME ? &attr.name : &attr.doc;
        ORR_TRY(orr_builder_str(builder, text, f.len, to, err));
        if (f.number == CHAKRA_ATTR_NAME)
            reserved = orr_chakra_is_reserved(text, f.len);
    }
    if (p.failed)
        return orr_fail(err, ORR_PARSE, "an attribute is cut short or broken");
    if (reserved)
        return orr_chakra_attr_text(attrs, builder, ORR_NAME_CHAKRA_ATTR, ORR_ATTR_UNKNOWN, bytes,
                                    len, err);
    if (n_values == 1)
        ORR_TRY(read_value(attrs, builder, &value, &attr, &plain, err));
    if (n_values > 1 || !plain)
        return push_unknown(attrs, builder, &attr, bytes, len, err);
    return push(attrs, &attr, err);
}

orr_status orr_chakra_attr_text(orr_chakra_attrs *attrs, orr_graph_builder *builder,
                                const char *name, orr_attr_kind kind, const void *text, size_t len,
                                orr_error *err)
{
    orr_str *value = orr_arena_one(attrs->arena, orr_str);
    if (value == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_builder_str(builder, text, len, value, err));
    return orr_chakra_attr_numbers(attrs, builder, name, kind, false, value, 1, err);
}

orr_status orr_chakra_attr_numbers(orr_chakra_attrs *attrs, orr_graph_builder *builder,
                                   const char *name, orr_attr_kind kind, bool list,
                                   const void *values, uint32_t count, orr_error *err)
{
    orr_attr attr = {.kind = (uint8_t)kind, .list = list, .count = count, .values = values};
    ORR_TRY(orr_builder_str(builder, name, strlen(name), &attr.name, err));
    return push(attrs, &attr, err);
}

static void write_value(orr_proto_buffer *out, orr_attr_kind kind, uint32_t field,
                        const orr_graph *graph, const void *value)
{
    const orr_proto_wire wire = KINDS[kind].wire;
    if (wire == ORR_PROTO_BYTES) {
        const orr_str s = *(const orr_str *)value;
        orr_proto_put_bytes(out, field, orr_graph_str(graph, s), orr_graph_str_len(graph, s));
        return;
    }
    const uint64_t bits = load_number(kind, value);
    if (wire == ORR_PROTO_FIXED64)
        orr_proto_put_fixed64(out, field, bits);
    else if (wire == ORR_PROTO_FIXED32)
        orr_proto_put_fixed32(out, field, (uint32_t)bits);
    else
        orr_proto_put_uint(out, field, bits);
}

static void write_list(orr_proto_buffer *out, orr_attr_kind kind, const orr_graph *graph,
                       const orr_attr *attr)
{
    const uint8_t *value = attr->values;
    const size_t bytes = KINDS[kind].bytes;
    if (attr->count == 0)
        return;
    if (KINDS[kind].wire == ORR_PROTO_BYTES) {
        for (uint32_t i = 0; i < attr->count; i++)
            write_value(out, kind, 1, graph, value + i * bytes);
        return;
    }
    const size_t mark = orr_proto_begin(out, 1);
    for (uint32_t i = 0; i < attr->count; i++) {
        const uint64_t bits = load_number(kind, value + i * bytes);
        if (KINDS[kind].wire == ORR_PROTO_VARINT)
            orr_proto_put_varint(out, bits);
        else
            orr_proto_put_raw(out, &bits, KINDS[kind].wire == ORR_PROTO_FIXED64 ? 8 : 4);
    }
    orr_proto_end(out, mark);
}

static void put_str(orr_proto_buffer *out, uint32_t field, const orr_graph *graph, orr_str s)
{
    if (s != 0)
        orr_proto_put_bytes(out, field, orr_graph_str(graph, s), orr_graph_str_len(graph, s));
}

static void write_values(orr_proto_buffer *out, const orr_graph *graph, const orr_attr *attr)
{
    orr_attr_kind kind = (orr_attr_kind)attr->kind;
    if (kind == ORR_ATTR_JSON)
        kind = ORR_ATTR_STRING;
    if (kind == ORR_ATTR_UNKNOWN) {
        const orr_str raw = *(const orr_str *)attr->values;
        orr_proto_put_raw(out, orr_graph_str(graph, raw), orr_graph_str_len(graph, raw));
    } else if (kind < N_KINDS && !attr->list) {
        write_value(out, kind, CHAKRA_ATTR_FIRST_VALUE + 2 * kind, graph, attr->values);
    } else if (kind < N_KINDS) {
        const size_t list = orr_proto_begin(out, CHAKRA_ATTR_FIRST_VALUE + 2 * kind + 1);
        write_list(out, kind, graph, attr);
        orr_proto_end(out, list);
    }
}

void orr_chakra_attr_write(orr_proto_buffer *out, uint32_t field, const orr_graph *graph,
                           const orr_attr *attr)
{
    const size_t mark = orr_proto_begin(out, field);
    put_str(out, CHAKRA_ATTR_NAME, graph, attr->name);
    put_str(out, CHAKRA_ATTR_DOC, graph, attr->doc);
    write_values(out, graph, attr);
    orr_proto_end(out, mark);
}

const char *orr_chakra_attr_kind_name(orr_attr_kind kind)
{
#define KIND_NAME(name, bytes) #name,
    static const char *const names[] = {ORR_ATTR_MAP(KIND_NAME)};
#undef KIND_NAME
    return names[kind];
}

void orr_chakra_put_doc(orr_proto_buffer *out, const orr_graph *graph, const orr_attr *attr,
                        bool with_name)
{
    const char *kind = orr_chakra_attr_kind_name((orr_attr_kind)attr->kind);
    const size_t mark = orr_proto_begin(out, CHAKRA_ATTR_DOC);
    orr_proto_put_raw(out, kind, strlen(kind));
    if (with_name) {
        orr_proto_put_raw(out, " ", 1);
        orr_proto_put_raw(out, orr_graph_str(graph, attr->name),
                          orr_graph_str_len(graph, attr->name));
    }
    orr_proto_end(out, mark);
}

void orr_chakra_attr_write_as(orr_proto_buffer *out, uint32_t field, const orr_graph *graph,
                              const orr_attr *attr, const char *name)
{
    const size_t mark = orr_proto_begin(out, field);
    if (name != NULL)
        orr_proto_put_bytes(out, CHAKRA_ATTR_NAME, name, strlen(name));
    else
        put_str(out, CHAKRA_ATTR_NAME, graph, attr->name);
    orr_chakra_put_doc(out, graph, attr, name != NULL);
    write_values(out, graph, attr);
    orr_proto_end(out, mark);
}
