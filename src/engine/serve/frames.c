/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/serve/frames.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"

#define SECOND_NS INT64_C(1000000000)
#define FLUSH_NS  (5 * SECOND_NS) /* for answers to leave, when it ends      */
#define LINGER_NS                                                                                  \
    (SECOND_NS / 5) /* for peers to hang up first: a close with bytes unread                       \
                       takes back what they have not received  */

enum { UNFETCHED_MAX = 1 << 30 }; /* bytes of answers that a connection does not read */

/* From the header of its frame until its answer is sent. */
typedef struct request {
    struct request *next; /* of those answered */
    orr_serve_frames *frames;
    orr_conn conn;
    uint64_t number; /* the peer's */
    size_t bytes, answer_bytes;
    orr_answer_header failure; /* the answer where there is no memory for one */
    void *answer;              /* NULL: `failure` */
    char body[];
} request;

typedef struct peer {
    orr_conn conn;
    request *coming; /* its payload is being received; or NULL */
    size_t waiting;  /* bytes of requests that are not answered */
    uint32_t asked;  /* their number */
    int64_t heard_ns, coming_ns;
} peer;

struct orr_serve_frames {
    orr_serve_frames_options options;
    orr_net *net;
    orr_net_callbacks callbacks;
    orr_array(peer) peers; /* of the polling thread */
    char address[ORR_NET_ADDRESS_BYTES];
    atomic_bool draining, ending;
    pthread_mutex_t lock; /* of what is answered */
    request *first, *last;
    pthread_t thread;
    bool running;
};

static peer *peer_of(const orr_serve_frames *f, orr_conn conn)
{
    for (size_t i = 0; i < f->peers.n; i++)
        if (f->peers.at[i].conn == conn)
            return &f->peers.at[i];
    return NULL;
}

static void remove_peer(orr_serve_frames *f, peer *p)
{
    orr_free(p->coming);
    *p = f->peers.at[--f->peers.n];
}

static void hang_up(orr_serve_frames *f, peer *p)
{
    f->net->close(f->net, p->conn, false); /* then nothing is received into `coming` any more */
    remove_peer(f, p);
}

static void send_answer(const orr_serve_frames *f, orr_conn conn, uint64_t number, const void *body,
                        size_t bytes)
{
    const orr_net_frame frame = {
        .kind = ORR_SERVE_FRAME_ANSWER, .step = number, .bytes = (uint32_t)bytes};
    f->net->send(f->net, conn, &frame, body, false);
}

static void refuse(const orr_serve_frames *f, orr_conn conn, uint64_t number, unsigned code,
                   const char *text)
{
    char body[sizeof(orr_answer_header) + 128];
    const size_t n = strlen(text);
    const orr_answer_header head = {.magic = ORR_ASK_MAGIC, .code = code, .bytes = n};
    memcpy(body, &head, sizeof head);
    memcpy(body + sizeof head, text, n);
    send_answer(f, conn, number, body, sizeof head + n);
}

/* From a thread of the service. */
static void answered(void *ctx, const orr_service_answer *a)
{
    request *r = ctx;
    orr_serve_frames *f = r->frames;
    r->answer = a->bytes <= UINT32_MAX ? orr_malloc(a->bytes + 1) : NULL;
    r->answer_bytes = a->bytes;
    if (r->answer != NULL)
        memcpy(r->answer, a->body, a->bytes);
    (void)pthread_mutex_lock(&f->lock);
    const bool alone = f->first == NULL;
    if (alone)
        f->first = r;
    else
        f->last->next = r;
    f->last = r;
    (void)pthread_mutex_unlock(&f->lock);
    if (alone)
        f->net->interrupt(f->net);
}

static void send_answers(orr_serve_frames *f)
{
    (void)pthread_mutex_lock(&f->lock);
    request *r = f->first;
    f->first = f->last = NULL;
    (void)pthread_mutex_unlock(&f->lock);
    while (r != NULL) {
        request *next = r->next;
        peer *p = peer_of(f, r->conn);
        if (p != NULL) {
            p->waiting -= r->bytes;
            p->asked--;
            p->heard_ns = f->net->now_ns(f->net);
            if (r->answer != NULL)
                send_answer(f, r->conn, r->number, r->answer, r->answer_bytes);
            else
                send_answer(f, r->conn, r->number, &r->failure, sizeof r->failure);
            if (f->net->queued(f->net, r->conn) > UNFETCHED_MAX)
                hang_up(f, p);
        }
        orr_free(r->answer);
        orr_free(r);
        r = next;
    }
}

