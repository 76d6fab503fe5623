/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/closest.h"
#include "base/units.h"
#include "explore/explore.h"

/* Parser of the user's constraints on the space: "tp=8,schedule=zb_v" (fix), "tp<=8,pp>=4" (limit),
 * "fp8,zero=3,overlap_tp" (exclude), "local_steps" (allow), and the dimensions that are searched.
 */

enum { WORD = 64 };

const char *orr_space_field_name(uint32_t field)
{
    return field < ORR_PLAN_NUMBERS ? orr_plan_number_at(field)->name
                                    : orr_plan_choice_at(field - ORR_PLAN_NUMBERS)->name;
}

/* --- lists of words -------------------------------------------------------------------------- */

/* Reads the next word of a comma-separated list, trimmed. *ret_any false: the list is at its end.
 */
static orr_status next_word(const char **at, const char *what, char ret[WORD], bool *ret_any,
                            orr_error *err)
{
    *ret_any = false;
    while (**at == ',' || **at == ' ')
        (*at)++;
    size_t n = strcspn(*at, ",");
    const char *word = *at;
    *at += n;
    while (n > 0 && word[n - 1] == ' ')
        n--;
    if (n == 0)
        return ORR_OK;
    if (n >= WORD)
        return orr_fail(err, ORR_INVALID, "%s: '%.40s...' is no word of a plan", what, word);
    memcpy(ret, word, n);
    ret[n] = '\0';
    *ret_any = true;
    return ORR_OK;
}

static uint32_t field_named(const char *name)
{
    for (uint32_t i = 0; i < ORR_PLAN_FIELDS; i++)
        if (strcmp(orr_space_field_name(i), name) == 0)
            return i;
    return ORR_PLAN_FIELDS;
}

typedef orr_status (*word_reader)(orr_space_constraints *constraints, const char *word,
                                  orr_error *err);

static orr_status read_list(orr_space_constraints *constraints, const char *list, const char *what,
                            word_reader read, orr_error *err)
{
    char word[WORD];
    bool any = list != NULL;
    for (const char *at = list; any;) {
        ORR_TRY(next_word(&at, what, word, &any, err));
        if (any)
            ORR_TRY(read(constraints, word, err));
    }
    return ORR_OK;
}

/* --- limit ---------------------------------------------------------------------------------- */

