/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include "weights/gguf.h"
#include "weights/write.h"

/* A file as it is put together, byte by byte. */
typedef struct bytes {
    uint8_t at[4096];
    size_t n;
} bytes;

static void put(bytes *b, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        b->at[b->n++] = (uint8_t)(value >> 8 * i);
}

static void put_text(bytes *b, const char *text)
{
    put(b, strlen(text), 8);
    memcpy(b->at + b->n, text, strlen(text));
    b->n += strlen(text);
}

static bytes header(uint32_t version, uint64_t tensors, uint64_t keys)
{
    bytes b = {.at = "GGUF", .n = 4};
    put(&b, version, 4);
    put(&b, tensors, 8);
    put(&b, keys, 8);
    return b;
}

static void put_tensor(bytes *b, const char *name, uint32_t type, int64_t d0, int64_t d1,
                       uint64_t offset)
{
    put_text(b, name);
    put(b, d1 > 0 ? 2 : 1, 4);
    put(b, (uint64_t)d0, 8);
    if (d1 > 0)
        put(b, (uint64_t)d1, 8);
    put(b, type, 4);
    put(b, offset, 8);
}

static void put_data(bytes *b, size_t n)
{
    while (b->n % 32 != 0)
        put(b, 0, 1);
    for (size_t i = 0; i < n; i++)
        put(b, i, 1);
}

static orr_status open_bytes(const bytes *b, orr_weights **ret, orr_error *err)
{
    const char *path = in_scratch("x.gguf");
    write_bytes(path, b->at, b->n);
    return orr_weights_open(path, ret, err);
}

/* Every type of a value; two tensors. */
static bytes good(void)
{
    bytes b = header(3, 2, 14);
    const double wide = -0.1;
    uint64_t bits;
    memcpy(&bits, &wide, 8);
    put_text(&b, "u8"), put(&b, ORR_GGUF_U8, 4), put(&b, 200, 1);
    put_text(&b, "i8"), put(&b, ORR_GGUF_I8, 4), put(&b, 200, 1);
    put_text(&b, "u16"), put(&b, ORR_GGUF_U16, 4), put(&b, 60000, 2);
    put_text(&b, "i16"), put(&b, ORR_GGUF_I16, 4), put(&b, 60000, 2);
    put_text(&b, "u32"), put(&b, ORR_GGUF_U32, 4), put(&b, 4000000000, 4);
    put_text(&b, "i32"), put(&b, ORR_GGUF_I32, 4), put(&b, 4000000000, 4);
    put_text(&b, "f32"), put(&b, ORR_GGUF_F32, 4), put(&b, 0x3727c5ac, 4);
    put_text(&b, "bool"), put(&b, ORR_GGUF_BOOL, 4), put(&b, 1, 1);
    put_text(&b, "text"), put(&b, ORR_GGUF_TEXT, 4), put_text(&b, "words");
    put_text(&b, "u64"), put(&b, ORR_GGUF_U64, 4), put(&b, UINT64_MAX, 8);
    put_text(&b, "i64"), put(&b, ORR_GGUF_I64, 4), put(&b, UINT64_MAX, 8);
    put_text(&b, "f64"), put(&b, ORR_GGUF_F64, 4), put(&b, bits, 8);
    put_text(&b, "many"), put(&b, ORR_GGUF_ARRAY, 4), put(&b, ORR_GGUF_U16, 4), put(&b, 3, 8);
    put(&b, 7, 2), put(&b, 8, 2), put(&b, 9, 2);
    put_text(&b, "words"), put(&b, ORR_GGUF_ARRAY, 4), put(&b, ORR_GGUF_TEXT, 4), put(&b, 2, 8);
    put_text(&b, "one"), put_text(&b, "two");
    put_tensor(&b, "b", ORR_GGML_F32, 3, 2, 0);
    put_tensor(&b, "a", ORR_GGML_Q8_0, 32, 0, 32);
    put_data(&b, 32 + 34);
    return b;
}

