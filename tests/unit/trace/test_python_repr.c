/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h wants the four above first */
#include <cmocka.h>

#include "trace/chakra/python_repr.h"

/* What `python3 -c 'import json; print(json.loads(...))'` prints. */
static void prints_what_python_prints(void **state)
{
    (void)state;
    static const struct {
        const char *json, *python;
    } cases[] = {
        {"[[9,6,0,48,4,\"cuda:0\"],[-1,16]]", "[[9, 6, 0, 48, 4, 'cuda:0'], [-1, 16]]"},
        {"[true, false , null]", "[True, False, None]"},
        {"[]", "[]"},
        {"{\"a\":1}", "{'a': 1}"},
        {"[0.000000, 1.000000, -0.0, 0.1, 1e-05, 0.0001]", "[0.0, 1.0, -0.0, 0.1, 1e-05, 0.0001]"},
        {"[1e16, 1e15, 123456789012345680.0, 1.5e-7, 2.5e+100]",
         "[1e+16, 1000000000000000.0, 1.2345678901234568e+17, 1.5e-07, 2.5e+100]"},
        {"[0.30000000000000004, 3.141592653589793, 100.0]",
         "[0.30000000000000004, 3.141592653589793, 100.0]"},
        {"[12345678901234567890]", "[12345678901234567890]"},
        {"\"it's\"", "\"it's\""},
        {"\"say \\\"no\\\"\"", "'say \"no\"'"},
        {"\"both ' and \\\"\"", "'both \\' and \"'"},
        {"\"a\\\\b\\n\\t\\u0001\"", "'a\\\\b\\n\\t\\x01'"},
        {"\"\\u00e9\\ud83d\\ude00\"", "'\xc3\xa9\xf0\x9f\x98\x80'"},
        {"\"<None>\"", "'<None>'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_proto_buffer out = {0};
        orr_python_repr(&out, (orr_text){cases[i].json, strlen(cases[i].json)});
        orr_proto_put_raw(&out, "", 1);
        assert_false(out.failed);
        assert_string_equal((const char *)out.at, cases[i].python);
        orr_proto_buffer_done(&out);
    }
}

/* Back from Python, with blanks or without, and to Python again: the same. */
static void json_comes_back(void **state)
{
    (void)state;
    static const struct {
        const char *python, *json;
        bool blanks;
    } cases[] = {
        {"[[9, 6, 0, 48, 4, 'cuda:0'], [-1, 16]]", "[[9,6,0,48,4,\"cuda:0\"],[-1,16]]", false},
        {"[[9, 6], ['a, b: c']]", "[[9, 6], [\"a, b: c\"]]", true},
        {"[True, False, None, nan, inf]", "[true,false,null,NaN,Infinity]", false},
        {"{'a': 1e-05}", "{\"a\": 1e-05}", true},
        {"\"it's\"", "\"it's\"", false},
        {"'say \"no\"'", "\"say \\\"no\\\"\"", false},
        {"'both \\' and \"'", "\"both ' and \\\"\"", false},
        {"'a\\\\b\\n\\t\\x01'", "\"a\\\\b\\n\\t\\u0001\"", false},
        {"'None'", "\"None\"", false},
        {"", "", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_proto_buffer json = {0}, again = {0};
        orr_python_to_json(&json, (orr_text){cases[i].python, strlen(cases[i].python)},
                           cases[i].blanks);
        assert_int_equal(json.n, strlen(cases[i].json));
        if (json.n == 0)
            continue;
        assert_memory_equal(json.at, cases[i].json, json.n);
        orr_python_repr(&again, (orr_text){(const char *)json.at, json.n});
        assert_int_equal(again.n, strlen(cases[i].python));
        assert_memory_equal(again.at, cases[i].python, again.n);
        orr_proto_buffer_done(&json);
        orr_proto_buffer_done(&again);
    }
    static const char cut[] = "['a', 'b\\x1', \"c\\";
    for (size_t n = 0; n < sizeof cut; n++) {
        char *exact = malloc(n + 1); /* for the address sanitizer */
        orr_proto_buffer json = {0};
        assert_non_null(exact);
        memcpy(exact, cut, n);
        orr_python_to_json(&json, (orr_text){exact, n}, true);
        orr_proto_buffer_done(&json);
        free(exact);
    }
}

/* Text that is cut is printed as far as it goes, and never read behind its end. */
static void stops_at_the_end(void **state)
{
    (void)state;
    static const char text[] = "[\"a\\u12\", \"\\ud83d\\u\", 1.5, \"x\\";
    for (size_t n = 0; n < sizeof text; n++) {
        orr_proto_buffer out = {0};
        char copy[sizeof text];
        memcpy(copy, text, n);
        orr_python_repr(&out, (orr_text){copy, n});
        assert_true(out.n <= 4 * sizeof text);
        orr_proto_buffer_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prints_what_python_prints),
        cmocka_unit_test(json_comes_back),
        cmocka_unit_test(stops_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
