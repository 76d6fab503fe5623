/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

/* What a build without libarchive has in place of its archives, whatever this build has. */
#include "io/archive/archive_none.c"

static void archives_are_told_and_not_read(void **state)
{
    orr_archive *archive = NULL;
    orr_error err = {0};
    (void)state;
    assert_int_equal(orr_archive_open("job.tgz", &archive, &err), ORR_UNSUPPORTED);
    assert_null(archive);
    assert_non_null(strstr(err.text, "this build has none: unpack the archive"));
    orr_archive_close(NULL);
}

static void archives_are_known_by_their_first_bytes(void **state)
{
    uint8_t tar[512] = {0};
    (void)state;
    memcpy(tar + 257, "ustar", 5);
    assert_true(orr_archive_is(tar, sizeof tar));
    assert_false(orr_archive_is(tar, sizeof tar - 1));
    assert_true(orr_archive_is((const uint8_t *)"PK\3\4", 4));
    assert_true(orr_archive_is((const uint8_t *)"PK\5\6", 4));
    assert_false(orr_archive_is((const uint8_t *)"PK\3", 3));
    assert_false(orr_archive_is((const uint8_t *)"{\"traceEvents\": []}", 19));
}

static void names_that_leave_the_archive_have_a_fault(void **state)
{
    static const char *const good[] = {"rank0.json", "a/b/rank0.json", "..a/b..", "a/...",
                                       "\u00e4/r.json"};
    static const char *const bad[] = {"",     "/a",     "\\a",      "C:a",  "..",    "../a",
                                      "a/..", "a/../b", "a\\..\\b", "a\nb", "a\x7f", "\xff.json"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_null(orr_archive_name_fault(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_non_null(orr_archive_name_fault(bad[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(archives_are_told_and_not_read),
        cmocka_unit_test(archives_are_known_by_their_first_bytes),
        cmocka_unit_test(names_that_leave_the_archive_have_a_fault),
    };
    return cmocka_run_group_tests_name("archive_none", tests, NULL, NULL);
}
