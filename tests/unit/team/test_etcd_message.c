/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "team/store/etcd_message.h"

static orr_text text_of(const char *text)
{
    return (orr_text){text, strlen(text)};
}

static void expect_text(orr_output *out, const char *want)
{
    orr_error err;
    size_t n;
    assert_int_equal(orr_output_finish(out, &err), ORR_OK);
    const char *got = orr_output_memory(out, &n);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(got, want, n);
    orr_output_close(out);
}

static void test_requests(void **state)
{
    (void)state;
    orr_output *out;
    orr_error err;
    assert_int_equal(orr_output_open_memory(&out, &err), ORR_OK);
    orr_etcd_write_range(out, "foo");
    expect_text(out, "{\"key\":\"Zm9v\"}");
    assert_int_equal(orr_output_open_memory(&out, &err), ORR_OK);
    orr_etcd_write_compare_and_swap(out, "foo", UINT64_C(9007199254740993), "bar", 3);
    expect_text(out, "{\"compare\":[{\"key\":\"Zm9v\",\"target\":\"MOD\",\"result\":\"EQUAL\","
                     "\"mod_revision\":\"9007199254740993\"}],"
                     "\"success\":[{\"request_put\":{\"key\":\"Zm9v\",\"value\":\"YmFy\"}}],"
                     "\"failure\":[{\"request_range\":{\"key\":\"Zm9v\"}}]}");
}

static orr_status read_text(const char *text, orr_etcd_reply *ret, orr_etcd_value *value)
{
    orr_error err = {0};
    value->n = 0;
    const orr_status status = orr_etcd_read_reply(text_of(text), ret, value, &err);
    assert_true(status == ORR_OK || err.text[0] != '\0');
    return status;
}

/* As etcd 3.4.23 answers. */
#define HEADER                                                                                     \
    "\"header\":{\"cluster_id\":\"14841639068965178418\",\"member_id\":\"10276657743932975437\","  \
    "\"revision\":\"7\",\"raft_term\":\"2\"}"
#define KEY                                                                                        \
    "{\"key\":\"Zm9v\",\"create_revision\":\"2\",\"mod_revision\":\"5\",\"version\":\"3\","        \
    "\"value\":\"YmFy\"}"

static void test_replies(void **state)
{
    (void)state;
    orr_etcd_value value = {0};
    orr_etcd_reply reply;
    assert_int_equal(read_text("{" HEADER "}", &reply, &value), ORR_OK);
    assert_false(reply.found);
    assert_false(reply.swapped);
    assert_int_equal(reply.revision, 7);

    assert_int_equal(read_text("{" HEADER ",\"kvs\":[" KEY "],\"count\":\"1\"}", &reply, &value),
                     ORR_OK);
    assert_true(reply.found);
    assert_int_equal(reply.modified, 5);
    assert_int_equal(value.n, 3);
    assert_memory_equal(value.at, "bar", 3);

    assert_int_equal(read_text("{" HEADER ",\"succeeded\":true,\"responses\":[{\"response_put\":"
                               "{\"header\":{\"revision\":\"6\"}}}]}",
                               &reply, &value),
                     ORR_OK);
    assert_true(reply.swapped);
    assert_int_equal(reply.revision, 7);

    assert_int_equal(read_text("{" HEADER ",\"responses\":[{\"response_range\":{\"header\":"
                               "{\"revision\":\"6\"},\"kvs\":[" KEY "],\"count\":\"1\"}}]}",
                               &reply, &value),
                     ORR_OK);
    assert_false(reply.swapped);
    assert_true(reply.found);
    assert_int_equal(reply.modified, 5);
    /* An empty value is left out. */
    assert_int_equal(read_text("{" HEADER ",\"kvs\":[{\"mod_revision\":\"5\"}]}", &reply, &value),
                     ORR_OK);
    assert_true(reply.found);
    assert_int_equal(value.n, 0);
    orr_array_done(&value);
}

static void test_wrong_replies(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "{}",
        "[]",
        "null",
        "<html>",
        "{" HEADER,
        "{" HEADER "} {}",
        "{\"header\":{\"revision\":\"-1\"}}",
        "{\"header\":{\"revision\":\"x\"}}",
        "{\"header\":7}",
        "{" HEADER ",\"succeeded\":1}",
        "{" HEADER ",\"kvs\":{}}",
        "{" HEADER ",\"kvs\":[" KEY "," KEY "]}",
        "{" HEADER ",\"kvs\":[{\"mod_revision\":\"5\",\"value\":\"Y\"}]}",
        "{" HEADER ",\"kvs\":[{\"mod_revision\":\"5\",\"value\":[]}]}",
        "{" HEADER ",\"kvs\":[{\"value\":\"YmFy\"}]}",
        "{" HEADER ",\"kvs\":[{\"mod_revision\":\"99999999999999999999\"}]}",
    };
    orr_etcd_value value = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        orr_etcd_reply reply = {.revision = 99};
        assert_int_equal(read_text(wrong[i], &reply, &value), ORR_PARSE);
        assert_int_equal(reply.revision, 99);
    }
    /* Nor is one that is cut off anywhere. */
    static const char whole[] = "{" HEADER ",\"kvs\":[" KEY "],\"count\":\"1\"}";
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        orr_etcd_reply reply;
        value.n = 0;
        assert_int_equal(orr_etcd_read_reply((orr_text){whole, n}, &reply, &value, NULL),
                         ORR_PARSE);
    }
    orr_array_done(&value);
}

static void test_refusals(void **state)
{
    (void)state;
    char why[24];
    orr_etcd_read_refusal(
        text_of("{\"error\":\"etcdserver: no leader\",\"code\":14,\"message\":\"\"}"), why,
        sizeof why);
    assert_string_equal(why, "etcdserver: no leader");
    orr_etcd_read_refusal(text_of("404 page not found"), why, sizeof why);
    assert_string_equal(why, "404 page not found");
    orr_etcd_read_refusal(text_of("a sentence that is longer than there is room for"), why,
                          sizeof why);
    assert_string_equal(why, "a sentence that is long");
    orr_etcd_read_refusal((orr_text){"", 0}, why, sizeof why);
    assert_string_equal(why, "");
}

static void test_no_memory(void **state)
{
    (void)state;
    static const char whole[] = "{" HEADER ",\"kvs\":[" KEY "],\"count\":\"1\"}";
    for (uint64_t n = 1;; n++) {
        orr_etcd_value value = {0};
        orr_etcd_reply reply;
        orr_alloc_fail_from(n);
        const orr_status status = orr_etcd_read_reply(text_of(whole), &reply, &value, NULL);
        orr_alloc_fail_from(0);
        orr_array_done(&value);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_true(n < 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),      cmocka_unit_test(test_replies),
        cmocka_unit_test(test_wrong_replies), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
