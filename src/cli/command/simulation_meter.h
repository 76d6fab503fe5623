/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_COMMAND_SIMULATION_METER_H
#define ORR_CLI_COMMAND_SIMULATION_METER_H

#include "base/progress.h"
#include "cli/command/session.h"

/* How far a simulation with contention is, which may take minutes where few ranks behave alike: the
 * usual line on a terminal; elsewhere a remark with the time left, estimated by the events so far,
 * first after 0.3 s and then ever more seldom. */
typedef struct orr_simulation_meter {
    const orr_session *session;
    orr_progress line;
    int64_t begin_ns, next_ns; /* of the remarks */
    bool terminal;
} orr_simulation_meter;

void orr_simulation_meter_begin(orr_simulation_meter *meter, const orr_session *session);
/* For orr_sim_options.progress, with the meter as its context. Interrupts end the process. */
bool orr_simulation_meter_update(void *meter, uint64_t n_settled, uint64_t n_points);
void orr_simulation_meter_done(orr_simulation_meter *meter);

#endif /* ORR_CLI_COMMAND_SIMULATION_METER_H */
