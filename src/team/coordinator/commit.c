/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "team/coordinator/parts.h"

/* The vote of a step, a two-phase commit (Gray 1978): READY carries the digest of a member's sums,
 * and COMMIT follows when all members of the epoch are ready with the same digest. */

static bool all_ready(orr_coordinator *c)
{
    for (uint32_t i = 0; i < c->epoch.n; i++) {
        const orr_peer *peer = orr_peer_of_index(c, i);
        if (peer == NULL || !peer->ready)
            return false;
    }
    return true;
}

static bool digests_differ(orr_coordinator *c)
{
    const orr_peer *first = orr_peer_of_index(c, 0);
    for (uint32_t i = 1; i < c->epoch.n; i++)
        if (orr_peer_of_index(c, i)->digest != first->digest)
            return true;
    return false;
}

/* Whether somebody waits to join, or may leave: directly after a commit no step is disturbed. */
static bool members_change(const orr_coordinator *c)
{
    uint32_t staying = 0, leaving = 0;
    bool whole = false;
    for (uint32_t i = 0; i < ORR_COORDINATOR_MAX_PEERS; i++) {
        const orr_peer *peer = &c->peers[i];
        if (!orr_peer_is_candidate(c, peer))
            continue;
        if (!peer->in)
            return true;
        leaving += peer->leaving;
        staying += !peer->leaving;
        whole |= !peer->leaving && c->epoch.members[peer->index].role == ORR_ROLE_CONTRIBUTOR;
    }
    return leaving > 0 && (whole || staying == 0);
}

static void count_commit(orr_coordinator *c)
{
    const int64_t now = c->net->now_ns(c->net);
    c->step_ns = c->last_commit_ns > 0 && c->lost_at_ns == 0 ? now - c->last_commit_ns : c->step_ns;
    c->last_commit_ns = now;
    c->retries = 0;
    if (c->lost_at_ns == 0)
        return;
    const int64_t took = now - c->lost_at_ns;
    c->counters.recoveries++;
    c->counters.recovery_last_ns = took;
    c->counters.recovery_sum_ns += took;
    if (took > c->counters.recovery_max_ns)
        c->counters.recovery_max_ns = took;
    c->lost_at_ns = 0;
}

static void forget_attempt(orr_coordinator *c)
{
    for (uint32_t i = 0; i < ORR_COORDINATOR_MAX_PEERS; i++) {
        orr_peer *peer = &c->peers[i];
        peer->ready = peer->whole = false;
        peer->complaints = 0;
        peer->progress = (orr_heartbeat){0};
        peer->moved_ns = c->last_commit_ns;
    }
    c->retry_at_ns = INT64_MAX;
    c->attempt_ns = c->last_commit_ns;
}

static void send_commit(orr_coordinator *c)
{
    orr_commit_message commit = {.n = c->epoch.n};
    orr_message_bytes payload = {0};
    for (uint32_t i = 0; i < c->epoch.n; i++) {
        commit.role[i] = c->epoch.members[i].role;
        commit.slot[i] = c->epoch.members[i].slot;
    }
    if (orr_write_commit(&payload, &commit))
        for (uint32_t i = 0; i < c->epoch.n; i++)
            orr_message_send(c->net, orr_peer_of_index(c, i)->conn, ORR_MESSAGE_COMMIT,
                             c->epoch.epoch, c->epoch.step, &payload);
    orr_array_done(&payload);
}

/* Updates what is known of all members to the state after the commit. */
static void settle_reports(orr_coordinator *c)
{
    for (uint32_t i = 0; i < c->epoch.n; i++) {
        orr_member_report *r = &orr_peer_of_index(c, i)->report;
        const bool whole = c->epoch.members[i].role == ORR_ROLE_CONTRIBUTOR;
        r->step = whole ? c->epoch.step : ORR_TEAM_NONE;
        r->data = c->epoch.data;
        r->known = c->epoch.step;
        r->known_epoch = c->epoch.data.epoch;
        r->known_made = c->epoch.data.made;
        r->slot = c->epoch.members[i].slot;
        r->base = c->memory.record.base;
        r->carried = r->prepared = false;
    }
}

static void commit(orr_coordinator *c)
{
    bool whole[ORR_TEAM_MAX_REPLICAS];
    const bool broken =
        c->retry_at_ns != INT64_MAX; /* somebody said so, who will not say it again */
    for (uint32_t i = 0; i < c->epoch.n; i++)
        whole[i] = orr_peer_of_index(c, i)->whole;
    if (!orr_roster_advance(&c->epoch, whole)) {
        orr_coordinator_form_epoch(c);
        return;
    }
    if (!orr_coordinator_persist_epoch(c, &c->epoch, true))
        return;
    c->first_commit = false;
    c->counters.commits++;
    count_commit(c);
    forget_attempt(c);
    settle_reports(c);
    send_commit(c);
    orr_coordinator_emit_event(c, ORR_TEAM_COMMIT, "%u contribute to the next",
                               orr_epoch_contributors(&c->epoch));
    c->attempted = false;
    if (broken || members_change(c))
        orr_coordinator_form_epoch(c);
    c->attempted = true;
}

static void note_prepared(orr_coordinator *c, orr_peer *peer)
{
    orr_member_report *r = &peer->report;
    if (peer->whole) { /* of one that comes back, it was not known */
        r->step = c->epoch.step;
        r->data = c->epoch.data;
    }
    r->prepared = peer->whole || !c->epoch.carried;
    r->digest = peer->digest;
    r->made = c->epoch.carried ? c->epoch.made : c->epoch.epoch;
    r->n_slots = orr_epoch_slots(&c->epoch, r->slots);
}

void orr_coordinator_on_ready(orr_coordinator *c, orr_peer *peer, const orr_net_frame *frame,
                              const orr_ready_message *ready)
{
    if (c->state != ORR_STATE_RUNNING || !peer->in || frame->epoch != c->epoch.epoch ||
        frame->step != c->epoch.step + 1)
        return;
    peer->ready = true;
    peer->whole = ready->whole;
    peer->digest = ready->digest;
    peer->moved_ns = peer->heard_ns;
    note_prepared(c, peer);
    if (!all_ready(c))
        return;
    if (!digests_differ(c)) {
        commit(c);
        return;
    }
    c->counters.lost[ORR_LOST_DIGEST]++;
    orr_coordinator_emit_event(c, ORR_TEAM_RETRY, "sums of step %llu differ between replicas",
                               (unsigned long long)frame->step);
    for (uint32_t i = 0; i < ORR_COORDINATOR_MAX_PEERS; i++)
        c->peers[i].report.prepared = false;
    orr_coordinator_form_epoch(c);
}
