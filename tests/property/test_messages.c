/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit/sim/astra_jobs.h"
#include "support/seeds.h"
#include "sim/astra/run.h"

/* Random networks, systems and jobs through the message engine.
 *
 *   - folded or not, every rank finishes at the same time, as does every node;
 *   - with the shorter ways of relays or step by step, likewise, also where ranks come at
 *     different times and messages are there before they are asked for;
 *   - a collective ends no sooner than its last member comes; all its messages are counted;
 *   - with congestion nothing in one dimension is sooner than without. */
enum { SEEDS = 400 };

typedef struct scene {
    orr_random random;
    astra_job job;
    bool skewed;
} scene;

static uint32_t below(scene *s, uint32_t bound)
{
    return (uint32_t)orr_random_below(&s->random, bound);
}

static void draw_network(scene *s)
{
    static const char *const names[] = {"Ring", "Switch", "FullyConnected"};
    const uint32_t n_dims = 1 + below(s, 3);
    char lists[4][100] = {"", "", "", ""}, yaml[500];
    for (uint32_t d = 0; d < n_dims; d++) {
        const char *comma = d > 0 ? ", " : "";
        size_t at[4];
        for (int i = 0; i < 4; i++)
            at[i] = strlen(lists[i]);
        snprintf(lists[0] + at[0], sizeof lists[0] - at[0], "%s%s", comma, names[below(s, 3)]);
        snprintf(lists[1] + at[1], sizeof lists[1] - at[1], "%s%u", comma,
                 n_dims == 1 ? 2 + below(s, 15) : 1u << (1 + below(s, 2)));
        snprintf(lists[2] + at[2], sizeof lists[2] - at[2], "%s%u", comma, 1 + below(s, 400));
        snprintf(lists[3] + at[3], sizeof lists[3] - at[3], "%s%u", comma, below(s, 2000));
    }
    snprintf(yaml, sizeof yaml,
             "topology: [%s]\nnpus_count: [%s]\nbandwidth: [%s]\nlatency: [%s]\n", lists[0],
             lists[1], lists[2], lists[3]);
    astra_network(&s->job, yaml);
}

static void draw_system(scene *s)
{
    orr_astra_system *system = &s->job.system;
    const orr_astra_network *network = &s->job.network;
    system->endpoint_delay_ns = below(s, 3) == 0 ? 0 : below(s, 300);
    system->active_chunks = 1 + below(s, 4);
    system->splits = 1 + below(s, 6);
    system->local_bytes_per_ns = 1 + below(s, 2000);
    system->local_bw_aware = below(s, 2) == 0;
    for (int kind = 0; kind < ORR_ASTRA_KINDS; kind++) {
        system->n_ways[kind] = network->n_dims;
        for (uint32_t d = 0; d < network->n_dims; d++) {
            const bool even = (network->size[d] & (network->size[d] - 1)) == 0;
            const uint32_t draw = below(s, 8);
            orr_astra_implementation *way = &system->ways[kind][d];
            *way = (orr_astra_implementation){.window = -1};
            if (draw < 3 || (!even && draw > 4) || kind == ORR_ASTRA_ALL_TO_ALL)
                way->algorithm = draw % 2 ? ORR_ASTRA_DIRECT : ORR_ASTRA_RING;
            else if (draw < 5)
                way->algorithm = ORR_ASTRA_DIRECT;
            else
                way->algorithm = draw == 7 && kind == ORR_ASTRA_ALL_REDUCE
                                     ? ORR_ASTRA_DOUBLE_BINARY_TREE
                                     : ORR_ASTRA_HALVING_DOUBLING;
            if (way->algorithm == ORR_ASTRA_DIRECT && below(s, 3) == 0)
                way->window = 1 + (int32_t)below(s, 4);
        }
    }
}

