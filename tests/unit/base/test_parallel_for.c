/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parallel_for.h"

enum { COUNT = 1000 };

typedef struct result {
    int value[COUNT];
    _Atomic int calls;
    size_t fails_at; /* and at every second index after it */
} result;

static orr_status square(void *ctx, size_t index, orr_error *err)
{
    result *r = ctx;
    atomic_fetch_add(&r->calls, 1);
    if (index >= r->fails_at && (index - r->fails_at) % 2 == 0)
        return orr_fail(err, ORR_INVALID, "index %zu", index);
    r->value[index] = (int)(index * index);
    return ORR_OK;
}

static void every_index_once(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 3, 8, 0};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        result r = {.fails_at = SIZE_MAX};
        assert_int_equal(orr_parallel_for(COUNT, threads[t], square, &r, NULL), ORR_OK);
        assert_int_equal(r.calls, COUNT);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(r.value[i], i * i);
    }
    assert_int_equal(orr_parallel_for(0, 4, square, NULL, NULL), ORR_OK);
}

static void lowest_failure_wins(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 8; threads++) {
        for (int repeat = 0; repeat < 20; repeat++) {
            result r = {.fails_at = 100};
            orr_error err;
            assert_int_equal(orr_parallel_for(COUNT, threads, square, &r, &err), ORR_INVALID);
            assert_string_equal(err.text, "index 100");
            if (threads == 1)
                assert_int_equal(r.calls, 101);
            assert_int_equal(orr_parallel_for(COUNT, threads, square, &r, NULL), ORR_INVALID);
        }
    }
}

static void does_without_threads(void **state)
{
    (void)state;
    result r = {.fails_at = SIZE_MAX};
    orr_alloc_fail_from(1);
    const orr_status status = orr_parallel_for(COUNT, 8, square, &r, NULL);
    orr_alloc_fail_from(0);
    assert_int_equal(status, ORR_OK);
    assert_int_equal(r.calls, COUNT);
}

static void counts_cores(void **state)
{
    (void)state;
    assert_in_range(orr_core_count(), 1, 65536);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_index_once),
        cmocka_unit_test(lowest_failure_wins),
        cmocka_unit_test(does_without_threads),
        cmocka_unit_test(counts_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
