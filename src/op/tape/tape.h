/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_OP_TAPE_TAPE_H
#define ORR_OP_TAPE_TAPE_H

#include <orrery/op.h>

/* The value whose bytes it has: its root, or itself. */
static inline orr_value orr_tape_root(const orr_tape *tape, orr_value value)
{
    const orr_value root = tape->values[value].view_of;
    return root == ORR_NONE ? value : root;
}
/* Made by a call of the forward pass. */
static inline bool orr_tape_is_forward(const orr_tape *tape, orr_value value)
{
    const uint32_t call = tape->values[value].made_by;
    return call != ORR_NONE && tape->calls[call].pass == ORR_PASS_FORWARD;
}

/* Makes room for more; NO_MEMORY leaves the tape unchanged. */
orr_status orr_tape_reserve(orr_tape *tape, uint32_t values, uint32_t calls,
                            orr_error *err) ORR_MUST_CHECK;
/* Commits the call that was filled in after the last one: links its outputs to it and to their
 * roots. Room has been reserved. */
void orr_tape_commit_call(orr_tape *tape);
/* Links the outputs of a call of the tape to it. */
void orr_tape_link_outputs(orr_tape *tape, uint32_t call);
/* Recomputes `kept` of all values from the calls. */
void orr_tape_mark_saved(orr_tape *tape);

#endif /* ORR_OP_TAPE_TAPE_H */
