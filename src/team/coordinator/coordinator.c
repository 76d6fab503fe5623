/* SPDX-License-Identifier: Apache-2.0 */
#include "team/coordinator/coordinator.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "team/coordinator/parts.h"

/* Connections to the coordinator: hello, heartbeats, fault reports; refusing strangers; opening and
 * closing. */

void orr_coordinator_emit_event(orr_coordinator *c, orr_team_event_kind kind, const char *format,
                                ...)
{
    char text[2 * ORR_TEAM_REASON_BYTES];
    va_list args;
    if (c->settings.on_event == NULL)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const orr_team_event event = {.kind = (uint8_t)kind,
                                  .at_ns = c->net->now_ns(c->net),
                                  .epoch = c->memory.record.epoch,
                                  .step = c->epoch.step,
                                  .text = text};
    c->settings.on_event(c->settings.ctx, &event);
}

static orr_peer *peer_of_conn(orr_coordinator *c, orr_conn conn)
{
    for (uint32_t i = 0; i < ORR_COORDINATOR_MAX_PEERS; i++)
        if (c->peers[i].conn == conn)
            return &c->peers[i];
    return NULL;
}

orr_peer *orr_peer_of_index(orr_coordinator *c, uint32_t index)
{
    for (uint32_t i = 0; i < ORR_COORDINATOR_MAX_PEERS; i++)
        if (c->peers[i].conn != 0 && c->peers[i].in && c->peers[i].index == index)
            return &c->peers[i];
    return NULL;
}

bool orr_peer_is_candidate(const orr_coordinator *c, const orr_peer *peer)
{
    const int64_t now = c->net->now_ns(c->net);
    return peer->conn != 0 && peer->hello && now >= peer->excluded_ns &&
           now - peer->heard_ns <= c->times.silent_ns;
}

void orr_peer_drop(orr_coordinator *c, orr_peer *peer)
{
    if (peer->conn != 0)
        c->net->close(c->net, peer->conn, true);
    orr_free(peer->addresses);
    orr_free(peer->inbox.at);
    *peer = (orr_peer){.conn = 0};
    c->changed = true;
}

/* Notes by name that a replica is absent, or is here. */
static void note_absent(orr_coordinator *c, const orr_member_id *id, bool absent)
{
    orr_member_list *l = &c->absent;
    uint32_t i = 0;
    while (i < l->n && strcmp(l->ids[i].name, id->name) != 0)
        i++;
    if (absent && i == l->n && l->n < ORR_TEAM_MAX_REPLICAS)
        l->ids[l->n++] = *id;
    else if (!absent && i < l->n)
        l->ids[i] = l->ids[--l->n];
}

void orr_peer_lost(orr_coordinator *c, orr_peer *peer, bool gone, const char *why)
{
    if (peer->hello) {
        note_absent(c, &peer->report.id, true);
        if (gone)
            orr_membership_gone(&c->memory, &peer->report.id);
        if (peer->in && c->lost_at_ns == 0)
            c->lost_at_ns = c->net->now_ns(c->net);
        if (peer->in)
            c->counters.lost[gone ? ORR_LOST_DEATH : ORR_LOST_SILENCE]++;
        orr_coordinator_emit_event(c, ORR_TEAM_LOST, "%s: %s", peer->report.id.name, why);
    }
    orr_peer_drop(c, peer);
}

void orr_peer_refuse(orr_coordinator *c, orr_peer *peer, const char *name, const char *why)
{
    orr_message_send_fault(c->net, peer->conn, ORR_MESSAGE_REFUSED, c->memory.record.epoch,
                           UINT32_MAX, why);
    orr_coordinator_emit_event(c, ORR_TEAM_REFUSED, "%s: %s", name, why);
    orr_peer_drop(c, peer);
}

/* Two lives of the same replica: the later one stays. */
static bool supersede(orr_coordinator *c, orr_peer *peer, const orr_hello *hello)
{
    const orr_member_id *id = &hello->report.id;
    for (uint32_t i = 0; i < ORR_COORDINATOR_MAX_PEERS; i++) {
        orr_peer *old = &c->peers[i];
        if (old == peer || old->conn == 0 || !old->hello ||
            strcmp(old->report.id.name, id->name) != 0)
            continue;
        if (old->report.id.incarnation > id->incarnation) {
            orr_peer_refuse(c, peer, id->name, "another process of this name was started later");
            return false;
        }
        if (old->report.id.incarnation == id->incarnation) {
            orr_peer_lost(c, old, false, "it has come on another connection");
        } else {
            orr_membership_gone(&c->memory, &old->report.id);
            if (old->in && c->lost_at_ns == 0)
                c->lost_at_ns = c->net->now_ns(c->net);
            orr_peer_refuse(c, old, id->name, "another process of this name was started later");
        }
    }
    return true;
}

