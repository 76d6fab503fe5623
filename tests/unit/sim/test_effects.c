/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <orrery/sim.h>

#include "base/alloc.h"

static orr_status computed(orr_arena *arena, const orr_published_effect **rows, uint32_t *n)
{
    return orr_published_effects(arena, rows, n, NULL);
}

/* Numbers against what was published: tests/reference/test_network_effects.c. */
static void the_same_every_time(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_published_effect *a, *b;
    uint32_t n_a, n_b;
    assert_int_equal(computed(arena, &a, &n_a), ORR_OK);
    assert_int_equal(computed(arena, &b, &n_b), ORR_OK);
    assert_int_equal(n_a, n_b);
    for (uint32_t i = 0; i < n_a; i++) {
        assert_true(a[i].ours == b[i].ours && a[i].within == b[i].within);
        for (uint32_t j = 0; j < i; j++)
            assert_string_not_equal(a[i].what, a[j].what);
    }
    orr_arena_free(arena);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    uint64_t nth = 0;
    orr_status status = ORR_NO_MEMORY;
    while (status != ORR_OK) {
        const orr_published_effect *rows = NULL;
        uint32_t n = 0;
        orr_arena *arena = orr_arena_new(0, 0);
        orr_alloc_fail_from(++nth);
        status = computed(arena, &rows, &n);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || (status == ORR_NO_MEMORY && rows == NULL && n == 0));
        orr_arena_free(arena);
    }
    assert_true(nth > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_every_time),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
