/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/decision/draws.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "cost/calibration/parameters.h"

static bool has_technology(const orr_cluster *cluster, const char *technology)
{
    for (uint32_t l = 0; l < cluster->n_levels; l++)
        if (cluster->levels[l].technology != NULL &&
            strcmp(cluster->levels[l].technology, technology) == 0)
            return true;
    return false;
}

/* Adds a number whose interval is known, as orr_order_of() moves them. */
static void add_number(orr_drawn_number *numbers, uint32_t *n, const orr_calibration_parameter *p,
                       const orr_drawn_number *where)
{
    if (isnan(p->low) || isnan(p->high) || !(p->value > 0) || !(0 < p->low && p->low < p->high))
        return;
    numbers[*n] = *where;
    numbers[*n].down = fmin(log(p->low / p->value), 0);
    numbers[(*n)++].up = fmax(log(p->high / p->value), 0);
}

orr_status orr_calibration_draws_of(const orr_calibration *usual, const orr_cluster *cluster,
                                    orr_arena *arena, orr_calibration_draws *ret, orr_error *err)
{
    orr_drawn_number *numbers =
        orr_arena_array(arena, orr_drawn_number, ORR_CALIBRATION_FIELDS + 3 * usual->n_links);
    uint32_t n = 0;
    if (numbers == NULL)
        return orr_fail_memory(err);
    for (int k = 0; k < ORR_CALIBRATION_FIELDS && usual->parameters != NULL; k++) {
        const orr_calibration_range *range = &orr_calibration_ranges[k];
        add_number(numbers, &n, &usual->parameters[k],
                   &(orr_drawn_number){.offset = range->offset,
                                       .link = ORR_DRAWN_FIELD,
                                       .lowest = range->low,
                                       .most = range->high});
    }
    for (uint32_t i = 0; i < usual->n_links; i++) {
        const orr_link_rates *link = &usual->links[i];
        if (!has_technology(cluster, link->technology))
            continue;
        orr_drawn_number number = {.offset = offsetof(orr_link_rates, frac.value), .link = i};
        number.most = 1;
        add_number(numbers, &n, &link->frac, &number);
        number.offset = offsetof(orr_link_rates, reduction.value);
        add_number(numbers, &n, &link->reduction, &number);
        number.offset = offsetof(orr_link_rates, base_ns.value);
        number.most = INFINITY;
        add_number(numbers, &n, &link->base_ns, &number);
    }
    *ret = (orr_calibration_draws){.usual = usual, .numbers = numbers, .n = n, .widening = 1};
    return ORR_OK;
}

/* A standard normal number between the ends of its 90 % interval, over that end: -1 to 1. By the
 * transform of Box and Muller (Annals of Mathematical Statistics 29, 1958), drawn again where it
 * lies outside. */
static double draw_within_interval(orr_random *random)
{
    static const double END = 1.6448536269514722; /* of which a normal number exceeds 5 % */
    double z;
    do {
        const double radius = sqrt(-2 * log1p(-orr_random_unit(random)));
        z = radius * cos(2 * M_PI * orr_random_unit(random));
    } while (fabs(z) > END);
    return z / END;
}

void orr_calibration_draw(const orr_calibration_draws *draws, uint32_t index, orr_link_rates *links,
                          orr_calibration *ret)
{
    orr_random random = orr_random_of(draws->seed, index);
    *ret = *draws->usual;
    if (ret->n_links > 0)
        memcpy(links, draws->usual->links, ret->n_links * sizeof *links);
    ret->links = links;
    for (uint32_t i = 0; i < draws->n; i++) {
        const orr_drawn_number *number = &draws->numbers[i];
        char *base = number->link == ORR_DRAWN_FIELD ? (char *)ret : (char *)&links[number->link];
        double *at = (double *)(base + number->offset);
        const double t = draw_within_interval(&random) * draws->widening;
        const double moved = *at * exp(t < 0 ? -t * number->down : t * number->up);
        if (moved != *at)
            *at = fmax(fmin(moved, number->most), number->lowest);
    }
}
