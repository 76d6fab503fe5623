/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include <orrery/outcome.h>

#include "fuzz.h"
#include "model/plan/plan.h"
#include "model/schedule/schedule.h"

/* A plan as text. What is read is written and read back as the same plan; completing it twice is
 * completing it once; a schedule that may be made is complete and free of deadlock; a small job in
 * it has a step that adds up, or is refused with a reason, in closed form as in the simulation. */
enum { MOST_TURNS = 4096, MOST_RANKS = 64, MOST_LAYERS = 24, MOST_TEXT = 4096 };

typedef struct world { /* opened once */
    orr_arena *arena;
    const orr_model *dense, *experts;
    const orr_cluster *host,
        *sites; /* for plans that say nothing of sites, and for those that do */
} world;
static world the_world;

static void open_world(world *w)
{
    const orr_catalog *catalog;
    if (w->arena != NULL)
        return;
    w->arena = orr_arena_new(0, 0);
    FUZZ_CHECK(orr_catalog_open(w->arena, &catalog, NULL) == ORR_OK);
    FUZZ_CHECK(orr_model_load("llama3.2-1b", w->arena, &w->dense, NULL) == ORR_OK);
    FUZZ_CHECK(orr_model_load("mixtral-8x7b", w->arena, &w->experts, NULL) == ORR_OK);
    FUZZ_CHECK(orr_cluster_load(catalog, "dgx_h100_pod", w->arena, &w->host, NULL) == ORR_OK);
    FUZZ_CHECK(orr_cluster_load(catalog, "mixed_buildings", w->arena, &w->sites, NULL) == ORR_OK);
}

static orr_plan read_again(const orr_plan *plan, orr_arena *arena)
{
    orr_plan again;
    const char *text = orr_plan_text(plan, arena);
    FUZZ_CHECK(text != NULL && orr_plan_parse(text, &again, NULL) == ORR_OK);
    FUZZ_CHECK(strcmp(orr_plan_text(&again, arena), text) == 0);
    return again;
}

static void check_text(const orr_plan *plan, orr_arena *arena)
{
    const orr_plan nothing = {0}, again = read_again(plan, arena);
    FUZZ_CHECK(orr_plan_equal(plan, &again));
    const orr_plan changed = orr_plan_override(&nothing, plan);
    FUZZ_CHECK(orr_plan_equal(plan, &changed));
}

static void check_completed(const orr_plan *whole, orr_arena *arena)
{
    const orr_plan twice = orr_plan_with_defaults(whole), again = read_again(whole, arena);
    FUZZ_CHECK(orr_plan_equal(whole, &twice) && orr_plan_equal(whole, &again));
    for (int axis = 0; axis < ORR_BASE_AXES; axis++)
        FUZZ_CHECK(orr_plan_group_size(whole, (orr_axis)axis) >= 1);
}

/* The number of turns, or 0: more than are worth making, or a schedule that cannot be. */
static uint64_t check_schedule(const orr_plan *whole, orr_arena *arena)
{
    const orr_schedule_spec spec = orr_plan_schedule(whole);
    const orr_slot_times times = {.forward = 1, .input = 1, .weight = 1};
    const uint64_t turns = 3ull * spec.stages * spec.chunks;
    orr_schedule_plan made;
    orr_error err = {0};
    if (turns > MOST_TURNS || turns * spec.micro_batches > MOST_TURNS)
        return 0;
    if (orr_schedule_make(&spec, arena, &made, &err) != ORR_OK) {
        FUZZ_CHECK(err.status == ORR_INVALID && err.text[0] != '\0');
        return 0;
    }
    FUZZ_CHECK(orr_schedule_check(&made, NULL) == ORR_OK);
    FUZZ_CHECK(made.in_flight >= 1);
    FUZZ_CHECK(!(orr_schedule_bubble(&spec, &times) < 0));
    return turns * spec.micro_batches;
}

