/* SPDX-License-Identifier: Apache-2.0 */
#include "routes_text.h"

/* np.save() of uint8 [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 10], [11, 12]]]. */
#define NPY                                                                                           \
    "\"k05VTVBZAQB2AHsnZGVzY3InOiAnfHUxJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDMsIDIsIDIp"  \
    "LCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoBAgMEBQYHCAkKCww" \
    "=\""
/* The same of uint16 [[[300], [4]]]. */
#define NPY_WIDE                                                                                     \
    "\"k05VTVBZAQB2AHsnZGVzY3InOiAnPHUyJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDEsIDIsIDEp" \
    "LCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAosAQQA\""

/* vLLM from 0.22 on: all tokens but the last are in one array. */
static void responses_with_arrays_in_base64(void **state)
{
    (void)state;
    const orr_routes *r = routes_of(
        "{\"id\": \"cmpl-1\", \"choices\": [{\"index\": 0, \"text\": \"x\", \"routed_experts\": " NPY
        "}], \"usage\": {\"prompt_tokens\": 2, \"completion_tokens\": 2}, \"prompt_routed_experts\": "
        "null}\n",
        NULL);
    assert_int_equal(r->tokens, 3);
    assert_int_equal(r->layers, 2);
    assert_int_equal(r->top_k, 2);
    assert_choices(r, 0, 0, CHOICES(1, 2));
    assert_choices(r, 1, 0, CHOICES(3, 4));
    assert_choices(r, 1, 2, CHOICES(11, 12));
    assert_int_equal(r->phase[1], ORR_ROUTE_PREFILL);
    assert_int_equal(r->phase[2], ORR_ROUTE_DECODE);
    assert_int_equal(r->position[2], 2);
    assert_string_equal(r->request_name[0], "cmpl-1");
    r = routes_of("{\"routed_experts\": " NPY_WIDE "}", NULL);
    assert_choices(r, 0, 0, CHOICES(300));
    assert_choices(r, 1, 0, CHOICES(4));
    assert_string_equal(r->request_name[0], "0");
}

/* vLLM 0.21: prompts apart, lists; several answers of one prompt; cached tokens are -1. */
static void responses_with_lists(void **state)
{
    (void)state;
    const orr_routes *r = routes_of(
        "{\"request_id\": 7, \"kind\": \"code\", \"rank\": 3, \"outputs\": [{\"routed_experts\": "
        "[[[1,2]]]}, {\"routed_experts\": [[[3,4]],[[5 , 6]]]}], \"prompt_routed_experts\": "
        "[[[-1,-1]],[[7,8]]], \"layers\": [5]}",
        NULL);
    assert_int_equal(r->tokens, 4);
    assert_int_equal(r->number[0], 5);
    assert_int_equal(r->requests, 2);
    assert_string_equal(r->request_name[0], "7");
    assert_string_equal(r->request_name[1], "7/1");
    assert_string_equal(r->kind_name[r->kind[1]], "code");
    assert_choices(r, 0, 0, CHOICES(7, 8));
    assert_int_equal(r->position[0], 1);
    assert_int_equal(r->phase[0], ORR_ROUTE_PREFILL);
    assert_choices(r, 0, 1, CHOICES(1, 2));
    assert_int_equal(r->position[1], 2);
    assert_int_equal(r->phase[1], ORR_ROUTE_DECODE);
    assert_choices(r, 0, 3, CHOICES(5, 6));
    assert_int_equal(r->request[3], 1);
    assert_int_equal(r->rank[3], 3);
}

/* The prompt that answers share was computed once. */
static void answers_share_a_prompt(void **state)
{
    (void)state;
    const orr_routes *r = routes_of("{\"prompt_token_ids\": [5, 6], \"choices\": ["
                                    "{\"routed_experts\": [[[1]],[[2]],[[3]]]},"
                                    "{\"routed_experts\": [[[1]],[[2]],[[4]]]}]}",
                                    NULL);
    assert_int_equal(r->tokens, 4);
    assert_choices(r, 0, 3, CHOICES(4));
    assert_int_equal(r->position[3], 2);
    assert_int_equal(r->phase[3], ORR_ROUTE_DECODE);
}

