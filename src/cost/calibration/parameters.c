/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/calibration/parameters.h"

#include <math.h>
#include <string.h>

#define RANGE_(name, low, high)                                                                    \
    [ORR_CALIBRATION_##name] = {#name, offsetof(orr_calibration, name), low, high}
/* A share of a peak is at most 1; a time at most a minute. */
#define SHARE_(name) RANGE_(name, 1e-3, 1)
#define TIME_(name)  RANGE_(name, 0, 60e9)
const orr_calibration_range orr_calibration_ranges[ORR_CALIBRATION_FIELDS] = {
    SHARE_(matmul_bf16),
    SHARE_(matmul_fp8),
    SHARE_(matmul_fp4),
    RANGE_(matmul_half, 0, 1e18),
    RANGE_(matmul_narrow, 0, 1e6),
    SHARE_(matmul_grouped),
    SHARE_(matmul_odd),
    SHARE_(attention),
    SHARE_(attention_backward),
    RANGE_(attention_half, 0, 1e6),
    RANGE_(attention_narrow, 0, 1e4),
    SHARE_(attention_eager),
    SHARE_(memory),
    SHARE_(stream),
    TIME_(kernel_ns),
    TIME_(launch_ns),
    SHARE_(scale_up),
    TIME_(scale_up_ns),
    SHARE_(scale_out),
    TIME_(scale_out_ns),
    TIME_(collective_ns),
    RANGE_(compute_slowdown, 1, 10),
    RANGE_(dp_exposed, 0, 1),
    TIME_(micro_batch_ns),
    TIME_(step_ns),
    TIME_(serving_ns),
    TIME_(engine_launch_ns),
    TIME_(recommendation_ns),
    RANGE_(jitter_frac, 0, 1),
};

const char *orr_calibration_field_name(orr_calibration_field field)
{
    return orr_calibration_ranges[field].name;
}

const char *orr_calibration_field_about(orr_calibration_field field)
{
    static const char *const ABOUT[ORR_CALIBRATION_FIELDS] = {
#define ABOUT_(name, text) text,
        ORR_CALIBRATION_MAP(ABOUT_)
#undef ABOUT_
    };
    return ABOUT[field];
}

const char *orr_job_kind_name(orr_job_kind kind)
{
    static const char *const NAMES[ORR_JOB_KINDS] = {
#define NAME_(name, text) text,
        ORR_JOB_KIND_MAP(NAME_)
#undef NAME_
    };
    return NAMES[kind];
}

double orr_software_year(double year)
{
    if (!(year > 0))
        return ORR_SOFTWARE_NEWEST;
    return fmin(fmax(year, ORR_SOFTWARE_OLDEST), ORR_SOFTWARE_NEWEST);
}

double orr_calibration_value_in(const orr_calibration_parameter *parameter,
                                const orr_calibration_range *range, double year)
{
    const double years = fmin(orr_software_year(year) - parameter->until, 0),
                 value = parameter->value * exp(parameter->yearly * years);
    return fmin(fmax(value, range->low), range->high);
}

orr_calibration orr_calibration_in_year(const orr_calibration *calibration, double software_year)
{
    orr_calibration c = *calibration;
    c.software_year = orr_software_year(software_year);
    for (int i = 0; i < ORR_CALIBRATION_FIELDS && c.parameters != NULL; i++)
        *orr_calibration_number(&c, i) =
            orr_calibration_value_in(&c.parameters[i], &orr_calibration_ranges[i], software_year);
    return c;
}

const orr_link_rates *orr_calibration_link(const orr_calibration *calibration,
                                           const char *technology)
{
    for (uint32_t i = 0; technology != NULL && i < calibration->n_links; i++)
        if (strcmp(calibration->links[i].technology, technology) == 0)
            return &calibration->links[i];
    return NULL;
}

orr_status orr_calibration_for_kind(const orr_calibration *calibration, orr_job_kind kind,
                                    orr_arena *arena, const orr_calibration **ret, orr_error *err)
{
    orr_calibration *c = orr_arena_one(arena, orr_calibration);
    if (c == NULL)
        return orr_fail_memory(err);
    *c = *calibration;
    if (kind == ORR_JOB_KIND_RECOMMENDATION)
        c->step_ns = c->recommendation_ns;
    else if (kind == ORR_JOB_KIND_PREFILL || kind == ORR_JOB_KIND_DECODE)
        c->step_ns = c->serving_ns;
    /* A serving loop and a recommender have one micro-batch a stage, and that overhead in it;
     * serving engines launch their collectives with their graphs. */
    if (kind >= ORR_JOB_KIND_PREFILL)
        c->launch_ns = c->engine_launch_ns; /* compiled, not an eager framework */
    if (kind >= ORR_JOB_KIND_PREFILL)
        c->micro_batch_ns = c->collective_ns = 0;
    if (c->intervals == NULL && kind >= ORR_JOB_KIND_PREFILL)
        c->error_frac = c->low_frac = c->high_frac = NAN; /* those of training */
    if (c->intervals != NULL) {
        const orr_error_interval *of = &c->intervals[kind];
        const double widening = c->widening > 0 ? c->widening : 1;
        c->error_frac = of->error_frac;
        c->low_frac = expm1(widening * log1p(of->low_frac));
        c->high_frac = expm1(widening * log1p(of->high_frac));
    }
    *ret = c;
    return ORR_OK;
}
