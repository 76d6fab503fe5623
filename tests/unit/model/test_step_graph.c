/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/sim.h>

#include "model/step/step_graph.h"

/* Stages put down by hand: each virtual stage is one module whose phases take given times, weights
 * and transfers are free unless a test says otherwise. */
enum { MOST_PLACES = 64 };
typedef struct scene {
    orr_arena *arena;
    orr_error err;
    orr_cluster cluster;
    orr_device device;
    orr_level level;
    orr_calibration calibration;
    orr_job_rates rates;
    orr_step_prices prices;
    orr_tape tape;
    orr_module module;
    orr_call_cost tasks[ORR_SLOT_PHASES];
    orr_module_cost cost;
    orr_module_weights weights;
    uint8_t module_of[MOST_PLACES];
    uint32_t first[MOST_PLACES + 1];
    orr_price hops[MOST_PLACES];
    orr_module_sequence row;
    orr_stage_map map;
    orr_plan plan;
    orr_schedule_plan schedule;
    orr_step_job job;
} scene;

static void set_times(scene *s, int64_t forward, int64_t input, int64_t weight)
{
    const int64_t ns[] = {[ORR_SLOT_FORWARD] = forward,
                          [ORR_SLOT_BACKWARD] = input + weight,
                          [ORR_SLOT_INPUT] = input,
                          [ORR_SLOT_WEIGHT] = weight};
    for (int phase = 0; phase < ORR_SLOT_PHASES; phase++) {
        s->tasks[phase] = (orr_call_cost){.axis = ORR_AXIS_NONE, .ns = ns[phase]};
        s->cost.phase[phase] = (orr_phase_cost){
            .tasks = &s->tasks[phase], .n = 1, .span_ns = ns[phase], .compute_ns = ns[phase]};
    }
}

static void open_scene(scene *s, const orr_schedule_spec *spec)
{
    memset(s, 0, sizeof *s);
    s->arena = orr_arena_new(0, 0);
    s->device = (orr_device){.name = "device"};
    s->level = (orr_level){.name = "host", .size = 64, .devices = 64};
    s->cluster = (orr_cluster){.name = "cluster",
                               .device = &s->device,
                               .n_devices = 64,
                               .n_levels = 1,
                               .levels = &s->level};
    s->rates = (orr_job_rates){
        .device = &s->device, .cluster = &s->cluster, .calibration = &s->calibration};
    s->prices = (orr_step_prices){.kernels = &s->rates, .stretch = 1};
    for (int axis = 0; axis < ORR_AXES; axis++) {
        s->prices.transfers[axis] = &s->rates;
        s->prices.members[axis] = 1;
    }
    s->prices.members[ORR_AXIS_PP] = spec->stages;
    orr_tape_init(&s->tape, s->arena);
    s->module = (orr_module){.kind = ORR_MODULE_LAYER, .name = "layer", .tape = &s->tape};
    set_times(s, 3000, 2000, 1000);
    const uint32_t n = orr_schedule_virtual_stages(spec);
    assert_true(n <= MOST_PLACES);
    for (uint32_t k = 0; k <= n; k++)
        s->first[k] = k;
    s->row = (orr_module_sequence){.modules = &s->module,
                                   .n_modules = 1,
                                   .n = n,
                                   .module_of = s->module_of,
                                   .recomputed_of = s->module_of};
    s->map = (orr_stage_map){.stages = spec->stages, .chunks = spec->chunks, .first = s->first};
    s->plan = (orr_plan){.pp = spec->stages,
                         .vp = spec->chunks,
                         .schedule = spec->schedule,
                         .micro_batches = spec->micro_batches,
                         .group = spec->group};
    s->plan = orr_plan_with_defaults(&s->plan);
    assert_int_equal(orr_schedule_make(spec, s->arena, &s->schedule, &s->err), ORR_OK);
    s->job = (orr_step_job){.plan = &s->plan,
                            .task = ORR_TASK_PRETRAIN,
                            .row = &s->row,
                            .map = &s->map,
                            .schedule = &s->schedule,
                            .costs = &s->cost,
                            .weights = &s->weights,
                            .prices = &s->prices,
                            .hops = s->hops,
                            .copy_bytes_per_s = 1e9};
    assert_int_equal(
        orr_step_stage_transfers(&s->schedule, true, s->arena, &s->job.passes, &s->err), ORR_OK);
}

