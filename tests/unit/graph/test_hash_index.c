/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/hash_index.h"

#include "graphs.h"

static bool holds(const orr_hash_index *index, uint32_t hash, uint32_t id)
{
    orr_hash_index_probe probe = orr_hash_index_find(index, hash);
    for (uint32_t found; (found = orr_hash_index_next(index, &probe)) != UINT32_MAX;)
        if (found == id)
            return true;
    return false;
}

static void test_empty_index_holds_nothing(void **state)
{
    (void)state;
    const orr_hash_index index = {0};
    assert_false(holds(&index, 0, 0));
}

static void test_finds_all_after_growing(void **state)
{
    (void)state;
    orr_hash_index index = {0};
    for (uint32_t id = 0; id < 10000; id++)
        assert_true(orr_hash_index_add(&index, orr_hash_bytes(&id, sizeof id), id));
    for (uint32_t id = 0; id < 10000; id++)
        assert_true(holds(&index, orr_hash_bytes(&id, sizeof id), id));
    const uint32_t absent = 10001;
    assert_false(holds(&index, orr_hash_bytes(&absent, sizeof absent), absent));
    orr_hash_index_done(&index);
}

static void test_equal_hashes_are_all_found(void **state)
{
    (void)state;
    orr_hash_index index = {0};
    for (uint32_t id = 0; id < 200; id++)
        assert_true(orr_hash_index_add(&index, id % 2 ? UINT32_MAX : 63, id));
    for (uint32_t id = 0; id < 200; id++) {
        assert_true(holds(&index, id % 2 ? UINT32_MAX : 63, id));
        assert_false(holds(&index, id % 2 ? 63 : UINT32_MAX, id));
    }
    orr_hash_index_done(&index);
}

static void test_failed_growth_keeps_what_is_there(void **state)
{
    (void)state;
    orr_hash_index index = {0};
    uint32_t n = 0;
    assert_true(orr_hash_index_add(&index, n, n));
    n++;
    orr_alloc_fail_from(1);
    while (orr_hash_index_add(&index, n, n))
        n++;
    orr_alloc_fail_from(0);
    for (uint32_t id = 0; id < n; id++)
        assert_true(holds(&index, id, id));
    assert_false(holds(&index, n, n));
    assert_true(orr_hash_index_add(&index, n, n));
    assert_true(holds(&index, n, n));
    orr_hash_index_done(&index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_index_holds_nothing),
        cmocka_unit_test(test_finds_all_after_growing),
        cmocka_unit_test(test_equal_hashes_are_all_found),
        cmocka_unit_test(test_failed_growth_keeps_what_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
