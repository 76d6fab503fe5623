/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/strtab.h"
#include "sim/flow/state.h"

/* Whole bytes that flows of the link (or of one of the class) have sent so far and that are still
 * counted with the flow. */
static double bytes_under_way(const orr_flows *flows, uint32_t l)
{
    int64_t bytes = 0;
    const orr_rate_hop *hops = flows->rates.hops.at;
    for (int32_t h = flows->rates.links[l].first_hop; h >= 0; h = hops[h].next) {
        const orr_flow_row *row = &flows->rows.at[hops[h].flow];
        const int64_t left = row->left - row->rate * (flows->now_ns - row->since_ns);
        bytes += hops[h].weight *
                 (row->bytes - (((left > 0 ? left : 0) + (1 << ORR_FLOW_UNIT_SHIFT) - 1) >>
                                ORR_FLOW_UNIT_SHIFT));
    }
    return (double)bytes;
}

static bool has_carried(const orr_flows *flows, uint32_t l)
{
    return l != ORR_NONE && (flows->uses[l].bytes > 0 || flows->rates.links[l].n_flows > 0);
}

/* The rows of `uses` of a link: its own, or those of its class in each component. */
typedef struct link_rows {
    const uint32_t *at;
    uint32_t n;
} link_rows;

static link_rows rows_of(const orr_flows *flows, const uint32_t *link)
{
    const orr_link_classes *classes = flows->classes;
    if (classes == NULL)
        return (link_rows){link, 1};
    return (link_rows){classes->class_of + (size_t)*link * classes->n_components,
                       classes->n_components};
}

typedef struct dated_load {
    int64_t at_ns, load;
    uint32_t row; /* of the link's rows */
} dated_load;

static int by_time(const void *a_, const void *b_)
{
    const dated_load *a = a_, *b = b_;
    if (a->at_ns != b->at_ns)
        return a->at_ns < b->at_ns ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

/* The sum of the loads of all rows over time. */
static bool sum_loads(const orr_flows *flows, link_rows rows, orr_link_load *ret)
{
    size_t n = 0, all = 0;
    for (uint32_t i = 0; i < rows.n; i++)
        all += rows.at[i] != ORR_NONE ? flows->uses[rows.at[i]].samples.n : 0;
    dated_load *loads = orr_calloc(all + 1, sizeof *loads);
    int64_t *load = orr_calloc(rows.n + 1, sizeof *load), sum = 0;
    bool ok = loads != NULL && load != NULL;
    for (uint32_t i = 0; ok && i < rows.n; i++) {
        if (rows.at[i] == ORR_NONE)
            continue;
        const orr_link_load *use = &flows->uses[rows.at[i]];
        for (size_t k = 0; k < use->samples.n; k++)
            loads[n++] = (dated_load){use->samples.at[k].at_ns, use->samples.at[k].load, i};
    }
    if (ok)
        qsort(loads, n, sizeof *loads, by_time);
    for (size_t i = 0; ok && i < n; i++) {
        sum += loads[i].load - load[loads[i].row];
        load[loads[i].row] = loads[i].load;
        if (i + 1 < n && loads[i + 1].at_ns == loads[i].at_ns)
            continue;
        ok = orr_link_load_reserve(ret, ORR_FLOW_SAMPLES);
        if (ok)
            orr_link_load_set(ret, loads[i].at_ns, sum);
    }
    orr_free(loads);
    orr_free(load);
    return ok;
}

static bool fill_samples(const orr_link_load *use, int64_t capacity, orr_arena *arena,
                         orr_link_use *ret)
{
    const uint32_t n = (uint32_t)use->samples.n;
    int64_t *at_ns = orr_arena_array(arena, int64_t, n);
    double *load_frac = orr_arena_array(arena, double, n);
    if (at_ns == NULL || load_frac == NULL)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        at_ns[i] = use->samples.at[i].at_ns;
        load_frac[i] = (double)use->samples.at[i].load / (double)capacity;
    }
    ret->n_samples = n;
    ret->at_ns = at_ns;
    ret->load_frac = load_frac;
    return true;
}

