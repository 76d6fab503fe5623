/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/closest.h"
#include "cost/calibration/calibration.h"
#include "cost/calibration/parameters.h"

/* Calibrations as YAML. A parameter is a number alone, or a map of orr_calibration_parameter. */

static const orr_calibration_range LATER[] = {
    {"error_frac", offsetof(orr_calibration, error_frac), 0, 10},
    {"low_frac", offsetof(orr_calibration, low_frac), -1, 10},
    {"high_frac", offsetof(orr_calibration, high_frac), -1, 10},
    {"widening", offsetof(orr_calibration, widening), 1, 10},
};
enum { N_LATER = sizeof LATER / sizeof *LATER };

static const orr_calibration_parameter UNKNOWN = {.value = NAN,
                                                  .low = NAN,
                                                  .high = NAN,
                                                  .prior = NAN,
                                                  .until = ORR_SOFTWARE_NEWEST,
                                                  .prior_source = "",
                                                  .rests_on = ""};

static orr_status read_number(const orr_yaml *value, const char *name, double low, double high,
                              double *ret, orr_error *err)
{
    double number;
    ORR_TRY(orr_yaml_number(value, &number, err));
    if (!(number >= low && number <= high))
        return orr_yaml_fail(value, ORR_INVALID, err, "%s: a number from %g to %g is due", name,
                             low, high);
    *ret = number;
    return ORR_OK;
}

static orr_status read_text(const orr_yaml *value, const char *key, const char **ret,
                            orr_error *err)
{
    if (value->kind != ORR_YAML_SCALAR)
        return orr_yaml_fail(value, ORR_INVALID, err, "%s: a text is due", key);
    *ret = value->text;
    return ORR_OK;
}

static orr_status read_basis(const orr_yaml *value, uint8_t *ret, orr_error *err)
{
    if (value->kind == ORR_YAML_SCALAR && strcmp(value->text, "fitted") == 0)
        *ret = ORR_BASIS_FITTED;
    else if (value->kind == ORR_YAML_SCALAR && strcmp(value->text, "assumed") == 0)
        *ret = ORR_BASIS_ASSUMED;
    else
        return orr_yaml_fail(value, ORR_INVALID, err, "basis: fitted or assumed");
    return ORR_OK;
}

static orr_status fail_key(const orr_yaml *key, const char *what, const char *const *names,
                           size_t n, orr_error *err)
{
    const char *close = orr_closest_match(key->text, names, n);
    return close != NULL
               ? orr_yaml_fail(key, ORR_INVALID, err, "%s has no '%.80s'; did you mean '%s'?", what,
                               key->text, close)
               : orr_yaml_fail(key, ORR_INVALID, err, "%s has no '%.80s'", what, key->text);
}

static orr_status read_parameter_key(const orr_yaml *key, const orr_yaml *value,
                                     const orr_calibration_range *range,
                                     orr_calibration_parameter *p, orr_error *err)
{
    static const char *const KEYS[] = {"value", "low",          "high",     "prior", "yearly",
                                       "until", "prior_source", "rests_on", "basis", "at_bound"};
    double *const number = strcmp(key->text, "value") == 0   ? &p->value
                           : strcmp(key->text, "low") == 0   ? &p->low
                           : strcmp(key->text, "high") == 0  ? &p->high
                           : strcmp(key->text, "prior") == 0 ? &p->prior
                                                             : NULL;
    if (number != NULL)
        return read_number(value, range->name, range->low, range->high, number, err);
    if (strcmp(key->text, "yearly") == 0)
        return read_number(value, "yearly", -2, 2, &p->yearly, err);
    if (strcmp(key->text, "until") == 0)
        return read_number(value, "until", ORR_SOFTWARE_OLDEST, ORR_SOFTWARE_NEWEST, &p->until,
                           err);
    if (strcmp(key->text, "prior_source") == 0)
        return read_text(value, "prior_source", &p->prior_source, err);
    if (strcmp(key->text, "rests_on") == 0)
        return read_text(value, "rests_on", &p->rests_on, err);
    if (strcmp(key->text, "basis") == 0)
        return read_basis(value, &p->basis, err);
    if (strcmp(key->text, "at_bound") == 0)
        return orr_yaml_bool(value, &p->at_bound, err);
    return fail_key(key, "a parameter", KEYS, sizeof KEYS / sizeof *KEYS, err);
}

