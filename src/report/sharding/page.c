/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page/page.h"

#include <stdio.h>

#include "report/humanize/human.h"
#include "report/sharding/page_tiers.h"
#include "report/sharding/parts.h"
#include "report/sharding/svg.h"

static const orr_sharding_report *report_of(const orr_html_page *p)
{
    return p->subject;
}

static void put_about(const orr_html_page *p)
{
    const orr_table_planner_options *o = report_of(p)->options;
    const orr_cluster *cluster = report_of(p)->cluster;
    char batch[ORR_HUMAN_MAX];
    orr_html_printf(p->out, "%u table%s over %u rank%s of %s, %s samples a step", o->n_tables,
                    o->n_tables == 1 ? "" : "s", o->ranks, o->ranks == 1 ? "" : "s",
                    cluster != NULL ? cluster->name : "this machine",
                    orr_human_count(batch, (uint64_t)orr_sharding_batch(report_of(p))));
}

static void put_nav(const orr_html_page *p)
{
    if (report_of(p)->best->infeasible == NULL)
        orr_html_link(p->out, "plan", "Plan");
    if (report_of(p)->best->tiering != NULL)
        orr_html_link(p->out, "tiers", "Tiers");
    if (report_of(p)->given != NULL)
        orr_html_link(p->out, "given", "Given plan");
    orr_html_link(p->out, "tables", "Tables");
}

/* --- figures ---------------------------------------------------------------------------------- */

static void put_time(const orr_html_page *p, const orr_table_planning *planning)
{
    char value[ORR_HUMAN_MAX], a[ORR_HUMAN_MAX];
    orr_html_tile(p->out, NULL, "Time of the tables", orr_human_ns(value, planning->ns),
                  orr_arena_printf(p->arena, "on rank %u, the busiest; %s on every rank alike",
                                   orr_sharding_busiest_rank(planning),
                                   orr_human_ns(a, planning->shared_ns)));
}

static void put_proof(const orr_html_page *p, const orr_table_planning *planning)
{
    char value[ORR_HUMAN_MAX];
    orr_html_tile(p->out, "path", "Bound", orr_human_ns(value, planning->bound_ns),
                  planning->bound_by);
    orr_html_tile(p->out, NULL, "Gap", orr_human_frac(value, planning->gap_frac),
                  orr_sharding_status(report_of(p)));
}

static void put_memory(const orr_html_page *p, const orr_table_planning *planning)
{
    const uint32_t fullest = orr_sharding_fullest_rank(planning);
    const int64_t room = report_of(p)->options->memory_bytes;
    char value[ORR_HUMAN_MAX], a[ORR_HUMAN_MAX];
    orr_html_tile(p->out, NULL, "Memory",
                  orr_human_bytes(value, (double)planning->ranks[fullest].memory_bytes),
                  room > 0 ? orr_arena_printf(p->arena, "on rank %u, the fullest, of %s", fullest,
                                              orr_human_bytes(a, (double)room))
                           : orr_arena_printf(p->arena, "on rank %u, the fullest", fullest));
}

static void put_worth(const orr_html_page *p, const orr_table_planning *planning)
{
    char value[ORR_HUMAN_MAX];
    const bool buys = planning->memory_ns_per_gib > 0;
    orr_html_tile(p->out, NULL, "The next GiB",
                  buys ? orr_human_ns(value, planning->memory_ns_per_gib) : "nothing",
                  buys ? "off the bound, with a GiB more on every rank"
                       : "the bound stays, with a GiB more on every rank");
}

/* --- pictures --------------------------------------------------------------------------------- */

/* What a rank has beside its shards, which is the same on all. */
static void find_common(const orr_table_planning *planning, orr_sharding_picture *ret)
{
    const uint32_t busiest = orr_sharding_busiest_rank(planning);
    ret->common_ns = planning->ns;
    ret->common_bytes = (double)planning->ranks[busiest].memory_bytes;
    for (uint32_t i = 0; i < planning->plan.n_shards; i++)
        if (planning->plan.shards[i].rank == busiest) {
            ret->common_ns -= ret->costs[i].ns;
            ret->common_bytes -= ret->costs[i].memory_bytes;
        }
}

