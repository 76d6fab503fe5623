/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/models/file.h"

#include <math.h>
#include <string.h>

#include "base/array.h"
#include "io/json/number.h"
#include "io/stream/stream.h"

/* Reader of a fitted file. Counts in the file are not trusted: memory is proportional to the
 * file's length. */

static bool price(const orr_cost_model *self, const orr_device *device, const orr_work *work,
                  orr_price *ret)
{
    const orr_cost_file *file = (const orr_cost_file *)self;

    return (file->table != NULL && orr_table_price(file->table, device, work, ret)) ||
           (file->learned != NULL && orr_learned_price(file->learned, device, work, ret));
}

void orr_cost_file_init(orr_cost_file *file)
{
    file->model = (orr_cost_model){.name = "fitted", .price = price};
}

static orr_status keep_text(const orr_model_reader *r, orr_text text, const char **ret)
{
    *ret = orr_arena_strndup(r->arena, text.at, text.n);
    return *ret != NULL ? ORR_OK : orr_fail_memory(r->err);
}

orr_status orr_model_text(orr_model_reader *r, const char *what, const char **ret)
{
    orr_json_value value;

    ORR_TRY(orr_json_value_next(r->json, &value, r->err));
    if (value.type != ORR_JSON_STRING)
        return orr_model_fail(r, "%s: a text is due", what);
    if (memchr(value.text.at, '\0', value.text.n) != NULL)
        return orr_model_fail(r, "%s: a text that holds a NUL", what);
    return keep_text(r, value.text, ret);
}

orr_status orr_model_texts(orr_model_reader *r, const char *what, const char *const **ret,
                           uint32_t *ret_n)
{
    orr_array(const char *) texts = {0};
    orr_status status, element = ORR_OK;

    ORR_TRY(orr_json_enter_array(r->json, r->err));
    while (element == ORR_OK && orr_json_next_element(r->json, &status, r->err)) {
        const char *text;
        element = orr_model_text(r, what, &text);
        if (element == ORR_OK && !orr_array_push(&texts, text))
            element = orr_fail_memory(r->err);
    }
    if (element != ORR_OK)
        status = element;
    if (status == ORR_OK) {
        const char **kept = orr_arena_array(r->arena, const char *, texts.n);
        if (kept != NULL && texts.n > 0)
            memcpy(kept, texts.at, texts.n * sizeof *kept);
        *ret = kept;
        *ret_n = (uint32_t)texts.n;
        status = kept != NULL ? ORR_OK : orr_fail_memory(r->err);
    }
    orr_array_done(&texts);
    return status;
}

orr_status orr_model_bool(orr_model_reader *r, const char *what, bool *ret)
{
    orr_json_value value;

    ORR_TRY(orr_json_value_next(r->json, &value, r->err));
    if (value.type != ORR_JSON_TRUE && value.type != ORR_JSON_FALSE)
        return orr_model_fail(r, "%s: true or false is due", what);
    *ret = value.type == ORR_JSON_TRUE;
    return ORR_OK;
}

orr_status orr_model_int(orr_model_reader *r, const char *what, int64_t low, int64_t high,
                         int64_t *ret)
{
    orr_json_value value;

    ORR_TRY(orr_json_value_next(r->json, &value, r->err));
    if (value.type != ORR_JSON_NUMBER || !orr_text_int64(value.text, ret) || *ret < low ||
        *ret > high)
        return orr_model_fail(r, "%s: a whole number from %lld to %lld is due", what,
                              (long long)low, (long long)high);
    return ORR_OK;
}

orr_status orr_model_number(orr_model_reader *r, const char *what, double low, double high,
                            bool may_be_null, double *ret)
{
    orr_json_value value;

    ORR_TRY(orr_json_value_next(r->json, &value, r->err));
    if (may_be_null && value.type == ORR_JSON_NULL) {
        *ret = NAN;
        return ORR_OK;
    }
    if (value.type != ORR_JSON_NUMBER || !orr_text_double(value.text, ret) || *ret < low ||
        *ret > high)
        return orr_model_fail(r, "%s: a number from %g to %g is due", what, low, high);
    return ORR_OK;
}

orr_status orr_model_family(orr_model_reader *r, uint8_t *ret)
{
    orr_json_value value;

    ORR_TRY(orr_json_value_next(r->json, &value, r->err));
    for (int family = 0; family < ORR_FAMILIES && value.type == ORR_JSON_STRING; family++) {
        const char *name = orr_kernel_family_name((orr_kernel_family)family);
        if (orr_text_equal(value.text, name, strlen(name))) {
            *ret = (uint8_t)family;
            return ORR_OK;
        }
    }
    return orr_model_fail(r, "family: it is none that is known");
}

