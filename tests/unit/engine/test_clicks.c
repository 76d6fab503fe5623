/* SPDX-License-Identifier: Apache-2.0 */
#include "small_training.h"

#include <math.h>

#include "base/philox.h"
#include "engine/data/clicks.h"

static void auc_is_the_share_of_pairs_in_order(void **state)
{
    (void)state;
    orr_random random = orr_random_of(5, 0);
    orr_scored s[60];
    for (int run = 0; run < 20; run++) {
        double right = 0, pairs = 0;
        for (int i = 0; i < 60; i++) /* few scores: many ties */
            s[i] = (orr_scored){(float)orr_random_below(&random, 12),
                                orr_random_below(&random, 3) == 0};
        for (int i = 0; i < 60; i++)
            for (int k = 0; k < 60; k++)
                if (s[i].label > 0 && s[k].label == 0) {
                    pairs++;
                    right += s[i].score > s[k].score ? 1 : s[i].score == s[k].score ? 0.5 : 0;
                }
        assert_true(fabs(orr_auc(s, 60) - right / pairs) < 1e-12);
    }
    for (int i = 0; i < 60; i++)
        s[i].label = 1;
    assert_true(isnan(orr_auc(s, 60)));
}

/* As many fields as Criteo's lines have; `first` and `last` of the values. */
static void put_line(FILE *to, int label, const char *number, const char *first, const char *last)
{
    (void)fprintf(to, "%d\t%s", label, number);
    for (int i = 1; i < 13; i++)
        (void)fprintf(to, "\t%d", i);
    (void)fprintf(to, "\t%s", first);
    for (int i = 1; i < 25; i++)
        (void)fprintf(to, "\t%x", 1000 + i);
    (void)fprintf(to, "\t%s\n", last);
}

static orr_dlrm criteo_shape(void)
{
    static orr_embedding tables[26];
    orr_dlrm d = {.dense_features = 13,
                  .tables = tables,
                  .dim = 4,
                  .n_tables = 26,
                  .n_bottom = 1,
                  .n_top = 1,
                  .bottom = {4},
                  .top = {1}};
    for (int i = 0; i < 26; i++)
        tables[i] = (orr_embedding){.rows = 50 + i, .columns = 4, .pooling = i == 25 ? 3 : 1};
    return d;
}

static void criteo_lines_are_read(void **state)
{
    char path[128];
    orr_click_data *clicks;
    orr_error err = {.text = ""};
    orr_click_batch click = {0};
    orr_dlrm d = criteo_shape();
    (void)snprintf(path, sizeof path, "%s/day_0", (const char *)*state);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 150; i++)
        put_line(file, i % 2, i == 140 ? "-3" : "", i == 140 ? "ff" : "", "0a");
    put_line(file, 1, "x", "1", "2");
    assert_int_equal(fclose(file), 0);
    assert_int_equal(orr_click_data_criteo(path, &d, &clicks, &err), ORR_OK);
    assert_int_equal(clicks->n, 151);
    assert_int_equal(orr_click_data_read(clicks, 140, 1, &click, &err), ORR_OK);
    assert_true(click.labels.at[0] == 0 && click.dense.at[0] == 0);
    assert_true(fabsf(click.dense.at[12] - logf(13)) < 1e-6F);
    const int64_t *ids = click.ids.at;
    assert_int_equal(ids[0], 0xff % 50);
    assert_int_equal(ids[1], 1001 % 51);
    assert_int_equal(ids[25], 10);
    assert_true(ids[26] != ids[25] || ids[27] != ids[25]);
    const int64_t rows[3] = {ids[25], ids[26], ids[27]};
    assert_int_equal(orr_click_data_read(clicks, 150, 1, &click, &err), ORR_PARSE);
    assert_non_null(strstr(err.text, "line 151"));
    clicks->n = 150; /* without the bad line: the data repeat */
    assert_int_equal(orr_click_data_read(clicks, 149, 3, &click, &err), ORR_OK);
    assert_int_equal(click.ids.n, 3 * 28);
    for (int i = 0; i < 3; i++) {
        assert_true(click.labels.at[i] == (float)(i != 1) && click.dense.at[13L * i] == 0);
        assert_int_equal(click.ids.at[i], 0);
        assert_int_equal(click.ids.at[3 + i], 1001 % 51);
        /* of a value always the same rows */
        assert_memory_equal(&click.ids.at[75 + 3 * i], rows, sizeof rows);
    }
    orr_click_batch_done(&click);
    orr_click_data_free(clicks);
    d.n_tables = 3;
    assert_int_equal(orr_click_data_criteo(path, &d, &clicks, &err), ORR_INVALID);
    assert_int_equal(orr_click_data_criteo("/nowhere",
                                           &(orr_dlrm){.dense_features = 13, .n_tables = 26},
                                           &clicks, &err),
                     ORR_IO);
}

static const orr_embedding BAGS[] = {
    {.name = "fixed", .rows = 50000, .columns = 4, .pooling = 8},
    {.name = "geometric",
     .rows = 3000,
     .columns = 4,
     .pooling = 2.5,
     .length = ORR_BAG_LENGTH_GEOMETRIC},
    {.name = "uniform",
     .rows = 200,
     .columns = 4,
     .pooling = 3.25,
     .length = ORR_BAG_LENGTH_UNIFORM},
};
enum { BAG_TABLES = sizeof BAGS / sizeof *BAGS };
static const orr_dlrm BAG_MODEL = {
    .dense_features = 6, .dim = 4, .n_tables = BAG_TABLES, .tables = BAGS};

