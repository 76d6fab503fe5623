/* SPDX-License-Identifier: Apache-2.0 */
#include "astra_jobs.h"
#include "base/alloc.h"

typedef struct bad {
    const char *text, *says;
} bad;

static void test_system(void **state)
{
    static const char text[] =
        "{\"all-reduce-implementation\": [\"ring\", \"direct12\", \"halvingDoubling\"],"
        " \"all-gather-implementation\": [\"oneDirect\"], \"boost-mode\": 0, \"unheard-of\": {},"
        " \"inter-dimension-scheduling\": \"baseline\", \"intra-dimension-scheduling\": \"FIFO\","
        " \"collective-optimization\": \"baseline\", \"endpoint-delay\": 7,"
        " \"active-chunks-per-dimension\": 2, \"preferred-dataset-splits\": 64,"
        " \"local-mem-bw\": 50, \"peak-perf\": 900, \"roofline-enabled\": 1}";
    orr_astra_system s;
    orr_error err;
    (void)state;
    assert_int_equal(orr_astra_system_parse(text, strlen(text), "s", &s, &err), ORR_OK);
    assert_int_equal(s.n_ways[ORR_ASTRA_ALL_REDUCE], 3);
    assert_int_equal(s.ways[ORR_ASTRA_ALL_REDUCE][1].algorithm, ORR_ASTRA_DIRECT);
    assert_int_equal(s.ways[ORR_ASTRA_ALL_REDUCE][1].window, 12);
    assert_int_equal(s.ways[ORR_ASTRA_ALL_REDUCE][2].algorithm, ORR_ASTRA_HALVING_DOUBLING);
    assert_true(s.ways[ORR_ASTRA_ALL_GATHER][0].one);
    assert_int_equal(s.ways[ORR_ASTRA_ALL_GATHER][0].window, -1);
    assert_int_equal(s.n_ways[ORR_ASTRA_ALL_TO_ALL], 0);
    assert_false(s.local_bw_aware);
    assert_true(s.roofline);
    assert_int_equal(s.endpoint_delay_ns, 7);
    assert_int_equal(s.active_chunks, 2);
    assert_int_equal(s.splits, 64);
    assert_true(s.local_bytes_per_ns == 50 && s.peak_flops == 9e14);
}

