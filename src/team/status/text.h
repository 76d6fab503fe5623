/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_STATUS_TEXT_H
#define ORR_TEAM_STATUS_TEXT_H

#include "io/json/reader.h"
#include "io/stream/output.h"
#include "team/status/status.h"

/* A team's status as text. Threads: any. */

/* Prometheus' text format, version 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats).
 * Times in seconds; counters are since the coordinator began. */
void orr_team_status_prometheus(const orr_team_status *status, orr_output *out);
#define ORR_PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* JSON, "schema": "orrery.team/1". What is not known is null; incarnations are texts, since many
 * readers of JSON know no integers beyond 2^53. */
void orr_team_status_json(const orr_team_status *status, orr_output *out);
/* The way back. Unknown keys are passed over. Errors: PARSE: it is no such status; NO_MEMORY. */
orr_status orr_team_status_read(orr_text json, orr_team_status *ret, orr_error *err) ORR_MUST_CHECK;

/* "forming", "healing", "silence". */
const char *orr_team_state_name(orr_team_state state);
const char *orr_member_state_name(orr_member_state state);
const char *orr_loss_cause_name(orr_loss_cause kind);

#endif /* ORR_TEAM_STATUS_TEXT_H */
