/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <orrery/arena.h>

#include "base/alloc.h"
#include "base/philox.h"

static void gives_zeroed_aligned_memory(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_random random = orr_random_of(1, 0);
    for (int i = 0; i < 5000; i++) {
        const size_t align = (size_t)1 << orr_random_below(&random, 9);
        const size_t bytes = orr_random_below(&random, 300);
        unsigned char *p = orr_arena_alloc(arena, bytes, 1, align);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % align, 0);
        for (size_t k = 0; k < bytes; k++)
            assert_int_equal(p[k], 0);
        memset(p, 0xaa, bytes);
    }
    orr_arena_free(arena);
}

static void objects_do_not_overlap_or_move(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(256, 0);
    unsigned char *objects[500];
    for (size_t i = 0; i < 500; i++) {
        objects[i] = orr_arena_array(arena, unsigned char, i);
        assert_non_null(objects[i]);
        memset(objects[i], (int)(i & 0xff), i);
    }
    for (size_t i = 0; i < 500; i++)
        for (size_t k = 0; k < i; k++)
            assert_int_equal(objects[i][k], i & 0xff);
    assert_ptr_not_equal(orr_arena_alloc(arena, 0, 4, 4), orr_arena_alloc(arena, 0, 4, 4));
    orr_arena_free(arena);
    orr_arena_free(NULL);
}

static void text(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(64, 0);
    assert_string_equal(orr_arena_strndup(arena, "hello world", 5), "hello");
    assert_string_equal(orr_arena_strndup(arena, NULL, 0), "");
    assert_string_equal(orr_arena_printf(arena, "%d-%s", 7, "x"), "7-x");
    char *long_text = orr_arena_printf(arena, "%0500d", 1);
    assert_int_equal(strlen(long_text), 500);
    orr_arena_free(arena);
}

static void rewind_gives_back(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(128, 0);
    const orr_arena_mark empty = orr_arena_get_mark(arena);
    int *kept = orr_arena_one(arena, int);
    *kept = 42;
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    const size_t held = orr_arena_held_bytes(arena);
    int *scratch = orr_arena_one(arena, int);
    *scratch = 1;
    for (int i = 0; i < 100; i++)
        assert_non_null(orr_arena_array(arena, char, 100));
    assert_true(orr_arena_held_bytes(arena) > held);
    orr_arena_rewind(arena, mark);
    assert_int_equal(orr_arena_held_bytes(arena), held);
    assert_int_equal(*kept, 42);
    int *again = orr_arena_one(arena, int);
    assert_ptr_equal(again, scratch);
    assert_int_equal(*again, 0);
    orr_arena_rewind(arena, empty);
    assert_int_equal(orr_arena_held_bytes(arena), 0);
    assert_true(orr_arena_peak_bytes(arena) > held);
    orr_arena_free(arena);
}

static void reset_keeps_a_block(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(1024, 0);
    char *first = orr_arena_array(arena, char, 10);
    for (int i = 0; i < 50; i++)
        assert_non_null(orr_arena_array(arena, char, 500));
    orr_arena_reset(arena);
    assert_int_equal(orr_arena_held_bytes(arena), 1024);
    assert_ptr_equal(orr_arena_array(arena, char, 10), first);
    orr_arena_free(arena);
}

static void limit_holds(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(1000, 10000);
    size_t got = 0;
    while (orr_arena_array(arena, char, 100) != NULL)
        got += 100;
    assert_in_range(got, 8000, 10000);
    assert_in_range(orr_arena_held_bytes(arena), 8000, 10000);
    assert_null(orr_arena_array(arena, char, 1 << 20));
    orr_arena_free(arena);
}

static void overflow_and_failure_give_null(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    assert_null(orr_arena_alloc(arena, SIZE_MAX / 2, 3, 1));
    assert_null(orr_arena_alloc(arena, SIZE_MAX, 1, 64));
    assert_null(orr_arena_strndup(arena, "", SIZE_MAX));
    orr_alloc_fail_from(1);
    void *p = orr_arena_alloc(arena, 1, 1, 1);
    void *no_arena = orr_arena_new(0, 0);
    orr_alloc_fail_from(0);
    assert_null(p);
    assert_null(no_arena);
    assert_non_null(orr_arena_alloc(arena, 1, 1, 1));
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_zeroed_aligned_memory),
        cmocka_unit_test(objects_do_not_overlap_or_move),
        cmocka_unit_test(text),
        cmocka_unit_test(rewind_gives_back),
        cmocka_unit_test(reset_keeps_a_block),
        cmocka_unit_test(limit_holds),
        cmocka_unit_test(overflow_and_failure_give_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