/* One to three collectives in a row, with computation before each. */
static const orr_graph *draw_graph(scene *s, uint64_t seed, uint32_t skew)
{
    static const orr_collective kinds[] = {ORR_COLL_ALL_REDUCE, ORR_COLL_ALL_GATHER,
                                           ORR_COLL_REDUCE_SCATTER, ORR_COLL_ALL_TO_ALL};
    orr_random random = orr_random_of(seed, 1);
    astra_graph g = astra_graph_new();
    orr_node_id before = ORR_NONE;
    (void)s;
    for (uint64_t left = 1 + orr_random_below(&random, 3); left > 0; left--) {
        const orr_node_id compute = astra_add(&g, ORR_NODE_COMPUTE, "compute",
                                              (int64_t)orr_random_below(&random, 5000) + skew);
        const orr_collective kind = kinds[orr_random_below(&random, 4)];
        const int64_t bytes = 64 + (int64_t)orr_random_below(&random, 400000);
        const orr_node_id collective = astra_collective(&g, "collective", kind, bytes, NULL);
        if (before != ORR_NONE)
            astra_wait(&g, compute, before);
        astra_wait(&g, collective, compute);
        before = collective;
        if (orr_random_below(&random, 2) == 0) /* beside it, to be overlapped */
            (void)astra_add(&g, ORR_NODE_COMPUTE, "other",
                            (int64_t)orr_random_below(&random, 9000));
    }
    return astra_graph_end(&g);
}

static void draw(scene *s, uint64_t seed, bool skewed)
{
    s->random = orr_random_of(seed, 0);
    s->skewed = skewed;
    astra_open(&s->job);
    draw_network(s);
    draw_system(s);
    if (!skewed) {
        astra_all_ranks(&s->job, draw_graph(s, seed, 0));
        return;
    }
    for (uint32_t rank = 0; rank < s->job.network.n_ranks; rank++)
        s->job.graphs[rank] = draw_graph(s, seed, below(s, 20000));
}

static void check_same(uint64_t seed, const orr_astra_result *a, const orr_astra_result *b,
                       const orr_graph *const *graphs)
{
    if (a->n_messages != b->n_messages)
        seed_fail(seed, "%llu messages, or %llu", (unsigned long long)a->n_messages,
                  (unsigned long long)b->n_messages);
    for (uint32_t rank = 0; rank < a->n_ranks; rank++) {
        if (a->ranks[rank].finish_ns != b->ranks[rank].finish_ns ||
            a->ranks[rank].exposed_ns != b->ranks[rank].exposed_ns)
            seed_fail(seed, "rank %u finishes at %lld, or at %lld", rank,
                      (long long)a->ranks[rank].finish_ns, (long long)b->ranks[rank].finish_ns);
        for (uint32_t v = 0; v < graphs[rank]->n_nodes; v++)
            if (a->ranks[rank].start_ns[v] != b->ranks[rank].start_ns[v] ||
                a->ranks[rank].end_ns[v] != b->ranks[rank].end_ns[v])
                seed_fail(seed, "rank %u node %u", rank, v);
    }
}

/* Chunks of all-reduces over several dimensions may cross, as they may in the original; then that
 * is what is said. */
static bool may_run(scene *s, uint64_t seed, orr_astra_mode mode)
{
    const orr_status status = astra_try(&s->job, mode, false);
    if (status == ORR_OK)
        return true;
    if (status != ORR_CANCELED || s->job.network.n_dims == 1 || !s->job.system.local_bw_aware ||
        strstr(s->job.err.text, "share one queue") == NULL)
        seed_fail(seed, "%s", s->job.err.text);
    return false;
}

