/* SPDX-License-Identifier: Apache-2.0 */
#include "../model_text.h"

#include "../../io/files.h"

static void table_goes_before_trees(void **state)
{
    (void)state;
    static const char TEXT[] =
        BODY(TABLE(GEMM, SERIES(POINT("5000", "64"))) "," LEARNED(FAMILY(GOOD_TREE)));
    const orr_device one = some_device("one", 100e12, 1e12);
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_cost_file *file;
    orr_error err;
    orr_price price;
    orr_work work = gemm(64, 64, 64), other = gemm(65, 64, 64);

    work.flops = 1000; /* as the point says */
    work.read_bytes = work.write_bytes = 10;
    assert_int_equal(model_from(TEXT, sizeof TEXT - 1, arena, &file, &err), ORR_OK);
    assert_int_equal(file->seed, 7);
    assert_int_equal(file->samples, 9);
    assert_string_equal(file->sources[0], "a");
    assert_string_equal(file->devices[0], "one");
    assert_true(file->model.price(&file->model, &one, &work, &price));
    assert_int_equal(price.basis, ORR_BASIS_TABLE);
    assert_int_equal(price.ns, 5000);
    assert_true(price.error_frac == 0.5);
    assert_true(file->model.price(&file->model, &one, &other, &price));
    assert_int_equal(price.basis, ORR_BASIS_LEARNED);
    orr_arena_free(arena);
}

static void what_was_read_is_written_the_same(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        BODY(TABLE(GEMM, SERIES(POINT("5000.5", "64") "," POINT("1e6", "65")))),
        BODY(LEARNED(FAMILY(GOOD_TREE "," TREE("-1", "0.1", "0", "0")))),
        BODY(LEARNED(FAMILY(""))),
        BODY(TABLE("", "")),
        BODY(TABLE(GEMM, SERIES(POINT("5000.5", "64"))) "," LEARNED(FAMILY(GOOD_TREE))),
    };
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        orr_arena *arena = orr_arena_new(0, 0);
        const orr_cost_file *file, *again;
        orr_output *out[2];
        orr_error err;
        size_t n[2];

        assert_int_equal(model_from(TEXTS[i], strlen(TEXTS[i]), arena, &file, &err), ORR_OK);
        assert_int_equal(orr_output_open_memory(&out[0], &err), ORR_OK);
        orr_cost_file_write(file, out[0]);
        const void *text = orr_output_memory(out[0], &n[0]);
        assert_int_equal(model_from(text, n[0], arena, &again, &err), ORR_OK);
        assert_int_equal(orr_output_open_memory(&out[1], &err), ORR_OK);
        orr_cost_file_write(again, out[1]);
        const void *second = orr_output_memory(out[1], &n[1]);
        assert_int_equal(n[0], n[1]);
        assert_memory_equal(text, second, n[0]);
        orr_output_close(out[0]);
        orr_output_close(out[1]);
        orr_arena_free(arena);
    }
}

static void what_is_no_model_is_refused(void **state)
{
    (void)state;
    refuse("", "byte 0");
    refuse("[]", "byte ");
    refuse("{}", "it is empty");
    refuse("{\"table\":{}}", "does not begin with its schema");
    refuse("{\"schema\":7}", "schema: a text is due");
    refuse("{\"schema\":\"orrery.breakdown/1\"}", "its schema is orrery.breakdown/1");
    refuse(BODY("\"more\":1"), "not known, or twice");
    refuse(BODY(TABLE("", "") "," TABLE("", "")), "not known, or twice");
    refuse("{\"schema\":\"orrery.cost/1\"}", "neither a table nor a learned model");
    refuse("{\"schema\":\"orrery.cost/1\",\"seed\":1}", "seed: a text is due");
    refuse("{\"schema\":\"orrery.cost/1\",\"seed\":\"-1\"}", "seed: a whole number");
    refuse("{\"schema\":\"orrery.cost/1\",\"samples\":1e300}", "samples: a whole number");
    refuse("{\"schema\":\"orrery.cost/1\",\"samples\":-1}", "samples: a whole number");
    refuse("{\"schema\":\"orrery.cost/1\",\"sources\":[1]}", "sources: a text is due");
    refuse("{\"schema\":\"orrery.cost/1\",\"devices\":[\"a\\u0000b\"]}", "holds a NUL");
    refuse(BODY(TABLE("", "")) "x", "byte ");
    refuse("{\"schema\":\"orrery.cost/1\",\"seed\":[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]}",
           "byte ");
}

static void another_version_is_called_so(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        "{\"schema\":\"orrery.cost/2\",\"anything\":[",
        BODY("\"learned\":{\"features\":[\"dim0\"],\"families\":[]}"),
    };
    for (size_t i = 0; i < 2; i++) {
        orr_arena *arena = orr_arena_new(0, 0);
        const orr_cost_file *file;
        orr_error err;
        assert_int_equal(model_from(TEXTS[i], strlen(TEXTS[i]), arena, &file, &err),
                         ORR_UNSUPPORTED);
        assert_non_null(strstr(err.text, "another version"));
        orr_arena_free(arena);
    }
}

static void a_failure_names_the_file(void **state)
{
    const char *path = in_folder(state, "bad.json"), *text = BODY("\"more\":1");
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_cost_model *model = NULL;
    orr_error err;

    write_file(path, text, strlen(text));
    assert_int_equal(orr_cost_model_load(path, arena, &model, &err), ORR_INVALID);
    assert_int_equal(strncmp(err.text, path, strlen(path)), 0);
    assert_non_null(strstr(err.text, "at byte "));
    assert_int_equal(orr_cost_model_load(in_folder(state, "none"), arena, &model, &err), ORR_IO);
    assert_null(model);
    orr_arena_free(arena);
}

/* Cut anywhere, it is refused. */
static void every_part_of_a_file_is_needed(void **state)
{
    (void)state;
    static const char TEXT[] =
        BODY(TABLE(GEMM, SERIES(POINT("5000", "64"))) "," LEARNED(FAMILY(GOOD_TREE)));
    for (size_t n = 0; n < sizeof TEXT - 1; n++) {
        orr_arena *arena = orr_arena_new(0, 0);
        const orr_cost_file *file;
        orr_error err;
        assert_int_not_equal(model_from(TEXT, n, arena, &file, &err), ORR_OK);
        orr_arena_free(arena);
    }
}

static void no_memory_is_survived(void **state)
{
    (void)state;
    static const char TEXT[] =
        BODY(TABLE(GEMM, SERIES(POINT("5000", "64"))) "," LEARNED(FAMILY(GOOD_TREE)));
    orr_status status = ORR_NO_MEMORY;
    for (uint64_t nth = 1; status != ORR_OK; nth++) {
        orr_arena *arena = orr_arena_new(0, 0);
        const orr_cost_file *file;
        orr_alloc_fail_from(nth);
        status = model_from(TEXT, sizeof TEXT - 1, arena, &file, NULL);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        orr_arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_goes_before_trees),
        cmocka_unit_test(what_was_read_is_written_the_same),
        cmocka_unit_test(what_is_no_model_is_refused),
        cmocka_unit_test(another_version_is_called_so),
        cmocka_unit_test_setup_teardown(a_failure_names_the_file, make_folder, remove_folder),
        cmocka_unit_test(every_part_of_a_file_is_needed),
        cmocka_unit_test(no_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
