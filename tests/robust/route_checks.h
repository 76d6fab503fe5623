/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ROBUST_ROUTE_CHECKS_H
#define TESTS_ROBUST_ROUTE_CHECKS_H

#include <math.h>
#include <stdbool.h>

#include <orrery/experts.h>

/* What holds of all routes and windows that were read, whatever the file was. */

static inline bool distinct(const uint16_t *choice, uint32_t n, uint32_t experts)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j <= i; j++)
            if (choice[i] >= experts || (j < i && choice[i] == choice[j]))
                return false;
    return true;
}

static inline bool routes_are_sound(const orr_routes *r)
{
    uint16_t choice[ORR_ROUTE_CHOICES_MAX];
    if (r->tokens == 0 || r->layers == 0 || r->top_k == 0 || r->top_k > r->experts ||
        r->experts > ORR_EXPERTS_MAX || r->requests == 0 || r->kinds == 0)
        return false;
    for (uint32_t l = 1; l < r->layers; l++)
        if (r->number[l] <= r->number[l - 1])
            return false;
    for (uint32_t i = 0; i < r->requests; i++)
        if (r->kind[i] >= r->kinds || r->request_name[i] == NULL)
            return false;
    for (uint64_t t = 0; t < r->tokens; t++) {
        if (r->request[t] >= r->requests || r->phase[t] > ORR_ROUTE_DECODE)
            return false;
        for (uint32_t l = 0; l < r->layers; l++) {
            orr_routes_choices(r, l, t, 1, choice);
            if (!distinct(choice, r->top_k, r->experts))
                return false;
        }
    }
    return true;
}

static inline bool windows_are_sound(const orr_expert_windows *w)
{
    if (w->windows == 0 || w->layers == 0 || w->experts == 0 || w->experts > ORR_EXPERTS_MAX)
        return false;
    for (uint32_t l = 0; l < w->layers; l++) {
        double sum = 0;
        for (uint32_t i = 0; i < w->windows; i++)
            for (uint32_t e = 0; e < w->experts; e++) {
                const double load = w->load[((size_t)i * w->layers + l) * w->experts + e];
                if (!(load >= 0) || isinf(load))
                    return false;
                sum += load;
            }
        if (!(sum > 0) || (l > 0 && w->number[l] <= w->number[l - 1]))
            return false;
    }
    return true;
}

/* Statuses that a broken file may give. */
static inline bool is_refusal(orr_status status)
{
    return status == ORR_PARSE || status == ORR_INVALID || status == ORR_LIMIT ||
           status == ORR_UNSUPPORTED;
}

#endif /* TESTS_ROBUST_ROUTE_CHECKS_H */
