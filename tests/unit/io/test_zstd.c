/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <zstd.h>

#include "packed.h"

static size_t pack(const void *bytes, size_t len, void *out, size_t room)
{
    ZSTD_CCtx *z = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
    const size_t n = ZSTD_compress2(z, out, room, bytes, len);
    ZSTD_freeCCtx(z);
    assert_false(ZSTD_isError(n));
    return n;
}

static const packer zstd = {.name = "zstd", .pack = pack};

static void frames_follow_one_another(void **state)
{
    (void)state;
    check_members(&zstd);
}

static void from_a_file(void **state)
{
    check_file(&zstd, state);
}

static void truncated(void **state)
{
    (void)state;
    check_truncation(&zstd);
}

static void corrupted(void **state)
{
    (void)state;
    size_t refused;
    check_corruption(&zstd, &refused);
    assert_in_range(refused, 200, 5000);
}

static void skippable_frames_are_skipped(void **state)
{
    (void)state;
    char packed[200] = "\x5a\x2a\x4d\x18\x03\x00\x00\x00"
                       "abc";
    size_t n = 11, got = 0;
    n += pack("hello", 5, packed + n, sizeof packed - n);
    memcpy(packed + n, packed, 11);
    char *all = unpack(packed, n + 11, false, &got, NULL);
    assert_non_null(all);
    assert_string_equal(all, "hello");
    free(all);
}

static void garbage_behind_is_refused(void **state)
{
    (void)state;
    char packed[200] = {0};
    const size_t n = pack("hello", 5, packed, sizeof packed);
    orr_error err;
    size_t got;
    memcpy(packed + n, "garbage", 7);
    assert_null(unpack(packed, n + 7, false, &got, &err));
    assert_int_equal(err.status, ORR_PARSE);
    assert_non_null(strstr(err.text, "broken zstd data after byte"));
}

static void bomb_passes_through(void **state)
{
    (void)state;
    check_bomb(&zstd);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    char packed[2000], text[1000] = {0};
    const size_t n = pack(text, sizeof text, packed, sizeof packed);
    char *all = NULL;
    for (uint64_t nth = 1; all == NULL; nth++) {
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
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_follow_one_another),
        cmocka_unit_test_setup_teardown(from_a_file, make_folder, remove_folder),
        cmocka_unit_test(truncated),
        cmocka_unit_test(corrupted),
        cmocka_unit_test(skippable_frames_are_skipped),
        cmocka_unit_test(garbage_behind_is_refused),
        cmocka_unit_test(bomb_passes_through),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
