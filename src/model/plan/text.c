/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/plan.h>

#include <stdio.h>
#include <string.h>

#include "base/closest.h"
#include "model/plan/plan.h"

/* Text form of a plan, "dp=4,tp=2,schedule=1f1b": parser and printer. */

/* A "name=value" within a longer text, not terminated. */
typedef struct piece {
    const char *name, *value;
    int name_len, value_len;
} piece;

static bool is_word(const char *word, const char *at, int len)
{
    return strlen(word) == (size_t)len && memcmp(word, at, (size_t)len) == 0;
}

static const char *closest_to(const char *at, int len, const char *const *words, size_t n)
{
    char word[32];
    snprintf(word, sizeof word, "%.*s", len, at);
    return orr_closest_match(word, words, n);
}

static orr_status unknown_field(const piece *p, orr_error *err)
{
    const char *names[ORR_PLAN_NUMBERS + ORR_PLAN_CHOICES + 5];
    size_t n = 0;
    for (uint32_t i = 0; i < ORR_PLAN_NUMBERS; i++)
        names[n++] = orr_plan_number_at(i)->name;
    for (uint32_t i = 0; i < ORR_PLAN_CHOICES; i++)
        names[n++] = orr_plan_choice_at(i)->name;
    names[n++] = "order";
    names[n++] = "sites";
    names[n++] = "sections";
    names[n++] = "recompute_modules";
    names[n++] = "site_micro_batches";
    const char *near = closest_to(p->name, p->name_len, names, n);
    return orr_fail(err, ORR_INVALID, "a plan has no '%.*s'%s%s%s", p->name_len, p->name,
                    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* A count: "4", "4k", "1M". False: not a number, or too large. */
static bool read_count(const char *at, int len, uint32_t *ret)
{
    uint64_t value = 0;
    int i = 0;
    for (; i < len && at[i] >= '0' && at[i] <= '9' && value <= UINT32_MAX; i++)
        value = value * 10 + (uint64_t)(at[i] - '0');
    if (i > 0 && i + 1 == len && (at[i] == 'k' || at[i] == 'K' || at[i] == 'M')) {
        value *= at[i] == 'M' ? 1024 * 1024 : 1024;
        i++;
    }
    *ret = (uint32_t)value;
    return i > 0 && i == len && value > 0 && value < UINT32_MAX;
}

static orr_status given_twice(const char *name, orr_error *err)
{
    return orr_fail(err, ORR_INVALID, "'%s' is given twice", name);
}

static orr_status read_number(const piece *p, const orr_plan_number *number, uint32_t *field,
                              orr_error *err)
{
    if (*field != 0)
        return given_twice(number->name, err);
    if (p->value_len == 1 && *p->value == '0' && strcmp(number->name, "zero") == 0)
        *field = ORR_ZERO_NONE;
    else if (!read_count(p->value, p->value_len, field))
        return orr_fail(err, ORR_INVALID, "%s=%.*s: %s are a number above 0", number->name,
                        p->value_len, p->value, number->about);
    return ORR_OK;
}

/* The words of a choice as a sentence: "1f1b, gpipe or interleaved". */
static void list_words(const orr_plan_choice *choice, char *text, size_t room)
{
    size_t len = 0;
    for (size_t i = 1; i < choice->n && len < room; i++)
        len += (size_t)snprintf(text + len, room - len, "%s%s",
                                i == 1               ? ""
                                : i + 1 == choice->n ? " or "
                                                     : ", ",
                                choice->words[i]);
}

static orr_status read_choice(const piece *p, const orr_plan_choice *choice, uint8_t *field,
                              orr_error *err)
{
    char all[160] = "";
    if (*field != 0)
        return given_twice(choice->name, err);
    for (size_t i = 1; i < choice->n; i++)
        if (is_word(choice->words[i], p->value, p->value_len)) {
            *field = (uint8_t)i;
            return ORR_OK;
        }
    list_words(choice, all, sizeof all);
    return orr_fail(err, ORR_INVALID, "%s=%.*s: there are %s", choice->name, p->value_len, p->value,
                    all);
}

static orr_status read_axis(const char *at, int len, uint8_t order[ORR_BASE_AXES], uint32_t n,
                            orr_error *err)
{
    for (uint8_t axis = 0; axis < ORR_BASE_AXES; axis++) {
        if (!is_word(orr_axis_name((orr_axis)axis), at, len))
            continue;
        for (uint32_t i = 0; i < n; i++)
            if (order[i] == axis + 1)
                return orr_fail(err, ORR_INVALID, "order: '%.*s' is there twice", len, at);
        order[n] = (uint8_t)(axis + 1);
        return ORR_OK;
    }
    return orr_fail(err, ORR_INVALID,
                    "order: '%.*s' is none of tp, cp, dp, pp (experts take "
                    "their ranks out of tp, cp and dp)",
                    len, at);
}

/* An order of axes, "tp-pp-dp". Axes that it does not name lie outside, in their default order. */
static orr_status read_order(const piece *p, orr_plan *plan, orr_error *err)
{
    uint8_t order[ORR_BASE_AXES] = {0};
    uint32_t n = 0;
    if (orr_plan_has_order(plan))
        return given_twice("order", err);
    for (int at = 0; at <= p->value_len && n < ORR_BASE_AXES; n++) {
        int len = 0;
        while (at + len < p->value_len && p->value[at + len] != '-')
            len++;
        ORR_TRY(read_axis(p->value + at, len, order, n, err));
        at += len + 1;
        if (n + 1 == ORR_BASE_AXES && at <= p->value_len)
            return orr_fail(err, ORR_INVALID, "order=%.*s names more than four axes", p->value_len,
                            p->value);
    }
    for (uint8_t axis = 0; axis < ORR_BASE_AXES; axis++)
        if (memchr(order, axis + 1, n) == NULL)
            order[n++] = (uint8_t)(axis + 1);
    memcpy(plan->order, order, sizeof order);
    return ORR_OK;
}

/* A decimal number. *ret_len 0: no digits, or the number does not fit. */
static uint16_t read_part(const char *at, const char *end, int *ret_len)
{
    uint32_t value = 0;
    int len = 0;
    while (at + len < end && at[len] >= '0' && at[len] <= '9' && value <= UINT16_MAX)
        value = value * 10 + (uint32_t)(at[len++] - '0');
    *ret_len = value <= UINT16_MAX ? len : 0;
    return (uint16_t)value;
}

/* One item of a list: "12", or "8x6" with a first number above 0. Returns its end; NULL:
 * malformed. */
static const char *read_pair(const char *at, const char *end, uint16_t *first, uint16_t *second)
{
    int len;
    *first = read_part(at, end, &len);
    at += len;
    if (second == NULL || len == 0)
        return len > 0 ? at : NULL;
    if (*first == 0 || at == end || *at++ != 'x')
        return NULL;
    *second = read_part(at, end, &len);
    return len > 0 ? at + len : NULL;
}

/* A list, "12-8-0"; or of pairs, "8x6-4x12", into two lists. */
static bool read_list(const char *at, const char *end, uint16_t *first, uint16_t *second)
{
    uint32_t n = 0, sum = 0;
    do {
        at = read_pair(at, end, &first[n], second != NULL ? &second[n] : NULL);
        sum += first[n++];
    } while (at != NULL && at < end && *at++ == '-' && n < ORR_PLAN_PARTS);
    return at == end && at[-1] != '-' && sum > 0;
}

static orr_status read_parts(const piece *p, const char *name, uint16_t *first, uint16_t *second,
                             orr_error *err)
{
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++)
        if (first[i] != 0)
            return given_twice(name, err);
    if (read_list(p->value, p->value + p->value_len, first, second))
        return ORR_OK;
    return orr_fail(
        err, ORR_INVALID, "%s=%.*s: %s, at most %d of them", name, p->value_len, p->value,
        second != NULL ? "stages x layers, as in 8x6-4x12, or balanced" : "numbers, as in 5-3",
        ORR_PLAN_PARTS);
}

static orr_status read_module(const char *at, int len, uint16_t *modules, orr_error *err)
{
    const char *names[ORR_RECOMPUTE_MODULES];
    for (uint32_t i = 0; i < ORR_RECOMPUTE_MODULES; i++) {
        names[i] = orr_recompute_module_name((orr_recompute_module)i);
        if (is_word(names[i], at, len)) {
            *modules |= (uint16_t)(1U << i);
            return ORR_OK;
        }
    }
    const char *near = closest_to(at, len, names, ORR_RECOMPUTE_MODULES);
    return orr_fail(err, ORR_INVALID, "recompute_modules: there is no '%.*s'%s%s%s", len, at,
                    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* Parts of a layer, "layernorm-moe_act". */
static orr_status read_modules(const piece *p, uint16_t *modules, orr_error *err)
{
    if (*modules != 0)
        return given_twice("recompute_modules", err);
    for (int at = 0; at <= p->value_len;) {
        int len = 0;
        while (at + len < p->value_len && p->value[at + len] != '-')
            len++;
        ORR_TRY(read_module(p->value + at, len, modules, err));
        at += len + 1;
    }
    return ORR_OK;
}

static orr_status read_field(const char *at, int len, orr_plan *plan, orr_error *err)
{
    const char *equals = memchr(at, '=', (size_t)len);
    if (equals == NULL)
        return orr_fail(err, ORR_INVALID, "'%.*s' is no field of a plan; write dp=4,tp=2", len, at);
    const int name_len = (int)(equals - at);
    const piece p = {at, equals + 1, name_len, len - name_len - 1};
    for (uint32_t i = 0; i < ORR_PLAN_NUMBERS; i++)
        if (is_word(orr_plan_number_at(i)->name, at, name_len))
            return read_number(&p, orr_plan_number_at(i), orr_plan_field(plan, i), err);
    for (uint32_t i = 0; i < ORR_PLAN_CHOICES; i++)
        if (is_word(orr_plan_choice_at(i)->name, at, name_len))
            return read_choice(&p, orr_plan_choice_at(i), orr_plan_choice_field(plan, i), err);
    if (is_word("order", at, name_len))
        return read_order(&p, plan, err);
    if (is_word("sites", at, name_len))
        return read_parts(&p, "sites", plan->sites, NULL, err);
    if (is_word("site_micro_batches", at, name_len))
        return read_parts(&p, "site_micro_batches", plan->site_micro_batches, NULL, err);
    if (is_word("sections", at, name_len) && is_word("balanced", p.value, p.value_len)) {
        if (orr_plan_has_sections(plan) || orr_plan_balances_sections(plan))
            return given_twice("sections", err);
        plan->section_layers[0] = ORR_SECTIONS_BALANCED;
        return ORR_OK;
    }
    if (is_word("sections", at, name_len) && orr_plan_balances_sections(plan))
        return given_twice("sections", err);
    if (is_word("sections", at, name_len))
        return read_parts(&p, "sections", plan->section_stages, plan->section_layers, err);
    if (is_word("recompute_modules", at, name_len))
        return read_modules(&p, &plan->recompute_modules, err);
    return unknown_field(&p, err);
}

orr_status orr_plan_parse(const char *text, orr_plan *ret, orr_error *err)
{
    orr_plan plan = {0};
    for (const char *at = text; *at != '\0';) {
        const size_t len = strcspn(at, ",");
        if (len > 400)
            return orr_fail(err, ORR_INVALID, "'%.40s...' is no field of a plan", at);
        if (len > 0)
            ORR_TRY(read_field(at, (int)len, &plan, err));
        at += len + (at[len] == ',');
    }
    *ret = plan;
    return ORR_OK;
}

/* Text that is appended to a buffer large enough for any plan. */
typedef struct writer {
    char text[2048];
    size_t n;
} writer;

static void put_name(writer *w, const char *name)
{
    w->n +=
        (size_t)snprintf(w->text + w->n, sizeof w->text - w->n, "%s%s=", w->n > 0 ? "," : "", name);
}

static void put_word(writer *w, const char *word)
{
    w->n += (size_t)snprintf(w->text + w->n, sizeof w->text - w->n, "%s", word);
}

static void put_order(writer *w, const orr_plan *plan)
{
    put_name(w, "order");
    for (uint32_t i = 0; i < ORR_BASE_AXES; i++) {
        put_word(w, i > 0 ? "-" : "");
        put_word(w, orr_axis_name((orr_axis)(plan->order[i] - 1)));
    }
}

static void put_parts(writer *w, const char *name, const uint16_t *first, const uint16_t *second)
{
    uint32_t n = ORR_PLAN_PARTS;
    while (n > 0 && first[n - 1] == 0)
        n--;
    if (n > 0)
        put_name(w, name);
    for (uint32_t i = 0; i < n; i++) {
        char part[16];
        if (second != NULL)
            snprintf(part, sizeof part, "%s%ux%u", i > 0 ? "-" : "", first[i], second[i]);
        else
            snprintf(part, sizeof part, "%s%u", i > 0 ? "-" : "", first[i]);
        put_word(w, part);
    }
}

static void put_modules(writer *w, uint32_t modules)
{
    bool first = true;
    for (uint32_t i = 0; i < ORR_RECOMPUTE_MODULES; i++)
        if (modules >> i & 1) {
            if (first)
                put_name(w, "recompute_modules");
            put_word(w, first ? "" : "-");
            put_word(w, orr_recompute_module_name((orr_recompute_module)i));
            first = false;
        }
}

const char *orr_plan_text(const orr_plan *plan, orr_arena *arena)
{
    orr_plan copy = *plan;
    writer w = {.n = 0};
    for (uint32_t i = 0; i < ORR_PLAN_NUMBERS; i++)
        if (*orr_plan_field(&copy, i) != 0) {
            put_name(&w, orr_plan_number_at(i)->name);
            const bool none = plan->zero == ORR_ZERO_NONE && orr_plan_field(&copy, i) == &copy.zero;
            w.n += (size_t)snprintf(w.text + w.n, sizeof w.text - w.n, "%u",
                                    none ? 0 : *orr_plan_field(&copy, i));
        }
    for (uint32_t i = 0; i < ORR_PLAN_CHOICES; i++) {
        const orr_plan_choice *choice = orr_plan_choice_at(i);
        const uint8_t value = *orr_plan_choice_field(&copy, i);
        if (value == 0 || value >= choice->n)
            continue;
        put_name(&w, choice->name);
        put_word(&w, choice->words[value]);
    }
    if (orr_plan_has_order(plan))
        put_order(&w, plan);
    put_parts(&w, "sites", plan->sites, NULL);
    put_parts(&w, "site_micro_batches", plan->site_micro_batches, NULL);
    put_parts(&w, "sections", plan->section_stages, plan->section_layers);
    if (orr_plan_balances_sections(plan)) {
        put_name(&w, "sections");
        put_word(&w, "balanced");
    }
    put_modules(&w, plan->recompute_modules);
    return orr_arena_strndup(arena, w.text, w.n);
}

orr_plan orr_plan_override(const orr_plan *from, const orr_plan *change)
{
    orr_plan plan = *from, copy = *change;
    for (uint32_t i = 0; i < ORR_PLAN_NUMBERS; i++)
        if (*orr_plan_field(&copy, i) != 0)
            *orr_plan_field(&plan, i) = *orr_plan_field(&copy, i);
    for (uint32_t i = 0; i < ORR_PLAN_CHOICES; i++)
        if (*orr_plan_choice_field(&copy, i) != 0)
            *orr_plan_choice_field(&plan, i) = *orr_plan_choice_field(&copy, i);
    if (orr_plan_has_order(change))
        memcpy(plan.order, change->order, sizeof plan.order);
    if (orr_plan_has_sites(change))
        memcpy(plan.sites, change->sites, sizeof plan.sites);
    if (orr_plan_has_sections(change) || orr_plan_balances_sections(change)) {
        memcpy(plan.section_stages, change->section_stages, sizeof plan.section_stages);
        memcpy(plan.section_layers, change->section_layers, sizeof plan.section_layers);
    }
    if (orr_plan_has_site_micro_batches(change))
        memcpy(plan.site_micro_batches, change->site_micro_batches, sizeof plan.site_micro_batches);
    if (change->recompute_modules != 0)
        plan.recompute_modules = change->recompute_modules;
    return plan;
}

bool orr_plan_equal(const orr_plan *a, const orr_plan *b)
{
    orr_plan x = *a, y = *b;
    for (uint32_t i = 0; i < ORR_PLAN_NUMBERS; i++)
        if (*orr_plan_field(&x, i) != *orr_plan_field(&y, i))
            return false;
    for (uint32_t i = 0; i < ORR_PLAN_CHOICES; i++)
        if (*orr_plan_choice_field(&x, i) != *orr_plan_choice_field(&y, i))
            return false;
    return memcmp(a->order, b->order, sizeof a->order) == 0 &&
           memcmp(a->sites, b->sites, sizeof a->sites) == 0 &&
           memcmp(a->section_stages, b->section_stages, sizeof a->section_stages) == 0 &&
           memcmp(a->section_layers, b->section_layers, sizeof a->section_layers) == 0 &&
           memcmp(a->site_micro_batches, b->site_micro_batches, sizeof a->site_micro_batches) ==
               0 &&
           a->recompute_modules == b->recompute_modules;
}
