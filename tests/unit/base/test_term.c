/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/term.h"

static void color_names(void **state)
{
    (void)state;
    orr_color color = ORR_COLOR_AUTO;
    assert_true(orr_color_from_name("always", &color));
    assert_int_equal(color, ORR_COLOR_ALWAYS);
    assert_true(orr_color_from_name("never", &color));
    assert_true(orr_color_from_name("auto", &color));
    assert_false(orr_color_from_name("sometimes", &color));
    assert_int_equal(color, ORR_COLOR_AUTO);
}

static void a_file_is_no_terminal(void **state)
{
    (void)state;
    const int fd = open("/dev/null", O_RDWR);
    assert_false(orr_term_is_tty(fd));
    assert_false(orr_term_use_color(ORR_COLOR_AUTO, fd));
    assert_true(orr_term_use_color(ORR_COLOR_ALWAYS, fd));
    setenv("COLUMNS", "123", 1);
    assert_int_equal(orr_term_width(fd), 123);
    setenv("COLUMNS", "-4", 1);
    assert_int_equal(orr_term_width(fd), 80);
    unsetenv("COLUMNS");
    assert_int_equal(orr_term_width(fd), 80);
    close(fd);
}

static void a_terminal_is_one(void **state)
{
    (void)state;
    int outer, inner;
    struct winsize size = {.ws_row = 24, .ws_col = 132};
    if (openpty(&outer, &inner, NULL, NULL, &size) != 0)
        skip();
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    assert_true(orr_term_is_tty(inner));
    assert_int_equal(orr_term_width(inner), 132);
    assert_true(orr_term_use_color(ORR_COLOR_AUTO, inner));
    assert_false(orr_term_use_color(ORR_COLOR_NEVER, inner));
    setenv("NO_COLOR", "", 1);
    assert_true(orr_term_use_color(ORR_COLOR_AUTO, inner));
    setenv("NO_COLOR", "1", 1);
    assert_false(orr_term_use_color(ORR_COLOR_AUTO, inner));
    unsetenv("NO_COLOR");
    setenv("TERM", "dumb", 1);
    assert_false(orr_term_use_color(ORR_COLOR_AUTO, inner));
    close(outer);
    close(inner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(color_names),
        cmocka_unit_test(a_file_is_no_terminal),
        cmocka_unit_test(a_terminal_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
