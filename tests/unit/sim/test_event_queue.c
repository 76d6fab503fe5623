/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "sim/engine/event_queue.h"

static void test_order_of_ties(void **state)
{
    (void)state;
    static const orr_queued_event events[] = {{7, 0, 9, 0}, {5, 2, 1, 1},  {5, 1, 9, 2},
                                              {5, 1, 8, 3}, {-3, 9, 9, 4}, {5, 1, 8, 5}};
    static const uint32_t order[] = {4, 3, 5, 2, 1, 0};
    orr_event_queue q = {0};
    orr_queued_event event;
    assert_true(orr_event_queue_reserve(&q, 6));
    assert_null(orr_event_queue_first(&q));
    for (int i = 0; i < 6; i++)
        orr_event_queue_put(&q, events[i]);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(orr_event_queue_first(&q)->id, order[i]);
        assert_true(orr_event_queue_pop(&q, &event));
        assert_int_equal(event.id, order[i]);
    }
    assert_false(orr_event_queue_pop(&q, &event));
    orr_event_queue_done(&q);
}

/* Puts, moves and takes at random, beside a plain list. */
static void test_against_a_list(void **state)
{
    (void)state;
    enum { IDS = 300, STEPS = 200000 };
    static orr_queued_event list[IDS];
    static bool in[IDS];
    orr_random random = orr_random_of(1, 0);
    orr_event_queue q = {0};
    for (int step = 0; step < STEPS; step++) {
        const uint32_t n_ids = 1 + (uint32_t)((uint64_t)IDS * (uint64_t)step / STEPS);
        assert_true(orr_event_queue_reserve(&q, n_ids));
        if (orr_random_below(&random, 5) < 3) {
            const uint32_t id = (uint32_t)orr_random_below(&random, n_ids);
            list[id] = (orr_queued_event){(int64_t)orr_random_below(&random, 1000),
                                          (uint32_t)orr_random_below(&random, 3), 0, id};
            in[id] = true;
            orr_event_queue_put(&q, list[id]);
            continue;
        }
        uint32_t least = UINT32_MAX;
        for (uint32_t i = 0; i < n_ids; i++) {
            if (!in[i] || (least != UINT32_MAX && list[i].at_ns > list[least].at_ns))
                continue;
            if (least == UINT32_MAX || list[i].at_ns < list[least].at_ns ||
                list[i].rank < list[least].rank)
                least = i;
        }
        orr_queued_event event;
        assert_int_equal(orr_event_queue_pop(&q, &event), least != UINT32_MAX);
        if (least == UINT32_MAX)
            continue;
        assert_int_equal(event.id, least);
        in[least] = false;
    }
    orr_event_queue_done(&q);
}

static void test_steady_state_allocates_nothing(void **state)
{
    (void)state;
    orr_event_queue q = {0};
    orr_queued_event event;
    assert_true(orr_event_queue_reserve(&q, 100));
    orr_alloc_fail_from(1);
    assert_true(orr_event_queue_reserve(&q, 100));
    for (uint32_t i = 0; i < 10000; i++) {
        orr_event_queue_put(&q, (orr_queued_event){i, 0, 0, i % 100});
        if (i % 3 == 0)
            assert_true(orr_event_queue_pop(&q, &event));
    }
    assert_false(orr_event_queue_reserve(&q, 1000));
    orr_alloc_fail_from(0);
    orr_event_queue_done(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_of_ties),
        cmocka_unit_test(test_against_a_list),
        cmocka_unit_test(test_steady_state_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