static const char *refusal_reason(const orr_coordinator *c, const orr_hello *hello)
{
    if (hello->addresses.ranks != hello->ranks || hello->rank != 0)
        return "it does not speak for all ranks of its replica";
    if (c->known && hello->fingerprint != c->fingerprint)
        return ORR_COORDINATOR_ANOTHER_JOB;
    if (!orr_membership_is_plausible_report(&c->memory, &hello->report))
        return "the numbers of its epochs, steps or slots cannot be true";
    uint32_t others = 0;
    for (uint32_t i = 0; i < ORR_COORDINATOR_MAX_PEERS; i++) {
        const orr_peer *other = &c->peers[i];
        if (other->conn == 0 || !other->hello)
            continue;
        if (other->ranks != hello->ranks)
            return "its replica has another number of ranks";
        others += strcmp(other->report.id.name, hello->report.id.name) != 0;
    }
    return others >= ORR_TEAM_MAX_REPLICAS ? "the team has as many replicas as there can be" : NULL;
}

static bool keep_addresses(orr_peer *peer, const orr_addresses *addresses)
{
    char *copy = orr_malloc(addresses->bytes);
    if (copy == NULL)
        return false;
    memcpy(copy, addresses->text, addresses->bytes);
    orr_free(peer->addresses);
    peer->addresses = copy;
    peer->address_bytes = addresses->bytes;
    peer->ranks = addresses->ranks;
    return true;
}

static bool has_hello_of(const orr_coordinator *c, const char *name)
{
    for (uint32_t i = 0; i < ORR_COORDINATOR_MAX_PEERS; i++)
        if (c->peers[i].hello && strcmp(c->peers[i].report.id.name, name) == 0)
            return true;
    return false;
}

/* The caller of this name; else the place of one who is not here, of whom there is one, since no
 * more replicas than there are places are taken. */
static orr_caller *caller_of(orr_coordinator *c, const char *name)
{
    orr_caller *room = &c->callers[0];
    for (uint32_t i = 0; i < ORR_TEAM_MAX_REPLICAS; i++) {
        orr_caller *one = &c->callers[i];
        if (strcmp(one->id.name, name) == 0)
            return one;
        if (!has_hello_of(c, one->id.name))
            room = one;
    }
    return room;
}

static void on_hello(orr_coordinator *c, orr_peer *peer, const orr_hello *hello, uint64_t call)
{
    if (!orr_coordinator_heed_call(c)) {
        orr_peer_drop(c, peer);
        return;
    }
    const char *why = refusal_reason(c, hello);
    if (c->ended && !c->taken) { /* a replica that comes late */
        note_absent(c, &hello->report.id, false);
        peer->report = hello->report;
        orr_peer_dismiss(c, peer);
        return;
    }
    if (why != NULL) {
        orr_peer_refuse(c, peer, hello->report.id.name, why);
        return;
    }
    const orr_member_id *id = &hello->report.id;
    if (orr_caller_is_late(caller_of(c, id->name), id, call)) {
        orr_peer_drop(c, peer);
        return;
    }
    if (!supersede(c, peer, hello))
        return;
    if (!keep_addresses(peer, &hello->addresses)) {
        orr_peer_drop(c, peer);
        return;
    }
    peer->hello = true;
    peer->report = hello->report;
    note_absent(c, &hello->report.id, false);
    peer->fingerprint = hello->fingerprint;
    c->changed = true;
    if (c->first_hello_ns == 0)
        c->first_hello_ns = c->net->now_ns(c->net);
    orr_membership_arrived(&c->memory, &hello->report.id);
    if (hello->report.step == ORR_TEAM_NONE)
        orr_coordinator_emit_event(c, ORR_TEAM_JOINED, "%s, without a state",
                                   hello->report.id.name);
    else
        orr_coordinator_emit_event(c, ORR_TEAM_JOINED, "%s, after step %llu", hello->report.id.name,
                                   (unsigned long long)hello->report.step);
}

