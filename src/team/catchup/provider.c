/* SPDX-License-Identifier: Apache-2.0 */
#include "team/catchup/provider.h"

#include <string.h>

#include "base/alloc.h"

/* Serving. A chunk is copied into a room of its own before it is handed to the net, so that nothing
 * of the spans or of the copy is still to be sent when their owner wants to change them. */

/* More come only from who is no receiver: a team has 64 replicas. */
enum { TAKERS_MAX = 256 };
/* How soon a request that waits is looked at again, where the other thread cannot be heard of. */
static const int64_t AGAIN_NS = 1000 * 1000;

static void *room_get(orr_state_provider *provider)
{
    orr_state_provider_buffer *room = provider->rooms;
    if (room == NULL)
        return orr_malloc_aligned(ORR_CATCHUP_CHUNK_BYTES);
    provider->rooms = room->next;
    return room;
}

static void room_put(orr_state_provider *provider, void *memory)
{
    orr_state_provider_buffer *room = memory;
    room->next = provider->rooms;
    provider->rooms = room;
}

static void rooms_free(orr_state_provider *provider)
{
    while (provider->rooms != NULL) {
        orr_state_provider_buffer *room = provider->rooms;
        provider->rooms = room->next;
        orr_free(room);
    }
}

static orr_state_provider_client *client_of(const orr_state_provider *provider, orr_conn conn)
{
    for (orr_state_provider_client *t = provider->receivers; t != NULL; t = t->next)
        if (t->conn == conn)
            return t;
    return NULL;
}

static void sent(orr_state_provider *provider, orr_state_provider_client *t)
{
    while (t->n_sending > 0)
        room_put(provider, t->sending[--t->n_sending]);
}

/* The connection is no more. Rooms stay for the next receiver while there are others. */
static void leave(orr_state_provider *provider, orr_state_provider_client *t)
{
    pthread_mutex_lock(&provider->lock);
    orr_state_provider_client **at = &provider->receivers;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    if (t->asked && t->step == provider->step && t->index == provider->index &&
        t->n == provider->n && t->lacks.from == t->lacks.to)
        provider->done++;
    pthread_mutex_unlock(&provider->lock);
    sent(provider, t);
    orr_free(t);
    if (--provider->n_receivers == 0)
        rooms_free(provider);
}

static void drop(orr_state_provider *provider, orr_state_provider_client *t)
{
    orr_net *net = provider->net;
    net->close(net, t->conn, false);
    leave(provider, t);
}

typedef enum reply { REPLY_WAIT, REPLY_GIVE, REPLY_GONE, REPLY_DROP } reply;

static reply read_live(orr_state_provider *provider, uint32_t chunk, void **ret_room)
{
    void *room = room_get(provider);
    if (room == NULL)
        return REPLY_DROP;
    orr_chunk_read(&provider->chunks, chunk, 1, room);
    *ret_room = room;
    return REPLY_GIVE;
}

static reply read_kept(orr_state_provider *provider, uint32_t chunk, void **ret_room)
{
    if (chunk < provider->kept.from || chunk >= provider->kept.to ||
        chunk % provider->n != provider->index)
        return REPLY_GONE;
    void *room = room_get(provider);
    if (room == NULL)
        return REPLY_DROP;
    const size_t nth = (chunk - provider->kept.from) / provider->n;
    memcpy(room, provider->copy + nth * ORR_CATCHUP_CHUNK_BYTES,
           orr_chunk_bytes(&provider->chunks, chunk));
    *ret_room = room;
    return REPLY_GIVE;
}

/* What becomes of a request now; `ret_gone`: what is still had, where the reply is GONE. */
static reply decide(orr_state_provider *provider, const orr_state_provider_client *t,
                    uint32_t chunk, void **ret_room, orr_net_frame *ret_gone)
{
    pthread_mutex_lock(&provider->lock);
    reply r;
    if (provider->phase == ORR_PROVIDER_NEW || t->step > provider->step)
        r = REPLY_WAIT;
    else if (t->step < provider->step)
        r = REPLY_GONE;
    else if (provider->phase == ORR_PROVIDER_SNAPSHOTTING)
        r = REPLY_WAIT;
    else if (provider->phase == ORR_PROVIDER_LIVE)
        r = read_live(provider, chunk, ret_room);
    else
        r = read_kept(provider, chunk, ret_room);
    if (r == REPLY_GIVE)
        provider->counts.served_bytes += orr_chunk_bytes(&provider->chunks, chunk);
    *ret_gone = (orr_net_frame){.kind = ORR_CATCHUP_GONE, .step = t->step, .chunk = chunk};
    if (r == REPLY_GONE && t->step == provider->step) {
        ret_gone->lane = (uint16_t)provider->index;
        ret_gone->partition = provider->n;
        ret_gone->op = provider->kept.from;
        ret_gone->round = provider->kept.to;
    }
    pthread_mutex_unlock(&provider->lock);
    return r;
}

/* false: requests are left that must wait for the owner of the state. */
static bool serve(orr_state_provider *provider, orr_state_provider_client *t)
{
    orr_net *net = provider->net;
    while (t->n_pending > 0 && t->n_sending < ORR_PROVIDER_MAX_SENDING) {
        const uint32_t chunk = t->pending[t->first];
        void *room = NULL;
        orr_net_frame frame;
        const reply r = decide(provider, t, chunk, &room, &frame);
        if (r == REPLY_WAIT)
            return false;
        if (r == REPLY_DROP) {
            drop(provider, t);
            return true;
        }
        t->first = (t->first + 1) % ORR_CATCHUP_WINDOW;
        t->n_pending--;
        if (r == REPLY_GIVE) {
            t->sending[t->n_sending++] = room;
            frame = (orr_net_frame){.kind = ORR_CATCHUP_DATA,
                                    .step = t->step,
                                    .chunk = chunk,
                                    .bytes = orr_chunk_bytes(&provider->chunks, chunk)};
        }
        net->send(net, t->conn, &frame, room, r == REPLY_GIVE);
    }
    return true;
}

