/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "team/access.h"
#include "team/protocol/message.h"

/* An operator's word to a coordinator: one message, one answer. */

/* Assumed: a coordinator that lives answers within that. */
#define ANSWER_NS INT64_C(5000000000)

typedef struct operator_call {
    bool answered;
    orr_status status;
    char why[ORR_TEAM_REASON_BYTES];
} operator_call;

static void on_frame(void *ctx, orr_conn conn, const orr_net_frame *frame, const void *payload)
{
    operator_call *call = ctx;
    orr_fault_report fault;
    (void)conn;
    if ((frame->kind != ORR_MESSAGE_FORGOTTEN && frame->kind != ORR_MESSAGE_REFUSED) ||
        !orr_read_fault(payload, frame->bytes, &fault))
        return;
    call->answered = true;
    call->status = frame->kind == ORR_MESSAGE_FORGOTTEN ? ORR_OK : ORR_INVALID;
    (void)snprintf(call->why, sizeof call->why, "%s", fault.why);
}

static void on_closed(void *ctx, orr_conn conn, orr_net_close_reason why)
{
    operator_call *call = ctx;
    (void)conn;
    if (call->answered)
        return;
    call->answered = true;
    call->status = ORR_IO;
    (void)snprintf(call->why, sizeof call->why, "%s",
                   why == ORR_NET_UNPROVEN ? "it has another key, or none"
                                           : orr_net_close_reason_text(why));
}

static orr_status ask(orr_net *net, const char *coordinator, const char *name, operator_call *call,
                      orr_error *err)
{
    const orr_net_callbacks user = {.ctx = call, .frame = on_frame, .closed = on_closed};
    const int64_t until = net->now_ns(net) + ANSWER_NS;
    orr_conn conn;
    ORR_TRY(net->connect(net, &user, coordinator, &conn, err));
    orr_message_send_fault(net, conn, ORR_MESSAGE_FORGET, 0, UINT32_MAX, name);
    while (!call->answered && net->now_ns(net) < until)
        net->poll(net, until);
    net->forget(net, &user);
    if (!call->answered)
        return orr_fail(err, ORR_IO, "%s: no answer within %d s", coordinator,
                        (int)(ANSWER_NS / 1000000000));
    return call->status == ORR_OK ? ORR_OK
                                  : orr_fail(err, call->status, "%s: %s", coordinator, call->why);
}

orr_status orr_team_forget(const char *coordinator, const orr_team_access *access, const char *name,
                           orr_error *err)
{
    operator_call call = {.answered = false};
    const orr_net_system_options options = orr_team_access_net(access);
    orr_net *net;
    if (name[0] == '\0' || strlen(name) >= ORR_TEAM_NAME_BYTES)
        return orr_fail(err, ORR_INVALID, "a replica's name has 1 to %d characters",
                        ORR_TEAM_NAME_BYTES - 1);
    ORR_TRY(orr_net_system_new(&options, &net, err));
    const orr_status status = ask(net, coordinator, name, &call, err);
    orr_net_free(net);
    return status;
}
