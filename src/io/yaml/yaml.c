/* SPDX-License-Identifier: Apache-2.0 */
#include "io/yaml/yaml.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/array.h"
#include "io/stream/stream.h"

enum { MOST_BYTES = 16 << 20, MOST_VALUES = 1000000, MOST_DEPTH = 64, FEW_KEYS = 8 };

/* A list or a map whose end has not come. */
typedef struct open_node {
    orr_yaml *node;
    size_t first; /* of its values among the pending; key, value, key, value for a map */
} open_node;

typedef struct reader {
    yaml_parser_t parser;
    const char *text, *file;
    size_t len;
    orr_arena *arena;
    orr_error *err;
    open_node open[MOST_DEPTH];
    size_t depth;
    orr_array(const orr_yaml *) pending;
    size_t n_values;
    const orr_yaml *root;
} reader;

static orr_status fail_mark(const reader *r, orr_status status, yaml_mark_t at, const char *what)
{
    return orr_fail(r->err, status, "%s:%zu:%zu: %s", r->file, at.line + 1, at.column + 1, what);
}

/* Where a byte of the text is, for what libyaml refuses before it counts lines. */
static yaml_mark_t mark_of_byte(const reader *r, size_t byte)
{
    yaml_mark_t at = {.index = byte};
    for (size_t i = 0; i < byte && i < r->len; i++) {
        at.column += ((unsigned char)r->text[i] & 0xc0) != 0x80;
        if (r->text[i] == '\n') {
            at.line++;
            at.column = 0;
        }
    }
    return at;
}

static orr_status fail_parser(const reader *r)
{
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return orr_fail_memory(r->err);
    const char *problem = p->problem != NULL ? p->problem : "this is not YAML";
    if (p->error == YAML_READER_ERROR)
        return fail_mark(r, ORR_PARSE, mark_of_byte(r, p->problem_offset), problem);
    const yaml_mark_t at = p->problem_mark;
    return orr_fail(r->err, ORR_PARSE, "%s:%zu:%zu: %s%s%s", r->file, at.line + 1, at.column + 1,
                    problem, p->context != NULL ? ", " : "", p->context != NULL ? p->context : "");
}

static orr_status new_node(reader *r, const yaml_event_t *event, orr_yaml_kind kind, orr_yaml **ret)
{
    const yaml_mark_t at = event->start_mark;
    if (++r->n_values > MOST_VALUES)
        return fail_mark(r, ORR_LIMIT, at, "more than 1,000,000 values");
    if (r->depth >= MOST_DEPTH)
        return fail_mark(r, ORR_LIMIT, at, "nested more than 64 deep");
    orr_yaml *node = orr_arena_one(r->arena, orr_yaml);
    if (node == NULL || !orr_array_push(&r->pending, node))
        return orr_fail_memory(r->err);
    *node = (orr_yaml){.kind = (uint8_t)kind,
                       .line = (uint32_t)at.line + 1,
                       .column = (uint32_t)at.column + 1,
                       .file = r->file};
    *ret = node;
    return ORR_OK;
}

static orr_status add_scalar(reader *r, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    const size_t len = event->data.scalar.length;
    orr_yaml *node;
    if (event->data.scalar.tag != NULL)
        return fail_mark(r, ORR_PARSE, event->start_mark,
                         "tags have no meaning here: leave it out");
    if (memchr(text, '\0', len) != NULL)
        return fail_mark(r, ORR_PARSE, event->start_mark, "a NUL character in a text");
    ORR_TRY(new_node(r, event, ORR_YAML_SCALAR, &node));
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    node->text = orr_arena_strndup(r->arena, text, len);
    return node->text != NULL ? ORR_OK : orr_fail_memory(r->err);
}

static orr_status open_container(reader *r, const yaml_event_t *event, orr_yaml_kind kind)
{
    const yaml_char_t *tag =
        kind == ORR_YAML_MAP ? event->data.mapping_start.tag : event->data.sequence_start.tag;
    orr_yaml *node;
    if (tag != NULL)
        return fail_mark(r, ORR_PARSE, event->start_mark,
                         "tags have no meaning here: leave it out");
    ORR_TRY(new_node(r, event, kind, &node));
    r->open[r->depth++] = (open_node){.node = node, .first = r->pending.n};
    return ORR_OK;
}

static int by_text(const void *a, const void *b)
{
    const orr_yaml *x = *(const orr_yaml *const *)a, *y = *(const orr_yaml *const *)b;
    const int order = strcmp(x->text, y->text);
    if (order != 0)
        return order;
    return x->line != y->line ? (x->line > y->line) - (x->line < y->line)
                              : (x->column > y->column) - (x->column < y->column);
}

static orr_status fail_duplicate(const reader *r, const orr_yaml *first, const orr_yaml *again)
{
    return orr_yaml_fail(again, ORR_PARSE, r->err, "'%.80s' was said in line %u already",
                         again->text, first->line);
}

