/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json/base64.h"
#include "io/json/writer.h"
#include "trace/chakra/chakra.h"

/* Prints messages for people and scripts: as protobuf's JSON, an object a message one after the
 * other (what Chakra's jsonizer writes: 64-bit numbers as text, bytes in base64), or as protobuf's
 * text format, which `protoc --encode` reads. Fields of a newer schema are left out, as protobuf's
 * printers do. */
enum { KIND_ENUM = ORR_ATTR_JSON, KIND_MESSAGE = ORR_ATTR_UNKNOWN }; /* beside orr_attr_kind */
enum { NAME_MAX_LEN = 32 };

typedef struct schema schema;
typedef struct field {
    const char *name;
    uint8_t kind; /* orr_attr_kind, KIND_ENUM or KIND_MESSAGE */
    bool repeated;
    const schema *inner; /* of a message; NULL: a list of values of `item` */
    uint8_t item;
} field;
struct schema {
    const field *fields; /* of number 1, 2, ... */
    uint32_t n;
};

static const field io_fields[] = {
    {"values", ORR_ATTR_STRING, false, NULL, 0},
    {"shapes", ORR_ATTR_STRING, false, NULL, 0},
    {"types", ORR_ATTR_STRING, false, NULL, 0},
    {"strides", ORR_ATTR_STRING, false, NULL, 0},
};
static const schema io_schema = {io_fields, 4};
static const field attr_fields[] = {
    {"name", ORR_ATTR_STRING, false, NULL, 0},
    {"doc_string", ORR_ATTR_STRING, false, NULL, 0},
};
static const schema attr_schema = {attr_fields, 2}; /* values: value_field() */
static const field metadata_fields[] = {
    {"version", ORR_ATTR_STRING, false, NULL, 0},
    {"attr", KIND_MESSAGE, true, &attr_schema, 0},
};
static const schema metadata_schema = {metadata_fields, 2};
static const field node_fields[] = {
    {"id", ORR_ATTR_UINT64, false, NULL, 0},
    {"name", ORR_ATTR_STRING, false, NULL, 0},
    {"type", KIND_ENUM, false, NULL, 0},
    {"ctrl_deps", ORR_ATTR_UINT64, true, NULL, 0},
    {"data_deps", ORR_ATTR_UINT64, true, NULL, 0},
    {"start_time_micros", ORR_ATTR_UINT64, false, NULL, 0},
    {"duration_micros", ORR_ATTR_UINT64, false, NULL, 0},
    {"inputs", KIND_MESSAGE, false, &io_schema, 0},
    {"outputs", KIND_MESSAGE, false, &io_schema, 0},
    {"attr", KIND_MESSAGE, true, &attr_schema, 0},
};
static const schema node_schema = {node_fields, 10};

typedef struct printer {
    orr_output *out;
    bool json;
    uint32_t depth;
} printer;

/* The values of an attribute: double_val, double_list, float_val, ... */
static bool value_field(uint32_t number, char name[NAME_MAX_LEN], field *ret)
{
    static const char *const kinds[] = {"double",   "float",    "int32",  "int64",   "uint32",
                                        "uint64",   "sint32",   "sint64", "fixed32", "fixed64",
                                        "sfixed32", "sfixed64", "bool",   "string",  "bytes"};
    const uint32_t kind = (number - CHAKRA_ATTR_FIRST_VALUE) / 2;
    const bool list = (number - CHAKRA_ATTR_FIRST_VALUE) % 2 != 0;
    if (number < CHAKRA_ATTR_FIRST_VALUE || kind >= sizeof kinds / sizeof *kinds)
        return false;
    snprintf(name, NAME_MAX_LEN, "%s_%s", kinds[kind], list ? "list" : "val");
    *ret = (field){name, list ? KIND_MESSAGE : (uint8_t)kind, false, NULL, (uint8_t)kind};
    return true;
}

static bool field_of(const schema *of, uint8_t item, uint32_t number, char name[NAME_MAX_LEN],
                     field *ret)
{
    if (of == NULL)
        *ret = (field){"values", item, true, NULL, 0};
    else if (number - 1 < of->n)
        *ret = of->fields[number - 1];
    else
        return of == &attr_schema && value_field(number, name, ret);
    return number > 0 && (of != NULL || number == 1);
}

static void indent(const printer *p)
{
    for (uint32_t i = 0; i < p->depth; i++)
        orr_output_text(p->out, "  ");
}

