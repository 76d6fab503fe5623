/* SPDX-License-Identifier: Apache-2.0 */
#include "job_tables.h"

#include <dirent.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *job_text(orr_arena *arena, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *kept = n < 0 ? NULL : orr_arena_strndup(arena, text, strlen(text));
    return kept != NULL ? kept : "";
}

job_case *job_cases_add(job_cases *cases, const char *table, size_t row, const char *group)
{
    if (cases->n == JOB_CASES_MOST) {
        job_cases_leave_out(cases, table, "too many rows");
        return NULL;
    }
    job_case *added = &cases->at[cases->n++];
    *added = (job_case){.table = table,
                        .row = row + 1,
                        .group = group,
                        .label = "",
                        .cluster = "",
                        .seconds = NAN,
                        .memory_gib = NAN,
                        .memory_kind = "",
                        .framework = "",
                        .software_year = NAN,
                        .workload = {.task = ORR_TASK_PRETRAIN}};
    return added;
}

void job_cases_leave_out(job_cases *cases, const char *table, const char *reason)
{
    for (size_t i = 0; i < cases->n_left_out; i++) {
        job_left_out *one = &cases->left_out[i];
        if (strcmp(one->table, table) == 0 && strcmp(one->reason, reason) == 0) {
            one->rows++;
            return;
        }
    }
    if (cases->n_left_out + 1 < JOB_LEFT_OUT_MOST)
        cases->left_out[cases->n_left_out++] = (job_left_out){table, reason, 1};
    else if (strcmp(table, "all") != 0)
        job_cases_leave_out(cases, "all", "more reasons than are kept");
}

void job_refuse(job_case *c, const char *reason)
{
    if (c->refused == NULL)
        c->refused = reason;
}

