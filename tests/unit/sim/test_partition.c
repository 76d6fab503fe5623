/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "sim/symmetry/partition.h"

enum { N = 40 };

typedef struct net {
    bool joined[N][N];
    uint32_t n, first[N + 1], to[N * N], class_of[N], n_classes;
} net;

static void list(net *g)
{
    uint32_t n = 0;
    for (uint32_t v = 0; v < g->n; v++) {
        g->first[v] = n;
        for (uint32_t u = 0; u < g->n; u++)
            if (g->joined[v][u])
                g->to[n++] = u;
    }
    g->first[g->n] = n;
}

/* Naive: a vertex is told from another by its class and the number of neighbours in each class,
 * again and again until nothing changes. */
static void refine_naively(net *g)
{
    for (bool changed = true; changed;) {
        uint32_t by_class[N][N] = {{0}}, next[N], n_next = 0;
        for (uint32_t v = 0; v < g->n; v++)
            for (uint32_t u = 0; u < g->n; u++)
                if (g->joined[v][u])
                    by_class[v][g->class_of[u]]++;
        for (uint32_t v = 0; v < g->n; v++) {
            uint32_t u = 0;
            while (u < v && (g->class_of[u] != g->class_of[v] ||
                             memcmp(by_class[u], by_class[v], sizeof by_class[u]) != 0))
                u++;
            next[v] = u < v ? next[u] : n_next++;
        }
        changed = n_next != g->n_classes;
        g->n_classes = n_next;
        memcpy(g->class_of, next, sizeof next);
    }
}

static void check_against_naive(net *g)
{
    orr_partition p;
    list(g);
    assert_int_equal(orr_partition_init(&p, g->class_of, g->n, g->n_classes, NULL), ORR_OK);
    assert_int_equal(orr_partition_refine(&p, g->first, g->to, NULL), ORR_OK);
    refine_naively(g);
    assert_int_equal(p.n_classes, g->n_classes);
    for (uint32_t v = 0; v < g->n; v++) {
        const uint32_t c = p.class_of[v];
        assert_int_equal(p.order[p.place[v]], v);
        assert_true(p.place[v] >= p.first[c] && p.place[v] < p.first[c] + p.count[c]);
        for (uint32_t u = 0; u < v; u++)
            assert_int_equal(p.class_of[u] == p.class_of[v], g->class_of[u] == g->class_of[v]);
    }
    orr_partition_done(&p);
}

static void test_random_graphs(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        orr_random random = orr_random_of(seed, 0);
        net g = {.n = 1 + (uint32_t)orr_random_below(&random, N)};
        const uint64_t sparse = 1 + orr_random_below(&random, g.n);
        for (uint32_t v = 0; v < g.n; v++)
            for (uint32_t u = 0; u < v; u++)
                g.joined[v][u] = g.joined[u][v] = orr_random_below(&random, sparse) == 0;
        g.n_classes = 1;
        if (g.n > 1 && seed % 2) {
            g.class_of[orr_random_below(&random, g.n)] = 1;
            g.n_classes = 2;
        }
        check_against_naive(&g);
    }
}

/* A path with one marked end: everybody differs by the distance from it. */
static void test_a_path_is_told_apart(void **state)
{
    (void)state;
    net g = {.n = N, .n_classes = 2};
    for (uint32_t v = 0; v + 1 < N; v++)
        g.joined[v][v + 1] = g.joined[v + 1][v] = true;
    g.class_of[0] = 1;
    list(&g);
    check_against_naive(&g);
    assert_int_equal(g.n_classes, N);
}

static void test_a_ring_stays_whole(void **state)
{
    (void)state;
    net g = {.n = N, .n_classes = 1};
    for (uint32_t v = 0; v < N; v++)
        g.joined[v][(v + 1) % N] = g.joined[(v + 1) % N][v] = true;
    check_against_naive(&g);
    assert_int_equal(g.n_classes, 1);
}

/* A long path with a mark at its end: n log n, where asking again until nothing changes would
 * take n rounds over all. */
static void test_a_long_path_is_quick(void **state)
{
    (void)state;
    enum { LONG = 300000 };
    uint32_t *class_of = orr_calloc(LONG, sizeof *class_of);
    uint32_t *first = orr_calloc(LONG + 1, sizeof *first), *to = orr_calloc(2 * LONG, sizeof *to);
    uint32_t n = 0;
    orr_partition p;
    for (uint32_t v = 0; v < LONG; v++) {
        first[v] = n;
        if (v > 0)
            to[n++] = v - 1;
        if (v + 1 < LONG)
            to[n++] = v + 1;
    }
    first[LONG] = n;
    class_of[LONG - 1] = 1;
    assert_int_equal(orr_partition_init(&p, class_of, LONG, 2, NULL), ORR_OK);
    assert_int_equal(orr_partition_refine(&p, first, to, NULL), ORR_OK);
    assert_int_equal(p.n_classes, LONG);
    orr_partition_done(&p);
    orr_free(class_of);
    orr_free(first);
    orr_free(to);
}

static void test_survives_no_memory(void **state)
{
    (void)state;
    const uint32_t class_of[3] = {0, 1, 0}, first[4] = {0, 1, 3, 4}, to[4] = {1, 0, 2, 1};
    orr_status status = ORR_NO_MEMORY;
    uint64_t nth = 1;
    for (; status != ORR_OK; nth++) {
        orr_partition p;
        orr_alloc_fail_from(nth);
        status = orr_partition_init(&p, class_of, 3, 2, NULL);
        if (status == ORR_OK)
            status = orr_partition_refine(&p, first, to, NULL);
        orr_alloc_fail_from(0);
        orr_partition_done(&p);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
    }
    assert_int_equal(nth, 5 + 7 + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),      cmocka_unit_test(test_a_path_is_told_apart),
        cmocka_unit_test(test_a_ring_stays_whole), cmocka_unit_test(test_a_long_path_is_quick),
        cmocka_unit_test(test_survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
