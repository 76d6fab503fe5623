/* SPDX-License-Identifier: Apache-2.0 */
#include "job_tables.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
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
                        .seconds = NAN,
                        .memory_gib = NAN,
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
    if (cases->n_left_out < JOB_LEFT_OUT_MOST)
        cases->left_out[cases->n_left_out++] = (job_left_out){table, reason, 1};
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

/* The split, written down before the first fit: a configuration is model, plan, tokens a sample,
 * task and cluster, as text; its hash is even: fitted, odd: judged. So rows of one configuration
 * (other releases, other submitters) are on one side. Rows of Llama 3 405B as its authors trained
 * it, and of Lumos, whose batch is read from its own times, are all judged. */
static void choose_side(job_cases *cases, job_case *c)
{
    const orr_model *m = c->model;
    const char *plan = orr_plan_text(&c->plan, cases->arena);
    const char *text =
        job_text(cases->arena, "%u %u %u %u %u %u %u|%u %u|%s|%s", m->layers, m->hidden, m->ffn,
                 m->heads, m->kv_heads, m->vocab, m->moe.experts, c->workload.task, c->workload.seq,
                 c->cluster, plan != NULL ? plan : "");
    c->configuration = hash_of(text, 0xcbf29ce484222325u);
    c->fitted = c->configuration % 2 == 0 && strcmp(c->table, "llama3_405b_table4") != 0 &&
                strcmp(c->table, "lumos_fig7_scaleout") != 0;
}

void job_cases_done(job_cases *cases, job_case *added)
{
    orr_error err = {0};
    const char *reason = NULL;
    if (added->model == NULL)
        reason = ""; /* said already */
    else if (!(added->seconds > 0))
        reason = "no time measured";
    added->plan = orr_plan_with_defaults(&added->plan);
    if (reason == NULL && orr_plan_check(&added->plan, &err) != ORR_OK)
        reason = job_text(cases->arena, "no such plan: %s", err.text);
    if (reason != NULL) {
        if (reason[0] != '\0')
            job_cases_leave_out(cases, added->table, reason);
        cases->n--;
        return;
    }
    choose_side(cases, added);
}

static void read_table(const char *folder, const job_table *table, job_cases *cases)
{
    job_csv csv;
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s.csv", folder, table->file) >= (int)sizeof path ||
        !job_csv_open(path, cases->arena, &csv))
        return;
    cases->n_tables++;
    table->read(&csv, table->file, cases);
}

bool job_cases_read(const char *folder, orr_arena *arena, job_cases *ret)
{
    static const job_table *const LISTS[] = {JOB_TABLES_A100, JOB_TABLES_NEMO, JOB_TABLES_OTHERS};
    job_cases cases = {.arena = arena, .at = orr_arena_array(arena, job_case, JOB_CASES_MOST)};
    if (cases.at == NULL)
        return false;
    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS; i++)
        for (const job_table *table = LISTS[i]; table->file != NULL; table++)
            read_table(folder, table, &cases);
    *ret = cases;
    return true;
}
