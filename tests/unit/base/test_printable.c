/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <orrery/status.h>

#include "base/printable.h"

static void controls_become_question_marks(void **state)
{
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"", ""},
        {"plain name.json", "plain name.json"},
        {"gr\xC3\xBC\xC3\x9F \xE6\x97\xA5 \xF0\x9F\x99\x82",
         "gr\xC3\xBC\xC3\x9F \xE6\x97\xA5 \xF0\x9F\x99\x82"},
        {"a\x1b[31mb\n\tc\x7f", "a?[31mb??c?"},
        {"\xC2\x9B"
         "31m",
         "?31m"}, /* C1: CSI in one code point */
        {"\x9B"
         "31m \xE2\x82",
         "?31m ??"}, /* no UTF-8 */
        {"a\xE2\x80\xAE"
         "gnp.exe",
         "a?gnp.exe"},                                                /* U+202E */
        {"\xE2\x80\xAA\xE2\x80\xAB\xE2\x80\xAC\xE2\x80\xAD", "????"}, /* U+202A to U+202D */
        {"\xE2\x81\xA6\xE2\x81\xA7\xE2\x81\xA8\xE2\x81\xA9", "????"}, /* U+2066 to U+2069 */
        {"\xE2\x80\x8E\xE2\x80\x8F", "??"},                           /* U+200E, U+200F */
        {"\xE2\x80\x8D\xE2\x80\xAF\xE2\x81\xA5\xE2\x81\xAA",
         "\xE2\x80\x8D\xE2\x80\xAF\xE2\x81\xA5\xE2\x81\xAA"}, /* their neighbours */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", cases[i].text);
        orr_text_make_printable(text);
        assert_string_equal(text, cases[i].shown);
    }
}

/* What an error quotes is made harmless before anyone prints it. */
static void an_error_quotes_no_control(void **state)
{
    orr_error err;

    (void)state;
    (void)orr_fail(&err, ORR_INVALID, "no file %s", "a\x1b]0;x\x07 \xE2\x80\xAE\xE2\x81\xA6");
    assert_string_equal(err.text, "no file a?]0;x? ??");
    orr_error_prefix(&err, "\xE2\x80\x8F"
                           "b");
    assert_string_equal(err.text, "?b: no file a?]0;x? ??");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(controls_become_question_marks),
        cmocka_unit_test(an_error_quotes_no_control),
    };
    return cmocka_run_group_tests_name("printable", tests, NULL, NULL);
}
