/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_steps.h"

/* Every collective and algorithm over several levels, carried out message by message, against its
 * closed form. */

static double held(const exec *x, uint32_t k, orr_collective collective, double S)
{
    if (collective == ORR_COLL_ALL_REDUCE || collective == ORR_COLL_ALL_GATHER ||
        collective == ORR_COLL_REDUCE_SCATTER)
        return S / exec_below(x, k);
    if (collective == ORR_COLL_SCATTER || collective == ORR_COLL_GATHER)
        return S * exec_below(x, k + 1) / x->n;
    return S;
}

static void by_levels(exec *x, orr_collective collective, orr_algorithm algorithm, double S)
{
    const bool whole = algorithm == ORR_ALGORITHM_RECURSIVE_DOUBLING;
    exec_start(x);
    for (uint32_t i = 0; i < x->n_levels; i++) {
        const uint32_t k = is_rooted(collective) ? x->n_levels - 1 - i : i;
        const bool top = k + 1 == x->n_levels;
        if (collective == ORR_COLL_ALL_REDUCE && !top && !whole) {
            on_level(x, k, ORR_COLL_REDUCE_SCATTER, algorithm, held(x, k, collective, S));
            on_level(x, k, ORR_COLL_ALL_GATHER, algorithm, held(x, k, collective, S));
        } else if (collective == ORR_COLL_ALL_REDUCE && whole) {
            on_level(x, k, collective, algorithm, S);
        } else {
            on_level(x, k, collective, algorithm, held(x, k, collective, S));
        }
    }
}

static void levels_step_by_step(void **state)
{
    (void)state;
    uint32_t n_compared = 0;
    for (int shape = 0; shape < N_SHAPES; shape++)
        for (uint32_t topologies = 0; topologies < 27; topologies++)
            for (int i = 0; i < N_SERVED; i++) {
                static exec x;
                x = levels_of(shape, topologies, false);
                bool all = SERVED[i].algorithm != ORR_ALGORITHM_RING &&
                           SERVED[i].algorithm != ORR_ALGORITHM_DIRECT; /* below */
                for (uint32_t k = 0; k < x.n_levels; k++)
                    all &= applies(&SERVED[i], &x.level[k]);
                if (!all)
                    continue;
                /* one sender does not fill an uplink, but the form charges it as when all send */
                for (uint32_t k = 0; is_rooted(SERVED[i].collective) && k < 3; k++)
                    x.level[k].oversubscription = 1;
                by_levels(&x, SERVED[i].collective, SERVED[i].algorithm, 1e9);
                agree(&x, SERVED[i].collective, SERVED[i].algorithm, 1e9);
                n_compared++;
            }
    assert_true(n_compared > 500);
}

/* Direct: every pair at once. */
static void levels_all_pairs(void **state)
{
    (void)state;
    for (int shape = 0; shape < N_SHAPES; shape++)
        for (uint32_t topologies = 0; topologies < 27; topologies++)
            for (int one_network = 0; one_network < 2; one_network++) {
                static exec x;
                x = levels_of(shape, topologies, one_network);
                exec_start(&x);
                for (uint32_t i = 0; i < x.n; i++)
                    for (uint32_t j = 0; j < x.n; j++)
                        if (i != j)
                            exec_message(&x, i, j, 1e9 / x.n, false);
                exec_step(&x);
                agree(&x, ORR_COLL_ALL_TO_ALL, ORR_ALGORITHM_DIRECT, 1e9);
                agree(&x, ORR_COLL_ALL_GATHER, ORR_ALGORITHM_DIRECT, 1e9);
                agree(&x, ORR_COLL_REDUCE_SCATTER, ORR_ALGORITHM_DIRECT, 1e9);
            }
}

/* The i-th device of ring `ring`: each unit is entered one behind where the ring leaves it, so that
 * rings leave through all devices of a unit. */
static uint32_t on_ring(const exec *x, uint32_t ring, uint32_t i)
{
    uint32_t device = 0;
    for (uint32_t k = 0; k < x->n_levels; k++) {
        const uint32_t used = x->level[k].used, below = exec_below(x, k);
        const bool top = k + 1 == x->n_levels;
        device += (i / below % used + (top ? 0 : ring / below % used + 1)) % used * below;
    }
    return device;
}

/* One ring through all, as many at once as the highest units have devices. Every chunk's way is
 * followed. */
