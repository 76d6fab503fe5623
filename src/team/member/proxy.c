/* SPDX-License-Identifier: Apache-2.0 */
#include "team/member/proxy.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "team/member/proxy_parts.h"

/* The replica proxy: connections of its ranks and to the coordinator, and the messages it forwards.
 */

static orr_replica_proxy_rank *rank_of(orr_replica_proxy *h, orr_conn conn)
{
    for (uint32_t i = 0; i < h->n; i++)
        if (h->ranks[i].conn == conn)
            return &h->ranks[i];
    return NULL;
}

/* Hangs up on everybody, after what is queued; ranks call again, with new reports. */
static void hang_up(orr_replica_proxy *h)
{
    if (h->up != 0)
        h->net->close(h->net, h->up, true);
    h->up = 0;
    for (uint32_t i = 0; i < h->n; i++) {
        if (h->ranks[i].conn != 0)
            h->net->close(h->net, h->ranks[i].conn, true);
        h->ranks[i] =
            (orr_replica_proxy_rank){.caller = h->ranks[i].caller, .whole_step = ORR_TEAM_NONE};
    }
    h->epoch = h->step = 0;
    h->carried = h->said_ready = false;
}

/* The replica leaves when one of its ranks does. */
static void forward_leave(orr_replica_proxy *h)
{
    orr_net_frame frame = {.kind = ORR_MESSAGE_LEAVE, .epoch = h->epoch};
    bool leaves = false;
    for (uint32_t i = 0; i < h->n; i++) {
        leaves |= h->ranks[i].leaves;
        frame.op |= h->ranks[i].done;
    }
    if (leaves && h->up != 0)
        h->net->send(h->net, h->up, &frame, NULL, false);
}

static void call(orr_replica_proxy *h)
{
    orr_message_bytes payload = {0};
    orr_error err;
    if (!orr_replica_proxy_write_hello(h, &payload) ||
        h->net->connect(h->net, &h->user, orr_coordinator_list_call(&h->coordinators), &h->up,
                        &err) != ORR_OK) {
        h->up = 0;
        orr_coordinator_list_next(&h->coordinators);
        hang_up(h);
    } else {
        h->heard_ns = h->net->now_ns(h->net);
        h->apart = orr_replica_proxy_is_apart(h);
        orr_message_send(h->net, h->up, ORR_MESSAGE_HELLO, 0, ++h->calls, &payload);
        forward_leave(h);
    }
    orr_array_done(&payload);
}

static void refuse(orr_replica_proxy *h, orr_conn conn, const char *why)
{
    orr_message_send_fault(h->net, conn, ORR_MESSAGE_REFUSED, 0, UINT32_MAX, why);
    h->net->close(h->net, conn, true);
}

static bool on_hello(orr_replica_proxy *h, orr_conn conn, const orr_net_frame *frame,
                     const void *payload)
{
    orr_hello hello;
    if (!orr_read_hello(payload, frame->bytes, &hello))
        return false;
    if (hello.ranks != h->n || hello.addresses.ranks != 1 ||
        hello.addresses.bytes > sizeof h->ranks->addresses) {
        refuse(h, conn, "it is of a replica with another number of ranks");
        return true;
    }
    if (h->dismissed) {
        orr_message_send(h->net, conn, ORR_MESSAGE_DISMISS, 0, 0, NULL);
        return true;
    }
    orr_replica_proxy_rank *rank = &h->ranks[hello.rank];
    if (orr_caller_is_late(&rank->caller, &hello.report.id, frame->step))
        return false;
    if (rank->conn != 0) /* it has come again: all begin again */
        hang_up(h);
    *rank = (orr_replica_proxy_rank){.conn = conn,
                                     .caller = rank->caller,
                                     .hello = true,
                                     .heard_ns = h->net->now_ns(h->net),
                                     .fingerprint = hello.fingerprint,
                                     .report = hello.report,
                                     .address_bytes = hello.addresses.bytes,
                                     .whole_step = ORR_TEAM_NONE};
    memcpy(rank->addresses, hello.addresses.text, hello.addresses.bytes);
    if (orr_replica_proxy_all_here(h))
        call(h);
    return true;
}

static void forward_ready(orr_replica_proxy *h)
{
    orr_ready_message ready;
    orr_message_bytes payload = {0};
    if (h->said_ready || !orr_replica_proxy_merge_ready(h, &ready))
        return;
    h->said_ready = true;
    if (orr_write_ready(&payload, &ready))
        orr_message_send(h->net, h->up, ORR_MESSAGE_READY, h->epoch, h->step, &payload);
    orr_array_done(&payload);
}

