/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "status_example.h"
#include "team/status/text.h"

/* The JSON of a status, to be closed. */
static orr_output *json_of(const orr_team_status *status, orr_text *ret)
{
    orr_output *out;
    orr_error err;
    assert_int_equal(orr_output_open_memory(&out, &err), ORR_OK);
    orr_team_status_json(status, out);
    assert_int_equal(orr_output_finish(out, &err), ORR_OK);
    ret->at = orr_output_memory(out, &ret->n);
    return out;
}

static void expect_back(const orr_team_status *status)
{
    orr_text json;
    orr_error err = {0};
    orr_team_status got;
    orr_output *out = json_of(status, &json);
    if (orr_team_status_read(json, &got, &err) != ORR_OK)
        fail_msg("%s", err.text);
    orr_output_close(out);
    assert_int_equal(got.state, status->state);
    assert_string_equal(got.why, status->why);
    assert_int_equal(got.epoch, status->epoch);
    assert_int_equal(got.step, status->step);
    assert_int_equal(got.contributors, status->contributors);
    assert_int_equal(got.replicas, status->replicas);
    assert_int_equal(got.epochs, status->epochs);
    assert_int_equal(got.commits, status->commits);
    assert_int_equal(got.retries, status->retries);
    assert_memory_equal(got.lost, status->lost, sizeof got.lost);
    assert_int_equal(got.recoveries, status->recoveries);
    assert_int_equal(got.recovery_last_ns, status->recovery_last_ns);
    assert_int_equal(got.recovery_max_ns, status->recovery_max_ns);
    assert_int_equal(got.recovery_sum_ns, status->recovery_sum_ns);
    assert_int_equal(got.step_ns, status->step_ns);
    assert_int_equal(got.n, status->n);
    for (uint32_t i = 0; i < got.n; i++) {
        const orr_member_status *a = &got.members[i], *b = &status->members[i];
        assert_string_equal(a->id.name, b->id.name);
        assert_int_equal(a->id.incarnation, b->id.incarnation);
        assert_int_equal(a->state, b->state);
        assert_int_equal(a->ranks, b->ranks);
        assert_int_equal(a->step, b->step);
        assert_int_equal(a->heard_ns, b->heard_ns);
        assert_int_equal(a->posted, b->posted);
        assert_int_equal(a->reduced, b->reduced);
        assert_int_equal(a->faults, b->faults);
    }
}

static void test_there_and_back(void **state)
{
    (void)state;
    orr_team_status s = status_example();
    expect_back(&s);
    s = (orr_team_status){.step = ORR_TEAM_NONE, .state = ORR_STATE_ENDED, .why = "all left"};
    expect_back(&s);
    /* As full as it can be, every text as long as it can be. */
    s.n = sizeof s.members / sizeof s.members[0];
    memset(s.why, 'w', sizeof s.why - 1);
    for (uint32_t i = 0; i < s.n; i++) {
        s.members[i] = (orr_member_status){.state = (uint8_t)(i % 4), .step = UINT64_MAX - 1 - i};
        memset(s.members[i].id.name, 'n', sizeof s.members[i].id.name - 1);
    }
    expect_back(&s);
}