static orr_status read_parameter(const orr_yaml *value, const orr_calibration_range *range,
                                 orr_calibration_parameter *ret, orr_error *err)
{
    orr_calibration_parameter p = UNKNOWN;
    if (value->kind == ORR_YAML_MAP)
        for (uint32_t i = 0; i < value->n; i++)
            ORR_TRY(read_parameter_key(value->keys[i], value->values[i], range, &p, err));
    else
        ORR_TRY(read_number(value, range->name, range->low, range->high, &p.value, err));
    if (isnan(p.value))
        return orr_yaml_fail(value, ORR_INVALID, err, "%s: its value is missing", range->name);
    *ret = p;
    return ORR_OK;
}

/* --- devices ---------------------------------------------------------------------------------- */

static orr_status fail_device_key(const orr_yaml *key, orr_error *err)
{
    const char *names[ORR_CALIBRATION_FIELDS + N_LATER + 3] = {"device", "source", "basis"};
    size_t n = 3;
    for (size_t i = 0; i < ORR_CALIBRATION_FIELDS; i++)
        names[n++] = orr_calibration_ranges[i].name;
    for (size_t i = 0; i < N_LATER; i++)
        names[n++] = LATER[i].name;
    return fail_key(key, "a calibration", names, n, err);
}

/* Older files say "rank_log_frac", a share of the step for each doubling of ranks beyond 8: the
 * jitter that costs as much among 1,024. */
static orr_status read_older_jitter(const orr_yaml *value, orr_calibration_parameter *ret,
                                    orr_error *err)
{
    static const double DOUBLINGS = 7, EXPECTED = 3.25;
    orr_calibration_range range = orr_calibration_ranges[ORR_CALIBRATION_jitter_frac];
    range.name = "rank_log_frac";
    ORR_TRY(read_parameter(value, &range, ret, err));
    double *const scaled[] = {&ret->value, &ret->low, &ret->high, &ret->prior};
    for (size_t i = 0; i < sizeof scaled / sizeof *scaled; i++)
        *scaled[i] *= DOUBLINGS / EXPECTED;
    return ORR_OK;
}

static orr_status read_pair(const orr_yaml *key, const orr_yaml *value,
                            orr_calibration_parameter *parameters, orr_calibration *c,
                            orr_error *err)
{
    for (int i = 0; i < ORR_CALIBRATION_FIELDS; i++)
        if (strcmp(key->text, orr_calibration_ranges[i].name) == 0)
            return read_parameter(value, &orr_calibration_ranges[i], &parameters[i], err);
    for (int i = 0; i < N_LATER; i++)
        if (strcmp(key->text, LATER[i].name) == 0)
            return read_number(value, key->text, LATER[i].low, LATER[i].high,
                               (double *)((char *)c + LATER[i].offset), err);
    if (strcmp(key->text, "rank_log_frac") == 0)
        return read_older_jitter(value, &parameters[ORR_CALIBRATION_jitter_frac], err);
    if (strcmp(key->text, "device") == 0)
        return read_text(value, "device", &c->name, err);
    if (strcmp(key->text, "source") == 0)
        return read_text(value, "source", &c->source, err);
    if (strcmp(key->text, "basis") == 0)
        return read_basis(value, &c->basis, err);
    return fail_device_key(key, err);
}

/* Fields that older files lack: products were bound by the memory as all else, a recommender's step
 * and a engine's launch were those of any other, and serving had none; attention reached
 * the same at any size. */
