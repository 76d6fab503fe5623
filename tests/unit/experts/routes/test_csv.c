/* SPDX-License-Identifier: Apache-2.0 */
#include "routes_text.h"

static const char TWO_LAYERS[] = "subject,request,phase,L1,token,rank,3\r\n"
                                 "\"a, \"\"b\"\" c\",7,p,3;17,0,1,255;256\r\n"
                                 "x,7,p,3-17,5,0,300 4\r\n"
                                 "\n"
                                 "\"a, \"\"b\"\" c\",7,d,\"5;4\",1,2,0007;4095";

static void columns_are_read(void **state)
{
    (void)state;
    const orr_routes *r = routes_of(TWO_LAYERS, NULL);
    assert_int_equal(r->tokens, 3);
    assert_int_equal(r->layers, 2);
    assert_int_equal(r->top_k, 2);
    assert_int_equal(r->experts, 4096);
    assert_int_equal(r->number[0], 1);
    assert_int_equal(r->number[1], 3);
    assert_choices(r, 0, 0, CHOICES(3, 17));
    assert_choices(r, 0, 1, CHOICES(3, 17));
    assert_choices(r, 0, 2, CHOICES(5, 4));
    assert_choices(r, 1, 0, CHOICES(255, 256));
    assert_choices(r, 1, 1, CHOICES(300, 4));
    assert_choices(r, 1, 2, CHOICES(7, 4095));
    assert_int_equal(r->phase[1], ORR_ROUTE_PREFILL);
    assert_int_equal(r->phase[2], ORR_ROUTE_DECODE);
    assert_int_equal(r->rank[2], 2);
    assert_int_equal(r->position[1], 5);
    assert_null(r->score);
    assert_string_equal(r->source, "routes");
}

/* Requests of different kinds may have the same name. */
static void requests_and_kinds_by_first_appearance(void **state)
{
    (void)state;
    const orr_routes *r = routes_of(TWO_LAYERS, NULL);
    assert_int_equal(r->requests, 2);
    assert_int_equal(r->kinds, 2);
    assert_int_equal(r->request[0], 0);
    assert_int_equal(r->request[1], 1);
    assert_int_equal(r->request[2], 0);
    assert_string_equal(r->request_name[1], "7");
    assert_string_equal(r->kind_name[0], "a, \"b\" c");
    assert_string_equal(r->kind_name[1], "x");
    assert_int_equal(r->kind[1], 1);
}

static void columns_that_are_absent(void **state)
{
    (void)state;
    const orr_routes *r = routes_of("\xef\xbb\xbflayer_9,request,L2\n1,a,2\n3,b,4\n5,a,6\n", NULL);
    assert_int_equal(r->tokens, 3);
    assert_int_equal(r->number[0], 2);
    assert_choices(r, 0, 1, CHOICES(4));
    assert_choices(r, 1, 1, CHOICES(3));
    assert_int_equal(r->kinds, 1);
    assert_string_equal(r->kind_name[0], "");
    assert_null(r->rank);
    assert_null(r->high);
    assert_int_equal(r->phase[0], ORR_ROUTE_PREFILL);
    assert_int_equal(r->position[1], 0);
    assert_int_equal(r->position[2], 1);
    assert_int_equal(routes_of("1\n3\n4\n", NULL)->requests, 1);
}

static void scores_beside_choices(void **state)
{
    (void)state;
    const orr_routes *r = routes_of("L1,S1,L2,S2\n1;2,0.5;0.25,3;4,1e-1;-2\n", NULL);
    assert_true(r->score[0][0] == 0.5F && r->score[0][1] == 0.25F);
    assert_true(r->score[1][0] == 0.1F && r->score[1][1] == -2);
}

