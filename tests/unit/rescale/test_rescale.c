/* SPDX-License-Identifier: Apache-2.0 */
#include "recorded.h"

#include "base/alloc.h"

static const orr_synthetic job = {.plan = {.dp = 2,
                                           .tp = 1,
                                           .pp = 1,
                                           .micro_batches = 2,
                                           .micro_batch = 2,
                                           .layers = 4,
                                           .hidden = 64,
                                           .heads = 4,
                                           .seq = 16},
                                  .dtype = ORR_DTYPE_BF16,
                                  .host = true};

static void must_not_rescale(const orr_pricing *pricing, const char *to, const char *why)
{
    world w;
    orr_recognition known;
    orr_rescaled made = {0};
    orr_plan change;
    orr_error err = {0};
    open_world(&w, "dgx_h100_pod", 0);
    const orr_job *recorded = record(&w, &job, 0);
    must(orr_recognise(recorded, NULL, w.arena, &known, &err), &err, 0, "recognise");
    must(orr_plan_parse(to, &change, &err), &err, 0, "parse");
    assert_int_equal(orr_rescale(recorded, &known, &change, pricing ? pricing : &w.pricing, w.arena,
                                 &made, &err),
                     ORR_INVALID);
    if (strstr(err.text, why) == NULL)
        fail_msg("%s: '%s' does not say '%s'", to, err.text, why);
    assert_null(made.ensemble);
    assert_int_equal(made.n_made, 0);
    orr_job_free(recorded);
    close_world(&w);
}

static void plans_that_cannot_be_are_told(void **state)
{
    (void)state;
    must_not_rescale(NULL, "pp=3", "4 layers do not divide into 3 pipeline stages");
    must_not_rescale(NULL, "tp=8", "4 attention heads do not divide into 8");
    must_not_rescale(NULL, "dp=32,pp=4", ""); /* 128 ranks on 64 devices */
    const orr_pricing nothing = {.chain = orr_cost_default_chain()};
    must_not_rescale(&nothing, "pp=2", "name a cluster");
    must_not_rescale(&nothing, "hidden=128", "name the device");
}

static const orr_finding *find(const orr_rescaled *r, const char *what)
{
    for (uint32_t i = 0; i < r->n_findings; i++)
        if (strcmp(r->findings[i].what, what) == 0)
            return &r->findings[i];
    return NULL;
}

/* What was kept, repriced and inserted is said, and the basis of each duration agrees. */
static void what_was_done_is_said(void **state)
{
    (void)state;
    world w;
    orr_recognition known;
    orr_rescaled made;
    orr_error err = {0};
    open_world(&w, "dgx_h100_pod", 0);
    const orr_job *recorded = record(&w, &job, 0);
    must(orr_recognise(recorded, NULL, w.arena, &known, &err), &err, 0, "recognise");
    const orr_plan change = {.pp = 2, .layers = 8};
    must(orr_rescale(recorded, &known, &change, &w.pricing, w.arena, &made, &err), &err, 0,
         "rescale");
    assert_int_equal(made.n_made, 2);
    assert_int_equal(made.to.layers, 8);
    assert_non_null(find(&made, "layers copied"));
    assert_string_equal(find(&made, "layers copied")->value, "4");
    assert_string_equal(find(&made, "communications inserted")->value, "8"); /* 2 x 2 x 2 */
    uint64_t kept = 0;
    for (uint32_t i = 0; i < made.n_made; i++)
        for (orr_node_id v = 0; v < made.made[i]->n_nodes; v++)
            kept += orr_graph_on_device(made.made[i], v) &&
                    made.made[i]->kind[v] != ORR_NODE_SYNC &&
                    made.ensemble->basis[i][v] == ORR_BASIS_RECORDED;
    assert_int_equal(kept, made.recorded);
    /* Operators of inserted communications were not recorded, either. */
    uint32_t assumed = 0;
    for (orr_node_id v = 0; v < made.made[0]->n_nodes; v++)
        assumed += made.made[0]->kind[v] == ORR_NODE_HOST_OP &&
                   made.ensemble->basis[0][v] == ORR_BASIS_ASSUMED;
    assert_int_equal(assumed, 2 * 4); /* c10d:: and record_param_comms of four */
    assert_int_equal(made.priced, 8);
    orr_rescaled_free(&made);
    orr_job_free(recorded);
    close_world(&w);
}

/* Left to the network, transfers that were not recorded are -1. */
static void the_network_may_say(void **state)
{
    (void)state;
    world w;
    orr_recognition known;
    orr_rescaled made;
    orr_error err = {0};
    orr_simulation sim;
    open_world(&w, "dgx_h100_pod", 0);
    const orr_job *recorded = record(&w, &job, 0);
    must(orr_recognise(recorded, NULL, w.arena, &known, &err), &err, 0, "recognise");
    w.pricing.network_says = true;
    const orr_plan change = {.pp = 2};
    must(orr_rescale(recorded, &known, &change, &w.pricing, w.arena, &made, &err), &err, 0,
         "rescale");
    uint32_t open = 0;
    for (orr_node_id v = 0; v < made.made[0]->n_nodes; v++)
        open += made.ensemble->duration_ns[0][v] == -1;
    assert_true(open >= 4); /* two sends, two recvs */
    must(orr_simulate(made.ensemble, &w.options, w.arena, &sim, &err), &err, 0, "simulate");
    assert_true(sim.end_ns > sim.begin_ns);
    orr_rescaled_free(&made);
    orr_job_free(recorded);
    close_world(&w);
}

/* Every allocation may fail; a few hundred places over the whole way are tried. */
static void out_of_memory_is_survived(void **state)
{
    (void)state;
    world w;
    orr_recognition known;
    orr_rescaled made;
    orr_error err = {0};
    const orr_plan change = {.pp = 2, .tp = 2, .dp = 1};
    open_world(&w, "dgx_h100_pod", 0);
    const orr_job *recorded = record(&w, &job, 0);
    must(orr_recognise(recorded, NULL, w.arena, &known, &err), &err, 0, "recognise");
    for (uint64_t i = 1, step = 1; i > 0; i += step) {
        orr_arena *arena = orr_arena_new(4096, 0);
        assert_non_null(arena);
        orr_recognition again;
        orr_alloc_fail_from(i);
        orr_status status = orr_recognise(recorded, NULL, arena, &again, &err);
        if (status == ORR_OK)
            status = orr_rescale(recorded, &again, &change, &w.pricing, arena, &made, &err);
        const bool over = orr_alloc_count() < i;
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        if (status == ORR_OK)
            orr_rescaled_free(&made);
        orr_arena_free(arena);
        if (over)
            break;
        step = i / 64 + 1;
    }
    orr_job_free(recorded);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_that_cannot_be_are_told),
        cmocka_unit_test(what_was_done_is_said),
        cmocka_unit_test(the_network_may_say),
        cmocka_unit_test(out_of_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
