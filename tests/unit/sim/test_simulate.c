/* SPDX-License-Identifier: Apache-2.0 */
#include "../analysis/comm_job.h"

#include <orrery/sim.h>

enum { RANKS = 4 };

/* Four ranks: an operator launches a kernel and an all-reduce, then waits for the device. Rank 2
 * computes for longer, so the others' all-reduce was long in the recording. */
static const orr_job *recorded(small *s)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const int64_t mm_ns = rank == 2 ? 90000 : 50000;
        orr_builder_recording(s->builder, &(orr_recording){.rank = rank, .world_size = RANKS});
        const uint32_t cpu = small_thread(s, 1), gpu = small_stream(s, 0, 7);
        const orr_group_id world = small_group(s, "0", "world", RANKS);
        const uint32_t op = small_node(s, ORR_NODE_HOST_OP, "aten::mm", cpu, 0, 30000, ORR_NONE);
        const uint32_t a = small_call(s, cpu, 2000, 5000, op);
        const uint32_t b = small_call(s, cpu, 12000, 5000, op);
        const uint32_t mm = small_work(s, ORR_NODE_COMPUTE, "gemm", gpu, 9000, mm_ns, a);
        const uint32_t meet = small_comm(s, ORR_COLL_ALL_REDUCE, world, RANKS, gpu, 9000 + mm_ns,
                                         110000 - mm_ns, 1 << 20);
        assert_int_equal(orr_builder_dep(s->builder, meet, b, ORR_DEP_LAUNCH, &s->err), ORR_OK);
        assert_int_equal(orr_builder_dep(s->builder, meet, mm, ORR_DEP_STREAM, &s->err), ORR_OK);
        const uint32_t sync =
            small_node(s, ORR_NODE_RUNTIME, "cudaDeviceSynchronize", cpu, 31000, 91000, ORR_NONE);
        assert_int_equal(orr_builder_dep(s->builder, sync, meet, ORR_DEP_SYNC, &s->err), ORR_OK);
        small_rank(s);
    }
    return small_job(s);
}

static const orr_ensemble *ensemble_of(small *s)
{
    const orr_ensemble *ensemble;
    assert_int_equal(orr_ensemble_of_job(recorded(s), s->arena, &ensemble, &s->err), ORR_OK);
    return ensemble;
}

static int64_t stop(const orr_simulation *sim, uint32_t rank, orr_node_id v)
{
    const orr_timeline *t = &sim->timelines[sim->class_of_rank[rank]];
    return t->start_ns[v] + t->duration_ns[v];
}

enum { MM = 3, MEET = 4, SYNC = 5 };

static void test_a_recorded_job_is_found_again(void **state)
{
    (void)state;
    small s = small_begin();
    orr_simulation sim;
    const orr_ensemble *ensemble = ensemble_of(&s);
    assert_int_equal(orr_simulate(ensemble, NULL, s.arena, &sim, &s.err), ORR_OK);
    assert_int_equal(sim.n_classes, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_in_range(stop(&sim, r, MEET), 119000 - 2000, 119000 + 2000);
        assert_int_equal(stop(&sim, r, MEET), stop(&sim, 0, MEET));
        assert_int_equal(sim.timelines[r].duration_ns[MM], r == 2 ? 90000 : 50000);
        assert_true(stop(&sim, r, SYNC) >= stop(&sim, r, MEET));
    }
    assert_true(sim.constants.launch_latency_ns >= 0 && sim.constants.event_latency_ns >= 0);
    /* device: 3 x 50 + 90 us of products, 4 x 20 us of transfers; hosts 30 us and their waits */
    assert_true(sim.basis_ns[ORR_BASIS_RECORDED] > 240000 + 80000 + 120000);
    small_end(&s);
}

/* The straggler no longer straggles: what waited for it is earlier. */
static void test_what_if_it_were_faster(void **state)
{
    (void)state;
    small s = small_begin();
    orr_simulation before, after;
    const orr_ensemble *ensemble = ensemble_of(&s);
    orr_ensemble faster = *ensemble;
    const uint32_t ppm[RANKS] = {1000000, 1000000, 555556, 1000000};
    faster.slowdown_ppm = ppm;
    assert_int_equal(orr_simulate(ensemble, NULL, s.arena, &before, &s.err), ORR_OK);
    assert_int_equal(orr_simulate(&faster, NULL, s.arena, &after, &s.err), ORR_OK);
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_equal(stop(&before, r, MEET) - stop(&after, r, MEET), 40000);
    small_end(&s);
}

