/* SPDX-License-Identifier: Apache-2.0 */
#include "team/catchup/provider.h"

#include <string.h>

#include "base/alloc.h"

/* Serving. A chunk is copied into a room of its own before it is handed to the net, so that nothing
 * of the spans or of the copy is still to be sent when their owner wants to change them. */

/* More come only from who is no taker: a team has 64 replicas. */
enum { TAKERS_MAX = 256 };
/* How soon a request that waits is looked at again, where the other thread cannot be heard of. */
static const int64_t AGAIN_NS = 1000 * 1000;

static void *room_get(orr_state_provider *source)
{
    orr_state_provider_buffer *room = source->rooms;
    if (room == NULL)
        return orr_malloc_aligned(ORR_CATCHUP_CHUNK_BYTES);
    source->rooms = room->next;
    return room;
}

static void room_put(orr_state_provider *source, void *memory)
{
    orr_state_provider_buffer *room = memory;
    room->next = source->rooms;
    source->rooms = room;
}

static void rooms_free(orr_state_provider *source)
{
    while (source->rooms != NULL) {
        orr_state_provider_buffer *room = source->rooms;
        source->rooms = room->next;
        orr_free(room);
    }
}

static orr_state_provider_client *client_of(const orr_state_provider *source, orr_conn conn)
{
    for (orr_state_provider_client *t = source->takers; t != NULL; t = t->next)
        if (t->conn == conn)
            return t;
    return NULL;
}

static void sent(orr_state_provider *source, orr_state_provider_client *t)
{
    while (t->n_sending > 0)
        room_put(source, t->sending[--t->n_sending]);
}

/* The connection is no more. Rooms stay for the next taker while there are others. */
static void leave(orr_state_provider *source, orr_state_provider_client *t)
{
    pthread_mutex_lock(&source->lock);
    orr_state_provider_client **at = &source->takers;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    if (t->asked && t->step == source->step && t->index == source->index && t->n == source->n &&
        t->lacks.from == t->lacks.to)
        source->done++;
    pthread_mutex_unlock(&source->lock);
    sent(source, t);
    orr_free(t);
    if (--source->n_takers == 0)
        rooms_free(source);
}

static void drop(orr_state_provider *source, orr_state_provider_client *t)
{
    orr_net *net = source->net;
    net->close(net, t->conn, false);
    leave(source, t);
}

typedef enum reply { REPLY_WAIT, REPLY_GIVE, REPLY_GONE, REPLY_DROP } reply;

static reply read_live(orr_state_provider *source, uint32_t chunk, void **ret_room)
{
    void *room = room_get(source);
    if (room == NULL)
        return REPLY_DROP;
    orr_chunk_read(&source->chunks, chunk, 1, room);
    *ret_room = room;
    return REPLY_GIVE;
}

static reply read_kept(orr_state_provider *source, uint32_t chunk, void **ret_room)
{
    if (chunk < source->kept.from || chunk >= source->kept.to || chunk % source->n != source->index)
        return REPLY_GONE;
    void *room = room_get(source);
    if (room == NULL)
        return REPLY_DROP;
    const size_t nth = (chunk - source->kept.from) / source->n;
    memcpy(room, source->copy + nth * ORR_CATCHUP_CHUNK_BYTES,
           orr_chunk_bytes(&source->chunks, chunk));
    *ret_room = room;
    return REPLY_GIVE;
}

/* What becomes of a request now; `ret_gone`: what is still had, where the reply is GONE. */
static reply decide(orr_state_provider *source, const orr_state_provider_client *t, uint32_t chunk,
                    void **ret_room, orr_net_frame *ret_gone)
{
    pthread_mutex_lock(&source->lock);
    reply r;
    if (source->phase == ORR_PROVIDER_NEW || t->step > source->step)
        r = REPLY_WAIT;
    else if (t->step < source->step)
        r = REPLY_GONE;
    else if (source->phase == ORR_PROVIDER_SNAPSHOTTING)
        r = REPLY_WAIT;
    else if (source->phase == ORR_PROVIDER_LIVE)
        r = read_live(source, chunk, ret_room);
    else
        r = read_kept(source, chunk, ret_room);
    if (r == REPLY_GIVE)
        source->counts.served_bytes += orr_chunk_bytes(&source->chunks, chunk);
    *ret_gone = (orr_net_frame){.kind = ORR_CATCHUP_GONE, .step = t->step, .chunk = chunk};
    if (r == REPLY_GONE && t->step == source->step) {
        ret_gone->lane = (uint16_t)source->index;
        ret_gone->partition = source->n;
        ret_gone->op = source->kept.from;
        ret_gone->round = source->kept.to;
    }
    pthread_mutex_unlock(&source->lock);
    return r;
}

/* false: requests are left that must wait for the owner of the state. */
static bool serve(orr_state_provider *source, orr_state_provider_client *t)
{
    orr_net *net = source->net;
    while (t->n_pending > 0 && t->n_sending < ORR_PROVIDER_MAX_SENDING) {
        const uint32_t chunk = t->pending[t->first];
        void *room = NULL;
        orr_net_frame frame;
        const reply r = decide(source, t, chunk, &room, &frame);
        if (r == REPLY_WAIT)
            return false;
        if (r == REPLY_DROP) {
            drop(source, t);
            return true;
        }
        t->first = (t->first + 1) % ORR_CATCHUP_WINDOW;
        t->n_pending--;
        if (r == REPLY_GIVE) {
            t->sending[t->n_sending++] = room;
            frame = (orr_net_frame){.kind = ORR_CATCHUP_DATA,
                                    .step = t->step,
                                    .chunk = chunk,
                                    .bytes = orr_chunk_bytes(&source->chunks, chunk)};
        }
        net->send(net, t->conn, &frame, room, r == REPLY_GIVE);
    }
    return true;
}