static void flat_rings(exec *x, double S, uint32_t rounds)
{
    exec_start(x);
    const uint32_t n_rings = exec_below(x, x->n_levels - 1), steps = rounds * (x->n - 1);
    double longest_ns = 0;
    for (uint32_t ring = 0; ring < n_rings; ring++)
        for (uint32_t begin = 0; begin < x->n; begin++) {
            memset(x->chain_ns, 0, sizeof x->chain_ns);
            double at_ns = 0;
            for (uint32_t step = 0; step < steps; step++) {
                const uint32_t src = on_ring(x, ring, (begin + step) % x->n),
                               dst = on_ring(x, ring, (begin + step + 1) % x->n);
                memset(x->next_ns, 0, sizeof x->next_ns);
                exec_message(x, src, dst, S / x->n / n_rings, false);
                at_ns += x->next_ns[dst];
            }
            longest_ns = fmax(longest_ns, at_ns);
        }
    exec_carry(x);
    x->chain_ns[0] = longest_ns;
}

static void levels_rings(void **state)
{
    (void)state;
    for (int shape = 0; shape < N_SHAPES; shape++)
        for (int one_network = 0; one_network < 2; one_network++) {
            static exec x;
            x = levels_of(shape, 0, one_network);
            if (x.n_levels == 2 && SHAPES[shape][1] == 2) {
                x.level[1].size = 2;
            }
            flat_rings(&x, 1e9, 1);
            agree(&x, ORR_COLL_ALL_GATHER, ORR_ALGORITHM_RING, 1e9);
            agree(&x, ORR_COLL_REDUCE_SCATTER, ORR_ALGORITHM_RING, 1e9);
            flat_rings(&x, 1e9, 2);
            agree(&x, ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_RING, 1e9);
        }
}

/* Reduce-scatter inside, all-reduce across, all-gather inside; the cheapest each. */
static void levels_hierarchical(void **state)
{
    static const double sizes[] = {1, 1e5, 1e9};
    (void)state;
    for (int shape = 0; shape < N_SHAPES; shape++)
        for (uint32_t topologies = 0; topologies < 27; topologies++)
            for (int s = 0; s < 3; s++) {
                double want = 0;
                static exec x, best;
                for (uint32_t k = 0; k < 3; k++) {
                    const bool top = k + 1 == 3;
                    x = levels_of(shape, topologies, false);
                    if (x.n_levels == k)
                        break;
                    const bool last = k + 1 == x.n_levels;
                    double least = INFINITY;
                    for (int i = 0; i < N_SERVED; i++) {
                        const orr_collective part =
                            last || top ? ORR_COLL_ALL_REDUCE : ORR_COLL_ALL_GATHER;
                        if (SERVED[i].collective != part || !applies(&SERVED[i], &x.level[k]))
                            continue;
                        best = x;
                        exec_start(&best);
                        on_level(&best, k, part, SERVED[i].algorithm,
                                 sizes[s] / exec_below(&best, k));
                        least = lesser(least, exec_ns(&best));
                    }
                    if (!last && !top) { /* direct is in the table for the reduce-scatter only */
                        best = x;
                        exec_start(&best);
                        on_level(&best, k, ORR_COLL_ALL_GATHER, ORR_ALGORITHM_DIRECT,
                                 sizes[s] / exec_below(&best, k));
                        least = 2 * lesser(least, exec_ns(&best));
                    } else if (x.level[k].topology == ORR_TOPOLOGY_SWITCH || x.level[k].size == 2) {
                        const double L = ceil(log2(x.level[k].used)), n = x.level[k].used;
                        least = lesser(
                            least, 2 * L * x.level[k].alpha_ns +
                                       (n < 4 ? n / 2 : 2) * sizes[s] / exec_below(&x, k) *
                                           x.level[k].oversubscription / x.level[k].bytes_per_ns);
                    }
                    want += least;
                }
                x.n = exec_below(&x, x.n_levels);
                bool serves;
                const double ns =
                    form_ns(&x, ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_HIERARCHICAL, sizes[s], &serves);
                assert_true(serves);
                if (fabs(ns - want) > 1e-9 * want)
                    fail_msg("hierarchical, shape %d, topologies %u: %.6f ns, executed %.6f ns",
                             shape, topologies, ns, want);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_step_by_step),
        cmocka_unit_test(levels_all_pairs),
        cmocka_unit_test(levels_rings),
        cmocka_unit_test(levels_hierarchical),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
