/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <orrery/status.h>

static void names_and_texts(void **state)
{
    (void)state;
    assert_string_equal(orr_status_name(ORR_OK), "OK");
    assert_string_equal(orr_status_name(ORR_CANCELED), "CANCELED");
    assert_string_equal(orr_status_text(ORR_PARSE), "the input is not of the stated format");
    assert_string_equal(orr_status_name((orr_status)77), "UNKNOWN");
    assert_non_null(orr_status_text((orr_status)77));
}

static void fail_fills_all(void **state)
{
    (void)state;
    orr_error err;
    errno = ENOSPC;
    assert_int_equal(orr_fail(&err, ORR_IO, "disk %d is %s", 7, "full"), ORR_IO);
    assert_int_equal(err.status, ORR_IO);
    assert_int_equal(err.os_errno, ENOSPC);
    assert_int_equal(errno, ENOSPC);
    assert_string_equal(err.text, "disk 7 is full");
    assert_non_null(strstr(err.file, "test_status.c"));
    assert_true(err.byte_pos == UINT64_MAX);

    assert_int_equal(orr_fail_byte(&err, ORR_PARSE, 42, "x"), ORR_PARSE);
    assert_true(err.byte_pos == 42);
    assert_int_equal(err.os_errno, 0);
    assert_int_equal(orr_fail(NULL, ORR_LIMIT, "nobody listens"), ORR_LIMIT);
}

static void text_is_one_line(void **state)
{
    (void)state;
    orr_error err;
    (void)orr_fail(&err, ORR_PARSE, "a\nb\x1b[31mc\x7f");
    assert_string_equal(err.text, "a?b?[31mc?");
}

static void long_text_is_cut_between_characters(void **state)
{
    (void)state;
    char euro[1001];
    for (size_t shift = 0; shift < 3; shift++) {
        memset(euro, 'x', sizeof euro);
        for (size_t i = shift; i + 3 < sizeof euro; i += 3)
            memcpy(euro + i, "\xe2\x82\xac", 3);
        euro[1000] = '\0';
        orr_error err;
        (void)orr_fail(&err, ORR_PARSE, "%s", euro);
        const size_t n = strlen(err.text);
        assert_in_range(n, sizeof err.text - 4, sizeof err.text - 1);
        assert_int_equal((n - shift) % 3, 0);
    }
}

static void prefix_goes_before(void **state)
{
    (void)state;
    orr_error err;
    (void)orr_fail(&err, ORR_PARSE, "bad");
    orr_error_prefix(&err, "file.json");
    assert_string_equal(err.text, "file.json: bad");
    assert_int_equal(err.status, ORR_PARSE);
    orr_error_prefix(NULL, "nobody");

    char path[2000];
    memset(path, 'p', sizeof path);
    memcpy(path + sizeof path - 8, "/x.json", 8);
    orr_error_prefix(&err, path);
    assert_non_null(strstr(err.text, "/x.json: file.json: bad"));
    char message[600];
    memset(message, 'm', sizeof message);
    message[599] = '\0';
    (void)orr_fail(&err, ORR_PARSE, "%s", message);
    orr_error_prefix(&err, "f");
    assert_memory_equal(err.text, "f: mmm", 6);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static orr_status give(orr_status status)
{
    return status;
}

static orr_status tries(orr_status status, int *reached)
{
    ORR_TRY(give(status));
    ++*reached;
    return ORR_OK;
}

static void try_passes_up(void **state)
{
    (void)state;
    int reached = 0;
    assert_int_equal(tries(ORR_LIMIT, &reached), ORR_LIMIT);
    assert_int_equal(reached, 0);
    assert_int_equal(tries(ORR_OK, &reached), ORR_OK);
    assert_int_equal(reached, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_texts),    cmocka_unit_test(fail_fills_all),
        cmocka_unit_test(text_is_one_line),   cmocka_unit_test(long_text_is_cut_between_characters),
        cmocka_unit_test(prefix_goes_before), cmocka_unit_test(try_passes_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
