/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/fit.h>

#include <math.h>
#include <string.h>

#include "cost/fit/boost.h"
#include "cost/fit/learned.h"
#include "cost/fit/table.h"
#include "cost/models/file.h"

/* orr_fit_run(). The protocol: samples are split by shape group into train, validation and test;
 * hyper-parameters are chosen on validation; the final models are fitted to train and
 * validation; the test set is used once, for the errors that are reported and stored. */

bool orr_fit_learned_available(const char **ret_why)
{
    return orr_boost_available(ret_why);
}

/* Asks a part of the model for a cell: the table, or the trees. */
typedef bool (*asked)(const orr_cost_file *file, const orr_fit_cell *cell, orr_price *ret);

static bool ask_table(const orr_cost_file *file, const orr_fit_cell *cell, orr_price *ret)
{
    return orr_table_price(file->table, cell->sample->device, &cell->sample->work, ret);
}

static bool ask_learned(const orr_cost_file *file, const orr_fit_cell *cell, orr_price *ret)
{
    return orr_learned_price(file->learned, cell->sample->device, &cell->sample->work, ret);
}

/* The only function that reads the test set. */
static orr_status score(const orr_fit_data *data, const orr_cost_file *file, asked ask, bool is,
                        orr_fit_result *result, orr_error *err)
{
    orr_fit_errors fitted = {0}, roofline = {0};
    bool held = true;

    for (size_t i = data->first[result->family]; i < data->first[result->family + 1]; i++) {
        const orr_fit_cell *cell = &data->cells[i];
        orr_price price;
        if (cell->side != ORR_SUBSET_TEST)
            continue;
        result->rows += cell->point.count;
        if (!is || isnan(cell->roofline_ns) || !ask(file, cell, &price))
            continue;
        result->answered += cell->point.count;
        held = held && orr_fit_errors_add(&fitted, cell, (double)price.ns) &&
               orr_fit_errors_add(&roofline, cell, cell->roofline_ns);
    }
    result->fitted = orr_fit_errors_score(&fitted);
    result->roofline = orr_fit_errors_score(&roofline);
    orr_fit_errors_done(&fitted);
    orr_fit_errors_done(&roofline);
    return held ? ORR_OK : orr_fail_memory(err);
}

typedef struct job {
    const orr_fit_options *options;
    orr_arena *arena;
    orr_error *err;
    orr_fit_data data;
    orr_cost_file *file;
    orr_cost_table *table;
    orr_cost_learned *learned;
    const char *table_remarks[ORR_FAMILIES], *learned_remarks[ORR_FAMILIES];
    orr_fit_split *splits;
    orr_fit_result *results;
    size_t n_splits, n_results;
} job;

static orr_status add_results(job *j, int family)
{
    if (j->table_remarks[family] != NULL) {
        orr_fit_result *result = &j->results[j->n_results++];
        *result = (orr_fit_result){.family = (uint8_t)family,
                                   .basis = ORR_BASIS_TABLE,
                                   .remark = j->table_remarks[family]};
        /* A table that does not interpolate makes no claim, and may hold the test set itself. */
        const bool is = j->table != NULL && j->table->families[family].neighbours > 0;
        ORR_TRY(score(&j->data, j->file, ask_table, is, result, j->err));
        if (is)
            j->table->families[family].error_frac = result->fitted.mape;
    }
    if (j->learned_remarks[family] != NULL) {
        orr_fit_result *result = &j->results[j->n_results++];
        *result = (orr_fit_result){.family = (uint8_t)family,
                                   .basis = ORR_BASIS_LEARNED,
                                   .remark = j->learned_remarks[family]};
        const bool is = j->learned != NULL && j->learned->families[family].present;
        ORR_TRY(score(&j->data, j->file, ask_learned, is, result, j->err));
        if (is)
            j->learned->families[family].error_frac = result->fitted.mape;
    }
    return ORR_OK;
}

static orr_status add_all_results(job *j)
{
    j->splits = orr_arena_array(j->arena, orr_fit_split, ORR_FAMILIES);
    j->results = orr_arena_array(j->arena, orr_fit_result, 2 * ORR_FAMILIES);
    if (j->splits == NULL || j->results == NULL)
        return orr_fail_memory(j->err);
    for (int family = 0; family < ORR_FAMILIES; family++) {
        if (j->data.first[family + 1] == j->data.first[family])
            continue;
        j->splits[j->n_splits++] = j->data.splits[family];
        ORR_TRY(add_results(j, family));
    }
    return ORR_OK;
}

