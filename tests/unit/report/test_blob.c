/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <zlib.h>

#include "base/alloc.h"
#include "report/timeline/blob.h"

static size_t from_base64(const char *text, uint8_t *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = 0;
    uint32_t bits = 0;
    int have = 0;
    for (; *text && *text != '='; text++) {
        bits = bits << 6 | (uint32_t)(strchr(digits, *text) - digits);
        have += 6;
        if (have >= 8)
            out[n++] = (uint8_t)(bits >> (have -= 8));
    }
    return n;
}

static void numbers_take_seven_bits_a_byte(void **state)
{
    static const uint8_t want[] = {0,    127,  0x80, 1,    0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
                                   0xFF, 0xFF, 0xFF, 0xFF, 1,    0,    1,    2,    3};
    orr_blob blob = {0};
    (void)state;
    orr_blob_varint(&blob, 0);
    orr_blob_varint(&blob, 127);
    orr_blob_varint(&blob, 128);
    orr_blob_varint(&blob, UINT64_MAX);
    orr_blob_zigzag(&blob, 0);
    orr_blob_zigzag(&blob, -1);
    orr_blob_zigzag(&blob, 1);
    orr_blob_zigzag(&blob, -2);
    assert_false(blob.failed);
    assert_int_equal(blob.bytes.n, sizeof want);
    assert_memory_equal(blob.bytes.at, want, sizeof want);
    orr_blob_done(&blob);
}

static void what_is_written_inflates_to_what_was_given(void **state)
{
    static const size_t sizes[] = {0, 1, 2, 3, 4, 100, 16384, 300001};
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const size_t n = sizes[s];
        uint8_t *bytes = malloc(n + 1), *back = malloc(n + 1);
        uint32_t random = 1;
        for (size_t i = 0; i < n; i++) {
            random = random * 1664525 + 1013904223;
            bytes[i] = (uint8_t)(random >> (i % 3 ? 24 : 30));
        }
        char *text = WRITTEN(out, assert_int_equal(orr_blob_write(bytes, n, out, NULL), ORR_OK));
        uint8_t *packed = malloc(strlen(text) + 1);
        assert_int_equal(strlen(text) % 4, 0);
        const size_t n_packed = from_base64(text, packed);
        uLongf n_back = (uLongf)n + 1;
        assert_int_equal(uncompress(back, &n_back, packed, (uLong)n_packed), Z_OK);
        assert_int_equal(n_back, n);
        assert_memory_equal(back, bytes, n);
        free(packed);
        free(text);
        free(back);
        free(bytes);
    }
}

static void running_out_of_memory_is_told(void **state)
{
    orr_blob blob = {0};
    orr_output *out;
    (void)state;
    assert_int_equal(orr_output_open_memory(&out, NULL), ORR_OK);
    orr_alloc_fail_from(1);
    orr_blob_varint(&blob, 1);
    orr_blob_varint(&blob, 2);
    const orr_status status = orr_blob_write("abc", 3, out, NULL);
    orr_alloc_fail_from(0);
    assert_true(blob.failed);
    assert_int_equal(status, ORR_NO_MEMORY);
    orr_output_close(out);
    orr_blob_done(&blob);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_take_seven_bits_a_byte),
        cmocka_unit_test(what_is_written_inflates_to_what_was_given),
        cmocka_unit_test(running_out_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
