/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit/graph/graphs.h"
#include "graph/bridge.h"
#include "graph/part.h"
#include "support/seeds.h"

/* The order of a part of a graph is that of the whole: a point of a kept node is reached from
 * another exactly where it was. By brute force, on random graphs: each node is an interval between
 * two of 2N distinct moments, so that what agrees with the intervals closes no cycle. */
enum { MAX_N = 64, MAX_POINTS = 2 * MAX_N, TRIES = 400 };

typedef uint8_t reach_table[MAX_POINTS][MAX_POINTS]; /* [a][b]: b comes after a */

static uint32_t below(orr_random *random, uint32_t bound)
{
    return (uint32_t)orr_random_below(random, bound);
}

/* Moment of each point. */
static void random_moments(orr_random *random, uint32_t n, int64_t moment[MAX_POINTS])
{
    uint32_t order[MAX_POINTS];
    for (uint32_t i = 0; i < 2 * n; i++)
        order[i] = i;
    for (uint32_t i = 2 * n; i > 1; i--) {
        const uint32_t k = below(random, i), swapped = order[i - 1];
        order[i - 1] = order[k];
        order[k] = swapped;
    }
    for (uint32_t v = 0; v < n; v++) {
        const uint32_t a = order[2 * v], b = order[2 * v + 1];
        moment[2 * v] = a < b ? a : b;
        moment[2 * v + 1] = a < b ? b : a;
    }
}

/* Some nodes wait for far more than the others do. */
static void random_deps(orr_random *random, orr_graph_builder *b, uint32_t n,
                        const int64_t moment[MAX_POINTS])
{
    const uint32_t hub = below(random, n), tries = below(random, TRIES);
    for (uint32_t i = 0; i < tries; i++) {
        const orr_node_id v = below(random, 4) == 0 ? hub : below(random, n), u = below(random, n);
        const orr_dep_kind kind = below(random, ORR_DEP_SYNC + 1);
        const bool from_start = kind == ORR_DEP_CONTROL || kind == ORR_DEP_LAUNCH;
        if (moment[2 * u + !from_start] < moment[2 * v + (kind == ORR_DEP_SYNC)])
            dep(b, v, u, kind);
    }
}

static const orr_graph *random_graph(orr_random *random, uint32_t n)
{
    int64_t moment[MAX_POINTS];
    orr_graph_builder *b = new_builder();
    char name[16];
    random_moments(random, n, moment);
    for (uint32_t v = 0; v < n; v++) {
        const orr_node_id p = below(random, n);
        const bool inside = moment[2 * p] < moment[2 * v] && moment[2 * v + 1] < moment[2 * p + 1];
        snprintf(name, sizeof name, "op%u", v);
        const orr_node_id id = node(b, name, moment[2 * v], moment[2 * v + 1] - moment[2 * v],
                                    inside && below(random, 4) > 0 ? p : ORR_NONE);
        b->lane[id] =
            (uint16_t)lane(b, below(random, 2) ? ORR_LANE_HOST : ORR_LANE_STREAM, below(random, 3));
    }
    random_deps(random, b, n, moment);
    return built(b);
}

static void find_reach(const orr_graph *g, reach_table reach)
{
    const uint32_t n = 2 * g->n_nodes;
    for (uint32_t a = 0; a < n; a++)
        memset(reach[a], 0, n);
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        reach[2 * v][2 * v + 1] = 1;
        if (g->parent[v] != ORR_NONE) {
            reach[2 * g->parent[v]][2 * v] = 1;
            reach[2 * v + 1][2 * g->parent[v] + 1] = 1;
        }
        for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++) {
            const uint8_t kind = g->dep_kind[d];
            const bool from_start = kind == ORR_DEP_CONTROL || kind == ORR_DEP_LAUNCH;
            reach[2 * g->dep[d] + !from_start][2 * v + (kind == ORR_DEP_SYNC)] = 1;
        }
    }
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = 0; b < n && reach[a][k]; b++)
                reach[a][b] |= reach[k][b];
}