static const char *keep(orr_arena *arena, const char *text)
{
    return orr_arena_strndup(arena, text, strlen(text));
}

static orr_status add_sources(job *j, const orr_samples *samples)
{
    const char **sources = orr_arena_array(j->arena, const char *, samples->sources.n);

    if (sources == NULL)
        return orr_fail_memory(j->err);
    for (size_t i = 0; i < samples->sources.n; i++)
        if ((sources[i] = keep(j->arena, samples->sources.at[i])) == NULL)
            return orr_fail_memory(j->err);
    j->file->sources = sources;
    j->file->n_sources = (uint32_t)samples->sources.n;
    return ORR_OK;
}

/* Devices in the order in which samples name them; there are few. */
static orr_status add_devices(job *j, const orr_samples *samples)
{
    orr_array(const orr_device *) devices = {0};
    orr_status status = ORR_OK;

    for (size_t i = 0; i < samples->rows.n && status == ORR_OK; i++) {
        const orr_device *device = samples->rows.at[i].device;
        size_t at = devices.n; /* from the end: rows of a device come together */
        while (at > 0 && devices.at[at - 1] != device)
            at--;
        if (at == 0 && !orr_array_push(&devices, device))
            status = orr_fail_memory(j->err);
    }
    const char **names = orr_arena_array(j->arena, const char *, devices.n);
    for (size_t i = 0; i < devices.n && names != NULL; i++)
        if ((names[i] = keep(j->arena, devices.at[i]->name)) == NULL)
            names = NULL;
    if (status == ORR_OK && names == NULL)
        status = orr_fail_memory(j->err);
    j->file->devices = names;
    j->file->n_devices = (uint32_t)devices.n;
    orr_array_done(&devices);
    return status;
}

static orr_status run(job *j, const orr_samples *samples)
{
    const orr_fit_options *options = j->options;
    orr_fit_progress progress = {.update = options->progress, .ctx = options->progress_ctx};

    ORR_TRY(orr_fit_data_make(samples, options->seed, j->arena, &j->data, j->err));
    progress.total = options->learned ? orr_fit_learned_steps(&j->data) : 0;
    j->file = orr_arena_one(j->arena, orr_cost_file);
    if (j->file == NULL)
        return orr_fail_memory(j->err);
    orr_cost_file_init(j->file);
    j->file->seed = options->seed;
    j->file->samples = samples->rows.n;
    ORR_TRY(add_sources(j, samples));
    ORR_TRY(add_devices(j, samples));
    if (options->table)
        ORR_TRY(orr_fit_table(&j->data, j->arena, &j->table, j->table_remarks, j->err));
    if (options->learned)
        ORR_TRY(orr_fit_learned(&j->data, j->arena, &progress, &j->learned, j->learned_remarks,
                                j->err));
    j->file->table = j->table;
    j->file->learned = j->learned;
    return add_all_results(j);
}

orr_status orr_fit_run(const orr_samples *samples, const orr_fit_options *options, orr_arena *arena,
                       orr_fit *ret, orr_error *err)
{
    orr_fit_options own = {0};
    job j = {.options = &own, .arena = arena, .err = err};
    const char *why;

    /* A caller that was built against an older header has a shorter struct. */
    memcpy(&own, options, options->struct_bytes < sizeof own ? options->struct_bytes : sizeof own);
    if (samples->rows.n == 0)
        return orr_fail(err, ORR_INVALID, "no sample: of no kernel both work and time are known");
    if (own.learned && !orr_fit_learned_available(&why))
        return orr_fail(err, ORR_UNSUPPORTED, "%s", why);
    ORR_TRY(run(&j, samples));
    *ret = (orr_fit){
        .model = j.table != NULL || j.learned != NULL ? &j.file->model : NULL,
        .splits = j.splits,
        .n_splits = j.n_splits,
        .results = j.results,
        .n_results = j.n_results,
    };
    return ORR_OK;
}

orr_status orr_fit_write(const orr_fit *fit, const char *path, orr_error *err)
{
    orr_output *out;

    if (fit->model == NULL)
        return orr_fail(err, ORR_INVALID, "nothing was fitted: there is no model to write");
    ORR_TRY(orr_output_open(path, &out, err));
    orr_cost_file_write((const orr_cost_file *)fit->model, out);
    const orr_status status = orr_output_finish(out, err);
    orr_output_close(out);
    return status;
}
