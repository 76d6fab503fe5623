/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "sim/message/bucket_queue.h"

static uint32_t take(orr_bucket_queue *queue, int64_t *ret_ns)
{
    const uint32_t bucket = orr_bucket_queue_take(queue);
    if (bucket != UINT32_MAX)
        *ret_ns = queue->buckets.at[bucket].ns;
    return bucket;
}

static void test_in_order(void **state)
{
    orr_bucket_queue q;
    int64_t ns = -1;
    (void)state;
    assert_true(orr_bucket_queue_init(&q));
    orr_bucket_queue_push(&q, 30, (orr_message_event){1, 0, 0});
    orr_bucket_queue_push(&q, 10, (orr_message_event){2, 0, 0});
    orr_bucket_queue_push(&q, 30, (orr_message_event){3, 0, 0});
    uint32_t b = take(&q, &ns);
    assert_int_equal(ns, 10);
    assert_int_equal(q.buckets.at[b].n, 1);
    /* What is pushed for the time that is worked on joins its end. */
    orr_bucket_queue_push(&q, 10, (orr_message_event){4, 0, 0});
    assert_int_equal(q.buckets.at[b].n, 2);
    assert_int_equal(q.buckets.at[b].at[1].what, 4);
    orr_bucket_queue_recycle(&q, b);
    b = take(&q, &ns);
    assert_int_equal(ns, 30);
    assert_int_equal(q.buckets.at[b].at[0].what, 1);
    assert_int_equal(q.buckets.at[b].at[1].what, 3);
    orr_bucket_queue_recycle(&q, b);
    assert_int_equal(take(&q, &ns), UINT32_MAX);
    assert_false(q.failed);
    orr_bucket_queue_done(&q);
}

/* Against a plain array: many distinct times, pushed while others are taken. */
static void test_many_times(void **state)
{
    enum { EVENTS = 20000, SPREAD = 5000 };
    orr_bucket_queue q;
    orr_random random = orr_random_of(7, 0);
    static uint32_t pushed[EVENTS + 2 * SPREAD], taken[EVENTS + 2 * SPREAD];
    int64_t now = 0, before = -1;
    uint32_t left = EVENTS;
    (void)state;
    assert_true(orr_bucket_queue_init(&q));
    orr_bucket_queue_push(&q, 0, (orr_message_event){0, 0, 0});
    pushed[0]++;
    for (uint32_t b; (b = take(&q, &now)) != UINT32_MAX;) {
        assert_true(now > before);
        before = now;
        for (uint32_t i = 0; i < q.buckets.at[b].n; i++) {
            taken[now]++;
            for (int k = 0; k < 3 && left > 0; k++, left--) {
                int64_t at = now + (int64_t)orr_random_below(&random, SPREAD);
                at = at < EVENTS + 2 * SPREAD ? at : EVENTS + 2 * SPREAD - 1;
                pushed[at]++;
                orr_bucket_queue_push(&q, at, (orr_message_event){0, 0, 0});
            }
        }
        orr_bucket_queue_recycle(&q, b);
    }
    assert_int_equal(left, 0);
    assert_memory_equal(pushed, taken, sizeof pushed);
    orr_bucket_queue_done(&q);
}

static void test_no_memory(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth < 40; nth++) {
        orr_bucket_queue q;
        orr_alloc_fail_from(nth);
        if (orr_bucket_queue_init(&q))
            for (int64_t i = 0; i < 300; i++)
                orr_bucket_queue_push(&q, i * 17 % 101, (orr_message_event){0, 0, 0});
        const bool failed = q.failed;
        orr_alloc_fail_from(0);
        int64_t now;
        for (uint32_t b; q.table != NULL && (b = take(&q, &now)) != UINT32_MAX;)
            orr_bucket_queue_recycle(&q, b);
        assert_true(failed || q.table == NULL || q.buckets.n == 0 || nth > 2);
        orr_bucket_queue_done(&q);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_many_times),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
