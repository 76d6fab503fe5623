/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "io/protobuf/wire.h"
#include "io/stream/stream_test.h"

/* Examples of the encoding guide of Protocol Buffers. */
static void known_bytes(void **state)
{
    (void)state;
    orr_proto_buffer b = {0};
    orr_proto_put_uint(&b, 1, 150);
    orr_proto_put_bytes(&b, 2, "testing", 7);
    const size_t mark = orr_proto_begin(&b, 3);
    orr_proto_put_uint(&b, 1, 150);
    orr_proto_end(&b, mark);
    orr_proto_put_sint(&b, 4, -2);
    orr_proto_put_fixed32(&b, 5, 0x01020304);
    orr_proto_put_fixed64(&b, 6, UINT64_C(0x0102030405060708));
    orr_proto_put_uint(&b, 7, (uint64_t)INT64_C(-2));
    static const uint8_t want[] = "\x08\x96\x01"
                                  "\x12\x07testing"
                                  "\x1a\x03\x08\x96\x01"
                                  "\x20\x03"
                                  "\x2d\x04\x03\x02\x01"
                                  "\x31\x08\x07\x06\x05\x04\x03\x02\x01"
                                  "\x38\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    assert_false(b.failed);
    assert_int_equal(b.n, sizeof want - 1);
    assert_memory_equal(b.at, want, b.n);

    orr_proto p = orr_proto_of(b.at, b.n);
    orr_proto_field f;
    static const orr_proto_wire wires[] = {ORR_PROTO_VARINT, ORR_PROTO_BYTES,   ORR_PROTO_BYTES,
                                           ORR_PROTO_VARINT, ORR_PROTO_FIXED32, ORR_PROTO_FIXED64,
                                           ORR_PROTO_VARINT};
    const uint8_t *at = b.at;
    for (uint32_t i = 0; i < 7; i++) {
        assert_true(orr_proto_next(&p, &f));
        assert_int_equal(f.number, i + 1);
        assert_int_equal(f.wire, wires[i]);
        assert_ptr_equal(f.raw, at);
        at += f.raw_len;
        if (i == 0)
            assert_int_equal(f.value, 150);
        if (i == 1)
            assert_memory_equal(f.bytes, "testing", f.len);
        if (i == 2) {
            orr_proto inner = orr_proto_of(f.bytes, f.len);
            assert_true(orr_proto_next(&inner, &f));
            assert_int_equal(f.value, 150);
            assert_false(orr_proto_next(&inner, &f));
            assert_false(inner.failed);
        }
        if (i == 3)
            assert_true(orr_proto_unzigzag(f.value) == -2);
        if (i == 4)
            assert_int_equal(f.value, 0x01020304);
        if (i == 5)
            assert_true(f.value == UINT64_C(0x0102030405060708));
        if (i == 6)
            assert_true((int64_t)f.value == -2);
    }
    assert_false(orr_proto_next(&p, &f));
    assert_false(p.failed);
    orr_proto_buffer_done(&b);
}

static void varints_and_zigzag(void **state)
{
    (void)state;
    static const int64_t signs[] = {0, -1, 1, -2, 2, INT64_MAX, INT64_MIN};
    static const uint64_t zigzags[] = {0, 1, 2, 3, 4, UINT64_MAX - 1, UINT64_MAX};
    for (int i = 0; i < 7; i++) {
        assert_true(orr_proto_zigzag(signs[i]) == zigzags[i]);
        assert_true(orr_proto_unzigzag(zigzags[i]) == signs[i]);
    }
    orr_proto_buffer b = {0};
    orr_random random = orr_random_of(9, 0);
    for (int i = 0; i < 10000; i++)
        orr_proto_put_varint(&b, orr_random_u64(&random) >> (i % 64));
    orr_proto p = orr_proto_of(b.at, b.n);
    random = orr_random_of(9, 0);
    for (int i = 0; i < 10000; i++) {
        uint64_t value;
        assert_true(orr_proto_varint(&p, &value));
        assert_true(value == orr_random_u64(&random) >> (i % 64));
    }
    uint64_t value = 77;
    assert_false(orr_proto_varint(&p, &value));
    assert_false(p.failed);
    orr_proto_buffer_done(&b);
}

