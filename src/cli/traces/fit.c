/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/progress.h"
#include "cli/arguments/factor.h"
#include "cli/command/session.h"

/* A cost model out of recordings and CSV files: the model goes to --output, how good it is to
 * standard output. */
typedef struct fitting {
    orr_session session;
    const orr_catalog *catalog;
    const orr_device *device; /* or NULL: as the inputs say */
    orr_samples *samples;
    orr_fit_options options;
    orr_fit fit;
    size_t n_recordings;
} fitting;

static bool is_csv(const char *path)
{
    static const char *const ENDINGS[] = {".csv", ".csv.gz", ".csv.zst"};
    const size_t n = strlen(path);
    for (size_t i = 0; i < sizeof ENDINGS / sizeof *ENDINGS; i++) {
        const size_t len = strlen(ENDINGS[i]);
        if (n > len && strcmp(path + n - len, ENDINGS[i]) == 0)
            return true;
    }
    return false;
}

static orr_status parse_kind(const char *kind, orr_fit_options *options, orr_error *err)
{
    const bool both = kind == NULL || strcmp(kind, "both") == 0;
    options->table = both || strcmp(kind, "table") == 0;
    options->learned = both || strcmp(kind, "learned") == 0;
    if (!options->table && !options->learned)
        return orr_fail(err, ORR_INVALID, "--kind: '%s' is not one of table|learned|both", kind);
    return ORR_OK;
}

/* What can be wrong with the command line alone. */
static orr_status parse(fitting *f)
{
    const orr_settings *settings = f->session.settings;
    orr_error *err = &f->session.err;

    if (settings->output == NULL)
        return orr_fail(err, ORR_INVALID, "fit: where to? Add -o MODEL");
    ORR_TRY(orr_parse_seed(settings->seed != NULL ? settings->seed : "1", &f->options.seed, err));
    ORR_TRY(parse_kind(settings->kind, &f->options, err));
    for (size_t i = 0; i < settings->n_args; i++)
        f->n_recordings += !is_csv(settings->args[i]);
    if (settings->overheads != NULL && f->n_recordings != 1)
        return orr_fail(err, ORR_INVALID,
                        "--overheads: of which job? It needs one recording, here are %zu",
                        f->n_recordings);
    return ORR_OK;
}

/* Without XGBoost the table is still worth having, unless trees were asked for by name. */
static orr_status check_learned(fitting *f)
{
    const char *why;
    if (!f->options.learned || orr_fit_learned_available(&why))
        return ORR_OK;
    if (!f->options.table)
        return orr_fail(&f->session.err, ORR_UNSUPPORTED, "%s; --kind table does without", why);
    orr_session_remark(&f->session, "%s: only the table is made", why);
    f->options.learned = false;
    return ORR_OK;
}

static void remark_rows(const fitting *f, const char *path, const orr_samples_report *report)
{
    if (report->without_work || report->without_time || f->session.settings->verbose)
        orr_session_remark(
            &f->session,
            "%s: %llu kernels taken; passed over: %llu of unknown work, %llu without time", path,
            (unsigned long long)report->taken, (unsigned long long)report->without_work,
            (unsigned long long)report->without_time);
}

static orr_status write_overheads(fitting *f, const orr_job *job)
{
    orr_session *session = &f->session;
    orr_overheads overheads;

    ORR_TRY(orr_overheads_extract(job, session->arena, &overheads, &session->err));
    return orr_overheads_save(&overheads, session->settings->overheads, &session->err);
}

/* Each recording is a job of its own: several need not fit together. */
static orr_status add_recording(fitting *f, const char *path, orr_samples_report *report)
{
    orr_session *session = &f->session;

    ORR_TRY(orr_session_load(session, &path, 1));
    ORR_TRY(orr_samples_add_job(f->samples, session->job, f->catalog, f->device, path, report,
                                &session->err));
    if (session->settings->overheads != NULL)
        ORR_TRY(write_overheads(f, session->job));
    orr_job_free(session->job);
    session->job = NULL;
    return ORR_OK;
}

