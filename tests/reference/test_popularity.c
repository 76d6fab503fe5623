/* SPDX-License-Identifier: Apache-2.0 */
/* Rows drawn by popularity against the published batches that the classes were made from
 * (facebookresearch/dlrm_datasets): how many rows a batch looks up once, twice, 3 or 4 times, and
 * so on, and how many lookups go to them. */
#include <math.h>

#include "base/philox.h"
#include "csv.h"
#include "model/tables/popularity.h"

/* A published batch, and a table of 4 million rows with its mean number of lookups. */
typedef struct batch {
    orr_popularity_kind kind;
    const char *year, *file;
    double tables;
} batch;
static const batch BATCHES[] = {
    {ORR_POPULARITY_META_2021, "2021", "fbgemm_t856_bs65536.pt", 856},
    {ORR_POPULARITY_META_2022, "2022", "fbgemm_t788_bs131072_0.pt", 788},
};
enum { BINS = 17, ROWS = 4000000, TABLES = 3 };

static csv table_of(const char *name, orr_arena *arena)
{
    char path[4096];
    csv table = {0};
    const char *shared = getenv("ORRERY_SHARED");
    if (shared == NULL) {
        print_message("ORRERY_SHARED is not set: %s is not compared\n", name);
        skip();
    }
    (void)snprintf(path, sizeof path, "%s/facts/dlrm/%s", shared, name);
    if (!csv_open(path, arena, &table))
        fail_msg("%s is not there", path);
    return table;
}

static double summary(const csv *table, const batch *b, const char *column)
{
    for (size_t i = 0; i < table->n_rows; i++)
        if (strcmp(csv_text(table, i, "file"), b->file) == 0)
            return csv_number(table, i, column);
    fail_msg("%s is not there", b->file);
    return 0;
}

static void histogram(const csv *table, const batch *b, const char *kind, double ret[BINS])
{
    int n = 0;
    for (size_t i = 0; i < table->n_rows; i++)
        if (strcmp(csv_text(table, i, "file"), b->file) == 0 &&
            strcmp(csv_text(table, i, "kind"), kind) == 0 && n < BINS)
            ret[n++] = csv_number(table, i, "fraction");
    assert_int_equal(n, BINS);
}

/* Bin 0: once; 1: twice; 2: 3 or 4 times; the last: more than 32,768 times. */
static int bin_of(int64_t count)
{
    int bin = 0;
    while (bin < BINS - 1 && count > INT64_C(1) << bin)
        bin++;
    return bin;
}

typedef struct counted {
    double rows[BINS], lookups[BINS], distinct;
} counted;

static void count(const batch *b, int64_t lookups, counted *ret)
{
    static orr_row_sampler sampler;
    static int32_t counts[ROWS];
    const orr_popularity p = orr_popularity_of(b->kind, ROWS);
    *ret = (counted){0};
    orr_row_sampler_init(&p, &sampler);
    for (uint64_t t = 0; t < TABLES; t++) {
        orr_random random = orr_random_of(3, t);
        memset(counts, 0, sizeof counts);
        for (int64_t i = 0; i < lookups; i++) {
            const uint32_t class = orr_random_u32(&random);
            counts[orr_row_sampler_row(&sampler, class, orr_random_u64(&random))]++;
        }
        for (int64_t r = 0; r < ROWS; r++) {
            if (counts[r] == 0)
                continue;
            ret->rows[bin_of(counts[r])]++;
            ret->lookups[bin_of(counts[r])] += counts[r];
            ret->distinct++;
        }
    }
}

static double difference(const double *got, double all, const double *want)
{
    double sum = 0;
    for (int i = 0; i < BINS; i++)
        sum += fabs(got[i] / all - want[i]) / 2;
    return sum;
}

/* Classes of the most popular rows have few rows, which are whole numbers in one table, so that
 * some lookups are a bin away from where the mean table has them. */
static void compare(const batch *b)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const csv summaries = table_of("locality_summary.csv", arena);
    const csv histograms = table_of("locality_hist.csv", arena);
    const double lookups = round(summary(&summaries, b, "indices") / b->tables);
    const double unique = summary(&summaries, b, "unique_rows") / b->tables;
    const orr_popularity p = orr_popularity_of(b->kind, ROWS);
    double of_rows[BINS], of_lookups[BINS];
    counted got;
    histogram(&histograms, b, "unique_rows_fraction", of_rows);
    histogram(&histograms, b, "index_fraction", of_lookups);
    count(b, (int64_t)lookups, &got);
    const double rows_off = difference(got.rows, got.distinct, of_rows);
    const double lookups_off = difference(got.lookups, lookups * TABLES, of_lookups);
    const double distinct_off = got.distinct / TABLES / unique - 1;
    const double expected_off = orr_popularity_distinct(&p, (int64_t)lookups) / unique - 1;
    print_message("%s: rows %.2f %%, lookups %.2f %%, distinct rows %+.2f %% (expected %+.2f %%)\n",
                  b->year, 100 * rows_off, 100 * lookups_off, 100 * distinct_off,
                  100 * expected_off);
    assert_true(rows_off < 0.005 && fabs(distinct_off) < 0.01 && fabs(expected_off) < 0.005);
    assert_true(lookups_off < 0.03);
    orr_arena_free(arena);
}

static void batches_of_2021(void **state)
{
    (void)state;
    compare(&BATCHES[0]);
}

static void batches_of_2022(void **state)
{
    (void)state;
    compare(&BATCHES[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_of_2021),
        cmocka_unit_test(batches_of_2022),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
