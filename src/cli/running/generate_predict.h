/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_RUNNING_GENERATE_PREDICT_H
#define ORR_CLI_RUNNING_GENERATE_PREDICT_H

#include <orrery/measure.h>

#include "cli/command/session.h"

/* `orrery generate --predict`: what serving over ranks should take, before, and beside what it
 * took. In the session's arena; before any thread is started. */
orr_status orr_generate_predict(orr_session *session, const orr_generator_options *options,
                                const orr_generator_ranks *ranks, const orr_prompt *prompts,
                                uint32_t n, orr_predicted_serving *ret) ORR_MUST_CHECK;
/* Fields of the JSON object of answers, with a comma before. */
void orr_generate_print_prediction(const orr_predicted_serving *predicted,
                                   const orr_generated_bytes *run, orr_output *out);
void orr_generate_tell_prediction(const orr_session *session,
                                  const orr_predicted_serving *predicted,
                                  const orr_generated_bytes *run);

#endif /* ORR_CLI_RUNNING_GENERATE_PREDICT_H */