static void broken_bytes_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = {
        {"\x08", 1},                                          /* no value */
        {"\x08\x80", 2},                                      /* varint cut */
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11}, /* over 64 bits */
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12},
        {"\x12\x05"
         "abc",
         5},                                                  /* shorter than it says */
        {"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11}, /* a length of 2^64 - 1 */
        {"\x11\x01\x02\x03", 4},                              /* fixed64 cut */
        {"\x15\x01\x02\x03", 4},                              /* fixed32 cut */
        {"\x0b\x0c", 2},                                      /* group */
        {"\x0e", 1},                                          /* wire type 6 */
        {"\x00\x01", 2},                                      /* field 0 */
        {"\x80\x80\x80\x80\x10\x01", 6},                      /* field 2^29 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t *exact = malloc(cases[i].len);
        memcpy(exact, cases[i].bytes, cases[i].len);
        orr_proto p = orr_proto_of(exact, cases[i].len);
        orr_proto_field f = {.number = 77};
        assert_false(orr_proto_next(&p, &f));
        assert_true(p.failed);
        assert_ptr_equal(p.at, exact);
        assert_int_equal(f.number, 77);
        assert_false(orr_proto_next(&p, &f));
        free(exact);
    }
    orr_proto empty = orr_proto_of(NULL, 0);
    orr_proto_field f;
    assert_false(orr_proto_next(&empty, &f));
    assert_false(empty.failed);
}

/* Messages around the lengths where the length of the length changes, in one another. */
static void nested_lengths(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,     1,     100,   122,   123,   124,   125,
                                   126,   127,   128,   129,   16000, 16379, 16380,
                                   16381, 16382, 16383, 16384, 16385, 70000};
    char *text = calloc(1, 70000);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        orr_proto_buffer b = {0};
        const size_t outer = orr_proto_begin(&b, 1);
        const size_t middle = orr_proto_begin(&b, 2);
        orr_proto_put_bytes(&b, 3, text, sizes[i]);
        orr_proto_end(&b, middle);
        orr_proto_put_uint(&b, 4, 42);
        orr_proto_end(&b, outer);
        orr_proto p = orr_proto_of(b.at, b.n);
        orr_proto_field f;
        assert_true(orr_proto_next(&p, &f));
        assert_int_equal(f.raw_len, b.n);
        p = orr_proto_of(f.bytes, f.len);
        assert_true(orr_proto_next(&p, &f));
        orr_proto inner = orr_proto_of(f.bytes, f.len);
        orr_proto_field g;
        assert_true(orr_proto_next(&inner, &g));
        assert_int_equal(g.len, sizes[i]);
        assert_ptr_equal(inner.at, inner.end);
        assert_true(orr_proto_next(&p, &f));
        assert_int_equal(f.value, 42);
        assert_ptr_equal(p.at, p.end);
        orr_proto_buffer_done(&b);
    }
    free(text);
}

static void messages_of_a_stream(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    orr_proto_buffer b = {0};
    uint8_t body[1000];
    for (size_t i = 0; i < COUNT; i++) {
        memset(body, (int)i, sizeof body);
        orr_proto_put_varint(&b, i * 5);
        orr_proto_put_raw(&b, body, i * 5);
    }
    for (size_t step = 0; step < 3000; step = step * 3 + 1) {
        orr_stream *stream;
        orr_stream_test_step(step);
        assert_int_equal(orr_stream_open_memory(b.at, b.n, &stream, NULL), ORR_OK);
        orr_stream_test_step(0);
        const uint8_t *bytes = NULL;
        size_t len = 0;
        bool ended = false;
        for (size_t i = 0; i < COUNT; i++) {
            assert_int_equal(orr_proto_read_message(stream, &bytes, &len, &ended, NULL), ORR_OK);
            assert_false(ended);
            assert_int_equal(len, i * 5);
            memset(body, (int)i, sizeof body);
            assert_memory_equal(bytes, body, len);
        }
        assert_int_equal(orr_proto_read_message(stream, &bytes, &len, &ended, NULL), ORR_OK);
        assert_true(ended);
        orr_stream_close(stream);
    }
    /* Cut inside the last message. */
    orr_stream *stream;
    orr_error err;
    assert_int_equal(orr_stream_open_memory(b.at, b.n - 1, &stream, NULL), ORR_OK);
    const uint8_t *bytes;
    size_t len;
    bool ended = false;
    orr_status status;
    do {
        status = orr_proto_read_message(stream, &bytes, &len, &ended, &err);
    } while (status == ORR_OK && !ended);
    assert_int_equal(status, ORR_PARSE);
    assert_non_null(strstr(err.text, "ends in the middle of a message"));
    assert_true(err.byte_pos == b.n - 1);
    orr_stream_close(stream);
    orr_proto_buffer_done(&b);
}

static void impossible_lengths(void **state)
{
    (void)state;
    static const char *const texts[] = {"\xff\xff\xff\xff\x7f", "\x80\x80\x80\x80\x08",
                                        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"};
    for (int i = 0; i < 3; i++) {
        orr_stream *stream;
        const uint8_t *bytes;
        size_t len;
        bool ended;
        orr_error err;
        assert_int_equal(orr_stream_open_memory(texts[i], strlen(texts[i]), &stream, NULL), ORR_OK);
        assert_int_equal(orr_proto_read_message(stream, &bytes, &len, &ended, &err), ORR_PARSE);
        assert_non_null(strstr(err.text, i < 2 ? "too long" : "not the length"));
        orr_stream_close(stream);
    }
}

static void out_of_memory_is_remembered(void **state)
{
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        orr_proto_buffer b = {0};
        char text[200] = {0};
        orr_alloc_fail_from(nth);
        const size_t mark = orr_proto_begin(&b, 1);
        for (int i = 0; i < 20; i++)
            orr_proto_put_bytes(&b, 2, text, sizeof text);
        orr_proto_end(&b, mark);
        orr_alloc_fail_from(0);
        const bool failed = b.failed;
        orr_proto_buffer_done(&b);
        assert_false(b.failed);
        if (!failed)
            break;
        assert_in_range(nth, 1, 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_bytes),
        cmocka_unit_test(varints_and_zigzag),
        cmocka_unit_test(broken_bytes_are_told),
        cmocka_unit_test(nested_lengths),
        cmocka_unit_test(messages_of_a_stream),
        cmocka_unit_test(impossible_lengths),
        cmocka_unit_test(out_of_memory_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
