/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "explore/explore.h"

/* Layouts on several sites: for every set of sites, the replicas (data parallelism crosses the
 * links between sites) or the stages (the pipeline crosses) that each site gets.
 *
 * Each set is assigned in up to four ways: in proportion to capacity, by filling the sites in
 * order, by filling the largest first, and by filling the one with the fastest devices first. Where
 * devices differ, stages are also tried with layers balanced by speed; such a split is written as
 * sections of the plan, runs of stages with the same number of layers. The sets are all of up to
 * four sites, and runs of neighbours of more. */

enum { SITES = ORR_SITES_MAX };

typedef struct site_assignment {
    const orr_space *space;
    const orr_plan *degrees;
    const uint8_t *order;
    orr_space_layout *at;
    uint32_t n, room;
} site_assignment;

/* --- sites ----------------------------------------------------------------------------------- */

/* Relative speed of a device: the FLOP/s that its matrix products reach, or else its peak. */
static double speed_of(const orr_device *device)
{
    const orr_fact *peak = &device->peak_flops[ORR_DTYPE_BF16];
    const double half = orr_fact_or(peak, orr_fact_or(&device->peak_flops[ORR_DTYPE_FP16], 1));
    return orr_fact_or(&device->matmul_flops[ORR_DTYPE_BF16], half);
}

static bool is_in(uint32_t set, uint32_t site)
{
    return set >> site & 1;
}

/* All sets of few sites; of many, runs of neighbours. */
static bool is_searched(uint32_t set, uint32_t n_sites, uint32_t most)
{
    enum { FEW = 4 };
    const uint32_t from = set >> __builtin_ctz(set);
    const bool together = (from & (from + 1)) == 0;
    return (uint32_t)__builtin_popcount(set) <= most && (n_sites <= FEW || together);
}

/* --- assignment of units to sites ------------------------------------------------------------ */

/* Capacity of each site in units (replicas or stages), 0 for those outside of the set. */
typedef struct capacities {
    uint32_t at[SITES], sum, n;
} capacities;

static capacities capacities_of(const site_assignment *d, uint32_t set, uint64_t unit_devices)
{
    const orr_cluster *c = d->space->cluster;
    capacities r = {.n = (uint32_t)__builtin_popcount(set)};
    for (uint32_t i = 0; i < c->n_sites; i++) {
        r.at[i] = is_in(set, i) ? (uint32_t)(c->sites[i].devices / unit_devices) : 0;
        r.sum += r.at[i];
    }
    return r;
}

/* Assigns in proportion to capacity, at least one unit to each site. */
static bool assign_evenly(const capacities *r, uint32_t set, uint32_t total, uint16_t *ret)
{
    uint32_t assigned = 0;
    for (uint32_t i = 0; i < SITES; i++) {
        ret[i] = 0;
        if (!is_in(set, i))
            continue;
        const uint32_t share = (uint32_t)((uint64_t)total * r->at[i] / r->sum);
        ret[i] = (uint16_t)(share > 0 ? share : 1);
        assigned += ret[i];
        if (ret[i] > r->at[i])
            return false;
    }
    while (assigned <
           total) { /* the next unit goes where it takes the smallest share of the capacity */
        uint32_t best = SITES;
        for (uint32_t i = 0; i < SITES; i++)
            if (is_in(set, i) && ret[i] < r->at[i] &&
                (best == SITES || (ret[i] + 1.0) / r->at[i] < (ret[best] + 1.0) / r->at[best]))
                best = i;
        if (best == SITES)
            return false;
        ret[best]++;
        assigned++;
    }
    return assigned == total;
}

typedef enum fill_order { IN_ORDER, BIGGEST, FASTEST } fill_order;

static double fill_priority(const site_assignment *d, const capacities *r, uint32_t site,
                            fill_order first)
{
    switch (first) {
    case BIGGEST:
        return r->at[site];
    case FASTEST:
        return speed_of(d->space->cluster->sites[site].device);
    default:
        return 0;
    }
}

/* Fills one site after another; the last one gets the rest. */
static bool fill_sites(const site_assignment *d, const capacities *r, uint32_t set, uint32_t total,
                       fill_order first, uint16_t *ret)
{
    uint32_t left = set, rest = total;
    memset(ret, 0, SITES * sizeof *ret);
    while (left != 0) {
        uint32_t next = (uint32_t)__builtin_ctz(left);
        for (uint32_t i = next + 1; i < SITES; i++)
            if (is_in(left, i) && fill_priority(d, r, i, first) > fill_priority(d, r, next, first))
                next = i;
        left &= ~(1U << next);
        ret[next] = (uint16_t)(rest < r->at[next] ? rest : r->at[next]);
        rest -= ret[next];
        if (ret[next] == 0)
            return false;
    }
    return rest == 0;
}

