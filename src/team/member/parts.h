/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_MEMBER_PARTS_H
#define ORR_TEAM_MEMBER_PARTS_H

#include "team/member/coordinator_list.h"
#include "team/member/member.h"
#include "team/protocol/roster.h"
#include "team/protocol/timeouts.h"

/* Private to team/member: the state of a member. */

/* What the owner, the training loop, is doing. */
typedef enum orr_team_member_phase {
    ORR_MEMBER_PHASE_IDLE,
    ORR_MEMBER_PHASE_COMPUTE, /* on gradients, or on handing in zeros    */
    ORR_MEMBER_PHASE_VOTE,    /* all is handed in: it waits              */
    ORR_MEMBER_PHASE_UPDATE,  /* of its state                            */
    ORR_MEMBER_PHASE_LEFT
} orr_team_member_phase;

typedef struct orr_reduction {
    orr_team_dtype dtype;
    void *out;
    size_t n;
} orr_reduction;
size_t orr_reduction_bytes(const orr_reduction *reduction);

/* The sums of a step that was committed while the state was still coming. */
typedef struct orr_deferred_step {
    uint64_t step, contributors;
    char *sums; /* of all reductions, one behind another */
} orr_deferred_step;

struct orr_team_member {
    orr_net *net;
    orr_net_callbacks user;
    orr_team_member_callbacks owner;
    orr_team_member_settings settings;
    orr_team_timeouts times;
    orr_coordinator_list coordinators;
    orr_ring *ring;
    orr_ring_callbacks ring_user;
    orr_state_provider *provider;
    orr_state_receiver *receiver;
    orr_state_receiver_callbacks receiver_user;
    /* The coordinator. */
    orr_conn conn;
    int64_t heard_ns, call_ns, alone_ns;
    uint64_t calls;
    orr_message_inbox inbox;
    bool told_lost;                        /* its loss was reported, and no team was heard since */
    bool refused, drains, done, dismissed; /* done: it drains since the job is complete */
    bool met;                              /* the coordinator was heard once */
    /* What it is in. */
    orr_member_report report; /* what it would say in a hello */
    bool in;                  /* the epoch stands             */
    orr_epoch epoch;          /* as of its committed step; addresses point into `text` */
    uint8_t *text;
    size_t text_bytes;
    uint64_t retries; /* attempts of the step before this one */
    /* What the owner does. */
    orr_team_member_phase phase;
    orr_team_directive directive;
    bool live; /* the directive is for the step under way: what is handed in counts      */
    bool said_ready;
    uint32_t reduced;
    orr_array(orr_reduction) reductions;
    orr_team_directive followed;
    bool follows;         /* a directive waits for its time */
    uint64_t holds_since; /* directives of epochs before this one hold no longer */
    uint64_t
        committed;    /* the last step that the owner was told is; 0: none, or its state is lost */
    uint64_t updated; /* the spans hold the state after this step, unless it heals */
    int64_t vote_ns;
    /* Coming back. */
    bool fetching, fetched, all_fetched;
    uint64_t fetch_key; /* of the state that is fetched; NEVER: none */
    uint64_t reach_key; /* of the state that it leads to, with the steps deferred since */
    orr_array(orr_deferred_step) deferred;
    bool offered; /* the state, to those who come back */
};

void orr_team_member_emit_event(orr_team_member *m, orr_team_event_kind kind, const char *format,
                                ...) ORR_PRINTF(3, 4);
void orr_team_member_send(orr_team_member *m, orr_team_message_kind kind, uint64_t step,
                          const orr_message_bytes *payload);

static inline const orr_epoch_member *orr_team_member_self(const orr_team_member *m)
{
    return &m->epoch.members[m->epoch.you];
}
static inline bool orr_team_member_is_healing(const orr_team_member *m)
{
    return m->in && orr_team_member_self(m)->role == ORR_ROLE_HEALING;
}

/* Handle messages of the coordinator (epoch.c). False: the message is malformed. */
bool orr_team_member_on_epoch(orr_team_member *m, const orr_net_frame *frame, const void *payload);
bool orr_team_member_on_commit(orr_team_member *m, const orr_net_frame *frame, const void *payload);
void orr_team_member_on_halt(orr_team_member *m, const char *why);

/* Directives and outcomes of the owner (directive.c). */
void orr_team_member_next_directive(orr_team_member *m);
/* The directive under way, if any, is decided; told when the owner is done with it. */
void orr_team_member_conclude_step(orr_team_member *m, orr_team_outcome_kind kind,
                                   uint64_t retries);
void orr_team_member_try_ready(orr_team_member *m);

/* Healing, and providing state to others that heal (heal.c). */
uint64_t
orr_team_member_state_key(const orr_team_member *m); /* of the state after the epoch's step */
void orr_team_member_reset_healing(orr_team_member *m);
void orr_team_member_try_fetch(orr_team_member *m);
bool orr_team_member_has_caught_up(
    const orr_team_member *m); /* state and all deferred steps are here */
bool orr_team_member_may_defer(
    const orr_team_member *m); /* there is room for another step's sums */
bool orr_team_member_defer(orr_team_member *m, uint64_t contributors); /* false: no memory */
void orr_team_member_offer_state(orr_team_member *m); /* if others want the state and it is here */
void orr_team_member_snapshot_state(orr_team_member *m); /* the state is about to change */
bool orr_team_member_apply_deferred(
    orr_team_member *m); /* gives the first deferred step as a directive;
                            false: there is none, or no state */
extern void orr_team_member_on_state_received(void *ctx),
    orr_team_member_on_state_lost(void *ctx, const char *why);

#endif /* ORR_TEAM_MEMBER_PARTS_H */
