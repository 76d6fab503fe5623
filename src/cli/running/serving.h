/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_RUNNING_SERVING_H
#define ORR_CLI_RUNNING_SERVING_H

#include "cli/command/session.h"
#include "engine/data/clicks.h"
#include "engine/serve/scorer.h"

/* What `score` of a recommendation model and `serve-tables` share: a model of the command line,
 * opened to answer. */
typedef struct orr_serving {
    orr_session session;
    const orr_model *model;
    orr_scorer *scorer;     /* NULL: --connect */
    orr_click_data *clicks; /* NULL: no --data */
    uint32_t threads;
} orr_serving;

/* MODEL and --weights; --data where `reads`. Errors: those of reading; INVALID: an option. */
orr_status orr_serving_open(orr_serving *serving, bool reads) ORR_MUST_CHECK;
void orr_serving_close(orr_serving *serving); /* all but the session */
/* "--count 64k": `option` names it in errors; NULL text: `usual`. INVALID: not in 1 .. most. */
orr_status orr_serving_count(const char *option, const char *text, uint64_t usual, uint64_t most,
                             uint64_t *ret, orr_error *err) ORR_MUST_CHECK;

/* `score` of a recommendation model. */
int orr_score_clicks(const orr_settings *settings);
/* `score --rate`. */
int orr_score_load(const orr_settings *settings);

#endif /* ORR_CLI_RUNNING_SERVING_H */
