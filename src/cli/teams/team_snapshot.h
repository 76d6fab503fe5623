/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_TEAMS_TEAM_SNAPSHOT_H
#define ORR_CLI_TEAMS_TEAM_SNAPSHOT_H

#include <orrery/arena.h>

#include "io/stream/output.h"

/* What a coordinator shows of its team, as it is told to people. */
typedef struct orr_member_row {
    const char *replica, *state;
    uint32_t ranks;
    const char *step; /* it has the state after; "none" */
    int64_t heard_ns; /* ago */
    uint64_t posted, reduced;
    uint32_t faults;
    const char *incarnation;
} orr_member_row;

typedef struct orr_team_snapshot {
    const struct orr_team_status *status;
    const orr_member_row *members; /* shape (n) */
    uint32_t n;
} orr_team_snapshot;
/* In the arena. Errors: as orr_http_get(); PARSE. */
orr_status orr_team_snapshot_fetch(const char *address, orr_arena *arena, orr_team_snapshot *ret,
                                   orr_error *err) ORR_MUST_CHECK;
void orr_team_snapshot_headline(const orr_team_snapshot *look,
                                orr_output *out); /* two lines or three */
void orr_team_snapshot_json(const orr_team_snapshot *look, orr_output *out);

#endif /* ORR_CLI_TEAMS_TEAM_SNAPSHOT_H */
