/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include "base/alloc.h"

static void tensors_are_found_by_name(void **state)
{
    (void)state;
    const char *path = in_scratch("good.safetensors");
    orr_weights *w;
    write_safetensors(path,
                      "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                      "\"__metadata__\":{\"format\":\"pt\",\"who\":\"t\\u00e9st\"},"
                      "\"a\":{\"data_offsets\":[24,28],\"shape\":[2],\"dtype\":\"BF16\"},"
                      "\"ids\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[28,36]},"
                      "\"one\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[36,38]},"
                      "\"none\":{\"dtype\":\"F16\",\"shape\":[0,4],\"data_offsets\":[38,38]}}   ",
                      38);
    assert_int_equal(orr_weights_open(path, &w, NULL), ORR_OK);
    assert_int_equal(w->n, 4); /* ids are no numbers of ours */
    assert_int_equal(w->bytes, 30);
    assert_false(w->gguf);
    const orr_weight *b = orr_weights_find(w, "b");
    assert_int_equal(b->format, ORR_ROW_FORMAT_FP32);
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->dim[0], 2);
    assert_int_equal(b->dim[1], 3);
    assert_int_equal(b->bytes, 24);
    assert_int_equal(*(const uint8_t *)b->data, 0);
    assert_int_equal(*(const uint8_t *)orr_weights_find(w, "a")->data, 24);
    assert_int_equal(orr_weights_find(w, "one")->rank, 0);
    assert_null(orr_weights_find(w, "ids"));
    assert_null(orr_weights_find(w, "c"));
    assert_int_equal(w->n_metadata, 2);
    assert_string_equal(w->metadata[1].key, "who");
    assert_string_equal(w->metadata[1].value, "t\xc3\xa9st");
    orr_weights_close(w);
}

#define T(name, dtype, shape, begin, end)                                                          \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end \
    "]}"

static const struct {
    const char *header;
    size_t data;
    orr_status status;
    const char *says;
} FAULTS[] = {
    {"{" T("a", "F32", "[2]", 0, 8) "", 8, ORR_PARSE, "byte 61"},
    {"[1]", 0, ORR_PARSE, "byte"},
    {"{" T("a", "F32", "[2]", 0, 8) "}x", 8, ORR_PARSE, "byte"},
    {"{" T("a", "F33", "[2]", 0, 8) "}", 8, ORR_INVALID, "'F33'"},
    {"{" T("a", "F32", "[2]", 0, 8) "," T("a", "F32", "[2]", 8, 16) "}", 16, ORR_INVALID,
     "two tensors 'a'"},
    {"{" T("a", "F32", "[2]", 0, 8) "," T("b", "F32", "[2]", 4, 12) "}", 12, ORR_INVALID,
     "'a' and 'b' overlap"},
    {"{" T("a", "F32", "[2]", 0, 8) "," T("b", "F32", "[2]", 12, 20) "}", 20, ORR_INVALID,
     "4 bytes before tensor 'b'"},
    {"{" T("a", "F32", "[2]", 0, 8) "}", 12, ORR_INVALID, "the tensors end at byte"},
    {"{" T("a", "F32", "[2]", 0, 8) "}", 4, ORR_INVALID, "'a' ends at byte"},
    {"{" T("a", "F32", "[3]", 0, 8) "}", 8, ORR_INVALID, "(3) needs 12 bytes and is given 8"},
    {"{" T("a", "F32", "[2]", 8, 0) "}", 8, ORR_INVALID, "not a begin and an end"},
    {"{" T("a", "F32", "[4294967296,4294967296]", 0, 8) "}", 8, ORR_INVALID, "no number of bytes"},
    {"{" T("a", "F4", "[3]", 0, 1) "}", 1, ORR_INVALID, "no number of bytes"},
    {"{" T("a", "F32", "[-2]", 0, 8) "}", 8, ORR_INVALID, "not whole numbers"},
    {"{" T("a", "F32", "[1.5]", 0, 8) "}", 8, ORR_INVALID, "not whole numbers"},
    {"{" T("a", "F32", "[1,1,1,1,1,1,1]", 0, 4) "}", 4, ORR_INVALID, "more than 6 dims"},
    {"{" T("a", "F32", "[9223372036854775808]", 0, 8) "}", 8, ORR_INVALID, "not whole numbers"},
    {"{" T("a", "F32", "[2]", 0, 18446744073709551615) "}", 8, ORR_INVALID, "not whole numbers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 0, ORR_INVALID, "has no data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, ORR_INVALID, "has no shape"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, ORR_INVALID, "has no dtype"},
    {"{\"a\":{\"colour\":3}}", 4, ORR_INVALID, "a key 'colour'"},
    {"{\"a\":[]}", 0, ORR_PARSE, "byte"},
    {"{\"__metadata__\":{\"n\":3}}", 0, ORR_INVALID, "no text"},
    {"{\"a\\u0000b\":{}}", 0, ORR_INVALID, "NUL"},
    {"", 0, ORR_PARSE, "byte"},
};