/* Text that is not UTF-8 is repaired, which makes it longer than there is room for. */
static void test_repaired(void **state)
{
    (void)state;
    orr_text json;
    orr_error err = {0};
    orr_team_status s = status_example(), got;
    memset(s.members[0].id.name, '\xff', sizeof s.members[0].id.name - 1);
    orr_output *out = json_of(&s, &json);
    assert_int_equal(orr_team_status_read(json, &got, &err), ORR_OK);
    assert_int_equal(strlen(got.members[0].id.name), sizeof s.members[0].id.name - 1);
    orr_output_close(out);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "{}",
        "[]",
        "{\"schema\":\"orrery.team/2\"}",
        "{\"schema\":\"orrery.team/1\",\"state\":\"asleep\"}",
        "{\"schema\":\"orrery.team/1\",\"state\":1}",
        "{\"schema\":\"orrery.team/1\",\"epoch\":-1}",
        "{\"schema\":\"orrery.team/1\",\"epoch\":[]}",
        "{\"schema\":\"orrery.team/1\",\"epoch\":\"x\"}",
        "{\"schema\":\"orrery.team/1\",\"step_ns\":\"x\"}",
        "{\"schema\":\"orrery.team/1\",\"replicas\":4294967296}",
        "{\"schema\":\"orrery.team/1\",\"why\":{}}",
        "{\"schema\":\"orrery.team/1\",\"lost\":[]}",
        "{\"schema\":\"orrery.team/1\",\"members\":[7]}",
        "{\"schema\":\"orrery.team/1\",\"members\":[{\"state\":\"running\"}]}",
        "{\"schema\":\"orrery.team/1\"} 1",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        orr_error err = {0};
        orr_team_status got = {.epoch = 77};
        const orr_text text = {wrong[i], strlen(wrong[i])};
        assert_int_equal(orr_team_status_read(text, &got, &err), ORR_PARSE);
        assert_true(err.text[0] != '\0');
        assert_int_equal(got.epoch, 77);
    }
    /* What a later version adds does not matter. */
    static const char later[] =
        "{\"more\":[{\"a\":1}],\"lost\":{\"flood\":3,\"stall\":2},\"recoveries\":{\"min_ns\":1},"
        "\"members\":[{\"rack\":null}],\"schema\":\"orrery.team/1\"}";
    orr_error err = {0};
    orr_team_status got;
    assert_int_equal(orr_team_status_read((orr_text){later, sizeof later - 1}, &got, &err), ORR_OK);
    assert_int_equal(got.lost[ORR_LOST_STALL], 2);
    assert_int_equal(got.n, 1);
}

static void test_too_many_members(void **state)
{
    (void)state;
    orr_output *out;
    orr_error err = {0};
    orr_text json;
    orr_team_status got;
    assert_int_equal(orr_output_open_memory(&out, &err), ORR_OK);
    orr_output_text(out, "{\"schema\":\"orrery.team/1\",\"members\":[{}");
    for (int i = 0; i < 2 * ORR_TEAM_MAX_REPLICAS; i++)
        orr_output_text(out, ",{}");
    orr_output_text(out, "]}");
    assert_int_equal(orr_output_finish(out, &err), ORR_OK);
    json.at = orr_output_memory(out, &json.n);
    assert_int_equal(orr_team_status_read(json, &got, &err), ORR_PARSE);
    orr_output_close(out);
}

/* Cut off anywhere, or a byte changed: refused or read, never more. */
static void test_damaged(void **state)
{
    (void)state;
    const orr_team_status s = status_example();
    orr_text json;
    orr_team_status got;
    orr_output *out = json_of(&s, &json);
    char *bytes = test_malloc(json.n);
    for (size_t n = 0; n < json.n - 1; n++) {
        memcpy(bytes, json.at, n);
        assert_int_equal(orr_team_status_read((orr_text){bytes, n}, &got, NULL), ORR_PARSE);
    }
    memcpy(bytes, json.at, json.n);
    for (size_t i = 0; i < json.n; i++)
        for (int bit = 0; bit < 8; bit += 3) {
            bytes[i] ^= (char)(1 << bit);
            const orr_status status = orr_team_status_read((orr_text){bytes, json.n}, &got, NULL);
            assert_true(status == ORR_OK || status == ORR_PARSE);
            bytes[i] ^= (char)(1 << bit);
        }
    test_free(bytes);
    for (uint64_t n = 1;; n++) {
        orr_alloc_fail_from(n);
        const orr_status status = orr_team_status_read(json, &got, NULL);
        orr_alloc_fail_from(0);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_true(n < 50);
    }
    orr_output_close(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_repaired),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_too_many_members),
        cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
