/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/serve/client.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/serve/frames.h"

#define PATIENCE_NS INT64_C(60000000000)

enum { ANSWER_MAX = 1 << 28 }; /* bytes: what a server may make us allocate */

struct orr_serve_client {
    orr_serve_client_options options;
    orr_net *net;
    orr_net_callbacks callbacks;
    orr_conn conn; /* 0: no more */
    orr_net_close_reason why;
    bool connected, wrong;         /* wrong: what came is no answer */
    orr_array(char) asked, answer; /* messages */
    uint64_t waiting;
    /* Of the question that score() waits for. */
    float *values;
    int64_t samples;
    orr_status status;
    orr_error *err;
};

static void connected(void *ctx, orr_conn conn)
{
    (void)conn;
    ((orr_serve_client *)ctx)->connected = true;
}

static void closed(void *ctx, orr_conn conn, orr_net_close_reason why)
{
    orr_serve_client *c = ctx;
    (void)conn;
    c->conn = 0;
    c->why = why;
}

static void *place(void *ctx, orr_conn conn, const orr_net_frame *frame)
{
    orr_serve_client *c = ctx;
    (void)conn;
    c->answer.n = 0;
    if (frame->bytes > ANSWER_MAX || !orr_array_reserve(&c->answer, frame->bytes))
        return NULL;
    return c->answer.at;
}

static orr_status status_of(unsigned code)
{
    return code == 400 ? ORR_INVALID : code == 413 ? ORR_LIMIT : ORR_IO;
}

/* For score(). */
static void take(orr_serve_client *c, const orr_answer_header *head, const void *body)
{
    const int text = head->bytes < 1024 ? (int)head->bytes : 1024;
    if (head->code != 200)
        c->status = orr_fail(c->err, status_of(head->code), "the server answers %u: %.*s",
                             head->code, text, (const char *)body);
    else if (head->bytes != (uint64_t)c->samples * sizeof(float))
        c->wrong = true;
    else
        memcpy(c->values, body, (size_t)head->bytes);
    c->values = NULL;
}

static void received(void *ctx, orr_conn conn, const orr_net_frame *frame, const void *payload)
{
    orr_serve_client *c = ctx;
    orr_answer_header head;
    (void)conn;
    if (frame->kind != ORR_SERVE_FRAME_ANSWER || payload == NULL || frame->bytes < sizeof head ||
        c->waiting == 0) {
        c->wrong = true;
        return;
    }
    memcpy(&head, payload, sizeof head);
    if (head.magic != ORR_ASK_MAGIC || head.bytes != frame->bytes - sizeof head) {
        c->wrong = true;
        return;
    }
    c->waiting--;
    const char *body = (const char *)payload + sizeof head;
    if (c->values != NULL)
        take(c, &head, body);
    else if (c->options.answered != NULL)
        c->options.answered(c->options.ctx, frame->step, &head, body);
}

static orr_status check(const orr_serve_client *c, orr_error *err)
{
    if (c->wrong)
        return orr_fail(err, ORR_IO, "%s: what came is no answer of a server of tables",
                        c->options.address);
    return c->conn != 0 ? ORR_OK
                        : orr_fail(err, ORR_IO, "%s: %s", c->options.address,
                                   orr_net_close_reason_text(c->why));
}

orr_status orr_serve_client_poll(orr_serve_client *c, int64_t until_ns, orr_error *err)
{
    ORR_TRY(check(c, err));
    c->net->poll(c->net, until_ns);
    return check(c, err);
}

static orr_status join(orr_serve_client *c, orr_error *err)
{
    ORR_TRY(orr_net_system_new(NULL, &c->net, err));
    ORR_TRY(c->net->connect(c->net, &c->callbacks, c->options.address, &c->conn, err));
    const int64_t until = c->net->now_ns(c->net) + PATIENCE_NS;
    while (!c->connected && c->net->now_ns(c->net) < until)
        ORR_TRY(orr_serve_client_poll(c, until, err));
    return c->connected
               ? ORR_OK
               : orr_fail(err, ORR_IO, "%s: no connection in a minute", c->options.address);
}

