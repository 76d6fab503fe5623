/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/framework/framework.h"

/* The rules of a framework: parsed from the text of its table, applied to plans. */

static const char *const FRAMEWORKS[] = {
#define NAME_(name, text) text,
    ORR_FRAMEWORK_MAP(NAME_)
#undef NAME_
};

const char *orr_framework_name(orr_framework framework)
{
    return (uint32_t)framework < ORR_FRAMEWORKS ? FRAMEWORKS[framework] : "?";
}

const orr_framework_table *orr_framework_table_of(orr_framework framework)
{
    static const orr_framework_table *const TABLES[ORR_FRAMEWORKS] = {
        [ORR_FRAMEWORK_MEGATRON] = &orr_framework_megatron,
        [ORR_FRAMEWORK_TORCHTITAN] = &orr_framework_torchtitan,
        [ORR_FRAMEWORK_DEEPSPEED] = &orr_framework_deepspeed,
        [ORR_FRAMEWORK_MAXTEXT] = &orr_framework_maxtext};
    return (uint32_t)framework < ORR_FRAMEWORKS ? TABLES[framework] : NULL;
}

/* --- text of a table ------------------------------------------------------------------------- */

/* The number that a word stands for: a word of the field's choice, or a number. False: neither. */
static bool read_value(uint32_t field, const char *at, size_t len, double *ret)
{
    char word[32], text[32], *end;
    if (len == 0 || len >= sizeof word)
        return false;
    memcpy(word, at, len);
    word[len] = '\0';
    const uint32_t words = field == ORR_QUANTITY_order ? 3
                           : field >= ORR_PLAN_NUMBERS && field < ORR_PLAN_FIELDS
                               ? (uint32_t)orr_plan_choice_at(field - ORR_PLAN_NUMBERS)->n
                               : 0;
    for (uint32_t i = 1; i < words; i++) {
        orr_quantity_text(field, i, text, sizeof text);
        if (strcmp(text, word) == 0) {
            *ret = i;
            return true;
        }
    }
    *ret = strtod(word, &end);
    return *end == '\0';
}

static orr_status unknown(const char *at, size_t len, orr_error *err)
{
    return orr_fail(err, ORR_INVALID, "the table of a framework has no quantity or value '%.*s'",
                    (int)len, at);
}

/* A number, a word of the field's choice, or a quantity (else ORR_QUANTITIES). */
static orr_status read_operand(uint32_t field, const char *at, size_t len, uint16_t *ret_quantity,
                               double *ret, orr_error *err)
{
    *ret_quantity = ORR_QUANTITIES;
    if (read_value(field, at, len, ret))
        return ORR_OK;
    *ret_quantity = (uint16_t)orr_quantity_named(at, len);
    return *ret_quantity < ORR_QUANTITIES ? ORR_OK : unknown(at, len, err);
}

orr_status orr_framework_condition_parse(const char *text, orr_framework_condition *ret,
                                         orr_error *err)
{
    *ret = (orr_framework_condition){0};
    for (const char *at = text; at != NULL && *at != '\0';) {
        const size_t len = strcspn(at, ","), left = strcspn(at, "=!<>");
        const uint32_t i = ret->n++;
        if (i >= ORR_CONDITION_TERMS || left >= len)
            return unknown(at, len, err);
        ret->term[i].left = (uint16_t)orr_quantity_named(at, left);
        ret->term[i].sign = at[left];
        if (ret->term[i].left >= ORR_QUANTITIES)
            return unknown(at, left, err);
        ORR_TRY(read_operand(ret->term[i].left, at + left + 1, len - left - 1, &ret->term[i].right,
                             &ret->term[i].value, err));
        at += len + (at[len] == ',');
    }
    return ORR_OK;
}

bool orr_framework_condition_holds(const orr_framework_condition *condition,
                                   const double *quantities)
{
    bool holds = true;
    for (uint32_t i = 0; i < condition->n && holds; i++) {
        const uint32_t quantity = condition->term[i].right;
        const double left = quantities[condition->term[i].left],
                     right = quantity < ORR_QUANTITIES ? quantities[quantity]
                                                       : condition->term[i].value;
        switch (condition->term[i].sign) {
        case '=':
            holds = left == right;
            break;
        case '!':
            holds = left != right;
            break;
        case '<':
            holds = left < right;
            break;
        default:
            holds = left > right;
        }
    }
    return holds;
}

static orr_status read_item(uint32_t field, const char *at, size_t len, orr_allowed_item *ret,
                            orr_error *err)
{
    const char *dash = memchr(at, '-', len);
    *ret = (orr_allowed_item){.kind = '-', .quantity = ORR_QUANTITIES};
    if (*at == '%' || *at == '/') {
        ret->kind = *at;
        ret->quantity = (uint16_t)orr_quantity_named(at + 1, len - 1);
        return ret->quantity < ORR_QUANTITIES ? ORR_OK : unknown(at, len, err);
    }
    if (read_value(field, at, len, &ret->least)) {
        ret->most = ret->least;
        return ORR_OK;
    }
    ret->most = INFINITY;
    if (at[len - 1] == '+' && read_value(field, at, len - 1, &ret->least))
        return ORR_OK;
    if (dash != NULL && read_value(field, at, (size_t)(dash - at), &ret->least) &&
        read_value(field, dash + 1, len - (size_t)(dash - at) - 1, &ret->most))
        return ORR_OK;
    ret->kind = '=';
    ret->quantity = (uint16_t)orr_quantity_named(at, len);
    return ret->quantity < ORR_QUANTITIES ? ORR_OK : unknown(at, len, err);
}

