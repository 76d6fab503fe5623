/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/routes/load.h"

#include <ctype.h>
#include <string.h>

#include <orrery/graph.h>

#include "base/array.h"
#include "io/json/reader.h"

/* Reader of expert-activation traces in CSV (RFC 4180, but without line breaks inside of
 * fields). It streams: memory is that of the longest line and of a counter per layer and expert. */
enum { MOST_LINE_BYTES = 1 << 20, MOST_COLUMNS = 1024, MOST_EXPERTS = 4096 };

typedef enum column_kind { COLUMN_OTHER, COLUMN_PHASE, COLUMN_LAYER } column_kind;
typedef orr_array(uint64_t) counts;

typedef struct reader {
    const char *path, *phase;
    orr_stream *stream;
    uint64_t line, tokens;
    orr_array(uint8_t) kinds;    /* column_kind by column */
    orr_array(counts) layers;    /* how often each expert was chosen */
    orr_array(uint32_t) numbers; /* layer numbers */
    orr_error *err;
} reader;

static orr_status fail_at(const reader *r, orr_status status, size_t column, const char *what,
                          orr_text text)
{
    return orr_fail(r->err, status, "%s:%llu:%zu: '%.*s' %s", r->path, (unsigned long long)r->line,
                    column, (int)(text.n < 40 ? text.n : 40), text.at, what);
}

/* The next line, without its end. The caller consumes *ret_used bytes. False at the end of the
 * file. */
static bool next_line(reader *r, orr_text *ret, size_t *ret_used, orr_status *status)
{
    bool end = false;
    size_t seen = 0;
    for (;;) {
        const orr_window w = orr_stream_window(r->stream);
        const uint8_t *newline = w.n > seen ? memchr(w.bytes + seen, '\n', w.n - seen) : NULL;
        if (newline != NULL || (end && w.n > 0)) {
            const char *at = (const char *)w.bytes;
            size_t n = newline != NULL ? (size_t)(newline - w.bytes) : w.n;
            *ret_used = n + (newline != NULL);
            n -= n > 0 && at[n - 1] == '\r';
            *ret = (orr_text){at, n};
            r->line++;
            return true;
        }
        if (end)
            return false;
        seen = w.n;
        *status = orr_stream_fill(r->stream, &end, r->err);
        if (*status != ORR_OK)
            return false;
    }
}

/* The closing quote; a doubled quote is part of the text. */
static const char *end_of_quoted(const char *at, const char *end)
{
    while (at < end && (*at != '"' || (at + 1 < end && at[1] == '"')))
        at += *at == '"' ? 2 : 1;
    return at;
}

/* The next field of a line, unquoted; *rest moves past its comma, and becomes NULL after the
 * last field. */
static bool next_field(orr_text *rest, orr_text *ret)
{
    if (rest->at == NULL)
        return false;
    const char *at = rest->at, *end = at + rest->n, *stop = at;
    if (rest->n > 0 && *at == '"')
        stop = end_of_quoted(++at, end);
    else
        while (stop < end && *stop != ',')
            stop++;
    *ret = (orr_text){at, (size_t)(stop - at)};
    while (stop < end && *stop != ',')
        stop++;
    *rest = stop < end ? (orr_text){stop + 1, (size_t)(end - stop - 1)} : (orr_text){NULL, 0};
    return true;
}

/* Number of a layer from a column's name: "13", "L13" or "layer_13". */
static bool layer_number(orr_text name, uint32_t *ret)
{
    size_t at = 0;
    uint64_t number;
    while (at < name.n && !isdigit((unsigned char)name.at[at]))
        at++;
    const orr_text word = {name.at, at}, digits = {name.at + at, name.n - at};
    if (!(word.n == 0 || orr_text_is(word, "L") || orr_text_is(word, "l") ||
          orr_text_is(word, "layer") || orr_text_is(word, "layer_")) ||
        !orr_text_uint64(digits, &number) || number > UINT32_MAX / 2)
        return false;
    *ret = (uint32_t)number;
    return true;
}

