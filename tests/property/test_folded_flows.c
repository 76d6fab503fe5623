/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "../unit/sim/toy_cluster.h"
#include "support/seeds.h"

/* Random jobs whose transfers share the links of random clusters: ranks in tensor-parallel,
 * data-parallel and pipeline groups and all together, with collectives of all kinds and algorithms
 * on lanes of their own, sends from stage to stage, stragglers and late starters.
 *
 *   - with equivalent ranks, flows and links folded, every rank and node has the times that it
 *     has when every rank is simulated by itself, to the nanosecond, and every link carries
 *     the same bytes for as long;
 *   - folding does happen;
 *   - a rank that is slower than its peers is in no class with others that compute before they
 *     meet it. */
enum { SEEDS = 600, MAX_RANKS = 64, MAX_STEPS = 12, LEVELS = 4 };

typedef struct scene {
    orr_random random;
    toy *t;
    uint32_t tp, dp, pp, n_ranks;
    uint32_t grouping[4]; /* tp, dp, pp, all */
    orr_level levels[LEVELS];
    orr_cluster cluster;
    uint32_t n_steps, kind[MAX_STEPS], lane[MAX_STEPS];
    orr_collective collective[MAX_STEPS];
    int64_t bytes[MAX_STEPS], work_ns[MAX_STEPS];
} scene;

static int64_t below(scene *c, int64_t bound)
{
    return (int64_t)orr_random_below(&c->random, (uint64_t)bound);
}

static bool one_in(scene *c, int64_t n)
{
    return below(c, n) == 0;
}

static void random_cluster(scene *c)
{
    static const orr_topology topologies[] = {ORR_TOPOLOGY_SWITCH, ORR_TOPOLOGY_SWITCH,
                                              ORR_TOPOLOGY_RING, ORR_TOPOLOGY_FULLY_CONNECTED};
    c->cluster = *toy_cluster();
    c->cluster.levels = c->levels;
    c->cluster.n_levels = 0;
    for (uint32_t devices = 1; devices < c->n_ranks || c->cluster.n_levels == 0;) {
        orr_level *level = &c->levels[c->cluster.n_levels++];
        *level = toy_cluster()->levels[1];
        level->size = c->cluster.n_levels == LEVELS ? MAX_RANKS : 2 + (uint32_t)below(c, 7);
        level->devices = devices *= level->size;
        level->topology = (uint8_t)topologies[below(c, 4)];
        level->bytes_per_s.value = 1e9 * (double)(1 + below(c, 50));
        level->latency_ns.value = (double)below(c, 4000);
        level->oversubscription.value = one_in(c, 2) ? 1 : (double)(1 + below(c, 4));
        c->cluster.n_devices = devices;
    }
    c->t->options.cluster = &c->cluster;
    c->t->options.network = ORR_NETWORK_FLOWS;
    c->t->options.algorithm = (uint8_t)(one_in(c, 2) ? 0 : below(c, ORR_ALGORITHMS));
}

/* Rank = (stage * dp + replica) * tp + shard. */
static void add_groupings(scene *c)
{
    uint32_t of[4][MAX_RANKS] = {0};
    static const char *const names[] = {"tp", "dp", "pp", "all"};
    for (uint32_t r = 0; r < c->n_ranks; r++) {
        const uint32_t shard = r % c->tp, replica = r / c->tp % c->dp, stage = r / c->tp / c->dp;
        of[0][r] = stage * c->dp + replica;
        of[1][r] = stage * c->tp + shard;
        of[2][r] = replica * c->tp + shard;
    }
    for (int k = 0; k < 4; k++)
        c->grouping[k] = toy_grouping(c->t, names[k], of[k]);
}

enum { TP, DP, PP, ALL, WORK, KINDS };