/* A net that others drive has one thread, and orr_state_provider_offer() serves by itself. */
static void look_again(orr_state_provider *source)
{
    orr_net *net = source->net;
    if (net->poll != NULL)
        net->wake_at(net, &source->user, net->now_ns(net) + AGAIN_NS);
}

void orr_state_provider_serve(orr_state_provider *source)
{
    bool all = true;
    for (orr_state_provider_client *t = source->takers, *next; t != NULL; t = next) {
        next = t->next;
        all &= serve(source, t);
    }
    if (!all)
        look_again(source);
}

static bool makes_sense(const orr_state_provider *source, const orr_state_provider_client *t,
                        const orr_net_frame *f)
{
    if (f->kind != ORR_CATCHUP_REQUEST && f->kind != ORR_CATCHUP_ACK)
        return false;
    if (f->bytes != 0 || f->epoch != source->chunks.bytes || (t->asked && f->step != t->step))
        return false;
    if (f->partition > ORR_CATCHUP_MAX_PROVIDERS || f->lane >= f->partition || f->op > f->round ||
        f->round > source->chunks.n)
        return false;
    return f->kind == ORR_CATCHUP_ACK ||
           (f->chunk < source->chunks.n && t->n_pending < ORR_CATCHUP_WINDOW);
}

static void on_frame(void *ctx, orr_conn conn, const orr_net_frame *f, const void *payload)
{
    (void)payload;
    orr_state_provider *source = ctx;
    orr_state_provider_client *t = client_of(source, conn);
    if (t == NULL)
        return;
    if (!makes_sense(source, t, f)) {
        drop(source, t);
        return;
    }
    pthread_mutex_lock(&source->lock);
    t->asked = true;
    t->step = f->step;
    t->index = f->lane;
    t->n = f->partition;
    t->lacks = (orr_chunk_range){f->op, f->round};
    pthread_mutex_unlock(&source->lock);
    if (f->kind == ORR_CATCHUP_ACK)
        return;
    t->pending[(t->first + t->n_pending) % ORR_CATCHUP_WINDOW] = f->chunk;
    t->n_pending++;
    if (!serve(source, t))
        look_again(source);
}

static void on_accepted(void *ctx, orr_conn conn)
{
    orr_state_provider *source = ctx;
    orr_state_provider_client *t = source->n_takers < TAKERS_MAX ? orr_calloc(1, sizeof *t) : NULL;
    if (t == NULL) {
        source->net->close(source->net, conn, false);
        return;
    }
    t->conn = conn;
    source->n_takers++;
    pthread_mutex_lock(&source->lock);
    t->next = source->takers;
    source->takers = t;
    pthread_mutex_unlock(&source->lock);
}

static void on_drained(void *ctx, orr_conn conn)
{
    orr_state_provider *source = ctx;
    orr_state_provider_client *t = client_of(source, conn);
    if (t == NULL)
        return;
    sent(source, t);
    if (!serve(source, t))
        look_again(source);
}

static void on_closed(void *ctx, orr_conn conn, orr_net_close_reason why)
{
    (void)why;
    orr_state_provider *source = ctx;
    orr_state_provider_client *t = client_of(source, conn);
    if (t != NULL)
        leave(source, t);
}

static void on_woken(void *ctx)
{
    orr_state_provider_serve(ctx);
}

orr_status orr_state_provider_new(orr_net *net, const char *where, const orr_team_span *spans,
                                  uint32_t n, orr_state_provider **ret, orr_error *err)
{
    orr_state_provider *source = orr_calloc(1, sizeof *source);
    if (source == NULL)
        return orr_fail_memory(err);
    *source = (orr_state_provider){.net = net,
                                   .user = {.ctx = source,
                                            .accepted = on_accepted,
                                            .frame = on_frame,
                                            .drained = on_drained,
                                            .closed = on_closed,
                                            .woken = on_woken},
                                   .n = 1};
    pthread_mutex_init(&source->turn, NULL);
    pthread_mutex_init(&source->lock, NULL);
    orr_status status = orr_chunks_init(&source->chunks, spans, n, err);
    if (status == ORR_OK)
        status = net->listen(net, &source->user, where, source->address, err);
    if (status != ORR_OK) {
        orr_state_provider_free(source);
        return status;
    }
    *ret = source;
    return ORR_OK;
}

void orr_state_provider_free(orr_state_provider *source)
{
    if (source == NULL)
        return;
    source->net->forget(source->net, &source->user);
    while (source->takers != NULL)
        leave(source, source->takers);
    rooms_free(source);
    orr_free(source->copy);
    orr_chunks_done(&source->chunks);
    pthread_mutex_destroy(&source->turn);
    pthread_mutex_destroy(&source->lock);
    orr_free(source);
}

const char *orr_state_provider_address(const orr_state_provider *source)
{
    return source->address;
}
