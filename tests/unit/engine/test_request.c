/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/serve/request.h"

/* Requests to a server of tables, as JSON and as bytes. */

static const orr_embedding TABLES[] = {{.name = "t0", .rows = 10, .columns = 2},
                                       {.name = "user id", .rows = 1000, .columns = 3}};
static const orr_dlrm MODEL = {.dense_features = 2, .n_tables = 2, .tables = TABLES};
static const orr_ask_limits LIMITS = {.samples = 4, .lookups = 6};

static orr_status json(orr_ask_kind kind, const char *text, orr_ask *ask, orr_error *err)
{
    *err = (orr_error){0};
    return orr_ask_read_json(kind, text, strlen(text), &MODEL, &LIMITS, ask, err);
}

static void samples_are_turned_to_tables(void **state)
{
    (void)state;
    static const int64_t ids[] = {3, 9, 1, 2, 999};
    static const int32_t lengths[] = {1, 0, 1, 2, 1, 0};
    static const float dense[] = {.5F, 1, -1, 0, 2, 3};
    orr_ask ask = {0};
    orr_error err;
    assert_int_equal(
        json(
            ORR_ASK_SCORE,
            "{\"samples\": [{\"dense\": [0.5, 1], \"ids\": [[3], [1, 2]]},"
            "{\"ids\": [[], [999]], \"dense\": [-1, 0]}, {\"dense\": [2, 3], \"ids\": [[9], []]}]}",
            &ask, &err),
        ORR_OK);
    assert_int_equal(ask.samples, 3);
    assert_int_equal(ask.ids.n, 5);
    assert_memory_equal(ask.ids.at, ids, sizeof ids);
    assert_memory_equal(ask.lengths.at, lengths, sizeof lengths);
    assert_memory_equal(ask.dense.at, dense, sizeof dense);
    orr_ask_done(&ask);
}