static orr_status read_header(reader *r, orr_text line)
{
    orr_text field;
    bool has_phase = false;
    while (next_field(&line, &field)) {
        uint32_t number;
        uint8_t kind = orr_text_is(field, "phase") ? COLUMN_PHASE : COLUMN_OTHER;
        if (layer_number(field, &number)) {
            kind = COLUMN_LAYER;
            if (!orr_array_push(&r->layers, (counts){0}) || !orr_array_push(&r->numbers, number))
                return orr_fail_memory(r->err);
        }
        has_phase |= kind == COLUMN_PHASE;
        if (r->kinds.n == MOST_COLUMNS)
            return orr_fail(r->err, ORR_LIMIT, "%s:1:1: more than %d columns", r->path,
                            MOST_COLUMNS);
        if (!orr_array_push(&r->kinds, kind))
            return orr_fail_memory(r->err);
    }
    if (r->layers.n == 0)
        return orr_fail(r->err, ORR_PARSE,
                        "%s:1:1: no column is a layer's, named by its number: 1 or L1", r->path);
    if (r->phase != NULL && !has_phase)
        return orr_fail(r->err, ORR_PARSE,
                        "%s:1:1: phase '%.20s' is asked for, and there is no "
                        "column of that name",
                        r->path, r->phase);
    return ORR_OK;
}

static orr_status count_expert(reader *r, counts *layer, orr_text text, size_t column)
{
    uint64_t expert;
    if (!orr_text_uint64(text, &expert))
        return fail_at(r, ORR_PARSE, column, "is no expert: a whole number is needed", text);
    if (expert >= MOST_EXPERTS)
        return fail_at(r, ORR_LIMIT, column, "is more than there can be: at most 4095", text);
    while (layer->n <= expert)
        if (!orr_array_push(layer, 0))
            return orr_fail_memory(r->err);
    layer->at[expert]++;
    return ORR_OK;
}

/* Counts the experts of one cell, "3;17". */
static orr_status count_cell(reader *r, counts *layer, orr_text cell, size_t column)
{
    while (cell.n > 0) {
        const char *semicolon = memchr(cell.at, ';', cell.n);
        const size_t n = semicolon != NULL ? (size_t)(semicolon - cell.at) : cell.n;
        ORR_TRY(count_expert(r, layer, (orr_text){cell.at, n}, column));
        const size_t used = n + (semicolon != NULL);
        cell = (orr_text){cell.at + used, cell.n - used};
        column += used;
    }
    return ORR_OK;
}

static bool is_phase_wanted(const reader *r, orr_text line)
{
    orr_text field;
    for (size_t c = 0; r->phase != NULL && next_field(&line, &field) && c < r->kinds.n; c++)
        if (r->kinds.at[c] == COLUMN_PHASE)
            return orr_text_equal(field, r->phase, strlen(r->phase));
    return true;
}

static orr_status read_row(reader *r, orr_text line)
{
    const char *begin = line.at;
    orr_text field;
    size_t c = 0, layer = 0;
    if (line.n == 0 || !is_phase_wanted(r, line))
        return ORR_OK;
    for (; next_field(&line, &field) && c < r->kinds.n; c++)
        if (r->kinds.at[c] == COLUMN_LAYER)
            ORR_TRY(count_cell(r, &r->layers.at[layer++], field, (size_t)(field.at - begin) + 1));
    if (c < r->kinds.n)
        return orr_fail(r->err, ORR_PARSE, "%s:%llu:1: %zu fields where the first line names %zu",
                        r->path, (unsigned long long)r->line, c, r->kinds.n);
    r->tokens++;
    return ORR_OK;
}

static orr_status read_all(reader *r)
{
    orr_status status = ORR_OK;
    orr_text line;
    size_t used = 0;
    while (status == ORR_OK && next_line(r, &line, &used, &status)) {
        status = r->line == 1 ? read_header(r, line) : read_row(r, line);
        orr_stream_consume(r->stream, used);
    }
    if (status == ORR_OK && r->tokens == 0)
        status = orr_fail(r->err, ORR_PARSE, "%s: no rows%s%.20s", r->path,
                          r->phase != NULL ? " of phase " : "", r->phase != NULL ? r->phase : "");
    return status;
}

