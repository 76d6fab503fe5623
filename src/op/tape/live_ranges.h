/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_OP_TAPE_LIVE_RANGES_H
#define ORR_OP_TAPE_LIVE_RANGES_H

#include <orrery/op.h>

/* How long bytes exist, how many exist at once, and where they could lie: asked of a simulated job
 * for its peak, and of one that is run for the offsets of its tensors. */
typedef struct orr_live_range {
    uint32_t first, last; /* steps, both included */
    int64_t bytes;
} orr_live_range;

/* Most bytes alive at once in steps `from` .. `to` - 1, and the first step when. 0 where there
 * are none. LIMIT: over 2^63 bytes; NO_MEMORY. */
orr_status orr_live_ranges_peak(const orr_live_range *lives, uint32_t n, uint32_t from, uint32_t to,
                                int64_t *ret_bytes, uint32_t *ret_step,
                                orr_error *err) ORR_MUST_CHECK;

/* Offsets, multiples of `alignment`, so that no two that live at once share a byte: largest
 * first, each into the tightest gap that holds it (Pisarchyk and Lee, arXiv 2001.03288, "greedy
 * by size"). `ret_offset`: shape (n); `ret_bytes`: end of the last. Lives of 0 bytes lie at 0.
 * LIMIT, NO_MEMORY. */
orr_status orr_live_ranges_pack(const orr_live_range *lives, uint32_t n, int64_t alignment,
                                int64_t *ret_offset, int64_t *ret_bytes,
                                orr_error *err) ORR_MUST_CHECK;

/* Lives on a tape: a row for each value that has bytes of its own; views live in what they
 * view, but a slice has its own where nothing else of the whole is read in the backward pass. */
typedef struct orr_tape_live_range {
    orr_value value;
    bool given;   /* no call makes it                                                      */
    bool derived; /* made of parameters and constants alone: the same for every micro-batch */
    orr_live_range life;
} orr_tape_live_range;
/* Steps: calls in the order in which they run; the optimizer's are left out. */
typedef struct orr_tape_liveness {
    orr_tape_live_range *lives; /* shape (n), by first step: what calls name                     */
    uint32_t n, n_steps;
    uint32_t forward_end; /* first step that is not of the forward pass                    */
    uint32_t input_end;   /* first of the weight gradients, where they run apart; n_steps  */
    uint32_t *row_of;     /* shape (n_values): row of a value, a view's that of its storage;
                           * or ORR_NONE                                                  */
} orr_tape_liveness;
/* `apart`: weight gradients after all else (zero-bubble schedules), not where they are
 * recorded. What is given exists from the start of the part (forward, backward, weight
 * gradients) that first reads it; what no one reads, in its own step. INVALID: a tensor over
 * 2^63 bytes; NO_MEMORY. */
orr_status orr_tape_liveness_of(const orr_tape *tape, bool apart, orr_arena *arena,
                                orr_tape_liveness *ret, orr_error *err) ORR_MUST_CHECK;

/* The life of a value's bytes; NULL: no call names it, or there is no such value. */
static inline orr_live_range *orr_tape_live_range_of(orr_tape_liveness *lives, orr_value value)
{
    return value == ORR_NONE || lives->row_of[value] == ORR_NONE
               ? NULL
               : &lives->lives[lives->row_of[value]].life;
}

#endif /* ORR_OP_TAPE_LIVE_RANGES_H */
