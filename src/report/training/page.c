/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page/page.h"

#include <math.h>
#include <stdio.h>

#include "report/humanize/human.h"
#include "report/training/chart.h"

/* The page of a training that was run. */

enum { MOST_ROWS = 1000 };
static const char *const CLASSES[ORR_TIERS] = {"k-compute", "k-memory", "k-comm"};

typedef struct subject {
    const char *model;
    const orr_train_result *result;
} subject;

static const orr_train_result *result_of(const orr_html_page *p)
{
    return ((const subject *)p->subject)->result;
}

static bool has_tiers(const orr_train_result *r)
{
    return r->tiers[ORR_TIER_BYTE] || r->tiers[ORR_TIER_BLOCK];
}

static void put_about(const orr_html_page *p)
{
    const orr_train_result *r = result_of(p);
    char ns[ORR_HUMAN_MAX], bytes[ORR_HUMAN_MAX];
    orr_html_printf(p->out, "%lld steps of %s; %s of memory at the peak of a rank",
                    (long long)r->steps, orr_human_ns(ns, (double)r->step_ns),
                    orr_human_bytes(bytes, (double)r->peak_bytes));
}

static void put_nav(const orr_html_page *p)
{
    orr_html_link(p->out, "loss", "Loss");
    if (has_tiers(result_of(p)))
        orr_html_link(p->out, "rows", "Rows in storage");
    orr_html_link(p->out, "tables", "Tables");
}

static const char *as_number(char ret[64], double value)
{
    (void)snprintf(ret, 64, "%.4g", value);
    return ret;
}

static const char *as_frac(char ret[64], double value)
{
    (void)snprintf(ret, 64, "%.0f %%", 100 * value);
    return ret;
}

static const char *as_ms(char ret[64], double value)
{
    (void)snprintf(ret, 64, "%.3g ms", value);
    return ret;
}

/* Bounds of the vertical axis. */
static void find_bounds(orr_step_chart *c)
{
    c->least = INFINITY;
    c->most = -INFINITY;
    for (uint32_t k = 0; k < c->n; k++)
        for (int64_t i = 0; i < c->steps; i++)
            if (isfinite(c->curves[k].value[i])) {
                c->least = fmin(c->least, c->curves[k].value[i]);
                c->most = fmax(c->most, c->curves[k].value[i]);
            }
    if (!(c->least <= c->most))
        c->least = c->most = 0;
}

static orr_status put_loss(const orr_html_page *p)
{
    const orr_train_result *r = result_of(p);
    double *loss = orr_arena_array(p->arena, double, (size_t)r->steps + 1);
    if (loss == NULL)
        return orr_fail_memory(p->err);
    for (int64_t i = 0; i < r->steps; i++)
        loss[i] = r->history[i].loss;
    const orr_step_curve curve = {"loss", "k-compute", loss};
    orr_step_chart chart = {.title = "Loss by step",
                            .curves = &curve,
                            .n = 1,
                            .first_step = r->history[0].step,
                            .steps = r->steps,
                            .format = as_number};
    find_bounds(&chart);
    orr_html_section_open(p->out, "loss", "Loss");
    orr_step_chart_put(p->out, &chart);
    orr_html_section_close(p->out);
    return ORR_OK;
}

/* --- rows that do not live in memory -----------------------------------------------------------
 */

static void put_tiles(const orr_html_page *p, int tier)
{
    const orr_train_rows *rows = &result_of(p)->rows[tier];
    char hit[ORR_HUMAN_MAX], stall[ORR_HUMAN_MAX], read[ORR_HUMAN_MAX], written[ORR_HUMAN_MAX];
    const double lookups = (double)rows->lookups;
    orr_html_tile(p->out, CLASSES[tier],
                  orr_arena_printf(p->arena, "Hits, tier %s", orr_tier_name((orr_tier)tier)),
                  rows->lookups > 0 ? orr_human_frac(hit, (double)rows->hits / lookups) : "-",
                  orr_arena_printf(p->arena, "of %lld lookups", (long long)rows->lookups));
    orr_html_tile(p->out, NULL, "Waited for rows", orr_human_ns(stall, (double)rows->stall_ns),
                  orr_arena_printf(p->arena, "%lld demand misses", (long long)rows->demand_misses));
    orr_html_tile(p->out, NULL, "Read and written",
                  orr_arena_printf(p->arena, "%s, %s",
                                   orr_human_bytes(read, (double)rows->read_bytes),
                                   orr_human_bytes(written, (double)rows->written_bytes)),
                  orr_arena_printf(p->arena, "%lld reads", (long long)rows->reads));
}

