/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_POLICY_FLOWS_H
#define ORR_EXPERTS_POLICY_FLOWS_H

#include "experts/policy/policy.h"

/* What routes come to for a search of placements: rows from groups of ranks to experts, and a
 * sample of tokens with the experts that each of them needs together.
 *
 * The requests of a group are dealt to any of its ranks, so that a rank that lives is taken to be
 * the source of an equal share of its group's rows: a placement must not lean on which rank a
 * recorded request happened to be on. */
typedef struct orr_flows {
    const orr_routes *routes;
    uint32_t layers, experts, ranks, groups, top_k;
    const double *rows;    /* shape (L, G, E): tokens of a group that chose an expert */
    const uint32_t *group; /* shape (R): the group of a rank */
    const uint32_t *live;  /* shape (G): ranks of it that live */
    const bool *dead;      /* shape (R); NULL: none */
    uint32_t sampled;      /* tokens of the sample; 0 where K is 1: rows say it all */
    const uint64_t *token; /* shape (sampled): rows of the routes, evenly spaced */
} orr_flows;

/* Counts every choice of the routes of the problem's options, by the groups of requests that
 * these have; without, all requests are one group. INVALID: groups that do not divide the ranks, a
 * request with tokens of no group, a group without a rank that lives. */
orr_status orr_flows_make(const orr_policy_problem *problem, orr_arena *arena, orr_flows *ret,
                          orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPERTS_POLICY_FLOWS_H */
