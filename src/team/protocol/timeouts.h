/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_PROTOCOL_TIMEOUTS_H
#define ORR_TEAM_PROTOCOL_TIMEOUTS_H

#include <orrery/status.h>

/* Every time of the protocol, from the one that a user knows: how long after its last sign of life
 * a member may still be waited for. Fractions are assumed; they leave a fifth of the bound for
 * telling everyone and forming anew. */
typedef struct orr_team_timeouts {
    int64_t failure_ns;   /* the bound                                                         */
    int64_t heartbeat_ns; /* a tenth: how often members and coordinator say that they live      */
    int64_t silent_ns;    /* 0.8: after so much silence a member is lost to its coordinator     */
    int64_t fenced_ns;    /* all of it: after so much silence a member leaves its coordinator   */
    int64_t grace_ns; /* a fiftieth: a broken connection waits for news of a death that broke it */
    int64_t reconnect_ns; /* a fortieth: before a coordinator is called again                   */
    int64_t fetch_ns;     /* five times it: a source of state that sends nothing; who died is known
                             before */
    int64_t call_ns;      /* 0.4: a call that nobody answers                                    */
} orr_team_timeouts;

/* failure_ns 0: 2 s. INVALID: below 50 ms, where a busy machine looks dead; beyond a day. */
orr_status orr_team_timeouts_of(int64_t failure_ns, orr_team_timeouts *ret,
                                orr_error *err) ORR_MUST_CHECK;

/* How long nothing may move in a step whose last one took `step_ns` (0: not known yet). */
int64_t orr_team_stall_timeout_ns(const orr_team_timeouts *times, int64_t step_ns);

#endif /* ORR_TEAM_PROTOCOL_TIMEOUTS_H */