static double hit_frac(const orr_train_rows *rows)
{
    return rows->lookups > 0 ? (double)rows->hits / (double)rows->lookups : NAN;
}

static double stall_ms(const orr_train_rows *rows)
{
    return (double)rows->stall_ns / 1e6;
}

/* A curve for each tier, out of what its rows took in each step. */
static orr_status find_curves(const orr_html_page *p, double (*of)(const orr_train_rows *),
                              orr_step_curve ret[ORR_TIERS], uint32_t *ret_n)
{
    const orr_train_result *r = result_of(p);
    *ret_n = 0;
    for (int tier = ORR_TIER_DRAM + 1; tier < ORR_TIERS; tier++) {
        if (!r->tiers[tier])
            continue;
        double *value = orr_arena_array(p->arena, double, (size_t)r->steps + 1);
        if (value == NULL)
            return orr_fail_memory(p->err);
        for (int64_t i = 0; i < r->steps; i++)
            value[i] = r->history[i].rows != NULL ? of(&r->history[i].rows[tier]) : NAN;
        ret[(*ret_n)++] = (orr_step_curve){orr_tier_name((orr_tier)tier), CLASSES[tier], value};
    }
    return ORR_OK;
}

static orr_status put_rows(const orr_html_page *p)
{
    const orr_train_result *r = result_of(p);
    orr_step_curve curves[ORR_TIERS];
    orr_step_chart chart = {
        .curves = curves, .first_step = r->history[0].step, .steps = r->steps, .most = 1};
    orr_html_section_open(p->out, "rows", "Rows in storage");
    orr_html_tiles_open(p->out);
    for (int tier = ORR_TIER_DRAM + 1; tier < ORR_TIERS; tier++)
        if (r->tiers[tier])
            put_tiles(p, tier);
    orr_html_tiles_close(p->out);
    chart.title = "Hit rate by step";
    chart.note = "of lookups in tables of each tier";
    chart.format = as_frac;
    ORR_TRY(find_curves(p, hit_frac, curves, &chart.n));
    orr_step_chart_put(p->out, &chart);
    chart.title = "Waited for rows by step";
    chart.note = "on the rank that waited longest";
    chart.format = as_ms;
    ORR_TRY(find_curves(p, stall_ms, curves, &chart.n));
    find_bounds(&chart);
    chart.least = 0;
    chart.most = fmax(chart.most, 1); /* a millisecond, where nobody waited */
    orr_step_chart_put(p->out, &chart);
    orr_html_section_close(p->out);
    return ORR_OK;
}

static orr_status put_main(const orr_html_page *p)
{
    const orr_train_result *r = result_of(p);
    orr_named_table tables[ORR_TRAINING_TABLES + ORR_TRAINING_ROW_TABLES];
    int n = ORR_TRAINING_TABLES;
    ORR_TRY(orr_training_tables(r, NULL, p->arena, tables, p->err));
    if (has_tiers(r)) {
        ORR_TRY(orr_training_row_tables(r, p->arena, &tables[n], p->err));
        n += ORR_TRAINING_ROW_TABLES;
    }
    if (r->steps > 0)
        ORR_TRY(put_loss(p));
    if (r->steps > 0 && has_tiers(r))
        ORR_TRY(put_rows(p));
    orr_html_section_open(p->out, "tables", "Tables");
    ORR_TRY(orr_html_named_tables(p, "table", tables, n, MOST_ROWS));
    orr_html_section_close(p->out);
    return ORR_OK;
}

orr_status orr_training_html(const char *path, const char *model, const orr_train_result *result,
                             orr_error *err)
{
    static const orr_html_kind kind = {"training", "page.js", put_about, put_nav, put_main, NULL};
    const subject s = {model, result};
    char title[160];
    (void)snprintf(title, sizeof title, "Training of %s", model);
    return orr_html_page_make(path, &kind, title, &s, err);
}