/* Writes all distinct assignments, shape (4, SITES), and returns how many. */
static uint32_t assign_units(const site_assignment *d, const capacities *r, uint32_t set,
                             uint32_t total, uint16_t ret[4][SITES])
{
    uint32_t n = 0;
    if (r->sum < total || total < r->n || total > UINT16_MAX)
        return 0;
    for (int order = -1; order <= (int)FASTEST; order++) {
        const bool fits = order < 0 ? assign_evenly(r, set, total, ret[n])
                                    : fill_sites(d, r, set, total, (fill_order)order, ret[n]);
        bool known = !fits;
        for (uint32_t i = 0; i < n; i++)
            known |= memcmp(ret[i], ret[n], sizeof ret[n]) == 0;
        n += !known;
    }
    return n;
}

/* --- layouts -------------------------------------------------------------------------------- */

static bool is_set(const uint16_t *parts)
{
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++)
        if (parts[i] != 0)
            return true;
    return false;
}

static void add(site_assignment *d, const orr_space_layout *layout)
{
    const orr_plan *fixed = &d->space->constraints.fixed;
    if (d->n == d->room ||
        !orr_space_allows(&d->space->constraints, ORR_AT_dp_outer, layout->dp_outer) ||
        (is_set(fixed->sites) && memcmp(fixed->sites, layout->sites, sizeof fixed->sites) != 0))
        return;
    for (uint32_t i = 0; i < d->n; i++)
        if (memcmp(&d->at[i], layout, sizeof *layout) == 0)
            return;
    d->at[d->n++] = *layout;
}

static orr_space_layout make_layout(const site_assignment *d, orr_cross cross,
                                    const uint16_t *sites, uint32_t dp_outer)
{
    orr_space_layout l;
    memset(&l, 0, sizeof l); /* padding too: layouts are compared by memcmp */
    memcpy(l.order, d->order, sizeof l.order);
    l.cross = (uint8_t)cross;
    l.dp_outer = dp_outer;
    memcpy(l.sites, sites, sizeof l.sites);
    memcpy(l.section_stages, d->space->constraints.fixed.section_stages, sizeof l.section_stages);
    memcpy(l.section_layers, d->space->constraints.fixed.section_layers, sizeof l.section_layers);
    return l;
}

static uint32_t greatest_common_divisor(const uint16_t *parts)
{
    uint32_t a = 0;
    for (uint32_t i = 0; i < SITES; i++)
        for (uint32_t b = parts[i]; b != 0;) {
            const uint32_t rest = a % b;
            a = b;
            b = rest;
        }
    return a;
}

/* Replicas of a site are contiguous if dp is the outermost axis. Otherwise dp is split, and the
 * sites get parts of its outer factor. */
static void add_replicas(site_assignment *d, uint32_t set)
{
    const orr_plan *p = d->degrees;
    const capacities r = capacities_of(d, set, (uint64_t)p->tp * p->cp * p->pp);
    uint16_t sites[4][SITES];
    const uint32_t n = assign_units(d, &r, set, p->dp, sites);
    const bool outermost = d->order[ORR_BASE_AXES - 1] == ORR_AXIS_DP + 1;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t part = greatest_common_divisor(sites[i]);
        orr_space_layout l = make_layout(d, ORR_CROSS_DP, sites[i], 1);
        l.dp_crosses = r.n > 1;
        if (outermost || r.n == 1)
            add(d, &l);
        l.dp_outer = p->dp / part;
        const bool parts = part > 1 && l.dp_outer > 1;
        if (parts && (!outermost || d->space->constraints.local_steps ||
                      d->space->constraints.fixed.dp_outer != 0))
            add(d, &l);
    }
}

/* --- stages --------------------------------------------------------------------------------- */

/* Adds stages of one site that have `layers` each as a section. Stages with one more layer are kept
 * away from the ends of the model, which have the embedding and the head. */
static bool add_section(orr_space_layout *l, uint32_t *n, uint32_t stages, uint32_t layers)
{
    if (stages == 0)
        return true;
    if (*n > 0 && l->section_layers[*n - 1] == layers) {
        l->section_stages[*n - 1] = (uint16_t)(l->section_stages[*n - 1] + stages);
        return true;
    }
    if (*n == ORR_PLAN_PARTS || layers > UINT16_MAX)
        return false;
    l->section_stages[*n] = (uint16_t)stages;
    l->section_layers[(*n)++] = (uint16_t)layers;
    return true;
}

