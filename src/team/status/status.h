/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_STATUS_STATUS_H
#define ORR_TEAM_STATUS_STATUS_H

#include "team/protocol/message.h"

/* What a coordinator shows of its team: a plain copy, for `orrery team status` and for Prometheus.
 */
#define ORR_TEAM_STATE_MAP(X)                                                                      \
    X(FORMING, "forming")                                                                          \
    X(RUNNING, "running") X(HALTED, "halted") X(STANDBY, "standby") X(ENDED, "ended")
typedef enum orr_team_state {
#define ORR_TEAM_STATE_ENUM_(name, text) ORR_STATE_##name,
    ORR_TEAM_STATE_MAP(ORR_TEAM_STATE_ENUM_)
#undef ORR_TEAM_STATE_ENUM_
} orr_team_state;

#define ORR_MEMBER_STATE_MAP(X)                                                                    \
    X(CONTRIBUTOR, "contributor") X(HEALING, "healing") X(LEAVING, "leaving") X(WAITING, "waiting")
typedef enum orr_member_state {
#define ORR_MEMBER_STATE_ENUM_(name, text) ORR_MEMBER_##name,
    ORR_MEMBER_STATE_MAP(ORR_MEMBER_STATE_ENUM_)
#undef ORR_MEMBER_STATE_ENUM_
} orr_member_state;

/* How it was found that a member is lost, or an attempt. */
#define ORR_LOST_MAP(X)                                                                            \
    X(DEATH, "death")                                                                              \
    X(SILENCE, "silence") X(STALL, "stall") X(CONNECTION, "connection") X(DIGEST, "digest")
typedef enum orr_loss_cause {
#define ORR_LOST_ENUM_(name, text) ORR_LOST_##name,
    ORR_LOST_MAP(ORR_LOST_ENUM_)
#undef ORR_LOST_ENUM_
        ORR_LOSS_CAUSES
} orr_loss_cause;

typedef struct orr_member_status {
    orr_member_id id;
    uint8_t state; /* orr_member_state */
    uint32_t ranks;
    uint64_t step;            /* it has the state after; NEVER: none */
    int64_t heard_ns;         /* ago */
    uint64_t posted, reduced; /* operations of the step under way */
    uint32_t faults;          /* complaints about it in this step */
} orr_member_status;

typedef struct orr_team_status {
    uint8_t state;                     /* orr_team_state */
    char why[ORR_TEAM_REASON_BYTES];   /* it is halted or has ended; "" */
    uint64_t epoch, step;              /* step: committed */
    uint32_t contributors, replicas;   /* of the step under way; planned, 0: not said */
    uint64_t epochs, commits, retries; /* since this coordinator began */
    uint64_t lost[ORR_LOSS_CAUSES];
    uint64_t recoveries; /* losses after which a step was committed again */
    int64_t recovery_last_ns, recovery_max_ns,
        recovery_sum_ns; /* from finding the loss to that commit */
    int64_t step_ns;     /* the last */
    uint32_t n;
    orr_member_status members[2 * ORR_TEAM_MAX_REPLICAS];
} orr_team_status;

#endif /* ORR_TEAM_STATUS_STATUS_H */
