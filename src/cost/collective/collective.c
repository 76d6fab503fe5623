/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/collective/collective.h"

#include <math.h>
#include <stddef.h>

/* Prices of collectives: time of a phase and of a schedule with a network's constants, and the
 * choice of AUTO among the algorithms of collective.h. */

#include <string.h>

static const orr_alpha_beta *constants(const orr_network *network, const orr_coll_phase *phase,
                                       uint32_t level)
{
    const orr_alpha_beta *reduction = &network->reduction[level];
    for (int p = 0; phase->in_network && p < ORR_PROTOCOLS; p++)
        if (reduction->bytes_per_s[p] > 0)
            return reduction;
    return &network->levels[level];
}

static double protocol_ns(const orr_network *network, const orr_coll_phase *phase, int p)
{
    double base_ns = 0, latency_ns = 0, transfer_ns = 0, waits_ns = 0, waited_ns = 0, queued_ns = 0;
    for (uint32_t k = 0; k < network->n_levels && k < ORR_LEVELS_MAX; k++) {
        if (phase->steps[k] == 0 && phase->bytes[k] == 0)
            continue;
        const orr_alpha_beta *c = constants(network, phase, k);
        if (c->bytes_per_s[p] <= 0)
            return INFINITY;
        const double ns = phase->bytes[k] * 1e9 / c->bytes_per_s[p];
        base_ns = fmax(base_ns, c->base_ns[p]);
        latency_ns += phase->steps[k] * c->alpha_ns[p];
        transfer_ns = phase->together ? fmax(transfer_ns, ns) : transfer_ns + ns;
        queued_ns += fmin(network->queue_ns[k], ns);
        if (network->window_bytes_per_s[k] > 0) {
            const double acked_ns = phase->sent[k] * 1e9 / network->window_bytes_per_s[k];
            waited_ns = fmax(waited_ns, acked_ns);
            waits_ns += fmax(0, acked_ns - phase->steps[k] * c->alpha_ns[p] - ns);
        }
    }
    if (phase->together)
        waits_ns = fmax(0, waited_ns - latency_ns - transfer_ns);
    return base_ns + latency_ns + transfer_ns + waits_ns + queued_ns;
}

static double copied_ns(const orr_network *network, const orr_coll_phase *phase)
{
    if (!(phase->copied_bytes > 0) || !(network->memory_bytes_per_s > 0))
        return 0;
    return phase->copied_bytes * 1e9 / network->memory_bytes_per_s;
}

double orr_coll_phase_ns(const orr_network *network, const orr_coll_phase *phase, int *ret_protocol)
{
    double best_ns = INFINITY;
    for (int p = 0; p < ORR_PROTOCOLS; p++) {
        const double ns = protocol_ns(network, phase, p);
        if (ns < best_ns) {
            best_ns = ns;
            if (ret_protocol != NULL)
                *ret_protocol = p;
        }
    }
    return best_ns + copied_ns(network, phase);
}

double orr_coll_schedule_ns(const orr_network *network, const orr_coll_schedule *schedule)
{
    double ns = 0, busy_ns[ORR_LEVELS_MAX] = {0}, busiest_ns = 0;
    for (uint32_t i = 0; i < schedule->n; i++) {
        const orr_coll_phase *phase = &schedule->phases[i];
        const double phase_ns = orr_coll_phase_ns(network, phase, NULL);
        ns += phase_ns;
        for (uint32_t k = 0; schedule->pieces > 1 && k < ORR_LEVELS_MAX; k++)
            if (phase->steps[k] > 0)
                busiest_ns = fmax(busiest_ns, busy_ns[k] += phase_ns);
    }
    return schedule->pieces > 1 ? ns + (schedule->pieces - 1) * busiest_ns : ns;
}

static void copy(orr_coll_schedule *to, const orr_coll_schedule *from)
{
    memcpy(to, from, offsetof(orr_coll_schedule, phases) + from->n * sizeof *from->phases);
}

double orr_coll_choose(const orr_network *network, const orr_span *span, orr_collective collective,
                       orr_algorithm algorithm, double bytes, orr_algorithm *ret_algorithm,
                       orr_coll_schedule *ret)
{
    orr_coll_schedule schedule;
    if (algorithm != ORR_ALGORITHM_AUTO &&
        orr_coll_schedule_of(network, span, collective, algorithm, bytes, &schedule)) {
        *ret_algorithm = algorithm;
        copy(ret, &schedule);
        return orr_coll_schedule_ns(network, &schedule);
    }
    /* Candidates are tried from the last on and replaced only by a clear gain, beyond rounding:
     * so in-network reduction, which is measured where it is known, wins ties against messages
     * whose constants were derived from it. */
    double best_ns = INFINITY, named_ns = INFINITY;
    for (int a = ORR_ALGORITHMS - 1; a > ORR_ALGORITHM_AUTO; a--) {
        if (!orr_coll_schedule_of(network, span, collective, (orr_algorithm)a, bytes, &schedule))
            continue;
        const double ns = orr_coll_schedule_ns(network, &schedule);
        best_ns = fmin(best_ns, ns);
        if (ns < named_ns - 1e-9 * ns) {
            named_ns = ns;
            *ret_algorithm = (orr_algorithm)a;
            copy(ret, &schedule);
        }
    }
    return best_ns;
}

/* The price is FITTED only if all constants are; its error is the largest of theirs, unknown if
 * one is. */
static void state_basis(const orr_network *network, const orr_coll_schedule *schedule,
                        orr_price *price)
{
    price->basis = ORR_BASIS_FITTED;
    price->error_frac = 0;
    for (uint32_t i = 0; i < schedule->n; i++) {
        const orr_coll_phase *phase = &schedule->phases[i];
        for (uint32_t k = 0; k < network->n_levels && k < ORR_LEVELS_MAX; k++) {
            if (phase->steps[k] == 0 && phase->bytes[k] == 0)
                continue;
            const orr_alpha_beta *c = constants(network, phase, k);
            if (c->basis != ORR_BASIS_FITTED)
                price->basis = ORR_BASIS_ASSUMED;
            if (isnan(c->error_frac) || c->error_frac > price->error_frac)
                price->error_frac = c->error_frac;
        }
    }
    if (price->basis != ORR_BASIS_FITTED)
        price->error_frac = NAN;
}

orr_price orr_collective_price(const orr_network *network, const orr_span *span,
                               orr_collective collective, orr_algorithm algorithm, int64_t bytes)
{
    static const double MOST_NS = (double)(INT64_MAX / 4);
    orr_price price = {.basis = ORR_BASIS_NONE, .error_frac = NAN, .model = ""};
    orr_coll_schedule schedule;
    schedule.n = 0;
    const double ns = orr_coll_choose(network, span, collective, algorithm,
                                      bytes > 0 ? (double)bytes : 0, &algorithm, &schedule);
    if (!isfinite(ns) || schedule.n == 0)
        return price; /* no partner, or no such collective */
    price.ns = ns < MOST_NS ? (int64_t)ceil(ns - 1e-6) : INT64_MAX / 4;
    price.model = orr_algorithm_name(algorithm);
    state_basis(network, &schedule, &price);
    return price;
}
