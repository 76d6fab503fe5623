/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit/cost/measured.h"
#include "support/seeds.h"

#include "cost/fit/boost.h"
#include "cost/models/file.h"
#include "io/stream/stream.h"

/* Boosted trees of random measurements, some values missing. For every row, also of features far
 * from all that was fitted to:
 *
 *   - our sum is XGBoost's prediction, to the bit;
 *   - so is the sum of trees that were written to a file and read back. */
enum { SEEDS = 24, TRAIN = 300, ROWS = 4000 };

typedef struct forest {
    float x[TRAIN * ORR_FEATURES], y[TRAIN], weight[TRAIN], watch[ROWS * ORR_FEATURES];
} forest;

/* Mostly within the same small range, so that splits are met; at times on a value that others have.
 */
static float feature(orr_random *random)
{
    switch (orr_random_below(random, 12)) {
    case 0:
        return NAN;
    case 1:
        return (float)(1e6 * (orr_random_unit(random) - 0.5));
    case 2:
    case 3:
    case 4:
        return (float)orr_random_below(random, 8);
    default:
        return (float)(8 * orr_random_unit(random));
    }
}

static void draw(forest *f, orr_random *random)
{
    for (int i = 0; i < TRAIN; i++) {
        double y = 0;
        for (int c = 0; c < ORR_FEATURES; c++) {
            const float x = f->x[i * ORR_FEATURES + c] = feature(random);
            y += isnan(x) ? 0.5 : sin((double)x * (c + 1)) * (x > 4 ? 1 : 0.2);
        }
        f->y[i] = (float)y;
        f->weight[i] = (float)(0.5 + orr_random_unit(random));
    }
    for (size_t i = 0; i < sizeof f->watch / sizeof *f->watch; i++)
        f->watch[i] = feature(random);
    for (int i = 0; i < TRAIN * ORR_FEATURES; i++) /* splits lie between and on these */
        f->watch[i] = f->x[i];
}

static void compare(uint64_t seed, const char *which, const orr_trees *trees, const float *watch,
                    const float *want)
{
    for (int i = 0; i < ROWS; i++) {
        const float got = orr_trees_sum(trees, watch + i * ORR_FEATURES);
        if (memcmp(&got, &want[i], sizeof got) != 0)
            seed_fail(seed, "%s, row %d: %.9g, XGBoost says %.9g", which, i, (double)got,
                      (double)want[i]);
    }
}

/* Through a file. */
static orr_trees written_and_read(const orr_trees *trees, orr_arena *arena)
{
    orr_cost_learned learned = {0};
    orr_cost_file file = {.learned = &learned};
    const orr_cost_file *read;
    orr_output *out;
    orr_stream *stream;
    orr_error err;
    size_t n;

    learned.families[ORR_FAMILY_GEMM] = (orr_learned_family){.present = true, .trees = *trees};
    assert_int_equal(orr_output_open_memory(&out, &err), ORR_OK);
    orr_cost_file_write(&file, out);
    const void *text = orr_output_memory(out, &n);
    assert_int_equal(orr_stream_open_memory(text, n, &stream, &err), ORR_OK);
    if (orr_cost_file_read(stream, arena, &read, &err) != ORR_OK)
        fail_msg("%s", err.text);
    orr_stream_close(stream);
    orr_output_close(out);
    return read->learned->families[ORR_FAMILY_GEMM].trees;
}

static void check(uint64_t seed, forest *f)
{
    orr_random random = orr_random_of(seed, 77);
    orr_arena *arena = orr_arena_new(0, 0);
    orr_boost *boost;
    const float *want;
    orr_trees trees;
    orr_error err;

    draw(f, &random);
    const orr_boost_options options = {
        .x = f->x,
        .y = f->y,
        .weight = f->weight,
        .n = TRAIN,
        .watch_x = f->watch,
        .n_watch = ROWS,
        .depth = 1 + (uint32_t)orr_random_below(&random, 8),
        .rate = 0.05 + 0.5 * orr_random_unit(&random),
    };
    const uint32_t rounds = 1 + (uint32_t)orr_random_below(&random, 60);
    assert_int_equal(orr_boost_new(&options, &boost, &err), ORR_OK);
    for (uint32_t round = 0; round < rounds; round++)
        assert_int_equal(orr_boost_round(boost, round, &err), ORR_OK);
    assert_int_equal(orr_boost_watch(boost, &want, &err), ORR_OK);
    assert_int_equal(orr_boost_trees(boost, arena, &trees, &err), ORR_OK);
    assert_int_equal(trees.n, rounds);
    compare(seed, "as fitted", &trees, f->watch, want);
    const orr_trees again = written_and_read(&trees, arena);
    compare(seed, "read back", &again, f->watch, want);
    orr_boost_free(boost);
    orr_arena_free(arena);
}

static void our_trees_are_xgboosts(void **state)
{
    (void)state;
    const char *why;
    if (!orr_boost_available(&why)) {
        print_message("%s\n", why);
        skip();
    }
    static forest f;
    const seed_range range = seeds(SEEDS);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        check(seed, &f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_trees_are_xgboosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