/* Small maps pair by pair; large ones sorted, so that a long file stays linear. */
static orr_status check_keys(const reader *r, const orr_yaml *map)
{
    const orr_yaml *const *keys = map->keys;
    if (map->n <= FEW_KEYS) {
        for (uint32_t i = 1; i < map->n; i++)
            for (uint32_t j = 0; j < i; j++)
                if (strcmp(keys[i]->text, keys[j]->text) == 0)
                    return fail_duplicate(r, keys[j], keys[i]);
        return ORR_OK;
    }
    const orr_arena_mark mark = orr_arena_get_mark(r->arena);
    const orr_yaml **sorted = orr_arena_array(r->arena, const orr_yaml *, map->n);
    if (sorted == NULL)
        return orr_fail_memory(r->err);
    memcpy(sorted, keys, map->n * sizeof *sorted);
    qsort(sorted, map->n, sizeof *sorted, by_text);
    orr_status status = ORR_OK;
    for (uint32_t i = 1; i < map->n && status == ORR_OK; i++)
        if (strcmp(sorted[i - 1]->text, sorted[i]->text) == 0)
            status = fail_duplicate(r, sorted[i - 1], sorted[i]);
    orr_arena_rewind(r->arena, mark);
    return status;
}

static orr_status close_map(const reader *r, orr_yaml *map, const orr_yaml *const *pairs, size_t n)
{
    const orr_yaml **keys = orr_arena_array(r->arena, const orr_yaml *, n);
    const orr_yaml **values = orr_arena_array(r->arena, const orr_yaml *, n);
    if (keys == NULL || values == NULL)
        return orr_fail_memory(r->err);
    for (size_t i = 0; i < n; i++) {
        keys[i] = pairs[2 * i];
        values[i] = pairs[2 * i + 1];
        if (keys[i]->kind != ORR_YAML_SCALAR)
            return orr_yaml_fail(keys[i], ORR_PARSE, r->err, "a key has to be a text");
    }
    map->n = (uint32_t)n;
    map->keys = keys;
    map->values = values;
    return check_keys(r, map);
}

static orr_status close_container(reader *r)
{
    const open_node *top = &r->open[--r->depth];
    const orr_yaml *const *inner = r->pending.at + top->first;
    const size_t n = r->pending.n - top->first;
    r->pending.n = top->first;
    if (top->node->kind == ORR_YAML_MAP)
        return close_map(r, top->node, inner, n / 2);
    const orr_yaml **values = orr_arena_array(r->arena, const orr_yaml *, n);
    if (values == NULL)
        return orr_fail_memory(r->err);
    if (n > 0)
        memcpy(values, inner, n * sizeof *values);
    top->node->n = (uint32_t)n;
    top->node->values = values;
    return ORR_OK;
}

static orr_status take_event(reader *r, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return add_scalar(r, event);
    case YAML_SEQUENCE_START_EVENT:
        return open_container(r, event, ORR_YAML_LIST);
    case YAML_MAPPING_START_EVENT:
        return open_container(r, event, ORR_YAML_MAP);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return close_container(r);
    case YAML_ALIAS_EVENT:
        return fail_mark(r, ORR_PARSE, event->start_mark,
                         "aliases (*name) are not allowed: write the value out");
    case YAML_DOCUMENT_START_EVENT:
        if (r->root != NULL)
            return fail_mark(r, ORR_PARSE, event->start_mark, "a second document: one a file");
        return ORR_OK;
    case YAML_DOCUMENT_END_EVENT:
        r->root = r->pending.at[0];
        return ORR_OK;
    default:
        return ORR_OK;
    }
}

static orr_status read_events(reader *r)
{
    for (bool ended = false; !ended;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&r->parser, &event))
            return fail_parser(r);
        ended = event.type == YAML_STREAM_END_EVENT;
        const orr_status status = take_event(r, &event);
        yaml_event_delete(&event);
        ORR_TRY(status);
    }
    return r->root != NULL ? ORR_OK : orr_fail(r->err, ORR_PARSE, "%s:1:1: is empty", r->file);
}

orr_status orr_yaml_parse(const char *text, size_t len, const char *file, orr_arena *arena,
                          const orr_yaml **ret, orr_error *err)
{
    if (len > MOST_BYTES)
        return orr_fail(err, ORR_LIMIT, "%s: longer than 16 MiB", file);
    reader r = {.text = text, .len = len, .arena = arena, .err = err};
    r.file = orr_arena_strndup(arena, file, strlen(file));
    if (r.file == NULL || !yaml_parser_initialize(&r.parser))
        return orr_fail_memory(err);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    const orr_status status = read_events(&r);
    yaml_parser_delete(&r.parser);
    orr_array_done(&r.pending);
    if (status == ORR_OK)
        *ret = r.root;
    return status;
}

orr_status orr_yaml_load(const char *path, orr_arena *arena, const orr_yaml **ret, orr_error *err)
{
    orr_stream *stream = NULL;
    bool ended = false;
    orr_status status = orr_stream_open(path, &stream, err);
    while (status == ORR_OK && !ended && orr_stream_window(stream).n <= MOST_BYTES)
        status = orr_stream_fill(stream, &ended, err);
    if (status == ORR_OK) {
        const orr_window window = orr_stream_window(stream);
        status = orr_yaml_parse((const char *)window.bytes, window.n, path, arena, ret, err);
    } else {
        orr_error_prefix(err, path);
    }
    orr_stream_close(stream);
    return status;
}