static void test_folded(void **state)
{
    scene *s = malloc(sizeof *s);
    const seed_range range = seeds(SEEDS);
    uint32_t folded[2] = {0};
    (void)state;
    assert_non_null(s);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        for (int mode = 0; mode < ORR_ASTRA_MODEL; mode++) {
            draw(s, seed, false);
            if (may_run(s, seed, (orr_astra_mode)mode)) {
                const orr_astra_result whole = s->job.result;
                const orr_astra_result one = *astra_run(&s->job, (orr_astra_mode)mode, true);
                assert_int_equal(whole.n_simulated, s->job.network.n_ranks);
                check_same(seed, &whole, &one, s->job.graphs);
                folded[mode] += one.n_simulated == 1;
            } else if (astra_try(&s->job, (orr_astra_mode)mode, true) != ORR_CANCELED) {
                seed_fail(seed, "deadlocks, but not when folded");
            }
            astra_close(&s->job);
        }
    if (range.end - range.begin == SEEDS) {
        assert_true(folded[ORR_ASTRA_UNAWARE] > SEEDS / 2);
        assert_true(folded[ORR_ASTRA_AWARE] > SEEDS / 4);
    }
    free(s);
}

static void test_relayed(void **state)
{
    scene *s = malloc(sizeof *s);
    const seed_range range = seeds(SEEDS);
    uint64_t fewer = 0;
    (void)state;
    assert_non_null(s);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_astra_result literal;
        draw(s, seed, seed % 4 != 0);
        const orr_status status = astra_try(&s->job, ORR_ASTRA_UNAWARE, false);
        const orr_astra_result relayed = s->job.result;
        const orr_astra_job job = {&s->job.system, &s->job.network, NULL, s->job.graphs, 0};
        if (orr_astra_simulate_reference(&job, ORR_ASTRA_UNAWARE, s->job.arena, &literal,
                                         &s->job.err) != status)
            seed_fail(seed, "%s", s->job.err.text);
        if (status == ORR_OK) {
            check_same(seed, &relayed, &literal, s->job.graphs);
            fewer += relayed.n_events < literal.n_events;
        }
        astra_close(&s->job);
    }
    if (range.end - range.begin == SEEDS)
        assert_true(fewer > SEEDS / 8);
    free(s);
}

static void check_collectives(uint64_t seed, const orr_astra_result *result)
{
    for (uint32_t i = 0; i < result->n_collectives; i++) {
        const orr_astra_collective *c = &result->collectives[i];
        if (c->first_ns > c->last_ns || c->last_ns > c->end_ns)
            seed_fail(seed, "collective %u: %lld, %lld, %lld", i, (long long)c->first_ns,
                      (long long)c->last_ns, (long long)c->end_ns);
    }
}

static void test_bounds(void **state)
{
    uint32_t stuck = 0;
    scene *s = malloc(sizeof *s);
    const seed_range range = seeds(SEEDS);
    (void)state;
    assert_non_null(s);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        draw(s, seed, true);
        const orr_astra_result model = *astra_run(&s->job, ORR_ASTRA_MODEL, true);
        if (!may_run(s, seed, ORR_ASTRA_UNAWARE) || !may_run(s, seed, ORR_ASTRA_AWARE)) {
            stuck++;
            astra_close(&s->job);
            continue;
        }
        const orr_astra_result unaware = *astra_run(&s->job, ORR_ASTRA_UNAWARE, true);
        const orr_astra_result aware = *astra_run(&s->job, ORR_ASTRA_AWARE, true);
        check_collectives(seed, &unaware);
        check_collectives(seed, &aware);
        check_collectives(seed, &model);
        for (uint32_t rank = 0; rank < s->job.network.n_ranks; rank++)
            if (s->job.network.n_dims == 1 &&
                aware.ranks[rank].finish_ns < unaware.ranks[rank].finish_ns)
                seed_fail(seed, "rank %u: %lld with congestion, %lld without", rank,
                          (long long)aware.ranks[rank].finish_ns,
                          (long long)unaware.ranks[rank].finish_ns);
        astra_close(&s->job);
    }
    assert_true(stuck <= SEEDS / 10);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folded),
        cmocka_unit_test(test_relayed),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
