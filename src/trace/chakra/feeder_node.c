/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/chakra/feeder_node.h"

#include <string.h>

#include "io/protobuf/wire.h"
#include "trace/chakra/chakra.h"

/* A node stays the message that it is in the file: its attributes are looked for when asked. */

static orr_feeder_text text_of(const orr_proto_field *f)
{
    return (orr_feeder_text){(const char *)f->bytes, f->len};
}

static bool parse_io(const orr_proto_field *io, orr_feeder_text texts[3])
{
    orr_proto p = orr_proto_of(io->bytes, io->len);
    for (orr_proto_field f; orr_proto_next(&p, &f);)
        if (f.wire == ORR_PROTO_BYTES && f.number >= CHAKRA_IO_VALUES &&
            f.number <= CHAKRA_IO_TYPES)
            texts[f.number - CHAKRA_IO_VALUES] = text_of(&f);
    return !p.failed;
}

bool orr_feeder_node_parse(const uint8_t *message, size_t len, orr_feeder_node *ret)
{
    const orr_feeder_text none = {"", 0};
    orr_feeder_text in[3] = {none, none, none}, out[3] = {none, none, none};
    orr_feeder_node node = {.name = none, .message = {(const char *)message, len}};
    orr_proto p = orr_proto_of(message, len);
    bool whole = true;
    for (orr_proto_field f; orr_proto_next(&p, &f);) {
        if (f.wire == ORR_PROTO_VARINT) {
            if (f.number == CHAKRA_NODE_ID)
                node.id = f.value;
            else if (f.number == CHAKRA_NODE_TYPE)
                node.type = (int32_t)f.value;
            else if (f.number == CHAKRA_NODE_START)
                node.start_us = f.value;
            else if (f.number == CHAKRA_NODE_DURATION)
                node.duration_us = f.value;
        } else if (f.wire == ORR_PROTO_BYTES) {
            if (f.number == CHAKRA_NODE_NAME)
                node.name = text_of(&f);
            else if (f.number == CHAKRA_NODE_INPUTS)
                whole &= parse_io(&f, in);
            else if (f.number == CHAKRA_NODE_OUTPUTS)
                whole &= parse_io(&f, out);
        }
    }
    node.input_values = in[0], node.input_shapes = in[1], node.input_types = in[2];
    node.output_values = out[0], node.output_shapes = out[1], node.output_types = out[2];
    *ret = node;
    return whole && !p.failed;
}

orr_feeder_deps orr_feeder_deps_of(const orr_feeder_node *node, uint32_t field)
{
    const uint8_t *at = (const uint8_t *)node->message.at;
    return (orr_feeder_deps){.at = at, .end = at + node->message.n, .field = field};
}

bool orr_feeder_deps_next(orr_feeder_deps *deps, uint64_t *ret)
{
    for (;;) {
        if (deps->packed != deps->packed_end) {
            orr_proto p = orr_proto_of(deps->packed, (size_t)(deps->packed_end - deps->packed));
            const bool one = orr_proto_varint(&p, ret);
            deps->packed = p.at;
            deps->failed |= p.failed;
            return one;
        }
        orr_proto p = orr_proto_of(deps->at, (size_t)(deps->end - deps->at));
        orr_proto_field f;
        if (!orr_proto_next(&p, &f))
            return false;
        deps->at = p.at;
        if (f.number == deps->field && f.wire == ORR_PROTO_VARINT) {
            *ret = f.value;
            return true;
        }
        if (f.number == deps->field && f.wire == ORR_PROTO_BYTES) {
            deps->packed = f.bytes;
            deps->packed_end = f.bytes + f.len;
        }
    }
}

/* A number as its kind has it on the wire. */
static void set_number(orr_feeder_value *value, uint64_t wire)
{
    float single;
    uint32_t bits = (uint32_t)wire;
    switch ((orr_attr_kind)value->kind) {
    case ORR_ATTR_DOUBLE:
        memcpy(&value->real, &wire, sizeof wire);
        return;
    case ORR_ATTR_FLOAT:
        memcpy(&single, &bits, sizeof bits);
        value->real = (double)single;
        return;
    case ORR_ATTR_SINT32:
    case ORR_ATTR_SINT64:
        value->number = orr_proto_unzigzag(wire);
        break;
    case ORR_ATTR_INT32:
    case ORR_ATTR_SFIXED32:
        value->number = (int32_t)bits;
        break;
    default:
        value->number = (int64_t)wire;
    }
    value->real = (double)value->number;
}