/* SGLang's keys, with a shape beside the bytes; int32 [[[1, 2]], [[3, -1]]]. */
static void meta_info_and_described_bytes(void **state)
{
    (void)state;
    const orr_routes *r =
        routes_of("{\"text\": \"\", \"meta_info\": {\"id\": \"a\", \"prompt_tokens\": 1, "
                  "\"routed_experts\": {\"dtype\": \"int32\", \"shape\": [2, 1, 2], \"data\": "
                  "\"AQAAAAIAAAADAAAA/////w==\"}}}",
                  NULL);
    assert_int_equal(r->tokens, 1);
    assert_choices(r, 0, 0, CHOICES(1, 2));
    assert_string_equal(r->request_name[0], "a");
}

/* A line a token, as engines log that are patched to; and lines that go on with a request. */
static void lines_of_tokens(void **state)
{
    (void)state;
    const orr_routes *r =
        routes_of("{\"request\":\"a\",\"phase\":\"prefill\",\"experts\":[[1,2],[3,4]]}\n"
                  "{\"request\":\"b\",\"phase\":\"p\",\"token\":9,\"experts\":[[1,2],[3,4]]}\n"
                  "{\"request\":\"a\",\"phase\":\"decode\",\"experts\":[[5,6],[7,8]]}\n",
                  NULL);
    assert_int_equal(r->tokens, 3);
    assert_int_equal(r->requests, 2);
    assert_int_equal(r->position[1], 9);
    assert_int_equal(r->position[2], 1);
    assert_int_equal(r->phase[2], ORR_ROUTE_DECODE);
    assert_choices(r, 1, 2, CHOICES(7, 8));
    r = routes_of(" [{\"experts\": [[1]]}, {\"experts\": [[2]]}]", NULL);
    assert_int_equal(r->requests, 2);
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *text;
        orr_status status;
        const char *message;
    } rows[] = {
        {"{}", ORR_PARSE, "routes: no rows"},
        {"[3]", ORR_PARSE, "at byte 2: expected an object"},
        {"{\"experts\": [[1,2],[3]]}", ORR_PARSE,
         "at byte 12: lists of different lengths where (tokens, layers, K) is wanted"},
        {"{\"experts\": [1,2]}", ORR_PARSE,
         "at byte 12: lists of different lengths where (tokens, layers, K) is wanted"},
        {"{\"experts\": [[[[1]]]]}", ORR_PARSE,
         "at byte 12: lists of different lengths where (tokens, layers, K) is wanted"},
        {"{\"experts\": [[1.5]]}", ORR_PARSE, "at byte 12: an expert is no whole number"},
        {"{\"experts\": [[\"1\"]]}", ORR_PARSE, "at byte 12: '\"' in lists of experts"},
        {"{\"experts\": [[1,1]]}", ORR_PARSE, "at byte 20: expert 1 stands twice in a cell"},
        {"{\"experts\": [[4096]]}", ORR_LIMIT,
         "at byte 21: '4096' is more than there can be: at most 4095"},
        {"{\"experts\": [[1]]}{\"experts\": [[1,2]]}", ORR_PARSE,
         "at byte 38: 1 layers and 2 experts a token, where others have 1 and 1"},
        {"{\"experts\": [[1]], \"layers\": [1, 2]}", ORR_PARSE,
         "at byte 36: 2 numbers of 1 layers"},
        {"{\"experts\": \"AQAAAA==\"}", ORR_UNSUPPORTED,
         "experts in base64 without a shape: lists, .npy, or an object with shape, dtype and data "
         "are read"},
        {"{\"experts\": \"?\"}", ORR_PARSE, "at byte 12: experts are neither lists nor base64"},
        {"{\"experts\": {\"shape\": [1,1,2], \"dtype\": \"int32\", \"data\": \"AQAAAA==\"}}",
         ORR_PARSE, "at byte 12: 4 bytes for experts of shape (1, 1, 2)"},
        {"{\"phase\": \"x\"}", ORR_PARSE, "at byte 13: 'x' is no phase: p or d"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_refused(rows[i].text, NULL, rows[i].status, rows[i].message);
    orr_routes_options o;
    orr_routes_options_init(&o);
    o.experts = 4;
    assert_refused("{\"experts\": [[4]]}", &o, ORR_INVALID,
                   "at byte 18: expert 4, and the model has 4");
    assert_refused("{\"experts\": [[0,1,2,3,4]]}", &o, ORR_INVALID,
                   "at byte 26: 5 experts a token, and the model has 4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(responses_with_arrays_in_base64),
        cmocka_unit_test(responses_with_lists),
        cmocka_unit_test(answers_share_a_prompt),
        cmocka_unit_test(meta_info_and_described_bytes),
        cmocka_unit_test(lines_of_tokens),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