static void close_scene(scene *s)
{
    orr_arena_free(s->arena);
}

typedef struct played {
    orr_step_graph graphs[MOST_PLACES];
    orr_simulation simulation;
    uint32_t n;
} played;

static void play(scene *s, played *p)
{
    const uint32_t n = s->plan.pp;
    const orr_graph **graphs = orr_arena_array(s->arena, const orr_graph *, n);
    const orr_rendezvous_id **rendezvous = orr_arena_array(s->arena, const orr_rendezvous_id *, n);
    const int64_t **ns = orr_arena_array(s->arena, const int64_t *, n);
    uint32_t *of_rank = orr_arena_array(s->arena, uint32_t, n);
    uint32_t *group_of = orr_arena_array(s->arena, uint32_t, n);
    orr_grouping *groupings = orr_arena_array(s->arena, orr_grouping, ORR_STEP_GROUPINGS);
    orr_ensemble *e = orr_arena_one(s->arena, orr_ensemble);
    for (uint32_t k = 0; k < ORR_STEP_GROUPINGS; k++)
        assert_int_equal(orr_grouping_of("all", group_of, n, 1, s->arena, &groupings[k], &s->err),
                         ORR_OK);
    for (uint32_t i = 0; i < n; i++) {
        const orr_step_target who = {.stage = i, .rank = i};
        if (orr_step_layout_stage(&s->job, &who, s->arena, &p->graphs[i], &s->err) != ORR_OK)
            fail_msg("%s", s->err.text);
        graphs[i] = p->graphs[i].graph;
        rendezvous[i] = p->graphs[i].rendezvous;
        ns[i] = p->graphs[i].duration_ns;
        of_rank[i] = i;
    }
    *e = (orr_ensemble){.n_ranks = n,
                        .n_graphs = n,
                        .n_groupings = ORR_STEP_GROUPINGS,
                        .graphs = graphs,
                        .graph_of_rank = of_rank,
                        .groupings = groupings,
                        .rendezvous = rendezvous,
                        .duration_ns = ns};
    orr_sim_options options;
    orr_sim_options_init(&options);
    options.constants = (orr_sim_latencies){0};
    options.threads = 1;
    if (orr_simulate(e, &options, s->arena, &p->simulation, &s->err) != ORR_OK)
        fail_msg("%s", s->err.text);
    p->n = n;
}

static void done(played *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        orr_graph_free(p->graphs[i].graph);
}

static uint32_t count(const orr_step_graph *g, orr_node_kind kind)
{
    uint32_t n = 0;
    for (orr_node_id v = 0; v < g->graph->n_nodes; v++)
        n += g->graph->kind[v] == kind;
    return n;
}

static const orr_schedule_spec specs[] = {
    {ORR_SCHEDULE_1F1B, 4, 1, 8, 0, false},          {ORR_SCHEDULE_1F1B, 1, 1, 3, 0, false},
    {ORR_SCHEDULE_GPIPE, 5, 1, 7, 0, false},         {ORR_SCHEDULE_INTERLEAVED, 4, 3, 8, 4, false},
    {ORR_SCHEDULE_INTERLEAVED, 4, 2, 12, 12, false}, {ORR_SCHEDULE_INTERLEAVED, 2, 4, 6, 2, false},
    {ORR_SCHEDULE_ZB_H1, 4, 1, 9, 0, false},         {ORR_SCHEDULE_ZB_V, 4, 2, 8, 0, false},
    {ORR_SCHEDULE_DUALPIPE, 4, 2, 12, 0, false},
};
enum { N_SPECS = sizeof specs / sizeof *specs };

/* Every schedule runs to its end, with sends beside computation and not; each stage computes all
 * its slots, and what is sent is received. */