/* An operator says that a replica will not come back. */
static void on_forget(orr_coordinator *c, orr_peer *operator_, const char *name)
{
    char why[ORR_TEAM_REASON_BYTES];
    orr_member_id gone = {.incarnation = 0};
    snprintf(gone.name, sizeof gone.name, "%.*s", ORR_TEAM_NAME_BYTES - 1, name);
    if (has_hello_of(c, name)) {
        snprintf(why, sizeof why, "%.40s is here", name);
        orr_peer_refuse(c, operator_, "operator", why);
        return;
    }
    if (orr_coordinator_stands_by(c)) {
        orr_peer_refuse(c, operator_, "operator", "it stands by: nobody waits here");
        return;
    }
    if (!orr_membership_forget(&c->memory, name)) {
        snprintf(why, sizeof why, "nobody waits for a replica %.40s", name);
        orr_peer_refuse(c, operator_, "operator", why);
        return;
    }
    note_absent(c, &gone, false);
    c->changed = true;
    orr_coordinator_emit_event(c, ORR_TEAM_LEFT, "%s: an operator says that it will not come back",
                               name);
    orr_message_send_fault(c->net, operator_->conn, ORR_MESSAGE_FORGOTTEN, c->memory.record.epoch,
                           UINT32_MAX, "nobody waits for it any longer");
}

static void on_heartbeat(orr_coordinator *c, orr_peer *peer, const orr_net_frame *frame,
                         const orr_heartbeat *h)
{
    orr_message_send(c->net, peer->conn, ORR_MESSAGE_HEARTBEAT_ACK, c->memory.record.epoch, 0,
                     NULL);
    if (frame->epoch != c->epoch.epoch || memcmp(&peer->progress, h, sizeof *h) == 0)
        return;
    peer->progress = *h;
    peer->moved_ns = peer->heard_ns;
}

/* Handles a message; false: it is not one that a member sends. */
static bool hear(orr_coordinator *c, orr_peer *peer, const orr_net_frame *frame,
                 const void *payload)
{
    orr_hello hello;
    orr_heartbeat heartbeat;
    orr_ready_message ready;
    orr_fault_report fault;
    if (frame->kind == ORR_MESSAGE_HELLO && !peer->hello) {
        if (!orr_read_hello(payload, frame->bytes, &hello))
            return false;
        on_hello(c, peer, &hello, frame->step);
        return true;
    }
    if (frame->kind == ORR_MESSAGE_FORGET && !peer->hello) {
        if (!orr_read_fault(payload, frame->bytes, &fault))
            return false;
        on_forget(c, peer, fault.why);
        return true;
    }
    if (!peer->hello)
        return false;
    switch (frame->kind) {
    case ORR_MESSAGE_HEARTBEAT:
        if (!orr_read_heartbeat(payload, frame->bytes, &heartbeat))
            return false;
        on_heartbeat(c, peer, frame, &heartbeat);
        return true;
    case ORR_MESSAGE_READY:
        if (!orr_read_ready(payload, frame->bytes, &ready))
            return false;
        orr_coordinator_on_ready(c, peer, frame, &ready);
        return true;
    case ORR_MESSAGE_FAULT:
        if (!orr_read_fault(payload, frame->bytes, &fault))
            return false;
        if (frame->epoch == c->epoch.epoch)
            orr_coordinator_on_fault(c, peer, &fault);
        return true;
    case ORR_MESSAGE_LEAVE:
        peer->leaving = c->changed = true;
        peer->done |= frame->op == 1;
        return true;
    default:
        return frame->kind == ORR_MESSAGE_STATE_COMPLETE;
    }
}

static void on_accepted(void *ctx, orr_conn conn)
{
    orr_coordinator *c = ctx;
    for (uint32_t i = 0; i < ORR_COORDINATOR_MAX_PEERS; i++) {
        if (c->peers[i].conn != 0)
            continue;
        c->peers[i] = (orr_peer){.conn = conn, .heard_ns = c->net->now_ns(c->net)};
        return;
    }
    c->net->close(c->net, conn, false);
}

enum { MOST_PAYLOAD = 1 << 26 };

static void *on_place(void *ctx, orr_conn conn, const orr_net_frame *frame)
{
    orr_coordinator *c = ctx;
    orr_peer *peer = peer_of_conn(c, conn);
    return peer != NULL ? orr_message_inbox_place(&peer->inbox, frame, MOST_PAYLOAD) : NULL;
}