/* --- callbacks of the net -------------------------------------------------------------------- */

static void accepted(void *ctx, orr_conn conn)
{
    orr_serve_frames *f = ctx;
    const peer p = {.conn = conn, .heard_ns = f->net->now_ns(f->net)};
    if (atomic_load(&f->draining) || f->peers.n >= f->options.connections ||
        !orr_array_push(&f->peers, p))
        f->net->close(f->net, conn, false);
    else if (f->peers.n == 1)
        f->net->wake_at(f->net, &f->callbacks, p.heard_ns + SECOND_NS);
}

static void *place(void *ctx, orr_conn conn, const orr_net_frame *frame)
{
    orr_serve_frames *f = ctx;
    peer *p = peer_of(f, conn);
    if (p == NULL)
        return NULL;
    p->coming_ns = f->net->now_ns(f->net);
    if (frame->kind != ORR_SERVE_FRAME_ASK) {
        hang_up(f, p);
        return NULL;
    }
    if (frame->bytes > f->options.body_bytes - p->waiting ||
        (p->coming = orr_malloc(sizeof *p->coming + frame->bytes)) == NULL)
        return NULL; /* received and dropped */
    *p->coming = (request){.frames = f,
                           .conn = conn,
                           .number = frame->step,
                           .bytes = frame->bytes,
                           .failure = {.magic = ORR_ASK_MAGIC, .code = 500}};
    return p->coming->body;
}

static void hand_in(const orr_serve_frames *f, peer *p, request *r)
{
    orr_ask_header head = {0};
    memcpy(&head, r->body, r->bytes < sizeof head ? r->bytes : sizeof head);
    const orr_service_request asked = {.kind = head.kind < ORR_ASK_KINDS ? (uint8_t)head.kind : 0,
                                       .binary = true,
                                       .body = r->body,
                                       .bytes = r->bytes,
                                       .answer = answered,
                                       .ctx = r};
    const orr_conn conn = r->conn;
    const uint64_t number = r->number;
    p->waiting += r->bytes; /* before: another thread may have answered when submit() returns */
    p->asked++;
    const size_t bytes = r->bytes;
    if (orr_service_submit(f->options.service, &asked))
        return;
    p->waiting -= bytes;
    p->asked--;
    orr_free(r);
    refuse(f, conn, number, 503, "Too many requests wait, or the server ends.");
}

static void received(void *ctx, orr_conn conn, const orr_net_frame *frame, const void *payload)
{
    orr_serve_frames *f = ctx;
    peer *p = peer_of(f, conn);
    if (p == NULL)
        return;
    if (frame->kind != ORR_SERVE_FRAME_ASK) { /* place() is not asked about empty ones */
        hang_up(f, p);
        return;
    }
    request *r = p->coming;
    p->coming = NULL;
    p->heard_ns = f->net->now_ns(f->net);
    const size_t unfetched = f->net->queued(f->net, conn);
    if (unfetched > UNFETCHED_MAX) {
        orr_free(r); /* asks and does not listen */
        hang_up(f, p);
    } else if (r != NULL && payload != NULL && unfetched <= f->options.body_bytes) {
        if (payload != r->body && r->bytes > 0) /* it came through shared memory */
            memcpy(r->body, payload, r->bytes);
        hand_in(f, p, r);
    } else {
        orr_free(r);
        if (frame->bytes == 0)
            refuse(f, conn, frame->step, 400, "a request of 0 bytes has no header");
        else if (frame->bytes > f->options.body_bytes)
            refuse(f, conn, frame->step, 413, "too large a request");
        else
            refuse(f, conn, frame->step, 503, "too much of this connection waits");
    }
}

static void drained(void *ctx, orr_conn conn)
{
    orr_serve_frames *f = ctx;
    peer *p = peer_of(f, conn);
    if (p != NULL)
        p->heard_ns = f->net->now_ns(f->net);
}

static void closed(void *ctx, orr_conn conn, orr_net_close_reason why)
{
    orr_serve_frames *f = ctx;
    peer *p = peer_of(f, conn);
    (void)why;
    if (p != NULL)
        remove_peer(f, p);
}