/* "data_deps", or as JSON "dataDeps". */
static void put_name(const printer *p, const char *name)
{
    char camel[NAME_MAX_LEN];
    size_t n = 0;
    for (const char *c = name; *c != '\0' && n + 1 < sizeof camel; c++) {
        const bool up = *c == '_' && c[1] != '\0';
        c += up;
        camel[n++] = up ? (char)(*c - 'a' + 'A') : *c;
    }
    camel[n] = '\0';
    orr_output_text(p->out, p->json ? camel : name);
}

static void put_real(const printer *p, double value, bool is_float)
{
    char text[40];
    if (!isfinite(value)) {
        const char *name = isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
        if (p->json)
            name = isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
        orr_output_text(p->out, name);
        return;
    }
    for (int digits = is_float ? 6 : 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (is_float ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value)
            break;
    }
    orr_output_text(p->out, text);
}

/* Bytes as C has them, in quotes, beyond ASCII in octal. */
static void put_escaped(const printer *p, const uint8_t *bytes, size_t len)
{
    orr_output_text(p->out, "\"");
    for (size_t i = 0; i < len; i++) {
        const uint8_t c = bytes[i];
        if (c == '"' || c == '\\' || c == '\'')
            orr_output_printf(p->out, "\\%c", c);
        else if (c == '\n')
            orr_output_text(p->out, "\\n");
        else if (c < ' ' || c > '~')
            orr_output_printf(p->out, "\\%03o", c);
        else
            orr_output_write(p->out, &c, 1);
    }
    orr_output_text(p->out, "\"");
}

static void put_text(const printer *p, const uint8_t *bytes, size_t len, bool is_bytes)
{
    if (p->json && is_bytes)
        orr_base64_put(p->out, bytes, len);
    else if (p->json)
        orr_json_put_string(p->out, (const char *)bytes, len);
    else
        put_escaped(p, bytes, len);
}

static void put_enum(const printer *p, uint64_t value)
{
    static const char *const names[] = {"INVALID_NODE",   "METADATA_NODE", "MEM_LOAD_NODE",
                                        "MEM_STORE_NODE", "COMP_NODE",     "COMM_SEND_NODE",
                                        "COMM_RECV_NODE", "COMM_COLL_NODE"};
    if (value < sizeof names / sizeof *names)
        orr_output_printf(p->out, p->json ? "\"%s\"" : "%s", names[value]);
    else
        orr_output_printf(p->out, "%d", (int)(int32_t)value);
}

static void put_number(const printer *p, uint8_t kind, uint64_t bits)
{
    double real;
    float single;
    const uint32_t low = (uint32_t)bits;
    const char *quote = p->json ? "\"" : ""; /* around numbers of 64 bits */
    switch (kind) {
    case ORR_ATTR_DOUBLE:
        memcpy(&real, &bits, sizeof real);
        put_real(p, real, false);
        break;
    case ORR_ATTR_FLOAT:
        memcpy(&single, &low, sizeof single);
        put_real(p, single, true);
        break;
    case ORR_ATTR_INT32:
    case ORR_ATTR_SFIXED32:
        orr_output_printf(p->out, "%d", (int)(int32_t)low);
        break;
    case ORR_ATTR_SINT32:
        orr_output_printf(p->out, "%d", (int)(int32_t)orr_proto_unzigzag(low));
        break;
    case ORR_ATTR_UINT32:
    case ORR_ATTR_FIXED32:
        orr_output_printf(p->out, "%u", low);
        break;
    case ORR_ATTR_BOOL:
        orr_output_text(p->out, bits != 0 ? "true" : "false");
        break;
    case ORR_ATTR_INT64:
    case ORR_ATTR_SFIXED64:
        orr_output_printf(p->out, "%s%lld%s", quote, (long long)bits, quote);
        break;
    case ORR_ATTR_SINT64:
        orr_output_printf(p->out, "%s%lld%s", quote, (long long)orr_proto_unzigzag(bits), quote);
        break;
    default:
        orr_output_printf(p->out, "%s%llu%s", quote, (unsigned long long)bits, quote);
    }
}

