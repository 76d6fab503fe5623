/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and answers as JSON. */
#include <string.h>

#include "engine/serve/request.h"
#include "io/json/reader.h"
#include "io/json/writer.h"

enum { BAG_MAX = 65535, DEPTH = 8, TOKEN_BYTES = 64 << 10 };

typedef struct reading {
    orr_json *json;
    const orr_dlrm *model;
    const orr_ask_limits *limits;
    orr_ask *ask;
    orr_error *err;
} reading;

static orr_status fail_at(const reading *r, const char *what)
{
    const uint64_t byte = orr_json_byte_pos(r->json);
    return orr_fail_byte(r->err, ORR_PARSE, byte, "byte %llu: %s", (unsigned long long)byte, what);
}

static orr_status read_id(reading *r, int64_t *ret)
{
    bool is;
    ORR_TRY(orr_json_int64(r->json, ret, &is, r->err));
    return is ? ORR_OK : fail_at(r, "an id is no whole number");
}

/* [3, 5] behind `ids`. */
static orr_status read_ids(reading *r, orr_ask_ids *ids, int64_t *ret_n)
{
    orr_status status = ORR_OK;
    int64_t id, n = 0;
    ORR_TRY(orr_json_enter_array(r->json, r->err));
    for (; orr_json_next_element(r->json, &status, r->err); n++) {
        ORR_TRY(read_id(r, &id));
        if (n == BAG_MAX)
            return fail_at(r, "a bag of more than 65535 lookups");
        ORR_TRY(orr_ask_check_size(0, ids->n + 1, r->limits, r->err));
        if (!orr_array_push(ids, id))
            return orr_fail_memory(r->err);
    }
    *ret_n = n;
    return status;
}

/* [0.5, 1]: exactly so many, behind ask->dense. */
static orr_status read_numbers(reading *r, int64_t want)
{
    orr_status status = ORR_OK;
    int64_t n = 0;
    ORR_TRY(orr_json_enter_array(r->json, r->err));
    for (; orr_json_next_element(r->json, &status, r->err); n++) {
        double number;
        bool is;
        ORR_TRY(orr_json_double(r->json, &number, &is, r->err));
        if (!is)
            return fail_at(r, "this is no number");
        if (n == want)
            return fail_at(r, "more numbers than there should be");
        if (!orr_array_push(&r->ask->dense, (float)number))
            return orr_fail_memory(r->err);
    }
    ORR_TRY(status);
    if (n == want)
        return ORR_OK;
    const uint64_t byte = orr_json_byte_pos(r->json);
    return orr_fail_byte(r->err, ORR_PARSE, byte,
                         "byte %llu: %lld numbers, and there should be "
                         "%lld",
                         (unsigned long long)byte, (long long)n, (long long)want);
}

/* Of a sample: a list for each table. */
static orr_status read_sample_ids(reading *r)
{
    orr_status status = ORR_OK;
    uint32_t tables = 0;
    int64_t n;
    ORR_TRY(orr_json_enter_array(r->json, r->err));
    for (; orr_json_next_element(r->json, &status, r->err); tables++) {
        if (tables == r->model->n_tables)
            return fail_at(r, "ids of more tables than the model has");
        ORR_TRY(read_ids(r, &r->ask->read, &n));
        if (!orr_array_push(&r->ask->counts, (int32_t)n))
            return orr_fail_memory(r->err);
    }
    ORR_TRY(status);
    return tables == r->model->n_tables ? ORR_OK
                                        : fail_at(r, "ids of fewer tables than the model has");
}

static orr_status read_sample(reading *r)
{
    orr_status status = ORR_OK;
    orr_text key;
    bool dense = false, ids = false;
    ORR_TRY(orr_ask_check_size((uint64_t)r->ask->samples + 1, 0, r->limits, r->err));
    ORR_TRY(orr_json_enter_object(r->json, r->err));
    while (orr_json_next_key(r->json, &key, &status, r->err))
        if (orr_text_is(key, "dense") && !dense) {
            ORR_TRY(read_numbers(r, r->model->dense_features));
            dense = true;
        } else if (orr_text_is(key, "ids") && !ids) {
            ORR_TRY(read_sample_ids(r));
            ids = true;
        } else {
            return fail_at(r, "a sample has \"dense\" and \"ids\", once each");
        }
    ORR_TRY(status);
    r->ask->samples++;
    return dense && ids ? ORR_OK : fail_at(r, "a sample lacks \"dense\" or \"ids\"");
}

