/* SPDX-License-Identifier: Apache-2.0 */
#include "routes_text.h"

#include <stdio.h>

/* n rows of a request that all choose `cell` in the first layer, beside another request whose
 * choices change from row to row. */
static const char *rows(char *text, int n, const char *request, const char *cell)
{
    char *at = text + strlen(text);
    for (int i = 0; i < n; i++)
        at += sprintf(at, "%s,%s,5;1\nother,%d;99,%d;3\n", request, cell, i, 10 + i);
    return text;
}

static void long_runs_are_left_out(void **state)
{
    char text[4096] = "request,L1,L2\na,7;8,5;1\n";
    (void)state;
    const orr_routes *r = routes_of(rows(text, 15, "a", "3;4"), NULL);
    assert_int_equal(r->warm_up, 0);
    assert_int_equal(r->tokens, 31);
    strcpy(text, "request,L1,L2\na,7;8,5;1\n");
    r = routes_of(rows(text, 16, "a", "3;4"), NULL);
    assert_int_equal(r->warm_up, 16);
    assert_int_equal(r->tokens, 17);
    assert_int_equal(r->requests, 2);
    assert_choices(r, 0, 0, CHOICES(7, 8));
    for (int i = 0; i < 16; i++) {
        assert_choices(r, 0, (uint64_t)i + 1, CHOICES((uint16_t)i, 99));
        assert_choices(r, 1, (uint64_t)i + 1, CHOICES((uint16_t)(10 + i), 3));
        assert_int_equal(r->position[i + 1], i);
        assert_string_equal(r->request_name[r->request[i + 1]], "other");
    }
    orr_routes_options o;
    orr_routes_options_init(&o);
    o.keep_warm_up = true;
    r = routes_of(text, &o);
    assert_int_equal(r->warm_up, 0);
    assert_int_equal(r->tokens, 33);
}

/* Another order of the same experts is another choice: the router would have scored them so. */
static void runs_are_of_equal_rows(void **state)
{
    char text[4096] = "request,L1,L2\n";
    (void)state;
    rows(text, 10, "a", "3;4");
    rows(text, 10, "a", "4;3");
    assert_int_equal(routes_of(text, NULL)->warm_up, 0);
    strcpy(text, "request,L1,L2\n");
    rows(text, 10, "a", "3;4");
    rows(text, 10, "b", "3;4");
    assert_int_equal(routes_of(text, NULL)->warm_up, 0);
    strcpy(text, "request,L1,L2\n");
    rows(text, 10, "a", "3;260");
    rows(text, 10, "a", "3;4");
    assert_int_equal(routes_of(text, NULL)->warm_up, 0);
}

/* Requests that were nothing but warm-up are not there. */
static void requests_without_tokens_are_left_out(void **state)
{
    char text[4096] = "request,L1,L2\n";
    (void)state;
    const orr_routes *r = routes_of(rows(text, 20, "dummy", "300;301"), NULL);
    assert_int_equal(r->warm_up, 20);
    assert_int_equal(r->requests, 1);
    assert_string_equal(r->request_name[0], "other");
    for (uint64_t t = 0; t < r->tokens; t++)
        assert_int_equal(r->request[t], 0);
    assert_choices(r, 0, 3, CHOICES(3, 99));
    char all[4096] = "L1\n";
    for (int i = 0; i < 16; i++)
        strcat(all, "3\n");
    assert_refused(all, NULL, ORR_INVALID,
                   "routes: all 16 tokens are warm-up: runs of 16 tokens of a request that chose "
                   "the same experts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_runs_are_left_out),
        cmocka_unit_test(runs_are_of_equal_rows),
        cmocka_unit_test(requests_without_tokens_are_left_out),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
