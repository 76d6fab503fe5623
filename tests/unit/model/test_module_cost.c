/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "model/step/module_cost.h"

#define assert_near(a, b, most) assert_true(fabs((double)(a) - (double)(b)) <= (most))

/* A layer by hand: x is gathered along TP beside nothing, y = x w, y is scattered; backward the
 * same with the gather beside the gradient of the weights. */
typedef struct scene {
    orr_arena *arena;
    const orr_catalog *catalog;
    orr_error err;
    orr_tape tape;
    orr_module module;
    orr_plan plan;
    orr_calibration calibration;
    orr_job_rates rates;
} scene;

static orr_value value(scene *s, orr_value_role role, int64_t rows, int64_t columns)
{
    const orr_type type = {.dtype = ORR_DTYPE_BF16, .rank = 2, .dim = {rows, columns}};
    orr_value v;
    assert_int_equal(orr_tape_value_new(&s->tape, role, &type, "", &v, &s->err), ORR_OK);
    return v;
}

static orr_value call(scene *s, orr_pass pass, orr_op op, const orr_op_args *args, orr_value a,
                      orr_value b)
{
    const orr_value in[] = {a, b};
    orr_value out;
    s->tape.pass = (uint8_t)pass;
    if (orr_tape_call_op(&s->tape, op, args, in, b == ORR_NONE ? 1 : 2, "", &out, &s->err) !=
        ORR_OK)
        fail_msg("%s", s->err.text);
    return out;
}

static void open_scene(scene *s, const char *plan)
{
    const orr_cluster *cluster;
    const orr_calibration *usual;
    memset(s, 0, sizeof *s);
    s->arena = orr_arena_new(0, 0);
    assert_int_equal(orr_catalog_open(s->arena, &s->catalog, &s->err), ORR_OK);
    assert_int_equal(orr_cluster_load(s->catalog, "dgx_h100", s->arena, &cluster, &s->err), ORR_OK);
    assert_int_equal(orr_calibration_of(cluster->device, 0, s->arena, &usual, &s->err), ORR_OK);
    s->calibration = *usual;
    s->calibration.compute_slowdown = 1;
    s->calibration.jitter_frac = 0;
    orr_job_rates_init(cluster, &s->calibration, ORR_ALGORITHM_AUTO, &s->rates);
    assert_int_equal(orr_plan_parse(plan, &s->plan, &s->err), ORR_OK);
    s->plan = orr_plan_with_defaults(&s->plan);

    const orr_op_args gather = {.dim = 0, .axis = ORR_AXIS_TP, .members = 4};
    orr_op_args beside = gather;
    beside.overlap = true;
    orr_tape_init(&s->tape, s->arena);
    const orr_value x = value(s, ORR_VALUE_INPUT, 2048, 4096);
    const orr_value w = value(s, ORR_VALUE_PARAMETER, 4096, 4096);
    const orr_value dy = value(s, ORR_VALUE_GRADIENT, 2048, 4096);
    const orr_value all = call(s, ORR_PASS_FORWARD, ORR_OP_ALL_GATHER, &gather, x, ORR_NONE);
    const orr_value y = call(s, ORR_PASS_FORWARD, ORR_OP_MATMUL, &(orr_op_args){0}, all, w);
    call(s, ORR_PASS_FORWARD, ORR_OP_REDUCE_SCATTER, &gather, y, ORR_NONE);
    const orr_value again = call(s, ORR_PASS_RECOMPUTE, ORR_OP_ALL_GATHER, &gather, x, ORR_NONE);
    const orr_value dall = call(s, ORR_PASS_INPUT, ORR_OP_ALL_GATHER, &beside, dy, ORR_NONE);
    call(s, ORR_PASS_INPUT, ORR_OP_SCALE, &(orr_op_args){.value = 2}, again, ORR_NONE);
    call(s, ORR_PASS_INPUT, ORR_OP_MATMUL, &(orr_op_args){.transpose_b = true}, dall, w);
    call(s, ORR_PASS_WEIGHT, ORR_OP_MATMUL, &(orr_op_args){.transpose_a = true}, again, dall);
    s->module = (orr_module){.kind = ORR_MODULE_LAYER, .name = "layer", .tape = &s->tape};
}

static void close_scene(scene *s)
{
    orr_arena_free(s->arena);
}

static orr_module_cost cost_of(scene *s)
{
    orr_module_cost cost;
    if (orr_module_cost_of(&s->module, &s->plan, &s->rates, s->arena, &cost, &s->err) != ORR_OK)
        fail_msg("%s", s->err.text);
    return cost;
}

static const uint32_t tasks_of_phase[ORR_SLOT_PHASES] = {
    [ORR_SLOT_FORWARD] = 3, [ORR_SLOT_BACKWARD] = 5, [ORR_SLOT_INPUT] = 4, [ORR_SLOT_WEIGHT] = 1};

static void calls_go_to_their_phase(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "tp=4,dp=2");
    const orr_module_cost cost = cost_of(&s);
    for (int phase = 0; phase < ORR_SLOT_PHASES; phase++)
        assert_int_equal(cost.phase[phase].n, tasks_of_phase[phase]);
    const orr_phase_cost *forward = &cost.phase[ORR_SLOT_FORWARD];
    assert_int_equal(forward->tasks[0].axis, ORR_AXIS_TP);
    assert_int_equal(forward->tasks[0].collective, ORR_COLL_ALL_GATHER);
    assert_int_equal(forward->tasks[0].bytes, 4 * 2048 * 4096 * 2); /* of all that are gathered */
    assert_int_equal(forward->tasks[2].bytes, 4 * 2048 * 4096 * 2); /* that are scattered       */
    assert_int_equal(forward->tasks[1].axis, ORR_AXIS_NONE);
    assert_near(forward->flops, 2.0 * 8192 * 4096 * 4096, 1);
    assert_true(cost.phase[ORR_SLOT_BACKWARD].tasks[0].again);
    close_scene(&s);
}