static void choose_steps(scene *c)
{
    static const orr_collective collectives[] = {
        ORR_COLL_ALL_REDUCE, ORR_COLL_ALL_REDUCE, ORR_COLL_ALL_GATHER, ORR_COLL_REDUCE_SCATTER,
        ORR_COLL_ALL_TO_ALL, ORR_COLL_BROADCAST,  ORR_COLL_REDUCE,     ORR_COLL_BARRIER};
    c->n_steps = 1 + (uint32_t)below(c, MAX_STEPS);
    for (uint32_t i = 0; i < c->n_steps; i++) {
        c->kind[i] = (uint32_t)below(c, KINDS);
        c->lane[i] = (uint32_t)below(c, 3);
        c->collective[i] = collectives[below(c, 8)];
        c->bytes[i] = one_in(c, 10) ? below(c, 8) : below(c, 1 << 22);
        c->work_ns[i] = below(c, 100000);
    }
}

/* A stage: a step through the pipeline receives from the stage before and sends to the next. */
static void add_stage(scene *c, uint32_t stage)
{
    toy *t = c->t;
    toy_graph(t);
    for (uint32_t i = 0; i < c->n_steps; i++) {
        const uint32_t kind = c->kind[i], ordinal = i * MAX_STEPS;
        if (kind == WORK || (kind == PP && c->pp == 1)) {
            toy_work(t, ORR_WORK_COMPUTE, c->work_ns[i], c->lane[i]);
        } else if (kind == PP) {
            if (stage > 0)
                toy_meet_bytes(t, -1, 3, c->grouping[PP], ordinal + stage - 1, ORR_COLL_RECV,
                               c->bytes[i]);
            const uint32_t work = toy_work(t, ORR_WORK_COMPUTE, c->work_ns[i], c->lane[i]);
            if (stage > 0)
                toy_wait(t, work, work - 1, 0);
            if (stage + 1 < c->pp)
                toy_wait(t,
                         toy_meet_bytes(t, -1, 4, c->grouping[PP], ordinal + stage, ORR_COLL_SEND,
                                        c->bytes[i]),
                         work, 0);
        } else {
            toy_meet_bytes(t, -1, c->lane[i], c->grouping[kind], ordinal, c->collective[i],
                           c->bytes[i]);
        }
    }
    toy_end_graph(t);
}

static void build(scene *c, uint64_t seed)
{
    c->random = orr_random_of(seed, 0);
    c->tp = 1 + (uint32_t)below(c, 4);
    c->dp = 1 + (uint32_t)below(c, 5);
    c->pp = 1 + (uint32_t)below(c, 3);
    c->n_ranks = c->tp * c->dp * c->pp;
    toy *t = c->t = toy_begin(c->n_ranks);
    random_cluster(c);
    add_groupings(c);
    choose_steps(c);
    for (uint32_t stage = 0; stage < c->pp; stage++)
        add_stage(c, stage);
    for (uint32_t r = 0; r < c->n_ranks; r++)
        t->graph_of_rank[r] = r / c->tp / c->dp;
    if (one_in(c, 3))
        t->slowdown_ppm[below(c, c->n_ranks)] = 1000000 + 100000 * (uint32_t)below(c, 5);
    if (one_in(c, 6))
        t->start_ns[below(c, c->n_ranks)] = below(c, 20000);
    if (one_in(c, 8))
        t->graph_of_rank[below(c, c->n_ranks)] = ORR_NONE;
    t->options.compute_slowdown = one_in(c, 4) ? 1.25 : 1;
}

static void check_same_times(uint64_t seed, const scene *c, const orr_simulation *each)
{
    const toy *t = c->t;
    for (uint32_t r = 0; r < c->n_ranks; r++) {
        if (t->graph_of_rank[r] == ORR_NONE)
            continue;
        const orr_timeline *want = &each->timelines[each->class_of_rank[r]];
        for (uint32_t v = 0; v < t->graphs[t->graph_of_rank[r]]->n_nodes; v++)
            if (toy_start(t, r, v) != want->start_ns[v] ||
                toy_of(t, r)->duration_ns[v] != want->duration_ns[v])
                seed_fail(seed, "rank %u node %u: at %lld for %lld ns, unfolded at %lld for %lld",
                          r, v, (long long)toy_start(t, r, v),
                          (long long)toy_of(t, r)->duration_ns[v], (long long)want->start_ns[v],
                          (long long)want->duration_ns[v]);
    }
    assert_int_equal(t->sim.end_ns, each->end_ns);
}

