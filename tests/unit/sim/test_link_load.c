/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/flow/event_heap.h"
#include "sim/flow/link_load.h"

#include "base/philox.h"

enum { LIMIT = 32 };

static void notes_changes_only(void **state)
{
    (void)state;
    orr_link_load use = {0};
    assert_true(orr_link_load_reserve(&use, LIMIT));
    orr_link_load_set(&use, 100, 5);
    orr_link_load_set(&use, 150, 5);
    orr_link_load_set(&use, 200, 0);
    orr_link_load_set(&use, 300, 7);
    orr_link_load_set(&use, 300, 9); /* at once: the last word */
    orr_link_load_set(&use, 350, 0);
    assert_int_equal(use.samples.n, 4);
    assert_int_equal(use.samples.at[2].load, 9);
    assert_int_equal(use.busy_ns, 150);
    orr_link_load_done(&use);
}

/* A hundred thousand changes in 32 samples: their sum over time is what was noted, in order. */
static void many_changes_in_few_samples(void **state)
{
    (void)state;
    orr_link_load use = {0};
    orr_random random = orr_random_of(1, 0);
    int64_t now_ns = 0, load = 0, want = 0, sum = 0;
    for (int i = 0; i < 100000; i++) {
        const int64_t gap_ns = 1 + (int64_t)orr_random_below(&random, i % 100 == 0 ? 100000 : 500);
        want += load * gap_ns;
        now_ns += gap_ns;
        load = (int64_t)orr_random_below(&random, 50000000);
        assert_true(orr_link_load_reserve(&use, LIMIT));
        orr_link_load_set(&use, now_ns, load);
        assert_true(use.samples.n <= LIMIT);
    }
    want += load * 10;
    orr_link_load_set(&use, now_ns + 10, 0);
    assert_in_range(use.samples.n, LIMIT / 4, LIMIT);
    for (size_t i = 0; i + 1 < use.samples.n; i++) {
        assert_true(use.samples.at[i].at_ns < use.samples.at[i + 1].at_ns);
        sum += use.samples.at[i].load * (use.samples.at[i + 1].at_ns - use.samples.at[i].at_ns) +
               use.samples.at[i].rest;
    }
    assert_true(sum == want);
    orr_link_load_done(&use);
}

static void heap_gives_events_in_order(void **state)
{
    (void)state;
    enum { ROWS = 500 };
    orr_flow_heap heap = {0};
    orr_flow_event event, before = {0};
    orr_random random = orr_random_of(2, 0);
    assert_int_equal(orr_flow_heap_next(&heap), INT64_MAX);
    assert_true(orr_flow_heap_reserve(&heap, ROWS));
    for (int i = 0; i < 5000; i++) { /* put, and put elsewhere */
        const uint32_t row = (uint32_t)orr_random_below(&random, ROWS);
        const int64_t at_ns = (int64_t)orr_random_below(&random, 100);
        orr_flow_heap_put(&heap, (orr_flow_event){at_ns, row, row});
    }
    assert_int_equal(heap.events.n, ROWS);
    assert_false(orr_flow_heap_take(&heap, -1, &event));
    for (int i = 0; i < ROWS; i++, before = event) {
        assert_true(orr_flow_heap_take(&heap, 100, &event));
        assert_true(i == 0 || before.at_ns < event.at_ns ||
                    (before.at_ns == event.at_ns && before.order < event.order));
    }
    assert_false(orr_flow_heap_take(&heap, INT64_MAX, &event));
    orr_flow_heap_done(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notes_changes_only),
        cmocka_unit_test(many_changes_in_few_samples),
        cmocka_unit_test(heap_gives_events_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