static void check_estimate(const orr_model *model, const orr_plan *plan, const orr_cluster *cluster,
                           const orr_outcome *outcome)
{
    orr_estimator *estimator;
    orr_estimate estimate;
    orr_error err = {0};
    FUZZ_CHECK(orr_estimator_new(model, cluster, NULL, &estimator, NULL) == ORR_OK);
    const orr_status status = orr_estimate_of(estimator, plan, &estimate, &err);
    FUZZ_CHECK((status == ORR_OK) == (outcome != NULL));
    if (status == ORR_OK)
        FUZZ_CHECK(estimate.step_ns > 0 && estimate.peak_bytes > 0);
    else
        FUZZ_CHECK(err.text[0] != '\0');
    orr_estimator_free(estimator);
}

static void check_outcome(const orr_outcome *o, uint64_t choice)
{
    int64_t sum = 0;
    for (int part = 0; part < ORR_WATERFALLS; part++) {
        FUZZ_CHECK(o->waterfall_ns[part] >= 0);
        sum += o->waterfall_ns[part];
    }
    FUZZ_CHECK(o->step_ns > 0 && sum == o->step_ns);
    FUZZ_CHECK(!(o->mfu_frac < 0) && !(o->mfu_frac > 1) && isfinite(o->tokens_per_s));
    FUZZ_CHECK(o->memory.fits == (o->memory.missing_bytes == 0));
    const orr_graph *graph;
    FUZZ_CHECK(orr_outcome_rank(o, (uint32_t)(choice % o->n_ranks), &graph, NULL) == ORR_OK);
    orr_graph_free(graph);
}

static void check_job(const orr_plan *plan, const world *w, orr_arena *arena, uint64_t choice)
{
    const orr_model *model = choice & 1 ? w->dense : w->experts;
    const orr_cluster *cluster = orr_plan_has_sites(plan) ? w->sites : w->host;
    orr_job_options options;
    orr_outcome outcome;
    orr_error err = {0};
    orr_job_options_init(&options);
    options.detail = (uint8_t)(choice >> 1) % 3;
    options.workload.task = (uint8_t)((choice >> 3) % (2 * ORR_TASKS)); /* half: pretrain */
    if (options.workload.task >= ORR_TASKS)
        options.workload.task = ORR_TASK_PRETRAIN;
    const orr_status status = orr_outcome_of(model, plan, cluster, &options, arena, &outcome, &err);
    FUZZ_CHECK(status == ORR_OK || (err.text[0] != '\0' && status != ORR_NO_MEMORY));
    if (options.workload.task == ORR_TASK_PRETRAIN)
        check_estimate(model, plan, cluster, status == ORR_OK ? &outcome : NULL);
    if (status != ORR_OK)
        return;
    check_outcome(&outcome, choice >> 8);
    orr_outcome_free(&outcome);
}

static void check_plan(const orr_plan *plan, orr_arena *arena, uint64_t choice)
{
    const orr_plan whole = orr_plan_with_defaults(plan);
    orr_error err = {0};
    check_text(plan, arena);
    check_completed(&whole, arena);
    if (orr_plan_check(plan, &err) != ORR_OK) {
        FUZZ_CHECK(err.status == ORR_INVALID && err.text[0] != '\0');
        FUZZ_CHECK(orr_plan_check(&whole, NULL) != ORR_OK);
        return;
    }
    FUZZ_CHECK(orr_plan_ranks(plan) == orr_plan_ranks(&whole));
    if (check_schedule(&whole, arena) == 0 || orr_plan_ranks(&whole) > MOST_RANKS ||
        whole.layers > MOST_LAYERS)
        return;
    open_world(&the_world);
    check_job(plan, &the_world, arena, choice);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char text[MOST_TEXT];
    orr_plan plan;
    orr_error err = {0};
    if (len >= sizeof text)
        return 0;
    memcpy(text, bytes, len);
    text[len] = '\0';
    orr_arena *arena = orr_arena_new(0, 0);
    FUZZ_CHECK(arena != NULL);
    if (orr_plan_parse(text, &plan, &err) == ORR_OK)
        check_plan(&plan, arena, fuzz_choice(bytes, len));
    else
        FUZZ_CHECK(err.status == ORR_INVALID && err.text[0] != '\0');
    orr_arena_free(arena);
    return 0;
}
