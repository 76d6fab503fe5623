/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/running/serving.h"

#include <unistd.h>

#include "base/units.h"
#include "cli/arguments/factor.h"
#include "cli/arguments/tiers.h"

enum { THREADS_MAX = 256 };

orr_status orr_serving_count(const char *option, const char *text, uint64_t usual, uint64_t most,
                             uint64_t *ret, orr_error *err)
{
    uint64_t n = usual;
    if (text != NULL && orr_parse_count(text, &n, err) != ORR_OK) {
        orr_error_prefix(err, option);
        return err->status;
    }
    if (n == 0 || n > most)
        return orr_fail(err, ORR_INVALID, "%s: %llu is not in 1 to %llu", option,
                        (unsigned long long)n, (unsigned long long)most);
    *ret = n;
    return ORR_OK;
}

static uint32_t threads_of(const orr_settings *s)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const int64_t asked = s->threads > 0 ? s->threads : cores > 0 ? cores : 1;
    return (uint32_t)(asked < THREADS_MAX ? asked : THREADS_MAX);
}

static orr_status open_data(orr_serving *v)
{
    const orr_settings *s = v->session.settings;
    orr_error *err = &v->session.err;
    uint64_t seed = 0; /* what `train` begins with */
    if (s->seed != NULL)
        ORR_TRY(orr_parse_seed(s->seed, &seed, err));
    return orr_click_data_open(s->data, &v->model->dlrm, seed, &v->clicks, err);
}

static orr_status bytes_of(const char *option, const char *text, uint64_t *ret, orr_error *err)
{
    if (text == NULL || orr_parse_bytes(text, ret, err) == ORR_OK)
        return ORR_OK;
    orr_error_prefix(err, option);
    return err->status;
}

static orr_status iops_of(const char *option, const char *text, double *ret, orr_error *err)
{
    if (text == NULL || orr_parse_iops(text, ret, err) == ORR_OK)
        return ORR_OK;
    orr_error_prefix(err, option);
    return err->status;
}

/* A quarter of the memory that is free, but no more than the rows are. */
static uint64_t usual_cache(const orr_dlrm *d)
{
    const long pages = sysconf(_SC_AVPHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    const uint64_t most =
        pages > 0 && bytes > 0 ? (uint64_t)pages * (uint64_t)bytes / 4 : UINT64_C(1) << 28;
    uint64_t rows = 1 << 20;
    for (uint32_t i = 0; i < d->n_tables; i++) {
        rows += 2 * (uint64_t)d->tables[i].rows * d->tables[i].columns * sizeof(float);
        if (rows > most)
            return most;
    }
    return rows;
}

static orr_status read_rows(const orr_settings *s, const orr_model *model,
                            orr_row_server_options *ret, orr_error *err)
{
    orr_row_server_options o = {.cache_bytes = usual_cache(&model->dlrm),
                                .dequantize_on_load = s->dequantize};
    if (s->store == NULL && (s->table_memory != NULL || s->pooled_memory != NULL || s->dequantize))
        return orr_fail(err, ORR_INVALID,
                        "--table-memory, --pooled-memory, --dequantize: without "
                        "--store all rows are mapped");
    ORR_TRY(bytes_of("--table-memory", s->table_memory, &o.cache_bytes, err));
    ORR_TRY(bytes_of("--pooled-memory", s->pooled_memory, &o.pooled_bytes, err));
    ORR_TRY(iops_of("--table-iops", s->table_iops, &o.table_iops, err));
    ORR_TRY(iops_of("--device-iops", s->device_iops, &o.device_iops, err));
    *ret = o;
    return ORR_OK;
}

orr_status orr_serving_open(orr_serving *v, bool reads)
{
    const orr_settings *s = v->session.settings;
    orr_error *err = &v->session.err;
    uint64_t block;
    ORR_TRY(orr_model_load(s->args[0], v->session.arena, &v->model, err));
    if (v->model->kind != ORR_MODEL_DLRM)
        return orr_fail(err, ORR_INVALID, "--weights: %s is no recommendation model", s->args[0]);
    ORR_TRY(orr_serving_count("--batch", s->batch, ORR_SCORER_BLOCK, ORR_SCORER_BLOCK_MAX, &block,
                              err));
    if (reads)
        ORR_TRY(open_data(v));
    v->threads = threads_of(s);
    if (s->connect != NULL && (s->weights != NULL || s->store != NULL))
        return orr_fail(err, ORR_INVALID, "--connect: the server has the weights, and their rows");
    if (s->connect != NULL)
        return ORR_OK;
    orr_scorer_options options = {
        .model = v->model, .weights = s->weights, .block = (int64_t)block, .store = s->store};
    ORR_TRY(read_rows(s, v->model, &options.rows, err));
    options.rows.read_only = reads; /* `score`, beside others and a server */
    if (s->drive != NULL && s->store == NULL)
        return orr_fail(err, ORR_INVALID, "--drive: without --store nothing is written");
    if (s->drive != NULL)
        ORR_TRY(
            orr_drive_endurance(s->drive, v->session.arena, &options.endurance_bytes_per_day, err));
    ORR_TRY(orr_scorer_open(&options, &v->scorer, err));
    if (s->store != NULL)
        orr_session_remark(&v->session, "the snapshot in %s was %s", s->store,
                           orr_scorer_snapshot_text(v->scorer));
    return ORR_OK;
}

void orr_serving_close(orr_serving *v)
{
    orr_click_data_free(v->clicks);
    orr_scorer_close(v->scorer);
}