static void all_schedules_run(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * N_SPECS; i++) {
        scene s;
        played p;
        open_scene(&s, &specs[i / 2]);
        s.plan.overlap_pp = i % 2 ? ORR_SWITCH_OFF : ORR_SWITCH_ON;
        for (int k = 0; k < MOST_PLACES; k++)
            s.hops[k] = (orr_price){.ns = 100, .basis = ORR_BASIS_ASSUMED};
        play(&s, &p);
        uint32_t sends = 0, receives = 0;
        for (uint32_t k = 0; k < p.n; k++) {
            sends += count(&p.graphs[k], ORR_NODE_SEND);
            receives += count(&p.graphs[k], ORR_NODE_RECV);
        }
        const orr_schedule_spec *spec = &specs[i / 2];
        assert_int_equal(sends, receives);
        if (spec->schedule != ORR_SCHEDULE_ZB_V) /* where one boundary lies within a stage */
            assert_int_equal(sends,
                             2 * (orr_schedule_virtual_stages(spec) - 1) * spec->micro_batches);
        const int64_t work =
            (int64_t)6000 * spec->micro_batches * orr_schedule_virtual_stages(spec) / spec->stages;
        assert_true(p.simulation.end_ns - p.simulation.begin_ns >= work);
        done(&p);
        close_scene(&s);
    }
}

/* Where transfers are free the step is the published one: work and bubble. */
static void bubbles_are_the_published_ones(void **state)
{
    (void)state;
    uint32_t compared = 0;
    for (int i = 0; i < N_SPECS; i++) {
        const orr_schedule_spec *spec = &specs[i];
        scene s;
        played p;
        if (spec->schedule ==
            ORR_SCHEDULE_DUALPIPE) /* counts a pair as one slot of its own length */
            continue;
        open_scene(&s, spec);
        play(&s, &p);
        const orr_slot_times times = {3000, 2000, 1000};
        const double bubble = orr_schedule_bubble(spec, &times);
        const double work = 6000.0 * spec->micro_batches * spec->chunks;
        const double step = (double)(p.simulation.end_ns - p.simulation.begin_ns);
        if (!isnan(bubble) && fabs(step - work * (1 + bubble)) > 0.5)
            fail_msg("%s of %u stages: %.0f ns, not %.0f", orr_schedule_name(spec->schedule),
                     spec->stages, step, work * (1 + bubble));
        compared += !isnan(bubble);
        done(&p);
        close_scene(&s);
    }
    assert_true(compared >= 6);
}

/* A blocking send holds up what comes next on its stage: two stages, one micro-batch after another.
 * */
static void blocking_sends_cost(void **state)
{
    (void)state;
    const orr_schedule_spec spec = {ORR_SCHEDULE_GPIPE, 2, 1, 4, 0, false};
    int64_t ns[2];
    for (int blocks = 0; blocks < 2; blocks++) {
        scene s;
        played p;
        open_scene(&s, &spec);
        s.plan.overlap_pp = blocks ? ORR_SWITCH_OFF : ORR_SWITCH_ON;
        s.hops[0] = s.hops[1] = (orr_price){.ns = 500};
        play(&s, &p);
        ns[blocks] = p.simulation.end_ns - p.simulation.begin_ns;
        done(&p);
        close_scene(&s);
    }
    /* Beside: (4 + 1) forward and backward, and one transfer each way; blocking: 3 more each way.
     * */
    assert_int_equal(ns[0], 5 * 6000 + 2 * 500);
    assert_int_equal(ns[1], ns[0] + 2 * 3 * 500);
}

/* Turns in pairs are one node, and go in the time of the longer of computation and transfers. */
static void pairs_are_one(void **state)
{
    (void)state;
    const orr_schedule_spec spec = {ORR_SCHEDULE_DUALPIPE, 4, 2, 12, 0, false};
    scene s;
    played p;
    open_scene(&s, &spec);
    play(&s, &p);
    uint32_t paired = 0;
    for (uint32_t i = s.schedule.first[1]; i < s.schedule.first[2]; i++)
        paired += s.schedule.slots[i].paired;
    assert_true(paired > 0);
    assert_int_equal(count(&p.graphs[1], ORR_NODE_COMPUTE),
                     s.schedule.first[2] - s.schedule.first[1] - paired + 1); /* and the end */
    done(&p);
    close_scene(&s);
}

