/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "support/simulated/disk.h"

static void expect(const orr_sim_disk *disk, uint64_t version, const char *record, size_t bytes)
{
    char read[16];
    uint64_t found;
    size_t n;
    assert_int_equal(orr_sim_disk_load(disk, &found, read, sizeof read, &n, NULL), ORR_OK);
    assert_int_equal(found, version);
    assert_int_equal(n, bytes);
    assert_memory_equal(read, record, bytes);
}

static orr_status load(const orr_sim_disk *disk, size_t room)
{
    char read[16];
    uint64_t version;
    size_t n;
    return orr_sim_disk_load(disk, &version, read, room, &n, NULL);
}

static void the_last_record_is_there(void **state)
{
    (void)state;
    orr_sim_disk disk = {0};
    assert_int_equal(load(&disk, 16), ORR_NOT_FOUND);
    assert_int_equal(orr_sim_disk_save(&disk, 3, "three", 5, NULL), ORR_OK);
    assert_int_equal(orr_sim_disk_save(&disk, 4, "four", 4, NULL), ORR_OK);
    expect(&disk, 4, "four", 4);
    assert_int_equal(load(&disk, 3), ORR_LIMIT);
    assert_int_equal(orr_sim_disk_save(&disk, 5, NULL, 0, NULL), ORR_OK);
    expect(&disk, 5, "", 0);
    assert_int_equal(disk.saves, 3);
    orr_sim_disk_done(&disk);
}

static void what_can_happen_to_it(void **state)
{
    (void)state;
    orr_sim_disk disk = {0};
    assert_int_equal(orr_sim_disk_save(&disk, 1, "a", 1, NULL), ORR_OK);
    orr_sim_disk_spoil(&disk);
    assert_int_equal(load(&disk, 16), ORR_PARSE);
    assert_int_equal(orr_sim_disk_save(&disk, 2, "b", 1, NULL), ORR_OK);
    expect(&disk, 2, "b", 1);
    orr_sim_disk_wipe(&disk);
    assert_int_equal(load(&disk, 16), ORR_NOT_FOUND);
    orr_sim_disk_done(&disk);
}

static void count(void *ctx)
{
    ++*(int *)ctx;
}

static void a_death_in_the_middle(void **state)
{
    (void)state;
    for (int kept = 0; kept < 2; kept++) {
        int crashes = 0;
        orr_sim_disk disk = {.crash_save = 2, .crash_kept = kept, .crash = count, .ctx = &crashes};
        assert_int_equal(orr_sim_disk_save(&disk, 1, "old", 3, NULL), ORR_OK);
        assert_int_equal(orr_sim_disk_save(&disk, 2, "new", 3, NULL), ORR_IO);
        assert_int_equal(crashes, 1);
        expect(&disk, kept ? 2 : 1, kept ? "new" : "old", 3);
        assert_int_equal(orr_sim_disk_save(&disk, 3, "newer", 5, NULL), ORR_OK);
        expect(&disk, 3, "newer", 5);
        orr_sim_disk_done(&disk);
    }
}

static void no_memory_keeps_the_old(void **state)
{
    (void)state;
    orr_sim_disk disk = {0};
    assert_int_equal(orr_sim_disk_save(&disk, 1, "old", 3, NULL), ORR_OK);
    orr_alloc_fail_from(1);
    assert_int_equal(orr_sim_disk_save(&disk, 2, "new", 3, NULL), ORR_NO_MEMORY);
    orr_alloc_fail_from(0);
    expect(&disk, 1, "old", 3);
    orr_sim_disk_done(&disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_record_is_there),
        cmocka_unit_test(what_can_happen_to_it),
        cmocka_unit_test(a_death_in_the_middle),
        cmocka_unit_test(no_memory_keeps_the_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