/* The schema is read first, so that a newer file is reported as newer and not as wrong. */
static orr_status read_schema(orr_model_reader *r)
{
    orr_text key;
    orr_status status;
    const char *schema;

    ORR_TRY(orr_json_enter_object(r->json, r->err));
    if (!orr_json_next_key(r->json, &key, &status, r->err)) {
        ORR_TRY(status);
        return orr_model_fail(r, "no cost model: it is empty");
    }
    if (!orr_text_is(key, "schema"))
        return orr_model_fail(r,
                              "no cost model: it does not begin with its schema, " ORR_COST_SCHEMA);
    ORR_TRY(orr_model_text(r, "schema", &schema));
    if (strcmp(schema, ORR_COST_SCHEMA) == 0)
        return ORR_OK;
    if (strncmp(schema, ORR_COST_SCHEMA, strlen("orrery.cost/")) == 0)
        return orr_fail_byte(r->err, ORR_UNSUPPORTED, orr_json_byte_pos(r->json),
                             "made by another version: its schema is %s, known is " ORR_COST_SCHEMA,
                             schema);
    return orr_model_fail(r, "no cost model: its schema is %s", schema);
}

static orr_status read_body(orr_model_reader *r, orr_cost_file *file)
{
    orr_text key;
    orr_status status;
    int64_t number;

    while (orr_json_next_key(r->json, &key, &status, r->err)) {
        if (orr_text_is(key, "seed")) {
            const char *text; /* as text: readers of JSON lose bits of large numbers */
            ORR_TRY(orr_model_text(r, "seed", &text));
            if (!orr_text_uint64((orr_text){text, strlen(text)}, &file->seed))
                return orr_model_fail(r, "seed: a whole number is due");
        } else if (orr_text_is(key, "samples")) {
            ORR_TRY(orr_model_int(r, "samples", 0, INT64_MAX, &number));
            file->samples = (uint64_t)number;
        } else if (orr_text_is(key, "sources")) {
            ORR_TRY(orr_model_texts(r, "sources", &file->sources, &file->n_sources));
        } else if (orr_text_is(key, "devices")) {
            ORR_TRY(orr_model_texts(r, "devices", &file->devices, &file->n_devices));
        } else if (orr_text_is(key, "table") && file->table == NULL) {
            ORR_TRY(orr_model_read_table(r, &file->table));
        } else if (orr_text_is(key, "learned") && file->learned == NULL) {
            ORR_TRY(orr_model_read_learned(r, &file->learned));
        } else {
            return orr_model_fail(r, "a key that is not known, or twice");
        }
    }
    ORR_TRY(status);
    if (file->table == NULL && file->learned == NULL)
        return orr_model_fail(r, "neither a table nor a learned model is in it");
    return orr_json_end(r->json, r->err);
}

orr_status orr_cost_file_read(orr_stream *stream, orr_arena *arena, const orr_cost_file **ret,
                              orr_error *err)
{
    orr_model_reader r = {.arena = arena, .err = err};
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    orr_cost_file *file = orr_arena_one(arena, orr_cost_file);

    if (file == NULL)
        return orr_fail_memory(err);
    orr_cost_file_init(file);
    orr_status status = orr_json_new(stream, false, &r.json, err);
    if (status == ORR_OK) {
        orr_json_set_depth_limit(r.json, 16);
        status = read_schema(&r);
    }
    if (status == ORR_OK)
        status = read_body(&r, file);
    orr_json_free(r.json);
    if (status == ORR_OK)
        *ret = file;
    else
        orr_arena_rewind(arena, mark);
    return status;
}

orr_status orr_cost_model_load(const char *path, orr_arena *arena, const orr_cost_model **ret,
                               orr_error *err)
{
    const orr_cost_file *file;
    orr_stream *stream;

    ORR_TRY(orr_stream_open(path, &stream, err));
    const orr_status status = orr_cost_file_read(stream, arena, &file, err);
    orr_stream_close(stream);
    if (status == ORR_OK)
        *ret = &file->model;
    else if (status != ORR_NO_MEMORY)
        orr_error_prefix(err, path);
    return status;
}

static void write_texts(orr_json_writer *w, const char *key, const char *const *texts, uint32_t n)
{
    orr_json_write_key(w, key);
    orr_json_write_array(w);
    for (uint32_t i = 0; i < n; i++)
        orr_json_write_cstr(w, texts[i]);
    orr_json_write_array_end(w);
}

void orr_cost_file_write(const orr_cost_file *file, orr_output *out)
{
    orr_json_writer w;
    char seed[24] = "";
    const size_t n = orr_print_uint64(seed, file->seed);

    orr_json_write_init(&w, out);
    orr_json_write_object(&w);
    orr_json_write_key(&w, "schema");
    orr_json_write_cstr(&w, ORR_COST_SCHEMA);
    orr_json_write_key(&w, "seed");
    orr_json_write_text(&w, seed, n);
    orr_json_write_key(&w, "samples");
    orr_json_write_uint(&w, file->samples);
    write_texts(&w, "sources", file->sources, file->n_sources);
    write_texts(&w, "devices", file->devices, file->n_devices);
    if (file->table != NULL)
        orr_model_write_table(&w, file->table);
    if (file->learned != NULL)
        orr_model_write_learned(&w, file->learned);
    orr_json_write_object_end(&w);
    orr_output_text(out, "\n");
}
