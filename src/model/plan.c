/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/plan.h>

#include <stdio.h>
#include <string.h>

#include "model/plan.h"

#define NAME_FUNCTION(function, type, MAP, ROW)                                   \
    const char *function(type value)                                              \
    {                                                                             \
        static const char *const names[] = {MAP(ROW)};                            \
        return (size_t)value < sizeof names / sizeof *names ? names[value] : "?"; \
    }
#define TEXT_ROW(name, text) text,
NAME_FUNCTION(orr_schedule_name, orr_schedule, ORR_SCHEDULE_MAP, TEXT_ROW)

static const struct {
    const char *name, *about;
    size_t      offset;
} fields[] = {
#define FIELD_ROW(name, text) {#name, text, offsetof(orr_plan, name)},
    ORR_PLAN_MAP(FIELD_ROW)
#undef FIELD_ROW
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

uint32_t *orr_plan_field(orr_plan *plan, uint32_t i)
{
    return i < N_FIELDS ? (uint32_t *)(void *)((char *)plan + fields[i].offset) : NULL;
}

const char *orr_plan_field_name(uint32_t i)
{
    return fields[i].name;
}

const char *orr_plan_field_about(uint32_t i)
{
    return fields[i].about;
}

/* Letters that differ when one word is laid over the other: a measure that is good enough to guess
 * which of a dozen words was meant. */
static size_t distance(const char *word, const char *text, size_t len)
{
    const size_t n = strlen(word), most = n > len ? n : len;
    size_t same = 0;
    for (size_t i = 0, k = 0; i < n && k < len; k++)
        if (word[i] == text[k]) {
            same++;
            i++;
        }
    return most - same;
}

static orr_status unknown_field(const char *text, size_t len, orr_error *err)
{
    const char *best = "schedule";
    size_t least = distance(best, text, len);
    for (size_t i = 0; i < N_FIELDS; i++) {
        const size_t d = distance(fields[i].name, text, len);
        if (d < least) {
            least = d;
            best = fields[i].name;
        }
    }
    return orr_fail(err, ORR_INVALID, "a plan has no '%.*s'; did you mean '%s'?", (int)len, text,
                    best);
}

/* "4", "4k", "1M". False: no such number, or none that fits. */
static bool read_count(const char *at, size_t len, uint32_t *ret)
{
    uint64_t value = 0;
    size_t i = 0;
    for (; i < len && at[i] >= '0' && at[i] <= '9' && value <= UINT32_MAX; i++)
        value = value * 10 + (uint64_t)(at[i] - '0');
    if (i > 0 && i + 1 == len && (at[i] == 'k' || at[i] == 'K' || at[i] == 'M')) {
        value *= at[i] == 'M' ? 1024 * 1024 : 1024;
        i++;
    }
    *ret = (uint32_t)value;
    return i > 0 && i == len && value > 0 && value < UINT32_MAX;
}

static orr_status read_schedule(const char *at, size_t len, orr_plan *plan, orr_error *err)
{
    if (plan->schedule != ORR_SCHEDULE_UNKNOWN)
        return orr_fail(err, ORR_INVALID, "'schedule' is given twice");
    for (uint8_t s = ORR_SCHEDULE_1F1B; s <= ORR_SCHEDULE_GPIPE; s++)
        if (strlen(orr_schedule_name(s)) == len && memcmp(orr_schedule_name(s), at, len) == 0) {
            plan->schedule = s;
            return ORR_OK;
        }
    return orr_fail(err, ORR_INVALID, "schedule '%.*s' is neither 1f1b nor gpipe", (int)len, at);
}

static orr_status read_field(const char *at, size_t len, orr_plan *plan, orr_error *err)
{
    const char *equals = memchr(at, '=', len);
    if (equals == NULL)
        return orr_fail(err, ORR_INVALID, "'%.*s' is no field of a plan; write dp=4,tp=2",
                        (int)len, at);
    const size_t name_len = (size_t)(equals - at), value_len = len - name_len - 1;
    if (name_len == 8 && memcmp(at, "schedule", 8) == 0)
        return read_schedule(equals + 1, value_len, plan, err);
    for (uint32_t i = 0; i < N_FIELDS; i++) {
        if (strlen(fields[i].name) != name_len || memcmp(fields[i].name, at, name_len) != 0)
            continue;
        uint32_t *field = orr_plan_field(plan, i);
        if (*field != 0)
            return orr_fail(err, ORR_INVALID, "'%s' is given twice", fields[i].name);
        if (!read_count(equals + 1, value_len, field))
            return orr_fail(err, ORR_INVALID, "%s=%.*s: %s are a number above 0", fields[i].name,
                            (int)value_len, equals + 1, fields[i].about);
        return ORR_OK;
    }
    return unknown_field(at, name_len, err);
}

orr_status orr_plan_parse(const char *text, orr_plan *ret, orr_error *err)
{
    orr_plan plan = {0};
    for (const char *at = text; *at != '\0';) {
        const size_t len = strcspn(at, ",");
        if (len > 0)
            ORR_TRY(read_field(at, len, &plan, err));
        at += len + (at[len] == ',');
    }
    *ret = plan;
    return ORR_OK;
}

const char *orr_plan_text(const orr_plan *plan, orr_arena *arena)
{
    char text[400];
    size_t n = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < N_FIELDS; i++) {
        orr_plan copy = *plan;
        const uint32_t value = *orr_plan_field(&copy, i);
        if (value != 0)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s=%u", n > 0 ? "," : "",
                                  fields[i].name, value);
    }
    if (plan->schedule != ORR_SCHEDULE_UNKNOWN)
        n += (size_t)snprintf(text + n, sizeof text - n, "%sschedule=%s", n > 0 ? "," : "",
                              orr_schedule_name((orr_schedule)plan->schedule));
    return orr_arena_strndup(arena, text, n);
}

