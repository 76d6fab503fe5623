/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_POLICY_BALANCE_H
#define ORR_EXPERTS_POLICY_BALANCE_H

#include "experts/policy/group_packing.h"
#include "experts/policy/packing.h"
#include "experts/policy/policy.h"

/* Balances the loads of a layer: whole experts to the least loaded ranks, then copies of unequal
 * parts in the slots beyond. With groups of experts, these are packed onto hosts first. One object
 * serves layer after layer. Threads: none. */
typedef struct orr_load_balancer {
    const orr_policy_problem *problem;
    orr_packing now, best;
    orr_group_packing groups;      /* groups 0: none */
    uint32_t live;                 /* ranks that are not dead */
    uint32_t bound_spare;          /* copies that a layer can have in any placement */
    uint32_t *base;                /* shape (R) */
    uint64_t *key, *spare;         /* shape (E) */
    uint64_t *order;               /* shape (E): experts by descending load, host by host */
    uint16_t *host;                /* shape (E): of an expert, with groups */
    uint64_t *heap;                /* shape (R) */
    uint32_t *copies;              /* shape (E) */
    uint64_t *piece, *piece_spare; /* shape (slots) */
    double *size;                  /* shape (E) */
    uint32_t wraps;                /* limits that the last layer was wrapped with */
    float *share;                  /* shape (slots) */
    void *split_room;              /* of orr_experts_split() */
} orr_load_balancer;

/* What a layer comes to: loads of the fullest rank, of a rank that no placement's fullest is below,
 * and of the mean rank. */
typedef struct orr_layer_balance {
    double most, bound, mean;
} orr_layer_balance;

/* most_slots: of a layer, in any call of orr_load_balance_layer(). */
orr_status orr_load_balancer_init(orr_load_balancer *balance, const orr_policy_problem *problem,
                                  uint32_t most_slots, orr_arena *arena,
                                  orr_error *err) ORR_MUST_CHECK;
/* Balances experts over the ranks of a part, in balance->now, whose `first` is set; order: shape
 * (n), experts by descending load; no rank needs to have less than `limit`. Returns the load of the
 * fullest. */
double orr_load_balance_range(orr_load_balancer *balance, orr_rank_range range, const double *load,
                              const uint64_t *order, uint32_t n, double limit);
/* Balances a layer; `first`: shape (R + 1), slots of its ranks as those of orr_packing. The answer
 * stands in balance->now, its copies in no order, and no slot is free. */
orr_layer_balance orr_load_balance_layer(orr_load_balancer *balance, uint32_t layer,
                                         const uint32_t *first);

#endif /* ORR_EXPERTS_POLICY_BALANCE_H */
