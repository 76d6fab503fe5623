/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/step/module_cost.h"

#define assert_near(a, b, most) assert_true(fabs((double)(a) - (double)(b)) <= (most))

/* The expert layer of a model in a plan, priced on hosts of 8 H100. */
typedef struct scene {
    orr_arena *arena;
    orr_error err;
    orr_job_rates rates;
    orr_model model;
    orr_workload workload;
} scene;

static void open_scene(scene *s, const char *name)
{
    const orr_cluster *cluster;
    const orr_calibration *calibration;
    const orr_model *model;
    const orr_catalog *catalog;
    memset(s, 0, sizeof *s);
    s->arena = orr_arena_new(0, 0);
    assert_int_equal(orr_catalog_open(s->arena, &catalog, &s->err), ORR_OK);
    assert_int_equal(orr_cluster_load(catalog, "dgx_h100_pod", s->arena, &cluster, &s->err),
                     ORR_OK);
    assert_int_equal(orr_calibration_of(cluster->device, 0, s->arena, &calibration, &s->err),
                     ORR_OK);
    assert_int_equal(orr_model_load(name, s->arena, &model, &s->err), ORR_OK);
    s->model = *model;
    orr_job_rates_init(cluster, calibration, ORR_ALGORITHM_AUTO, &s->rates);
}

static const orr_module *layer_of(scene *s, const char *text, orr_plan *ret)
{
    orr_module_sequence row;
    if (orr_plan_parse(text, ret, &s->err) != ORR_OK)
        fail_msg("%s: %s", text, s->err.text);
    *ret = orr_plan_with_defaults(ret);
    if (orr_modules_build(&s->model, ret, &s->workload, s->arena, &row, &s->err) != ORR_OK)
        fail_msg("%s: %s", text, s->err.text);
    for (uint32_t i = 0; i < row.n_modules; i++)
        if (row.modules[i].kind == ORR_MODULE_MOE_LAYER)
            return &row.modules[i];
    fail();
    return NULL;
}

static orr_module_cost cost_of(scene *s, const char *text)
{
    orr_plan plan;
    orr_module_cost cost;
    const orr_module *layer = layer_of(s, text, &plan);
    assert_int_equal(orr_module_cost_of(layer, &plan, &s->rates, s->arena, &cost, &s->err), ORR_OK);
    return cost;
}

/* Bytes of the transfers to experts of a phase, in order. */
static uint32_t list_transfers(const orr_phase_cost *phase, const orr_call_cost *ret[8])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < phase->n; i++)
        if (phase->tasks[i].axis == ORR_AXIS_EP) {
            assert_true(n < 8);
            ret[n++] = &phase->tasks[i];
        }
    return n;
}

#define MIXTRAL  "dp=32,ep=8,seq=4096,micro_batches=1"
#define DEEPSEEK "dp=64,ep=64,seq=4096,micro_batches=1"

static void copies_are_sent_by_all_to_alls(void **state)
{
    (void)state;
    scene s;
    const orr_call_cost *t[8];
    open_scene(&s, "mixtral-8x7b");
    const orr_module_cost cost = cost_of(&s, MIXTRAL ",dispatcher=alltoall");
    for (int phase = 0; phase < 2; phase++) {
        assert_int_equal(list_transfers(&cost.phase[phase], t), 2);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(t[i]->collective, ORR_COLL_ALL_TO_ALL);
            assert_int_equal(t[i]->bytes, 2 * 4096 * 4096 * 2);
        }
    }
    orr_arena_free(s.arena);
}

static void tokens_are_gathered_and_results_summed(void **state)
{
    (void)state;
    scene s;
    const orr_call_cost *t[8];
    open_scene(&s, "mixtral-8x7b");
    const orr_module_cost cost = cost_of(&s, MIXTRAL ",dispatcher=allgather");
    for (int phase = 0; phase < 2; phase++) {
        assert_int_equal(list_transfers(&cost.phase[phase], t), 2);
        assert_int_equal(t[0]->collective, ORR_COLL_ALL_GATHER);
        assert_int_equal(t[1]->collective, ORR_COLL_REDUCE_SCATTER);
        for (int i = 0; i < 2; i++)
            assert_int_equal(t[i]->bytes, 8 * 4096 * 4096 * 2);
    }
    orr_arena_free(s.arena);
}

static void a_token_is_sent_once_to_a_host(void **state)
{
    (void)state;
    scene s;
    const orr_call_cost *t[8];
    open_scene(&s, "deepseek-v3");
    double last = 0;
    for (uint32_t limit = 1; limit <= 8; limit++) {
        s.model.moe.top_groups = limit;
        const orr_module_cost cost = cost_of(&s, DEEPSEEK);
        assert_int_equal(list_transfers(&cost.phase[ORR_SLOT_FORWARD], t), 2);
        assert_true(t[0]->bytes <= (int64_t)limit * 4096 * 7168 * 2);
        assert_true((double)t[0]->bytes > last);
        last = (double)t[0]->bytes;
    }
    s.model.moe.groups = s.model.moe.top_groups = 0;
    orr_module_cost once = cost_of(&s, DEEPSEEK);
    list_transfers(&once.phase[ORR_SLOT_FORWARD], t);
    assert_near(t[0]->bytes, last, 1);
    const orr_module_cost copies = cost_of(&s, DEEPSEEK ",dispatcher=alltoall");
    for (int phase = 0; phase < 2; phase++)
        assert_true(once.phase[phase].busy_ns[ORR_AXIS_EP] <
                    copies.phase[phase].busy_ns[ORR_AXIS_EP]);
    orr_arena_free(s.arena);
}