static void every_fault_is_one_line(void **state)
{
    (void)state;
    const char *path = in_scratch("bad.safetensors");
    for (size_t i = 0; i < sizeof FAULTS / sizeof *FAULTS; i++) {
        orr_weights *w = NULL;
        orr_error err = {.text = ""};
        write_safetensors(path, FAULTS[i].header, FAULTS[i].data);
        const orr_status status = orr_weights_open(path, &w, &err);
        if (status != FAULTS[i].status)
            fail_msg("%s: %s, %s", FAULTS[i].header, orr_status_name(status), err.text);
        assert_null(w);
        must_say(&err, FAULTS[i].says);
        must_say(&err, path);
    }
}

static void sizes_that_are_too_large_or_cut_off_are_told(void **state)
{
    (void)state;
    const char *path = in_scratch("bad.safetensors");
    orr_weights *w;
    orr_error err;
    write_bytes(path, "", 0);
    assert_int_equal(orr_weights_open(path, &w, &err), ORR_PARSE);
    must_say(&err, "byte 0: the file ends before the size of its header");
    write_bytes(path, "\x10\0\0\0\0\0\0\0{}", 10);
    assert_int_equal(orr_weights_open(path, &w, &err), ORR_PARSE);
    must_say(&err, "byte 10: the file ends in its header of 16 bytes");
    write_bytes(path, "\1\xe1\xf5\5\0\0\0\0{}", 10); /* 100,000,001 */
    assert_int_equal(orr_weights_open(path, &w, &err), ORR_LIMIT);
    must_say(&err, "a header of 100000001 bytes");
    write_bytes(path, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    assert_int_equal(orr_weights_open(path, &w, &err), ORR_LIMIT);
    /* A size whose bytes are those of a compressed file's begin. */
    write_safetensors(path, "{}", 0);
    assert_int_equal(orr_weights_open(path, &w, &err), ORR_OK);
    assert_int_equal(w->n, 0);
    orr_weights_close(w);
}

static void what_is_no_file_is_told(void **state)
{
    (void)state;
    orr_weights *w;
    orr_error err;
    assert_int_equal(orr_weights_open("/nowhere/x.safetensors", &w, &err), ORR_IO);
    must_say(&err, "/nowhere/x.safetensors");
    assert_int_equal(orr_weights_open("/dev/null", &w, &err), ORR_INVALID);
    must_say(&err, "no regular file");
    assert_int_equal(orr_weights_open("/proc/self/fd", &w, &err), ORR_NOT_FOUND);
    must_say(&err, "has no file .safetensors or .gguf");
}

static void failing_allocations_are_survived(void **state)
{
    (void)state;
    orr_weights *w;
    orr_status status = ORR_NO_MEMORY;
    const char *path = checkpoint("llama2");
    for (uint64_t nth = 1; status != ORR_OK; nth++) {
        orr_alloc_fail_from(nth);
        status = orr_weights_open(path, &w, NULL);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        assert_true(nth < 1000);
    }
    orr_weights_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_found_by_name),
        cmocka_unit_test(every_fault_is_one_line),
        cmocka_unit_test(sizes_that_are_too_large_or_cut_off_are_told),
        cmocka_unit_test(what_is_no_file_is_told),
        cmocka_unit_test(failing_allocations_are_survived),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