static void complete_older(orr_calibration_parameter *p)
{
    if (isnan(p[ORR_CALIBRATION_stream].value))
        p[ORR_CALIBRATION_stream] = p[ORR_CALIBRATION_memory];
    if (isnan(p[ORR_CALIBRATION_recommendation_ns].value))
        p[ORR_CALIBRATION_recommendation_ns] = p[ORR_CALIBRATION_step_ns];
    if (isnan(p[ORR_CALIBRATION_engine_launch_ns].value))
        p[ORR_CALIBRATION_engine_launch_ns] = p[ORR_CALIBRATION_launch_ns];
    static const int NONE[] = {ORR_CALIBRATION_collective_ns, ORR_CALIBRATION_serving_ns,
                               ORR_CALIBRATION_attention_half, ORR_CALIBRATION_attention_narrow};
    for (size_t i = 0; i < sizeof NONE / sizeof *NONE; i++)
        if (isnan(p[NONE[i]].value))
            p[NONE[i]].value = 0;
}

static orr_status check_complete(const orr_yaml *document, const orr_calibration_parameter *p,
                                 const orr_calibration *c, orr_error *err)
{
    const char *missing = NULL;
    for (size_t i = 0; i < ORR_CALIBRATION_FIELDS; i++)
        if (isnan(p[i].value))
            missing = orr_calibration_ranges[i].name;
    if (c->name == NULL || c->source == NULL)
        missing = c->name == NULL ? "device" : "source";
    if (c->basis == ORR_BASIS_NONE)
        missing = "basis";
    return missing == NULL ? ORR_OK
                           : orr_yaml_fail(document, ORR_INVALID, err,
                                           "a calibration says its %s: it is missing", missing);
}

orr_status orr_calibration_read(const orr_yaml *document, double software_year, orr_arena *arena,
                                orr_calibration **ret, orr_error *err)
{
    if (document->kind != ORR_YAML_MAP)
        return orr_yaml_fail(document, ORR_INVALID, err, "a calibration is a map of its numbers");
    orr_calibration *c = orr_arena_one(arena, orr_calibration);
    orr_calibration_parameter *parameters =
        orr_arena_array(arena, orr_calibration_parameter, ORR_CALIBRATION_FIELDS);
    if (c == NULL || parameters == NULL)
        return orr_fail_memory(err);
    *c = (orr_calibration){.error_frac = NAN,
                           .low_frac = NAN,
                           .high_frac = NAN,
                           .widening = 1,
                           .parameters = parameters};
    for (int i = 0; i < ORR_CALIBRATION_FIELDS; i++)
        parameters[i] = UNKNOWN;
    for (uint32_t i = 0; i < document->n; i++)
        ORR_TRY(read_pair(document->keys[i], document->values[i], parameters, c, err));
    complete_older(parameters);
    ORR_TRY(check_complete(document, parameters, c, err));
    *c = orr_calibration_in_year(c, software_year);
    *ret = c;
    return ORR_OK;
}

orr_status orr_calibration_load(const char *path, double software_year, orr_arena *arena,
                                const orr_calibration **ret, orr_error *err)
{
    const orr_yaml *document;
    orr_calibration *c;
    ORR_TRY(orr_yaml_load(path, arena, &document, err));
    ORR_TRY(orr_calibration_read(document, software_year, arena, &c, err));
    ORR_TRY(orr_calibration_add_shared(c, arena, err));
    *ret = c;
    return ORR_OK;
}

/* --- links and intervals: shared by all devices ----------------------------------------------- */

static const orr_calibration_range LINK_RANGES[] = {
    {"frac", offsetof(orr_link_rates, frac), 1e-3, 1},
    {"base_ns", offsetof(orr_link_rates, base_ns), 0, 60e9},
    {"reduction", offsetof(orr_link_rates, reduction), 0, 1},
};