static orr_status compile_rule(const orr_framework_rule *from, orr_framework_rules *ret,
                               orr_error *err)
{
    const uint32_t i = ret->n++;
    const size_t len = strlen(from->field);
    ret->rule[i].field = (uint16_t)orr_quantity_named(from->field, len);
    ret->rule[i].n_allowed = 0;
    ret->rule[i].otherwise_value = 0;
    ret->rule[i].otherwise = ORR_QUANTITIES;
    if (ret->rule[i].field >= ORR_QUANTITIES)
        return unknown(from->field, len, err);
    ORR_TRY(orr_framework_condition_parse(from->when, &ret->rule[i].when, err));
    if (from->otherwise != NULL)
        ORR_TRY(read_operand(ret->rule[i].field, from->otherwise, strlen(from->otherwise),
                             &ret->rule[i].otherwise, &ret->rule[i].otherwise_value, err));
    for (const char *at = from->allowed; at != NULL && *at != '\0';) {
        const size_t n = strcspn(at, " ");
        if (ret->rule[i].n_allowed == ORR_ALLOWED_ITEMS)
            return unknown(at, n, err);
        ORR_TRY(read_item(ret->rule[i].field, at, n,
                          &ret->rule[i].allowed[ret->rule[i].n_allowed++], err));
        at += n + (at[n] == ' ');
    }
    return ORR_OK;
}

orr_status orr_framework_compile(orr_framework framework, orr_framework_rules *ret, orr_error *err)
{
    ret->table = orr_framework_table_of(framework);
    ret->n = 0;
    for (uint32_t i = 0; ret->table != NULL && i < ret->table->n_rules; i++) {
        if (ret->n == ORR_RULES_MAX)
            return orr_fail(err, ORR_INVALID, "more than %d rules of a framework", ORR_RULES_MAX);
        ORR_TRY(compile_rule(&ret->table->rules[i], ret, err));
    }
    return ORR_OK;
}

static bool is_of_model(uint32_t quantity)
{
    return quantity >= ORR_QUANTITY_transformer && quantity <= ORR_QUANTITY_value_dim;
}

static void drop_rule(orr_framework_rules *rules, uint32_t i)
{
    rules->rule[i].n_allowed = 0;
    rules->rule[i].otherwise = ORR_QUANTITIES;
    rules->rule[i].otherwise_value = 0;
}

void orr_framework_specialize(orr_framework_rules *rules, const orr_model *model)
{
    const orr_plan any = {0}, whole = orr_plan_with_defaults(&any);
    double quantities[ORR_QUANTITIES];
    orr_quantities(model, &whole, 0, quantities);
    for (uint32_t i = 0; i < rules->n; i++) {
        orr_framework_condition *when = &rules->rule[i].when, rest = {0};
        for (uint32_t k = 0; k < when->n; k++) {
            const orr_framework_condition term = {.term = {when->term[k]}, .n = 1};
            const bool fixed =
                is_of_model(when->term[k].left) && when->term[k].right == ORR_QUANTITIES;
            if (!fixed)
                rest.term[rest.n++] = when->term[k];
            else if (!orr_framework_condition_holds(&term, quantities))
                drop_rule(rules, i);
        }
        *when = rest;
    }
}

/* --- plans ----------------------------------------------------------------------------------- */

static bool allows(const orr_allowed_item *item, double value, const double *quantities)
{
    const double other = item->quantity < ORR_QUANTITIES ? quantities[item->quantity] : 0;
    switch (item->kind) {
    case '%':
        return other > 0 && fmod(value, other) == 0;
    case '/':
        return value > 0 && fmod(other, value) == 0;
    case '=':
        return value == other;
    default:
        return value >= item->least && value <= item->most;
    }
}

/* A field of 0 says nothing, but for the ZeRO stage. */
static bool is_open(uint32_t field, double value)
{
    return value == 0 && field < ORR_PLAN_FIELDS && field != ORR_AT_zero;
}

orr_plan orr_framework_fill(const orr_framework_rules *rules, const orr_model *model,
                            const orr_plan *plan)
{
    orr_plan p = *plan;
    double quantities[ORR_QUANTITIES];
    for (uint32_t i = 0; i < rules->n; i++) {
        const uint32_t field = rules->rule[i].field, from = rules->rule[i].otherwise;
        const bool given = rules->rule[i].otherwise_value != 0 || from < ORR_QUANTITIES;
        if (!given || field >= ORR_PLAN_FIELDS || orr_plan_get(&p, field) != 0 ||
            (field == ORR_AT_micro_batches && p.micro_batch != 0))
            continue; /* Of a batch one factor follows from the others. */
        const orr_plan whole = orr_plan_with_defaults(&p);
        orr_quantities(model, &whole, 0, quantities);
        const double value =
            from < ORR_QUANTITIES ? quantities[from] : rules->rule[i].otherwise_value;
        if (orr_framework_condition_holds(&rules->rule[i].when, quantities) && value < UINT32_MAX)
            orr_plan_put(&p, field, (uint32_t)value);
    }
    return p;
}