static orr_status put_pictures(const orr_html_page *p, const orr_table_planning *planning)
{
    const orr_table_planner_options *o = report_of(p)->options;
    orr_table_shard_cost *costs =
        orr_arena_array(p->arena, orr_table_shard_cost, planning->plan.n_shards);
    if (costs == NULL)
        return orr_fail_memory(p->err);
    orr_price_table_shards(o, &planning->plan, costs);
    orr_sharding_picture picture = {
        .plan = &planning->plan,
        .costs = costs,
        .bound_ns = report_of(p)->best->bound_ns,
        .room_bytes = planning->tiering == NULL ? (double)o->memory_bytes : 0,
    };
    find_common(planning, &picture);
    orr_html_figure_open(
        p->out, "Time by rank",
        "blocks: tables; grey: the same on every rank; no plan's busiest rank is below the line");
    ORR_TRY(orr_svg_sharding(p->out, &picture, ORR_SHARDING_TIME, p->arena, p->err));
    orr_html_figure_close(p->out);
    orr_html_figure_open(p->out, "Memory by rank",
                         "rows, states of the optimizer, and buffers; pale: small tables together");
    ORR_TRY(orr_svg_sharding(p->out, &picture, ORR_SHARDING_MEMORY, p->arena, p->err));
    orr_html_figure_close(p->out);
    return ORR_OK;
}

/* --- sections --------------------------------------------------------------------------------- */

static orr_status put_best(const orr_html_page *p)
{
    const orr_table_planning *best = report_of(p)->best;
    orr_html_section_open(p->out, "plan",
                          report_of(p)->interrupted ? "The best so far: the search was interrupted"
                                                    : "The plan");
    orr_html_tiles_open(p->out);
    put_time(p, best);
    put_proof(p, best);
    if (best->tiering == NULL) {
        put_memory(p, best);
        put_worth(p, best);
    }
    orr_html_tiles_close(p->out);
    ORR_TRY(put_pictures(p, best));
    orr_html_section_close(p->out);
    return ORR_OK;
}

static void put_refusal(const orr_html_page *p)
{
    orr_html_section_open(p->out, "plan", "No plan");
    orr_output_text(p->out, "<p class=\"lead\">");
    orr_html_text(p->out, report_of(p)->best->infeasible);
    orr_output_text(p->out, "</p>\n");
    orr_html_section_close(p->out);
}

static orr_status put_given(const orr_html_page *p)
{
    const orr_table_planning *given = report_of(p)->given;
    orr_html_section_open(p->out, "given", "The given plan");
    orr_html_tiles_open(p->out);
    put_time(p, given);
    put_memory(p, given);
    orr_html_tiles_close(p->out);
    ORR_TRY(put_pictures(p, given));
    orr_html_section_close(p->out);
    return ORR_OK;
}

static orr_status put_main(const orr_html_page *p)
{
    orr_named_table tables[ORR_SHARDING_TABLES];
    ORR_TRY(orr_sharding_tables(report_of(p), p->arena, tables, p->err));
    if (report_of(p)->best->infeasible == NULL)
        ORR_TRY(put_best(p));
    else
        put_refusal(p);
    if (report_of(p)->best->tiering != NULL)
        orr_sharding_put_tiers(p, report_of(p));
    if (report_of(p)->given != NULL)
        ORR_TRY(put_given(p));
    orr_html_section_open(p->out, "tables", "Tables");
    ORR_TRY(orr_html_named_tables(p, "table", tables, ORR_SHARDING_TABLES, ORR_TABLES_MAX));
    orr_html_section_close(p->out);
    return ORR_OK;
}

orr_status orr_sharding_html(const char *path, const orr_sharding_report *report, orr_error *err)
{
    static const orr_html_kind kind = {"sharding", "page.js", put_about, put_nav, put_main, NULL};
    char title[160];
    (void)snprintf(title, sizeof title, "The tables of %s", report->model->title);
    return orr_html_page_make(path, &kind, title, report, err);
}