/* Nodes say what they are. */
static void nodes_are_told(void **state)
{
    (void)state;
    const orr_schedule_spec spec = {ORR_SCHEDULE_INTERLEAVED, 2, 2, 4, 2, false};
    scene s;
    played p;
    open_scene(&s, &spec);
    s.calibration.step_ns = 10;
    play(&s, &p);
    const orr_step_graph *g = &p.graphs[0];
    uint32_t slot = s.schedule.first[0];
    for (orr_node_id v = 0; v < g->graph->n_nodes; v++) {
        const orr_step_node *node = &g->nodes[v];
        if (g->graph->kind[v] == ORR_NODE_SEND || g->graph->kind[v] == ORR_NODE_RECV) {
            assert_int_equal(node->part, ORR_WATERFALL_PP);
            assert_int_equal(g->axis[v], ORR_AXIS_PP);
        }
        if (g->graph->kind[v] != ORR_NODE_COMPUTE)
            continue;
        if (slot == s.schedule.first[1]) {
            assert_int_equal(node->part, ORR_WATERFALL_OVERHEAD);
            assert_int_equal(node->micro_batch, ORR_NONE);
            continue;
        }
        assert_int_equal(node->phase, s.schedule.slots[slot].phase);
        assert_int_equal(node->chunk, s.schedule.slots[slot].chunk);
        assert_int_equal(node->micro_batch, s.schedule.slots[slot].micro_batch);
        slot++;
    }
    assert_int_equal(slot, s.schedule.first[1]);
    done(&p);
    close_scene(&s);
}

static uint32_t transfers(const orr_step_graph *g, orr_axis axis, orr_collective collective)
{
    uint32_t n = 0;
    for (orr_node_id v = 0; v < g->graph->n_nodes; v++) {
        const orr_comm *comm = orr_graph_comm(g->graph, v);
        n += comm != NULL && g->axis[v] == axis && comm->collective == collective;
    }
    return n;
}

/* Three modules a stage, two micro-batches, weights of which two fill a bucket; what is transferred
 * how often by each stage of ZeRO. */
typedef struct sharing {
    uint32_t zero, shards, replicas;
    bool beside, reshard;
    uint32_t all_reduces, scatters, gathers, of_replicas;
} sharing;

static void gradients_and_weights_travel(void **state)
{
    static const sharing cases[] = {
        {0, 1, 4, true, true, 2, 0, 0, 0},  /* buckets: modules 2 and 1, module 0            */
        {0, 1, 4, false, true, 1, 0, 0, 0}, /* all at once, at the end                       */
        {1, 4, 1, true, true, 0, 2, 2, 0},  /* gathered first, in the same buckets           */
        {1, 4, 1, false, true, 0, 1, 1, 0},
        {1, 2, 2, true, true, 0, 2, 2, 2},
        {2, 4, 1, true, true, 0, 4, 2, 0},  /* after each micro-batch                        */
        {3, 4, 1, true, true, 0, 6, 12, 0}, /* each module: forward, and again backward      */
        {3, 4, 1, true, false, 0, 6, 6, 0},
        {3, 2, 2, true, true, 0, 6, 12, 3}, /* replicas only once                            */
        {3, 4, 1, false, true, 0, 6, 12, 0},
    };
    (void)state;
    const orr_schedule_spec spec = {ORR_SCHEDULE_1F1B, 1, 1, 2, 0, false};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sharing *c = &cases[i];
        scene s;
        orr_step_graph g;
        open_scene(&s, &spec);
        s.row.n = 3;
        s.first[1] = 3;
        s.weights = (orr_module_weights){.dense = 100, .gathered = 100};
        s.plan.zero = c->zero;
        s.plan.bucket_bytes = 800; /* two modules in fp32 */
        s.plan.gradients = ORR_PRECISION_FP32;
        s.plan.prefetch = 1;
        s.plan.overlap_dp = c->beside ? ORR_SWITCH_ON : ORR_SWITCH_OFF;
        s.plan.reshard = c->reshard ? ORR_SWITCH_ON : ORR_SWITCH_OFF;
        s.plan.dp = 4;
        s.prices.members[ORR_AXIS_GRADIENT] = 4;
        s.prices.members[ORR_AXIS_SHARD] = c->shards;
        s.prices.members[ORR_AXIS_REPLICA] = c->replicas;
        const orr_step_target who = {0};
        if (orr_step_layout_stage(&s.job, &who, s.arena, &g, &s.err) != ORR_OK)
            fail_msg("%s", s.err.text);
        const uint32_t seen[] = {transfers(&g, ORR_AXIS_GRADIENT, ORR_COLL_ALL_REDUCE),
                                 transfers(&g, ORR_AXIS_SHARD, ORR_COLL_REDUCE_SCATTER),
                                 transfers(&g, ORR_AXIS_SHARD, ORR_COLL_ALL_GATHER),
                                 transfers(&g, ORR_AXIS_REPLICA, ORR_COLL_ALL_REDUCE)};
        if (seen[0] != c->all_reduces || seen[1] != c->scatters || seen[2] != c->gathers ||
            seen[3] != c->of_replicas)
            fail_msg("case %zu: %u all-reduces, %u scatters, %u gathers, %u of replicas", i,
                     seen[0], seen[1], seen[2], seen[3]);
        orr_graph_free(g.graph);
        close_scene(&s);
    }
}

