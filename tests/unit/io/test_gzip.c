/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <zlib.h>

#include "packed.h"

static size_t pack(const void *bytes, size_t len, void *out, size_t room)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (unsigned)len;
    z.next_out = out;
    z.avail_out = (unsigned)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    const size_t n = z.total_out;
    deflateEnd(&z);
    return n;
}

static const packer gzip = {.name = "gzip", .pack = pack};

static void members_follow_one_another(void **state)
{
    (void)state;
    check_members(&gzip);
}

static void from_a_file(void **state)
{
    check_file(&gzip, state);
}

static void truncated(void **state)
{
    (void)state;
    check_truncation(&gzip);
}

static void corrupted(void **state)
{
    (void)state;
    size_t refused;
    check_corruption(&gzip, &refused);
    assert_in_range(refused, 200, 5000);
}

static void sum_and_length_are_checked(void **state)
{
    (void)state;
    char packed[200];
    const size_t n = pack("hello", 5, packed, sizeof packed);
    orr_error err;
    size_t got;
    packed[n - 8] ^= 1;
    assert_null(unpack(packed, n, false, &got, &err));
    assert_non_null(strstr(err.text, "incorrect data check"));
    packed[n - 8] ^= 1;
    packed[n - 4] ^= 1;
    assert_null(unpack(packed, n, false, &got, &err));
    assert_non_null(strstr(err.text, "incorrect length check"));
}

static void garbage_behind_is_refused(void **state)
{
    (void)state;
    char packed[200] = {0};
    const size_t n = pack("hello", 5, packed, sizeof packed);
    orr_error err;
    size_t got;
    packed[n] = 'x';
    assert_null(unpack(packed, n + 1, false, &got, &err));
    assert_non_null(strstr(err.text, "garbage after the end"));
    assert_true(err.byte_pos == n);
    packed[n] = '\x1f';
    packed[n + 1] = 'x';
    assert_null(unpack(packed, n + 2, false, &got, &err));
    assert_non_null(strstr(err.text, "garbage after the end"));
}

static void bomb_passes_through(void **state)
{
    (void)state;
    check_bomb(&gzip);
}

/* zlib takes its memory through our door. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    char packed[2000], text[1000] = {0};
    const size_t n = pack(text, sizeof text, packed, sizeof packed);
    char *all = NULL;
    uint64_t nth = 1;
    for (; all == NULL; nth++) {
        size_t got;
        orr_error err = {0};
        orr_stream_test_step(64);
        orr_alloc_fail_from(nth);
        all = unpack(packed, n, false, &got, &err);
        orr_alloc_fail_from(0);
        orr_stream_test_step(0);
        if (all == NULL)
            assert_int_equal(err.status, ORR_NO_MEMORY);
        assert_in_range(nth, 1, 50);
    }
    assert_in_range(nth, 5, 50);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_follow_one_another),
        cmocka_unit_test_setup_teardown(from_a_file, make_folder, remove_folder),
        cmocka_unit_test(truncated),
        cmocka_unit_test(corrupted),
        cmocka_unit_test(sum_and_length_are_checked),
        cmocka_unit_test(garbage_behind_is_refused),
        cmocka_unit_test(bomb_passes_through),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
