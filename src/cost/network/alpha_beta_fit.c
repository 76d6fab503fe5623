/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/network/alpha_beta_fit.h"

#include <math.h>
#include <string.h>

#include "cost/collective/collective.h"

/* NCCL src/graph/tuning.cc, hwLat, us: { LL, LL128, Simple }. */
const double ORR_HOP_NVLINK_NS[ORR_PROTOCOLS] = {470, 1900, 3400};
const double ORR_HOP_NET_NS[ORR_PROTOCOLS] = {2700, 4000, 9600};
const double ORR_HOP_SWITCH_NS[ORR_PROTOCOLS] = {500, 1200, 4000};

double orr_busbw_ns(orr_collective collective, uint32_t n, int64_t bytes, double busbw_bytes_per_s)
{
    const double all_but_one = (n - 1.0) / n;
    double moved = (double)bytes;
    switch (collective) {
    case ORR_COLL_ALL_REDUCE:
        moved *= 2 * all_but_one;
        break;
    case ORR_COLL_ALL_GATHER:
    case ORR_COLL_REDUCE_SCATTER:
    case ORR_COLL_ALL_TO_ALL:
        moved *= all_but_one;
        break;
    default:
        break;
    }
    return moved * 1e9 / busbw_bytes_per_s;
}

/* State of a fit. `at`: the constants that are being fitted, inside of `network`. The loss is
 * the sum of |ln(price / measured)| (least absolute deviations). For one protocol with the
 * others fixed, the price is a line in bytes, so an optimal line goes through two of the
 * measured points, or through one with base 0: all of these are tried, and no iteration towards
 * an optimum is needed. */
typedef struct fit {
    orr_network network;
    orr_alpha_beta *at;
    uint32_t level;
    bool reduction;
    const orr_busbw_point *points;
    size_t n;
    double most_bytes_per_s;
    double loss;
} fit;

static double loss_of(const fit *f)
{
    double loss = 0;
    for (size_t i = 0; i < f->n; i++) {
        const orr_busbw_point *point = &f->points[i];
        orr_algorithm algorithm;
        orr_coll_schedule schedule;
        const double ns = orr_coll_choose(
            &f->network, &point->span, (orr_collective)point->collective,
            (orr_algorithm)point->algorithm, (double)point->bytes, &algorithm, &schedule);
        loss += fabs(log(ns / point->ns));
    }
    return loss;
}

/* The line that a point determines if `algorithm` was used: base + rest + bytes / bandwidth =
 * its time. */
static bool line_of(const fit *f, const orr_busbw_point *point, orr_algorithm algorithm, int p,
                    double *ret_bytes, double *ret_ns)
{
    orr_coll_schedule schedule;
    if (!orr_coll_schedule_of(&f->network, &point->span, (orr_collective)point->collective,
                              algorithm, (double)point->bytes, &schedule) ||
        schedule.n != 1)
        return false;
    double hops_ns = 0;
    for (uint32_t k = 0; k < f->network.n_levels; k++) {
        const orr_alpha_beta *c = k == f->level ? f->at : &f->network.levels[k];
        hops_ns += schedule.phases[0].steps[k] * c->alpha_ns[p];
    }
    *ret_bytes = schedule.phases[0].bytes[f->level];
    *ret_ns = point->ns - hops_ns;
    return *ret_bytes > 0;
}

/* Protocols with more latency must have more bandwidth. */
static bool in_order(const orr_alpha_beta *c, int p, double bytes_per_s)
{
    for (int other = 0; other < ORR_PROTOCOLS; other++)
        if (c->bytes_per_s[other] > 0 && ((other < p && c->bytes_per_s[other] > bytes_per_s) ||
                                          (other > p && c->bytes_per_s[other] < bytes_per_s)))
            return false;
    return true;
}

static void try_line(fit *f, int p, double base_ns, double bytes_per_ns)
{
    const double old_base = f->at->base_ns[p], old_rate = f->at->bytes_per_s[p];
    if (!(base_ns >= 0) || !(bytes_per_ns > 0) || bytes_per_ns * 1e9 > f->most_bytes_per_s ||
        !in_order(f->at, p, bytes_per_ns * 1e9))
        return;
    f->at->base_ns[p] = base_ns;
    f->at->bytes_per_s[p] = bytes_per_ns * 1e9;
    const double loss = loss_of(f);
    if (loss < f->loss - 1e-12) {
        f->loss = loss;
    } else {
        f->at->base_ns[p] = old_base;
        f->at->bytes_per_s[p] = old_rate;
    }
}

