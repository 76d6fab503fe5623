/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/closest.h"
#include "cost/calibration/calibration.h"

/* Range of a field: shares of a peak up to 1, times up to a minute, anything else up to 1e18. */
typedef struct field {
    const char *name;
    size_t offset;
    double low, high;
} field;

#define SHARE_(name)                                                                               \
    {                                                                                              \
#name, offsetof(orr_calibration, name), 1e-3, 1                                            \
    }
#define TIME_(name)                                                                                \
    {                                                                                              \
#name, offsetof(orr_calibration, name), 0, 60e9                                            \
    }
#define NUMBER_(name, low, high)                                                                   \
    {                                                                                              \
#name, offsetof(orr_calibration, name), low, high                                          \
    }
static const field FIELDS[] = {
    SHARE_(matmul_bf16),
    SHARE_(matmul_fp8),
    SHARE_(matmul_fp4),
    NUMBER_(matmul_half, 0, 1e18),
    NUMBER_(matmul_narrow, 0, 1e6),
    SHARE_(matmul_grouped),
    SHARE_(matmul_odd),
    SHARE_(attention),
    SHARE_(attention_backward),
    SHARE_(attention_eager),
    SHARE_(memory),
    TIME_(kernel_ns),
    TIME_(launch_ns),
    SHARE_(scale_up),
    TIME_(scale_up_ns),
    SHARE_(scale_out),
    TIME_(scale_out_ns),
    NUMBER_(compute_slowdown, 1, 10),
    NUMBER_(dp_exposed, 0, 1),
    TIME_(micro_batch_ns),
    TIME_(step_ns),
    NUMBER_(rank_log_frac, 0, 1),
};
static const field KNOWN_LATER[] = {
    NUMBER_(error_frac, 0, 10),
    NUMBER_(low_frac, -1, 10),
    NUMBER_(high_frac, -1, 10),
};
enum {
    N_FIELDS = sizeof FIELDS / sizeof *FIELDS,
    N_LATER = sizeof KNOWN_LATER / sizeof *KNOWN_LATER
};

static double *number_of(orr_calibration *calibration, const field *f)
{
    return (double *)((char *)calibration + f->offset);
}

static const field *find_field(const field *fields, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

static orr_status fail_key(const orr_yaml *key, orr_error *err)
{
    const char *names[N_FIELDS + N_LATER + 3] = {"device", "source", "basis"};
    size_t n = 3;
    for (size_t i = 0; i < N_FIELDS; i++)
        names[n++] = FIELDS[i].name;
    for (size_t i = 0; i < N_LATER; i++)
        names[n++] = KNOWN_LATER[i].name;
    const char *close = orr_closest_match(key->text, names, n);
    return close != NULL
               ? orr_yaml_fail(key, ORR_INVALID, err,
                               "a calibration has no '%.80s'; did you mean '%s'?", key->text, close)
               : orr_yaml_fail(key, ORR_INVALID, err, "a calibration has no '%.80s'", key->text);
}

static orr_status read_number(const orr_yaml *value, const field *f, orr_calibration *calibration,
                              orr_error *err)
{
    double number;
    ORR_TRY(orr_yaml_number(value, &number, err));
    if (!(number >= f->low && number <= f->high))
        return orr_yaml_fail(value, ORR_INVALID, err, "%s: a number from %g to %g is due", f->name,
                             f->low, f->high);
    *number_of(calibration, f) = number;
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

static orr_status read_pair(const orr_yaml *key, const orr_yaml *value,
                            orr_calibration *calibration, orr_error *err)
{
    const field *f = find_field(FIELDS, N_FIELDS, key->text);
    if (f == NULL)
        f = find_field(KNOWN_LATER, N_LATER, key->text);
    if (f != NULL)
        return read_number(value, f, calibration, err);
    if (strcmp(key->text, "device") == 0)
        return read_text(value, "device", &calibration->name, err);
    if (strcmp(key->text, "source") == 0)
        return read_text(value, "source", &calibration->source, err);
    if (strcmp(key->text, "basis") == 0)
        return read_basis(value, &calibration->basis, err);
    return fail_key(key, err);
}

static orr_status check_complete(const orr_yaml *document, const orr_calibration *c, orr_error *err)
{
    const char *missing = NULL;
    for (size_t i = 0; i < N_FIELDS; i++)
        if (orr_yaml_find(document, FIELDS[i].name) == NULL)
            missing = FIELDS[i].name;
    if (c->name == NULL || c->source == NULL)
        missing = c->name == NULL ? "device" : "source";
    if (c->basis == ORR_BASIS_NONE)
        missing = "basis";
    return missing == NULL ? ORR_OK
                           : orr_yaml_fail(document, ORR_INVALID, err,
                                           "a calibration says its %s: it is missing", missing);
}

orr_status orr_calibration_read(const orr_yaml *document, orr_arena *arena,
                                const orr_calibration **ret, orr_error *err)
{
    if (document->kind != ORR_YAML_MAP)
        return orr_yaml_fail(document, ORR_INVALID, err, "a calibration is a map of its numbers");
    orr_calibration *calibration = orr_arena_one(arena, orr_calibration);
    if (calibration == NULL)
        return orr_fail_memory(err);
    *calibration = (orr_calibration){.error_frac = NAN, .low_frac = NAN, .high_frac = NAN};
    for (uint32_t i = 0; i < document->n; i++)
        ORR_TRY(read_pair(document->keys[i], document->values[i], calibration, err));
    ORR_TRY(check_complete(document, calibration, err));
    *ret = calibration;
    return ORR_OK;
}

orr_status orr_calibration_load(const char *path, orr_arena *arena, const orr_calibration **ret,
                                orr_error *err)
{
    const orr_yaml *document;
    ORR_TRY(orr_yaml_load(path, arena, &document, err));
    return orr_calibration_read(document, arena, ret, err);
}