/* FNV-1a, then the finisher of MurmurHash3 so that every bit depends on all of the text. */
static uint64_t hash_of(const char *text, uint64_t h)
{
    for (; *text != '\0'; text++)
        h = (h ^ (uint8_t)*text) * 0x100000001b3u;
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

/* The split, written down before the first fit: a configuration is model, degrees, batch,
 * recomputation, precision, tokens a sample, task and cluster, as text; its hash is even: fitted,
 * odd: judged. So rows of one configuration (other releases, other submitters) are on one side, and
 * what is added to plans later moves none. Rows of Llama 3 405B as its authors trained it, and of
 * Lumos, whose batch is read from its own times, are all judged. */
static void choose_side(job_cases *cases, job_case *c)
{
    static const orr_model NONE = {0};
    const orr_model *m = c->model != NULL ? c->model : &NONE;
    const orr_plan *p = &c->plan;
    const orr_plan kept = {.dp = p->dp,
                           .tp = p->tp,
                           .pp = p->pp,
                           .cp = p->cp,
                           .ep = p->ep,
                           .vp = p->vp,
                           .layers = p->layers,
                           .micro_batch = p->micro_batch,
                           .batch = p->batch,
                           .recompute = p->recompute,
                           .precision = p->precision};
    const char *plan = orr_plan_text(&kept, cases->arena);
    const char *text =
        job_text(cases->arena, "%u %u %u %u %u %u %u|%u %u|%s|%s", m->layers, m->hidden, m->ffn,
                 m->heads, m->kv_heads, m->vocab, m->moe.experts, c->workload.task, c->workload.seq,
                 c->cluster, plan != NULL ? plan : "");
    if (c->measure != JOB_STEP)
        text = job_text(cases->arena, "%s|%u %u|%u %u|%s", text, c->workload.prompt,
                        c->workload.generated, c->batch, c->kv_precision,
                        c->kernel != NULL ? c->label : "");
    c->configuration = hash_of(text, 0xcbf29ce484222325u);
    c->fitted = c->configuration % 2 == 0 && strcmp(c->table, "llama3_405b_table4") != 0 &&
                strcmp(c->table, "lumos_fig7_scaleout") != 0;
}

static void check_case(job_cases *cases, job_case *c)
{
    orr_error err = {0};
    const job_csv_asked *asked = cases->csv != NULL ? cases->csv->asked : NULL;
    if (asked != NULL && asked->column != NULL && asked->row + 1 == c->row)
        job_refuse(c,
                   job_text(cases->arena, "%s: '%.40s' is no number", asked->column, asked->cell));
    if (c->model == NULL && c->kernel == NULL)
        job_refuse(c, "out of memory");
    if (!(c->seconds > 0) && !(c->memory_gib > 0))
        job_refuse(c, "nothing measured that is told");
    c->plan = orr_plan_with_defaults(&c->plan);
    if (c->refused == NULL && orr_plan_check(&c->plan, &err) != ORR_OK)
        job_refuse(c, job_text(cases->arena, "no such plan: %s", err.text));
}

/* Megatron and what grew from it give all stages equally many layers unless told otherwise; a plan
 * of Orrery that says nothing splits them by cost. */
static void split_evenly(job_case *c)
{
    orr_plan *p = &c->plan;
    const uint32_t layers = p->layers > 0 ? p->layers : c->model != NULL ? c->model->layers : 0;
    const uint32_t chunks = p->pp * (p->vp > 0 ? p->vp : 1);
    if (p->pp < 2 || p->first_layers > 0 || p->last_layers > 0 || p->section_stages[0] > 0 ||
        layers % chunks != 0)
        return;
    p->first_layers = p->last_layers = layers / p->pp;
}

void job_cases_done(job_cases *cases, job_case *added)
{
    check_case(cases, added);
    if (added->refused != NULL) {
        job_cases_leave_out(cases, added->table, added->refused);
        cases->n--;
        return;
    }
    choose_side(cases, added);
    if (strncmp(added->framework, "mega", 4) == 0)
        split_evenly(added);
}

static void tell_columns(const job_csv *csv, const char *file, job_cases *cases)
{
    const char *text = "";
    for (size_t c = 0; c < csv->n_columns && csv->n_rows > 0; c++)
        if (!csv->asked->columns[c])
            text =
                job_text(cases->arena, "%s%s%s", text, text[0] != '\0' ? ", " : "", csv->cells[c]);
    if (text[0] != '\0')
        cases->columns[cases->n_columns++ % JOB_FILES_MOST] = (job_reading){file, text};
}

static void read_table(const char *folder, const char *name, const job_table *table,
                       job_cases *cases)
{
    job_csv csv;
    const size_t n = cases->n;
    const char *path = job_text(cases->arena, "%s/%s", folder, name);
    if (!job_csv_open(path, cases->arena, &csv)) {
        job_cases_leave_out(cases, name, "the file is no table");
        return;
    }
    cases->n_tables++;
    cases->csv = &csv;
    table->read(&csv, table->file, cases);
    cases->csv = NULL;
    if (csv.asked->absent != NULL) {
        cases->n = n;
        for (size_t row = 0; row < csv.n_rows; row++)
            job_cases_leave_out(
                cases, name,
                job_text(cases->arena, "the table has no column '%s'", csv.asked->absent));
    }
    tell_columns(&csv, name, cases);
}

/* Is the file's name the table's, up to the first point, and a table? */
static bool is_named(const char *name, const char *table)
{
    const size_t n = strcspn(name, ".");
    return strncmp(name, table, n) == 0 && table[n] == '\0';
}

static bool is_csv(const char *name)
{
    const size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, ".csv") == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t files_of(const char *folder, job_cases *cases, const char **ret)
{
    size_t n = 0;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return 0;
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        if (is_csv(e->d_name) && n < JOB_FILES_MOST)
            ret[n++] = job_text(cases->arena, "%s", e->d_name);
    closedir(dir);
    qsort(ret, n, sizeof *ret, compare_names);
    return n;
}

const job_table *const JOB_TABLES[] = {JOB_TABLES_A100,
                                       JOB_TABLES_NEMO,
                                       JOB_TABLES_OTHERS,
                                       JOB_TABLES_FAMOUS,
                                       JOB_TABLES_SERVING,
                                       JOB_TABLES_KERNELS,
                                       NULL};

bool job_cases_init(orr_arena *arena, job_cases *ret)
{
    *ret = (job_cases){.arena = arena, .at = orr_arena_array(arena, job_case, JOB_CASES_MOST)};
    return ret->at != NULL;
}

void job_cases_read(const char *folder, job_cases *cases)
{
    const char *files[JOB_FILES_MOST];
    bool known[JOB_FILES_MOST] = {false};
    const size_t n = files_of(folder, cases, files);
    for (size_t i = 0; JOB_TABLES[i] != NULL; i++)
        for (const job_table *table = JOB_TABLES[i]; table->file != NULL; table++)
            for (size_t f = 0; f < n; f++)
                if (is_named(files[f], table->file)) {
                    known[f] = true;
                    read_table(folder, files[f], table, cases);
                }
    for (size_t f = 0; f < n; f++)
        if (!known[f])
            job_cases_leave_out(cases, files[f], "no reader knows this table");
}