/* Tries lines through point i with base 0, and through i and each later point. */
static void try_lines_of(fit *f, int p, size_t i, orr_algorithm first, orr_algorithm second)
{
    double bytes, ns, other_bytes, other_ns;
    if (!line_of(f, &f->points[i], first, p, &bytes, &ns))
        return;
    try_line(f, p, 0, bytes / ns);
    for (size_t j = i + 1; j < f->n; j++) {
        if (!line_of(f, &f->points[j], second, p, &other_bytes, &other_ns))
            continue;
        const double rate = (other_bytes - bytes) / (other_ns - ns);
        try_line(f, p, ns - bytes / rate, rate);
    }
}

static void improve(fit *f, int p)
{
    static const orr_algorithm MEASURED[] = {ORR_ALGORITHM_RING, ORR_ALGORITHM_TREE};
    for (size_t i = 0; i < f->n; i++) {
        if (f->reduction)
            try_lines_of(f, p, i, ORR_ALGORITHM_IN_NETWORK, ORR_ALGORITHM_IN_NETWORK);
        for (int a = 0; !f->reduction && a < 2; a++)
            for (int b = 0; b < 2; b++)
                try_lines_of(f, p, i, MEASURED[a], MEASURED[b]);
    }
}

/* Coordinate descent from empty constants: the protocols in the given order until none improves.
 * The order matters, so all six are tried. */
static void descend(fit *f, const uint8_t order[ORR_PROTOCOLS])
{
    memset(f->at->bytes_per_s, 0, sizeof f->at->bytes_per_s);
    memset(f->at->base_ns, 0, sizeof f->at->base_ns);
    f->loss = INFINITY;
    for (double before = NAN; f->loss != before;) {
        before = f->loss;
        for (int i = 0; i < ORR_PROTOCOLS; i++)
            improve(f, order[i]);
    }
}

orr_status orr_alpha_beta_fit(orr_network *network, uint32_t level, bool reduction,
                              double most_bytes_per_s, const orr_busbw_point *points, size_t n,
                              double *ret_loss, orr_error *err)
{
    static const uint8_t ORDERS[][ORR_PROTOCOLS] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                                    {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    fit f = {.network = *network,
             .level = level,
             .reduction = reduction,
             .points = points,
             .n = n,
             .most_bytes_per_s = most_bytes_per_s};
    f.at = reduction ? &f.network.reduction[level] : &f.network.levels[level];
    double least = INFINITY;
    orr_alpha_beta best = *f.at;
    for (size_t i = 0; i < sizeof ORDERS / sizeof *ORDERS; i++) {
        descend(&f, ORDERS[i]);
        if (f.loss < least) {
            least = f.loss;
            best = *f.at;
        }
    }
    if (n == 0 || !isfinite(least))
        return orr_fail(err, ORR_INVALID, "no constants fit the %zu measurements", n);
    best.basis = ORR_BASIS_FITTED;
    best.error_frac = NAN;
    *(reduction ? &network->reduction[level] : &network->levels[level]) = best;
    if (ret_loss != NULL)
        *ret_loss = least / (double)n;
    return ORR_OK;
}

orr_alpha_beta orr_alpha_beta_from_reduction(const orr_alpha_beta *reduction, uint32_t n,
                                             double ring_bytes_per_s)
{
    orr_alpha_beta c = *reduction;
    memcpy(c.alpha_ns, ORR_HOP_NVLINK_NS, sizeof c.alpha_ns);
    for (int p = 0; p < ORR_PROTOCOLS; p++) {
        c.base_ns[p] += fmax(0, 2 * (reduction->alpha_ns[p] - c.alpha_ns[p]));
        c.bytes_per_s[p] = fmin(c.bytes_per_s[p] * 2 * (n - 1.0) / n, ring_bytes_per_s);
    }
    c.bytes_per_s[ORR_PROTOCOL_BANDWIDTH] = ring_bytes_per_s;
    return c;
}

double orr_alpha_beta_ring_bandwidth(const orr_network *network, uint32_t level,
                                     const orr_busbw_point *point)
{
    const int p = ORR_PROTOCOL_BANDWIDTH;
    orr_coll_schedule schedule;
    if (!orr_coll_schedule_of(network, &point->span, (orr_collective)point->collective,
                              ORR_ALGORITHM_RING, (double)point->bytes, &schedule))
        return 0;
    const orr_alpha_beta *c = &network->levels[level];
    const double ns = point->ns - c->base_ns[p] - schedule.phases[0].steps[level] * c->alpha_ns[p];
    return ns > 0 ? schedule.phases[0].bytes[level] * 1e9 / ns : 0;
}
