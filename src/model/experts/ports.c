/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/experts/skew.h"

/* Which ports the tokens of a layer go through, and how full the fullest is. */

/* R ranks in units of units. */
typedef struct shape {
    uint32_t n_levels, below[ORR_LEVELS_MAX + 1]; /* ranks of a unit of the level below */
} shape;

static shape shape_of(const uint32_t *width, uint32_t n_levels)
{
    shape s = {.n_levels = n_levels < ORR_LEVELS_MAX ? n_levels : ORR_LEVELS_MAX, .below = {1}};
    for (uint32_t k = 0; k < s.n_levels; k++)
        s.below[k + 1] = s.below[k] * (width[k] > 1 ? width[k] : 1);
    return s;
}

/* Lowest level that joins two ranks; the last one for all that none does. */
static uint32_t level_of(const shape *s, uint32_t a, uint32_t b)
{
    uint32_t k = 0;
    while (k + 1 < s->n_levels && a / s->below[k + 1] != b / s->below[k + 1])
        k++;
    return k;
}

/* Share of a rank's choices. */
static double sent(const orr_layer_skew *skew, uint32_t from, uint32_t to)
{
    return skew->to[(size_t)(skew->senders > 1 ? from : 0) * skew->ranks + to];
}

/* Probability that any of K choices is among a share of them: 1 - (1 - share)^K. */
static double any_of(const orr_layer_skew *skew, double share)
{
    const double none = skew->top_k == 1 ? 1 - share : pow(1 - share, skew->top_k);
    return share >= 1 ? 1 : 1 - none;
}

/* Sums of what goes out of and into one port, and the fullest of all ports. */
typedef struct port_sums {
    double out, in, most, all;
} port_sums;

static void close_port(port_sums *p)
{
    p->most = fmax(p->most, fmax(p->out, p->in));
    p->all += p->out;
    p->out = p->in = 0;
}

/* Pairs of ranks, or of hosts, of which a sender sends `part(share)` to a receiver. */
typedef struct units {
    uint32_t n, ranks; /* units; ranks of a unit */
    bool once;         /* a token is sent once, however many of its experts are there */
} units;

/* What the member of unit a sends to unit b, and receives from its counterpart there. */
static double pair(const orr_layer_skew *skew, const units *u, uint32_t from, uint32_t to)
{
    double share = 0;
    for (uint32_t i = 0; i < u->ranks; i++)
        share += sent(skew, from, to * u->ranks + i);
    return u->once ? any_of(skew, share) : share;
}

/* Fills in the levels on which units exchange. */
static void exchange(const orr_layer_skew *skew, const shape *s, const units *u, uint32_t first,
                     orr_port_skew *ret, double even_sent[2])
{
    port_sums sum[ORR_LEVELS_MAX] = {{0}};
    const double share = 1.0 / u->n, even = u->once ? any_of(skew, share) : share;
    double peers[ORR_LEVELS_MAX] = {0};
    for (uint32_t rank = 0; rank < u->n * u->ranks; rank++) {
        const uint32_t own = rank / u->ranks, place = rank % u->ranks;
        for (uint32_t other = 0; other < u->n; other++) {
            const uint32_t partner = other * u->ranks + place;
            if (other == own)
                continue;
            const uint32_t k = level_of(s, rank, partner);
            sum[k].out += pair(skew, u, rank, other);
            sum[k].in += pair(skew, u, partner, own);
            peers[k] += rank == 0;
        }
        for (uint32_t k = first; k < s->n_levels; k++)
            close_port(&sum[k]);
    }
    for (uint32_t k = first; k < s->n_levels; k++) {
        ret->fullest[k] = peers[k] > 0 ? sum[k].most / (peers[k] * even) : 1;
        even_sent[0] += sum[k].all / skew->ranks;
        even_sent[1] += peers[k] * even;
    }
}

/* Within hosts: what comes for each rank of the host, from everywhere, passes through its port. */
static void pass_on(const orr_layer_skew *skew, const shape *s, uint32_t levels, orr_port_skew *ret)
{
    double most = 0;
    for (uint32_t to = 0; to < skew->ranks; to++) {
        double in = 0;
        for (uint32_t from = 0; from < skew->ranks; from++)
            in += any_of(skew, sent(skew, from, to));
        most = fmax(most, in / skew->ranks / any_of(skew, 1.0 / skew->ranks));
    }
    for (uint32_t k = 0; k < levels && k < s->n_levels; k++)
        ret->fullest[k] = most;
}

void orr_layer_skew_ports(const orr_layer_skew *skew, const uint32_t *width, uint32_t n_levels,
                          uint32_t host_ranks, orr_port_skew *ret)
{
    const shape s = shape_of(width, n_levels);
    const uint32_t hosts = host_ranks > 0 ? skew->ranks / host_ranks : 0;
    double even_sent[2] = {0};
    uint32_t first = 0;
    for (uint32_t k = 0; k < ORR_LEVELS_MAX; k++)
        ret->fullest[k] = 1;
    if (hosts > 1) {
        while (first < s.n_levels && s.below[first + 1] <= host_ranks)
            first++;
        pass_on(skew, &s, first, ret);
        exchange(skew, &s, &(units){hosts, host_ranks, true}, first, ret, even_sent);
    } else {
        exchange(skew, &s, &(units){skew->ranks, 1, host_ranks > 0}, 0, ret, even_sent);
    }
    ret->sent = even_sent[1] > 0 ? even_sent[0] / even_sent[1] : 1;
}
