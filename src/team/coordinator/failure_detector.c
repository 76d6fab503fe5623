/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "team/coordinator/parts.h"

/* The failure detector. A closed connection needs none; here are found, by timeouts alone:
 * members that are silent, and steps that stall although all members live. A stalled step is made
 * again with new connections; after RETRIES times with the same members, the member that most
 * others wait for is excluded for a while. */

enum { RETRIES = 3 }; /* of a step with the same members, before one is excluded */

static void find_silent(orr_coordinator *c, int64_t now)
{
    char why[ORR_TEAM_REASON_BYTES];
    for (uint32_t i = 0; i < ORR_COORDINATOR_MAX_PEERS; i++) {
        orr_peer *peer = &c->peers[i];
        if (peer->conn == 0 || now - peer->heard_ns <= c->times.silent_ns)
            continue;
        snprintf(why, sizeof why, "silent for %lld ms",
                 (long long)((now - peer->heard_ns) / 1000000));
        orr_peer_lost(c, peer, false, why);
    }
}

/* Excludes a member from the next epochs for a while, in which the others go on. */
static void exclude(orr_coordinator *c, orr_peer *peer, orr_loss_cause how, const char *why)
{
    orr_message_send_fault(c->net, peer->conn, ORR_MESSAGE_HALT, c->epoch.epoch, UINT32_MAX, why);
    peer->excluded_ns = c->net->now_ns(c->net) + 4 * c->times.failure_ns;
    peer->report.prepared = false;
    c->counters.lost[how]++;
    if (c->lost_at_ns == 0)
        c->lost_at_ns = c->net->now_ns(c->net);
    orr_coordinator_emit_event(c, ORR_TEAM_LOST, "%s: %s", peer->report.id.name, why);
    c->changed = true;
}

/* Whether every member has submitted the same reductions and some are incomplete: then the step
 * waits for communication alone. */
static bool waits_for_frames(orr_coordinator *c)
{
    const orr_peer *first = orr_peer_of_index(c, 0);
    bool waits = false;
    for (uint32_t i = 0; i < c->epoch.n; i++) {
        const orr_peer *peer = orr_peer_of_index(c, i);
        if (peer == NULL || peer->progress.posted != first->progress.posted)
            return false;
        waits |= peer->progress.reduced < peer->progress.posted;
    }
    return waits;
}

/* Whether nothing has moved for so long that nothing will. How long a step computes is not known in
 * advance; how long frames take is. */
static bool stalls(orr_coordinator *c, int64_t now)
{
    const int64_t patience_ns = waits_for_frames(c)
                                    ? c->times.failure_ns
                                    : orr_team_stall_timeout_ns(&c->times, c->step_ns);
    int64_t moved = c->attempt_ns;
    for (uint32_t i = 0; i < c->epoch.n; i++) {
        const orr_peer *peer = orr_peer_of_index(c, i);
        if (peer != NULL && peer->moved_ns > moved)
            moved = peer->moved_ns;
    }
    return now - moved > patience_ns;
}

/* The straggler: the member that has submitted the fewest reductions; NULL: all have submitted the
 * same. */
static orr_peer *straggler(orr_coordinator *c)
{
    orr_peer *last = NULL;
    uint64_t most = 0;
    for (uint32_t i = 0; i < c->epoch.n; i++) {
        orr_peer *peer = orr_peer_of_index(c, i);
        if (peer == NULL)
            continue;
        most = peer->progress.posted > most ? peer->progress.posted : most;
        if (!peer->ready && (last == NULL || peer->progress.posted < last->progress.posted))
            last = peer;
    }
    return last != NULL && last->progress.posted < most ? last : NULL;
}

/* Counts a fault against both ends of every link on which frames were sent and not received. */
static void complain_of_links(orr_coordinator *c)
{
    for (uint32_t i = 0; i < c->epoch.n && c->epoch.n > 1; i++) {
        orr_peer *left = orr_peer_of_index(c, i);
        orr_peer *right = orr_peer_of_index(c, (i + 1) % c->epoch.n);
        if (left == NULL || right == NULL || left->progress.sent <= right->progress.received)
            continue;
        left->complaints++;
        right->complaints++;
    }
}

static orr_peer *most_complained_of(orr_coordinator *c)
{
    orr_peer *worst = NULL;
    for (uint32_t i = 0; i < c->epoch.n; i++) {
        orr_peer *peer = orr_peer_of_index(c, i);
        if (peer != NULL && (worst == NULL || peer->complaints >= worst->complaints))
            worst = peer;
    }
    return worst;
}

/* Makes the step again with new connections; after RETRIES, without one member. */
static void retry(orr_coordinator *c, orr_loss_cause how, const char *why)
{
    c->retry_at_ns = INT64_MAX;
    if (c->lost_at_ns == 0)
        c->lost_at_ns = c->net->now_ns(c->net);
    orr_peer *worst = most_complained_of(c);
    if (c->retries >= RETRIES && worst != NULL && c->epoch.n > 1) {
        exclude(c, worst, how, why);
        return;
    }
    c->counters.lost[how]++;
    orr_coordinator_emit_event(c, ORR_TEAM_RETRY, "step %llu: %s",
                               (unsigned long long)c->epoch.step + 1, why);
    orr_coordinator_form_epoch(c);
}

static void find_stalled(orr_coordinator *c, int64_t now)
{
    if (c->state != ORR_STATE_RUNNING || !stalls(c, now))
        return;
    orr_peer *late = straggler(c);
    if (late != NULL) {
        exclude(c, late, ORR_LOST_STALL, "all others wait for it, and it does not move");
        return;
    }
    complain_of_links(c);
    retry(c, ORR_LOST_STALL, "nothing moves");
}

void orr_coordinator_on_fault(orr_coordinator *c, orr_peer *from, const orr_fault_report *fault)
{
    if (c->state != ORR_STATE_RUNNING || !from->in)
        return;
    orr_peer *about = orr_peer_of_index(c, fault->about);
    (about != NULL ? about : from)->complaints++;
    orr_coordinator_emit_event(c, ORR_TEAM_RETRY, "%s says that the ring broke at %s: %s",
                               from->report.id.name,
                               about != NULL ? about->report.id.name : "nobody", fault->why);
    if (c->retry_at_ns == INT64_MAX) /* who died is known in a moment */
        c->retry_at_ns = c->net->now_ns(c->net) + c->times.grace_ns;
    c->net->wake_at(c->net, &c->user, c->retry_at_ns);
}

void orr_coordinator_detect_failures(orr_coordinator *c)
{
    const int64_t now = c->net->now_ns(c->net);
    find_silent(c, now);
    if (c->state == ORR_STATE_RUNNING && now >= c->retry_at_ns && !c->changed)
        retry(c, ORR_LOST_CONNECTION, "a connection between members broke");
    else if (!c->changed)
        find_stalled(c, now);
    c->changed |= c->state != ORR_STATE_RUNNING;
    c->memory.waited_for_absent =
        c->state == ORR_STATE_HALTED && now - c->halted_ns >= c->settings.join_window_ns;
    c->memory.waited_for_quorum =
        c->state == ORR_STATE_HALTED && now - c->halted_ns >= c->settings.outage_timeout_ns;
    const int64_t next = now + c->times.heartbeat_ns / 2;
    c->net->wake_at(c->net, &c->user, next < c->retry_at_ns ? next : c->retry_at_ns);
}