/* From by sample, then table to by table, then sample. */
static orr_status by_table(orr_ask *ask, uint32_t tables, orr_error *err)
{
    const size_t samples = (size_t)ask->samples;
    const int64_t *from = ask->read.at;
    int64_t at = 0;
    if (!orr_array_reserve(&ask->ids, ask->read.n + 1) ||
        !orr_array_reserve(&ask->lengths, samples * tables + 1) ||
        !orr_array_reserve(&ask->first, tables))
        return orr_fail_memory(err);
    for (uint32_t t = 0; t < tables; t++) {
        ask->first.at[t] = at;
        for (size_t s = 0; s < samples; s++)
            at += ask->lengths.at[t * samples + s] = ask->counts.at[s * tables + t];
    }
    for (size_t i = 0; i < samples * tables; i++) {
        const int32_t n = ask->counts.at[i];
        if (n > 0)
            memcpy(ask->ids.at + ask->first.at[i % tables], from, (size_t)n * sizeof *from);
        ask->first.at[i % tables] += n;
        from += n;
    }
    ask->ids.n = ask->read.n;
    ask->lengths.n = samples * tables;
    return ORR_OK;
}

static orr_status read_table(reading *r, uint32_t *ret)
{
    orr_text name;
    bool is;
    ORR_TRY(orr_json_text(r->json, &name, &is, r->err));
    for (uint32_t t = 0; is && t < r->model->n_tables; t++)
        if (orr_text_equal(name, r->model->tables[t].name, strlen(r->model->tables[t].name))) {
            *ret = t;
            return ORR_OK;
        }
    return orr_fail(r->err, ORR_INVALID, "there is no table '%.*s'",
                    is ? (int)(name.n < 64 ? name.n : 64) : 0, is ? name.at : "");
}

static orr_status read_bags(reading *r, int64_t *ret_samples)
{
    orr_status status = ORR_OK;
    int64_t samples = 0, n;
    ORR_TRY(orr_json_enter_array(r->json, r->err));
    for (; orr_json_next_element(r->json, &status, r->err); samples++) {
        ORR_TRY(orr_ask_check_size((uint64_t)samples + 1, 0, r->limits, r->err));
        ORR_TRY(read_ids(r, &r->ask->ids, &n));
        if (!orr_array_push(&r->ask->lengths, (int32_t)n))
            return orr_fail_memory(r->err);
    }
    *ret_samples = samples;
    return status;
}

static orr_status read_list(reading *r)
{
    orr_status status = ORR_OK;
    orr_text key;
    bool named = false, ids = false;
    uint32_t table = 0;
    int64_t samples = 0;
    if (r->ask->n_lists == r->model->n_tables)
        return fail_at(r, "more lookups than the model has tables");
    ORR_TRY(orr_json_enter_object(r->json, r->err));
    while (orr_json_next_key(r->json, &key, &status, r->err))
        if (orr_text_is(key, "table") && !named) {
            ORR_TRY(read_table(r, &table));
            named = true;
        } else if (orr_text_is(key, "ids") && !ids) {
            ORR_TRY(read_bags(r, &samples));
            ids = true;
        } else {
            return fail_at(r, "lookups have \"table\" and \"ids\", once each");
        }
    ORR_TRY(status);
    if (!named || !ids)
        return fail_at(r, "lookups lack \"table\" or \"ids\"");
    if (r->ask->n_lists > 0 && samples != r->ask->samples)
        return fail_at(r, "lookups of another number of samples than the first");
    r->ask->samples = samples;
    r->ask->n_lists++;
    return orr_array_push(&r->ask->lists, table) ? ORR_OK : orr_fail_memory(r->err);
}

static orr_status read_values(reading *r, size_t rows)
{
    orr_status status = ORR_OK;
    size_t n = 0;
    ORR_TRY(orr_json_enter_array(r->json, r->err));
    for (; orr_json_next_element(r->json, &status, r->err); n++) {
        if (n == rows)
            return fail_at(r, "more values than rows");
        ORR_TRY(read_numbers(r, r->model->tables[r->ask->table].columns));
    }
    ORR_TRY(status);
    return n == rows ? ORR_OK : fail_at(r, "fewer values than rows");
}

/* "table" and "rows" come before "values", whose shape they say. */
static orr_status read_update(reading *r)
{
    orr_status status = ORR_OK;
    orr_text key;
    int seen = 0;
    int64_t n = 0;
    ORR_TRY(orr_json_enter_object(r->json, r->err));
    while (orr_json_next_key(r->json, &key, &status, r->err)) {
        if (orr_text_is(key, "table") && seen == 0)
            ORR_TRY(read_table(r, &r->ask->table));
        else if (orr_text_is(key, "rows") && seen == 1)
            ORR_TRY(read_ids(r, &r->ask->ids, &n));
        else if (orr_text_is(key, "values") && seen == 2)
            ORR_TRY(read_values(r, r->ask->ids.n));
        else
            return fail_at(r, "an update has \"table\", \"rows\" and \"values\", in this order");
        seen++;
    }
    ORR_TRY(status);
    return seen == 3 ? ORR_OK : fail_at(r, "an update has \"table\", \"rows\" and \"values\"");
}