/* Turns counts into shares; the share of experts that were never chosen is 0. */
static orr_status make_load(const reader *r, orr_arena *arena, orr_expert_load *ret)
{
    const size_t layers = r->layers.n;
    size_t experts = 0;
    for (size_t l = 0; l < layers; l++)
        experts = r->layers.at[l].n > experts ? r->layers.at[l].n : experts;
    double *share = orr_arena_array(arena, double, layers *experts);
    uint32_t *numbers = orr_arena_array(arena, uint32_t, layers);
    const char *source = orr_arena_strndup(arena, r->path, strlen(r->path));
    if (share == NULL || numbers == NULL || source == NULL)
        return orr_fail_memory(r->err);
    for (size_t l = 0; l < layers; l++) {
        const counts *chosen = &r->layers.at[l];
        uint64_t sum = 0;
        for (size_t e = 0; e < chosen->n; e++)
            sum += chosen->at[e];
        if (sum == 0)
            return orr_fail(r->err, ORR_PARSE, "%s: layer %u chose no expert in any row", r->path,
                            r->numbers.at[l]);
        for (size_t e = 0; e < chosen->n; e++)
            share[l * experts + e] = (double)chosen->at[e] / (double)sum;
        numbers[l] = r->numbers.at[l];
    }
    *ret = (orr_expert_load){.layers = (uint32_t)layers,
                             .experts = (uint32_t)experts,
                             .number = numbers,
                             .share = share,
                             .tokens = r->tokens,
                             .source = source};
    return ORR_OK;
}

orr_status orr_expert_load_from(orr_stream *stream, const char *path, const char *phase,
                                orr_arena *arena, orr_expert_load *ret, orr_error *err)
{
    reader r = {.path = path, .phase = phase, .stream = stream, .err = err};
    orr_stream_set_limit(stream, MOST_LINE_BYTES);
    orr_status status = read_all(&r);
    if (status == ORR_OK)
        status = make_load(&r, arena, ret);
    for (size_t l = 0; l < r.layers.n; l++)
        orr_array_done(&r.layers.at[l]);
    orr_array_done(&r.layers);
    orr_array_done(&r.numbers);
    orr_array_done(&r.kinds);
    return status;
}

orr_status orr_expert_load_read(const char *path, const char *phase, orr_arena *arena,
                                orr_expert_load *ret, orr_error *err)
{
    orr_stream *stream;
    orr_status status = orr_stream_open(path, &stream, err);
    if (status == ORR_OK) {
        status = orr_expert_load_from(stream, path, phase, arena, ret, err);
        orr_stream_close(stream);
    }
    /* Errors of the stream do not have the path yet. */
    if (status != ORR_OK && status != ORR_NO_MEMORY && err != NULL &&
        strncmp(err->text, path, strlen(path)) != 0)
        orr_error_prefix(err, path);
    return status;
}

static double imbalance_of(const orr_expert_load *load, uint32_t layer, uint32_t ranks)
{
    const double *share = load->share + (size_t)layer * load->experts;
    double most = 0, sum = 0;
    uint64_t rank = 0;
    for (uint32_t e = 0; e < load->experts; e++) {
        const uint64_t holder = (uint64_t)e * ranks / load->experts;
        sum = holder == rank ? sum + share[e] : share[e];
        rank = holder;
        most = sum > most ? sum : most;
    }
    return most * ranks;
}

double orr_expert_imbalance(const orr_expert_load *load, uint32_t layer, uint32_t ranks)
{
    double sum = 0;
    if (ranks <= 1)
        return 1;
    if (layer != ORR_NONE)
        return imbalance_of(load, layer, ranks);
    for (uint32_t l = 0; l < load->layers; l++)
        sum += imbalance_of(load, l, ranks);
    return sum / load->layers;
}
