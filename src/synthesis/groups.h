/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SYNTHESIS_GROUPS_H
#define ORR_SYNTHESIS_GROUPS_H

#include "synthesis/source.h"

/* Who takes part in a communication on N ranks. Rank r does what the recorded rank r mod R did.
 *
 *   recorded among                                   generated among
 *   all ranks of the job                             all N ranks
 *   ranks o, o + s, o + 2s, ... of all of them       all such ranks: N / s, a group that widens
 *   any other ranks                                  the same ranks of each copy of R
 *   g of W ranks of which one was recorded           each g ranks in a row
 *
 * A send and its receive stay within their copy. N must be such that no group lacks a member. */
typedef enum orr_membership_kind {
    ORR_MEMBERS_ALL,
    ORR_MEMBERS_STRIDED,
    ORR_MEMBERS_OF_COPY,
    ORR_MEMBERS_IN_A_ROW,
    ORR_MEMBERS_PAIR,
    ORR_MEMBERS_NONE /* its partners are not known: it is no communication in a generated job */
} orr_membership_kind;

typedef struct orr_membership {
    uint8_t kind;           /* orr_membership_kind */
    uint32_t width;         /* stride, or size of a group of ranks in a row */
    uint32_t match;         /* of the source's job: OF_COPY, PAIR */
    uint32_t recorded_size; /* ranks of the recorded group */
} orr_membership;

orr_membership orr_membership_of(const orr_source *source, uint32_t role, orr_node_id v);

/* Errors: INVALID: the source cannot be on so many ranks, and why. */
orr_status orr_membership_check(const orr_source *source, uint32_t n_ranks,
                                orr_error *err) ORR_MUST_CHECK;

/* The group of rank r, and its name, the same for all its members; `ret->ranks` is in the arena.
 * Not of PAIR and NONE. Errors: NO_MEMORY. */
orr_status orr_membership_group(const orr_source *source, const orr_membership *membership,
                                uint32_t rank, uint32_t n_ranks, orr_arena *arena, orr_group *ret,
                                const char **ret_name, orr_error *err) ORR_MUST_CHECK;

/* The other rank of a PAIR. */
uint32_t orr_membership_peer(const orr_source *source, const orr_membership *membership,
                             uint32_t rank);

#endif /* ORR_SYNTHESIS_GROUPS_H */
