/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "explore/explore.h"

/* How much of a plan each site gets: replicas where data parallelism crosses the cuts, stages where
 * the pipeline does. */

enum { SITES = ORR_SITES_MAX };

typedef struct dealer {
    const orr_space *space;
    const orr_plan *degrees;
    const uint8_t *order;
    orr_space_layout *at;
    uint32_t n, room;
} dealer;

/* --- what sites are -------------------------------------------------------------------------- */

/* Arithmetic of a device, to compare devices by: what products of matrices reach, or what its peak
 * is. */
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

/* All sets of few sites; of many, those that stand together. */
static bool is_tried(uint32_t set, uint32_t n_sites, uint32_t most)
{
    enum { FEW = 4 };
    const uint32_t from = set >> __builtin_ctz(set);
    const bool together = (from & (from + 1)) == 0;
    return (uint32_t)__builtin_popcount(set) <= most && (n_sites <= FEW || together);
}

/* --- shares ---------------------------------------------------------------------------------- */

/* Units that each site has room for, 0 for those that are not in the set. */
typedef struct rooms {
    uint32_t at[SITES], sum, n;
} rooms;

static rooms rooms_of(const dealer *d, uint32_t set, uint64_t unit_devices)
{
    const orr_cluster *c = d->space->cluster;
    rooms r = {.n = (uint32_t)__builtin_popcount(set)};
    for (uint32_t i = 0; i < c->n_sites; i++) {
        r.at[i] = is_in(set, i) ? (uint32_t)(c->sites[i].devices / unit_devices) : 0;
        r.sum += r.at[i];
    }
    return r;
}

/* In proportion to what there is room for, at least one each. */
static bool deal_evenly(const rooms *r, uint32_t set, uint32_t total, uint16_t *ret)
{
    uint32_t dealt = 0;
    for (uint32_t i = 0; i < SITES; i++) {
        ret[i] = 0;
        if (!is_in(set, i))
            continue;
        const uint32_t share = (uint32_t)((uint64_t)total * r->at[i] / r->sum);
        ret[i] = (uint16_t)(share > 0 ? share : 1);
        dealt += ret[i];
        if (ret[i] > r->at[i])
            return false;
    }
    while (dealt < total) { /* one more for whom it costs least of its room */
        uint32_t best = SITES;
        for (uint32_t i = 0; i < SITES; i++)
            if (is_in(set, i) && ret[i] < r->at[i] &&
                (best == SITES || (ret[i] + 1.0) / r->at[i] < (ret[best] + 1.0) / r->at[best]))
                best = i;
        if (best == SITES)
            return false;
        ret[best]++;
        dealt++;
    }
    return dealt == total;
}

typedef enum first_served { IN_ORDER, BIGGEST, FASTEST } first_served;

static double rank_of(const dealer *d, const rooms *r, uint32_t site, first_served first)
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

/* One site full after the other; the last of them has what is left. */
static bool deal_fully(const dealer *d, const rooms *r, uint32_t set, uint32_t total,
                       first_served first, uint16_t *ret)
{
    uint32_t left = set, rest = total;
    memset(ret, 0, SITES * sizeof *ret);
    while (left != 0) {
        uint32_t next = (uint32_t)__builtin_ctz(left);
        for (uint32_t i = next + 1; i < SITES; i++)
            if (is_in(left, i) && rank_of(d, r, i, first) > rank_of(d, r, next, first))
                next = i;
        left &= ~(1U << next);
        ret[next] = (uint16_t)(rest < r->at[next] ? rest : r->at[next]);
        rest -= ret[next];
        if (ret[next] == 0)
            return false;
    }
    return rest == 0;
}

/* All ways to deal that differ, shape (4, SITES); how many. */
static uint32_t deal(const dealer *d, const rooms *r, uint32_t set, uint32_t total,
                     uint16_t ret[4][SITES])
{
    uint32_t n = 0;
    if (r->sum < total || total < r->n || total > UINT16_MAX)
        return 0;
    for (int how = -1; how <= (int)FASTEST; how++) {
        const bool goes = how < 0 ? deal_evenly(r, set, total, ret[n])
                                  : deal_fully(d, r, set, total, (first_served)how, ret[n]);
        bool known = !goes;
        for (uint32_t i = 0; i < n; i++)
            known |= memcmp(ret[i], ret[n], sizeof ret[n]) == 0;
        n += !known;
    }
    return n;
}

/* --- layouts --------------------------------------------------------------------------------- */

static bool is_said(const uint16_t *parts)
{
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++)
        if (parts[i] != 0)
            return true;
    return false;
}

static void add(dealer *d, const orr_space_layout *layout)
{
    const orr_plan *fixed = &d->space->words.fixed;
    if (d->n == d->room || !orr_space_allows(&d->space->words, ORR_AT_dp_outer, layout->dp_outer) ||
        (is_said(fixed->sites) && memcmp(fixed->sites, layout->sites, sizeof fixed->sites) != 0))
        return;
    for (uint32_t i = 0; i < d->n; i++)
        if (memcmp(&d->at[i], layout, sizeof *layout) == 0)
            return;
    d->at[d->n++] = *layout;
}

