/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/whatif.h>

#include <math.h>
#include <string.h>

#include "../graph/rows.h"

enum { KERNEL, REDUCE_NODE, COPY_NODE, HOST };

/* Two ranks alike: a kernel of which nothing is known, an all-reduce of 1 MiB, a copy, a call. */
typedef struct fixture {
    const orr_job *job;
    orr_arena *arena;
    const orr_ensemble *ensemble;
    orr_whatif what;
} fixture;

static const orr_graph *rank_of_bytes(uint32_t rank, int64_t bytes)
{
    orr_graph_builder *b = new_builder();
    b->recording.rank = rank;
    orr_comm comm = no_comm;
    comm.collective = ORR_COLL_ALL_REDUCE;
    comm.group_size = 2;
    comm.in_bytes = comm.out_bytes = bytes;
    const orr_lane stream = {.kind = ORR_LANE_STREAM, .device = 0, .pid = 0, .tid = 7};
    orr_lane_id lane_id;
    OK(orr_builder_lane(b, &stream, &lane_id, NULL));
    assert_int_equal(node(b, "mystery_kernel", 0, 1000, ORR_NONE), KERNEL);
    assert_int_equal(comm_node(b, ORR_NODE_COLLECTIVE, 1000, 5000, &comm), REDUCE_NODE);
    assert_int_equal(node(b, "Memcpy HtoD", 6000, 400, ORR_NONE), COPY_NODE);
    assert_int_equal(node(b, "mystery_kernel call", 0, 77, ORR_NONE), HOST);
    b->kind[KERNEL] = ORR_NODE_COMPUTE;
    b->kind[COPY_NODE] = ORR_NODE_COPY;
    for (int v = KERNEL; v <= COPY_NODE; v++)
        b->lane[v] = (uint16_t)lane_id;
    return built(b);
}

static fixture begin_with(int64_t bytes_of_last)
{
    const orr_graph *graphs[2] = {rank_of_bytes(0, 1 << 20), rank_of_bytes(1, bytes_of_last)};
    fixture f = {.arena = orr_arena_new(0, 0)};
    OK(orr_job_build(graphs, 2, &f.job, NULL));
    OK(orr_ensemble_of_job(f.job, f.arena, &f.ensemble, NULL));
    orr_whatif_init(&f.what);
    return f;
}

static fixture begin(void)
{
    return begin_with(1 << 20);
}

static void end(fixture *f)
{
    orr_arena_free(f->arena);
    orr_job_free(f->job);
}

