/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_MODELS_FILE_H
#define ORR_COST_MODELS_FILE_H

#include "cost/models/learned.h"
#include "cost/models/table.h"
#include "io/json/reader.h"
#include "io/json/writer.h"

/* A fitted cost model: the table is asked first, then the trees. Stored as JSON,
 * "orrery.cost/1". */
typedef struct orr_cost_file {
    orr_cost_model model;            /* first member, so that the vtable's `self` is this */
    const orr_cost_table *table;     /* or NULL */
    const orr_cost_learned *learned; /* or NULL */
    uint64_t seed, samples;
    const char *const *sources; /* shape (n_sources): last parts of the paths of the samples */
    uint32_t n_sources;
    const char *const *devices; /* shape (n_devices) */
    uint32_t n_devices;
} orr_cost_file;
#define ORR_COST_SCHEMA "orrery.cost/1"

/* Sets the vtable. */
void orr_cost_file_init(orr_cost_file *file);
void orr_cost_file_write(const orr_cost_file *file, orr_output *out);
orr_status orr_cost_file_read(orr_stream *stream, orr_arena *arena, const orr_cost_file **ret,
                              orr_error *err) ORR_MUST_CHECK;

/* Reader state shared by the parts of a file. An error has the byte; the file's name is put in
 * front. */
typedef struct orr_model_reader {
    orr_json *json;
    orr_arena *arena;
    orr_error *err;
} orr_model_reader;
#define orr_model_fail(r, format, ...)                                                             \
    orr_fail_byte((r)->err, ORR_INVALID, orr_json_byte_pos((r)->json), "at byte %llu: " format,    \
                  (unsigned long long)orr_json_byte_pos((r)->json), ##__VA_ARGS__)

orr_status orr_model_read_table(orr_model_reader *r, const orr_cost_table **ret) ORR_MUST_CHECK;
orr_status orr_model_read_learned(orr_model_reader *r, const orr_cost_learned **ret) ORR_MUST_CHECK;
void orr_model_write_table(orr_json_writer *w, const orr_cost_table *table);
void orr_model_write_learned(orr_json_writer *w, const orr_cost_learned *learned);

/* The next value, which must be of the given kind; `what` names it in errors. */
orr_status orr_model_text(orr_model_reader *r, const char *what, const char **ret) ORR_MUST_CHECK;
orr_status orr_model_texts(orr_model_reader *r, const char *what, const char *const **ret,
                           uint32_t *ret_n) ORR_MUST_CHECK;
orr_status orr_model_bool(orr_model_reader *r, const char *what, bool *ret) ORR_MUST_CHECK;
/* An integer in [low, high]. */
orr_status orr_model_int(orr_model_reader *r, const char *what, int64_t low, int64_t high,
                         int64_t *ret) ORR_MUST_CHECK;
/* A finite number in [low, high]; null is NAN where `may_be_null`. */
orr_status orr_model_number(orr_model_reader *r, const char *what, double low, double high,
                            bool may_be_null, double *ret) ORR_MUST_CHECK;
orr_status orr_model_family(orr_model_reader *r, uint8_t *ret) ORR_MUST_CHECK;

#endif /* ORR_COST_MODELS_FILE_H */