orr_plan orr_plan_changed(const orr_plan *from, const orr_plan *change)
{
    orr_plan plan = *from, copy = *change;
    for (uint32_t i = 0; i < N_FIELDS; i++)
        if (*orr_plan_field(&copy, i) != 0)
            *orr_plan_field(&plan, i) = *orr_plan_field(&copy, i);
    if (change->schedule != ORR_SCHEDULE_UNKNOWN)
        plan.schedule = change->schedule;
    return plan;
}

uint64_t orr_plan_ranks(const orr_plan *plan)
{
    const uint64_t dp = plan->dp ? plan->dp : 1, tp = plan->tp ? plan->tp : 1,
                   pp = plan->pp ? plan->pp : 1;
    uint64_t ranks;
    if (__builtin_mul_overflow(dp * tp, pp, &ranks))
        return UINT64_MAX;
    return ranks;
}

static orr_status must_divide(uint32_t what, const char *of, uint32_t by, const char *into,
                              orr_error *err)
{
    if (what == 0 || by == 0 || what % by == 0)
        return ORR_OK;
    return orr_fail(err, ORR_INVALID, "%u %s do not divide into %u %s", what, of, by, into);
}

orr_status orr_plan_check(const orr_plan *plan, orr_error *err)
{
    ORR_TRY(must_divide(plan->layers, "layers", plan->pp, "pipeline stages", err));
    ORR_TRY(must_divide(plan->heads, "attention heads", plan->tp, "tensor-parallel slices", err));
    ORR_TRY(must_divide(plan->ffn, "columns of the feed-forward part", plan->tp,
                        "tensor-parallel slices", err));
    ORR_TRY(must_divide(plan->vocab, "tokens of the vocabulary", plan->tp,
                        "tensor-parallel slices", err));
    ORR_TRY(must_divide(plan->hidden, "hidden columns", plan->heads, "attention heads", err));
    if (plan->pp > 1 && plan->micro_batches == 0)
        return orr_fail(err, ORR_INVALID,
                        "%u pipeline stages need a number of micro-batches (micro_batches=8)",
                        plan->pp);
    if (orr_plan_ranks(plan) > (UINT32_C(1) << 24))
        return orr_fail(err, ORR_INVALID, "%u x %u x %u are more than 2^24 ranks", plan->dp,
                        plan->tp, plan->pp);
    return ORR_OK;
}