/* {"samples": [...]}, {"lookups": [...]}. */
static orr_status read_all(reading *r, const char *name, orr_status (*each)(reading *r))
{
    orr_status status = ORR_OK;
    orr_text key;
    bool seen = false;
    ORR_TRY(orr_json_enter_object(r->json, r->err));
    while (orr_json_next_key(r->json, &key, &status, r->err)) {
        if (!orr_text_equal(key, name, strlen(name)) || seen)
            return fail_at(r, "another key than the one that is asked for, or twice");
        ORR_TRY(orr_json_enter_array(r->json, r->err));
        while (orr_json_next_element(r->json, &status, r->err))
            ORR_TRY(each(r));
        ORR_TRY(status);
        seen = true;
    }
    ORR_TRY(status);
    return seen ? ORR_OK : orr_fail(r->err, ORR_PARSE, "this is no request: it lacks \"%s\"", name);
}

static orr_status read_kind(reading *r)
{
    if (r->ask->kind == ORR_ASK_UPDATE)
        ORR_TRY(read_update(r));
    else if (r->ask->kind == ORR_ASK_BAGS)
        ORR_TRY(read_all(r, "lookups", read_list));
    else
        ORR_TRY(read_all(r, "samples", read_sample));
    ORR_TRY(orr_json_end(r->json, r->err));
    if (r->ask->kind == ORR_ASK_BAGS && r->ask->n_lists == 0)
        return orr_fail(r->err, ORR_INVALID, "no lookups are asked for");
    if (r->ask->kind == ORR_ASK_SCORE)
        ORR_TRY(by_table(r->ask, r->model->n_tables, r->err));
    return orr_ask_check_ids(r->ask, r->model, r->err);
}

orr_status orr_ask_read_json(orr_ask_kind kind, const void *text, size_t n, const orr_dlrm *model,
                             const orr_ask_limits *limits, orr_ask *ask, orr_error *err)
{
    reading r = {.model = model, .limits = limits, .ask = ask, .err = err};
    orr_stream *stream;
    orr_ask_clear(ask, kind);
    if (n == 0)
        return orr_fail(err, ORR_PARSE, "the request has no body");
    ORR_TRY(orr_stream_open_memory(text, n, &stream, err));
    orr_status status = orr_json_new(stream, false, &r.json, err);
    if (status == ORR_OK) {
        orr_stream_set_limit(stream, TOKEN_BYTES + n);
        orr_json_set_depth_limit(r.json, DEPTH);
        status = read_kind(&r);
        orr_json_free(r.json);
    }
    orr_stream_close(stream);
    return status;
}

static void write_numbers(orr_json_writer *w, const float *values, int64_t n)
{
    orr_json_write_array(w);
    for (int64_t i = 0; i < n; i++)
        orr_json_write_double(w, (double)values[i]);
    orr_json_write_array_end(w);
}

static void write_embeddings(orr_json_writer *w, const orr_ask *ask, const orr_dlrm *model,
                             const float *values)
{
    const int64_t columns = orr_ask_columns(ask, model);
    orr_json_write_key(w, "embeddings");
    orr_json_write_array(w);
    for (uint32_t i = 0; i < ask->n_lists; i++) {
        const orr_embedding *t = &model->tables[ask->lists.at[i]];
        orr_json_write_object(w);
        orr_json_member_text(w, "table", t->name);
        orr_json_write_key(w, "values");
        orr_json_write_array(w);
        for (int64_t s = 0; s < ask->samples; s++)
            write_numbers(w, values + s * columns, t->columns);
        orr_json_write_array_end(w);
        orr_json_write_object_end(w);
        values += t->columns;
    }
    orr_json_write_array_end(w);
}

void orr_answer_json(const orr_ask *ask, const orr_dlrm *model, const float *values,
                     orr_output *out)
{
    orr_json_writer w;
    orr_json_write_init(&w, out);
    orr_json_write_object(&w);
    if (ask->kind == ORR_ASK_SCORE) {
        orr_json_write_key(&w, "probabilities");
        write_numbers(&w, values, ask->samples);
    } else if (ask->kind == ORR_ASK_BAGS) {
        write_embeddings(&w, ask, model, values);
    } else {
        orr_json_member_uint(&w, "rows", ask->ids.n);
    }
    orr_json_write_object_end(&w);
    orr_output_text(out, "\n");
}