static orr_status unknown_number(const char *name, orr_error *err)
{
    const char *names[ORR_PLAN_NUMBERS];
    for (uint32_t i = 0; i < ORR_PLAN_NUMBERS; i++)
        names[i] = orr_plan_number_at(i)->name;
    const char *near = orr_closest_match(name, names, ORR_PLAN_NUMBERS);
    return orr_fail(err, ORR_INVALID, "bounds: a plan has no number '%s'%s%s%s", name,
                    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static void raise_to(uint32_t *least, uint64_t value)
{
    if (value > *least)
        *least = value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static void lower_to(uint32_t *most, uint64_t value)
{
    if (*most == 0 || value < *most)
        *most = (uint32_t)(value < UINT32_MAX ? value : UINT32_MAX);
}

/* Reads tp<=8, tp<8, tp>=8, tp>8 or tp=8. */
static orr_status read_limit(orr_space_constraints *constraints, const char *word, orr_error *err)
{
    char name[WORD];
    uint64_t value;
    const size_t len = strcspn(word, "<>=");
    const char *sign = word + len,
               *number = sign + 1 + (*sign != '=' && sign[0] != '\0' && sign[1] == '=');
    if (len == 0 || *sign == '\0')
        return orr_fail(err, ORR_INVALID, "bounds: '%s' is no bound; write tp<=8 or pp>=4", word);
    snprintf(name, sizeof name, "%.*s", (int)len, word);
    const uint32_t field = field_named(name);
    if (field >= ORR_PLAN_NUMBERS)
        return unknown_number(name, err);
    if (orr_parse_count(number, &value, NULL) != ORR_OK)
        return orr_fail(err, ORR_INVALID, "bounds: '%s' in '%s' is no whole number", number, word);
    const bool strict = *sign != '=' && sign[1] != '=';
    if (*sign != '>') {
        if (strict && value < 2)
            return orr_fail(err, ORR_INVALID, "bounds: '%s' leaves nothing", word);
        lower_to(&constraints->most[field], value - strict);
    }
    if (*sign != '<')
        raise_to(&constraints->least[field], value + strict);
    if (constraints->most[field] > 0 && constraints->least[field] > constraints->most[field])
        return orr_fail(err, ORR_INVALID,
                        "bounds: '%s' leaves nothing: %s is at least %u and at most %u", word, name,
                        constraints->least[field], constraints->most[field]);
    return ORR_OK;
}

/* --- exclude -------------------------------------------------------------------------------- */

static orr_status exclude_value(orr_space_constraints *constraints, uint32_t field, uint32_t value,
                                orr_error *err)
{
    if (constraints->n_excluded == ORR_SPACE_EXCLUDED)
        return orr_fail(err, ORR_INVALID, "exclude: more than %d choices", ORR_SPACE_EXCLUDED);
    constraints->excluded[constraints->n_excluded].field = (uint8_t)field;
    constraints->excluded[constraints->n_excluded++].value = value;
    return ORR_OK;
}

/* Whether the word is a choice of many fields, and so never excludes one of them by itself. */
static bool is_general(const char *word)
{
    return strcmp(word, "unknown") == 0 || strcmp(word, "on") == 0 || strcmp(word, "off") == 0 ||
           strcmp(word, "none") == 0;
}

static orr_status unknown_exclusion(const char *word, orr_error *err)
{
    const char *names[256];
    size_t n = 0;
    for (uint32_t i = 0; i < ORR_PLAN_FIELDS; i++)
        names[n++] = orr_space_field_name(i);
    for (uint32_t c = 0; c < ORR_PLAN_CHOICES; c++)
        for (size_t v = 1; v < orr_plan_choice_at(c)->n && n < 256; v++)
            if (!is_general(orr_plan_choice_at(c)->words[v]))
                names[n++] = orr_plan_choice_at(c)->words[v];
    const char *near = orr_closest_match(word, names, n);
    return orr_fail(err, ORR_INVALID, "exclude: '%s' is no choice and no field of a plan%s%s%s",
                    word, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static orr_status exclude_pair(orr_space_constraints *constraints, const char *word, orr_error *err)
{
    orr_plan plan;
    ORR_TRY(orr_plan_parse(word, &plan, err));
    if (plan.zero == ORR_ZERO_NONE)
        return exclude_value(constraints, ORR_AT_zero, 0, err);
    for (uint32_t i = 0; i < ORR_PLAN_FIELDS; i++)
        if (orr_plan_get(&plan, i) != 0)
            return exclude_value(constraints, i, orr_plan_get(&plan, i), err);
    return orr_fail(err, ORR_INVALID, "exclude: '%s' is no choice", word);
}

static orr_status read_exclude(orr_space_constraints *constraints, const char *word, orr_error *err)
{
    bool found = false;
    if (strchr(word, '=') != NULL)
        return exclude_pair(constraints, word, err);
    for (uint32_t c = 0; c < ORR_PLAN_CHOICES; c++)
        for (uint32_t v = 1; v < orr_plan_choice_at(c)->n; v++)
            if (!is_general(word) && strcmp(orr_plan_choice_at(c)->words[v], word) == 0) {
                ORR_TRY(exclude_value(constraints, ORR_PLAN_NUMBERS + c, v, err));
                found = true;
            }
    const uint32_t field = field_named(word);
    if (field < ORR_PLAN_FIELDS)
        constraints->excluded_fields |= UINT64_C(1) << field;
    return found || field < ORR_PLAN_FIELDS ? ORR_OK : unknown_exclusion(word, err);
}

/* --- allow, dimensions ---------------------------------------------------------------------- */

static orr_status one_of(const char *what, const char *word, const char *const *names, size_t n,
                         size_t *ret, orr_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], word) == 0) {
            *ret = i;
            return ORR_OK;
        }
    char all[256] = "";
    for (size_t i = 0, at = 0; i < n && at < sizeof all; i++)
        at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", i > 0 ? ", " : "", names[i]);
    const char *near = orr_closest_match(word, names, n);
    return orr_fail(err, ORR_INVALID, "%s: '%s' is none of %s%s%s%s", what, word, all,
                    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static orr_status read_allow(orr_space_constraints *constraints, const char *word, orr_error *err)
{
    static const char *const NAMES[] = {"local_steps", "compress",  "fp8",     "mxfp8",
                                        "fp4",         "gradients", "offload", "graphs"};
    bool *const allowed[] = {&constraints->local_steps, &constraints->compress,
                             &constraints->fp8,         &constraints->mxfp8,
                             &constraints->fp4,         &constraints->gradients,
                             &constraints->offload,     &constraints->graphs};
    size_t i;
    ORR_TRY(one_of("allow", word, NAMES, sizeof NAMES / sizeof *NAMES, &i, err));
    *allowed[i] = true;
    return ORR_OK;
}

static orr_status read_dimension(orr_space_constraints *constraints, const char *word,
                                 orr_error *err)
{
    static const char *const NAMES[] = {"placement", "scheduling", "network"};
    size_t i;
    ORR_TRY(one_of("dimensions", word, NAMES, sizeof NAMES / sizeof *NAMES, &i, err));
    constraints->searched |= (uint8_t)(1U << i);
    return ORR_OK;
}

/* --- all constraints ------------------------------------------------------------------------- */

orr_status orr_space_read_constraints(const orr_explore_options *options,
                                      orr_space_constraints *ret, orr_error *err)
{
    orr_space_constraints constraints = {0};
    if (options->fix != NULL)
        ORR_TRY(orr_plan_parse(options->fix, &constraints.fixed, err));
    if (constraints.fixed.zero == ORR_ZERO_NONE) {
        constraints.fixed.zero = 0;
        constraints.pinned |= UINT64_C(1) << ORR_AT_zero;
    }
    ORR_TRY(read_list(&constraints, options->limit, "bounds", read_limit, err));
    ORR_TRY(read_list(&constraints, options->exclude, "exclude", read_exclude, err));
    ORR_TRY(read_list(&constraints, options->allow, "allow", read_allow, err));
    ORR_TRY(read_list(&constraints, options->dimensions, "dimensions", read_dimension, err));
    if (constraints.searched == 0)
        constraints.searched = ORR_SEARCH_ALL;
    *ret = constraints;
    return ORR_OK;
}

/* Whether a field has the value that it has where the feature is not used. */
static bool is_neutral(uint32_t field, uint32_t value)
{
    if (field < ORR_PLAN_NUMBERS)
        return value <= (field == ORR_AT_zero ? 0U : 1U);
    const orr_plan_choice *choice = orr_plan_choice_at(field - ORR_PLAN_NUMBERS);
    return value == 0 || is_general(choice->words[value])
               ? value == 0 || strcmp(choice->words[value], "on") != 0
               : false;
}

bool orr_space_allows(const orr_space_constraints *constraints, uint32_t field, uint32_t value)
{
    const uint32_t fixed = orr_plan_get(&constraints->fixed, field);
    if ((fixed != 0 || (constraints->pinned >> field & 1)) && fixed != value)
        return false;
    if (field < ORR_PLAN_NUMBERS &&
        (value < constraints->least[field] ||
         (constraints->most[field] > 0 && value > constraints->most[field])))
        return false;
    if (constraints->rules != NULL && !orr_framework_may(constraints->rules, field, value, NULL))
        return false;
    if ((constraints->excluded_fields >> field & 1) && !is_neutral(field, value))
        return false;
    for (uint32_t i = 0; i < constraints->n_excluded; i++)
        if (constraints->excluded[i].field == field && constraints->excluded[i].value == value)
            return false;
    return true;
}

bool orr_space_runs(const orr_space *space, const orr_plan *plan)
{
    const orr_framework_rules *rules = space->constraints.rules;
    return rules == NULL || orr_framework_verify(rules, space->model, plan, NULL) == ORR_OK;
}
