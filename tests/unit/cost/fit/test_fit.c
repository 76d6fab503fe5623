/* SPDX-License-Identifier: Apache-2.0 */
#include "../measured.h"

#include "../../io/files.h"
#include "cost/models/file.h"

typedef struct scene {
    orr_device one;
    orr_samples *samples;
    orr_arena *arena;
    orr_fit fit;
    orr_error err;
    void *folder;
} scene;

static int setup(void **state)
{
    static scene s;
    s = (scene){.one = some_device("one", 100e12, 1e12),
                .samples = orr_samples_new(),
                .arena = orr_arena_new(0, 0)};
    *state = &s;
    return make_folder(&s.folder);
}

static int teardown(void **state)
{
    scene *s = *state;
    orr_samples_free(s->samples);
    orr_arena_free(s->arena);
    return remove_folder(&s->folder);
}

static orr_fit_options options_of(bool table, bool learned)
{
    return (orr_fit_options){
        .struct_bytes = sizeof(orr_fit_options), .table = table, .learned = learned, .seed = 1};
}

static void skip_without_xgboost(void)
{
    const char *why;
    if (orr_fit_learned_available(&why))
        return;
    print_message("%s\n", why);
    skip();
}

static const orr_fit_result *result_of(const scene *s, orr_basis basis)
{
    for (size_t i = 0; i < s->fit.n_results; i++)
        if (s->fit.results[i].basis == basis)
            return &s->fit.results[i];
    fail_msg("no such result");
    return NULL;
}

static void fit_gemms(scene *s, bool table, bool learned)
{
    const orr_fit_options options = options_of(table, learned);
    add_gemms(s->samples, &s->one, 3);
    assert_int_equal(orr_samples_add_source(s->samples, "x/gemms.csv", &s->err), ORR_OK);
    assert_int_equal(orr_fit_run(s->samples, &options, s->arena, &s->fit, &s->err), ORR_OK);
    assert_non_null(s->fit.model);
    assert_int_equal(s->fit.n_splits, 1);
    assert_int_equal(s->fit.n_results, table + learned);
}

/* Errors are of shapes that it did not see, and are what the model's prices then carry. */
static void check_result(scene *s, orr_basis basis, double most)
{
    const orr_fit_result *result = result_of(s, basis);
    assert_true(result->rows == s->fit.splits[0].samples[ORR_SUBSET_TEST]);
    assert_true(result->answered > 0 && result->answered <= result->rows);
    assert_true(result->fitted.gmae <= result->fitted.mape + 4e-4);
    if (!(result->fitted.mape < most) || !(result->fitted.mape < result->roofline.mape))
        fail_msg("%s: %.3f, roofline %.3f", orr_basis_name(basis), result->fitted.mape,
                 result->roofline.mape);
}

static void a_table_knows_what_is_between(void **state)
{
    scene *s = *state;
    fit_gemms(s, true, false);
    check_result(s, ORR_BASIS_TABLE, 0.25);
}

static void trees_know_what_is_between(void **state)
{
    scene *s = *state;
    skip_without_xgboost();
    fit_gemms(s, false, true);
    check_result(s, ORR_BASIS_LEARNED, 0.15);
    const orr_work work = gemm(300, 300, 300);
    orr_price price;
    assert_true(s->fit.model->price(s->fit.model, &s->one, &work, &price));
    assert_int_equal(price.basis, ORR_BASIS_LEARNED);
    assert_true(price.error_frac == result_of(s, ORR_BASIS_LEARNED)->fitted.mape);
}

/* The made-up kernel of another device, twice as fast: efficiency carries over with the roofline.
 */
static void another_device_is_scaled_by_its_roofline(void **state)
{
    scene *s = *state;
    const orr_device two = some_device("two", 200e12, 2e12);
    skip_without_xgboost();
    fit_gemms(s, true, true);
    const orr_work work = gemm(2048, 2048, 1024);
    orr_price here, there;
    assert_true(s->fit.model->price(s->fit.model, &s->one, &work, &here));
    assert_true(s->fit.model->price(s->fit.model, &two, &work, &there));
    assert_int_equal(there.basis, ORR_BASIS_LEARNED);
    assert_true(isnan(there.error_frac)); /* nothing was measured on it */
    assert_in_range(100 * there.ns / here.ns, 40, 70);
}

static void what_is_written_is_what_was_fitted(void **state)
{
    scene *s = *state;
    const char *path = in_folder(&s->folder, "model.json");
    const orr_cost_model *loaded;
    orr_random random = orr_random_of(5, 0);

    fit_gemms(s, true, orr_fit_learned_available(NULL));
    assert_int_equal(orr_fit_write(&s->fit, path, &s->err), ORR_OK);
    orr_samples_free(s->samples); /* the model needs none of it */
    s->samples = NULL;
    assert_int_equal(orr_cost_model_load(path, s->arena, &loaded, &s->err), ORR_OK);
    const orr_cost_file *file = (const orr_cost_file *)loaded;
    assert_int_equal(file->samples, 3 * 8 * 8 * 4);
    assert_int_equal(file->seed, 1);
    assert_int_equal(file->n_sources, 1);
    assert_string_equal(file->sources[0], "gemms.csv");
    assert_int_equal(file->n_devices, 1);
    assert_string_equal(file->devices[0], "one");
    for (int i = 0; i < 2000; i++) {
        const orr_work work =
            gemm(1 + (int64_t)orr_random_below(&random, 4096),
                 1 + (int64_t)orr_random_below(&random, 4096), 64 << orr_random_below(&random, 5));
        orr_price a = {0}, b = {0};
        const bool is = s->fit.model->price(s->fit.model, &s->one, &work, &a);
        assert_int_equal(is, loaded->price(loaded, &s->one, &work, &b));
        assert_int_equal(a.ns, b.ns);
        assert_int_equal(a.basis, b.basis);
        assert_true(a.error_frac == b.error_frac || (isnan(a.error_frac) && isnan(b.error_frac)));
    }
}