/* The next number of a packed list. */
static bool next_packed(orr_proto *list, uint8_t kind, uint64_t *ret)
{
    const bool wide =
        kind == ORR_ATTR_DOUBLE || kind == ORR_ATTR_FIXED64 || kind == ORR_ATTR_SFIXED64;
    const bool narrow =
        kind == ORR_ATTR_FLOAT || kind == ORR_ATTR_FIXED32 || kind == ORR_ATTR_SFIXED32;
    const size_t n = wide ? 8 : 4;
    if (!wide && !narrow)
        return orr_proto_varint(list, ret);
    if ((size_t)(list->end - list->at) < n)
        return false;
    *ret = 0;
    for (size_t i = 0; i < n; i++)
        *ret |= (uint64_t)list->at[i] << 8 * i;
    list->at += n;
    return true;
}

static void put_message(printer *p, const schema *of, uint8_t item, const void *bytes, size_t len);

/* What is written before each value of a field: in JSON its name once, in text each time. */
typedef struct place {
    uint32_t number; /* of the field that is being written; 0: none yet */
    bool repeated;
} place;

static void begin_value(const printer *p, place *at, uint32_t number, const field *f)
{
    const bool again = at->number == number && f->repeated;
    if (p->json && !again) {
        if (at->repeated)
            orr_output_printf(p->out, "\n%*s]", (int)(2 * p->depth), "");
        orr_output_text(p->out, at->number != 0 ? ",\n" : "\n");
    } else if (p->json) {
        orr_output_text(p->out, ",\n");
    }
    indent(p);
    if (p->json && f->repeated) {
        if (!again) {
            orr_output_text(p->out, "\"");
            put_name(p, f->name);
            orr_output_text(p->out, "\": [\n");
            indent(p);
        }
        orr_output_text(p->out, "  ");
    } else {
        orr_output_text(p->out, p->json ? "\"" : "");
        put_name(p, f->name);
        orr_output_text(p->out, p->json ? "\": " : f->kind == KIND_MESSAGE ? " " : ": ");
    }
    *at = (place){number, f->repeated};
}

static void end_value(const printer *p)
{
    if (!p->json)
        orr_output_text(p->out, "\n");
}

static void put_field(printer *p, place *at, const field *f, const orr_proto_field *got)
{
    const bool is_text = f->kind == ORR_ATTR_STRING || f->kind == ORR_ATTR_BYTES;
    if (got->wire == ORR_PROTO_BYTES && f->repeated && !is_text && f->kind != KIND_MESSAGE) {
        orr_proto list = orr_proto_of(got->bytes, got->len);
        for (uint64_t value; next_packed(&list, f->kind, &value);) {
            begin_value(p, at, got->number, f);
            put_number(p, f->kind, value);
            end_value(p);
        }
        return;
    }
    if ((is_text || f->kind == KIND_MESSAGE) != (got->wire == ORR_PROTO_BYTES))
        return; /* of another schema */
    begin_value(p, at, got->number, f);
    if (is_text)
        put_text(p, got->bytes, got->len, f->kind == ORR_ATTR_BYTES);
    else if (f->kind == KIND_ENUM)
        put_enum(p, got->value);
    else if (f->kind != KIND_MESSAGE)
        put_number(p, f->kind, got->value);
    else {
        p->depth += p->json && f->repeated;
        put_message(p, f->inner, f->item, got->bytes, got->len);
        p->depth -= p->json && f->repeated;
    }
    end_value(p);
}

/* The message in braces. `of` NULL: a list of values of kind `item`. */
static void put_message(printer *p, const schema *of, uint8_t item, const void *bytes, size_t len)
{
    orr_proto message = orr_proto_of(bytes, len);
    place at = {0};
    orr_output_text(p->out, p->json ? "{" : "{\n");
    p->depth++;
    for (orr_proto_field got; orr_proto_next(&message, &got);) {
        char name[NAME_MAX_LEN];
        field f;
        if (field_of(of, item, got.number, name, &f))
            put_field(p, &at, &f, &got);
    }
    if (p->json && at.repeated)
        orr_output_printf(p->out, "\n%*s]", (int)(2 * p->depth), "");
    p->depth--;
    if (p->json && at.number != 0)
        orr_output_text(p->out, "\n");
    if (!p->json || at.number != 0)
        indent(p);
    orr_output_text(p->out, "}");
}

void orr_chakra_print(orr_output *out, bool json, bool is_node, const orr_proto_buffer *message)
{
    printer p = {.out = out, .json = json};
    orr_output_text(out, json ? "" : is_node ? "node " : "metadata ");
    put_message(&p, is_node ? &node_schema : &metadata_schema, 0, message->at, message->n);
    orr_output_text(out, "\n");
}