static orr_whatif_report apply(fixture *f, const orr_ensemble **ret)
{
    orr_whatif_report report;
    orr_error err = {0};
    if (orr_whatif_apply(f->ensemble, &f->what, f->arena, ret, &report, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return report;
}

static void test_nothing_asked_changes_nothing(void **state)
{
    (void)state;
    fixture f = begin();
    const orr_ensemble *same;
    const orr_whatif_report report = apply(&f, &same);
    const int64_t want_ns[4] = {1000, 5000, 400, 77};
    for (int d = 0; d < 2; d++) {
        assert_memory_equal(same->duration_ns[d], want_ns, sizeof want_ns);
        for (int v = 0; v < 4; v++)
            assert_int_equal(same->basis[d][v], ORR_BASIS_RECORDED);
    }
    assert_null(same->slowdown_ppm);
    assert_int_equal(report.scaled + report.repriced + report.comms[ORR_TRANSFER_PRICED], 0);
    end(&f);
}

static void test_names(void **state)
{
    (void)state;
    fixture f = begin();
    const orr_name_factor scales[] = {{"mystery", 0.5}, {"Memcpy", 0}, {"nobody", 2}};
    f.what.scales = scales;
    f.what.n_scales = 3;
    const orr_ensemble *e;
    const orr_whatif_report report = apply(&f, &e);
    assert_int_equal(e->duration_ns[1][KERNEL], 500);
    assert_int_equal(e->duration_ns[1][COPY_NODE], 0);
    assert_int_equal(e->duration_ns[1][HOST], 77); /* a name of the host's is not a kernel's */
    assert_int_equal(report.scaled, 4);
    assert_int_equal(report.unused_scale, 2);
    end(&f);
}

static orr_fact known(double value)
{
    return (orr_fact){.value = value, .basis = ORR_FACT_ASSUMED, .source = "test", .note = ""};
}

/* Nothing is known of the kernel, so it goes by memory bandwidth, and the copy by the bus. */
static void test_another_device(void **state)
{
    (void)state;
    fixture f = begin();
    orr_device slow = {.name = "slow", .kind = "gpu"}, fast = {.name = "fast", .kind = "gpu"};
    slow.memory_bytes_per_s = known(1e12);
    slow.pcie_bytes_per_s = known(16e9);
    fast.memory_bytes_per_s = known(4e12);
    fast.pcie_bytes_per_s = known(32e9);
    f.what.from = &slow;
    f.what.to = &fast;
    const orr_ensemble *e;
    const orr_whatif_report report = apply(&f, &e);
    assert_int_equal(e->duration_ns[0][KERNEL], 250);
    assert_int_equal(e->basis[0][KERNEL], ORR_BASIS_ASSUMED);
    assert_int_equal(e->duration_ns[0][COPY_NODE], 200);
    assert_int_equal(e->duration_ns[0][REDUCE_NODE], 5000);
    assert_int_equal(report.by_bandwidth, 4);

    /* a device of which nothing is known leaves things as they were, and says so */
    fast.memory_bytes_per_s = (orr_fact){.value = NAN, .source = "", .note = ""};
    const orr_whatif_report unknown = apply(&f, &e);
    assert_int_equal(e->duration_ns[0][KERNEL], 1000);
    assert_int_equal(e->basis[0][KERNEL], ORR_BASIS_RECORDED);
    assert_int_equal(unknown.unpriced, 2);
    end(&f);
}

static void test_messages_and_network(void **state)
{
    (void)state;
    fixture f = begin();
    const orr_ensemble *e;
    f.what.message_bytes = 3;
    apply(&f, &e);
    assert_int_equal(e->duration_ns[0][REDUCE_NODE], 15000);
    assert_int_equal(e->basis[0][REDUCE_NODE], ORR_BASIS_ASSUMED);

    orr_level level = {.name = "host", .size = 8, .devices = 8};
    level.bytes_per_s = known(1e9);
    level.latency_ns = known(1000);
    level.oversubscription = known(1);
    const orr_cluster cluster = {.name = "toy", .n_devices = 8, .n_levels = 1, .levels = &level};
    f.what.network = &cluster;
    f.what.algorithm = ORR_ALGORITHM_RING;
    const orr_whatif_report report = apply(&f, &e);
    assert_int_equal(report.comms[ORR_TRANSFER_PRICED], 2);
    /* a ring of two moves the message once each way, 3 MiB at 1 GB/s */
    const int64_t least_ns = 3 * (1 << 20);
    assert_in_range(e->duration_ns[0][REDUCE_NODE], least_ns, least_ns + 20000);
    assert_int_equal(e->duration_ns[0][KERNEL], 1000);

    /* on the network that was recorded it takes what was recorded; on half of it twice as long */
    f.what.message_bytes = 1;
    f.what.recorded_network = &cluster;
    assert_int_equal(apply(&f, &e).comms[ORR_TRANSFER_ANCHORED], 2);
    assert_int_equal(e->duration_ns[0][REDUCE_NODE], 5000);
    assert_int_equal(e->basis[0][REDUCE_NODE], ORR_BASIS_RECORDED);
    orr_level half = level;
    half.bytes_per_s = known(0.5e9);
    const orr_cluster slow = {.name = "slow", .n_devices = 8, .n_levels = 1, .levels = &half};
    f.what.network = &slow;
    apply(&f, &e);
    assert_in_range(e->duration_ns[0][REDUCE_NODE], 9900, 10000);
    end(&f);
}

/* A larger batch sends more activations, between stages and to experts, and no more weights. */
static void test_messages_grow_with_the_batch(void **state)
{
    static const struct {
        orr_collective kind;
        int64_t ns;
    } sent[] = {{ORR_COLL_ALL_TO_ALL, 10000},    {ORR_COLL_SEND, 10000},
                {ORR_COLL_RECV, 10000},          {ORR_COLL_ALL_REDUCE, 5000},
                {ORR_COLL_REDUCE_SCATTER, 5000}, {ORR_COLL_ALL_GATHER, 5000}};
    (void)state;
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
        orr_graph_builder *b = new_builder();
        orr_comm comm = no_comm;
        comm.collective = (uint8_t)sent[i].kind;
        comm.group_size = 2;
        comm.in_bytes = comm.out_bytes = 1 << 20;
        const orr_node_id v = comm_node(b, ORR_NODE_COLLECTIVE, 0, 5000, &comm);
        const orr_graph *graph = built(b);
        fixture f = {.arena = orr_arena_new(0, 0)};
        OK(orr_job_build(&graph, 1, &f.job, NULL));
        OK(orr_ensemble_of_job(f.job, f.arena, &f.ensemble, NULL));
        orr_whatif_init(&f.what);
        f.what.batch = 2;
        const orr_ensemble *e;
        apply(&f, &e);
        assert_int_equal(e->duration_ns[0][v], sent[i].ns);
        end(&f);
    }
}

/* What one member did not record, another one tells; what none did stays as recorded. */
static void test_sizes_that_some_members_tell(void **state)
{
    (void)state;
    orr_level level = {.name = "host", .size = 8, .devices = 8}, half = level;
    level.oversubscription = half.oversubscription = known(1);
    level.bytes_per_s = known(1e9);
    half.bytes_per_s = known(0.5e9);
    const orr_cluster fast = {.name = "fast", .n_devices = 8, .n_levels = 1, .levels = &level};
    const orr_cluster slow = {.name = "slow", .n_devices = 8, .n_levels = 1, .levels = &half};
    fixture f = begin_with(-1);
    const orr_ensemble *e;
    f.what.recorded_network = &fast;
    f.what.network = &slow;
    assert_int_equal(apply(&f, &e).comms[ORR_TRANSFER_ANCHORED], 2);
    assert_int_equal(e->duration_ns[0][REDUCE_NODE], 10000);
    assert_int_equal(e->duration_ns[1][REDUCE_NODE], 10000);
    end(&f);
}

/* Of what kind nobody knows, it cannot be priced, and stays as it was. */
static void test_unknown_kind(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    orr_comm comm = no_comm;
    comm.group_size = 2;
    comm.in_bytes = comm.out_bytes = 1 << 20;
    comm_node(b, ORR_NODE_COLLECTIVE, 0, 5000, &comm);
    const orr_graph *graph = built(b);
    fixture f = {.arena = orr_arena_new(0, 0)};
    OK(orr_job_build(&graph, 1, &f.job, NULL));
    OK(orr_ensemble_of_job(f.job, f.arena, &f.ensemble, NULL));
    orr_whatif_init(&f.what);
    orr_level level = {.name = "host", .size = 8, .devices = 8};
    level.bytes_per_s = known(1e9);
    const orr_cluster cluster = {.name = "toy", .n_devices = 8, .n_levels = 1, .levels = &level};
    f.what.network = &cluster;
    const orr_ensemble *e;
    assert_int_equal(apply(&f, &e).comms[ORR_TRANSFER_NO_SIZE], 1);
    assert_int_equal(e->duration_ns[0][0], 5000);
    assert_int_equal(e->basis[0][0], ORR_BASIS_RECORDED);
    end(&f);
}

static void test_stragglers(void **state)
{
    (void)state;
    fixture f = begin();
    const orr_rank_factor slow = {1, 1.25};
    f.what.stragglers = &slow;
    f.what.n_stragglers = 1;
    const orr_ensemble *e;
    assert_int_equal(apply(&f, &e).idle_straggler, ORR_NONE);
    assert_int_equal(e->slowdown_ppm[0], 1000000);
    assert_int_equal(e->slowdown_ppm[1], 1250000);
    end(&f);
}

static void refuses(fixture *f, const char *text)
{
    orr_error err = {0};
    orr_whatif_report report;
    const orr_ensemble *e = NULL;
    assert_int_equal(orr_whatif_apply(f->ensemble, &f->what, f->arena, &e, &report, &err),
                     ORR_INVALID);
    assert_non_null(strstr(err.text, text));
    assert_null(e);
}

static void test_refuses(void **state)
{
    (void)state;
    fixture f = begin();
    const orr_rank_factor nobody = {9, 1.25}, wrong = {0, -1};
    f.what.n_stragglers = 1;
    f.what.stragglers = &nobody;
    refuses(&f, "rank 9 is not in the job");
    f.what.stragglers = &wrong;
    refuses(&f, "straggler 0");
    f.what.n_stragglers = 0;
    f.what.batch = -1;
    refuses(&f, "factor");
    f.what.batch = 1;
    const orr_name_factor scale = {"x", NAN};
    f.what.scales = &scale;
    f.what.n_scales = 1;
    refuses(&f, "x: a factor");
    end(&f);
}

static void test_survives_no_memory(void **state)
{
    (void)state;
    fixture f = begin();
    orr_level level = {.name = "host", .size = 8, .devices = 8};
    level.bytes_per_s = known(1e9);
    const orr_cluster cluster = {.name = "toy", .n_devices = 8, .n_levels = 1, .levels = &level};
    f.what.network = f.what.recorded_network = &cluster;
    for (uint64_t nth = 1;; nth++) {
        orr_arena *arena = orr_arena_new(64, 0);
        const orr_ensemble *e;
        orr_whatif_report report;
        orr_alloc_fail_from(nth);
        const orr_status status = orr_whatif_apply(f.ensemble, &f.what, arena, &e, &report, NULL);
        orr_alloc_fail_from(0);
        orr_arena_free(arena);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_true(nth < 1000);
    }
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_asked_changes_nothing),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_another_device),
        cmocka_unit_test(test_messages_and_network),
        cmocka_unit_test(test_messages_grow_with_the_batch),
        cmocka_unit_test(test_sizes_that_some_members_tell),
        cmocka_unit_test(test_unknown_kind),
        cmocka_unit_test(test_stragglers),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