static void the_same_samples_give_the_same_file(void **state)
{
    scene *s = *state;
    const orr_fit_options options = options_of(true, orr_fit_learned_available(NULL));
    char *texts[2];
    size_t n[2];

    fit_gemms(s, true, orr_fit_learned_available(NULL));
    for (int i = 0; i < 2; i++) {
        const char *path = in_folder(&s->folder, i ? "b.json" : "a.json");
        assert_int_equal(orr_fit_run(s->samples, &options, s->arena, &s->fit, &s->err), ORR_OK);
        assert_int_equal(orr_fit_write(&s->fit, path, &s->err), ORR_OK);
        texts[i] = read_all(path, &n[i], &s->err);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(texts[0], texts[1], n[0]);
    free(texts[0]);
    free(texts[1]);
}

/* Six shapes: measured ones are answered, no trees, and both say why. */
static void few_shapes_make_no_claims(void **state)
{
    scene *s = *state;
    const bool learned = orr_fit_learned_available(NULL);
    const orr_fit_options options = options_of(true, learned);
    orr_price price;

    for (int64_t m = 1; m <= 6; m++)
        add_sample(s->samples, &s->one, gemm(m, 64, 64), 1000);
    assert_int_equal(orr_fit_run(s->samples, &options, s->arena, &s->fit, &s->err), ORR_OK);
    const orr_fit_result *table = result_of(s, ORR_BASIS_TABLE);
    assert_int_equal(table->answered, 0);
    assert_true(isnan(table->fitted.mape));
    if (learned)
        assert_non_null(strstr(result_of(s, ORR_BASIS_LEARNED)->remark, "24/8/8 needed"));
    const orr_work measured = gemm(3, 64, 64), other = gemm(7, 64, 64);
    assert_true(s->fit.model->price(s->fit.model, &s->one, &measured, &price));
    assert_false(s->fit.model->price(s->fit.model, &s->one, &other, &price));
    if (learned) {
        const orr_fit_options trees = options_of(false, true);
        assert_int_equal(orr_fit_run(s->samples, &trees, s->arena, &s->fit, &s->err), ORR_OK);
        assert_null(s->fit.model);
        assert_int_equal(orr_fit_write(&s->fit, in_folder(&s->folder, "none.json"), &s->err),
                         ORR_INVALID);
    }
}

static bool stop_at_ten(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    assert_true(done <= total);
    return done < 10;
}

static void a_fit_can_be_stopped(void **state)
{
    scene *s = *state;
    orr_fit_options options = options_of(false, true);
    skip_without_xgboost();
    options.progress = stop_at_ten;
    add_gemms(s->samples, &s->one, 1);
    assert_int_equal(orr_fit_run(s->samples, &options, s->arena, &s->fit, &s->err), ORR_CANCELED);
}

static void nothing_gives_nothing(void **state)
{
    scene *s = *state;
    const orr_fit_options options = options_of(true, false);
    assert_int_equal(orr_fit_run(s->samples, &options, s->arena, &s->fit, &s->err), ORR_INVALID);
    assert_non_null(strstr(s->err.text, "no sample"));
}

/* Present or not: asking for trees either works or says in one line what is missing. */
static void without_xgboost_it_says_so(void **state)
{
    scene *s = *state;
    const orr_fit_options options = options_of(false, true);
    const char *why = NULL;
    const bool is = orr_fit_learned_available(&why);

    add_gemms(s->samples, &s->one, 1);
    const orr_status status = orr_fit_run(s->samples, &options, s->arena, &s->fit, &s->err);
    assert_int_equal(status, is ? ORR_OK : ORR_UNSUPPORTED);
    if (!is) {
        assert_string_equal(s->err.text, why);
        assert_non_null(strstr(why, "needs XGBoost"));
    }
}

static void no_memory_is_survived(void **state)
{
    scene *s = *state;
    const orr_fit_options options = options_of(true, false); /* XGBoost allocates by itself */
    orr_status status = ORR_NO_MEMORY;

    for (int64_t m = 1; m <= 40; m++)
        add_sample(s->samples, &s->one, gemm(m, 64, 64), 1000 + (double)m);
    for (uint64_t nth = 1; status != ORR_OK; nth++) {
        orr_arena *arena = orr_arena_new(0, 0);
        orr_alloc_fail_from(nth);
        status = orr_fit_run(s->samples, &options, arena, &s->fit, NULL);
        if (status == ORR_OK)
            status = orr_fit_write(&s->fit, in_folder(&s->folder, "m.json"), NULL);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        orr_arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_table_knows_what_is_between, setup, teardown),
        cmocka_unit_test_setup_teardown(trees_know_what_is_between, setup, teardown),
        cmocka_unit_test_setup_teardown(another_device_is_scaled_by_its_roofline, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_written_is_what_was_fitted, setup, teardown),
        cmocka_unit_test_setup_teardown(the_same_samples_give_the_same_file, setup, teardown),
        cmocka_unit_test_setup_teardown(few_shapes_make_no_claims, setup, teardown),
        cmocka_unit_test_setup_teardown(a_fit_can_be_stopped, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_gives_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(without_xgboost_it_says_so, setup, teardown),
        cmocka_unit_test_setup_teardown(no_memory_is_survived, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
