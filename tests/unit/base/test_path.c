/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/path.h"

static void test_last(void **state)
{
    static const struct {
        const char *path, *last;
    } cases[] = {
        {"a.json", "a.json"},
        {"traces/a.json", "a.json"},
        {"/x/traces//", "traces"},
        {"traces/", "traces"},
        {"/", "/"},
        {"", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t len;
        const char *last = orr_path_basename(cases[i].path, &len);
        assert_int_equal(len, strlen(cases[i].last));
        assert_memory_equal(last, cases[i].last, len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_last)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
