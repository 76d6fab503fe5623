/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "status_example.h"
#include "team/status/text.h"

static char *text_of(const orr_team_status *status)
{
    orr_output *out;
    orr_error err;
    size_t n;
    assert_int_equal(orr_output_open_memory(&out, &err), ORR_OK);
    orr_team_status_prometheus(status, out);
    assert_int_equal(orr_output_finish(out, &err), ORR_OK);
    const char *at = orr_output_memory(out, &n);
    assert_null(memchr(at, '\0', n));
    char *text = calloc(n + 1, 1);
    memcpy(text, at, n);
    orr_output_close(out);
    return text;
}

/* [a-zA-Z_:][a-zA-Z0-9_:]*; a label's has no colon. */
static size_t name_length(const char *at)
{
    size_t n = 0;
    while (isalpha((unsigned char)at[n]) || at[n] == '_' || at[n] == ':' ||
           (n > 0 && isdigit((unsigned char)at[n])))
        n++;
    return n;
}

/* {name="value",...}: how long it is. Backslash, quote and newline stand escaped. */
static size_t labels_length(const char *at)
{
    const char *begin = at;
    assert_int_equal(*at++, '{');
    for (;;) {
        const size_t n = name_length(at);
        assert_true(n > 0);
        at += n;
        assert_memory_equal(at, "=\"", 2);
        for (at += 2; *at != '"'; at++) {
            assert_true(*at != '\n' && *at != '\0');
            if (*at == '\\') {
                at++;
                assert_true(*at == '\\' || *at == '"' || *at == 'n');
            }
        }
        at++;
        if (*at == '}')
            return (size_t)(at + 1 - begin);
        assert_int_equal(*at++, ',');
    }
}

typedef struct family {
    char name[96], type[16];
    size_t samples;
} family;

static bool has_suffix(const char *at, size_t n, const char *suffix)
{
    const size_t m = strlen(suffix);
    return n > m && memcmp(at + n - m, suffix, m) == 0;
}

/* One sample of the family that stands above it. */
static void check_sample(const char *line, family *f)
{
    const size_t n = name_length(line);
    size_t own = n;
    if (strcmp(f->type, "summary") == 0) {
        assert_true(has_suffix(line, n, "_sum") || has_suffix(line, n, "_count"));
        own = n - (has_suffix(line, n, "_sum") ? 4 : 6);
    }
    assert_int_equal(own, strlen(f->name));
    assert_memory_equal(line, f->name, own);
    if (strcmp(f->type, "counter") == 0)
        assert_true(has_suffix(line, n, "_total"));
    const char *value = line + n;
    if (*value == '{')
        value += labels_length(value);
    assert_int_equal(*value, ' ');
    char *end;
    (void)strtod(value + 1, &end);
    assert_true(end > value + 1);
    assert_int_equal(*end, '\0');
    f->samples++;
}

/* By the format's rules: lines that end, HELP and TYPE once a family and before its samples, no
 * sample twice. */
static void check_format(const char *text)
{
    static char copy[1 << 17];
    static const char *lines[4096];
    size_t n = 0;
    family f = {0};
    assert_true(strlen(text) < sizeof copy);
    (void)strncpy(copy, text, sizeof copy - 1);
    assert_int_equal(text[strlen(text) - 1], '\n');
    for (char *at = copy, *next; *at != '\0'; at = next) {
        next = strchr(at, '\n');
        *next++ = '\0';
        assert_true(n < 4096);
        lines[n] = at;
        if (strncmp(at, "# HELP ", 7) == 0) {
            f = (family){0};
            assert_int_equal(sscanf(at, "# HELP %95s %*s", f.name), 1);
            assert_true(strlen(at) > 8 + strlen(f.name));
            assert_null(strchr(at, '\\'));
        } else if (strncmp(at, "# TYPE ", 7) == 0) {
            char name[96];
            assert_int_equal(sscanf(at, "# TYPE %95s %15s", name, f.type), 2);
            assert_string_equal(name, f.name);
            assert_true(strcmp(f.type, "gauge") == 0 || strcmp(f.type, "counter") == 0 ||
                        strcmp(f.type, "summary") == 0);
            assert_int_equal(f.samples, 0);
        } else
            check_sample(at, &f);
        n++;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++) {
            const size_t m = strcspn(lines[i], " ");
            if (lines[i][0] == '#')
                assert_string_not_equal(lines[i], lines[k]);
            else if (lines[i][m] != '\0')
                assert_false(strncmp(lines[i], lines[k], m + 1) == 0);
        }
}