static void one_expert_a_token_is_the_same_for_both(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "deepseek-v3");
    s.model.moe.top_k = 1;
    s.model.moe.groups = s.model.moe.top_groups = 0;
    const orr_module_cost once = cost_of(&s, DEEPSEEK);
    const orr_module_cost copies = cost_of(&s, DEEPSEEK ",dispatcher=alltoall");
    for (int phase = 0; phase < 2; phase++)
        assert_near(once.phase[phase].busy_ns[ORR_AXIS_EP],
                    copies.phase[phase].busy_ns[ORR_AXIS_EP], 4);
    orr_arena_free(s.arena);
}

/* Tokens, and gradients of results, go to the experts in fp8; what comes back is in bf16. */
static void tokens_travel_in_eight_bits(void **state)
{
    (void)state;
    scene s;
    const orr_call_cost *t[8];
    open_scene(&s, "deepseek-v3");
    static const char *const PRECISIONS[] = {"fp8", "mxfp8"};
    for (int p = 0; p < 2; p++) {
        char text[128];
        snprintf(text, sizeof text, DEEPSEEK ",precision=%s", PRECISIONS[p]);
        const orr_module_cost cost = cost_of(&s, text);
        for (int phase = 0; phase < 2; phase++) {
            assert_int_equal(list_transfers(&cost.phase[phase], t), 2);
            assert_near(2 * (double)t[0]->bytes, (1 + 4.0 / 128) * (double)t[1]->bytes, 2);
        }
        strcat(text, ",dispatcher=alltoall");
        const orr_module_cost copies = cost_of(&s, text);
        assert_int_equal(list_transfers(&copies.phase[ORR_SLOT_FORWARD], t), 2);
        assert_int_equal(t[0]->bytes, t[1]->bytes);
    }
    orr_arena_free(s.arena);
}

static int64_t grouped_rows(scene *s, const char *text)
{
    orr_plan plan;
    const orr_tape *tape = layer_of(s, text, &plan)->tape;
    uint32_t i = 0;
    while (tape->calls[i].op != ORR_OP_GROUPED_MATMUL)
        i++;
    return tape->values[tape->calls[i].in[0]].type.dim[0];
}

static void capacity_caps_the_load(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "mixtral-8x7b");
    const double share[8] = {0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1};
    const orr_expert_load load = {.layers = 1, .experts = 8, .share = share};
    const int64_t even = 2 * 4096;
    static const char PLAN[] = MIXTRAL ",dispatcher=alltoall";
    assert_int_equal(grouped_rows(&s, PLAN), even);
    assert_int_equal(grouped_rows(&s, MIXTRAL ",dispatcher=alltoall,capacity=125"), even);
    assert_int_equal(grouped_rows(&s, MIXTRAL ",dispatcher=alltoall,capacity=125,pad_experts=on"),
                     even * 5 / 4);
    s.workload.load = &load;
    assert_near(grouped_rows(&s, PLAN), 2.4 * (double)even, 8);
    assert_int_equal(grouped_rows(&s, MIXTRAL ",dispatcher=alltoall,capacity=125"), even * 5 / 4);
    assert_near(grouped_rows(&s, MIXTRAL ",dispatcher=alltoall,capacity=300"), 2.4 * (double)even,
                8);
    orr_arena_free(s.arena);
}

/* The tasks from a dispatch to the experts that wait for it are those of the shared experts. */
static void shared_experts_run_beside_the_dispatch(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "deepseek-v3");
    const orr_module_cost off = cost_of(&s, DEEPSEEK), on = cost_of(&s, DEEPSEEK ",overlap_ep=on");
    for (int phase = 0; phase < 2; phase++) {
        const orr_phase_cost *p = &on.phase[phase];
        int64_t beside_ns = 0;
        for (uint32_t i = 0; i < p->n; i++)
            for (uint32_t k = i + 1; p->tasks[i].axis == ORR_AXIS_EP && k < p->tasks[i].joins; k++)
                beside_ns += p->tasks[k].axis == ORR_AXIS_NONE ? p->tasks[k].ns : 0;
        assert_true(beside_ns > 0);
        /* Alike, but for waits for the host. */
        assert_near(p->compute_ns, off.phase[phase].compute_ns, 1e-3 * (double)p->compute_ns);
        assert_true(p->transfer_ns[ORR_AXIS_EP] <
                    off.phase[phase].transfer_ns[ORR_AXIS_EP] - beside_ns / 2);
    }
    s.model.moe.shared = 0;
    const orr_module_cost alone = cost_of(&s, DEEPSEEK ",overlap_ep=on");
    /* Alone, but for the sorted scores. */
    assert_true((double)alone.phase[0].transfer_ns[ORR_AXIS_EP] >
                0.95 * (double)alone.phase[0].busy_ns[ORR_AXIS_EP]);
    orr_arena_free(s.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_sent_by_all_to_alls),
        cmocka_unit_test(tokens_are_gathered_and_results_summed),
        cmocka_unit_test(a_token_is_sent_once_to_a_host),
        cmocka_unit_test(one_expert_a_token_is_the_same_for_both),
        cmocka_unit_test(tokens_travel_in_eight_bits),
        cmocka_unit_test(capacity_caps_the_load),
        cmocka_unit_test(shared_experts_run_beside_the_dispatch),
    };
    return cmocka_run_group_tests_name("expert_transfers", tests, NULL, NULL);
}