/* The span is what is computed and what is waited for. */
static void waits_are_told(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "tp=4,dp=2");
    const orr_module_cost cost = cost_of(&s);
    for (int phase = 0; phase < ORR_SLOT_PHASES; phase++) {
        const orr_phase_cost *c = &cost.phase[phase];
        assert_int_equal(c->span_ns, c->compute_ns + c->transfer_ns[ORR_AXIS_TP]);
    }
    const orr_phase_cost *f = &cost.phase[ORR_SLOT_FORWARD], *b = &cost.phase[ORR_SLOT_BACKWARD];
    assert_int_equal(f->transfer_ns[ORR_AXIS_TP], f->busy_ns[ORR_AXIS_TP]);
    assert_true(b->transfer_ns[ORR_AXIS_TP] < b->busy_ns[ORR_AXIS_TP]); /* a gather beside SCALE */
    assert_true(b->tasks[1].beside);
    assert_int_equal(b->tasks[1].joins, 3);
    const double bytes = 4.0 * 2048 * 4096 * 2;
    assert_near(f->sent_bytes[ORR_AXIS_TP], 2 * 0.75 * bytes, 1);
    close_scene(&s);
}

/* Nobody to speak with: no transfer. */
static void one_rank_is_silent(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "dp=8");
    const orr_module_cost cost = cost_of(&s);
    const orr_phase_cost *c = &cost.phase[ORR_SLOT_FORWARD];
    assert_int_equal(c->n, 1);
    assert_int_equal(c->span_ns, c->compute_ns);
    close_scene(&s);
}

/* In pieces beside its product a transfer is hidden, but for one piece of four; one product hides
 * one. */
static void pieces_hide(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "tp=4,dp=2");
    const orr_module_cost whole = cost_of(&s);
    s.plan.overlap_tp = ORR_SWITCH_ON;
    const orr_module_cost pieces = cost_of(&s);
    const orr_call_cost *a = whole.phase[ORR_SLOT_FORWARD].tasks,
                        *b = pieces.phase[ORR_SLOT_FORWARD].tasks;
    assert_int_equal(b[0].ns, a[0].ns / 4);
    assert_int_equal(b[0].ns + b[1].ns, a[0].ns);
    assert_int_equal(b[2].ns + b[3].ns, a[1].ns);
    assert_true(b[1].beside && b[1].joins == 3);
    assert_int_equal(b[4].ns, a[2].ns);
    assert_true(pieces.phase[ORR_SLOT_FORWARD].span_ns < whole.phase[ORR_SLOT_FORWARD].span_ns);
    assert_int_equal(pieces.phase[ORR_SLOT_FORWARD].busy_ns[ORR_AXIS_TP],
                     whole.phase[ORR_SLOT_FORWARD].busy_ns[ORR_AXIS_TP]);
    close_scene(&s);
}

/* Among many ranks all takes longer. */
static void ranks_stretch(void **state)
{
    (void)state;
    scene s;
    orr_step_prices prices;
    open_scene(&s, "tp=4,dp=2");
    s.calibration.jitter_frac = 0.5;
    assert_int_equal(orr_step_prices_of(&s.plan, &s.rates, &prices, &s.err), ORR_OK);
    assert_near(prices.stretch, 1 + 0.5 * 1.4236, 0.01); /* the slowest of 8, on average */
    prices.stretch = 2;
    s.calibration.jitter_frac = 0;
    const orr_module_cost once = cost_of(&s);
    orr_module_cost twice;
    assert_int_equal(orr_module_cost_at(&s.module, &s.plan, &prices, s.arena, &twice, &s.err),
                     ORR_OK);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(twice.phase[0].tasks[i].ns, 2 * once.phase[0].tasks[i].ns);
    close_scene(&s);
}

static void weights_by_tag(void **state)
{
    (void)state;
    scene s;
    orr_module_weights w;
    open_scene(&s, "dp=8");
    static const uint8_t tags[] = {ORR_WEIGHT_EXPERT, ORR_WEIGHT_SLICED, ORR_WEIGHT_TIED,
                                   ORR_WEIGHT_DENSE};
    for (int i = 0; i < 4; i++) {
        const orr_value v = value(&s, ORR_VALUE_PARAMETER, 10, i < 3 ? 1 + i : 5);
        s.tape.values[v].tag = tags[i];
        s.tape.values[v].frozen = i == 3;
    }
    orr_module_weights_of(&s.module, &w);
    assert_int_equal(w.dense, 4096 * 4096 + 20 + 30);
    assert_int_equal(w.sliced, 20);
    assert_int_equal(w.tied, 30);
    assert_int_equal(w.expert, 10);
    assert_int_equal(w.gathered, w.dense + 50);
    assert_int_equal(w.expert_gathered, 10);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_go_to_their_phase), cmocka_unit_test(waits_are_told),
        cmocka_unit_test(one_rank_is_silent),      cmocka_unit_test(pieces_hide),
        cmocka_unit_test(ranks_stretch),           cmocka_unit_test(weights_by_tag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
