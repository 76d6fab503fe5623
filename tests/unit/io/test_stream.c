/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "files.h"
#include "io/stream/stream.h"
#include "io/stream/stream_test.h"

static void memory_is_its_own_window(void **state)
{
    (void)state;
    char bytes[1000];
    memset(bytes, 'a', sizeof bytes);
    orr_stream *stream;
    bool ended;
    assert_int_equal(orr_stream_open_memory(bytes, sizeof bytes, &stream, NULL), ORR_OK);
    orr_window window = orr_stream_window(stream);
    assert_ptr_equal(window.bytes, bytes);
    assert_int_equal(window.n, sizeof bytes - 64);
    orr_stream_consume(stream, 900);
    assert_int_equal(orr_stream_fill(stream, &ended, NULL), ORR_OK);
    assert_false(ended);
    window = orr_stream_window(stream);
    assert_int_equal(window.n, 100);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(window.bytes[100 + i], 0);
    assert_int_equal(orr_stream_offset(stream), 900);
    assert_int_equal(orr_stream_fill(stream, &ended, NULL), ORR_OK);
    assert_true(ended);
    assert_int_equal(orr_stream_window(stream).n, 100);
    assert_int_equal(orr_stream_file_size(stream), 1000);
    orr_stream_close(stream);
    orr_stream_close(NULL);
}

static void short_memory(void **state)
{
    (void)state;
    for (size_t len = 0; len < 130; len++) {
        char *bytes = malloc(len + 1);
        memset(bytes, 'b', len);
        size_t n = 77;
        char *all = unpack(bytes, len, false, &n, NULL);
        assert_non_null(all);
        assert_int_equal(n, len);
        assert_memory_equal(all, bytes, len);
        free(all);
        free(bytes);
    }
}

static void file_in_small_windows(void **state)
{
    enum { LEN = 10000 };
    unsigned char bytes[LEN];
    for (size_t i = 0; i < LEN; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    bytes[0] = 'x';
    const char *path = in_folder(state, "plain");
    write_file(path, bytes, LEN);
    for (size_t step = 0; step < 200; step = step * 2 + 1) {
        orr_stream *stream;
        bool ended = false;
        size_t at = 0;
        orr_stream_test_step(step);
        assert_int_equal(orr_stream_open(path, &stream, NULL), ORR_OK);
        orr_stream_test_step(0);
        while (!ended) {
            const orr_window window = orr_stream_window(stream);
            const size_t take = window.n / 2 + (window.n == 1);
            assert_int_equal(orr_stream_offset(stream), at);
            assert_memory_equal(window.bytes, bytes + at, window.n);
            orr_stream_consume(stream, take);
            at += take;
            assert_int_equal(orr_stream_fill(stream, &ended, NULL), ORR_OK);
            const orr_window longer = orr_stream_window(stream);
            assert_true(ended ? longer.n == window.n - take : longer.n > window.n - take);
            for (size_t i = 0; i < 64; i++)
                assert_int_equal(longer.bytes[longer.n + i], 0);
        }
        assert_int_equal(at + orr_stream_window(stream).n, LEN);
        assert_int_equal(orr_stream_file_offset(stream), LEN);
        assert_int_equal(orr_stream_file_size(stream), LEN);
        orr_stream_close(stream);
    }
}

static void empty_file(void **state)
{
    const char *path = in_folder(state, "empty");
    write_file(path, "", 0);
    size_t n = 77;
    char *all = read_all(path, &n, NULL);
    assert_non_null(all);
    assert_int_equal(n, 0);
    free(all);
}

static void what_cannot_be_read(void **state)
{
    orr_error err;
    orr_stream *stream = NULL;
    assert_int_equal(orr_stream_open(in_folder(state, "absent"), &stream, &err), ORR_IO);
    assert_non_null(strstr(err.text, "No such file"));
    assert_int_equal(orr_stream_open(in_folder(state, ""), &stream, &err), ORR_IO);
    assert_non_null(strstr(err.text, "directory"));
    assert_null(stream);
}

static void limit_is_told(void **state)
{
    enum { LEN = 3 << 20 };
    char *bytes = calloc(1, LEN);
    memset(bytes, 'c', LEN);
    const char *path = in_folder(state, "long");
    write_file(path, bytes, LEN);
    orr_stream *stream;
    orr_error err;
    orr_status status;
    bool ended;
    assert_int_equal(orr_stream_open(path, &stream, &err), ORR_OK);
    orr_stream_set_limit(stream, 1 << 20);
    orr_stream_set_limit(stream, 0);
    do {
        status = orr_stream_fill(stream, &ended, &err);
    } while (status == ORR_OK && !ended);
    assert_int_equal(status, ORR_LIMIT);
    assert_non_null(strstr(err.text, "longer than the limit of 1048576 bytes"));
    orr_stream_consume(stream, orr_stream_window(stream).n);
    assert_int_equal(orr_stream_fill(stream, &ended, &err), ORR_OK);
    orr_stream_close(stream);
    free(bytes);
}

static void *write_slowly(void *arg)
{
    const int fd = *(int *)arg;
    for (int i = 0; i < 2000; i++)
        if (write(fd, "0123456789", (size_t)(i % 10 + 1)) < 0)
            break;
    close(fd);
    return NULL;
}

static void pipe_gives_what_it_has(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const int saved = dup(STDIN_FILENO);
    assert_true(dup2(ends[0], STDIN_FILENO) >= 0);
    close(ends[0]);
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, write_slowly, &ends[1]), 0);
    size_t n = 0;
    char *all = read_all("-", &n, NULL);
    pthread_join(writer, NULL);
    assert_true(dup2(saved, STDIN_FILENO) >= 0);
    close(saved);
    assert_non_null(all);
    assert_int_equal(n, 11000);
    assert_memory_equal(all, "001012", 6);
    free(all);
}

static void every_allocation_may_fail(void **state)
{
    char bytes[5000];
    memset(bytes, 'd', sizeof bytes);
    const char *path = in_folder(state, "plain");
    write_file(path, bytes, sizeof bytes);
    for (int memory = 0; memory < 2; memory++) {
        char *all = NULL;
        for (uint64_t nth = 1; all == NULL; nth++) {
            size_t n;
            orr_error err = {0};
            orr_stream_test_step(100);
            orr_alloc_fail_from(nth);
            all = memory ? unpack(bytes, sizeof bytes, false, &n, &err) : read_all(path, &n, &err);
            orr_alloc_fail_from(0);
            orr_stream_test_step(0);
            if (all == NULL)
                assert_int_equal(err.status, ORR_NO_MEMORY);
            assert_in_range(nth, 1, 50);
        }
        free(all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_its_own_window),
        cmocka_unit_test(short_memory),
        cmocka_unit_test_setup_teardown(file_in_small_windows, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(empty_file, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(what_cannot_be_read, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(limit_is_told, make_folder, remove_folder),
        cmocka_unit_test(pipe_gives_what_it_has),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
