/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

/* Operators of one launch each, whose T2 are given, one thread. */
static void add_ops(small *s, const char *name, const int64_t *t2_ns, int n, int64_t *at)
{
    const uint32_t cpu = small_thread(s, 1);
    for (int i = 0; i < n; i++) {
        const uint32_t op =
            small_node(s, ORR_NODE_HOST_OP, name, cpu, *at, t2_ns[i] + 5000, ORR_NONE);
        small_call(s, cpu, *at + t2_ns[i], 3000, op);
        *at += t2_ns[i] + 5000 + 1000;
    }
}

static void test_means_without_outliers(void **state)
{
    (void)state;
    static const int64_t T2[] = {10000, 11000, 12000, 13000, 14000, 500000};
    small s = small_begin();
    orr_overheads o;
    int64_t at = 0;
    add_ops(&s, "b", T2, 6, &at);
    add_ops(&s, "a", T2, 2, &at);
    small_job(&s);
    assert_int_equal(orr_overheads_extract(s.job, s.arena, &o, &s.err), ORR_OK);
    const orr_overhead *b = orr_overheads_find(&o, ORR_T2, "b");
    assert_non_null(b);
    assert_int_equal(b->count, 5);
    assert_true(fabs(b->mean_us - 12) < 1e-9);
    assert_true(fabs(b->std_us - sqrt(2)) < 1e-9);
    assert_true(fabs(orr_overheads_find(&o, ORR_T2, "a")->mean_us - 10.5) < 1e-9);
    assert_true(fabs(orr_overheads_find(&o, ORR_T1, "")->mean_us - 1) < 1e-9);
    assert_int_equal(orr_overheads_find(&o, ORR_T1, "")->count, 7);
    assert_null(orr_overheads_find(&o, ORR_T2, "c"));
    assert_null(orr_overheads_find(&o, ORR_T5, "a"));
    for (size_t i = 1; i < o.n; i++) /* by kind, then name */
        assert_true(o.rows[i - 1].kind < o.rows[i].kind ||
                    strcmp(o.rows[i - 1].name, o.rows[i].name) < 0);
    small_end(&s);
}

static void test_ranks_are_one_population(void **state)
{
    (void)state;
    static const int64_t ONE[] = {10000}, TWO[] = {20000};
    small s = small_begin();
    orr_overheads o;
    int64_t at = 0;
    add_ops(&s, "a", ONE, 1, &at);
    small_rank(&s);
    at = 0;
    add_ops(&s, "a", TWO, 1, &at);
    small_rank(&s);
    small_job(&s);
    assert_int_equal(orr_overheads_extract(s.job, s.arena, &o, &s.err), ORR_OK);
    assert_true(fabs(orr_overheads_find(&o, ORR_T2, "a")->mean_us - 15) < 1e-9);
    small_end(&s);
}

static void test_nothing_to_see(void **state)
{
    (void)state;
    small s = small_begin();
    orr_overheads o = {.n = 42};
    small_stream(&s, 0, 7);
    small_job(&s);
    assert_int_equal(orr_overheads_extract(s.job, s.arena, &o, &s.err), ORR_OK);
    assert_int_equal(o.n, 0);
    assert_null(orr_overheads_find(&o, ORR_T1, ""));
    small_end(&s);
}

static void test_no_memory(void **state)
{
    (void)state;
    static const int64_t T2[] = {10000, 11000, 12000};
    small s = small_begin();
    orr_overheads o;
    int64_t at = 0;
    add_ops(&s, "a", T2, 3, &at);
    small_job(&s);
    SMALL_SURVIVES_NO_MEMORY(orr_overheads_extract(s.job, s.arena, &o, &s.err));
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_means_without_outliers),
        cmocka_unit_test(test_ranks_are_one_population),
        cmocka_unit_test(test_nothing_to_see),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
