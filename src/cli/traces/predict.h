/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_TRACES_PREDICT_H
#define ORR_CLI_TRACES_PREDICT_H

#include "cli/command/session.h"

/* What `orrery predict` was asked, and what came of it. */
typedef struct orr_predict {
    orr_session session;
    const orr_catalog *catalog;
    orr_cost_chain chain;
    orr_whatif what;
    orr_sim_options sim;
    orr_recording_costs recording_costs; /* of sim, where they are taken away */
    const orr_cluster *network;          /* NULL: as recorded */
    bool network_stated;    /* what.recorded_network was named, not found by the device */
    orr_plan traced, plan;  /* stated, and asked for; fields of 0: nothing */
    uint32_t ranks;         /* asked for; 0: as recorded */
    bool rescales, changes; /* to other ranks or plans; anything at all */
    bool only_ranks;        /* nothing but the number of ranks changes, and no network is named */

    orr_recognition recognition;
    orr_rescaled rescaled;
    const orr_ensemble *ensemble;
    orr_whatif_report report;
    orr_sim_latencies seen;
    orr_simulation simulation;
    const orr_job *simulated;
    int64_t replayed_ns; /* the recording as it was, replayed; not 0 beforehand: known already, and
                          * not found again */
    double read_frac;    /* share of that which was read as recorded; of the rank with most */
    orr_table read_time; /* of a replay that changes nothing */
} orr_predict;

/* The settings as they were meant. Errors: INVALID: what was typed; NOT_FOUND, IO, PARSE: a
 * device, a cluster or a cost model. */
orr_status orr_predict_options(orr_predict *predict) ORR_MUST_CHECK;
/* The recording's device and what it is to run on, once the job is read. */
orr_status orr_predict_devices(orr_predict *predict) ORR_MUST_CHECK;
/* The costs of recording that are to be taken away. Errors: INVALID: pairs that hold no bare step,
 * or too few; IO, PARSE. */
orr_status orr_predict_unprofiled(orr_predict *predict) ORR_MUST_CHECK;
/* What they come to; what the recording says of its bare step (-1: nothing) beside the predicted
 * one (0: none); both in words, if they were asked for. */
orr_status orr_predict_recording_costs_table(orr_predict *predict, orr_table *ret) ORR_MUST_CHECK;
orr_status orr_predict_bare_step(orr_predict *predict, int64_t *ret_bare_ns,
                                 int64_t *ret_predicted_ns) ORR_MUST_CHECK;
void orr_predict_print_unprofiled(const orr_predict *predict, int64_t bare_ns, int64_t predicted_ns,
                                  orr_output *out);
/* p->simulation and what it rests on. Errors: INVALID: a job that cannot be; NOT_FOUND: a name that
 * nothing has. */
orr_status orr_predict_run(orr_predict *predict) ORR_MUST_CHECK;
/* Tables, the page and the trace, as asked for. */
orr_status orr_predict_print(orr_predict *predict) ORR_MUST_CHECK;

#endif /* ORR_CLI_TRACES_PREDICT_H */