/* What a link carried: the sum of its rows, of which at most one carries at any time. */
static bool fill_link(const orr_flows *flows, uint32_t l, int64_t begin_ns, orr_arena *arena,
                      orr_link_use *ret)
{
    const orr_fabric_link *link = &flows->fabric.links[l];
    const link_rows rows = rows_of(flows, &l);
    const orr_link_load *only = NULL;
    uint32_t carried = 0;
    *ret = (orr_link_use){.level = link->level, .unit = link->unit, .up = link->up};
    for (uint32_t i = 0; i < rows.n; i++) {
        if (!has_carried(flows, rows.at[i]))
            continue;
        only = &flows->uses[rows.at[i]];
        carried++;
        ret->bytes += (double)only->bytes + bytes_under_way(flows, rows.at[i]);
        ret->busy_ns += (double)only->busy_ns;
        if (only->load > 0)
            ret->busy_ns += (double)(flows->now_ns - only->since_ns);
    }
    orr_link_load sum = {0};
    const bool ok = (carried == 1 || sum_loads(flows, rows, &sum)) &&
                    fill_samples(carried == 1 ? only : &sum, link->capacity, arena, ret);
    orr_link_load_done(&sum);
    const double span_ns = (double)(flows->now_ns - begin_ns);
    const double most_bytes = ldexp((double)link->capacity * span_ns, -ORR_FLOW_UNIT_SHIFT);
    ret->utilisation_frac = most_bytes > 0 ? ret->bytes / most_bytes : 0;
    return ok;
}

/* The text by which links of equal rows are found: the first of them is filled in. */
static uint32_t rows_id(const orr_flows *flows, uint32_t l, orr_strtab *seen)
{
    const link_rows rows = rows_of(flows, &l);
    return orr_strtab_add(seen, (const char *)rows.at, rows.n * sizeof *rows.at);
}

static bool carries(const orr_flows *flows, uint32_t l)
{
    const link_rows rows = rows_of(flows, &l);
    for (uint32_t i = 0; i < rows.n; i++)
        if (has_carried(flows, rows.at[i]))
            return true;
    return false;
}

/* Fills in the links that carried anything. Links whose classes are equal share their samples. */
static bool fill_links(const orr_flows *flows, int64_t begin_ns, orr_arena *arena,
                       orr_link_use *links, uint32_t n_links)
{
    orr_strtab *seen = orr_strtab_new();
    uint32_t *first = orr_calloc((size_t)n_links + 1, sizeof *first), n = 0; /* by id - 1 */
    bool ok = seen != NULL && first != NULL;
    for (uint32_t l = 0; ok && l < flows->fabric.n_links; l++) {
        if (!carries(flows, l))
            continue;
        const uint32_t before = orr_strtab_count(seen), id = rows_id(flows, l, seen);
        const orr_fabric_link *link = &flows->fabric.links[l];
        ok = id != UINT32_MAX;
        if (ok && id < before) {
            links[n] = links[first[id - 1]];
            links[n].level = link->level;
            links[n].unit = link->unit;
            links[n++].up = link->up;
        } else if (ok) {
            first[id - 1] = n;
            ok = fill_link(flows, l, begin_ns, arena, &links[n++]);
        }
    }
    orr_strtab_free(seen);
    orr_free(first);
    return ok;
}

orr_status orr_flows_links(orr_flows *flows, int64_t begin_ns, orr_arena *arena,
                           const orr_link_use **ret, uint32_t *ret_n, orr_error *err)
{
    int64_t next_ns;
    uint32_t n = 0;
    (void)orr_flows_next(flows, &next_ns); /* so that the current rates are in the loads */
    for (uint32_t l = 0; l < flows->fabric.n_links; l++)
        n += carries(flows, l);
    orr_link_use *links = orr_arena_array(arena, orr_link_use, n);
    if (links == NULL || !fill_links(flows, begin_ns, arena, links, n))
        return orr_fail_memory(err);
    *ret = links;
    *ret_n = n;
    return ORR_OK;
}
