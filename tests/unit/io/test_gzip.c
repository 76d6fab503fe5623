/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

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

static char *unpack_by(bool zlib, const char *packed, size_t n, size_t *ret_n, orr_error *err)
{
    *err = (orr_error){0};
    orr_stream_test_zlib(zlib);
    char *all = unpack(packed, n, false, ret_n, err);
    orr_stream_test_zlib(false);
    return all;
}

/* Two members with bytes changed at random, whole and in small steps: both libraries give the same
 * text or the same error at the same byte. */
static void both_libraries_agree(void **state)
{
    (void)state;
    enum { ROUNDS = 6000, TEXT = 6000, ROOM = 20000 };
    static char text[TEXT], packed[ROOM];
    orr_random random = orr_random_of(29, 0);
    for (size_t i = 0; i < TEXT; i++)
        text[i] = "{\"name\": 1234567890, }"[orr_random_u32(&random) % (i < 2000 ? 4 : 22)];
    size_t n = pack(text, TEXT / 2, packed, ROOM), refused = 0;
    n += pack(text + TEXT / 2, TEXT / 2, packed + n, ROOM - n);
    for (int round = 0; round < ROUNDS; round++) {
        const size_t at = 3 + orr_random_u32(&random) % (round % 2 == 0 ? n - 3 : 200);
        const char was = packed[at];
        packed[at] = (char)orr_random_u32(&random);
        orr_error by_zlib, by_default;
        size_t n_zlib = 0, n_default = 0;
        orr_stream_test_step(round % 3 == 0 ? 1000 : 0);
        char *a = unpack_by(true, packed, n, &n_zlib, &by_zlib);
        char *b = unpack_by(false, packed, n, &n_default, &by_default);
        orr_stream_test_step(0);
        assert_true((a == NULL) == (b == NULL));
        assert_true(by_zlib.status == by_default.status && by_zlib.byte_pos == by_default.byte_pos);
        assert_string_equal(by_zlib.text, by_default.text);
        if (a != NULL) {
            assert_int_equal(n_zlib, n_default);
            assert_memory_equal(a, b, n_zlib);
        }
        refused += a == NULL;
        packed[at] = was;
        free(a);
        free(b);
    }
    assert_in_range(refused, ROUNDS / 2, ROUNDS);
}

/* What cannot be read twice is refused too, if in fewer words. */
static void broken_in_a_pipe(void **state)
{
    (void)state;
    char packed[200], path[32];
    const size_t n = pack("hello", 5, packed, sizeof packed);
    packed[n - 8] ^= 1;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], packed, n), n);
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    orr_error err;
    size_t got;
    assert_null(read_all(path, &got, &err));
    assert_int_equal(err.status, ORR_PARSE);
    assert_non_null(strstr(err.text, "broken gzip data at byte"));
    close(ends[0]);
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
        cmocka_unit_test(both_libraries_agree),
        cmocka_unit_test(broken_in_a_pipe),
    };
    const int failed = cmocka_run_group_tests_name("as built", tests, NULL, NULL);
    orr_stream_test_zlib(true);
    return failed + cmocka_run_group_tests_name("by zlib", tests, NULL, NULL);
}