static void forward_state_complete(orr_replica_proxy *h, uint64_t step)
{
    for (uint32_t i = 0; i < h->n; i++)
        if (h->ranks[i].whole_step != step)
            return;
    for (uint32_t i = 0; i < h->n; i++)
        orr_message_send(h->net, h->ranks[i].conn, ORR_MESSAGE_ALL_STATE_COMPLETE, h->epoch, step,
                         NULL);
}

static bool on_rank_message(orr_replica_proxy *h, orr_replica_proxy_rank *rank,
                            const orr_net_frame *frame, const void *payload)
{
    orr_fault_report fault;
    switch (frame->kind) {
    case ORR_MESSAGE_HEARTBEAT:
        orr_message_send(h->net, rank->conn, ORR_MESSAGE_HEARTBEAT_ACK, h->epoch, 0, NULL);
        return orr_read_heartbeat(payload, frame->bytes, &rank->progress);
    case ORR_MESSAGE_READY:
        if (!orr_read_ready(payload, frame->bytes, &rank->ready))
            return false;
        rank->ready_epoch = frame->epoch;
        rank->ready_step = frame->step;
        forward_ready(h);
        return true;
    case ORR_MESSAGE_STATE_COMPLETE:
        rank->whole_step = frame->step;
        forward_state_complete(h, frame->step);
        return true;
    case ORR_MESSAGE_FAULT:
        if (!orr_read_fault(payload, frame->bytes, &fault))
            return false;
        orr_message_send_fault(h->net, h->up, ORR_MESSAGE_FAULT, frame->epoch, fault.about,
                               fault.why);
        return true;
    case ORR_MESSAGE_LEAVE:
        rank->leaves = true;
        rank->done |= frame->op == 1;
        forward_leave(h);
        return true;
    default:
        return false;
    }
}

static void send_epoch(const orr_replica_proxy *h, uint32_t rank, const orr_epoch *epoch,
                       orr_message_bytes *payload)
{
    if (h->ranks[rank].conn == 0 || !orr_write_epoch(payload, epoch))
        return;
    const orr_net_frame frame = {.kind = ORR_MESSAGE_EPOCH,
                                 .epoch = epoch->epoch,
                                 .step = epoch->step,
                                 .op = h->apart,
                                 .bytes = (uint32_t)payload->n};
    h->net->send(h->net, h->ranks[rank].conn, &frame, payload->at, false);
}

static bool forward_epoch(orr_replica_proxy *h, const orr_net_frame *frame, const void *payload)
{
    orr_epoch epoch;
    if (!orr_read_epoch(frame, payload, &epoch) || epoch.members[0].addresses.ranks != h->n)
        return false;
    h->epoch = epoch.epoch;
    h->step = epoch.step + 1;
    h->carried = epoch.carried;
    h->said_ready = false;
    for (uint32_t i = 0; i < epoch.n; i++)
        epoch.members[i].addresses.bytes = 0;
    for (uint32_t r = 0; r < h->n; r++) {
        orr_message_bytes one = {0};
        for (uint32_t i = 0; i < epoch.n; i++) { /* on to the next pair of texts */
            orr_addresses *a = &epoch.members[i].addresses;
            a->text += a->bytes;
            const size_t ring = strlen(a->text) + 1;
            *a = (orr_addresses){a->text, ring + strlen(a->text + ring) + 1, 1};
        }
        send_epoch(h, r, &epoch, &one);
        orr_array_done(&one);
    }
    h->apart = false;
    return true;
}

static bool forward_to_ranks(orr_replica_proxy *h, const orr_net_frame *frame, const void *payload)
{
    orr_message_bytes copy = {0};
    if (frame->kind == ORR_MESSAGE_HEARTBEAT_ACK)
        return true;
    if (frame->kind == ORR_MESSAGE_EPOCH)
        return forward_epoch(h, frame, payload);
    if (frame->kind == ORR_MESSAGE_COMMIT) {
        h->step = frame->step + 1;
        h->carried = h->said_ready = false;
    } else if (frame->kind != ORR_MESSAGE_HALT && frame->kind != ORR_MESSAGE_DISMISS &&
               frame->kind != ORR_MESSAGE_REFUSED) {
        return false;
    }
    h->dismissed |= frame->kind == ORR_MESSAGE_DISMISS;
    if (frame->bytes > 0 && !orr_array_reserve(&copy, frame->bytes))
        return false;
    if (frame->bytes > 0)
        memcpy(copy.at, payload, frame->bytes);
    copy.n = frame->bytes;
    for (uint32_t i = 0; i < h->n; i++)
        orr_message_send(h->net, h->ranks[i].conn, (orr_team_message_kind)frame->kind, frame->epoch,
                         frame->step, &copy);
    orr_array_done(&copy);
    return true;
}