static void test_bad_systems(void **state)
{
    static const bad bads[] = {
        {"", "s: at byte 0"},
        {"[]", "s: at byte"},
        {"{\"local-mem-bw\": 50}", "s: no key preferred-dataset-splits"},
        {"{\"preferred-dataset-splits\": 4}", "s: no key local-mem-bw"},
        {"{\"preferred-dataset-splits\": 0}", "preferred-dataset-splits: not a whole number"},
        {"{\"endpoint-delay\": \"soon\"}", "endpoint-delay: not a number"},
        {"{\"endpoint-delay\": -1}", "endpoint-delay: not a number"},
        {"{\"all-reduce-implementation\": [\"rign\"]}", "all-reduce-implementation: ring, direct"},
        {"{\"all-reduce-implementation\": \"ring\"}", "s: at byte"},
        {"{\"all-reduce-implementation\": [\"direct0\"]}", "all-reduce-implementation: ring"},
        {"{\"all-reduce-implementation\": [\"ring\", \"oneRing\"]}", "stands alone"},
        {"{\"collective-optimization\": \"none\"}", "collective-optimization: not a value"},
        {"{\"scheduling-policy\": 3}", "scheduling-policy: not a value"},
        {"{\"model-shared-bus\": 1}", "model-shared-bus is not simulated"},
        {"{\"local-mem-bw\": 0}", "local-mem-bw: not a number in its range"},
        {"{\"all-reduce-implementation-custom\": [\"a\"]}",
         "all-reduce-implementation-custom is not simulated"},
        {"{\"per-node-custom-implementation\": \"a\"}", "per-node-custom-implementation is not"},
        {"{\"inter-dimension-scheduling\": \"themis\"}", "inter-dimension-scheduling: only"},
        {"{\"intra-dimension-scheduling\": \"RG\"}", "intra-dimension-scheduling: only"},
        {"{\"local-mem-bw\": 50, \"preferred-dataset-splits\": 4} x", "s: at byte"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        orr_astra_system s;
        orr_error err = {0};
        assert_int_not_equal(
            orr_astra_system_parse(bads[i].text, strlen(bads[i].text), "s", &s, &err), ORR_OK);
        if (strstr(err.text, bads[i].says) == NULL)
            fail_msg("%s: %s", bads[i].text, err.text);
    }
}

static void test_network(void **state)
{
    static const char text[] = "topology: [ Ring, Switch, FullyConnected ]  # inside out\n"
                               "npus_count: [ 2, 8, 4 ]\nbandwidth: [ 200.0, 100.0, 50.0 ]\n"
                               "latency: [ 50, 500.5, 2000 ]\n";
    orr_astra_network n;
    orr_network model;
    orr_error err;
    (void)state;
    assert_int_equal(orr_astra_network_parse(text, strlen(text), "n", &n, &err), ORR_OK);
    assert_int_equal(n.n_dims, 3);
    assert_int_equal(n.n_ranks, 64);
    assert_int_equal(n.topology[0], ORR_TOPOLOGY_RING);
    assert_int_equal(n.topology[2], ORR_TOPOLOGY_FULLY_CONNECTED);
    assert_int_equal(n.stride[2], 16);
    assert_true(n.latency_ns[1] == 500.5);
    assert_true(n.bytes_per_ns[2] == 50.0 * (1 << 30) / 1e9);
    orr_astra_network_model(&n, &model);
    assert_int_equal(model.n_levels, 3);
    assert_true(model.levels[1].alpha_ns[0] == 1001);
}

static void test_bad_networks(void **state)
{
    static const bad bads[] = {
        {"topology: [ Ring ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]\n", "n:1:1: no key 'npus_count'"},
        {"topology: [ Torus ]\nnpus_count: [ 4 ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]\n",
         "n:1:13: topology: Ring, Switch or FullyConnected"},
        {"topology: [ Ring ]\nnpus_count: [ 4, 4 ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]\n",
         "n:2:13: npus_count: 2 values for 1 dimensions"},
        {"topology: [ Ring ]\nnpus_count: [ 1 ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]\n",
         "n:2:15: npus_count: at least 2"},
        {"topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 0 ]\nlatency: [ 1 ]\n",
         "n:3:14: bandwidth"},
        {"topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 1 ]\nlatency: [ -1 ]\n",
         "n:4:12: latency"},
        {"topology: [ Ring ]\nnpus_count: [ four ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]\n",
         "n:2:15: 'four' is not a whole number"},
        {"topology: Ring\nnpus_count: [ 4 ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]\n",
         "n:1:11: topology: a list"},
        {"- 1\n", "n:1:1:"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        orr_astra_network n;
        orr_error err = {0};
        assert_int_not_equal(
            orr_astra_network_parse(bads[i].text, strlen(bads[i].text), "n", &n, &err), ORR_OK);
        if (strstr(err.text, bads[i].says) == NULL)
            fail_msg("%s: %s", bads[i].text, err.text);
    }
}

static void test_groups(void **state)
{
    static const char text[] = "{\"10\": [3, 1], \"2\": [0, 1, 2]}";
    static const bad bads[] = {
        {"{\"0\": [1]}", "named by a number of 1 or more"},
        {"{\"tp\": [1]}", "named by a number of 1 or more"},
        {"{\"1\": []}", "a group without ranks"},
        {"{\"1\": [-1]}", "not a rank"},
        {"{\"1\": [1, 2, 1]}", "a rank stands twice"},
        {"{\"1\": [1], \"1\": [2]}", "group 1 stands there twice"},
        {"{\"1\": 1}", "g: at byte"},
        {"{\"1\": [1]", "g: at byte"},
    };
    orr_arena *arena = orr_arena_new(0, 0);
    orr_astra_groups groups;
    orr_error err = {0};
    (void)state;
    assert_int_equal(orr_astra_groups_parse(text, strlen(text), "g", arena, &groups, &err), ORR_OK);
    assert_int_equal(groups.n, 2);
    assert_int_equal(groups.at[0].id, 2);
    assert_int_equal(groups.at[1].n, 2);
    assert_int_equal(groups.at[1].ranks[0], 3); /* in the file's order */
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        assert_int_not_equal(
            orr_astra_groups_parse(bads[i].text, strlen(bads[i].text), "g", arena, &groups, &err),
            ORR_OK);
        if (strstr(err.text, bads[i].says) == NULL)
            fail_msg("%s: %s", bads[i].text, err.text);
    }
    orr_arena_free(arena);
}

static void test_files(void **state)
{
    orr_astra_system system;
    orr_astra_network network;
    orr_error err = {0};
    (void)state;
    assert_int_equal(orr_astra_system_load("/not/there.json", &system, &err), ORR_IO);
    assert_non_null(strstr(err.text, "/not/there.json"));
    assert_int_equal(orr_astra_network_load("/not/there.yml", &network, &err), ORR_IO);
    assert_non_null(strstr(err.text, "/not/there.yml"));
}

/* Each allocation that fails is told, and nothing leaks. */
static void test_no_memory(void **state)
{
    static const char network[] = "topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\n"
                                  "bandwidth: [ 50, 25 ]\nlatency: [ 500, 700 ]\n";
    static const char groups[] = "{\"10\": [3, 1], \"2\": [0, 1, 2]}";
    (void)state;
    for (int input = 0; input < 3; input++) {
        orr_status status = ORR_NO_MEMORY;
        for (uint64_t nth = 1; status == ORR_NO_MEMORY; nth++) {
            orr_arena *arena = orr_arena_new(0, 0);
            orr_astra_system s;
            orr_astra_network n;
            orr_astra_groups g;
            assert_non_null(arena);
            assert_true(nth < 1000);
            orr_alloc_fail_from(nth);
            if (input == 0)
                status =
                    orr_astra_system_parse(EXAMPLE_SYSTEM, strlen(EXAMPLE_SYSTEM), "s", &s, NULL);
            else if (input == 1)
                status = orr_astra_network_parse(network, strlen(network), "n", &n, NULL);
            else
                status = orr_astra_groups_parse(groups, strlen(groups), "g", arena, &g, NULL);
            orr_alloc_fail_from(0);
            orr_arena_free(arena);
        }
        assert_int_equal(status, ORR_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_system),    cmocka_unit_test(test_bad_systems),
        cmocka_unit_test(test_network),   cmocka_unit_test(test_bad_networks),
        cmocka_unit_test(test_groups),    cmocka_unit_test(test_files),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
