/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/closest.h"

static void closest_words(void **state)
{
    const char *const words[] = {"analyze", "convert", "diff", "info", "validate", "demo"};
    const struct {
        const char *word, *closest;
    } cases[] = {
        {"analyse", "analyze"}, {"anlayze", "analyze"}, {"convertt", "convert"},
        {"dif", "diff"},        {"inof", "info"},       {"valid", "validate"},
        {"demo", "demo"},       {"zzzzzzz", NULL},      {"", NULL},
    };
    char long_word[300];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *closest = orr_closest_match(cases[i].word, words, sizeof words / sizeof *words);
        if (cases[i].closest)
            assert_string_equal(closest, cases[i].closest);
        else
            assert_null(closest);
    }
    memset(long_word, 'a', sizeof long_word - 1);
    long_word[sizeof long_word - 1] = '\0';
    assert_null(orr_closest_match(long_word, words, sizeof words / sizeof *words));
    assert_null(orr_closest_match("info", NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(closest_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
