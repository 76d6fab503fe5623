/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "graph/builder.h"
#include "trace/common/attr_names.h"
#include "trace/common/json_slice.h"
#include "trace/pytorch/reader.h"

/* Reads one node. Two layouts: until 1.0.1 everything is in the node; later, inputs and outputs are
 * objects, and the rest is a list of {name, type, value}. The keys tell which, so that later
 * versions are read as far as they keep to it. */

static const char *const IO_NAMES[2][ORR_ET_IO_TEXTS] = {
    {ORR_NAME_INPUT_VALUES, ORR_NAME_INPUT_SHAPES, ORR_NAME_INPUT_TYPES, ORR_NAME_INPUT_STRIDES},
    {ORR_NAME_OUTPUT_VALUES, ORR_NAME_OUTPUT_SHAPES, ORR_NAME_OUTPUT_TYPES,
     ORR_NAME_OUTPUT_STRIDES},
};

static orr_status keep(orr_et_reader *r, const char *name, orr_attr_kind kind, const void *value,
                       orr_error *err)
{
    orr_attr attr = {.kind = (uint8_t)kind, .count = 1, .values = value};
    ORR_TRY(orr_builder_str(r->builder, name, strlen(name), &attr.name, err));
    return orr_array_push(&r->attrs, attr) ? ORR_OK : orr_fail_memory(err);
}

static orr_status keep_text(orr_et_reader *r, const char *name, orr_attr_kind kind, orr_text text,
                            orr_error *err)
{
    if (!r->options->attributes || text.n == 0)
        return ORR_OK;
    orr_str *value = orr_arena_one(r->arena, orr_str);
    if (value == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_builder_str(r->builder, text.at, text.n, value, err));
    return keep(r, name, kind, value, err);
}

static orr_status keep_number(orr_et_reader *r, const char *name, orr_attr_kind kind, uint64_t bits,
                              orr_error *err)
{
    if (!r->options->attributes)
        return ORR_OK;
    uint64_t *value = orr_arena_one(r->arena, uint64_t);
    if (value == NULL)
        return orr_fail_memory(err);
    *value = bits;
    return keep(r, name, kind, value, err);
}

static orr_status copy_text(orr_et_text *to, orr_text from, orr_error *err)
{
    to->n = 0;
    if (!orr_array_reserve(to, from.n))
        return orr_fail_memory(err);
    if (from.n > 0)
        memcpy(to->at, from.at, from.n);
    to->n = from.n;
    return ORR_OK;
}

static orr_status read_raw(orr_et_reader *r, orr_et_text *to, orr_error *err)
{
    orr_text raw;
    ORR_TRY(orr_json_raw(r->json, &raw, err));
    return copy_text(to, raw, err);
}

/* Inputs or outputs: an object of texts, or in the flat layout the values. */
static orr_status read_io(orr_et_reader *r, orr_et_io *io, orr_error *err)
{
    static const char *const keys[ORR_ET_IO_TEXTS] = {"values", "shapes", "types", "strides"};
    orr_text raw;
    ORR_TRY(orr_json_raw(r->json, &raw, err));
    if (raw.n == 0 || raw.at[0] != '{') {
        ORR_TRY(copy_text(&io->held[ORR_ET_VALUES], raw, err));
        io->text[ORR_ET_VALUES] = (orr_text){io->held[ORR_ET_VALUES].at, raw.n};
        return ORR_OK;
    }
    for (int i = 0; i < ORR_ET_IO_TEXTS; i++) /* they may lie in an object that came before */
        io->text[i] = (orr_text){"", 0};
    ORR_TRY(copy_text(&io->object, raw, err));
    orr_json_slice members = orr_json_slice_of_object((orr_text){io->object.at, io->object.n});
    for (orr_text key, value; orr_json_slice_next_member(&members, &key, &value);)
        for (int i = 0; i < ORR_ET_IO_TEXTS; i++)
            if (orr_text_equal(key, keys[i], strlen(keys[i])))
                io->text[i] = value;
    return ORR_OK;
}

