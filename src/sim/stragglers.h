/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_STRAGGLERS_H
#define ORR_SIM_STRAGGLERS_H

#include "sim/peer_durations.h"

/* Parts of a job that are slower than the same operations elsewhere (peer_durations.h): ranks,
 * stages of a pipeline, and the ranks' differences as a whole. */
typedef enum orr_slow_kind { ORR_SLOW_RANK, ORR_SLOW_STAGE, ORR_SLOW_ALL } orr_slow_kind;
typedef struct orr_slow_part {
    uint8_t kind;          /* orr_slow_kind */
    uint32_t number;       /* of the rank or stage; 0 for ALL */
    const uint32_t *ranks; /* shape (n_ranks), increasing */
    uint32_t n_ranks;
    uint32_t slowest;       /* the graph with the largest excess */
    orr_peer_excess excess; /* of that one: above the median of the ranks outside of the part; of
                             * ALL: above the median of all */
} orr_slow_part;
const char *orr_slow_kind_name(orr_slow_kind kind); /* "rank" */

/* Those with an excess, most first; of ranks and of stages the `most` with most. Stages with one
 * rank are not told beside that rank. In the arena. Errors: NO_MEMORY. */
orr_status orr_slow_parts_find(const orr_job *job, uint32_t most, orr_arena *arena,
                               const orr_slow_part **ret, size_t *ret_n,
                               orr_error *err) ORR_MUST_CHECK;

/* Stage of each graph of a job, shape (D), by who sends first to whom: a rank whose first transfer
 * is a send is of stage 0, others follow the sender of what they received first. ORR_NONE: it sends
 * and receives nothing, or in a circle. Returns the number of stages. */
orr_status orr_stages_by_transfers(const orr_job *job, orr_arena *arena, uint32_t **ret,
                                   uint32_t *ret_n, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_STRAGGLERS_H */
