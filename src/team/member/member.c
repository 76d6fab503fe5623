/* SPDX-License-Identifier: Apache-2.0 */
#include "team/member/member.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "team/member/parts.h"

/* The connection of a member to its coordinator: calling it, hello, heartbeats, and fencing, that
 * is leaving a coordinator that is silent for the failure timeout. */

void orr_team_member_emit_event(orr_team_member *m, orr_team_event_kind kind, const char *format,
                                ...)
{
    char text[2 * ORR_TEAM_REASON_BYTES];
    va_list args;
    if (m->owner.on_event == NULL)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const orr_team_event event = {.kind = (uint8_t)kind,
                                  .at_ns = m->net->now_ns(m->net),
                                  .epoch = m->epoch.epoch,
                                  .step = m->epoch.step,
                                  .text = text};
    m->owner.on_event(m->owner.ctx, &event);
}

void orr_team_member_send(orr_team_member *m, orr_team_message_kind kind, uint64_t step,
                          const orr_message_bytes *payload)
{
    orr_message_send(m->net, m->conn, kind, m->epoch.epoch, step, payload);
}

static void say_leave(orr_team_member *m)
{
    const orr_net_frame frame = {.kind = ORR_MESSAGE_LEAVE, .epoch = m->epoch.epoch, .op = m->done};
    if (m->conn != 0)
        m->net->send(m->net, m->conn, &frame, NULL, false);
}

static void say_hello(orr_team_member *m)
{
    char addresses[2 * ORR_NET_ADDRESS_BYTES];
    orr_message_bytes payload = {0};
    const char *ring = orr_ring_address(m->ring), *state = orr_state_provider_address(m->provider);
    const size_t ring_bytes = strlen(ring) + 1, state_bytes = strlen(state) + 1;
    const bool healed = m->epoch.n > 0 && orr_team_member_self(m)->role == ORR_ROLE_HEALING;
    if (healed && orr_team_member_has_caught_up(m)) { /* since it said last how far it is */
        m->report.step = m->epoch.step;
        m->report.data = m->epoch.data;
    }
    memcpy(addresses, ring, ring_bytes);
    memcpy(addresses + ring_bytes, state, state_bytes);
    const orr_hello hello = {.fingerprint = m->settings.fingerprint,
                             .rank = m->settings.rank,
                             .ranks = m->settings.ranks,
                             .report = m->report,
                             .addresses = {addresses, ring_bytes + state_bytes, 1}};
    if (orr_write_hello(&payload, &hello))
        orr_team_member_send(m, ORR_MESSAGE_HELLO, ++m->calls, &payload);
    orr_array_done(&payload);
    if (m->drains)
        say_leave(m);
    if (m->fetched)
        orr_team_member_send(m, ORR_MESSAGE_STATE_COMPLETE, m->fetch_key, NULL);
}

static void call(orr_team_member *m, int64_t now)
{
    orr_error err;
    m->call_ns = now + m->times.reconnect_ns;
    if (m->net->connect(m->net, &m->user, orr_coordinator_list_call(&m->coordinators), &m->conn,
                        &err) != ORR_OK) {
        m->conn = 0;
        orr_coordinator_list_next(&m->coordinators);
        return;
    }
    m->heard_ns = now;
    say_hello(m);
}

/* Closes the connection to the coordinator, and calls it again after a while. */
static void disconnect(orr_team_member *m, const char *why)
{
    if (m->conn != 0)
        m->net->close(m->net, m->conn, true);
    m->conn = 0;
    m->call_ns = m->net->now_ns(m->net) + m->times.reconnect_ns;
    if (m->alone_ns == 0)
        m->alone_ns = m->net->now_ns(m->net);
    if (!m->told_lost && !m->dismissed) /* it is called again many times a second */
        orr_team_member_emit_event(m, ORR_TEAM_COORDINATOR_LOST, "%s", why);
    m->told_lost = true;
}

static void beat(orr_team_member *m)
{
    const orr_ring_progress p = orr_ring_progress_of(m->ring);
    const uint64_t fetched = orr_state_receiver_progress_of(m->receiver).bytes;
    const orr_heartbeat heartbeat = {p.posted, p.reduced, p.sent, p.received, fetched};
    orr_message_bytes payload = {0};
    if (orr_write_heartbeat(&payload, &heartbeat))
        orr_team_member_send(m, ORR_MESSAGE_HEARTBEAT, m->epoch.step + 1, &payload);
    orr_array_done(&payload);
}