static void *on_place(void *ctx, orr_conn conn, const orr_net_frame *frame)
{
    orr_replica_proxy *h = ctx;
    return conn == h->up ? orr_message_inbox_place(&h->inbox, frame, 1 << 28) : NULL;
}

static void on_frame(void *ctx, orr_conn conn, const orr_net_frame *frame, const void *payload)
{
    orr_replica_proxy *h = ctx;
    const bool cut = frame->bytes > 0 && payload == NULL;
    if (conn == h->up) {
        h->heard_ns = h->net->now_ns(h->net);
        h->coordinators.answered = true;
        if (frame->kind == ORR_MESSAGE_STANDBY)
            orr_coordinator_list_next(&h->coordinators);
        if (cut || frame->kind == ORR_MESSAGE_STANDBY || !forward_to_ranks(h, frame, payload))
            hang_up(h);
        return;
    }
    orr_replica_proxy_rank *rank = rank_of(h, conn);
    if (rank != NULL)
        rank->heard_ns = h->net->now_ns(h->net);
    if (rank == NULL ? cut || frame->kind != ORR_MESSAGE_HELLO || !on_hello(h, conn, frame, payload)
                     : cut || !on_rank_message(h, rank, frame, payload)) {
        if (rank == NULL)
            h->net->close(h->net, conn, false);
        else
            hang_up(h);
    }
}

static void on_closed(void *ctx, orr_conn conn, orr_net_close_reason why)
{
    orr_replica_proxy *h = ctx;
    orr_replica_proxy_rank *rank = rank_of(h, conn);
    (void)why;
    if (conn == h->up) {
        h->up = 0;
        orr_coordinator_list_lost(&h->coordinators);
    } else if (rank != NULL)
        rank->conn = 0;
    else
        return;
    hang_up(h);
}

static void on_accepted(void *ctx, orr_conn conn)
{
    (void)ctx;
    (void)conn; /* it says which rank it is */
}

static bool all_heard(const orr_replica_proxy *h, int64_t now)
{
    for (uint32_t i = 0; i < h->n; i++)
        if (now - h->ranks[i].heard_ns > h->times.silent_ns)
            return false;
    return true;
}

static void on_woken(void *ctx)
{
    orr_replica_proxy *h = ctx;
    const int64_t now = h->net->now_ns(h->net);
    orr_heartbeat heartbeat;
    orr_message_bytes payload = {0};
    const bool silent = h->up != 0 && now - h->heard_ns > h->times.fenced_ns;
    if (silent)
        orr_coordinator_list_next(&h->coordinators);
    if (silent || (h->up != 0 && !all_heard(h, now)))
        hang_up(h);
    if (h->up != 0) {
        orr_replica_proxy_merge_heartbeat(h, &heartbeat);
        if (orr_write_heartbeat(&payload, &heartbeat))
            orr_message_send(h->net, h->up, ORR_MESSAGE_HEARTBEAT, h->epoch, h->step, &payload);
    }
    orr_array_done(&payload);
    h->net->wake_at(h->net, &h->user, now + h->times.heartbeat_ns);
}

orr_status orr_replica_proxy_new(orr_net *net, const orr_replica_proxy_settings *settings,
                                 orr_replica_proxy **ret, orr_error *err)
{
    orr_replica_proxy *h = orr_calloc(1, sizeof *h);
    orr_status status;
    if (h == NULL)
        return orr_fail_memory(err);
    h->net = net;
    h->n = settings->ranks;
    h->user = (orr_net_callbacks){.ctx = h,
                                  .accepted = on_accepted,
                                  .place = on_place,
                                  .frame = on_frame,
                                  .closed = on_closed,
                                  .woken = on_woken};
    ORR_TRY_OUT(status, orr_coordinator_list_read(settings->coordinator, &h->coordinators, err));
    h->ranks = orr_calloc(h->n, sizeof *h->ranks);
    ORR_TRY_OUT(status, h->ranks != NULL ? ORR_OK : orr_fail_memory(err));
    ORR_TRY_OUT(status, orr_team_timeouts_of(settings->failure_timeout_ns, &h->times, err));
    ORR_TRY_OUT(status, net->listen(net, &h->user, settings->where, h->address, err));
    hang_up(h);
    net->wake_at(net, &h->user, net->now_ns(net) + h->times.heartbeat_ns);
    *ret = h;
out:
    if (status != ORR_OK)
        orr_replica_proxy_free(h);
    return status;
}

void orr_replica_proxy_free(orr_replica_proxy *h)
{
    if (h == NULL)
        return;
    h->net->forget(h->net, &h->user);
    orr_free(h->ranks);
    orr_free(h->inbox.at);
    orr_free(h);
}

const char *orr_replica_proxy_address(const orr_replica_proxy *h)
{
    return h->address;
}