/* The integral of load over time, which merged samples keep, but for whole units. */
static double carried(const orr_link_use *link)
{
    double sum = 0;
    for (uint32_t i = 0; i + 1 < link->n_samples; i++)
        sum += link->load_frac[i] * (double)(link->at_ns[i + 1] - link->at_ns[i]);
    return sum;
}

static void check_same_links(uint64_t seed, const orr_simulation *folded,
                             const orr_simulation *each)
{
    if (folded->n_links != each->n_links)
        seed_fail(seed, "%u links carried something, unfolded %u", folded->n_links, each->n_links);
    for (uint32_t l = 0; l < each->n_links; l++) {
        const orr_link_use *is = &folded->links[l], *want = &each->links[l];
        if (is->level != want->level || is->unit != want->unit || is->up != want->up)
            seed_fail(seed, "link %u is another one", l);
        if (is->bytes != want->bytes || is->busy_ns != want->busy_ns)
            seed_fail(seed, "level %u unit %u: %g bytes in %g ns, unfolded %g in %g", is->level,
                      is->unit, is->bytes, is->busy_ns, want->bytes, want->busy_ns);
        if (fabs(carried(is) - carried(want)) > 1e-4 * carried(want) + 1)
            seed_fail(seed, "level %u unit %u: load x time %g, unfolded %g", is->level, is->unit,
                      carried(is), carried(want));
    }
}

static void test_folded_is_unfolded(void **state)
{
    (void)state;
    const seed_range range = seeds(SEEDS);
    uint64_t n_ranks = 0, n_classes = 0, n_met = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        scene c = {0};
        build(&c, seed);
        if (toy_try(c.t) != ORR_OK) { /* rings and meshes ask for complete units */
            assert_int_equal(c.t->err.status, ORR_UNSUPPORTED);
            toy_end(c.t);
            continue;
        }
        const orr_simulation each = c.t->sim;
        c.t->options.fold = true;
        toy_simulate(c.t);
        check_same_times(seed, &c, &each);
        check_same_links(seed, &c.t->sim, &each);
        n_ranks += each.n_classes;
        n_classes += c.t->sim.n_classes;
        n_met += each.n_links > 0;
        toy_end(c.t);
    }
    if (range.end - range.begin > 1) {
        assert_true(n_classes * 4 < n_ranks * 3);
        assert_true(n_met * 2 > SEEDS);
    }
}

/* A slower rank computes longer before it meets the others: it has a class of its own. */
static void test_a_perturbed_rank_is_not_folded(void **state)
{
    (void)state;
    uint32_t n = 0;
    for (uint64_t seed = 0; seed < SEEDS && n < 50; seed++) {
        scene c = {0};
        build(&c, seed);
        c.t->options.fold = true;
        if (c.n_ranks < 2 || c.kind[0] != WORK || toy_try(c.t) != ORR_OK) {
            toy_end(c.t);
            continue;
        }
        const uint32_t slow = (uint32_t)below(&c, c.n_ranks);
        c.t->slowdown_ppm[slow] = 1700000;
        toy_simulate(c.t);
        if (c.t->graph_of_rank[slow] != ORR_NONE) {
            assert_int_equal(toy_of(c.t, slow)->n_ranks, 1);
            n++;
        }
        toy_end(c.t);
    }
    assert_true(n >= 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folded_is_unfolded),
        cmocka_unit_test(test_a_perturbed_rank_is_not_folded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
