/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tables/popularity.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/philox.h"

static const int64_t ROWS[] = {1, 2, 3, 7, 60, 1000, 4000, 65536, 1000000};
enum { N_ROWS = sizeof ROWS / sizeof *ROWS, LARGE = INT32_MAX };

static int32_t *draw(const orr_popularity *p, int64_t lookups, uint64_t stream)
{
    static orr_row_sampler sampler;
    int32_t *counts = calloc((size_t)p->rows, sizeof *counts);
    orr_random random = orr_random_of(7, stream);
    assert_non_null(counts);
    orr_row_sampler_init(p, &sampler);
    for (int64_t i = 0; i < lookups; i++) {
        const uint32_t class = orr_random_u32(&random);
        const int64_t row = orr_row_sampler_row(&sampler, class, orr_random_u64(&random));
        assert_true(row >= 0 && row < p->rows);
        counts[row]++;
    }
    return counts;
}

static void classes_are_all_rows_and_all_lookups(void **state)
{
    (void)state;
    for (int kind = 0; kind < ORR_POPULARITIES; kind++)
        for (int i = 0; i < N_ROWS + 2; i++) {
            const int64_t rows = i < N_ROWS ? ROWS[i] : INT64_C(1) << (30 + 10 * (i - N_ROWS));
            const orr_popularity p = orr_popularity_of((orr_popularity_kind)kind, rows);
            double most = 2;
            assert_true(p.n >= 1 && p.n <= ORR_POPULARITY_CLASSES);
            for (uint32_t k = 0; k < p.n; k++) {
                const int64_t n = p.end[k] - (k > 0 ? p.end[k - 1] : 0);
                const double each = (p.share[k] - (k > 0 ? p.share[k - 1] : 0)) / (double)n;
                assert_true(n > 0 && each > 0);
                /* The last class of a small table takes what the others leave. */
                assert_true(each <= most * (1 + 1e-9) || rows < 20);
                most = each;
            }
            assert_int_equal(p.end[p.n - 1], rows);
            assert_true(p.share[p.n - 1] == 1);
            assert_true(rows == 1 || kind == ORR_POPULARITY_UNIFORM || p.n > 1 || rows < 60);
        }
}

static void no_two_ranks_share_a_row(void **state)
{
    (void)state;
    for (int i = 0; i < N_ROWS; i++) {
        const orr_popularity p = orr_popularity_of(ORR_POPULARITY_ZIPF, ROWS[i]);
        char *seen = calloc((size_t)ROWS[i], 1);
        assert_non_null(seen);
        for (int64_t k = 0; k < ROWS[i]; k++)
            assert_int_equal(seen[orr_popularity_row(&p, k)]++, 0);
        free(seen);
    }
    const int64_t large = INT64_C(1) << 40; /* products of more than 64 bits */
    const orr_popularity p = orr_popularity_of(ORR_POPULARITY_META_2021, large);
    const int64_t apart = orr_popularity_row(&p, large - 1) - orr_popularity_row(&p, large - 2);
    assert_int_equal((apart + large) % large, p.stride);
}

/* Expected numbers are those of what is drawn, within five standard deviations. */
static void draws_are_as_expected(void **state)
{
    (void)state;
    for (int kind = 0; kind < ORR_POPULARITIES; kind++)
        for (int i = 3; i < N_ROWS; i++) {
            const int64_t rows = ROWS[i], lookups = 300000;
            const orr_popularity p = orr_popularity_of((orr_popularity_kind)kind, rows);
            int32_t *counts = draw(&p, lookups, (uint64_t)kind);
            int64_t distinct = 0, begin = 0;
            for (int64_t r = 0; r < rows; r++)
                distinct += counts[r] > 0;
            const double want = orr_popularity_distinct(&p, lookups);
            if (fabs((double)distinct - want) > 5 * sqrt(want) + 0.5)
                fail_msg("%s, %lld rows: %lld distinct, expected %g",
                         orr_popularity_name((orr_popularity_kind)kind), (long long)rows,
                         (long long)distinct, want);
            for (uint32_t k = 0; k < p.n; begin = p.end[k++]) {
                double hits = 0;
                for (int64_t rank = begin; rank < p.end[k]; rank++)
                    hits += counts[orr_popularity_row(&p, rank)];
                const double mean = (double)lookups * (orr_popularity_hit_rate(&p, p.end[k]) -
                                                       orr_popularity_hit_rate(&p, begin));
                assert_true(fabs(hits - mean) <= 5 * sqrt(mean) + 1);
            }
            free(counts);
        }
}

static void shards_share_what_is_drawn(void **state)
{
    (void)state;
    const int64_t rows = 100003, lookups = 2000000,
                  begin[] = {0, 20000, 50000, 50001, 90000, 100003};
    const orr_popularity p = orr_popularity_of(ORR_POPULARITY_META_2022, rows);
    int32_t *counts = draw(&p, lookups, 9);
    double share[5], sum = 0;
    orr_popularity_shares(&p, begin, 5, share);
    for (int i = 0; i < 5; i++) {
        double hits = 0;
        for (int64_t r = begin[i]; r < begin[i + 1]; r++)
            hits += counts[r];
        const double mean = share[i] * (double)lookups;
        if (fabs(hits - mean) > 5 * sqrt(mean) + 0.002 * mean + 1)
            fail_msg("shard %d: %g lookups, expected %g", i, hits, mean);
        sum += share[i];
    }
    assert_true(fabs(sum - 1) < 1e-9);
    free(counts);
}

static void hit_rates_and_distinct_rows_at_their_ends(void **state)
{
    (void)state;
    const orr_popularity p = orr_popularity_of(ORR_POPULARITY_META_2021, 5000000);
    assert_true(orr_popularity_hit_rate(&p, 0) == 0);
    assert_true(fabs(orr_popularity_hit_rate(&p, p.rows) - 1) < 1e-12);
    assert_true(orr_popularity_hit_rate(&p, LARGE) == orr_popularity_hit_rate(&p, p.rows));
    assert_true(orr_popularity_distinct(&p, 0) == 0);
    assert_true(fabs(orr_popularity_distinct(&p, 1) - 1) < 1e-9);
    assert_true(orr_popularity_distinct(&p, INT64_C(1) << 50) > 4999999.9);
    const orr_popularity one = orr_popularity_of(ORR_POPULARITY_META_2021, 1);
    assert_true(orr_popularity_distinct(&one, 5) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_are_all_rows_and_all_lookups),
        cmocka_unit_test(no_two_ranks_share_a_row),
        cmocka_unit_test(draws_are_as_expected),
        cmocka_unit_test(shards_share_what_is_drawn),
        cmocka_unit_test(hit_rates_and_distinct_rows_at_their_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
