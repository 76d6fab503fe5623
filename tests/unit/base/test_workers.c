/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <string.h>

#include "base/workers.h"

enum { COUNT = 257, ROUNDS = 2000 };

typedef struct round {
    int value[COUNT];
    _Atomic int calls;
    int threads, wrong;
} round_of_work;

static void piece(void *ctx, size_t i, int thread)
{
    round_of_work *r = ctx;
    r->value[i] = (int)(i * i);
    atomic_fetch_add(&r->calls, 1);
    if (thread < 0 || thread >= r->threads)
        r->wrong++;
}

static void check_rounds(int threads)
{
    orr_workers *workers = NULL;
    assert_int_equal(orr_workers_new(threads, &workers, NULL), ORR_OK);
    assert_int_equal(orr_workers_count(workers), threads);
    for (int round = 0; round < ROUNDS; round++) {
        round_of_work r = {.threads = threads};
        const size_t count = (size_t)round % COUNT;
        orr_workers_run(workers, count, piece, &r);
        assert_int_equal(r.calls, count);
        assert_int_equal(r.wrong, 0);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(r.value[i], i * i);
    }
    orr_workers_free(workers);
}

static void every_piece_is_done_once(void **state)
{
    (void)state;
    check_rounds(1);
    check_rounds(2);
    check_rounds(7);
}

static void without_workers_the_caller_works(void **state)
{
    (void)state;
    round_of_work r = {.threads = 1};
    orr_workers_run(NULL, COUNT, piece, &r);
    assert_int_equal(r.calls, COUNT);
    assert_int_equal(r.wrong, 0);
    assert_int_equal(orr_workers_count(NULL), 1);
    orr_workers_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_piece_is_done_once),
        cmocka_unit_test(without_workers_the_caller_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