static void lookups_have_places_in_the_answer(void **state)
{
    (void)state;
    orr_ask ask = {0};
    orr_error err;
    orr_row_bags bags[2];
    float values[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    orr_output *out;
    size_t n;
    assert_int_equal(json(ORR_ASK_BAGS,
                          "{\"lookups\": [{\"table\": \"user id\", \"ids\": [[1, 1], [2]]},"
                          "{\"ids\": [[], [9]], \"table\": \"t0\"}]}",
                          &ask, &err),
                     ORR_OK);
    orr_ask_bags(&ask, &MODEL, values, bags);
    assert_true(bags[0].table == 1 && bags[1].table == 0);
    assert_true(bags[0].ret_stride == 5 && bags[1].ret == values + 3);
    assert_true(bags[0].ids[2] == 2 && bags[1].ids[0] == 9 && bags[1].lengths[1] == 1);
    assert_int_equal(orr_answer_header_of(&ask, &MODEL).bytes, 40);
    assert_int_equal(orr_output_open_memory(&out, NULL), ORR_OK);
    orr_answer_json(&ask, &MODEL, values, out);
    assert_int_equal(orr_output_finish(out, NULL), ORR_OK);
    assert_string_equal(orr_output_memory(out, &n),
                        "{\"embeddings\":[{\"table\":\"user id\",\"values\":[[1,2,3],[6,7,8]]},"
                        "{\"table\":\"t0\",\"values\":[[4,5],[9,10]]}]}\n");
    orr_output_close(out);
    orr_ask_done(&ask);
}

static void what_is_wrong_is_told(void **state)
{
    (void)state;
    static const struct {
        uint8_t kind;
        const char *text;
        orr_status status;
        const char *why;
    } cases[] = {
        {ORR_ASK_SCORE, "", ORR_PARSE, "no body"},
        {ORR_ASK_SCORE, "[]", ORR_PARSE, "byte"},
        {ORR_ASK_SCORE, "{}", ORR_PARSE, "lacks \"samples\""},
        {ORR_ASK_SCORE, "{\"samples\": [{\"dense\": [1], \"ids\": [[1], [1]]}]}", ORR_PARSE,
         "1 numbers, and there should be 2"},
        {ORR_ASK_SCORE, "{\"samples\": [{\"dense\": [1, 2, 3], \"ids\": [[1], [1]]}]}", ORR_PARSE,
         "more numbers"},
        {ORR_ASK_SCORE, "{\"samples\": [{\"dense\": [1, 2], \"ids\": [[1]]}]}", ORR_PARSE,
         "fewer tables"},
        {ORR_ASK_SCORE, "{\"samples\": [{\"dense\": [1, 2], \"ids\": [[1], [1], [1]]}]}", ORR_PARSE,
         "more tables"},
        {ORR_ASK_SCORE, "{\"samples\": [{\"dense\": [1, 2]}]}", ORR_PARSE, "lacks"},
        {ORR_ASK_SCORE, "{\"samples\": [{\"dense\": [1e99, 2], \"ids\": [[1], [1]]}]}", ORR_INVALID,
         "number 0 is not finite"},
        {ORR_ASK_BAGS, "{\"lookups\": []}", ORR_INVALID, "no lookups"},
        {ORR_ASK_BAGS, "{\"lookups\": [{\"table\": \"t1\", \"ids\": []}]}", ORR_INVALID,
         "there is no table 't1'"},
        {ORR_ASK_BAGS, "{\"lookups\": [{\"table\": \"t0\", \"ids\": [[1.5]]}]}", ORR_PARSE,
         "no whole number"},
        {ORR_ASK_BAGS, "{\"lookups\": [{\"table\": \"t0\", \"ids\": [[3], [10]]}]}", ORR_INVALID,
         "table t0, sample 1: id 10 of 10 rows"},
        {ORR_ASK_BAGS, "{\"lookups\": [{\"table\": \"t0\", \"ids\": [[-1]]}]}", ORR_INVALID,
         "id -1 of"},
        {ORR_ASK_BAGS, "{\"lookups\": [{\"table\": \"t0\", \"ids\": [[],[],[],[],[]]}]}", ORR_LIMIT,
         "5 samples, of 4 at most"},
        {ORR_ASK_BAGS, "{\"lookups\": [{\"table\": \"t0\", \"ids\": [[1,1,1,1,1,1,1]]}]}",
         ORR_LIMIT, "7 lookups, of 6 at most"},
        {ORR_ASK_BAGS, "{\"lookups\": [{\"table\": \"t0\", \"ids\": [[1]]}]} x", ORR_PARSE, "byte"},
        {ORR_ASK_UPDATE, "{\"table\": \"t0\", \"rows\": [1, 2], \"values\": [[1, 2]]}", ORR_PARSE,
         "fewer values"},
        {ORR_ASK_UPDATE, "{\"rows\": [1], \"table\": \"t0\", \"values\": [[1, 2]]}", ORR_PARSE,
         "in this order"},
        {ORR_ASK_UPDATE, "{\"table\": \"t0\", \"rows\": [10], \"values\": [[1, 2]]}", ORR_INVALID,
         "row 10 of 10"},
    };
    orr_ask ask = {0};
    orr_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (json((orr_ask_kind)cases[i].kind, cases[i].text, &ask, &err) != cases[i].status ||
            strstr(err.text, cases[i].why) == NULL)
            fail_msg("%s: %s", cases[i].text, err.text);
    orr_ask_done(&ask);
}

/* Every length of a whole message but its own is refused, and so are its fields out of range. */
static void messages_are_whole(void **state)
{
    (void)state;
    struct {
        orr_ask_header head;
        int64_t ids[3];
        uint32_t table;
        int32_t lengths[2];
    } m = {{ORR_ASK_MAGIC, ORR_ASK_BAGS, 2, 1, 3}, {1, 2, 999}, 1, {2, 1}}, wrong;
    enum { BYTES = sizeof(orr_ask_header) + 24 + 4 + 8 };
    orr_ask ask = {0};
    orr_error err;
    for (size_t n = 0; n < BYTES + 1; n++)
        assert_int_equal(orr_ask_read_binary(&m, n, &MODEL, &LIMITS, &ask, &err),
                         n == BYTES ? ORR_OK : ORR_PARSE);
    assert_int_equal(orr_ask_read_binary(&m, BYTES, &MODEL, &LIMITS, &ask, &err), ORR_OK);
    assert_true(ask.samples == 2 && ask.ids.at[2] == 999 && ask.lists.at[0] == 1);
#define REFUSED(field, value, status)                                                              \
    (wrong = m, wrong.field = (value),                                                             \
     assert_int_equal(orr_ask_read_binary(&wrong, BYTES, &MODEL, &LIMITS, &ask, &err), status))
    REFUSED(head.magic, 0, ORR_PARSE);
    REFUSED(head.kind, ORR_ASK_KINDS, ORR_PARSE);
    REFUSED(head.samples, UINT32_MAX, ORR_LIMIT);
    REFUSED(head.n_ids, UINT64_MAX, ORR_LIMIT);
    REFUSED(head.lists, 0, ORR_INVALID);
    REFUSED(head.lists, UINT32_MAX, ORR_INVALID);
    REFUSED(table, 2, ORR_INVALID);
    REFUSED(lengths[0], -1, ORR_INVALID);
    REFUSED(lengths[1], 2, ORR_INVALID);
    REFUSED(ids[0], 1000, ORR_INVALID);
    orr_ask_done(&ask);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_turned_to_tables),
        cmocka_unit_test(lookups_have_places_in_the_answer),
        cmocka_unit_test(what_is_wrong_is_told),
        cmocka_unit_test(messages_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
