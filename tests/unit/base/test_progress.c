/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pty.h>
#include <string.h>
#include <unistd.h>

#include "base/progress.h"

static const int64_t second_ns = 1000000000;

static void line_says_rate_and_rest(void **state)
{
    (void)state;
    char line[200];
    orr_progress p = {.what = "reading", .bytes = true};
    orr_progress_line(&p, 100 << 20, 400 << 20, 4 * second_ns, line, sizeof line);
    assert_string_equal(line, "reading  25 %  100 MiB of 400 MiB  25.0 MiB/s  0:12 left");
    orr_progress_line(&p, 100 << 20, 0, 4 * second_ns, line, sizeof line);
    assert_string_equal(line, "reading  100 MiB  25.0 MiB/s");
    p.bytes = false;
    orr_progress_line(&p, 1000, 8000000, second_ns, line, sizeof line);
    assert_string_equal(line, "reading   0 %  1.00 k of 8.00 M  1.00 k/s  2:13:19 left");
    orr_progress_line(&p, 0, 10, 0, line, sizeof line);
    assert_string_equal(line, "reading   0 %  0 of 10  0/s  0:00 left");
    orr_progress_line(&p, 0, 10, 0, line, 5);
    assert_string_equal(line, "read");
}

static size_t drain(int fd, char *out, size_t room)
{
    size_t n = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (n < room - 1 && poll(&p, 1, 50) == 1 && (p.revents & POLLIN) != 0) {
        const ssize_t got = read(fd, out + n, room - 1 - n);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    out[n] = '\0';
    return n;
}

static void terminal_sees_it_after_two_seconds(void **state)
{
    (void)state;
    int outer, inner;
    struct winsize size = {.ws_row = 24, .ws_col = 100};
    if (openpty(&outer, &inner, NULL, NULL, &size) != 0)
        skip();
    char text[4096];
    int64_t now = 5 * second_ns;
    const orr_clock clock = orr_clock_manual(&now);
    orr_progress p;
    orr_progress_init(&p, "reading", false, inner, false, &clock);
    now += 2 * second_ns - 1;
    orr_progress_update(&p, 10, 100);
    assert_int_equal(drain(outer, text, sizeof text), 0);
    now += 1;
    orr_progress_update(&p, 50, 100);
    orr_progress_update(&p, 51, 100);
    assert_true(drain(outer, text, sizeof text) > 0);
    assert_non_null(strstr(text, "50 %"));
    assert_null(strstr(text, "51 %"));
    orr_progress_done(&p);
    assert_true(drain(outer, text, sizeof text) > 0);
    assert_string_equal(text, "\r\033[K");

    orr_progress_init(&p, "reading", false, inner, true, &clock);
    now += 10 * second_ns;
    orr_progress_update(&p, 50, 100);
    orr_progress_done(&p);
    assert_int_equal(drain(outer, text, sizeof text), 0);
    close(outer);
    close(inner);
}

static void a_file_never_sees_it(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    char text[64];
    int64_t now = 0;
    const orr_clock clock = orr_clock_manual(&now);
    orr_progress p;
    orr_progress_init(&p, "reading", true, ends[1], false, &clock);
    now += 60 * second_ns;
    orr_progress_update(&p, 1, 2);
    orr_progress_done(&p);
    close(ends[1]);
    assert_int_equal(drain(ends[0], text, sizeof text), 0);
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_says_rate_and_rest),
        cmocka_unit_test(terminal_sees_it_after_two_seconds),
        cmocka_unit_test(a_file_never_sees_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