static void on_frame(void *ctx, orr_conn conn, const orr_net_frame *frame, const void *payload)
{
    orr_coordinator *c = ctx;
    orr_peer *peer = peer_of_conn(c, conn);
    if (peer == NULL)
        return;
    peer->heard_ns = c->net->now_ns(c->net);
    if ((frame->bytes > 0 && payload == NULL) || !hear(c, peer, frame, payload))
        orr_peer_lost(c, peer, false, "it said what nobody understands");
    orr_coordinator_reconfigure(c);
}

static void on_closed(void *ctx, orr_conn conn, orr_net_close_reason why)
{
    orr_coordinator *c = ctx;
    orr_peer *peer = peer_of_conn(c, conn);
    if (peer == NULL)
        return;
    peer->conn = 0;
    orr_peer_lost(c, peer, why == ORR_NET_PEER_CLOSED, orr_net_close_reason_text(why));
    orr_coordinator_reconfigure(c);
}

static void on_woken(void *ctx)
{
    orr_coordinator *c = ctx;
    orr_coordinator_detect_failures(c);
    orr_coordinator_watch_record(c);
    orr_coordinator_reconfigure(c);
}

orr_status orr_coordinator_new(orr_net *net, const orr_coordinator_settings *settings,
                               orr_coordinator **ret, orr_error *err)
{
    orr_coordinator *c = orr_calloc(1, sizeof *c);
    orr_status status;
    if (c == NULL)
        return orr_fail_memory(err);
    c->net = net;
    c->settings = *settings;
    c->retry_at_ns = INT64_MAX;
    const int64_t now = net->now_ns(net);
    c->user = (orr_net_callbacks){.ctx = c,
                                  .accepted = on_accepted,
                                  .place = on_place,
                                  .frame = on_frame,
                                  .closed = on_closed,
                                  .woken = on_woken};
    ORR_TRY_OUT(status, orr_team_timeouts_of(settings->failure_timeout_ns, &c->times, err));
    if (settings->join_window_ns == 0)
        c->settings.join_window_ns = 10 * c->times.failure_ns;
    if (settings->outage_timeout_ns == 0)
        c->settings.outage_timeout_ns = ORR_COORDINATOR_OUTAGE_NS;
    if (settings->replicas > ORR_TEAM_MAX_REPLICAS ||
        settings->min_replicas > ORR_TEAM_MAX_REPLICAS ||
        (settings->replicas > 0 && settings->min_replicas > settings->replicas)) {
        status = orr_fail(err, ORR_INVALID, "a team of %u replicas, at least %u of %d at most",
                          settings->replicas, settings->min_replicas, ORR_TEAM_MAX_REPLICAS);
        goto out;
    }
    if (settings->standby && (settings->store == NULL || !settings->store->shared)) {
        status = orr_fail(err, ORR_INVALID, "coordinators that stand by share their store: etcd");
        goto out;
    }
    ORR_TRY_OUT(status, orr_coordinator_load_record(c, err));
    ORR_TRY_OUT(status, net->listen(net, &c->user, settings->listen, c->address, err));
    net->wake_at(net, &c->user, now + c->times.heartbeat_ns / 2);
    c->began_ns = now;
    c->patience_ns = c->times.failure_ns;
    if (settings->standby)
        orr_coordinator_stand_by(c, "it leads when replicas call");
    *ret = c;
out:
    if (status != ORR_OK)
        orr_coordinator_free(c);
    return status;
}

void orr_coordinator_free(orr_coordinator *c)
{
    if (c == NULL)
        return;
    c->net->forget(c->net, &c->user);
    for (uint32_t i = 0; i < ORR_COORDINATOR_MAX_PEERS; i++) {
        orr_free(c->peers[i].addresses);
        orr_free(c->peers[i].inbox.at);
    }
    orr_free(c);
}

const char *orr_coordinator_address(const orr_coordinator *c)
{
    return c->address;
}

bool orr_coordinator_is_superseded(const orr_coordinator *c)
{
    return c->taken;
}

bool orr_coordinator_has_ended(const orr_coordinator *c, const char **ret_why)
{
    *ret_why = c->why;
    return c->ended;
}

bool orr_coordinator_awaits_late(const orr_coordinator *c)
{
    return c->ended && !c->taken && c->absent.n > 0;
}