/* The whole's number of each node of the part; ORR_NONE: a point that became a node. */
static void names_to_numbers(const orr_graph *part, const uint8_t *keep, orr_node_id *ret)
{
    for (orr_node_id v = 0; v < part->n_nodes; v++) {
        const char *name = orr_graph_str(part, part->name[v]);
        const orr_node_id was = (orr_node_id)strtoul(name + 2, NULL, 10);
        ret[v] = keep[was] ? was : ORR_NONE;
        assert_true(keep[was] || part->duration_ns[v] == 0);
    }
}

static void compare(uint64_t seed, const orr_graph *whole, const orr_graph *part,
                    const uint8_t *keep)
{
    static reach_table want, got;
    static orr_node_id number[MAX_N * 3];
    if (part->n_nodes > MAX_N) /* the table ends there */
        return;
    find_reach(whole, want);
    find_reach(part, got);
    names_to_numbers(part, keep, number);
    for (uint32_t a = 0; a < 2 * part->n_nodes; a++)
        for (uint32_t b = 0; b < 2 * part->n_nodes; b++) {
            const orr_node_id u = number[a / 2], v = number[b / 2];
            if (u != ORR_NONE && v != ORR_NONE && got[a][b] != want[2 * u + a % 2][2 * v + b % 2])
                seed_fail(seed, "the %s of op%u is %s that of op%u's %s", b % 2 ? "end" : "start",
                          v, got[a][b] ? "wrongly after" : "no longer after", u,
                          a % 2 ? "end" : "start");
        }
}

static const orr_graph *part_of(const orr_graph *g, const uint8_t *keep)
{
    orr_graph_builder *b = orr_graph_builder_new();
    orr_error err = {0};
    assert_non_null(b);
    if (orr_graph_part(g, keep, b, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return built(b);
}

static void test_reach_is_that_of_the_whole(void **state)
{
    (void)state;
    const seed_range range = seeds(3000);
    uint32_t points = 0, compared = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 1);
        const uint32_t n = 1 + below(&random, MAX_N), share = 1 + below(&random, 9);
        const orr_graph *whole = random_graph(&random, n);
        uint8_t keep[MAX_N];
        uint32_t kept = 0;
        for (uint32_t v = 0; v < n; v++)
            kept += keep[v] = below(&random, 10) < share;
        const orr_graph *part = part_of(whole, keep);
        assert_true(part->n_nodes >= kept);
        points += part->n_nodes - kept;
        compared += part->n_nodes <= MAX_N;
        compare(seed, whole, part, keep);
        if (part->n_deps > (ORR_BRIDGE_MAX + 1) * (whole->n_deps + n))
            seed_fail(seed, "%u dependencies of %u", part->n_deps, whole->n_deps);
        orr_graph_free(part);
        orr_graph_free(whole);
    }
    if (range.end - range.begin > 1) {
        assert_true(points > 1000);
        assert_true(compared > 2900);
    }
}

static void test_all_is_the_whole(void **state)
{
    (void)state;
    const seed_range range = seeds(200);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 2);
        const uint32_t n = 1 + below(&random, MAX_N);
        const orr_graph *whole = random_graph(&random, n);
        uint8_t keep[MAX_N];
        memset(keep, 1, sizeof keep);
        const orr_graph *part = part_of(whole, keep);
        assert_int_equal(part->n_nodes, n);
        assert_int_equal(part->n_deps, whole->n_deps);
        assert_memory_equal(part->parent, whole->parent, n * sizeof *part->parent);
        assert_memory_equal(part->dep_first, whole->dep_first, (n + 1) * sizeof *part->dep_first);
        if (part->n_deps > 0) {
            assert_memory_equal(part->dep, whole->dep, part->n_deps * sizeof *part->dep);
            assert_memory_equal(part->dep_kind, whole->dep_kind, part->n_deps);
        }
        orr_graph_free(part);
        orr_graph_free(whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reach_is_that_of_the_whole),
        cmocka_unit_test(test_all_is_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
