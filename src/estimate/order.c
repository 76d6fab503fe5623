/* SPDX-License-Identifier: Apache-2.0 */
#include "estimate/order.h"

#include <math.h>
#include <string.h>

#include "cost/calibration/parameters.h"

typedef struct order_state {
    const orr_order_job *jobs; /* shape (2) */
    orr_job_options options;
    orr_calibration calibration; /* the one that is moved */
    orr_link_rates *links;       /* shape (calibration.n_links) */
    orr_order_row *rows;
    orr_order order;
    orr_error *err;
} order_state;

static orr_status estimate_ratio(order_state *s, double *ret)
{
    double step[2];
    for (int i = 0; i < 2; i++) {
        orr_estimator *estimator;
        orr_estimate estimate;
        ORR_TRY(orr_estimator_new(s->jobs[i].model, s->jobs[i].cluster, &s->options, &estimator,
                                  s->err));
        const orr_status status = orr_estimate_of(estimator, s->jobs[i].plan, &estimate, s->err);
        orr_estimator_free(estimator);
        if (status != ORR_OK)
            return status;
        step[i] = (double)estimate.step_ns;
    }
    *ret = step[1] / step[0];
    return ORR_OK;
}

/* Moves the number at `at` to both ends of a parameter's interval. */
static orr_status move(order_state *s, const char *name, const orr_calibration_parameter *p,
                       double *at)
{
    const double kept = *at;
    orr_order_row row = {.parameter = name, .low = p->low, .high = p->high};
    if (isnan(p->low) || isnan(p->high) || !(p->value > 0) || !(p->low < p->high))
        return ORR_OK;
    *at = kept * p->low / p->value;
    ORR_TRY(estimate_ratio(s, &row.ratio_low));
    *at = kept * p->high / p->value;
    ORR_TRY(estimate_ratio(s, &row.ratio_high));
    *at = kept;
    row.turns = (row.ratio_low - 1) * (row.ratio_high - 1) < 0 ||
                (row.ratio_low - 1) * (s->order.ratio - 1) < 0;
    s->order.n_turns += row.turns;
    s->rows[s->order.n++] = row;
    return ORR_OK;
}

static bool has_technology(const orr_cluster *cluster, const char *technology)
{
    for (uint32_t l = 0; l < cluster->n_levels; l++)
        if (cluster->levels[l].technology != NULL &&
            strcmp(cluster->levels[l].technology, technology) == 0)
            return true;
    return false;
}

static orr_status move_link(order_state *s, orr_link_rates *link, orr_arena *arena)
{
    struct {
        const char *name;
        orr_calibration_parameter *parameter;
    } of[] = {{"frac", &link->frac}, {"base_ns", &link->base_ns}, {"reduction", &link->reduction}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const char *name = orr_arena_printf(arena, "%s %s", link->technology, of[i].name);
        const orr_calibration_parameter p = *of[i].parameter;
        if (name == NULL)
            return orr_fail_memory(s->err);
        ORR_TRY(move(s, name, &p, &of[i].parameter->value));
    }
    return ORR_OK;
}

static orr_status move_all(order_state *s, orr_arena *arena)
{
    orr_calibration *c = &s->calibration;
    for (int k = 0; k < ORR_CALIBRATION_FIELDS && c->parameters != NULL; k++) {
        const char *name = orr_calibration_field_name((orr_calibration_field)k);
        ORR_TRY(move(s, name, &c->parameters[k], orr_calibration_number(c, k)));
    }
    for (uint32_t i = 0; i < c->n_links; i++)
        if (has_technology(s->jobs[0].cluster, c->links[i].technology) ||
            has_technology(s->jobs[1].cluster, c->links[i].technology))
            ORR_TRY(move_link(s, &s->links[i], arena));
    return ORR_OK;
}

orr_status orr_order_of(const orr_order_job jobs[2], const orr_job_options *options,
                        orr_arena *arena, orr_order *ret, orr_error *err)
{
    order_state s = {.jobs = jobs, .options = *options, .err = err};
    const orr_calibration *usual = options->calibration;
    if (strcmp(jobs[0].cluster->device->name, jobs[1].cluster->device->name) != 0)
        return orr_fail(err, ORR_INVALID, "jobs on different devices are calibrated apart");
    if (usual == NULL)
        ORR_TRY(orr_calibration_of(jobs[0].cluster->device, options->software_year, arena, &usual,
                                   err));
    s.calibration = *usual;
    s.links = orr_arena_array(arena, orr_link_rates, usual->n_links + 1);
    s.rows = orr_arena_array(arena, orr_order_row, ORR_CALIBRATION_FIELDS + 3 * usual->n_links + 1);
    if (s.links == NULL || s.rows == NULL)
        return orr_fail_memory(err);
    if (usual->n_links > 0)
        memcpy(s.links, usual->links, usual->n_links * sizeof *s.links);
    s.calibration.links = s.links;
    s.options.calibration = &s.calibration;
    ORR_TRY(estimate_ratio(&s, &s.order.ratio));
    ORR_TRY(move_all(&s, arena));
    s.order.rows = s.rows;
    *ret = s.order;
    return ORR_OK;
}