static orr_status read_io_part(orr_et_reader *r, orr_et_io *io, int which, orr_error *err)
{
    ORR_TRY(read_raw(r, &io->held[which], err));
    io->text[which] = (orr_text){io->held[which].at, io->held[which].n};
    return ORR_OK;
}

/* Names and types are short; longer ones are cut. */
typedef struct word {
    size_t n;
    char at[64];
} word;

static void set_word(word *w, orr_text text)
{
    w->n = text.n < sizeof w->at ? text.n : sizeof w->at - 1;
    memcpy(w->at, text.at, w->n);
    w->at[w->n] = '\0';
}

#define WORD_IS(w, literal)                                                                        \
    ((w)->n == sizeof(literal) - 1 && memcmp((w)->at, literal, sizeof(literal) - 1) == 0)

/* Values with a field of their own; all others are only attributes. */
typedef struct place {
    size_t n;
    const char *name;
    size_t offset; /* in orr_et_node */
} place;
#define PLACE(name, field)                                                                         \
    {                                                                                              \
        sizeof(name) - 1, name, offsetof(orr_et_node, field)                                       \
    }
static const place NUMBERS[] = {
    /* int64_t */
    PLACE("rf_id", rf_id),
    PLACE("fw_parent", fw_parent),
    PLACE("tid", tid),
    PLACE("scope", scope),
    PLACE("in_msg_nelems", in_elements),
    PLACE("out_msg_nelems", out_elements),
    PLACE("pg_size", group_size),
    PLACE("global_rank_start", group_start),
    PLACE("global_rank_stride", group_stride),
};
static const place TEXTS[] = {
    /* orr_str */
    PLACE("op_schema", op_schema), PLACE("collective_name", collective),
    PLACE("dtype", dtype),         PLACE("pg_name", pg_name),
    PLACE("pg_desc", pg_desc),
};
#define FIND_PLACE(places, w) find_place(places, sizeof(places) / sizeof *(places), w)

static const place *find_place(const place *places, size_t n, const word *w)
{
    for (size_t i = 0; i < n; i++)
        if (places[i].n == w->n && memcmp(places[i].name, w->at, w->n) == 0)
            return &places[i];
    return NULL;
}

/* What columns hold is not kept twice. */
static bool is_column(const word *name)
{
    return WORD_IS(name, "rf_id") || WORD_IS(name, "tid");
}

static orr_status take_number(orr_et_reader *r, const word *name, orr_text digits, bool is_signed,
                              orr_error *err)
{
    uint64_t bits;
    int64_t value;
    const bool small = orr_text_int64(digits, &value);
    if (!small && (is_signed || !orr_text_uint64(digits, &bits)))
        return keep_text(r, name->at, ORR_ATTR_JSON, digits, err);
    if (small)
        bits = (uint64_t)value;
    const place *to = FIND_PLACE(NUMBERS, name);
    if (to != NULL)
        memcpy((char *)&r->node + to->offset, &bits, sizeof bits);
    if (is_column(name))
        return ORR_OK;
    return keep_number(r, name->at, is_signed ? ORR_ATTR_INT64 : ORR_ATTR_UINT64, bits, err);
}

static orr_status take_text(orr_et_reader *r, const word *name, orr_text text, orr_error *err)
{
    const place *to = FIND_PLACE(TEXTS, name);
    if (to != NULL)
        ORR_TRY(orr_builder_str(r->builder, text.at, text.n,
                                (orr_str *)(void *)((char *)&r->node + to->offset), err));
    return keep_text(r, name->at, ORR_ATTR_STRING, text, err);
}

/* A value whose type is known only afterwards, or is unusual. */
static orr_status take_raw(orr_et_reader *r, const word *name, const word *type, orr_text raw,
                           orr_error *err)
{
    double real;
    const bool is_signed = WORD_IS(type, "int64");
    if (WORD_IS(type, "string") && raw.n >= 2 && raw.at[0] == '"' &&
        memchr(raw.at, '\\', raw.n) == NULL)
        return take_text(r, name, orr_json_unquote(raw), err);
    if (is_signed || WORD_IS(type, "uint64"))
        return take_number(r, name, orr_json_unquote(raw), is_signed, err);
    if (WORD_IS(type, "bool"))
        return keep_number(r, name->at, ORR_ATTR_BOOL, orr_text_is(raw, "true"), err);
    if ((WORD_IS(type, "double") || WORD_IS(type, "float")) && orr_text_double(raw, &real)) {
        uint64_t bits;
        memcpy(&bits, &real, sizeof bits);
        return keep_number(r, name->at, ORR_ATTR_DOUBLE, bits, err);
    }
    return keep_text(r, name->at, ORR_ATTR_JSON, raw, err);
}

