/* SPDX-License-Identifier: Apache-2.0 */

/* Published measurements of whole jobs, predicted and judged.
 *
 *   jobs --tables DIR [--tables DIR ...] [--calibrations DIR] [--fit DIR] [--device NAME]
 *        [--group NAME] [--rows | --json | --readings] [--threads N]
 *
 * Reads the tables of the folders that it knows and says what it left out, predicts every row with
 * the built-in calibrations (or those of --calibrations), and prints the errors of each group of
 * rows as Markdown. --fit first fits the calibrations of all devices and links at once on the
 * fitted side of the split (job_fit.h) and writes them into the folder.
 * --rows and --json print every row, --readings how each table was read. The split: job_tables.c.
 */
#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json/writer.h"
#include "job_fit.h"
#include "job_judge.h"

enum { TABLES_MOST = 16 };
typedef struct options {
    const char *tables[TABLES_MOST], *calibrations, *fit, *device, *group;
    size_t n_tables;
    bool rows, json, readings;
    int threads;
} options;

static bool read_options(int argc, char **argv, options *ret)
{
    options o = {.threads = 1};
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        const char **text = strcmp(word, "--tables") == 0 && o.n_tables < TABLES_MOST
                                ? &o.tables[o.n_tables]
                            : strcmp(word, "--calibrations") == 0 ? &o.calibrations
                            : strcmp(word, "--fit") == 0          ? &o.fit
                            : strcmp(word, "--device") == 0       ? &o.device
                            : strcmp(word, "--group") == 0        ? &o.group
                                                                  : NULL;
        if (text != NULL && value != NULL) {
            o.n_tables += text == &o.tables[o.n_tables];
            *text = argv[++i];
        } else if (strcmp(word, "--threads") == 0 && value != NULL)
            o.threads = (int)strtol(argv[++i], NULL, 10);
        else if (strcmp(word, "--rows") == 0)
            o.rows = true;
        else if (strcmp(word, "--json") == 0)
            o.json = true;
        else if (strcmp(word, "--readings") == 0)
            o.readings = true;
        else
            return false;
    }
    *ret = o;
    return o.n_tables > 0 || o.readings;
}

/* Only the rows of one device or one group are looked at. */
static void narrow(job_cases *cases, job_world *world, const options *o)
{
    size_t n = 0;
    for (size_t i = 0; i < cases->n; i++) {
        const job_case *c = &cases->at[i];
        if ((o->device == NULL || strcmp(job_device_of(world, c)->device->name, o->device) == 0) &&
            (o->group == NULL || strcmp(c->group, o->group) == 0))
            cases->at[n++] = *c;
    }
    cases->n = n;
}

static const char *basis_of(job_cases *cases, job_world *world, const job_device *device)
{
    const char *text = "", *last = "";
    size_t n = 0;
    for (size_t i = 0; i < cases->n; i++) {
        const job_case *c = &cases->at[i];
        if (job_device_of(world, c) != device || !c->fitted)
            continue;
        n++;
        if (strcmp(last, c->table) != 0 && strstr(text, c->table) == NULL)
            text = job_text(cases->arena, "%s%s%s", text, text[0] != '\0' ? ", " : "", c->table);
        last = c->table;
    }
    return job_text(cases->arena, "%zu rows of %s", n, text);
}

static orr_status fit_all(job_cases *cases, job_world *world, const options *o, orr_error *err)
{
    job_fit fit;
    ORR_TRY(job_fit_all(world, cases, &fit, err));
    ORR_TRY(job_fit_intervals(&fit, err));
    for (size_t d = 0; d < world->n_devices; d++)
        world->devices[d].calibration.source = basis_of(cases, world, &world->devices[d]);
    return job_fit_write(&fit, o->fit, err);
}

static void print_percent(double frac)
{
    if (isnan(frac))
        printf(" |");
    else
        printf(" %.1f %% |", 100 * frac);
}

static void print_scores(const job_cases *cases, const job_prediction *predictions, bool fitted)
{
    const char *groups[64];
    size_t n = job_groups(cases, groups, 63);
    groups[n++] = NULL;
    printf("| %s | rows | mean | worst | bias | plans compared | Kendall tau | in 90 %% interval | "
           "memory, mean | "
           "worst | not predicted |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
           fitted ? "fitted" : "judged");
    for (size_t i = 0; i < n; i++) {
        job_score s;
        job_score_of(cases, predictions, groups[i], fitted, &s);
        if (s.n == 0 && s.n_unpredicted == 0 && s.n_memory == 0)
            continue;
        printf("| %s | %zu |", groups[i] != NULL ? groups[i] : "all of training", s.n);
        print_percent(s.mean);
        print_percent(s.n > 0 ? s.worst : NAN);
        print_percent(s.bias);
        if (s.n_plans > 0)
            printf(" %zu | %.2f |", s.n_plans, s.tau);
        else
            printf(" | |");
        print_percent(s.covered);
        print_percent(s.n_memory > 0 ? s.memory_mean : NAN);
        print_percent(s.n_memory > 0 ? s.memory_worst : NAN);
        printf(" %zu |\n", s.n_unpredicted);
    }
}