/* Balances layers by the speed of the devices, so that all stages take about as long. */
static bool balance(const site_assignment *d, orr_space_layout *l)
{
    const orr_cluster *c = d->space->cluster;
    const uint32_t layers = d->space->model->layers;
    uint32_t each[SITES] = {0}, more[SITES] = {0}, assigned = 0, n = 0;
    double sum = 0;
    for (uint32_t i = 0; i < c->n_sites; i++)
        sum += l->sites[i] * speed_of(c->sites[i].device);
    for (uint32_t i = 0; i < c->n_sites; i++) {
        each[i] = (uint32_t)(layers * speed_of(c->sites[i].device) / sum);
        assigned += l->sites[i] * each[i];
    }
    for (; assigned < layers;
         assigned++) { /* the next layer goes to the stage that would finish first */
        uint32_t best = SITES;
        double earliest = INFINITY;
        for (uint32_t i = 0; i < c->n_sites; i++) {
            const double end = (each[i] + 1) / speed_of(c->sites[i].device);
            if (more[i] < l->sites[i] && end < earliest) {
                earliest = end;
                best = i;
            }
        }
        if (best == SITES)
            return false;
        more[best]++;
    }
    for (uint32_t i = 0, done = 0; i < c->n_sites; i++) {
        const uint32_t less = l->sites[i] - more[i];
        const bool first = done == 0;
        if (l->sites[i] > 0 && each[i] == 0)
            return false;
        if (!add_section(l, &n, first ? less : more[i], first ? each[i] : each[i] + 1) ||
            !add_section(l, &n, first ? more[i] : less, first ? each[i] + 1 : each[i]))
            return false;
        done += l->sites[i];
    }
    return true;
}

static void add_with_sections(site_assignment *d, const orr_space_layout *layout)
{
    orr_space_layout balanced = *layout;
    add(d, layout);
    const bool may = !is_set(layout->section_stages) && layout->dp_outer == 1 &&
                     !d->space->uniform_devices &&
                     (d->space->constraints.searched & ORR_SEARCH_PLACEMENT);
    if (may && balance(d, &balanced))
        add(d, &balanced);
}

/* The first `n` sites of a set. */
static uint32_t first_of(uint32_t set, uint32_t n)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < SITES && n > 0; i++)
        if (is_in(set, i)) {
            first |= 1U << i;
            n--;
        }
    return first;
}

/* Assigns one pipeline to each outer part of dp; all pass through the same number of sites. */
static void add_stages(site_assignment *d, uint32_t set, uint32_t outer)
{
    const orr_plan *p = d->degrees;
    const uint32_t n_sites = (uint32_t)__builtin_popcount(set), of_each = n_sites / outer;
    const uint64_t unit = (uint64_t)p->tp * p->cp * p->dp / outer;
    uint16_t all[4][SITES] = {{0}};
    uint32_t n = 4;
    for (uint32_t left = set, o = 0; o < outer; o++) {
        const uint32_t part = first_of(left, of_each);
        const capacities r = capacities_of(d, part, unit);
        uint16_t sites[4][SITES];
        const uint32_t ways = assign_units(d, &r, part, p->pp, sites);
        n = ways < n ? ways : n;
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t s = 0; s < SITES; s++)
                all[i][s] = (uint16_t)(all[i][s] + sites[i][s]);
        left &= ~part;
    }
    for (uint32_t i = 0; i < n; i++) {
        orr_space_layout l = make_layout(d, ORR_CROSS_PP, all[i], outer);
        l.pp_crosses = true;
        l.dp_crosses = outer > 1;
        add_with_sections(d, &l);
    }
}

static void add_pipelines(site_assignment *d, uint32_t set)
{
    const uint32_t n_sites = (uint32_t)__builtin_popcount(set);
    if (d->order[ORR_BASE_AXES - 1] != ORR_AXIS_PP + 1 || d->degrees->pp < 2)
        return;
    for (uint32_t outer = 1; outer * 2 <= n_sites; outer++)
        if (n_sites % outer == 0 && d->degrees->dp % outer == 0)
            add_stages(d, set, outer);
}

/* --- all layouts ----------------------------------------------------------------------------- */

static bool crosses(const orr_space *s, orr_cross cross)
{
    for (uint32_t i = 0; i < s->list[ORR_AT_cross].n; i++)
        if (s->list[ORR_AT_cross].at[i] == cross)
            return true;
    return false;
}

uint32_t orr_space_site_layouts(const orr_space *space, const orr_plan *degrees,
                                const uint8_t *order, orr_space_layout *ret, uint32_t room)
{
    site_assignment d = {space, degrees, order, ret, 0, room};
    const uint32_t n_sites = space->cluster->n_sites;
    for (uint32_t set = 1; set < 1U << n_sites; set++) {
        if (!is_searched(set, n_sites, space->max_sites))
            continue;
        const bool alone = (set & (set - 1)) == 0;
        if (alone || crosses(space, ORR_CROSS_DP))
            add_replicas(&d, set);
        if (!alone && crosses(space, ORR_CROSS_PP))
            add_pipelines(&d, set);
    }
    return d.n;
}