static void values_of_all_types_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value;
    } want[] = {{"u8", "200"},         {"i8", "-56"},
                {"u16", "60000"},      {"i16", "-5536"},
                {"u32", "4000000000"}, {"i32", "-294967296"},
                {"f32", "1e-05"},      {"bool", "true"},
                {"text", "words"},     {"u64", "18446744073709551615"},
                {"i64", "-1"},         {"f64", "-0.1"}};
    const bytes b = good();
    orr_weights *w;
    orr_error err = {.text = ""};
    if (open_bytes(&b, &w, &err) != ORR_OK)
        fail_msg("%s", err.text);
    assert_true(w->gguf);
    assert_int_equal(w->n_metadata, 12);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_string_equal(orr_gguf_text(w, want[i].key), want[i].value);
    const orr_gguf_array *words = orr_gguf_array_find(w, "words");
    assert_int_equal(words->type, ORR_GGUF_TEXT);
    assert_int_equal(words->n, 2);
    assert_memory_equal(words->bytes, "\3\0\0\0\0\0\0\0one", 11);
    assert_int_equal(orr_gguf_array_find(w, "many")->n_bytes, 6);
    assert_null(orr_gguf_array_find(w, "u8"));
    const orr_weight *t = orr_weights_find(w, "b");
    assert_int_equal(t->dim[0], 2); /* outermost first here */
    assert_int_equal(t->dim[1], 3);
    assert_int_equal(((const uint8_t *)t->data)[5], 5);
    assert_int_equal(orr_weights_find(w, "a")->bytes, 34);
    assert_int_equal(((const uint8_t *)orr_weights_find(w, "a")->data)[0], 32);
    orr_weights_close(w);
}

static void a_file_cut_off_anywhere_is_told(void **state)
{
    (void)state;
    const bytes whole = good();
    for (size_t n = 0; n < whole.n; n++) {
        bytes b = whole;
        orr_weights *w = NULL;
        orr_error err = {.text = ""};
        b.n = n;
        const orr_status status = open_bytes(&b, &w, &err);
        if (status == ORR_OK)
            fail_msg("%zu of %zu bytes were enough", n, whole.n);
        assert_true(err.text[0] != '\0');
        assert_true(status == ORR_PARSE || status == ORR_INVALID || status == ORR_LIMIT);
    }
}

/* Whatever a byte is, the reader ends well. */
static void bytes_that_are_wrong_do_no_harm(void **state)
{
    (void)state;
    static const uint8_t wrong[] = {0, 1, 0x7f, 0x80, 0xff};
    const bytes whole = good();
    for (size_t i = 0; i < whole.n; i++) {
        for (size_t k = 0; k < sizeof wrong; k++) {
            bytes b = whole;
            orr_weights *w = NULL;
            orr_error err = {.text = ""};
            b.at[i] = wrong[k];
            if (open_bytes(&b, &w, &err) == ORR_OK)
                orr_weights_close(w);
            else
                assert_true(err.text[0] != '\0');
        }
    }
}

static void must_fail(const bytes *b, orr_status status, const char *says)
{
    orr_weights *w = NULL;
    orr_error err = {.text = ""};
    const orr_status got = open_bytes(b, &w, &err);
    if (got != status)
        fail_msg("%s: %s", orr_status_name(got), err.text);
    must_say(&err, says);
    assert_null(w);
}

static void versions_that_are_not_known_are_refused(void **state)
{
    (void)state;
    bytes b = header(2, 0, 0);
    orr_weights *w;
    assert_int_equal(open_bytes(&b, &w, NULL), ORR_OK);
    orr_weights_close(w);
    b = header(1, 0, 0);
    must_fail(&b, ORR_UNSUPPORTED, "GGUF version 1; 2 and 3 can be read");
    b = header(0x03000000, 0, 0);
    must_fail(&b, ORR_UNSUPPORTED, "big-endian");
    b = header(3, 0, 1);
    put_text(&b, "split.count"), put(&b, ORR_GGUF_U16, 4), put(&b, 3, 2);
    must_fail(&b, ORR_UNSUPPORTED, "one of 3 parts of a model");
}

static void faults_of_tensors_are_told(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        int64_t d0, d1;
        uint64_t offset;
        orr_status status;
        const char *says;
    } faults[] = {
        {14, 256, 0, 0, ORR_UNSUPPORTED, "tensor 'x' is Q6_K; F32, F16, BF16, Q8_0 and Q4_0"},
        {77, 32, 0, 0, ORR_UNSUPPORTED, "tensor 'x' has the type 77"},
        {ORR_GGML_Q8_0, 33, 0, 0, ORR_INVALID, "the shape (33) has no number of bytes in Q8_0"},
        {ORR_GGML_F32, INT64_MAX, 2, 0, ORR_INVALID, "has no number of bytes"},
        {ORR_GGML_F32, INT64_MAX / 32, 64, 0, ORR_INVALID, "has no number of bytes"},
        {ORR_GGML_F32, -1, 0, 0, ORR_INVALID, "has a dim of 18446744073709551615"},
        {ORR_GGML_F32, 8, 0, 31, ORR_INVALID, "begins at 31, no multiple of 32"},
        {ORR_GGML_F32, 8, 0, 64, ORR_INVALID, "reaches beyond the file's"},
        {ORR_GGML_F32, 8, 0, UINT64_MAX - 31, ORR_INVALID, "reaches beyond the file's"},
        {ORR_GGML_F32, 17, 0, 0, ORR_INVALID, "reaches beyond the file's"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        bytes b = header(3, 1, 0);
        put_tensor(&b, "x", faults[i].type, faults[i].d0, faults[i].d1, faults[i].offset);
        put_data(&b, 64);
        must_fail(&b, faults[i].status, faults[i].says);
    }
    bytes b = header(3, 2, 0);
    put_tensor(&b, "x", ORR_GGML_F32, 16, 0, 0);
    put_tensor(&b, "y", ORR_GGML_F32, 8, 0, 32);
    put_data(&b, 64);
    must_fail(&b, ORR_INVALID, "tensors 'x' and 'y' overlap");
    b = header(3, 2, 0);
    put_tensor(&b, "x", ORR_GGML_F32, 8, 0, 0);
    put_tensor(&b, "x", ORR_GGML_F32, 8, 0, 32);
    put_data(&b, 64);
    must_fail(&b, ORR_INVALID, "two tensors 'x'");
}

