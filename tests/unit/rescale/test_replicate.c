/* SPDX-License-Identifier: Apache-2.0 */
#include "recorded.h"

static const orr_synthetic job = {.plan = {.dp = 2,
                                           .tp = 2,
                                           .pp = 2,
                                           .micro_batches = 2,
                                           .micro_batch = 2,
                                           .layers = 4,
                                           .hidden = 64,
                                           .heads = 4,
                                           .seq = 16},
                                  .dtype = ORR_DTYPE_BF16,
                                  .host = true};

static uint32_t group_size(const orr_grouping *g, uint32_t rank)
{
    const uint32_t group = g->group_of[rank];
    return group == ORR_NONE ? 0 : g->first[group + 1] - g->first[group];
}

/* Every rank behaves as the recorded one of its stage and slice; groups of gradients grow, the
 * others are copied. */
static void a_hundred_thousand_ranks(void **state)
{
    (void)state;
    enum { RANKS = 100000 };
    world w;
    orr_recognition known;
    orr_rescaled big;
    orr_error err = {0};
    orr_simulation sim;
    open_world(&w, "dgx_h100_pod", 0);
    const orr_job *recorded = record(&w, &job, 0);
    must(orr_recognise(recorded, NULL, w.arena, &known, &err), &err, 0, "recognise");
    must(orr_rescale_replicas(recorded, &known, RANKS, w.arena, &big, &err), &err, 0, "spread");
    const orr_ensemble *e = big.ensemble;
    assert_int_equal(e->n_ranks, RANKS);
    assert_int_equal(e->n_graphs, 8);
    assert_int_equal(big.n_made, 0);
    assert_int_equal(big.to.dp, RANKS / 4);
    for (uint32_t r = 0; r < RANKS; r += 997) {
        const uint32_t stage = r / (RANKS / 2), slice = r % 2, replica = r % (RANKS / 2) / 2;
        assert_int_equal(e->graph_of_rank[r], (stage * 2 + replica % 2) * 2 + slice);
    }
    bool grown = false, copied = false;
    for (uint32_t i = 0; i < e->n_groupings; i++) {
        grown |= group_size(&e->groupings[i], 0) == RANKS / 4;
        copied |= group_size(&e->groupings[i], 0) == 2;
    }
    assert_true(grown && copied);
    w.options.cluster = NULL;
    must(orr_simulate(e, &w.options, w.arena, &sim, &err), &err, 0, "simulate");
    assert_true(sim.n_classes <= 8);
    assert_true(orr_arena_held_bytes(w.arena) < ((size_t)64 << 20));
    orr_rescaled_free(&big);
    orr_job_free(recorded);
    close_world(&w);
}

/* Without a plan the recording is one replica; what all of it took part in, all do. */
static void an_unknown_job_is_repeated(void **state)
{
    (void)state;
    world w;
    orr_rescaled big;
    orr_error err = {0};
    orr_synthetic replicas = job;
    replicas.plan.tp = replicas.plan.pp = 1;
    open_world(&w, "gb200_nvl72", 0);
    const orr_job *recorded = record(&w, &replicas, 0);
    must(orr_rescale_replicas(recorded, NULL, 5, w.arena, &big, &err), &err, 0, "spread");
    for (uint32_t r = 0; r < 5; r++)
        assert_int_equal(big.ensemble->graph_of_rank[r], r % 2);
    assert_int_equal(big.ensemble->n_groupings, 1);
    assert_int_equal(group_size(&big.ensemble->groupings[0], 4), 5);
    /* Of five ranks instead of two: recorded x price of five / price of two. */
    orr_whatif what;
    orr_whatif_report report;
    const orr_ensemble *priced;
    orr_whatif_init(&what);
    what.network = what.recorded_network = w.pricing.cluster;
    what.recorded = big.recorded_ensemble;
    must(orr_whatif_apply(big.ensemble, &what, w.arena, &priced, &report, &err), &err, 0, "price");
    assert_true(report.comms[ORR_TRANSFER_ANCHORED] > 0);
    assert_true(report.comms_ns[ORR_TRANSFER_ANCHORED] >
                report.comms_recorded_ns[ORR_TRANSFER_ANCHORED]);
    orr_job_free(recorded);
    close_world(&w);
}

static void ranks_that_do_not_divide_are_told(void **state)
{
    (void)state;
    world w;
    orr_recognition known;
    orr_rescaled big = {0};
    orr_error err = {0};
    open_world(&w, "dgx_h100_pod", 0);
    const orr_job *recorded = record(&w, &job, 0);
    must(orr_recognise(recorded, NULL, w.arena, &known, &err), &err, 0, "recognise");
    assert_int_equal(orr_rescale_replicas(recorded, &known, 10, w.arena, &big, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "10 ranks do not divide into replicas of 4"));
    assert_int_equal(orr_rescale_replicas(recorded, &known, 0, w.arena, &big, &err), ORR_INVALID);
    assert_int_equal(orr_rescale_replicas(recorded, &known, UINT32_MAX, w.arena, &big, &err),
                     ORR_LIMIT);
    assert_null(big.ensemble);
    orr_job_free(recorded);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_thousand_ranks),
        cmocka_unit_test(an_unknown_job_is_repeated),
        cmocka_unit_test(ranks_that_do_not_divide_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