static orr_status read_word(orr_et_reader *r, word *w, orr_error *err)
{
    orr_text text;
    bool is;
    ORR_TRY(orr_json_text(r->json, &text, &is, err));
    if (is)
        set_word(w, text);
    return ORR_OK;
}

/* {"name": "rf_id", "type": "uint64", "value": 7}, in any order. */
static orr_status read_attr(orr_et_reader *r, orr_error *err)
{
    word name = {0, ""}, type = {0, ""};
    orr_et_text late = {0};
    orr_status status = ORR_OK;
    orr_json_value v;
    orr_text key, text;
    bool is;
    ORR_TRY(orr_json_value_next(r->json, &v, err));
    if (v.type != ORR_JSON_OBJECT)
        return orr_fail(err, ORR_PARSE, "an attribute is no object");
    while (orr_json_next_key(r->json, &key, &status, err)) {
        if (orr_text_is(key, "name")) {
            ORR_TRY_OUT(status, read_word(r, &name, err));
        } else if (orr_text_is(key, "type")) {
            ORR_TRY_OUT(status, read_word(r, &type, err));
        } else if (!orr_text_is(key, "value")) {
            ORR_TRY_OUT(status, orr_json_skip(r->json, err));
        } else if (name.n > 0 && WORD_IS(&type, "string")) {
            ORR_TRY_OUT(status, orr_json_text(r->json, &text, &is, err));
            if (is)
                ORR_TRY_OUT(status, take_text(r, &name, text, err));
        } else if (name.n > 0 && type.n > 0) {
            ORR_TRY_OUT(status, orr_json_raw(r->json, &text, err));
            ORR_TRY_OUT(status, take_raw(r, &name, &type, text, err));
        } else {
            ORR_TRY_OUT(status, read_raw(r, &late, err));
        }
    }
    if (status == ORR_OK && late.n > 0 && name.n > 0)
        status = take_raw(r, &name, &type, (orr_text){late.at, late.n}, err);
out:
    orr_array_done(&late);
    return status;
}

static orr_status read_attrs(orr_et_reader *r, orr_error *err)
{
    orr_status status = ORR_OK;
    orr_json_value v;
    ORR_TRY(orr_json_value_next(r->json, &v, err));
    if (v.type != ORR_JSON_ARRAY)
        return orr_fail(err, ORR_PARSE, "the attributes of a node are no list");
    while (orr_json_next_element(r->json, &status, err))
        ORR_TRY(read_attr(r, err));
    return status;
}

static orr_status read_id(orr_et_reader *r, uint64_t *ret, bool *ret_is, orr_error *err)
{
    orr_text digits;
    ORR_TRY(orr_json_text(r->json, &digits, ret_is, err));
    *ret_is = *ret_is && orr_text_uint64(digits, ret);
    return ORR_OK;
}

