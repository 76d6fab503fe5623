/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/philox.h"
#include "experts/routes/lines.h"
#include "model/spec/packing.h"
#include "model/spec/spec.h"

/* Lengths of documents: a number, a mean, or a file of them; and the stream that is drawn of
 * them, with replacement, by a seed. */

enum { DRAWN = 1 << 17, QUANTILES = 4096, COMPACT_FROM = 1 << 16 };
static const uint64_t SEED = 405;

typedef struct counted {
    uint32_t tokens;
    uint64_t count; /* of documents */
} counted;
typedef struct histogram {
    orr_array(counted) rows;
    size_t compact_at; /* rows from which equal lengths are put together */
} histogram;

static int by_tokens(const void *a, const void *b)
{
    const counted *x = a, *y = b;
    return (x->tokens > y->tokens) - (x->tokens < y->tokens);
}

/* Sorts, and puts equal lengths together. */
static void compact(histogram *h)
{
    size_t n = 0;
    if (h->rows.n > 0)
        qsort(h->rows.at, h->rows.n, sizeof *h->rows.at, by_tokens);
    for (size_t i = 0; i < h->rows.n; i++) {
        if (n > 0 && h->rows.at[n - 1].tokens == h->rows.at[i].tokens)
            h->rows.at[n - 1].count += h->rows.at[i].count;
        else
            h->rows.at[n++] = h->rows.at[i];
    }
    h->rows.n = n;
    h->compact_at = 2 * n > COMPACT_FROM ? 2 * n : COMPACT_FROM;
}

static orr_status add(histogram *h, uint32_t tokens, uint64_t count, orr_error *err)
{
    if (h->rows.n >= h->compact_at)
        compact(h);
    const counted row = {tokens, count};
    return orr_array_push(&h->rows, row) ? ORR_OK : orr_fail_memory(err);
}

/* Draws the stream; where all documents are equally long there is nothing to draw. */
static orr_status draw(histogram *h, orr_arena *arena, orr_documents *ret, orr_error *err)
{
    compact(h);
    const size_t rows = h->rows.n;
    const uint32_t n = rows > 1 ? DRAWN : 1;
    uint32_t *stream = orr_arena_array(arena, uint32_t, n);
    orr_random random = orr_random_of(SEED, 0);
    uint64_t all = 0;
    double tokens = 0;
    if (stream == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < rows; i++) {
        tokens += (double)h->rows.at[i].count * h->rows.at[i].tokens;
        all += h->rows.at[i].count;
        h->rows.at[i].count = all; /* of these and of shorter ones, from here on */
    }
    for (uint32_t k = 0; k < n; k++) {
        const uint64_t drawn = orr_random_below(&random, all);
        size_t low = 0, high = rows - 1;
        while (low < high) {
            const size_t middle = (low + high) / 2;
            if (h->rows.at[middle].count > drawn)
                high = middle;
            else
                low = middle + 1;
        }
        stream[k] = h->rows.at[low].tokens;
    }
    *ret = (orr_documents){stream, n, tokens / (double)all, orr_packings_new(arena)};
    return ret->packings != NULL ? ORR_OK : orr_fail_memory(err);
}

/* Geometric lengths: of all distributions over 1, 2, 3, ... with this mean the one that assumes
 * least (of largest entropy), here by its quantiles. */
