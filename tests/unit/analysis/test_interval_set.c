/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

#include "analysis/common.h"

#define SPANS(arena, ...)                                                                          \
    spans_of((arena), (orr_interval[]){__VA_ARGS__},                                               \
             sizeof((orr_interval[]){__VA_ARGS__}) / sizeof(orr_interval))

static orr_interval_set spans_of(orr_arena *arena, const orr_interval *any, size_t n)
{
    orr_interval_set spans;
    orr_interval *copy = orr_arena_array(arena, orr_interval, n);
    assert_non_null(copy);
    memcpy(copy, any, n * sizeof *any);
    assert_int_equal(orr_interval_set_from(copy, n, arena, &spans, NULL), ORR_OK);
    return spans;
}

static void assert_spans(const orr_interval_set *got, const orr_interval *want, size_t n)
{
    assert_int_equal(got->n, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(got->at[i].from_ns, want[i].from_ns);
        assert_int_equal(got->at[i].to_ns, want[i].to_ns);
    }
}

static void test_merges_overlapping_touching_unsorted(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_interval_set s =
        SPANS(arena, {30, 40}, {0, 10}, {5, 20}, {20, 25}, {50, 50}, {31, 32});
    assert_spans(&s, (orr_interval[]){{0, 25}, {30, 40}}, 2);
    assert_int_equal(orr_interval_set_length(&s), 35);
    orr_arena_free(arena);
}

static void test_algebra(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_interval_set a = SPANS(arena, {0, 10}, {20, 40}, {50, 60});
    const orr_interval_set b = SPANS(arena, {5, 25}, {30, 35}, {38, 55});
    orr_interval_set got;
    assert_int_equal(orr_interval_set_union(&a, &b, arena, &got, NULL), ORR_OK);
    assert_spans(&got, (orr_interval[]){{0, 60}}, 1);
    assert_int_equal(orr_interval_set_difference(&a, &b, arena, &got, NULL), ORR_OK);
    assert_spans(&got, (orr_interval[]){{0, 5}, {25, 30}, {35, 38}, {55, 60}}, 4);
    assert_int_equal(orr_interval_set_overlap(&a, &b), 5 + 5 + 5 + 2 + 5);

    const orr_interval_set none = {0};
    assert_int_equal(orr_interval_set_difference(&a, &none, arena, &got, NULL), ORR_OK);
    assert_spans(&got, a.at, a.n);
    assert_int_equal(orr_interval_set_difference(&none, &a, arena, &got, NULL), ORR_OK);
    assert_int_equal(got.n, 0);
    assert_int_equal(orr_interval_set_overlap(&a, &none), 0);
    orr_arena_free(arena);
}

/* Against a bitmap of moments. */
enum { AXIS = 200 };
static void paint(bool on[AXIS], const orr_interval_set *s)
{
    memset(on, 0, AXIS * sizeof *on);
    for (size_t i = 0; i < s->n; i++)
        for (int64_t t = s->at[i].from_ns; t < s->at[i].to_ns; t++)
            on[t] = true;
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void test_against_bitmap(void **state)
{
    (void)state;
    uint32_t seed = 20261121;
    orr_arena *arena = orr_arena_new(0, 0);
    for (int round = 0; round < 2000; round++) {
        orr_interval_set s[2], both, rest;
        for (int k = 0; k < 2; k++) {
            orr_interval any[12];
            const size_t n = next_random(&seed) % 13;
            for (size_t i = 0; i < n; i++) {
                any[i].from_ns = next_random(&seed) % (AXIS - 30);
                any[i].to_ns = any[i].from_ns + next_random(&seed) % 30;
            }
            s[k] = spans_of(arena, any, n);
        }
        assert_int_equal(orr_interval_set_union(&s[0], &s[1], arena, &both, NULL), ORR_OK);
        assert_int_equal(orr_interval_set_difference(&s[0], &s[1], arena, &rest, NULL), ORR_OK);
        bool a[AXIS], b[AXIS], u[AXIS], m[AXIS];
        paint(a, &s[0]), paint(b, &s[1]), paint(u, &both), paint(m, &rest);
        int64_t overlap = 0, length = 0;
        for (int t = 0; t < AXIS; t++) {
            assert_int_equal(u[t], a[t] || b[t]);
            assert_int_equal(m[t], a[t] && !b[t]);
            overlap += a[t] && b[t];
            length += a[t];
        }
        assert_int_equal(orr_interval_set_overlap(&s[0], &s[1]), overlap);
        assert_int_equal(orr_interval_set_length(&s[0]), length);
        for (size_t i = 1; i < both.n; i++)
            assert_true(both.at[i - 1].to_ns < both.at[i].from_ns);
        orr_arena_reset(arena);
    }
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merges_overlapping_touching_unsorted),
        cmocka_unit_test(test_algebra),
        cmocka_unit_test(test_against_bitmap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
