/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_COORDINATOR_COORDINATOR_H
#define ORR_TEAM_COORDINATOR_COORDINATOR_H

#include <orrery/team.h>

#include "io/net/net.h"
#include "team/status/status.h"
#include "team/store/store.h"

/* The coordinator: keeps the membership, detects failures, decides which steps are committed. It
 * lives in the callbacks of its net; decisions are those of protocol/roster.h, and what must be
 * remembered is in the store before it is announced. */
typedef struct orr_coordinator orr_coordinator;
typedef struct orr_coordinator_settings {
    const char *listen;
    orr_team_store *store;           /* NULL: it remembers nothing that outlives it */
    uint32_t replicas, min_replicas; /* as orr_coordinator_options */
    int64_t failure_timeout_ns, join_window_ns, outage_timeout_ns;
    bool keep_running;
    bool standby;  /* others share its store: it leads when replicas call it (standby.c) */
    uint64_t jump; /* a random number below 2^20: see orr_membership */
    void (*on_event)(void *ctx, const orr_team_event *event);
    void *ctx;
} orr_coordinator_settings;
/* Errors: of the store, of listening; INVALID: settings that contradict each other. */
orr_status orr_coordinator_new(orr_net *net, const orr_coordinator_settings *settings,
                               orr_coordinator **ret, orr_error *err) ORR_MUST_CHECK;
void orr_coordinator_free(orr_coordinator *coordinator); /* NULL is allowed */
const char *orr_coordinator_address(const orr_coordinator *coordinator);
/* All have left (and it was not to stay), or another coordinator has taken the store. */
bool orr_coordinator_has_ended(const orr_coordinator *coordinator, const char **ret_why);
bool orr_coordinator_is_superseded(const orr_coordinator *coordinator); /* the latter */
/* The job has ended, and a replica that was lost has not come back to hear so. */
bool orr_coordinator_awaits_late(const orr_coordinator *coordinator);
void orr_coordinator_status(const orr_coordinator *coordinator, orr_team_status *ret);

#endif /* ORR_TEAM_COORDINATOR_COORDINATOR_H */