static orr_status read_link(const orr_yaml *key, const orr_yaml *map, orr_link_rates *ret,
                            orr_error *err)
{
    static const char *const KEYS[] = {"frac", "base_ns", "reduction"};
    *ret = (orr_link_rates){key->text, UNKNOWN, UNKNOWN, UNKNOWN};
    ret->reduction.value = 0;
    for (uint32_t i = 0; i < map->n; i++) {
        const orr_calibration_range *range = NULL;
        for (size_t k = 0; k < sizeof LINK_RANGES / sizeof *LINK_RANGES; k++)
            if (map->kind == ORR_YAML_MAP && strcmp(map->keys[i]->text, LINK_RANGES[k].name) == 0)
                range = &LINK_RANGES[k];
        if (range == NULL)
            return map->kind == ORR_YAML_MAP
                       ? fail_key(map->keys[i], "a link", KEYS, 3, err)
                       : orr_yaml_fail(map, ORR_INVALID, err, "a link is a map of its parameters");
        ORR_TRY(read_parameter(map->values[i], range,
                               (orr_calibration_parameter *)(void *)((char *)ret + range->offset),
                               err));
    }
    if (isnan(ret->frac.value) || isnan(ret->base_ns.value))
        return orr_yaml_fail(map, ORR_INVALID, err, "a link says its frac and its base_ns");
    return ORR_OK;
}

orr_status orr_calibration_read_links(const orr_yaml *document, orr_arena *arena,
                                      orr_calibration *c, orr_error *err)
{
    const orr_yaml *map = document->kind == ORR_YAML_MAP ? orr_yaml_find(document, "links") : NULL;
    if (map == NULL || map->kind != ORR_YAML_MAP)
        return orr_yaml_fail(document, ORR_INVALID, err, "links: a map of technologies is due");
    orr_link_rates *links = orr_arena_array(arena, orr_link_rates, map->n + 1);
    if (links == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < map->n; i++)
        ORR_TRY(read_link(map->keys[i], map->values[i], &links[i], err));
    c->links = links;
    c->n_links = map->n;
    return ORR_OK;
}

static orr_status read_interval(const orr_yaml *map, orr_error_interval *ret, orr_error *err)
{
    static const char *const KEYS[] = {"low", "high", "error", "rows"};
    double rows = NAN;
    orr_error_interval of = {NAN, NAN, NAN, 0};
    double *const numbers[] = {&of.low_frac, &of.high_frac, &of.error_frac, &rows};
    for (uint32_t i = 0; i < map->n; i++) {
        size_t k = 0;
        while (k < 4 && (map->kind != ORR_YAML_MAP || strcmp(map->keys[i]->text, KEYS[k]) != 0))
            k++;
        if (k == 4)
            return orr_yaml_fail(map, ORR_INVALID, err, "an interval is low, high, error and rows");
        ORR_TRY(read_number(map->values[i], KEYS[k], k == 2 ? 0 : -1, k == 3 ? 1e9 : 10, numbers[k],
                            err));
    }
    if (isnan(of.low_frac) || isnan(of.high_frac) || isnan(of.error_frac) || isnan(rows))
        return orr_yaml_fail(map, ORR_INVALID, err, "an interval is low, high, error and rows");
    of.rows = (uint32_t)rows;
    *ret = of;
    return ORR_OK;
}

orr_status orr_calibration_read_intervals(const orr_yaml *document, orr_arena *arena,
                                          orr_calibration *c, orr_error *err)
{
    const orr_yaml *map =
        document->kind == ORR_YAML_MAP ? orr_yaml_find(document, "intervals") : NULL;
    orr_error_interval *intervals = orr_arena_array(arena, orr_error_interval, ORR_JOB_KINDS);
    if (intervals == NULL)
        return orr_fail_memory(err);
    if (map == NULL || map->kind != ORR_YAML_MAP)
        return orr_yaml_fail(document, ORR_INVALID, err,
                             "intervals: a map of kinds of jobs is due");
    for (int kind = 0; kind < ORR_JOB_KINDS; kind++) {
        const orr_yaml *of = orr_yaml_find(map, orr_job_kind_name((orr_job_kind)kind));
        intervals[kind] = (orr_error_interval){NAN, NAN, NAN, 0};
        if (of != NULL)
            ORR_TRY(read_interval(of, &intervals[kind], err));
    }
    c->intervals = intervals;
    return ORR_OK;
}
