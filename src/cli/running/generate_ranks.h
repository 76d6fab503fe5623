/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_RUNNING_GENERATE_RANKS_H
#define ORR_CLI_RUNNING_GENERATE_RANKS_H

#include <orrery/engine.h>

#include "cli/command/session.h"

/* `orrery generate` over ranks: its options, and the bytes between ranks. */

/* *ret_over: it is over ranks at all. In the session's arena. */
orr_status orr_generate_read_ranks(orr_session *session, const orr_model *model,
                                   orr_generator_ranks *ret, bool *ret_over) ORR_MUST_CHECK;
/* Fields of the JSON object of answers, with a comma before. */
void orr_generate_print_ranks(const orr_generated_bytes *bytes, orr_output *out);
void orr_generate_tell_ranks(const orr_session *session, const orr_generated_bytes *bytes);

#endif /* ORR_CLI_RUNNING_GENERATE_RANKS_H */