static void faults_of_keys_are_told(void **state)
{
    (void)state;
    bytes b = header(3, 0, 1);
    put_text(&b, "k"), put(&b, 13, 4), put(&b, 0, 8);
    must_fail(&b, ORR_INVALID, "'k' has the type 13");
    b = header(3, 0, 1);
    put_text(&b, "general.alignment"), put(&b, ORR_GGUF_U32, 4), put(&b, 24, 4);
    must_fail(&b, ORR_INVALID, "general.alignment '24' is no power of two");
    b = header(3, 0, 1);
    put_text(&b, "k"), put(&b, ORR_GGUF_ARRAY, 4), put(&b, ORR_GGUF_ARRAY, 4), put(&b, 1, 8);
    must_fail(&b, ORR_UNSUPPORTED, "'k' is an array of type 9");
    b = header(3, 0, 1);
    put_text(&b, "k"), put(&b, ORR_GGUF_ARRAY, 4), put(&b, ORR_GGUF_U8, 4), put(&b, UINT64_MAX, 8);
    must_fail(&b, ORR_PARSE, "more than the file has bytes");
    b = header(3, UINT64_MAX, 0);
    must_fail(&b, ORR_PARSE, "more than the file has room for");
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    const float numbers[] = {1, 2, 3, 4, 5, 6};
    const orr_weight tensors[] = {
        {.name = "x", .rank = 2, .dim = {2, 3}, .data = numbers, .bytes = sizeof numbers},
        {.name = "y", .rank = 1, .dim = {2}, .data = numbers + 1, .bytes = 8},
    };
    const orr_weight_source source = {.tensors = tensors, .n = 2};
    orr_gguf_metadata_writer keys = {0};
    orr_weights *w;
    assert_int_equal(orr_output_open_memory(&keys.out, NULL), ORR_OK);
    orr_gguf_put_text(&keys, "t", "text", 4);
    orr_gguf_put_u32(&keys, "u", 3000000000);
    orr_gguf_put_f32(&keys, "f", 0.5);
    orr_gguf_put_bool(&keys, "b", false);
    orr_gguf_put_array(&keys, "a", ORR_GGUF_TEXT, 1);
    orr_gguf_put_string(&keys, "word", 4);
    assert_int_equal(orr_gguf_write(&source, &keys, in_scratch("w.gguf"), NULL), ORR_OK);
    orr_output_close(keys.out);
    assert_int_equal(orr_weights_open(in_scratch("w.gguf"), &w, NULL), ORR_OK);
    assert_string_equal(orr_gguf_text(w, "t"), "text");
    assert_string_equal(orr_gguf_text(w, "u"), "3000000000");
    assert_string_equal(orr_gguf_text(w, "f"), "0.5");
    assert_string_equal(orr_gguf_text(w, "b"), "false");
    assert_int_equal(orr_gguf_array_find(w, "a")->n_bytes, 12);
    assert_memory_equal(orr_weights_find(w, "x")->data, numbers, sizeof numbers);
    assert_int_equal(orr_weights_find(w, "x")->dim[1], 3);
    assert_memory_equal(orr_weights_find(w, "y")->data, numbers + 1, 8);
    orr_weights_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_all_types_are_read),
        cmocka_unit_test(a_file_cut_off_anywhere_is_told),
        cmocka_unit_test(bytes_that_are_wrong_do_no_harm),
        cmocka_unit_test(versions_that_are_not_known_are_refused),
        cmocka_unit_test(faults_of_tensors_are_told),
        cmocka_unit_test(faults_of_keys_are_told),
        cmocka_unit_test(what_is_written_is_read),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
