/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_PROTOCOL_TIMEOUTS_H
#define ORR_TEAM_PROTOCOL_TIMEOUTS_H

#include <orrery/status.h>

/* All timeouts of the protocol, derived from the one that a user sets: how long after its last sign
 * of life a member may still be waited for. The fractions are assumed; they leave a fifth of that
 * bound for announcing the loss and forming the next epoch. */
typedef struct orr_team_timeouts {
    int64_t failure_ns;   /* the bound                                                         */
    int64_t heartbeat_ns; /* a tenth: interval of heartbeats */
    int64_t silent_ns;    /* 0.8: the coordinator gives a silent member up (failure detection) */
    int64_t fenced_ns; /* all of it: a member leaves a silent coordinator (fencing, lease expiry) */
    int64_t grace_ns;  /* a fiftieth: delay of a retry, in which the death behind a broken ring may
                          show */
    int64_t reconnect_ns; /* a fortieth: delay before calling the coordinator again */
    int64_t fetch_ns;     /* five times it: for a state provider that lives and sends nothing */
    int64_t call_ns;      /* 0.4: for a call that nobody answers */
} orr_team_timeouts;

/* failure_ns 0: 2 s. INVALID: below 50 ms, where a busy machine looks dead; beyond a day. */
orr_status orr_team_timeouts_of(int64_t failure_ns, orr_team_timeouts *ret,
                                orr_error *err) ORR_MUST_CHECK;

/* The time without any progress after which a step counts as stalled; `step_ns` is what the last
 * step took, 0 if there was none. */
int64_t orr_team_stall_timeout_ns(const orr_team_timeouts *times, int64_t step_ns);

#endif /* ORR_TEAM_PROTOCOL_TIMEOUTS_H */
