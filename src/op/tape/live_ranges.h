/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_OP_TAPE_LIVE_RANGES_H
#define ORR_OP_TAPE_LIVE_RANGES_H

#include <orrery/op.h>

/* Live ranges of values: how long bytes exist, how many at once, and at which offsets. Used for the
 * peak memory of a simulated job and for the memory plan of one that runs. */
typedef struct orr_live_range {
    uint32_t first, last; /* first and last step, inclusive */
    int64_t bytes;
} orr_live_range;

/* The largest number of live bytes in steps `from` .. `to` - 1, and the first step that reaches it.
 * 0 where there are none. LIMIT: over 2^63 bytes; NO_MEMORY. */
orr_status orr_live_ranges_peak(const orr_live_range *lives, uint32_t n, uint32_t from, uint32_t to,
                                int64_t *ret_bytes, uint32_t *ret_step,
                                orr_error *err) ORR_MUST_CHECK;

/* Assigns offsets, multiples of `alignment`, so that no two ranges that are live at once overlap:
 * largest first, each into the tightest gap that holds it (Pisarchyk and Lee, arXiv 2001.03288,
 * "greedy by size"). `ret_offset`: shape (n); `ret_bytes`: total size. Ranges of 0 bytes get offset
 * 0. LIMIT, NO_MEMORY. */
orr_status orr_live_ranges_pack(const orr_live_range *lives, uint32_t n, int64_t alignment,
                                int64_t *ret_offset, int64_t *ret_bytes,
                                orr_error *err) ORR_MUST_CHECK;

/* Live ranges of a tape: a row for each value with bytes of its own. Views live in their root, but
 * a slice is treated as a copy where nothing else of the whole is read in the backward pass. */
typedef struct orr_tape_live_range {
    orr_value value;
    bool given;   /* no call makes it                                                      */
    bool derived; /* made from parameters and constants alone: the same for every micro-batch */
    orr_live_range life;
} orr_tape_live_range;
/* Steps are calls in the order in which they run, without the optimizer's. */
typedef struct orr_tape_liveness {
    orr_tape_live_range *lives; /* shape (n), by first step: values that calls use */
    uint32_t n, n_steps;
    uint32_t forward_end; /* first step after the forward pass */
    uint32_t
        input_end; /* first step of the weight gradients, where they run separately; else n_steps */
    uint32_t
        *row_of; /* shape (n_values): row of a value, for a view that of its storage; or ORR_NONE */
} orr_tape_liveness;
/* `apart`: weight gradients run after everything else (zero-bubble schedules) instead of where they
 * are recorded. Given values live from the start of the part (forward, backward, weight gradients)
 * that first reads them; a value that nothing reads lives in its own step. INVALID: a tensor over
 * 2^63 bytes; NO_MEMORY. */
orr_status orr_tape_liveness_of(const orr_tape *tape, bool apart, orr_arena *arena,
                                orr_tape_liveness *ret, orr_error *err) ORR_MUST_CHECK;

/* The live range of a value's bytes; NULL: no call uses it, or there is no such value. */
static inline orr_live_range *orr_tape_live_range_of(orr_tape_liveness *lives, orr_value value)
{
    return value == ORR_NONE || lives->row_of[value] == ORR_NONE
               ? NULL
               : &lives->lives[lives->row_of[value]].life;
}

#endif /* ORR_OP_TAPE_LIVE_RANGES_H */
