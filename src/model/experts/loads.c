/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/experts/maker.h"

/* Loads of a model's layers, from a workload. */

orr_skew_loads orr_skew_loads_of(const orr_workload *w)
{
    if (w->windows != NULL) {
        const orr_expert_windows *x = w->windows;
        const uint32_t groups = w->request_groups > 1 ? w->request_groups : 1;
        return (orr_skew_loads){x->layers, x->experts, x->windows / groups, groups, x->load,
                                x->number, x->source};
    }
    if (w->load != NULL)
        return (orr_skew_loads){w->load->layers, w->load->experts, 1, 1, w->load->share,
                                w->load->number, w->load->source};
    return (orr_skew_loads){0};
}

orr_status orr_skew_check(const orr_skew_maker *m)
{
    orr_error *err = m->err;
    const orr_skew_loads *l = &m->loads;
    const orr_expert_placement *p = m->placement;
    const uint32_t experts = m->model->moe.experts;
    if (l->layers > 0 && l->experts > experts)
        return orr_fail(err, ORR_INVALID, "%s has %u experts, and %s names %u", m->model->name,
                        experts, l->source, l->experts);
    if (m->routes != NULL && m->routes->top_k != m->model->moe.top_k)
        return orr_fail(err, ORR_INVALID, "%s has %u experts a token, and %s records %u",
                        m->model->name, m->model->moe.top_k, m->routes->source, m->routes->top_k);
    if (l->layers > 0 &&
        (l->windows == 0 || (m->ranks % l->groups != 0 && l->groups % m->ranks != 0)))
        return orr_fail(err, ORR_INVALID, "%s: %u groups of requests do not divide %u ranks (ep)",
                        l->source, l->groups, m->ranks);
    if (p != NULL && p->experts != experts)
        return orr_fail(err, ORR_INVALID, "%s has %u experts, and %s places %u", m->model->name,
                        experts, p->source, p->experts);
    if (p != NULL && p->ranks % m->ranks != 0)
        return orr_fail(err, ORR_INVALID,
                        "%s places experts on %u ranks, which ep=%u does not divide", p->source,
                        p->ranks, m->ranks);
    return ORR_OK;
}

uint32_t orr_skew_recorded_layer(const orr_skew_maker *m, uint32_t i, uint32_t layers,
                                 const uint32_t *number)
{
    uint32_t found = 0, at = 0;
    for (uint32_t l = 0; l < layers && number != NULL; l++)
        for (uint32_t k = 0; k < m->n_layers; k++)
            if (number[l] == m->layer_of[k]) {
                found++;
                at = k == i ? l : at;
            }
    return found == m->n_layers ? at : (uint32_t)((uint64_t)i * layers / m->n_layers);
}

uint32_t orr_skew_parts(const orr_skew_maker *m)
{
    const uint32_t groups = m->loads.groups > 1 ? m->loads.groups : 1;
    return groups < m->ranks ? groups : m->ranks;
}

/* Adds a group's shares of a layer in a window, `weight` times. Nothing known, or nothing chosen:
 * even. */
static void add_shares(const orr_skew_maker *m, size_t row, double weight, double *share)
{
    const orr_skew_loads *l = &m->loads;
    const double *load = l->load + row * l->experts;
    const uint32_t experts = m->model->moe.experts;
    double sum = 0;
    for (uint32_t e = 0; e < l->experts; e++)
        sum += load[e];
    for (uint32_t e = 0; e < experts; e++)
        share[e] += weight * (!(sum > 0) ? 1.0 / experts : e < l->experts ? load[e] / sum : 0);
}

void orr_skew_set_shares(orr_skew_maker *m, uint32_t layer, uint32_t window)
{
    const orr_skew_loads *l = &m->loads;
    const uint32_t experts = m->model->moe.experts, parts = orr_skew_parts(m);
    const uint32_t groups = l->groups > parts ? l->groups / parts : 1; /* of a part */
    memset(m->at.share, 0, (size_t)parts * experts * sizeof *m->at.share);
    for (uint32_t g = 0; g < parts * groups; g++) {
        const size_t row = ((size_t)window * l->groups + g) * l->layers + layer;
        add_shares(m, row, 1.0 / groups, m->at.share + (size_t)(g / groups) * experts);
    }
}
