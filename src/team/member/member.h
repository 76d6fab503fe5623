/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_MEMBER_MEMBER_H
#define ORR_TEAM_MEMBER_MEMBER_H

#include <orrery/team.h>

#include "io/net/net.h"
#include "team/catchup/catchup.h"
#include "team/ring/ring.h"

/* One rank of a replica in a team. It lives in the callbacks of its net, and calls its owner, the
 * training loop, from there; the owner may call it from those calls, or whenever the net is not
 * being polled (session.c does that across threads).
 *
 * The owner does one directive at a time. COMPUTE, ZEROS: it submits reductions 0, 1, 2..., votes,
 * and gets the outcome; after COMMITTED it updates its state and says so. APPLY: it updates and
 * says so. LEAVE: nothing more comes. Rank 0 of a replica leads: it gets directives from the team,
 * and the others follow what it was given, so that all ranks of a replica do the same. */
typedef struct orr_team_member orr_team_member;
typedef struct orr_team_member_callbacks {
    void *ctx;
    void (*directive)(void *ctx, const orr_team_directive *directive);
    void (*outcome)(void *ctx, const orr_team_outcome *outcome);
    void (*refused)(void *ctx, const char *why); /* by the coordinator: nothing more will come */
    void (*on_event)(void *ctx, const orr_team_event *event); /* or NULL */
} orr_team_member_callbacks;

typedef struct orr_team_member_settings {
    const char *coordinator; /* "host:port", several with commas; or the proxy of the replica */
    const char *name;
    uint64_t incarnation; /* larger at each start                 */
    uint32_t rank, ranks; /* of the replica; more than 1: the coordinator is a proxy */
    bool leads;
    uint64_t fingerprint;
    const char *where;       /* rings listen there: "10.0.0.5:0", "10.0.0.5:0|shm" */
    const char *state_where; /* likewise state; NULL: as rings */
    int64_t failure_timeout_ns;
    uint32_t catch_up_steps;
    orr_ring_options ring;
    const orr_ring_reducer *reducer; /* NULL: of the host                */
    uint64_t step;                   /* the state after it is in the spans    */
    orr_team_data_cursor data;
    const orr_team_span *spans; /* copied                               */
    uint32_t n_spans;
    orr_net *state_net; /* serves state; NULL: the member's      */
} orr_team_member_settings;

/* Errors: of addresses; INVALID: settings that contradict each other. */
orr_status orr_team_member_new(orr_net *net, const orr_team_member_settings *settings,
                               const orr_team_member_callbacks *user, orr_team_member **ret,
                               orr_error *err) ORR_MUST_CHECK;
void orr_team_member_free(orr_team_member *member); /* NULL is allowed; the others see it die */

/* Of one that does not lead: its leader was given this. */
void orr_team_member_follow(orr_team_member *member, const orr_team_directive *directive);
/* The next reduction of the directive. NO_MEMORY. */
orr_status orr_team_member_reduce(orr_team_member *member, orr_team_dtype dtype, const void *in,
                                  void *out, size_t n, orr_error *err) ORR_MUST_CHECK;
void orr_team_member_complete(orr_team_member *member);
void orr_team_member_updated(orr_team_member *member, uint64_t step);
void orr_team_member_drain(orr_team_member *member, bool done);
/* Committed step, and the data after it, as far as it has heard. */
void orr_team_member_position(const orr_team_member *member, uint64_t *ret_step,
                              orr_team_data_cursor *ret);
/* Time without a team: since it was last in one. 0: it is in one. */
int64_t orr_team_member_isolated_ns(const orr_team_member *member);

#endif /* ORR_TEAM_MEMBER_MEMBER_H */