static void expect_line(const char *text, const char *line)
{
    const char *at = strstr(text, line);
    if (at == NULL || (at != text && at[-1] != '\n') || at[strlen(line)] != '\n')
        fail_msg("no line '%s'", line);
}

static void test_example(void **state)
{
    (void)state;
    const orr_team_status s = status_example();
    char *text = text_of(&s);
    check_format(text);
    expect_line(text, "# HELP orrery_team_commits_total Steps committed.");
    expect_line(text, "# TYPE orrery_team_commits_total counter");
    expect_line(text, "orrery_team_commits_total 3400");
    expect_line(text, "orrery_team_state{state=\"running\"} 1");
    expect_line(text, "orrery_team_state{state=\"halted\"} 0");
    expect_line(text, "orrery_team_members{state=\"contributor\"} 2");
    expect_line(text, "orrery_team_members{state=\"leaving\"} 0");
    expect_line(text, "orrery_team_epoch 12");
    expect_line(text, "orrery_team_committed_step 3456");
    expect_line(text, "orrery_team_losses_total{kind=\"death\"} 2");
    expect_line(text, "# TYPE orrery_team_recovery_seconds summary");
    expect_line(text, "orrery_team_recovery_seconds_sum 2.200000000");
    expect_line(text, "orrery_team_recovery_seconds_count 3");
    expect_line(text, "orrery_team_recovery_max_seconds 2.100000001");
    expect_line(text, "orrery_team_step_seconds 0.250000000");
    expect_line(text, "orrery_member_step{member=\"a\",incarnation=\"7\"} 3456");
    expect_line(text, "orrery_member_reduced_operations{member=\"b\\\\\\\"x\\n\","
                      "incarnation=\"18446744073709551615\"} 9");
    expect_line(text, "orrery_member_heard_seconds{member=\"a\",incarnation=\"7\"} 0.012345678");
    expect_line(text, "orrery_member_info{member=\"a\",incarnation=\"8\",ranks=\"2\","
                      "state=\"healing\"} 1");
    /* It has no state yet: no step, not a step of 2^64 - 1. */
    assert_null(strstr(text, "orrery_member_step{member=\"a\",incarnation=\"8\"}"));
    free(text);
}

static void test_extremes(void **state)
{
    (void)state;
    orr_team_status s = {.step = ORR_TEAM_NONE};
    char *text = text_of(&s);
    check_format(text);
    assert_null(strstr(text, "committed_step"));
    free(text);
    s.recovery_last_ns = INT64_MIN;
    s.recovery_max_ns = INT64_MAX;
    s.n = 6;
    for (uint32_t i = 0; i < s.n; i++)
        s.members[i].id.incarnation = i;
    memcpy(s.members[1].id.name, "\xff\\", 3);
    memcpy(s.members[2].id.name, "\xe2\x82", 3); /* cut off */
    memcpy(s.members[3].id.name, "\xe2\x82\xac\"", 5);
    memset(s.members[4].id.name, '"', sizeof s.members[4].id.name - 1);
    memset(s.members[5].id.name, '\n', sizeof s.members[5].id.name - 1);
    text = text_of(&s);
    check_format(text);
    expect_line(text, "orrery_team_recovery_last_seconds -9223372036.854775808");
    expect_line(text, "orrery_team_recovery_max_seconds 9223372036.854775807");
    expect_line(text,
                "orrery_member_posted_operations{member=\"\xef\xbf\xbd\\\\\",incarnation=\"1\"} 0");
    expect_line(
        text,
        "orrery_member_posted_operations{member=\"\xef\xbf\xbd\xef\xbf\xbd\",incarnation=\"2\"} 0");
    expect_line(text,
                "orrery_member_posted_operations{member=\"\xe2\x82\xac\\\"\",incarnation=\"3\"} 0");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
