/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_POLICY_COST_MODEL_H
#define ORR_EXPERTS_POLICY_COST_MODEL_H

#include "experts/policy/flows.h"

/* The copies of the experts of one layer, and what they cost, kept up to date as copies come and
 * go. Letters: E experts, R ranks, H hosts, C copies of an expert. Rows are expectations: a choice
 * takes the copy on its own rank, else one on its own host, else any, by equal shares (or by shares
 * alone, with by_share).
 *
 * Two measures, both in ns of a step:
 *
 *   smooth: all rows over links, as a mean of the ranks, + `evenness` x the sum of squares of the
 *           rows of ranks over their sum. A change of one copy costs a few additions.
 *   step:   as orr_expert_quality.step_ns: the fullest port and the fullest rank. */
enum { ORR_HOST, ORR_NETWORK, ORR_LEVELS };

typedef struct orr_layer_costs {
    double dispatch_ns[ORR_LEVELS], combine_ns[ORR_LEVELS]; /* of a row through a port */
    double row_ns;
    double evenness; /* ns a row: weight of uneven ranks in the smooth measure */
    double scale;    /* steps that the routes are: rows are divided by it */
} orr_layer_costs;

typedef struct orr_layer {
    uint32_t experts, ranks, hosts, host_ranks, live;
    bool by_share;
    uint16_t *host_of; /* shape (R) */
    const orr_layer_costs *costs;
    float *flow;      /* shape (E, R): rows of a step from a rank to an expert */
    float *host_flow; /* shape (E, H) */
    float *total;     /* shape (E) */
    float *apart;   /* shape (E, R): of an expert's rows that go to a rank, the share that no other
                     * choice of their tokens sends there anyway; NULL: all, since K is 1 */
    uint8_t *has;   /* shape (E, R) */
    uint16_t *copy; /* shape (E, R): the first copies[e] of row e are its ranks, ascending */
    uint16_t *copies;     /* shape (E) */
    const uint16_t *host; /* shape (E): the one host that may have it; NULL: any */
    uint32_t *used;       /* shape (R): copies on a rank */
    double *rows;         /* shape (R): rows through the experts of a rank */
    double
        *port[2][ORR_LEVELS]; /* shape (R): ns of dispatch and combine through ports: [0] of
                               * experts' ranks, [1] of tokens' ranks; not kept while !with_ports */
    bool with_ports;
    double links, squares; /* sums of the smooth measure */
    double mean_rows;      /* of the ranks that live */
} orr_layer;

/* A layer without copies. host: see above. */
orr_status orr_layer_new(const orr_flows *flows, const orr_policy_problem *problem, uint32_t layer,
                         const orr_layer_costs *costs, const uint16_t *host, orr_arena *arena,
                         orr_layer *ret, orr_error *err) ORR_MUST_CHECK;

/* An expert's part of all sums, taken out or put in again: around each change of its copies. */
void orr_layer_take_out(orr_layer *layer, uint32_t expert);
void orr_layer_put_in(orr_layer *layer, uint32_t expert);
/* By how much one more copy lowers the smooth measure; nothing is changed. */
double orr_layer_gain(orr_layer *layer, uint32_t expert, uint32_t rank);
/* Changes the list of copies alone. */
void orr_layer_add(orr_layer *layer, uint32_t expert, uint32_t rank);
void orr_layer_drop(orr_layer *layer, uint32_t expert, uint32_t rank);
/* All sums anew, from the lists of copies; with the ports or without. */
void orr_layer_sum(orr_layer *layer, bool with_ports);

static inline bool orr_layer_may(const orr_layer *layer, uint32_t expert, uint32_t rank)
{
    return !layer->has[(size_t)expert * layer->ranks + rank] &&
           (layer->host == NULL || layer->host[expert] == rank / layer->host_ranks);
}

/* The smooth measure. */
double orr_layer_smooth(const orr_layer *layer);
/* The fullest port and the fullest rank; needs with_ports. Exact where K is 1, else by `apart`. */
double orr_layer_step(const orr_layer *layer);
/* What a row of an expert to a rank costs over links of a level, with merged dispatches. */
double orr_layer_row_ns(const orr_layer *layer, uint32_t expert, uint32_t rank, int level);

#endif /* ORR_EXPERTS_POLICY_COST_MODEL_H */
