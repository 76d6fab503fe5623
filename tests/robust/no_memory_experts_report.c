/* SPDX-License-Identifier: Apache-2.0 */
#include "failing.h"
#include "leaks.h"

#include <stdio.h>

#include "report/experts/experts.h"

/* Statistics of routes, a placement's figures, and what is told of both, with every allocation
 * failing in turn. */

enum { SMALLEST_BLOCK = 64, LAYERS = 2, RANKS = 2 };
static const orr_cluster cluster = {.name = "two"};
static const orr_routes_drawn how = {.layers = LAYERS,
                                     .experts = 6,
                                     .top_k = 2,
                                     .requests = 6,
                                     .prompt = 3,
                                     .decoded = 2,
                                     .kinds = 2};

static orr_status fill(orr_experts_report *report, orr_expert_statistics *statistics,
                       orr_expert_windows *windows, orr_arena *arena, orr_error *err)
{
    ORR_TRY(orr_routes_draw(&how, arena, &report->routes, err));
    ORR_TRY(orr_expert_statistics_of_routes(report->routes, RANKS, 1, arena, statistics, err));
    ORR_TRY(orr_expert_windows_of_routes(report->routes, 2, arena, windows, err));
    report->statistics = statistics;
    report->windows = windows;
    report->ranks = RANKS;
    return ORR_OK;
}

static orr_status place(orr_experts_report *report, orr_expert_options *options,
                        orr_experts_plan *plan, orr_arena *arena, orr_error *err)
{
    orr_layer_quality *layer = orr_arena_array(arena, orr_layer_quality, LAYERS);
    if (layer == NULL)
        return orr_fail_memory(err);
    options->policy = ORR_EXPERT_POLICY_LINEAR;
    options->routes = report->routes;
    options->ranks = RANKS;
    *plan = (orr_experts_plan){.policy = "linear", .layer = layer, .slots = 6 * LAYERS};
    ORR_TRY(orr_experts_place(options, arena, &plan->result, err));
    ORR_TRY(orr_experts_evaluate_layers(&plan->result.placement, options, NULL, arena, layer,
                                        &plan->all, err));
    report->options = options;
    report->cluster = &cluster;
    report->plans = report->before = plan;
    report->n_plans = 1;
    return ORR_OK;
}

static orr_status tell(const orr_experts_report *report, orr_arena *arena, orr_error *err)
{
    orr_named_table tables[ORR_EXPERTS_TABLES];
    orr_output *out;
    uint32_t n;
    ORR_TRY(orr_experts_tables(report, arena, tables, &n, err));
    ORR_TRY(orr_output_open(inside("out.json"), &out, err));
    orr_experts_summary(report, out);
    orr_experts_json(report, tables, n, out);
    const orr_status status = orr_output_finish(out, err);
    orr_output_close(out);
    remove(inside("out.json"));
    return status;
}

static orr_status told(bool placed, orr_error *err)
{
    orr_arena *arena = orr_arena_new(SMALLEST_BLOCK, 0);
    orr_experts_report report = {0};
    orr_expert_statistics statistics;
    orr_expert_windows windows;
    orr_expert_options options;
    orr_experts_plan plan;
    orr_status status = arena != NULL ? ORR_OK : orr_fail_memory(err);
    orr_expert_options_init(&options);
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, fill(&report, &statistics, &windows, arena, err));
    if (placed)
        ORR_TRY_OUT(status, place(&report, &options, &plan, arena, err));
    ORR_TRY_OUT(status, tell(&report, arena, err));
    status = orr_experts_html(inside("page.html"), &report, err);
    if (status == ORR_OK)
        remove(inside("page.html"));
out:
    orr_arena_free(arena);
    return status;
}

static orr_status statistics_alone(orr_error *err)
{
    return told(false, err);
}

static orr_status placement(orr_error *err)
{
    return told(true, err);
}

TEST_OF(statistics_alone)
TEST_OF(placement)

int main(int argc, char **argv)
{
    (void)argc;
    restart_without_caches(argv);
    const struct CMUnitTest tests[] = {TEST(statistics_alone), TEST(placement)};
    return cmocka_run_group_tests_name("no_memory_experts_report", tests, make_folder,
                                       remove_folder);
}