static orr_space_layout begin(const dealer *d, orr_cross cross, const uint16_t *sites,
                              uint32_t dp_outer)
{
    orr_space_layout l;
    memset(&l, 0, sizeof l); /* layouts are compared whole */
    memcpy(l.order, d->order, sizeof l.order);
    l.cross = (uint8_t)cross;
    l.dp_outer = dp_outer;
    memcpy(l.sites, sites, sizeof l.sites);
    memcpy(l.section_stages, d->space->words.fixed.section_stages, sizeof l.section_stages);
    memcpy(l.section_layers, d->space->words.fixed.section_layers, sizeof l.section_layers);
    return l;
}

static uint32_t common_part(const uint16_t *parts)
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

/* Replicas of a site stand together where dp is the outermost axis; else its outer parts are what
 * sites get. */
static void add_replicas(dealer *d, uint32_t set)
{
    const orr_plan *p = d->degrees;
    const rooms r = rooms_of(d, set, (uint64_t)p->tp * p->cp * p->pp);
    uint16_t sites[4][SITES];
    const uint32_t n = deal(d, &r, set, p->dp, sites);
    const bool outermost = d->order[ORR_BASE_AXES - 1] == ORR_AXIS_DP + 1;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t part = common_part(sites[i]);
        orr_space_layout l = begin(d, ORR_CROSS_DP, sites[i], 1);
        l.dp_crosses = r.n > 1;
        if (outermost || r.n == 1)
            add(d, &l);
        l.dp_outer = p->dp / part;
        const bool parts = part > 1 && l.dp_outer > 1;
        if (parts &&
            (!outermost || d->space->words.local_steps || d->space->words.fixed.dp_outer != 0))
            add(d, &l);
    }
}

/* --- stages ---------------------------------------------------------------------------------- */

/* Layers of a site's stages, as sections: those with one more stand away from the ends of the
 * model. */
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

/* Layers by the speed of devices: all stages then take about as long. */
static bool balance(const dealer *d, orr_space_layout *l)
{
    const orr_cluster *c = d->space->cluster;
    const uint32_t layers = d->space->model->layers;
    uint32_t each[SITES] = {0}, more[SITES] = {0}, dealt = 0, n = 0;
    double sum = 0;
    for (uint32_t i = 0; i < c->n_sites; i++)
        sum += l->sites[i] * speed_of(c->sites[i].device);
    for (uint32_t i = 0; i < c->n_sites; i++) {
        each[i] = (uint32_t)(layers * speed_of(c->sites[i].device) / sum);
        dealt += l->sites[i] * each[i];
    }
    for (; dealt < layers; dealt++) { /* one more for the stage that is then the least late */
        uint32_t best = SITES;
        double least = INFINITY;
        for (uint32_t i = 0; i < c->n_sites; i++) {
            const double late = (each[i] + 1) / speed_of(c->sites[i].device);
            if (more[i] < l->sites[i] && late < least) {
                least = late;
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

static void add_with_sections(dealer *d, const orr_space_layout *layout)
{
    orr_space_layout balanced = *layout;
    add(d, layout);
    const bool may = !is_said(layout->section_stages) && layout->dp_outer == 1 &&
                     !d->space->alike && (d->space->words.searched & ORR_SEARCH_PLACEMENT);
    if (may && balance(d, &balanced))
        add(d, &balanced);
}

/* Of a set of sites, its first so many. */
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

/* A pipeline for each outer part of dp, through as many sites as every other. */
static void add_stages(dealer *d, uint32_t set, uint32_t outer)
{
    const orr_plan *p = d->degrees;
    const uint32_t n_sites = (uint32_t)__builtin_popcount(set), of_each = n_sites / outer;
    const uint64_t unit = (uint64_t)p->tp * p->cp * p->dp / outer;
    uint16_t all[4][SITES] = {{0}};
    uint32_t n = 4;
    for (uint32_t left = set, o = 0; o < outer; o++) {
        const uint32_t part = first_of(left, of_each);
        const rooms r = rooms_of(d, part, unit);
        uint16_t sites[4][SITES];
        const uint32_t ways = deal(d, &r, part, p->pp, sites);
        n = ways < n ? ways : n;
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t s = 0; s < SITES; s++)
                all[i][s] = (uint16_t)(all[i][s] + sites[i][s]);
        left &= ~part;
    }
    for (uint32_t i = 0; i < n; i++) {
        orr_space_layout l = begin(d, ORR_CROSS_PP, all[i], outer);
        l.pp_crosses = true;
        l.dp_crosses = outer > 1;
        add_with_sections(d, &l);
    }
}

static void add_pipelines(dealer *d, uint32_t set)
{
    const uint32_t n_sites = (uint32_t)__builtin_popcount(set);
    if (d->order[ORR_BASE_AXES - 1] != ORR_AXIS_PP + 1 || d->degrees->pp < 2)
        return;
    for (uint32_t outer = 1; outer * 2 <= n_sites; outer++)
        if (n_sites % outer == 0 && d->degrees->dp % outer == 0)
            add_stages(d, set, outer);
}

/* --- all of them ----------------------------------------------------------------------------- */

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
    dealer d = {space, degrees, order, ret, 0, room};
    const uint32_t n_sites = space->cluster->n_sites;
    for (uint32_t set = 1; set < 1U << n_sites; set++) {
        if (!is_tried(set, n_sites, space->max_sites))
            continue;
        const bool alone = (set & (set - 1)) == 0;
        if (alone || crosses(space, ORR_CROSS_DP))
            add_replicas(&d, set);
        if (!alone && crosses(space, ORR_CROSS_PP))
            add_pipelines(&d, set);
    }
    return d.n;
}
