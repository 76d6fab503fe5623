/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_RESCALE_DATA_PARALLEL_REPLICATE_H
#define ORR_RESCALE_DATA_PARALLEL_REPLICATE_H

#include "rescale/recognise/findings.h"
#include "model/plan/plan.h"
#include "rescale/plan/price.h"

/* Ranks of the recording that speak to one another, and what becomes of them: with `grows` they are
 * one group of all replicas, else each copy of the recording has such a group. */
typedef struct orr_replicated_set {
    const uint32_t *ranks; /* recorded, shape (n), in order */
    uint32_t n;
    bool grows;
    uint32_t grouping; /* of the new ensemble, once packed     */
    uint32_t number;   /* of its group there, of the first copy */
} orr_replicated_set;

typedef struct orr_replication {
    const orr_job *job;
    const orr_ensemble *base; /* the recording */
    orr_plan from, to;        /* degrees only */
    uint32_t n_ranks;
    uint32_t *source;         /* shape (n_ranks): the recorded rank that it behaves as, or NONE */
    orr_replicated_set *sets; /* shape (n_sets): those of the base's groupings come first */
    uint32_t n_sets;
    uint32_t own_first;      /* sets from here on are of `own_group` */
    orr_group_id *own_group; /* shape (n_sets - own_first): group of the only graph */
    orr_ensemble *ensemble;
    orr_findings findings;
    orr_arena *arena;
} orr_replication;

/* Who speaks to whom. */
orr_status orr_replication_find_sets(orr_replication *s, orr_error *err) ORR_MUST_CHECK;
/* Sets -> groupings of all ranks; those that are disjoint share one. */
orr_status orr_replication_pack(orr_replication *s, orr_error *err) ORR_MUST_CHECK;
/* Meetings. */
orr_status orr_replication_rendezvous(orr_replication *s, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_RESCALE_DATA_PARALLEL_REPLICATE_H */
