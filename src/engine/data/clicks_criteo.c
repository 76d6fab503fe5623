/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/array.h"
#include "engine/data/clicks.h"
#include "model/arch/dlrm.h"
#include "weights/mapped_file.h"

/* Reader of Criteo's files. The offset of every STRIDE-th line is kept; lines between are found by
 * scanning. */
enum { NUMBERS = 13, VALUES = 26, STRIDE = 64, FIELD_CHARS = 32 };

typedef struct criteo {
    orr_mapped_file file;
    orr_array(uint64_t) lines; /* offsets of lines 0, STRIDE, 2 STRIDE, ... */
} criteo;

static uint64_t line_end(const criteo *c, uint64_t at)
{
    const uint8_t *end = memchr(c->file.bytes + at, '\n', c->file.n - at);
    return end != NULL ? (uint64_t)(end - c->file.bytes) : c->file.n;
}

typedef struct fields {
    const char *at, *end;
    bool failed;
} fields;

/* The next field, up to a tab; false: it is empty. */
static bool next_field(fields *f, char ret[FIELD_CHARS])
{
    size_t n = 0;
    f->failed |= f->at > f->end;
    for (; f->at < f->end && *f->at != '\t'; f->at++) {
        f->failed |= n == FIELD_CHARS - 1;
        if (n < FIELD_CHARS - 1)
            ret[n++] = *f->at;
    }
    f->at++;
    ret[n] = '\0';
    return n > 0;
}

static double next_number(fields *f)
{
    char text[FIELD_CHARS], *end = text;
    if (!next_field(f, text))
        return 0;
    const double number = strtod(text, &end);
    f->failed |= end == text || *end != '\0' || !isfinite(number);
    return number;
}

static uint64_t next_value(fields *f)
{
    char text[FIELD_CHARS], *end = text;
    if (!next_field(f, text))
        return 0;
    const uint64_t value = strtoull(text, &end, 16);
    f->failed |= end == text || *end != '\0';
    return value;
}

static int64_t row_of(uint64_t value, int64_t lookup, int64_t rows)
{
    if (lookup > 0)
        value = XXH64(&value, sizeof value, (uint64_t)lookup);
    return (int64_t)(value % (uint64_t)rows);
}

/* Sample i of the batch. `at`, shape (tables): where its ids begin; moved on to those of the next
 * sample. */
static void read_line(fields *f, const orr_click_data *self, int64_t i, int64_t at[VALUES],
                      orr_click_batch *ret)
{
    const double label = next_number(f);
    f->failed |= label != 0 && label != 1;
    ret->labels.at[i] = (float)label;
    for (int k = 0; k < NUMBERS; k++) {
        const double x = next_number(f);
        ret->dense.at[i * NUMBERS + k] = (float)log1p(x > 0 ? x : 0);
    }
    for (uint32_t t = 0; t < VALUES; t++) {
        const uint64_t value = next_value(f);
        const int32_t n = ret->lengths.at[t * ret->samples + i];
        for (int32_t k = 0; k < n; k++)
            ret->ids.at[at[t]++] = row_of(value, k, self->dlrm->tables[t].rows);
    }
    f->failed |= f->at != f->end + 1;
}

static uint64_t line_begin(const criteo *c, uint64_t number)
{
    uint64_t at = c->lines.at[number / STRIDE];
    for (uint64_t i = number % STRIDE; i > 0; i--)
        at = line_end(c, at) + 1;
    return at;
}

static orr_status read(const orr_click_data *self, uint64_t first, orr_click_batch *ret,
                       orr_error *err)
{
    const criteo *c = self->ctx;
    int64_t ids[VALUES];
    uint64_t at = 0;
    memcpy(ids, ret->first.at, sizeof ids);
    for (int64_t i = 0; i < ret->samples; i++) {
        const uint64_t number = orr_click_number(self, first + (uint64_t)i);
        at = i == 0 || number == 0 ? line_begin(c, number) : at;
        const uint64_t next = line_end(c, at);
        const uint64_t end = next - (next > at && c->file.bytes[next - 1] == '\r');
        fields f = {(const char *)c->file.bytes + at, (const char *)c->file.bytes + end, false};
        read_line(&f, self, i, ids, ret);
        if (f.failed)
            return orr_fail(
                err, ORR_PARSE,
                "line %llu: not a label, %d integers and %d values in hex, with tabs between",
                (unsigned long long)number + 1, NUMBERS, VALUES);
        at = next + 1;
    }
    return ORR_OK;
}

static orr_status find_lines(criteo *c, uint64_t *ret, orr_error *err)
{
    uint64_t n = 0;
    for (uint64_t at = 0; at < c->file.n; at = line_end(c, at) + 1, n++)
        if (n % STRIDE == 0 && !orr_array_push(&c->lines, at))
            return orr_fail_memory(err);
    *ret = n;
    return n > 0 ? ORR_OK : orr_fail(err, ORR_INVALID, "there are no samples in it");
}

static void close_file(void *ctx)
{
    criteo *c = ctx;
    orr_array_done(&c->lines);
    orr_mapped_file_close(&c->file);
}

static orr_status check_shape(const orr_dlrm *d, orr_error *err)
{
    if (d->dense_features == NUMBERS && d->n_tables == VALUES)
        return ORR_OK;
    return orr_fail(err, ORR_INVALID,
                    "a model of %u dense features and %u tables; Criteo's data have %d and %d",
                    d->dense_features, d->n_tables, NUMBERS, VALUES);
}

orr_status orr_click_data_criteo(const char *path, const orr_dlrm *dlrm, orr_click_data **ret,
                                 orr_error *err)
{
    orr_click_data *clicks;
    ORR_TRY(check_shape(dlrm, err));
    ORR_TRY(orr_click_data_new("criteo", dlrm, 0, &clicks, err));
    criteo *c = orr_arena_one(clicks->arena, criteo);
    orr_status status = c != NULL ? ORR_OK : orr_fail_memory(err);
    if (status == ORR_OK) {
        c->file.fd = -1;
        status = orr_mapped_file_open(path, &c->file, err);
    }
    if (status == ORR_OK) {
        clicks->ctx = c;
        clicks->close = close_file;
        clicks->read = read;
        orr_mapped_file_close_descriptor(&c->file);
        status = find_lines(c, &clicks->n, err);
    }
    if (status == ORR_OK)
        *ret = clicks;
    else {
        orr_error_prefix(err, path);
        orr_click_data_free(clicks);
    }
    return status;
}