/* Bytes of a number on the wire; 0: a varint. */
static size_t width_of(orr_attr_kind kind)
{
    switch (kind) {
    case ORR_ATTR_DOUBLE:
    case ORR_ATTR_FIXED64:
    case ORR_ATTR_SFIXED64:
        return 8;
    case ORR_ATTR_FLOAT:
    case ORR_ATTR_FIXED32:
    case ORR_ATTR_SFIXED32:
        return 4;
    default:
        return 0;
    }
}

/* Element `index` of packed numbers; *index is less by those that were passed. */
static bool packed_value(const orr_proto_field *packed, uint32_t *index, orr_feeder_value *value)
{
    const size_t width = width_of((orr_attr_kind)value->kind);
    orr_proto p = orr_proto_of(packed->bytes, packed->len);
    uint64_t wire = 0;
    if (width > 0) {
        if (*index >= packed->len / width) {
            *index -= (uint32_t)(packed->len / width);
            return false;
        }
        memcpy(&wire, packed->bytes + *index * width, width);
        set_number(value, wire);
        return true;
    }
    while (orr_proto_varint(&p, &wire))
        if ((*index)-- == 0) {
            set_number(value, wire);
            return true;
        }
    return false;
}

static bool list_value(const orr_proto_field *list, uint32_t index, orr_feeder_value *value)
{
    const bool texts = value->kind == ORR_ATTR_STRING || value->kind == ORR_ATTR_BYTES;
    orr_proto p = orr_proto_of(list->bytes, list->len);
    for (orr_proto_field f; orr_proto_next(&p, &f);) {
        if (f.number != 1)
            continue;
        if (f.wire == ORR_PROTO_BYTES && !texts) {
            if (packed_value(&f, &index, value))
                return true;
        } else if (index-- == 0) {
            if (texts)
                value->text = text_of(&f);
            else
                set_number(value, f.value);
            return !texts || f.wire == ORR_PROTO_BYTES;
        }
    }
    return false;
}

static bool value_of(const orr_proto_field *f, uint32_t index, orr_feeder_value *ret)
{
    const uint32_t at = f->number - CHAKRA_ATTR_FIRST_VALUE;
    *ret = (orr_feeder_value){.kind = (uint8_t)(at / 2), .list = at % 2 != 0, .text = {"", 0}};
    if (f->number < CHAKRA_ATTR_FIRST_VALUE || at / 2 > ORR_ATTR_BYTES)
        return false;
    if (ret->list)
        return f->wire == ORR_PROTO_BYTES && list_value(f, index, ret);
    if (index > 0)
        return false;
    const bool text = ret->kind == ORR_ATTR_STRING || ret->kind == ORR_ATTR_BYTES;
    if (text != (f->wire == ORR_PROTO_BYTES))
        return false;
    if (text)
        ret->text = text_of(f);
    else
        set_number(ret, f->value);
    return true;
}

bool orr_feeder_find_attr(const orr_feeder_text *message, uint32_t field, const char *name,
                          uint32_t index, orr_feeder_value *ret)
{
    orr_proto p = orr_proto_of(message->at, message->n);
    for (orr_proto_field attr; orr_proto_next(&p, &attr);) {
        if (attr.number != field || attr.wire != ORR_PROTO_BYTES)
            continue;
        orr_proto_field value = {0};
        bool named = false;
        orr_proto q = orr_proto_of(attr.bytes, attr.len);
        for (orr_proto_field f; orr_proto_next(&q, &f);) {
            if (f.number == CHAKRA_ATTR_NAME && f.wire == ORR_PROTO_BYTES)
                named = f.len == strlen(name) && memcmp(f.bytes, name, f.len) == 0;
            else if (f.number >= CHAKRA_ATTR_FIRST_VALUE)
                value = f;
        }
        if (named)
            return value.number != 0 && value_of(&value, index, ret);
    }
    return false;
}

bool orr_feeder_attr(const orr_feeder_node *node, const char *name, uint32_t index,
                     orr_feeder_value *ret)
{
    return orr_feeder_find_attr(&node->message, CHAKRA_NODE_ATTR, name, index, ret);
}

int64_t orr_feeder_number(const orr_feeder_node *node, const char *name, int64_t otherwise)
{
    orr_feeder_value value;
    if (!orr_feeder_attr(node, name, 0, &value) || value.kind == ORR_ATTR_DOUBLE ||
        value.kind == ORR_ATTR_FLOAT || value.kind >= ORR_ATTR_STRING)
        return otherwise;
    return value.number;
}