orr_status orr_serve_client_open(const orr_serve_client_options *options, orr_serve_client **ret,
                                 orr_error *err)
{
    orr_serve_client *c = orr_calloc(1, sizeof *c);
    if (c == NULL)
        return orr_fail_memory(err);
    c->options = *options;
    c->callbacks = (orr_net_callbacks){
        .ctx = c, .connected = connected, .place = place, .frame = received, .closed = closed};
    const orr_status status = join(c, err);
    if (status == ORR_OK)
        *ret = c;
    else
        orr_serve_client_close(c);
    return status;
}

void orr_serve_client_close(orr_serve_client *c)
{
    if (c == NULL)
        return;
    orr_net_free(c->net);
    orr_array_done(&c->asked);
    orr_array_done(&c->answer);
    orr_free(c);
}

uint64_t orr_serve_client_waiting(const orr_serve_client *c)
{
    return c->waiting;
}

static void append(orr_serve_client *c, const void *bytes, size_t n)
{
    if (n > 0)
        memcpy(c->asked.at + c->asked.n, bytes, n);
    c->asked.n += n;
}

static orr_status write_question(orr_serve_client *c, const orr_score_batch *batch, orr_error *err)
{
    const orr_dlrm *d = c->options.model;
    const size_t lengths = (size_t)batch->samples * d->n_tables,
                 features = (size_t)batch->samples * d->dense_features;
    size_t ids = 0;
    for (size_t i = 0; i < lengths; i++)
        ids += (size_t)batch->lengths[i];
    const orr_ask_header head = {.magic = ORR_ASK_MAGIC,
                                 .kind = ORR_ASK_SCORE,
                                 .samples = (uint32_t)batch->samples,
                                 .n_ids = ids};
    const size_t bytes = sizeof head + ids * sizeof *batch->ids + features * sizeof *batch->dense +
                         lengths * sizeof *batch->lengths;
    if (bytes > UINT32_MAX)
        return orr_fail(err, ORR_LIMIT, "a request of %zu bytes", bytes);
    c->asked.n = 0;
    if (!orr_array_reserve(&c->asked, bytes))
        return orr_fail_memory(err);
    append(c, &head, sizeof head);
    append(c, batch->ids, ids * sizeof *batch->ids);
    append(c, batch->dense, features * sizeof *batch->dense);
    append(c, batch->lengths, lengths * sizeof *batch->lengths);
    return ORR_OK;
}

orr_status orr_serve_client_ask(orr_serve_client *c, uint64_t number, const orr_score_batch *batch,
                                orr_error *err)
{
    ORR_TRY(check(c, err));
    ORR_TRY(write_question(c, batch, err));
    const orr_net_frame frame = {
        .kind = ORR_SERVE_FRAME_ASK, .step = number, .bytes = (uint32_t)c->asked.n};
    c->waiting++;
    c->net->send(c->net, c->conn, &frame, c->asked.at, false);
    return ORR_OK;
}

static orr_status await(orr_serve_client *c, const orr_score_batch *batch, orr_error *err)
{
    ORR_TRY(orr_serve_client_ask(c, 0, batch, err));
    const int64_t until = orr_clock_now_ns(&orr_clock_monotonic) + PATIENCE_NS;
    while (c->values != NULL && orr_clock_now_ns(&orr_clock_monotonic) < until)
        ORR_TRY(orr_serve_client_poll(c, until, err));
    return c->values == NULL
               ? c->status
               : orr_fail(err, ORR_IO, "%s: no answer in a minute", c->options.address);
}

orr_status orr_serve_client_score(orr_serve_client *c, const orr_score_batch *batch, float *ret,
                                  orr_error *err)
{
    c->values = ret;
    c->samples = batch->samples;
    c->status = ORR_OK;
    c->err = err;
    const orr_status status = await(c, batch, err);
    c->values = NULL;
    c->err = NULL;
    return status;
}