/* A net that others drive has one thread, and orr_state_provider_offer() serves by itself. */
static void look_again(orr_state_provider *provider)
{
    orr_net *net = provider->net;
    if (net->poll != NULL)
        net->wake_at(net, &provider->user, net->now_ns(net) + AGAIN_NS);
}

void orr_state_provider_serve(orr_state_provider *provider)
{
    bool all = true;
    for (orr_state_provider_client *t = provider->receivers, *next; t != NULL; t = next) {
        next = t->next;
        all &= serve(provider, t);
    }
    if (!all)
        look_again(provider);
}

static bool makes_sense(const orr_state_provider *provider, const orr_state_provider_client *t,
                        const orr_net_frame *f)
{
    if (f->kind != ORR_CATCHUP_REQUEST && f->kind != ORR_CATCHUP_ACK)
        return false;
    if (f->bytes != 0 || f->epoch != provider->chunks.bytes || (t->asked && f->step != t->step))
        return false;
    if (f->partition > ORR_CATCHUP_MAX_PROVIDERS || f->lane >= f->partition || f->op > f->round ||
        f->round > provider->chunks.n)
        return false;
    return f->kind == ORR_CATCHUP_ACK ||
           (f->chunk < provider->chunks.n && t->n_pending < ORR_CATCHUP_WINDOW);
}

static void on_frame(void *ctx, orr_conn conn, const orr_net_frame *f, const void *payload)
{
    (void)payload;
    orr_state_provider *provider = ctx;
    orr_state_provider_client *t = client_of(provider, conn);
    if (t == NULL)
        return;
    if (!makes_sense(provider, t, f)) {
        drop(provider, t);
        return;
    }
    pthread_mutex_lock(&provider->lock);
    t->asked = true;
    t->step = f->step;
    t->index = f->lane;
    t->n = f->partition;
    t->lacks = (orr_chunk_range){f->op, f->round};
    pthread_mutex_unlock(&provider->lock);
    if (f->kind == ORR_CATCHUP_ACK)
        return;
    t->pending[(t->first + t->n_pending) % ORR_CATCHUP_WINDOW] = f->chunk;
    t->n_pending++;
    if (!serve(provider, t))
        look_again(provider);
}

static void on_accepted(void *ctx, orr_conn conn)
{
    orr_state_provider *provider = ctx;
    orr_state_provider_client *t =
        provider->n_receivers < TAKERS_MAX ? orr_calloc(1, sizeof *t) : NULL;
    if (t == NULL) {
        provider->net->close(provider->net, conn, false);
        return;
    }
    t->conn = conn;
    provider->n_receivers++;
    pthread_mutex_lock(&provider->lock);
    t->next = provider->receivers;
    provider->receivers = t;
    pthread_mutex_unlock(&provider->lock);
}

static void on_drained(void *ctx, orr_conn conn)
{
    orr_state_provider *provider = ctx;
    orr_state_provider_client *t = client_of(provider, conn);
    if (t == NULL)
        return;
    sent(provider, t);
    if (!serve(provider, t))
        look_again(provider);
}

static void on_closed(void *ctx, orr_conn conn, orr_net_close_reason why)
{
    (void)why;
    orr_state_provider *provider = ctx;
    orr_state_provider_client *t = client_of(provider, conn);
    if (t != NULL)
        leave(provider, t);
}

static void on_woken(void *ctx)
{
    orr_state_provider_serve(ctx);
}

orr_status orr_state_provider_new(orr_net *net, const char *where, const orr_team_span *spans,
                                  uint32_t n, orr_state_provider **ret, orr_error *err)
{
    orr_state_provider *provider = orr_calloc(1, sizeof *provider);
    if (provider == NULL)
        return orr_fail_memory(err);
    *provider = (orr_state_provider){.net = net,
                                     .user = {.ctx = provider,
                                              .accepted = on_accepted,
                                              .frame = on_frame,
                                              .drained = on_drained,
                                              .closed = on_closed,
                                              .woken = on_woken},
                                     .n = 1};
    pthread_mutex_init(&provider->owner_lock, NULL);
    pthread_mutex_init(&provider->lock, NULL);
    orr_status status = orr_chunks_init(&provider->chunks, spans, n, err);
    if (status == ORR_OK)
        status = net->listen(net, &provider->user, where, provider->address, err);
    if (status != ORR_OK) {
        orr_state_provider_free(provider);
        return status;
    }
    *ret = provider;
    return ORR_OK;
}

void orr_state_provider_free(orr_state_provider *provider)
{
    if (provider == NULL)
        return;
    provider->net->forget(provider->net, &provider->user);
    while (provider->receivers != NULL)
        leave(provider, provider->receivers);
    rooms_free(provider);
    orr_free(provider->copy);
    orr_chunks_done(&provider->chunks);
    pthread_mutex_destroy(&provider->owner_lock);
    pthread_mutex_destroy(&provider->lock);
    orr_free(provider);
}

const char *orr_state_provider_address(const orr_state_provider *provider)
{
    return provider->address;
}
