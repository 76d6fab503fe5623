/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_PACKED_H
#define ORR_TESTS_PACKED_H

#include <string.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "files.h"
#include "io/stream/stream.h"
#include "io/stream/stream_test.h"

/* What holds for gzip and zstd alike. `pack` uses the library of the format itself. */
typedef struct packer {
    const char *name;
    size_t (*pack)(const void *bytes, size_t len, void *out, size_t room);
} packer;

enum { TEXT_BYTES = 200000, PACKED_ROOM = 400000 };

/* Half compressible, half not. */
static inline char *make_text(void)
{
    char *text = malloc(TEXT_BYTES);
    orr_random random = orr_random_of(11, 0);
    for (size_t i = 0; i < TEXT_BYTES; i++)
        text[i] = i % 1000 < 500 ? (char)('a' + i % 7) : (char)orr_random_u32(&random);
    return text;
}

static inline void check_members(const packer *p)
{
    char *text = make_text(), *packed = malloc(PACKED_ROOM);
    const size_t half = TEXT_BYTES / 2;
    size_t n = p->pack(text, half, packed, PACKED_ROOM);
    n += p->pack("", 0, packed + n, PACKED_ROOM - n);
    n += p->pack(text + half, TEXT_BYTES - half, packed + n, PACKED_ROOM - n);
    for (size_t step = 0; step < 5000; step = step * 4 + 1) {
        size_t got = 0;
        orr_stream_test_step(step);
        char *all = unpack(packed, n, false, &got, NULL);
        orr_stream_test_step(0);
        assert_non_null(all);
        assert_int_equal(got, TEXT_BYTES);
        assert_memory_equal(all, text, TEXT_BYTES);
        free(all);
    }
    free(packed);
    free(text);
}

static inline void check_file(const packer *p, void **state)
{
    char *text = make_text(), *packed = malloc(PACKED_ROOM);
    const size_t n = p->pack(text, TEXT_BYTES, packed, PACKED_ROOM);
    const char *path = in_folder(state, "packed");
    write_file(path, packed, n);
    size_t got = 0;
    char *all = read_all(path, &got, NULL);
    assert_non_null(all);
    assert_int_equal(got, TEXT_BYTES);
    assert_memory_equal(all, text, TEXT_BYTES);
    free(all);
    free(packed);
    free(text);
}

/* Cut at every byte of a small one: an error, or, tolerant, a prefix of the text. */
static inline void check_truncation(const packer *p)
{
    char packed[1000], text[300];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i * i % 23);
    const size_t n = p->pack(text, sizeof text, packed, sizeof packed);
    for (size_t cut = 4; cut < n; cut++) {
        char *exact = malloc(cut);
        memcpy(exact, packed, cut);
        orr_error err;
        size_t got;
        assert_null(unpack(exact, cut, false, &got, &err));
        assert_int_equal(err.status, ORR_PARSE);
        assert_true(err.byte_pos == cut);
        assert_non_null(strstr(err.text, "ends too early"));
        char *all = unpack(exact, cut, true, &got, &err);
        assert_non_null(all);
        assert_true(got <= sizeof text);
        assert_memory_equal(all, text, got);
        free(all);
        free(exact);
    }
}

/* Any byte changed: an error, or (a bit that means nothing) the very text; never a crash. */
static inline void check_corruption(const packer *p, size_t *ret_refused)
{
    char packed[1000], text[300];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i * i % 23);
    const size_t n = p->pack(text, sizeof text, packed, sizeof packed);
    *ret_refused = 0;
    for (size_t i = 4; i < n; i++) {
        for (int bit = 0; bit < 8; bit++) {
            packed[i] ^= (char)(1 << bit);
            orr_error err;
            size_t got;
            char *all = unpack(packed, n, false, &got, &err);
            if (all == NULL)
                ++*ret_refused;
            else
                assert_true(got == sizeof text && memcmp(all, text, got) == 0);
            free(all);
            packed[i] ^= (char)(1 << bit);
        }
    }
}

/* Much text in few bytes passes through a small window. */
static inline void check_bomb(const packer *p)
{
    enum { ZEROS = 64 << 20 };
    char *zeros = calloc(1, ZEROS), *packed = malloc(PACKED_ROOM);
    size_t n = p->pack(zeros, ZEROS, packed, PACKED_ROOM);
    free(zeros);
    orr_stream *stream;
    bool ended = false;
    uint64_t total = 0;
    assert_int_equal(orr_stream_open_memory(packed, n, &stream, NULL), ORR_OK);
    while (!ended) {
        const size_t got = orr_stream_window(stream).n;
        assert_true(got <= 1 << 20);
        total += got;
        orr_stream_consume(stream, got);
        assert_int_equal(orr_stream_fill(stream, &ended, NULL), ORR_OK);
    }
    assert_true(total == ZEROS);
    orr_stream_close(stream);
    free(packed);
}

#endif /* ORR_TESTS_PACKED_H */
