/* SPDX-License-Identifier: Apache-2.0 */
#include "recorded.h"

#include "base/alloc.h"

static const orr_synthetic job = {.plan = {.dp = 2,
                                           .tp = 2,
                                           .pp = 2,
                                           .micro_batches = 3,
                                           .micro_batch = 2,
                                           .layers = 4,
                                           .hidden = 64,
                                           .heads = 4,
                                           .seq = 16},
                                  .dtype = ORR_DTYPE_BF16,
                                  .host = true};

static uint32_t count(const orr_graph *g, orr_node_kind kind)
{
    uint32_t n = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        n += g->kind[v] == kind;
    return n;
}

/* Of stage 0: embedding and 2 layers, 3 micro-batches. Forward 2 + 2 x 10 kernels, backward 1 + 2 x
 * 12 (products have two), the optimizer's one. All-reduces: of slices 1 + 2 x 2 forward and 2 x 2
 * backward; of gradients 3, once. */
static void a_stage_has_what_the_plan_says(void **state)
{
    (void)state;
    world w;
    orr_rescaled made;
    orr_error err = {0};
    open_world(&w, "dgx_h100_pod", 0);
    must(orr_synthetic_build(&job, &w.pricing, w.arena, &made, &err), &err, 0, "build");
    assert_int_equal(made.ensemble->n_ranks, 8);
    assert_int_equal(made.ensemble->n_graphs, 2);
    const orr_graph *g = made.ensemble->graphs[0];
    assert_int_equal(count(g, ORR_NODE_COMPUTE), 3 * (2 + 20 + 1 + 2 * 12) + 1);
    assert_int_equal(count(g, ORR_NODE_COLLECTIVE), 3 * (1 + 4 + 4) + 3);
    assert_int_equal(count(g, ORR_NODE_SEND), 3);
    assert_int_equal(count(g, ORR_NODE_RECV), 3);
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        const orr_comm *comm = orr_graph_comm(g, v);
        if (comm == NULL || g->kind[v] == ORR_NODE_COLLECTIVE)
            continue;
        const int64_t bytes = g->kind[v] == ORR_NODE_SEND ? comm->in_bytes : comm->out_bytes;
        assert_int_equal(bytes, 2 * 16 * 64 * 2);
        assert_true(made.ensemble->duration_ns[0][v] > 0);
    }
    orr_rescaled_free(&made);
    close_world(&w);
}

/* Node for node the graph of its stage; but of its own rank and groups. */
static void a_rank_is_its_stage(void **state)
{
    (void)state;
    world w;
    orr_rescaled made;
    orr_error err = {0};
    const orr_graph *own;
    open_world(&w, "dgx_h100_pod", 0);
    must(orr_synthetic_build(&job, &w.pricing, w.arena, &made, &err), &err, 0, "build");
    must(orr_synthetic_rank(&job, 7, &own, &err), &err, 0, "rank");
    const orr_graph *g = made.ensemble->graphs[1];
    assert_int_equal(own->rank, 7);
    assert_int_equal(own->world_size, 8);
    assert_int_equal(own->n_nodes, g->n_nodes);
    assert_int_equal(own->n_deps, g->n_deps);
    assert_memory_equal(own->kind, g->kind, g->n_nodes);
    assert_memory_equal(own->dep, g->dep, g->n_deps * sizeof *g->dep);
    assert_memory_equal(own->start_ns, g->start_ns, g->n_nodes * sizeof *g->start_ns);
    assert_int_equal(own->n_groups, 3);
    assert_int_equal(orr_group_rank(&own->groups[0], 1), 7); /* tp: 6 7 */
    assert_int_equal(orr_group_rank(&own->groups[1], 0), 5); /* dp: 5 7 */
    assert_int_equal(orr_group_rank(&own->groups[2], 0), 3); /* pp: 3 7 */
    orr_graph_free(own);
    orr_rescaled_free(&made);
    close_world(&w);
}

/* The launches gone, the work is the same. */
static void without_a_host(void **state)
{
    (void)state;
    world w;
    orr_rescaled with, without;
    orr_error err = {0};
    orr_simulation a, b;
    orr_synthetic bare = job;
    bare.host = false;
    open_world(&w, "dgx_h100_pod", 0);
    must(orr_synthetic_build(&job, &w.pricing, w.arena, &with, &err), &err, 0, "build");
    must(orr_synthetic_build(&bare, &w.pricing, w.arena, &without, &err), &err, 0, "build");
    const orr_graph *g = without.ensemble->graphs[0];
    assert_int_equal(count(g, ORR_NODE_RUNTIME) + count(g, ORR_NODE_HOST_OP), 0);
    assert_int_equal(count(g, ORR_NODE_COMPUTE), count(with.ensemble->graphs[0], ORR_NODE_COMPUTE));
    must(orr_simulate(with.ensemble, &w.options, w.arena, &a, &err), &err, 0, "simulate");
    must(orr_simulate(without.ensemble, &w.options, w.arena, &b, &err), &err, 0, "simulate");
    assert_true(b.end_ns - b.begin_ns > 0);
    assert_true(b.end_ns - b.begin_ns < a.end_ns - a.begin_ns);
    orr_rescaled_free(&with);
    orr_rescaled_free(&without);
    close_world(&w);
}

static void must_not_build(orr_synthetic wrong, orr_status want, const char *why)
{
    world w;
    orr_rescaled made = {0};
    orr_error err = {0};
    open_world(&w, "dgx_h100_pod", 0);
    assert_int_equal(orr_synthetic_build(&wrong, &w.pricing, w.arena, &made, &err), want);
    if (strstr(err.text, why) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, why);
    assert_null(made.ensemble);
    close_world(&w);
}

static void plans_that_cannot_be_are_told(void **state)
{
    (void)state;
    orr_synthetic wrong = job;
    wrong.plan.pp = 3;
    must_not_build(wrong, ORR_INVALID, "4 layers do not divide into 3");
    wrong = job;
    wrong.plan.heads = 0;
    must_not_build(wrong, ORR_INVALID, "heads");
    wrong = job;
    wrong.plan.seq = 1 << 28;
    must_not_build(wrong, ORR_LIMIT, "tokens");
    wrong = job;
    wrong.plan.dp = 64;
    must_not_build(wrong, ORR_INVALID, ""); /* beyond the 64 devices of the cluster */
    const orr_graph *g = NULL;
    assert_int_equal(orr_synthetic_rank(&job, 8, &g, NULL), ORR_INVALID);
}

static void out_of_memory_is_survived(void **state)
{
    (void)state;
    orr_alloc_fail_from(0);
    const orr_graph *g = NULL;
    assert_int_equal(orr_synthetic_rank(&job, 0, &g, NULL), ORR_OK);
    const uint64_t n = orr_alloc_count();
    orr_graph_free(g);
    for (uint64_t i = 1; i <= n; i++) {
        g = NULL;
        orr_alloc_fail_from(i);
        const orr_status status = orr_synthetic_rank(&job, 0, &g, NULL);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        if (status == ORR_OK)
            orr_graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_has_what_the_plan_says),
        cmocka_unit_test(a_rank_is_its_stage),
        cmocka_unit_test(without_a_host),
        cmocka_unit_test(plans_that_cannot_be_are_told),
        cmocka_unit_test(out_of_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