static orr_status add_inputs(fitting *f)
{
    orr_session *session = &f->session;
    const orr_settings *settings = session->settings;

    ORR_TRY(orr_catalog_open(session->arena, &f->catalog, &session->err));
    if (settings->device != NULL)
        ORR_TRY(orr_device_load(f->catalog, settings->device, session->arena, &f->device,
                                &session->err));
    f->samples = orr_samples_new();
    if (f->samples == NULL)
        return orr_fail_memory(&session->err);
    for (size_t i = 0; i < settings->n_args; i++) {
        const char *path = settings->args[i];
        orr_samples_report report = {0};
        if (is_csv(path))
            ORR_TRY(orr_samples_add_csv(f->samples, path, f->catalog, f->device, &report,
                                        &session->err));
        else
            ORR_TRY(add_recording(f, path, &report));
        remark_rows(f, path, &report);
    }
    return ORR_OK;
}

static bool show_progress(void *ctx, uint64_t done, uint64_t total)
{
    orr_progress_update(ctx, done, total);
    return true;
}

static orr_status run_fit(fitting *f)
{
    orr_session *session = &f->session;
    orr_progress progress;

    orr_progress_init(&progress, "fitting", false, STDERR_FILENO, session->settings->quiet, NULL);
    f->options.struct_bytes = sizeof f->options;
    f->options.progress = show_progress;
    f->options.progress_ctx = &progress;
    const orr_status status =
        orr_fit_run(f->samples, &f->options, session->arena, &f->fit, &session->err);
    orr_progress_done(&progress);
    return status;
}

typedef struct split_row {
    const char *family;
    uint64_t samples[ORR_SUBSETS];
    uint32_t groups[ORR_SUBSETS];
} split_row;

static const orr_column SPLIT_COLUMNS[] = {
    {"family", ORR_COLUMN_TEXT, offsetof(split_row, family)},
    {"train_samples", ORR_COLUMN_U64, offsetof(split_row, samples[ORR_SUBSET_TRAIN])},
    {"validation_samples", ORR_COLUMN_U64, offsetof(split_row, samples[ORR_SUBSET_VALIDATION])},
    {"test_samples", ORR_COLUMN_U64, offsetof(split_row, samples[ORR_SUBSET_TEST])},
    {"train_groups", ORR_COLUMN_U32, offsetof(split_row, groups[ORR_SUBSET_TRAIN])},
    {"validation_groups", ORR_COLUMN_U32, offsetof(split_row, groups[ORR_SUBSET_VALIDATION])},
    {"test_groups", ORR_COLUMN_U32, offsetof(split_row, groups[ORR_SUBSET_TEST])},
};

typedef struct error_row {
    const char *family, *model, *remark;
    uint64_t rows, answered;
    orr_fit_score fitted, roofline;
} error_row;

static const orr_column ERROR_COLUMNS[] = {
    {"family", ORR_COLUMN_TEXT, offsetof(error_row, family)},
    {"model", ORR_COLUMN_TEXT, offsetof(error_row, model)},
    {"test_samples", ORR_COLUMN_U64, offsetof(error_row, rows)},
    {"predicted_samples", ORR_COLUMN_U64, offsetof(error_row, answered)},
    {"gmae", ORR_COLUMN_FRAC, offsetof(error_row, fitted.gmae)},
    {"mape", ORR_COLUMN_FRAC, offsetof(error_row, fitted.mape)},
    {"p90", ORR_COLUMN_FRAC, offsetof(error_row, fitted.p90)},
    {"roofline_gmae", ORR_COLUMN_FRAC, offsetof(error_row, roofline.gmae)},
    {"roofline_mape", ORR_COLUMN_FRAC, offsetof(error_row, roofline.mape)},
    {"roofline_p90", ORR_COLUMN_FRAC, offsetof(error_row, roofline.p90)},
    {"remark", ORR_COLUMN_TEXT, offsetof(error_row, remark)},
};