static orr_status add_geometric(histogram *h, double mean, orr_error *err)
{
    for (int i = 0; i < QUANTILES; i++) {
        const double above = 1 - (i + 0.5) / QUANTILES;
        const double tokens = mean > 1 ? ceil(log(above) / log1p(-1 / mean)) : 1;
        ORR_TRY(add(h, tokens < 1 ? 1 : (uint32_t)tokens, 1, err));
    }
    return ORR_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

/* A whole number from 1 to `most`; 0: it is none. */
static uint64_t number_of(orr_text text, uint64_t most)
{
    uint64_t value = 0;
    while (text.n > 0 && (text.at[text.n - 1] == ' ' || text.at[text.n - 1] == '\t'))
        text.n--;
    while (text.n > 0 && (*text.at == ' ' || *text.at == '\t'))
        text.at++, text.n--;
    for (size_t i = 0; i < text.n; i++) {
        if (text.at[i] < '0' || text.at[i] > '9' || value > most / 10)
            return 0;
        value = value * 10 + (uint64_t)(text.at[i] - '0');
    }
    return value <= most ? value : 0;
}

static orr_status add_line(histogram *h, const orr_csv_lines *lines, orr_text line, uint64_t *all,
                           orr_error *err)
{
    orr_text rest = line, tokens = {0}, count = {0};
    (void)orr_csv_next_field(&rest, &tokens);
    const bool counts = rest.at != NULL && orr_csv_next_field(&rest, &count);
    const uint64_t length = number_of(tokens, ORR_MODEL_MAX_TOKENS);
    const uint64_t n = counts ? number_of(count, UINT64_C(1) << 40) : 1;
    if (length == 0 && h->rows.n == 0 && lines->line == 1 && line.n > 0 &&
        (*line.at < '0' || *line.at > '9'))
        return ORR_OK; /* names of the columns */
    if (length == 0 || n == 0 || rest.at != NULL)
        return orr_csv_at(lines, 1,
                          orr_fail(err, ORR_PARSE,
                                   "a line is the tokens of a document, 1 to %d, or these and how "
                                   "many documents have them, as 512,1000",
                                   ORR_MODEL_MAX_TOKENS),
                          err);
    *all += n;
    if (*all > UINT64_C(1) << 48)
        return orr_csv_at(lines, 1, orr_fail(err, ORR_LIMIT, "more than 2^48 documents"), err);
    return add(h, (uint32_t)length, n, err);
}

static orr_status add_file(histogram *h, const char *path, orr_error *err)
{
    orr_csv_lines lines = {.path = path};
    orr_status status = orr_stream_open(path, &lines.stream, err);
    orr_text line;
    size_t used;
    uint64_t all = 0;
    if (status != ORR_OK)
        return status;
    orr_stream_set_limit(lines.stream, 4096);
    while (status == ORR_OK && orr_csv_next_line(&lines, &line, &used, &status, err)) {
        if (line.n > 0)
            status = add_line(h, &lines, line, &all, err);
        orr_stream_consume(lines.stream, used);
    }
    orr_stream_close(lines.stream);
    if (status == ORR_OK && h->rows.n == 0)
        status = orr_fail(err, ORR_PARSE, "%s: no lengths of documents", path);
    return status;
}

/* --- */

/* "4096", or "4k", which is the same, as in plans. */
static uint64_t tokens_of(const char *text)
{
    size_t n = strlen(text);
    const uint64_t unit = n > 0 && text[n - 1] == 'k'   ? 1024
                          : n > 0 && text[n - 1] == 'M' ? 1048576
                                                        : 1;
    n -= unit > 1;
    return number_of((orr_text){text, n}, ORR_MODEL_MAX_TOKENS / unit) * unit;
}

static orr_status add_text(histogram *h, const char *text, orr_error *err)
{
    static const char MEAN[] = "mean:";
    const bool mean = strncmp(text, MEAN, strlen(MEAN)) == 0;
    if (!mean && (*text < '0' || *text > '9'))
        return add_file(h, text, err);
    const uint64_t tokens = tokens_of(mean ? text + strlen(MEAN) : text);
    if (tokens == 0)
        return orr_fail(err, ORR_INVALID,
                        "documents: '%.60s' is not a number of tokens from 1 to %d, as 4k, a mean, "
                        "as mean:4k, or a file",
                        text, ORR_MODEL_MAX_TOKENS);
    return mean ? add_geometric(h, (double)tokens, err) : add(h, (uint32_t)tokens, 1, err);
}

orr_status orr_documents_read(const char *text, orr_arena *arena, orr_documents *ret,
                              orr_error *err)
{
    histogram h = {.compact_at = COMPACT_FROM};
    orr_status status = add_text(&h, text, err);
    if (status == ORR_OK)
        status = draw(&h, arena, ret, err);
    orr_array_done(&h.rows);
    return status;
}