/* Fields of the flat layout. */
static orr_status read_flat(orr_et_reader *r, orr_text key, orr_error *err)
{
    static const word unsigned_names[] = {
        {5, "rf_id"}, {9, "fw_parent"}, {5, "scope"}, {3, "tid"}, {6, "fw_tid"}};
    orr_et_node *n = &r->node;
    orr_text text;
    bool is;
    if (orr_text_is(key, "input_shapes"))
        return read_io_part(r, &n->in, ORR_ET_SHAPES, err);
    if (orr_text_is(key, "input_types"))
        return read_io_part(r, &n->in, ORR_ET_TYPES, err);
    if (orr_text_is(key, "output_shapes"))
        return read_io_part(r, &n->out, ORR_ET_SHAPES, err);
    if (orr_text_is(key, "output_types"))
        return read_io_part(r, &n->out, ORR_ET_TYPES, err);
    if (orr_text_is(key, "op_schema")) {
        ORR_TRY(orr_json_text(r->json, &text, &is, err));
        return is ? take_text(r, &(word){9, "op_schema"}, text, err) : ORR_OK;
    }
    if (orr_text_is(key, "seq_id")) {
        ORR_TRY(orr_json_raw(r->json, &text, err));
        return take_raw(r, &(word){6, "seq_id"}, &(word){5, "int64"}, text, err);
    }
    for (size_t i = 0; i < sizeof unsigned_names / sizeof *unsigned_names; i++)
        if (orr_text_equal(key, unsigned_names[i].at, unsigned_names[i].n)) {
            ORR_TRY(orr_json_raw(r->json, &text, err));
            return take_raw(r, &unsigned_names[i], &(word){6, "uint64"}, text, err);
        }
    return orr_json_skip(r->json, err);
}

static orr_status read_field(orr_et_reader *r, orr_text key, orr_error *err)
{
    orr_et_node *n = &r->node;
    orr_text text;
    bool is;
    if (orr_text_is(key, "id"))
        return read_id(r, &n->id, &n->has_id, err);
    if (orr_text_is(key, "ctrl_deps") || orr_text_is(key, "parent"))
        return read_id(r, &n->parent, &n->has_parent, err);
    if (orr_text_is(key, "name")) {
        ORR_TRY(orr_json_text(r->json, &text, &is, err));
        return is ? orr_builder_str(r->builder, text.at, text.n, &n->name, err) : ORR_OK;
    }
    if (orr_text_is(key, "inputs"))
        return read_io(r, &n->in, err);
    if (orr_text_is(key, "outputs"))
        return read_io(r, &n->out, err);
    if (orr_text_is(key, "attrs"))
        return read_attrs(r, err);
    return read_flat(r, key, err);
}

static void clear_node(orr_et_node *n)
{
    const orr_et_io in = n->in, out = n->out;
    *n = (orr_et_node){.scope = -1,
                       .in_elements = -1,
                       .out_elements = -1,
                       .group_size = -1,
                       .group_start = -1,
                       .group_stride = -1};
    n->in = in;
    n->out = out;
    for (int i = 0; i < ORR_ET_IO_TEXTS; i++)
        n->in.text[i] = n->out.text[i] = (orr_text){"", 0};
}

static orr_status keep_io(orr_et_reader *r, const orr_et_io *io, const char *const *names,
                          orr_error *err)
{
    /* Nothing is said by three times "[]". */
    if (io->text[ORR_ET_TYPES].n <= 2 && io->text[ORR_ET_VALUES].n <= 2)
        return ORR_OK;
    for (int i = 0; i < ORR_ET_IO_TEXTS; i++)
        ORR_TRY(keep_text(r, names[i], ORR_ATTR_JSON, io->text[i], err));
    return ORR_OK;
}

orr_status orr_et_read_node(orr_et_reader *r, orr_error *err)
{
    orr_status status = ORR_OK;
    orr_json_value v;
    orr_text key;
    clear_node(&r->node);
    r->attrs.n = r->in.n = r->out.n = 0;
    orr_arena_reset(r->arena);
    ORR_TRY(orr_json_value_next(r->json, &v, err));
    if (v.type != ORR_JSON_OBJECT)
        return orr_fail(err, ORR_PARSE, "a node is no object");
    while (orr_json_next_key(r->json, &key, &status, err))
        ORR_TRY(read_field(r, key, err));
    ORR_TRY(status);
    ORR_TRY(orr_et_find_tensors(r->builder, &r->node.in, UINT64_MAX, &r->in, err));
    ORR_TRY(orr_et_find_tensors(r->builder, &r->node.out, UINT64_MAX, &r->out, err));
    ORR_TRY(keep_number(r, "id", ORR_ATTR_UINT64, r->node.id, err));
    ORR_TRY(keep_io(r, &r->node.in, IO_NAMES[0], err));
    return keep_io(r, &r->node.out, IO_NAMES[1], err);
}