static void read_synthetic(const char *text, uint64_t first, int64_t n, orr_click_batch *ret)
{
    orr_click_data *clicks;
    orr_error err = {.text = ""};
    if (orr_click_data_open(text, &BAG_MODEL, 11, &clicks, &err) != ORR_OK ||
        orr_click_data_read(clicks, first, n, ret, &err) != ORR_OK)
        fail_msg("%s", err.text);
    orr_click_data_free(clicks);
}

/* Samples are the same, whichever range they are read in. */
static void any_range_has_the_same_samples(void **state)
{
    (void)state;
    static const char *const kinds[] = {NULL, "synthetic:zipf,locality=0.6,window=9"};
    for (int kind = 0; kind < 2; kind++) {
        orr_click_batch all = {0}, part = {0};
        read_synthetic(kinds[kind], 100, 40, &all);
        for (int64_t first = 0, n = 1; first < 40; first += n, n = 1 + (n + 2) % 11) {
            n = n < 40 - first ? n : 40 - first;
            read_synthetic(kinds[kind], 100 + (uint64_t)first, n, &part);
            assert_memory_equal(part.dense.at, all.dense.at + 6 * first, (size_t)n * 6 * 4);
            assert_memory_equal(part.labels.at, all.labels.at + first, (size_t)n * 4);
            for (int t = 0; t < BAG_TABLES; t++) {
                int64_t at = all.first.at[t], ids = 0;
                for (int64_t i = 0; i < first; i++)
                    at += all.lengths.at[40 * t + i];
                for (int64_t i = 0; i < n; i++)
                    ids += all.lengths.at[40 * t + first + i];
                assert_memory_equal(part.lengths.at + t * n, all.lengths.at + 40 * t + first,
                                    (size_t)n * 4);
                assert_int_equal(part.first.at[t + 1] - part.first.at[t], ids);
                assert_memory_equal(part.ids.at + part.first.at[t], all.ids.at + at,
                                    (size_t)ids * 8);
            }
        }
        orr_click_batch_done(&all);
        orr_click_batch_done(&part);
    }
}

/* Means and variances of lengths are those of their distributions, distinct rows as expected, a
 * quarter of the labels 1. */
static void bags_and_rows_follow_their_distributions(void **state)
{
    (void)state;
    enum { N = 20000 };
    static const double variance[] = {0, 2.5 * 3.5, 6.5 * 6.5 / 12 + 1.0 / 6};
    orr_click_batch b = {0};
    double labels = 0;
    read_synthetic("synthetic:2022", 0, N, &b);
    for (int t = 0; t < BAG_TABLES; t++) {
        const orr_popularity p = orr_popularity_of(ORR_POPULARITY_META_2022, BAGS[t].rows);
        const int64_t lookups = b.first.at[t + 1] - b.first.at[t];
        const double mean = (double)lookups / N;
        double squares = 0, distinct = 0;
        char *seen = calloc((size_t)BAGS[t].rows, 1);
        assert_non_null(seen);
        for (int i = 0; i < N; i++) {
            const double off = b.lengths.at[N * t + i] - mean;
            squares += off * off / N;
        }
        assert_true(fabs(mean - BAGS[t].pooling) <= 5 * sqrt(variance[t] / N));
        assert_true(fabs(squares - variance[t]) <= 0.06 * variance[t]);
        for (int64_t i = b.first.at[t]; i < b.first.at[t + 1]; i++) {
            assert_true(b.ids.at[i] >= 0 && b.ids.at[i] < BAGS[t].rows);
            distinct += seen[b.ids.at[i]]++ == 0;
            seen[b.ids.at[i]] = 1;
        }
        const double want = orr_popularity_distinct(&p, lookups);
        if (fabs(distinct - want) > 5 * sqrt(want))
            fail_msg("%s: %g distinct rows, expected %g", BAGS[t].name, distinct, want);
        free(seen);
    }
    for (int i = 0; i < N; i++)
        labels += (double)b.labels.at[i] / N;
    assert_true(labels > 0.2 && labels < 0.35);
    orr_click_batch_done(&b);
}

/* Share of lookups in the first table that some sample of the last 16 makes too. */
static double repeated(const char *text)
{
    enum { N = 3000, WINDOW = 16, BAG = 8 };
    orr_click_batch b = {0};
    int64_t hits = 0;
    read_synthetic(text, 0, N, &b);
    for (int64_t i = BAG * WINDOW; i < BAG * N; i++)
        for (int64_t k = i - i % BAG - BAG * WINDOW, found = 0; k < i - i % BAG && !found; k++)
            hits += found = b.ids.at[k] == b.ids.at[i];
    orr_click_batch_done(&b);
    return (double)hits / (BAG * (N - WINDOW));
}

static void locality_repeats_lookups(void **state)
{
    (void)state;
    const double none = repeated("synthetic:uniform"),
                 some = repeated("synthetic:uniform,locality=0.4,window=16");
    assert_true(none < 0.01);
    assert_true(fabs(some - 0.4) < 0.02);
}

static void other_words_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"synthetic:2023", "synthetic:locality=1",
                                        "synthetic:zipf,window=0", "synthetic:locality=0.1x"};
    for (int i = 0; i < 4; i++) {
        orr_click_data *clicks;
        orr_error err = {.text = ""};
        assert_int_equal(orr_click_data_open(texts[i], &BAG_MODEL, 1, &clicks, &err), ORR_INVALID);
        assert_non_null(strstr(err.text, "locality=0 to 0.99"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auc_is_the_share_of_pairs_in_order),
        cmocka_unit_test_setup_teardown(criteo_lines_are_read, make_folder, remove_folder),
        cmocka_unit_test(any_range_has_the_same_samples),
        cmocka_unit_test(bags_and_rows_follow_their_distributions),
        cmocka_unit_test(locality_repeats_lookups),
        cmocka_unit_test(other_words_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
