/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "status_example.h"
#include "team/status/text.h"

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(orr_team_state_name(ORR_STATE_HALTED), "halted");
    assert_string_equal(orr_team_state_name((orr_team_state)9), "unknown");
    assert_string_equal(orr_member_state_name(ORR_MEMBER_WAITING), "waiting");
    assert_string_equal(orr_member_state_name((orr_member_state)4), "unknown");
    assert_string_equal(orr_loss_cause_name(ORR_LOST_DIGEST), "digest");
    assert_string_equal(orr_loss_cause_name(ORR_LOSS_CAUSES), "unknown");
}

static void expect_json(const orr_team_status *status, const char *want)
{
    orr_output *out;
    orr_error err;
    size_t n;
    assert_int_equal(orr_output_open_memory(&out, &err), ORR_OK);
    orr_team_status_json(status, out);
    orr_output_write(out, "", 1);
    assert_int_equal(orr_output_finish(out, &err), ORR_OK);
    assert_string_equal(orr_output_memory(out, &n), want);
    assert_int_equal(n, strlen(want) + 1);
    orr_output_close(out);
}

static void test_json(void **state)
{
    (void)state;
    const orr_team_status running = status_example();
    expect_json(
        &running,
        "{\"schema\":\"orrery.team/1\",\"state\":\"running\",\"why\":\"\",\"epoch\":12,\"step\":3456,"
        "\"contributors\":2,\"replicas\":4,\"step_ns\":250000000,\"epochs\":5,\"commits\":3400,"
        "\"retries\":3,\"lost\":{\"death\":2,\"silence\":1,\"stall\":0,\"connection\":0,"
        "\"digest\":0},\"recoveries\":{\"count\":3,\"last_ns\":41000000,\"max_ns\":2100000001,"
        "\"sum_ns\":2200000000},\"members\":["
        "{\"name\":\"a\",\"incarnation\":\"7\",\"state\":\"contributor\",\"ranks\":2,\"step\":3456,"
        "\"heard_ns\":12345678,\"posted\":9,\"reduced\":8,\"faults\":1},"
        "{\"name\":\"b\\\\\\\"x\\n\",\"incarnation\":\"18446744073709551615\","
        "\"state\":\"contributor\",\"ranks\":2,\"step\":3456,\"heard_ns\":99,\"posted\":9,"
        "\"reduced\":9,\"faults\":0},"
        "{\"name\":\"a\",\"incarnation\":\"8\",\"state\":\"healing\",\"ranks\":2,\"step\":null,"
        "\"heard_ns\":0,\"posted\":0,\"reduced\":0,\"faults\":0}]}\n");
    const orr_team_status none = {.step = ORR_TEAM_NONE, .why = "waits for \"b\""};
    expect_json(
        &none,
        "{\"schema\":\"orrery.team/1\",\"state\":\"forming\",\"why\":\"waits for \\\"b\\\"\","
        "\"epoch\":0,\"step\":null,\"contributors\":0,\"replicas\":0,\"step_ns\":0,"
        "\"epochs\":0,\"commits\":0,\"retries\":0,\"lost\":{\"death\":0,\"silence\":0,"
        "\"stall\":0,\"connection\":0,\"digest\":0},\"recoveries\":{\"count\":0,"
        "\"last_ns\":0,\"max_ns\":0,\"sum_ns\":0},\"members\":[]}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