static bool is_late(const orr_serve_frames *f, const peer *p, int64_t now)
{
    const int64_t body_ns = f->options.body_seconds * SECOND_NS;
    if (p->coming != NULL)
        return now - p->coming_ns > body_ns;
    if (f->net->queued(f->net, p->conn) > 0)
        return now - p->heard_ns > body_ns;
    return p->asked == 0 && now - p->heard_ns > f->options.idle_seconds * SECOND_NS;
}

static void woken(void *ctx)
{
    orr_serve_frames *f = ctx;
    const int64_t now = f->net->now_ns(f->net);
    for (size_t i = f->peers.n; i > 0; i--)
        if (is_late(f, &f->peers.at[i - 1], now))
            hang_up(f, &f->peers.at[i - 1]);
    f->net->wake_at(f->net, &f->callbacks, f->peers.n > 0 ? now + SECOND_NS : INT64_MAX);
}

/* --- its thread ------------------------------------------------------------------------------ */

static bool has_queued(const orr_serve_frames *f)
{
    for (size_t i = 0; i < f->peers.n; i++)
        if (f->net->queued(f->net, f->peers.at[i].conn) > 0)
            return true;
    return false;
}

/* What is answered leaves; then peers are told that this is the end. */
static void end(orr_serve_frames *f)
{
    const int64_t began = f->net->now_ns(f->net);
    send_answers(f);
    while (has_queued(f) && f->net->now_ns(f->net) - began < FLUSH_NS)
        f->net->poll(f->net, began + FLUSH_NS);
    const bool any = f->peers.n > 0;
    while (f->peers.n > 0) {
        f->net->close(f->net, f->peers.at[0].conn, true);
        remove_peer(f, &f->peers.at[0]);
    }
    const int64_t until = f->net->now_ns(f->net) + LINGER_NS;
    while (any && f->net->now_ns(f->net) < until)
        f->net->poll(f->net, until);
}

static void *serve(void *ctx)
{
    orr_serve_frames *f = ctx;
    while (!atomic_load(&f->ending)) {
        f->net->poll(f->net, INT64_MAX);
        send_answers(f);
    }
    end(f);
    return NULL;
}

/* Hears no signals: they are for the program. */
static orr_status start(orr_serve_frames *f, orr_error *err)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int why = pthread_create(&f->thread, NULL, serve, f);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    f->running = why == 0;
    return why == 0 ? ORR_OK
                    : orr_fail(err, ORR_NO_MEMORY, "no thread can be started: %s", strerror(why));
}

orr_status orr_serve_frames_open(const orr_serve_frames_options *options, orr_serve_frames **ret,
                                 orr_error *err)
{
    orr_serve_frames *f = orr_calloc(1, sizeof *f);
    if (f == NULL)
        return orr_fail_memory(err);
    f->options = *options;
    f->callbacks = (orr_net_callbacks){.ctx = f,
                                       .accepted = accepted,
                                       .place = place,
                                       .frame = received,
                                       .drained = drained,
                                       .closed = closed,
                                       .woken = woken};
    (void)pthread_mutex_init(&f->lock, NULL);
    orr_status status = orr_net_system_new(NULL, &f->net, err);
    if (status == ORR_OK)
        status = f->net->listen(f->net, &f->callbacks, options->where, f->address, err);
    if (status == ORR_OK)
        status = start(f, err);
    if (status == ORR_OK)
        *ret = f;
    else
        orr_serve_frames_close(f);
    return status;
}

const char *orr_serve_frames_address(const orr_serve_frames *f)
{
    return f->address;
}

void orr_serve_frames_drain(orr_serve_frames *f)
{
    atomic_store(&f->draining, true);
}

void orr_serve_frames_close(orr_serve_frames *f)
{
    if (f == NULL)
        return;
    atomic_store(&f->draining, true);
    atomic_store(&f->ending, true);
    if (f->running) {
        f->net->interrupt(f->net);
        (void)pthread_join(f->thread, NULL);
    }
    orr_net_free(f->net); /* nothing is received any more */
    while (f->peers.n > 0)
        remove_peer(f, &f->peers.at[0]);
    orr_array_done(&f->peers);
    (void)pthread_mutex_destroy(&f->lock);
    orr_free(f);
}
