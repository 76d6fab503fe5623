/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "machine_text.h"

/* 4 devices a host, 3 hosts a rack, 2 racks. */
static const orr_level LEVELS[] = {
    {.name = "host", .size = 4, .devices = 4},
    {.name = "rack", .size = 3, .devices = 12},
    {.name = "site", .size = 2, .devices = 24},
};
static const orr_cluster CLUSTER = {.name = "c", .n_devices = 24, .n_levels = 3, .levels = LEVELS};

static orr_span span_of(const uint32_t *ranks, uint32_t n)
{
    orr_span span = {0};
    orr_error err = {0};
    if (orr_cluster_span(&CLUSTER, ranks, n, &span, &err) != ORR_OK)
        fail_msg("%s", err.text);
    assert_int_equal(span.n_ranks, n);
    assert_int_equal(span.n_levels, 3);
    return span;
}

#define ASSERT_SPAN(ranks, w0, w1, w2, top_, even_)                                                \
    do {                                                                                           \
        const orr_span span = span_of((ranks), sizeof(ranks) / sizeof *(ranks));                   \
        assert_int_equal(span.width[0], (w0));                                                     \
        assert_int_equal(span.width[1], (w1));                                                     \
        assert_int_equal(span.width[2], (w2));                                                     \
        assert_int_equal(span.top, (top_));                                                        \
        assert_int_equal(span.even, (even_));                                                      \
    } while (0)

static void groups_lie_on_levels(void **state)
{
    (void)state;
    const uint32_t one[] = {5};
    ASSERT_SPAN(one, 1, 1, 1, 0, true);
    const uint32_t host[] = {4, 5, 6, 7};
    ASSERT_SPAN(host, 4, 1, 1, 0, true);
    const uint32_t rail[] = {1, 5, 9};
    ASSERT_SPAN(rail, 1, 3, 1, 1, true);
    const uint32_t far[] = {0, 12};
    ASSERT_SPAN(far, 1, 1, 2, 2, true);
    uint32_t all[24];
    for (uint32_t i = 0; i < 24; i++)
        all[i] = i;
    ASSERT_SPAN(all, 4, 3, 2, 2, true);
    const uint32_t pairs[] = {0, 1, 4, 5, 12, 13, 16, 17};
    ASSERT_SPAN(pairs, 2, 2, 2, 2, true);
}

static void uneven_groups_are_told(void **state)
{
    (void)state;
    const uint32_t ranks[] = {0, 1, 2, 4};
    ASSERT_SPAN(ranks, 3, 2, 1, 1, false);
    const uint32_t hosts[] = {0, 4, 12};
    ASSERT_SPAN(hosts, 1, 2, 2, 2, false);
}

static void the_order_does_not_matter(void **state)
{
    (void)state;
    const uint32_t ranks[] = {17, 0, 13, 4, 1, 16, 5, 12};
    const uint32_t before[] = {17, 0, 13, 4, 1, 16, 5, 12};
    ASSERT_SPAN(ranks, 2, 2, 2, 2, true);
    assert_memory_equal(ranks, before, sizeof ranks);
}

/* Against the definition: sets of units, counted one by one. */
static void random_groups_match_the_definition(void **state)
{
    (void)state;
    uint32_t seed = 12345;
    for (int round = 0; round < 500; round++) {
        uint32_t ranks[24], n = 0, below = 1;
        for (uint32_t r = 0; r < 24; r++) {
            seed = seed * 1664525 + 1013904223;
            if (seed >> 30 == 0)
                ranks[n++] = r;
        }
        if (n == 0)
            continue;
        const orr_span span = span_of(ranks, n);
        uint64_t product = 1;
        for (int l = 0; l < 3; l++) {
            uint32_t most = 0;
            for (uint32_t unit = 0; unit < 24 / LEVELS[l].devices; unit++) {
                uint32_t used = 0;
                for (uint32_t sub = 0; sub < LEVELS[l].size; sub++) {
                    bool here = false;
                    for (uint32_t i = 0; i < n; i++)
                        here |= ranks[i] / below == unit * LEVELS[l].size + sub;
                    used += here;
                }
                most = used > most ? used : most;
            }
            assert_int_equal(span.width[l], most);
            product *= most;
            below = LEVELS[l].devices;
        }
        assert_true(span.even ? product == n : product > n);
    }
}

static void groups_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t ranks[3], n;
        const char *message;
    } cases[] = {
        {{0, 24, 1}, 3, "rank 24: cluster 'c' has 24 devices"},
        {{3, 1, 3}, 3, "rank 3 is twice in one process group"},
        {{0}, 0, "a process group without ranks"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_span span = {.n_ranks = 77};
        orr_error err = {0};
        assert_int_equal(orr_cluster_span(&CLUSTER, cases[i].ranks, cases[i].n, &span, &err),
                         ORR_INVALID);
        assert_string_equal(err.text, cases[i].message);
        assert_int_equal(span.n_ranks, 77);
    }
    const uint32_t unsorted[] = {2, 1};
    orr_span span;
    orr_alloc_fail_from(1);
    assert_int_equal(orr_cluster_span(&CLUSTER, unsorted, 2, &span, NULL), ORR_NO_MEMORY);
    orr_alloc_fail_from(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_lie_on_levels),
        cmocka_unit_test(uneven_groups_are_told),
        cmocka_unit_test(the_order_does_not_matter),
        cmocka_unit_test(random_groups_match_the_definition),
        cmocka_unit_test(groups_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
