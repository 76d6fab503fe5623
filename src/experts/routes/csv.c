/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "experts/routes/cell.h"
#include "experts/routes/lines.h"
#include "experts/routes/read.h"

/* Reader of routes as CSV, a row for each token. Memory is that of the longest line and of the
 * routes. */
enum { MOST_LINE_BYTES = 1 << 20, MOST_COLUMNS = 1024, PROGRESS_BYTES = 1 << 20 };

typedef enum column_kind {
    COLUMN_OTHER,
    COLUMN_REQUEST,
    COLUMN_KIND,
    COLUMN_PHASE,
    COLUMN_TOKEN,
    COLUMN_RANK,
    COLUMN_LAYER,
    COLUMN_SCORE,
    COLUMNS_NAMED = COLUMN_LAYER
} column_kind;
static const struct {
    const char *name;
    column_kind kind;
} named[] = {{"request", COLUMN_REQUEST}, {"subject", COLUMN_KIND}, {"kind", COLUMN_KIND},
             {"phase", COLUMN_PHASE},     {"token", COLUMN_TOKEN},  {"rank", COLUMN_RANK}};

typedef struct column {
    uint8_t kind;    /* column_kind */
    uint32_t number; /* of the layer */
    uint32_t layer;  /* its index */
} column;

typedef struct reader {
    orr_route_reading *to;
    orr_csv_lines lines;
    orr_array(column) columns;
    orr_array(uint32_t) numbers; /* of layers, ascending */
    orr_array(uint32_t) next;    /* by request: the position of its next token, where no column
                                  * tells it */
    bool has[COLUMNS_NAMED], has_scores;
    orr_text kind, request; /* of the row */
    orr_routes_row row;
    uint16_t *choice; /* shape (L, K) */
    float *score;     /* shape (L, K); NULL: none */
    char *unquoted;   /* of MOST_LINE_BYTES / 2 bytes twice; NULL: not needed yet */
    orr_route_cells cells;
    orr_error *err;
} reader;

#define fail_at(r, column, status, ...)                                                            \
    orr_csv_at(&(r)->lines, (column), orr_fail((r)->err, (status), __VA_ARGS__), (r)->err)

/* --- the first line --------------------------------------------------------------------------- */

/* Number of a layer from a column's name: "13", "L13" or "layer_13"; of scores: "S13". */
static column layer_column(orr_text name)
{
    size_t at = 0;
    uint64_t number;
    while (at < name.n && !isdigit((unsigned char)name.at[at]))
        at++;
    const orr_text word = {name.at, at}, digits = {name.at + at, name.n - at};
    const bool score = orr_text_is(word, "S");
    if (!(score || word.n == 0 || orr_text_is(word, "L") || orr_text_is(word, "l") ||
          orr_text_is(word, "layer") || orr_text_is(word, "layer_")) ||
        !orr_text_uint64(digits, &number) || number > UINT32_MAX / 2)
        return (column){COLUMN_OTHER, 0, 0};
    return (column){score ? COLUMN_SCORE : COLUMN_LAYER, (uint32_t)number, 0};
}