static void what_is_asked_for(void **state)
{
    (void)state;
    orr_routes_options o;
    orr_routes_options_init(&o);
    o.experts = 5000;
    assert_int_equal(routes_of(TWO_LAYERS, &o)->experts, 5000);
    o.experts = 0;
    o.phase = ORR_ROUTE_DECODE;
    const orr_routes *r = routes_of(TWO_LAYERS, &o);
    assert_int_equal(r->tokens, 1);
    assert_choices(r, 0, 0, CHOICES(5, 4));
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *text;
        orr_status status;
        const char *message;
    } rows[] = {
        {"", ORR_PARSE, "routes: no rows"},
        {"L1\n", ORR_PARSE, "routes: no rows"},
        {"subject\na\n", ORR_PARSE,
         "routes:1:1: no column is a layer's, named by its number: 1 or L1"},
        {"L1,1\n1,2\n", ORR_PARSE, "routes:1:1: two columns of layer 1"},
        {"L1,S2\n1,2\n", ORR_PARSE, "routes:1:1: scores of layer 2, of which there is no column"},
        {"L1,L2,S2\n1,2,3\n", ORR_PARSE, "routes:1:1: 1 columns of scores, and 2 layers"},
        {"a,L1,L2\nx,1,2\ny,1,three\n", ORR_PARSE,
         "routes:3:5: 'three' is no expert: a whole number is needed"},
        {"L1\n1;;2\n", ORR_PARSE, "routes:2:3: '' is no expert: a whole number is needed"},
        {"L1\n1;2\n1;-2\n", ORR_PARSE, "routes:3:3: '' is no expert: a whole number is needed"},
        {"L1\n1.5\n", ORR_PARSE, "routes:2:1: '1.5' is no expert: a whole number is needed"},
        {"L1\n99999999999999999999999999\n", ORR_PARSE,
         "routes:2:1: '99999999999999999999999999' is no expert: a whole number is needed"},
        {"L1\n4096\n", ORR_LIMIT, "routes:2:1: '4096' is more than there can be: at most 4095"},
        {"L1,L2\n1\n", ORR_PARSE, "routes:2:1: 1 fields where the first line names 2"},
        {"L1\n1,2,3\n", ORR_PARSE, "routes:2:1: 3 fields where the first line names 1"},
        {"L1,L2\n1,\n", ORR_PARSE, "routes:2:3: '' is no expert: a whole number is needed"},
        {"L1\n1;2\n1\n", ORR_PARSE, "routes:3:1: 1 experts, where the first cell has 2"},
        {"L1,L2\n1;2,3;4;5\n", ORR_PARSE, "routes:2:5: 3 experts, where the first cell has 2"},
        {"L1,L2\n1;2,4;4\n", ORR_PARSE, "routes:2:7: expert 4 stands twice in a cell"},
        {"L1,S1\n1;2,0.5\n", ORR_PARSE, "routes:2:5: 1 scores of 2 experts"},
        {"L1,S1\n1,x\n", ORR_PARSE, "routes:2:3: 'x' is no score"},
        {"phase,L1\nq,1\n", ORR_PARSE, "routes:2:1: 'q' is no phase: p or d"},
        {"token,L1\n-1,1\n", ORR_PARSE, "routes:2:1: '-1' is no whole number below 4294967295"},
        {"L1,rank\n1,65535\n", ORR_PARSE, "routes:2:3: '65535' is no whole number below 65535"},
        {"\x80\x04\x95", ORR_UNSUPPORTED,
         "a Python pickle; routes are read as CSV or JSON lines, loads as CSV or JSON"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_refused(rows[i].text, NULL, rows[i].status, rows[i].message);
}

static void models_that_do_not_fit(void **state)
{
    orr_routes_options o;
    (void)state;
    orr_routes_options_init(&o);
    o.experts = 4;
    assert_refused("L1\n1;2\n3;4\n", &o, ORR_INVALID, "routes:3:3: expert 4, and the model has 4");
    assert_refused("L1\n0;1;2;3;3\n", &o, ORR_INVALID,
                   "routes:2:1: 5 experts a token, and the model has 4");
    o.phase = ORR_ROUTE_PREFILL;
    assert_refused("L1\n3\n", &o, ORR_PARSE,
                   "routes:1:1: phase 'p' is asked for, and there is no column of that name");
    assert_refused("phase,L1\nd,3\n", &o, ORR_PARSE, "routes: no rows of phase p");
}

static void lines_are_bounded(void **state)
{
    const size_t n = 3 << 20;
    char *text = malloc(n + 1);
    const orr_routes *routes;
    orr_error err = {0};
    (void)state;
    memset(text, 'x', n);
    assert_int_equal(read_routes(text, n, NULL, &routes, &err), ORR_LIMIT);
    for (size_t i = 0; i < n; i++)
        text[i] = i % 2 ? ',' : '1';
    assert_int_equal(read_routes(text, n, NULL, &routes, &err), ORR_LIMIT);
    free(text);
}

static bool stop(void *ctx, uint64_t bytes, uint64_t total)
{
    assert_true(bytes <= total || total == 0);
    return --*(int *)ctx > 0;
}

static void reading_is_stopped(void **state)
{
    enum { ROWS = 1 << 20 };
    int calls = 2;
    char *text = malloc(4 + 4 * ROWS);
    const orr_routes *routes;
    orr_error err = {0};
    orr_routes_options o;
    (void)state;
    orr_routes_options_init(&o);
    o.progress = stop;
    o.ctx = &calls;
    memcpy(text, "L01\n", 4);
    for (size_t i = 1; i <= ROWS; i++)
        memcpy(text + 4 * i, "007\n", 4);
    assert_int_equal(read_routes(text, 4 + 4 * ROWS, &o, &routes, &err), ORR_CANCELED);
    assert_int_equal(calls, 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_read),
        cmocka_unit_test(requests_and_kinds_by_first_appearance),
        cmocka_unit_test(columns_that_are_absent),
        cmocka_unit_test(scores_beside_choices),
        cmocka_unit_test(what_is_asked_for),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(models_that_do_not_fit),
        cmocka_unit_test(lines_are_bounded),
        cmocka_unit_test(reading_is_stopped),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