static void print_rows(const job_cases *cases, const job_prediction *predictions)
{
    for (size_t i = 0; i < cases->n; i++) {
        const job_case *c = &cases->at[i];
        const job_prediction *p = &predictions[i];
        printf("%s,%zu,%s,%.6g,%.6g,%.4f", c->table, c->row, c->fitted ? "fitted" : "judged",
               c->seconds, p->seconds, p->seconds / c->seconds - 1);
        for (int w = 0; w < ORR_WATERFALLS; w++)
            printf(",%.6g", (double)p->waterfall_ns[w] / 1e9);
        printf(",%.2f,%.2f,\"%s\",\"%s\"\n", c->memory_gib, p->memory_gib, c->label,
               p->reason);
    }
}

static void write_row(orr_json_writer *w, const job_case *c, const job_prediction *p)
{
    orr_json_write_object(w);
#define TEXT_(key, value)   (orr_json_write_key(w, key), orr_json_write_cstr(w, value))
#define NUMBER_(key, value) (orr_json_write_key(w, key), orr_json_write_double(w, value))
    TEXT_("table", c->table);
    NUMBER_("row", (double)c->row);
    TEXT_("group", c->group);
    TEXT_("label", c->label);
    TEXT_("cluster", c->cluster);
    TEXT_("side", c->fitted ? "fitted" : "judged");
    TEXT_("framework", c->framework);
    NUMBER_("software_year", c->software_year);
    TEXT_("memory_kind", c->memory_kind);
    NUMBER_("measured_s", c->seconds);
    NUMBER_("predicted_s", p->seconds);
    NUMBER_("low_s", p->low_s);
    NUMBER_("high_s", p->high_s);
    NUMBER_("measured_gib", c->memory_gib);
    NUMBER_("predicted_gib", p->memory_gib);
    if (p->reason[0] != '\0')
        TEXT_("reason", p->reason);
#undef TEXT_
#undef NUMBER_
    orr_json_write_object_end(w);
}

static orr_status write_json(const job_cases *cases, const job_prediction *predictions,
                             orr_error *err)
{
    orr_output *out;
    orr_json_writer w;
    ORR_TRY(orr_output_open("-", &out, err));
    orr_json_write_init(&w, out);
    orr_json_write_object(&w);
    orr_json_write_key(&w, "schema");
    orr_json_write_cstr(&w, "orrery.published-jobs/1");
    orr_json_write_key(&w, "rows");
    orr_json_write_array(&w);
    for (size_t i = 0; i < cases->n; i++) {
        orr_json_write_newline(&w);
        write_row(&w, &cases->at[i], &predictions[i]);
    }
    orr_json_write_array_end(&w);
    orr_json_write_object_end(&w);
    orr_json_write_newline(&w);
    const orr_status status = orr_output_finish(out, err);
    orr_output_close(out);
    return status;
}

static void print_readings(void)
{
    for (size_t i = 0; JOB_TABLES[i] != NULL; i++)
        for (const job_table *table = JOB_TABLES[i]; table->file != NULL; table++)
            printf("| %s | %s |\n", table->file, table->reading);
}

static void print_left_out(const job_cases *cases)
{
    for (size_t i = 0; i < cases->n_left_out; i++)
        fprintf(stderr, "%s: %zu rows left out: %s\n", cases->left_out[i].table,
                cases->left_out[i].rows, cases->left_out[i].reason);
    for (size_t i = 0; i < cases->n_columns; i++)
        fprintf(stderr, "%s: columns that are not read: %s\n", cases->columns[i].table,
                cases->columns[i].text);
}

static orr_status run(const options *o, orr_arena *arena, orr_error *err)
{
    job_cases cases;
    job_world world;
    if (!job_cases_init(arena, &cases))
        return orr_fail_memory(err);
    for (size_t i = 0; i < o->n_tables; i++) {
        const size_t n = cases.n_tables;
        job_cases_read(o->tables[i], &cases);
        if (cases.n_tables == n)
            return orr_fail(err, ORR_NOT_FOUND, "%s has no table that is known here", o->tables[i]);
    }
    print_left_out(&cases);
    ORR_TRY(job_world_open(&cases, o->calibrations, arena, &world, err));
    world.threads = o->threads;
    narrow(&cases, &world, o);
    job_prediction *predictions = orr_arena_array(arena, job_prediction, cases.n + 1);
    if (predictions == NULL)
        return orr_fail_memory(err);
    if (o->fit != NULL)
        ORR_TRY(fit_all(&cases, &world, o, err));
    ORR_TRY(job_predict_all(&world, &cases, predictions, err));
    if (o->json)
        return write_json(&cases, predictions, err);
    if (o->rows) {
        print_rows(&cases, predictions);
        return ORR_OK;
    }
    print_scores(&cases, predictions, false);
    printf("\n");
    print_scores(&cases, predictions, true);
    return ORR_OK;
}

int main(int argc, char **argv)
{
    options o;
    orr_error err = {0};
    if (!read_options(argc, argv, &o)) {
        fprintf(stderr,
                "usage: jobs --tables DIR ... [--calibrations DIR] [--fit DIR] [--device NAME] "
                "[--group NAME] [--rows | --json | --readings] [--threads N]\n");
        return 2;
    }
    if (o.readings) {
        print_readings();
        return 0;
    }
    /* Each prediction opens and closes an arena: its pages are kept. */
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 30);
    (void)mallopt(M_TRIM_THRESHOLD, INT_MAX);
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_status status = arena != NULL ? run(&o, arena, &err) : orr_fail_memory(&err);
    orr_arena_free(arena);
    if (status != ORR_OK)
        fprintf(stderr, "jobs: %s\n", err.text);
    return status == ORR_OK ? 0 : 1;
}