static orr_status make_tables(fitting *f, orr_table ret[2])
{
    const orr_fit *fit = &f->fit;
    split_row *splits = orr_arena_array(f->session.arena, split_row, fit->n_splits);
    error_row *errors = orr_arena_array(f->session.arena, error_row, fit->n_results);

    if (splits == NULL || errors == NULL)
        return orr_fail_memory(&f->session.err);
    for (size_t i = 0; i < fit->n_splits; i++) {
        splits[i].family = orr_kernel_family_name((orr_kernel_family)fit->splits[i].family);
        memcpy(splits[i].samples, fit->splits[i].samples, sizeof splits[i].samples);
        memcpy(splits[i].groups, fit->splits[i].groups, sizeof splits[i].groups);
    }
    for (size_t i = 0; i < fit->n_results; i++) {
        const orr_fit_result *result = &fit->results[i];
        errors[i] = (error_row){
            .family = orr_kernel_family_name((orr_kernel_family)result->family),
            .model = orr_basis_name((orr_basis)result->basis),
            .remark = result->remark,
            .rows = result->rows,
            .answered = result->answered,
            .fitted = result->fitted,
            .roofline = result->roofline,
        };
    }
    ret[0] = (orr_table){"orrery.fit_split/1",
                         "Samples and shape groups, by side",
                         SPLIT_COLUMNS,
                         sizeof SPLIT_COLUMNS / sizeof *SPLIT_COLUMNS,
                         splits,
                         sizeof *splits,
                         fit->n_splits};
    ret[1] = (orr_table){"orrery.fit_errors/1",
                         "Errors on shapes that were held out, and those of the roofline on them",
                         ERROR_COLUMNS,
                         sizeof ERROR_COLUMNS / sizeof *ERROR_COLUMNS,
                         errors,
                         sizeof *errors,
                         fit->n_results};
    return ORR_OK;
}

static orr_status print(fitting *f)
{
    static const char *const NAMES[] = {"split", "errors"};
    orr_session *session = &f->session;
    const orr_settings *settings = session->settings;
    orr_settings to_stdout = *settings;
    orr_table tables[2];
    orr_table_style style;

    to_stdout.output = NULL; /* --output is the model */
    to_stdout.all = true;
    session->settings = &to_stdout;
    orr_status status = orr_session_output(session, &style);
    session->settings = settings;
    if (status == ORR_OK)
        status = make_tables(f, tables);
    const bool json = status == ORR_OK && style.format == ORR_TABLE_JSON;
    if (json)
        orr_output_printf(
            session->out,
            "{\"schema\":\"orrery.fit/1\",\"version\":\"%s\",\"seed\":\"%llu\",\"tables\":{",
            orr_version(), (unsigned long long)f->options.seed);
    for (size_t i = 0; i < 2 && status == ORR_OK; i++) {
        if (json)
            orr_output_printf(session->out, "%s\n\"%s\":", i > 0 ? "," : "", NAMES[i]);
        else if (i > 0)
            orr_output_text(session->out, "\n");
        orr_table_write(&tables[i], &style, session->out);
    }
    if (json)
        orr_output_text(session->out, "}}\n");
    if (status == ORR_OK)
        status = orr_output_finish(session->out, &session->err);
    return status;
}

/* The model is written first: what is printed is true of a file that is there. */
static orr_status fit_and_print(fitting *f)
{
    orr_session *session = &f->session;

    ORR_TRY(check_learned(f));
    ORR_TRY(add_inputs(f));
    ORR_TRY(run_fit(f));
    if (f->fit.model != NULL)
        ORR_TRY(orr_fit_write(&f->fit, session->settings->output, &session->err));
    return print(f);
}

int orr_command_fit(const orr_settings *settings)
{
    fitting f = {0};
    int code = EXIT_DONE;

    if (orr_session_init(&f.session, settings) != ORR_OK) {
        code = orr_session_fail(&f.session);
    } else if (parse(&f) != ORR_OK) {
        orr_session_fail(&f.session);
        code = EXIT_USAGE;
    } else if (fit_and_print(&f) != ORR_OK) {
        code = orr_session_fail(&f.session);
    } else if (f.fit.model == NULL) {
        orr_session_remark(&f.session, "no model was made: no family has enough shapes for one");
        code = EXIT_INFEASIBLE;
    }
    orr_samples_free(f.samples);
    orr_session_done(&f.session);
    return code;
}