/* 1,000 ranks of the recording of four, folded; any number of threads. */
static void test_many_ranks_of_few_graphs(void **state)
{
    (void)state;
    enum { MANY = 1000 };
    small s = small_begin();
    const orr_ensemble *four = ensemble_of(&s);
    uint32_t graph_of_rank[MANY], group_of[MANY];
    orr_simulation sim[4];
    orr_grouping grouping;
    for (uint32_t r = 0; r < MANY; r++) {
        graph_of_rank[r] = r % RANKS;
        group_of[r] = r / 8;
    }
    assert_int_equal(orr_grouping_of("0", group_of, MANY, MANY / 8, s.arena, &grouping, &s.err),
                     ORR_OK);
    orr_ensemble many = *four;
    many.n_ranks = MANY;
    many.graph_of_rank = graph_of_rank;
    many.start_ns = NULL;
    many.n_groupings = 1;
    many.groupings = &grouping;
    for (uint32_t i = 0; i < 4; i++) {
        orr_sim_options options;
        orr_sim_options_init(&options);
        options.threads = 1 + 2 * i;
        options.fold = i < 3;
        assert_int_equal(orr_simulate(&many, &options, s.arena, &sim[i], &s.err), ORR_OK);
        assert_int_equal(sim[i].n_classes, i < 3 ? RANKS : MANY);
        assert_int_equal(sim[i].end_ns, sim[0].end_ns);
        for (int b = 0; b < ORR_BASES; b++)
            assert_int_equal(sim[i].basis_ns[b], sim[0].basis_ns[b]);
        for (uint32_t r = 0; r < MANY; r++) {
            const orr_timeline *x = &sim[0].timelines[sim[0].class_of_rank[r]];
            const orr_timeline *y = &sim[i].timelines[sim[i].class_of_rank[r]];
            const size_t bytes = four->graphs[x->graph]->n_nodes * sizeof *x->start_ns;
            assert_memory_equal(x->start_ns, y->start_ns, bytes);
            assert_memory_equal(x->duration_ns, y->duration_ns, bytes);
        }
    }
    small_end(&s);
}

static void test_options_are_checked(void **state)
{
    (void)state;
    small s = small_begin();
    orr_simulation sim;
    const orr_ensemble *ensemble = ensemble_of(&s);
    orr_sim_options good, bad;
    orr_sim_options_init(&good);
#define REFUSES(field, value, message)                                                             \
    do {                                                                                           \
        bad = good;                                                                                \
        bad.field = (value);                                                                       \
        assert_int_equal(orr_simulate(ensemble, &bad, s.arena, &sim, &s.err), ORR_INVALID);        \
        assert_string_equal(s.err.text, message);                                                  \
    } while (0)
    REFUSES(host_speed, 0, "host speed 0: must be from 0.000001 to 1000000");
    REFUSES(host_speed, __builtin_nan(""), "host speed nan: must be from 0.000001 to 1000000");
    REFUSES(comm_slowdown, 0.5, "slowdowns of overlap 1 and 0.5: must be from 1 to 1000");
    REFUSES(queue_depth, 0, "a stream must hold at least one launch");
    REFUSES(network, ORR_NETWORK_FLOWS, "a network without a cluster: name the cluster");
    REFUSES(network, 9, "no such network mode or algorithm");
    assert_string_equal(orr_network_mode_name(ORR_NETWORK_ALPHA_BETA), "alpha-beta");
    assert_string_equal(orr_network_mode_name((orr_network_mode)9), "");
    /* of an older header: what it does not have is as by default */
    bad = good;
    bad.struct_bytes = offsetof(orr_sim_options, queue_depth);
    bad.queue_depth = 0;
    assert_int_equal(orr_simulate(ensemble, &bad, s.arena, &sim, &s.err), ORR_OK);
    small_end(&s);
}

static void test_every_failed_allocation_is_survived(void **state)
{
    (void)state;
    small s = small_begin();
    orr_simulation sim;
    orr_sim_options options;
    orr_arena *keep = orr_arena_new(0, 0);
    const orr_ensemble *ensemble;
    orr_sim_options_init(&options);
    options.threads = 1;
    assert_int_equal(orr_ensemble_of_job(recorded(&s), keep, &ensemble, &s.err), ORR_OK);
    SMALL_SURVIVES_NO_MEMORY(orr_simulate(ensemble, &options, s.arena, &sim, &s.err));
    orr_arena_free(keep);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_recorded_job_is_found_again),
        cmocka_unit_test(test_what_if_it_were_faster),
        cmocka_unit_test(test_many_ranks_of_few_graphs),
        cmocka_unit_test(test_options_are_checked),
        cmocka_unit_test(test_every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