/* With a pipeline ZeRO 2 reduces a chunk's gradients once for each group of micro-batches, and FSDP
 * once a step; FSDP then gathers once, too, unless it is told to drop the weights. */
static void groups_are_reduced_at_once(void **state)
{
    static const struct {
        uint32_t zero, group;
        bool reshard;
        uint32_t scatters, gathers;
    } cases[] = {{2, 2, true, 4, 2},
                 {2, 4, true, 2, 2},
                 {2, 1, true, 8, 2},
                 {3, 2, false, 2, 2},
                 {3, 2, true, 2, 16}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const orr_schedule_spec spec = {ORR_SCHEDULE_INTERLEAVED, 2, 2, 4, cases[i].group, false};
        scene s;
        orr_step_graph g;
        open_scene(&s, &spec);
        s.weights = (orr_module_weights){.dense = 100, .gathered = 100};
        s.plan.zero = cases[i].zero;
        s.plan.schedule = ORR_SCHEDULE_INTERLEAVED;
        s.plan.group = cases[i].group;
        s.plan.pp = 2;
        s.plan.dp = 4;
        s.plan.overlap_dp = ORR_SWITCH_ON;
        s.plan.reshard = cases[i].reshard ? ORR_SWITCH_ON : ORR_SWITCH_OFF;
        s.prices.members[ORR_AXIS_GRADIENT] = s.prices.members[ORR_AXIS_SHARD] = 4;
        const orr_step_target who = {0};
        if (orr_step_layout_stage(&s.job, &who, s.arena, &g, &s.err) != ORR_OK)
            fail_msg("%s", s.err.text);
        const uint32_t scatters = transfers(&g, ORR_AXIS_SHARD, ORR_COLL_REDUCE_SCATTER),
                       gathers = transfers(&g, ORR_AXIS_SHARD, ORR_COLL_ALL_GATHER);
        if (scatters != cases[i].scatters || gathers != cases[i].gathers)
            fail_msg("case %zu: %u scatters, %u gathers", i, scatters, gathers);
        orr_graph_free(g.graph);
        close_scene(&s);
    }
}

/* What the optimizer moves is one rank's share of the states. */
static void the_optimizer_has_its_share(void **state)
{
    (void)state;
    const orr_schedule_spec spec = {ORR_SCHEDULE_1F1B, 1, 1, 1, 0, false};
    int64_t ns[2];
    for (int zero = 0; zero < 2; zero++) {
        scene s;
        orr_step_graph g;
        open_scene(&s, &spec);
        s.calibration.memory = 1;
        s.rates.memory_bytes_per_s = 1e9; /* a byte a ns */
        s.weights = (orr_module_weights){.dense = 4000, .gathered = 4000};
        s.plan.zero = (uint32_t)zero;
        s.plan.gradients = ORR_PRECISION_FP32;
        s.prices.members[ORR_AXIS_SHARD] = zero ? 4 : 1;
        const orr_step_target who = {0};
        assert_int_equal(orr_step_layout_stage(&s.job, &who, s.arena, &g, &s.err), ORR_OK);
        ns[zero] = g.totals.part_ns[ORR_WATERFALL_OPTIMIZER];
        orr_graph_free(g.graph);
        close_scene(&s);
    }
    assert_int_equal(ns[0], 4000 * (16 + 14)); /* reads 4 + 12, writes 12 + 2 */
    assert_int_equal(ns[1], 1000 * (16 + 14));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_schedules_run),
        cmocka_unit_test(bubbles_are_the_published_ones),
        cmocka_unit_test(blocking_sends_cost),
        cmocka_unit_test(pairs_are_one),
        cmocka_unit_test(nodes_are_told),
        cmocka_unit_test(gradients_and_weights_travel),
        cmocka_unit_test(groups_are_reduced_at_once),
        cmocka_unit_test(the_optimizer_has_its_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