static void on_woken(void *ctx)
{
    orr_team_member *m = ctx;
    const int64_t now = m->net->now_ns(m->net);
    if (m->refused || m->dismissed)
        return;
    if (m->conn != 0 && now - m->heard_ns > m->times.fenced_ns) {
        orr_coordinator_list_next(&m->coordinators);
        disconnect(m, "the coordinator is silent");
    }
    if (m->conn == 0 && now >= m->call_ns)
        call(m, now);
    else if (m->conn != 0)
        beat(m);
    const int64_t next = now + (m->conn == 0 ? m->times.reconnect_ns : m->times.heartbeat_ns);
    m->net->wake_at(m->net, &m->user, next);
}

/* For good. */
static void refused(orr_team_member *m, const char *why)
{
    m->refused = true;
    m->net->close(m->net, m->conn, false);
    m->conn = 0;
    m->in = false;
    orr_ring_leave(m->ring);
    m->owner.refused(m->owner.ctx, why);
}

/* A coordinator of another key is none of this team's, unless it was heard before: then somebody
 * else is at its address, and it may come back. */
static void on_closed(void *ctx, orr_conn conn, orr_net_close_reason why)
{
    orr_team_member *m = ctx;
    if (conn != m->conn)
        return;
    m->conn = 0;
    orr_coordinator_list_lost(&m->coordinators);
    if (why == ORR_NET_UNPROVEN && !m->met) {
        refused(m, "the coordinator has another key, or none");
        return;
    }
    disconnect(m, orr_net_close_reason_text(why));
    m->net->wake_at(m->net, &m->user, m->call_ns);
}

static void *on_place(void *ctx, orr_conn conn, const orr_net_frame *frame)
{
    orr_team_member *m = ctx;
    (void)conn;
    return orr_message_inbox_place(&m->inbox, frame, 1 << 20);
}

static void dismiss(orr_team_member *m)
{
    if (!m->drains)
        orr_team_member_emit_event(m, ORR_TEAM_LEFT, "the job has ended");
    m->dismissed = true;
    m->in = false;
    orr_ring_leave(m->ring);
    orr_team_member_conclude_step(m, ORR_OUTCOME_DROPPED, 0);
    orr_team_member_next_directive(m);
}

static bool hear(orr_team_member *m, const orr_net_frame *frame, const void *payload)
{
    orr_fault_report why;
    switch (frame->kind) {
    case ORR_MESSAGE_HEARTBEAT_ACK:
        return true;
    case ORR_MESSAGE_EPOCH:
        return orr_team_member_on_epoch(m, frame, payload);
    case ORR_MESSAGE_COMMIT:
        return orr_team_member_on_commit(m, frame, payload);
    case ORR_MESSAGE_HALT:
    case ORR_MESSAGE_REFUSED:
        if (!orr_read_fault(payload, frame->bytes, &why))
            return false;
        if (frame->kind == ORR_MESSAGE_HALT)
            orr_team_member_on_halt(m, why.why);
        else
            refused(m, why.why);
        return true;
    case ORR_MESSAGE_DISMISS:
        dismiss(m);
        return true;
    case ORR_MESSAGE_STANDBY:
        orr_coordinator_list_next(&m->coordinators);
        disconnect(m, "the coordinator stands by");
        return true;
    case ORR_MESSAGE_ALL_STATE_COMPLETE:
        m->all_fetched |= m->fetched && frame->step == m->fetch_key;
        orr_team_member_next_directive(m);
        return true;
    default:
        return false;
    }
}

static void on_frame(void *ctx, orr_conn conn, const orr_net_frame *frame, const void *payload)
{
    orr_team_member *m = ctx;
    if (conn != m->conn)
        return;
    m->heard_ns = m->net->now_ns(m->net);
    m->met = m->coordinators.answered = true;
    m->told_lost &= frame->kind == ORR_MESSAGE_HEARTBEAT_ACK || frame->kind == ORR_MESSAGE_STANDBY;
    if ((frame->bytes > 0 && payload == NULL) || !hear(m, frame, payload))
        disconnect(m, "the coordinator said what nobody understands");
}

static void on_reduced(void *ctx, uint32_t op)
{
    orr_team_member *m = ctx;
    (void)op;
    m->reduced++;
    orr_team_member_try_ready(m);
}

static void on_broken(void *ctx, uint32_t member, const char *why)
{
    orr_team_member *m = ctx;
    orr_message_send_fault(m->net, m->conn, ORR_MESSAGE_FAULT, m->epoch.epoch, member, why);
    orr_team_member_emit_event(m, ORR_TEAM_RETRY, "the ring broke at %s: %s",
                               member < m->epoch.n ? m->epoch.members[member].id.name : "nobody",
                               why);
}