static column column_of(orr_text name)
{
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (orr_text_equal(name, named[i].name, strlen(named[i].name)))
            return (column){(uint8_t)named[i].kind, 0, 0};
    return layer_column(name);
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Sorts the layers by their numbers and tells each column its layer's index. */
static orr_status order_layers(reader *r)
{
    uint32_t scores = 0;
    if (r->numbers.n == 0)
        return fail_at(r, 1, ORR_PARSE, "no column is a layer's, named by its number: 1 or L1");
    qsort(r->numbers.at, r->numbers.n, sizeof *r->numbers.at, by_number);
    for (size_t l = 1; l < r->numbers.n; l++)
        if (r->numbers.at[l] == r->numbers.at[l - 1])
            return fail_at(r, 1, ORR_PARSE, "two columns of layer %u", r->numbers.at[l]);
    for (size_t c = 0; c < r->columns.n; c++) {
        column *at = &r->columns.at[c];
        if (at->kind != COLUMN_LAYER && at->kind != COLUMN_SCORE)
            continue;
        const uint32_t *found =
            bsearch(&at->number, r->numbers.at, r->numbers.n, sizeof *r->numbers.at, by_number);
        if (found == NULL)
            return fail_at(r, 1, ORR_PARSE, "scores of layer %u, of which there is no column",
                           at->number);
        at->layer = (uint32_t)(found - r->numbers.at);
        scores += at->kind == COLUMN_SCORE;
    }
    r->has_scores = scores > 0;
    if (scores > 0 && scores != r->numbers.n)
        return fail_at(r, 1, ORR_PARSE, "%u columns of scores, and %zu layers", scores,
                       r->numbers.n);
    return ORR_OK;
}

static orr_status read_header(reader *r, orr_text line)
{
    orr_text field;
    while (orr_csv_next_field(&line, &field)) {
        const column found = column_of(field);
        if (r->columns.n == MOST_COLUMNS)
            return fail_at(r, 1, ORR_LIMIT, "more than %d columns", MOST_COLUMNS);
        if (found.kind < COLUMNS_NAMED)
            r->has[found.kind] = true;
        if (!orr_array_push(&r->columns, found) ||
            (found.kind == COLUMN_LAYER && !orr_array_push(&r->numbers, found.number)))
            return orr_fail_memory(r->err);
    }
    ORR_TRY(order_layers(r));
    if (r->to->options->phase >= 0 && !r->has[COLUMN_PHASE])
        return fail_at(r, 1, ORR_PARSE,
                       "phase '%s' is asked for, and there is no column of that name",
                       r->to->options->phase == ORR_ROUTE_PREFILL ? "p" : "d");
    return ORR_OK;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* K is that of the first cell of the first row. */
static orr_status begin_rows(reader *r, orr_text line)
{
    orr_text field = {0}, part;
    const size_t layers = r->numbers.n;
    for (size_t c = 0; orr_csv_next_field(&line, &field) && c < r->columns.n; c++)
        if (r->columns.at[c].kind == COLUMN_LAYER)
            break;
    while (orr_route_cell_next(&field, false, &part))
        r->cells.top_k++;
    r->cells.experts = r->to->options->experts;
    if (r->cells.experts > 0 && r->cells.top_k > r->cells.experts)
        return fail_at(r, 1, ORR_INVALID, "%u experts a token, and the model has %u",
                       r->cells.top_k, r->cells.experts);
    if (r->cells.top_k > ORR_ROUTE_CHOICES_MAX)
        return fail_at(r, 1, ORR_LIMIT, "%u experts a token: at most %d", r->cells.top_k,
                       ORR_ROUTE_CHOICES_MAX);
    r->choice = orr_calloc(layers * r->cells.top_k, sizeof *r->choice);
    r->score = r->has_scores ? orr_calloc(layers * r->cells.top_k, sizeof *r->score) : NULL;
    if (r->choice == NULL || (r->has_scores && r->score == NULL))
        return orr_fail_memory(r->err);
    r->row = (orr_routes_row){.rank = UINT16_MAX, .choice = r->choice, .score = r->score};
    return orr_routes_builder_init(&r->to->builder, r->numbers.at, (uint32_t)layers, r->cells.top_k,
                                   r->has_scores, r->err);
}

static orr_status read_scores(reader *r, orr_text cell, float *ret, size_t at)
{
    orr_text part;
    uint32_t k = 0;
    for (; orr_route_cell_next(&cell, true, &part); k++) {
        double score;
        if (!orr_text_double(part, &score))
            return fail_at(r, at, ORR_PARSE, "'%.*s' is no score", (int)(part.n < 40 ? part.n : 40),
                           part.at);
        if (k < r->cells.top_k)
            ret[k] = (float)score;
    }
    return k == r->cells.top_k
               ? ORR_OK
               : fail_at(r, at, ORR_PARSE, "%u scores of %u experts", k, r->cells.top_k);
}

static orr_status read_number(reader *r, orr_text field, uint64_t limit, size_t at, uint64_t *ret)
{
    return orr_text_uint64(field, ret) && *ret < limit
               ? ORR_OK
               : fail_at(r, at, ORR_PARSE, "'%.*s' is no whole number below %llu",
                         (int)(field.n < 40 ? field.n : 40), field.at, (unsigned long long)limit);
}

static orr_status read_phase(reader *r, orr_text field, size_t at)
{
    if (!orr_text_is(field, "p") && !orr_text_is(field, "d"))
        return fail_at(r, at, ORR_PARSE, "'%.*s' is no phase: p or d",
                       (int)(field.n < 40 ? field.n : 40), field.at);
    r->row.phase = *field.at == 'p' ? ORR_ROUTE_PREFILL : ORR_ROUTE_DECODE;
    return ORR_OK;
}

/* A name, with its doubled quotes made single. */
static orr_status read_name(reader *r, orr_text field, bool second, orr_text *ret)
{
    *ret = field;
    if (memchr(field.at, '"', field.n) == NULL)
        return ORR_OK;
    if (r->unquoted == NULL)
        r->unquoted = orr_malloc((size_t)2 * MOST_LINE_BYTES);
    if (r->unquoted == NULL)
        return orr_fail_memory(r->err);
    *ret = orr_csv_unquoted(field, r->unquoted + (second ? MOST_LINE_BYTES : 0));
    return ORR_OK;
}

static orr_status read_field(reader *r, const column *c, orr_text field, size_t at)
{
    uint64_t number = 0;
    size_t within = 0;
    switch ((column_kind)c->kind) {
    case COLUMN_REQUEST:
        return read_name(r, field, false, &r->request);
    case COLUMN_KIND:
        return read_name(r, field, true, &r->kind);
    case COLUMN_PHASE:
        return read_phase(r, field, at);
    case COLUMN_TOKEN:
        ORR_TRY(read_number(r, field, UINT32_MAX, at, &number));
        r->row.position = (uint32_t)number;
        return ORR_OK;
    case COLUMN_RANK:
        ORR_TRY(read_number(r, field, UINT16_MAX, at, &number));
        r->row.rank = (uint16_t)number;
        return ORR_OK;
    case COLUMN_SCORE:
        return read_scores(r, field, r->score + (size_t)c->layer * r->cells.top_k, at);
    case COLUMN_LAYER: {
        const orr_status status = orr_route_cell_read(
            &r->cells, field, r->choice + (size_t)c->layer * r->cells.top_k, &within, r->err);
        return status == ORR_OK ? ORR_OK : orr_csv_at(&r->lines, at + within, status, r->err);
    }
    case COLUMN_OTHER:
        break;
    }
    return ORR_OK;
}

/* The next field of `rest` into the row. Cells of experts are read where they stand; whatever is
 * no such cell goes the long way. */
static orr_status read_next(reader *r, const column *c, const char *begin, orr_text *rest)
{
    orr_text field;
    if (c->kind == COLUMN_LAYER) {
        const char *end = rest->at + rest->n;
        const char *stop =
            orr_route_cell_scan(&r->cells, rest->at, r->choice + (size_t)c->layer * r->cells.top_k);
        if (stop != NULL && (stop == end || (stop < end && *stop == ','))) {
            *rest =
                stop < end ? (orr_text){stop + 1, (size_t)(end - stop - 1)} : (orr_text){NULL, 0};
            return ORR_OK;
        }
    }
    (void)orr_csv_next_field(rest, &field);
    return c->kind == COLUMN_OTHER ? ORR_OK
                                   : read_field(r, c, field, (size_t)(field.at - begin) + 1);
}

static orr_status push_row(reader *r)
{
    ORR_TRY(orr_route_names_add(&r->to->names, r->kind, r->request, &r->row.request, r->err));
    if (!r->has[COLUMN_TOKEN]) {
        while (r->next.n <= r->row.request)
            if (!orr_array_push(&r->next, 0))
                return orr_fail_memory(r->err);
        r->row.position = r->next.at[r->row.request]++;
    }
    return orr_route_reading_push(r->to, &r->row, r->err);
}

static orr_status read_row(reader *r, orr_text line)
{
    const char *begin = line.at;
    size_t c = 0;
    if (line.n == 0)
        return ORR_OK;
    if (r->choice == NULL)
        ORR_TRY(begin_rows(r, line));
    for (; line.at != NULL && c < r->columns.n; c++)
        ORR_TRY(read_next(r, &r->columns.at[c], begin, &line));
    for (orr_text field; line.at != NULL && orr_csv_next_field(&line, &field);)
        c++;
    if (c != r->columns.n)
        return fail_at(r, 1, ORR_PARSE, "%zu fields where the first line names %zu", c,
                       r->columns.n);
    return push_row(r);
}

static orr_status read_all(reader *r)
{
    orr_status status = ORR_OK;
    orr_text line;
    size_t used = 0;
    uint64_t next_progress = PROGRESS_BYTES;
    while (status == ORR_OK && orr_csv_next_line(&r->lines, &line, &used, &status, r->err)) {
        status = r->lines.line == 1 ? read_header(r, line) : read_row(r, line);
        orr_stream_consume(r->to->stream, used);
        if (status == ORR_OK && orr_stream_offset(r->to->stream) >= next_progress) {
            next_progress += PROGRESS_BYTES;
            status = orr_route_reading_progress(r->to, r->err);
        }
    }
    return status;
}

orr_status orr_routes_read_csv(orr_route_reading *to, orr_error *err)
{
    reader *r = orr_calloc(1, sizeof *r);
    if (r == NULL)
        return orr_fail_memory(err);
    *r = (reader){.to = to,
                  .lines = {.stream = to->stream, .path = to->path},
                  .kind = {"", 0},
                  .request = {"0", 1},
                  .err = err};
    orr_stream_set_limit(to->stream, MOST_LINE_BYTES);
    const orr_status status = read_all(r);
    orr_array_done(&r->columns);
    orr_array_done(&r->numbers);
    orr_array_done(&r->next);
    orr_free(r->choice);
    orr_free(r->score);
    orr_free(r->unquoted);
    orr_free(r);
    return status;
}