/* The values of a rule as a sentence: "1f1b, interleaved", "multiples of tp". */
static void list_allowed(const char *allowed, char *text, size_t room)
{
    size_t len = 0;
    for (const char *at = allowed; *at != '\0' && len < room;) {
        const int n = (int)strcspn(at, " ");
        const char *comma = at == allowed ? "" : ", ";
        if (*at == '%' || *at == '/')
            len += (size_t)snprintf(text + len, room - len, "%s%s of %.*s", comma,
                                    *at == '%' ? "multiples" : "divisors", n - 1, at + 1);
        else if (at[n - 1] == '+')
            len += (size_t)snprintf(text + len, room - len, "%s%.*s or more", comma, n - 1, at);
        else
            len += (size_t)snprintf(text + len, room - len, "%s%.*s", comma, n, at);
        at += n + (at[n] == ' ');
    }
}

static orr_status refuse(const orr_framework_rules *rules, uint32_t i, double value, orr_error *err)
{
    const orr_framework_rule *rule = &rules->table->rules[i];
    char text[64], allowed[160] = "";
    if (err == NULL)
        return ORR_INVALID;
    orr_quantity_text(rules->rule[i].field, value, text, sizeof text);
    list_allowed(rule->allowed, allowed, sizeof allowed);
    return orr_fail(err, ORR_INVALID, "%s=%s%s%s: %s can run %s", rule->field, text,
                    rule->when != NULL ? " with " : "", rule->when != NULL ? rule->when : "",
                    rules->table->title, allowed);
}

orr_status orr_framework_verify(const orr_framework_rules *rules, const orr_model *model,
                                const orr_plan *plan, orr_error *err)
{
    const orr_plan whole = orr_plan_with_defaults(plan);
    double quantities[ORR_QUANTITIES];
    if (rules->n > 0)
        orr_quantities(model, &whole, 0, quantities);
    for (uint32_t i = 0; i < rules->n; i++) {
        const uint32_t field = rules->rule[i].field, n = rules->rule[i].n_allowed;
        const double value = quantities[field];
        bool allowed = n == 0 || is_open(field, value) ||
                       !orr_framework_condition_holds(&rules->rule[i].when, quantities);
        for (uint32_t k = 0; k < n && !allowed; k++)
            allowed = allows(&rules->rule[i].allowed[k], value, quantities);
        if (!allowed)
            return refuse(rules, i, value, err);
    }
    return ORR_OK;
}

bool orr_framework_may(const orr_framework_rules *rules, uint32_t quantity, uint32_t value,
                       orr_error *err)
{
    if (quantity == ORR_AT_zero && value == ORR_ZERO_NONE)
        value = 0;
    for (uint32_t i = 0; i < rules->n; i++) {
        const uint32_t n = rules->rule[i].n_allowed;
        bool allowed = n == 0 || rules->rule[i].field != quantity || rules->rule[i].when.n > 0 ||
                       (value == 0 && quantity != ORR_AT_zero);
        for (uint32_t k = 0; k < n && !allowed; k++)
            allowed = rules->rule[i].allowed[k].kind != '-' ||
                      allows(&rules->rule[i].allowed[k], value, NULL);
        if (!allowed)
            return refuse(rules, i, value, err) == ORR_OK;
    }
    return true;
}

orr_plan orr_framework_explicit(const orr_framework_rules *rules, const orr_model *model,
                                const orr_plan *plan)
{
    orr_plan p = *plan;
    const orr_plan filled = orr_framework_fill(rules, model, plan),
                   whole = orr_plan_with_defaults(plan);
    for (uint32_t field = 0; field < ORR_PLAN_FIELDS; field++)
        if (orr_plan_get(&filled, field) != orr_plan_get(&p, field))
            orr_plan_put(&p, field, orr_plan_get(&whole, field));
    if (filled.zero != plan->zero)
        p.zero = ORR_ZERO_NONE;
    return p;
}

orr_plan orr_framework_defaults(orr_framework framework, const orr_model *model,
                                const orr_plan *plan)
{
    orr_framework_rules rules;
    return orr_framework_compile(framework, &rules, NULL) == ORR_OK
               ? orr_framework_fill(&rules, model, plan)
               : *plan;
}

orr_status orr_framework_check(orr_framework framework, const orr_model *model,
                               const orr_plan *plan, orr_error *err)
{
    orr_framework_rules rules;
    ORR_TRY(orr_framework_compile(framework, &rules, err));
    return orr_framework_verify(&rules, model, plan, err);
}
