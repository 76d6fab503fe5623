/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h wants the four above first */
#include <cmocka.h>

#include "base/alloc.h"
#include "trace/common/idmap.h"

static void finds_what_was_set(void **state)
{
    (void)state;
    orr_idmap map = {0};
    orr_error err;
    uint32_t old;
    assert_int_equal(orr_idmap_get(&map, 0), UINT32_MAX);
    /* Close together, far apart, and 0 and the largest. */
    for (uint64_t i = 0; i < 5000; i++)
        assert_int_equal(orr_idmap_set(&map, i % 2 ? i : i << 40, (uint32_t)i, &err), ORR_OK);
    assert_int_equal(orr_idmap_set(&map, UINT64_MAX, 7, &err), ORR_OK);
    for (uint64_t i = 0; i < 5000; i++)
        assert_int_equal(orr_idmap_get(&map, i % 2 ? i : i << 40), i);
    assert_int_equal(orr_idmap_get(&map, UINT64_MAX), 7);
    assert_int_equal(orr_idmap_get(&map, 5001), UINT32_MAX);
    assert_int_equal(map.n, 5001);
    assert_int_equal(orr_idmap_add(&map, 1, 99, &old, &err), ORR_OK);
    assert_int_equal(old, 1);
    assert_int_equal(orr_idmap_get(&map, 1), 1);
    assert_int_equal(orr_idmap_add(&map, 7001, 99, &old, &err), ORR_OK);
    assert_int_equal(old, UINT32_MAX);
    assert_int_equal(orr_idmap_get(&map, 7001), 99);
    assert_int_equal(orr_idmap_set(&map, 1, 2, &err), ORR_OK);
    assert_int_equal(orr_idmap_get(&map, 1), 2);
    orr_idmap_done(&map);
    assert_int_equal(orr_idmap_get(&map, 1), UINT32_MAX);
}

static void says_when_memory_is_out(void **state)
{
    (void)state;
    orr_idmap map = {0};
    orr_error err;
    orr_alloc_fail_from(1);
    assert_int_equal(orr_idmap_set(&map, 1, 1, &err), ORR_NO_MEMORY);
    orr_alloc_fail_from(0);
    assert_int_equal(orr_idmap_set(&map, 1, 1, &err), ORR_OK);
    assert_int_equal(orr_idmap_get(&map, 1), 1);
    orr_idmap_done(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_was_set),
        cmocka_unit_test(says_when_memory_is_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