static orr_status check(const orr_team_member_settings *s, orr_error *err)
{
    if (s->name == NULL || s->name[0] == '\0' || strlen(s->name) >= ORR_TEAM_NAME_BYTES)
        return orr_fail(err, ORR_INVALID, "a replica's name has 1 to %d characters",
                        ORR_TEAM_NAME_BYTES - 1);
    if (s->ranks == 0 || s->rank >= s->ranks)
        return orr_fail(err, ORR_INVALID, "rank %u of %u", s->rank, s->ranks);
    return ORR_OK;
}

static orr_status open_parts(orr_team_member *m, orr_error *err)
{
    const orr_team_member_settings *s = &m->settings;
    orr_net *state = s->state_net != NULL ? s->state_net : m->net;
    ORR_TRY(orr_team_timeouts_of(s->failure_timeout_ns, &m->times, err));
    ORR_TRY(orr_coordinator_list_read(s->coordinator, &m->coordinators, err));
    ORR_TRY(orr_ring_new(m->net, s->where, &s->ring,
                         s->reducer != NULL ? s->reducer : &orr_ring_reducer_host, &m->ring_user,
                         &m->ring, err));
    const char *where = s->state_where != NULL ? s->state_where : s->where;
    ORR_TRY(orr_state_provider_new(state, where, s->spans, s->n_spans, &m->provider, err));
    return orr_state_receiver_new(m->net, s->spans, s->n_spans, 0, &m->receiver_user, &m->receiver,
                                  err);
}

orr_status orr_team_member_new(orr_net *net, const orr_team_member_settings *settings,
                               const orr_team_member_callbacks *owner, orr_team_member **ret,
                               orr_error *err)
{
    ORR_TRY(check(settings, err));
    orr_team_member *m = orr_calloc(1, sizeof *m);
    if (m == NULL)
        return orr_fail_memory(err);
    m->net = net;
    m->settings = *settings;
    m->owner = *owner;
    m->user = (orr_net_callbacks){
        .ctx = m, .place = on_place, .frame = on_frame, .closed = on_closed, .woken = on_woken};
    m->ring_user = (orr_ring_callbacks){.ctx = m, .reduced = on_reduced, .broken = on_broken};
    m->receiver_user = (orr_state_receiver_callbacks){.ctx = m,
                                                      .whole = orr_team_member_on_state_received,
                                                      .lost = orr_team_member_on_state_lost};
    snprintf(m->report.id.name, sizeof m->report.id.name, "%s", settings->name);
    m->report.id.incarnation = settings->incarnation;
    m->report.step = m->updated = settings->step;
    m->report.data = settings->data;
    m->report.known = settings->step != ORR_TEAM_NONE ? settings->step : 0;
    m->report.known_epoch = settings->data.epoch;
    m->report.known_made = settings->data.made;
    m->report.slot = m->fetch_key = ORR_TEAM_NONE;
    if (m->settings.catch_up_steps == 0)
        m->settings.catch_up_steps = 4;
    const orr_status status = open_parts(m, err);
    if (status != ORR_OK) {
        orr_team_member_free(m);
        return status;
    }
    m->alone_ns = net->now_ns(net);
    net->wake_at(net, &m->user, m->alone_ns);
    *ret = m;
    return ORR_OK;
}

void orr_team_member_free(orr_team_member *m)
{
    if (m == NULL)
        return;
    m->net->forget(m->net, &m->user);
    orr_team_member_reset_healing(m);
    orr_ring_free(m->ring);
    orr_state_receiver_free(m->receiver);
    orr_state_provider_free(m->provider);
    orr_array_done(&m->deferred);
    orr_array_done(&m->reductions);
    orr_free(m->inbox.at);
    orr_free(m->text);
    orr_free(m);
}

void orr_team_member_drain(orr_team_member *m, bool done)
{
    if (m->drains && (m->done || !done))
        return;
    m->drains = true;
    m->done = done;
    say_leave(m);
}

void orr_team_member_position(const orr_team_member *m, uint64_t *ret_step,
                              orr_team_data_cursor *ret)
{
    const bool entered = m->epoch.epoch > 0;
    *ret_step = entered ? m->epoch.step : m->settings.step;
    *ret = entered ? m->epoch.data : m->settings.data;
}

int64_t orr_team_member_isolated_ns(const orr_team_member *m)
{
    return m->alone_ns == 0 ? 0 : m->net->now_ns(m->net) - m->alone_ns;
}
