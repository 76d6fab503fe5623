/* SPDX-License-Identifier: Apache-2.0 */
#include "team/catchup/receiver.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* Fetching: chunks as they arrive, providers as they are lost. The user's functions are called last
 * of all, since they may begin anew or free the receiver. */

enum { WINDOW = 4 }; /* at 1 MiB each: more than what is on its way at 10 GB/s and 0.2 ms */

static size_t bitmap_bytes(const orr_state_receiver *receiver)
{
    return ((size_t)receiver->chunks.n / 64 + 1) * sizeof(uint64_t);
}

static orr_state_receiver_provider *provider_of(const orr_state_receiver *receiver, orr_conn conn)
{
    for (uint32_t i = 0; i < receiver->n; i++)
        if (receiver->providers[i].conn == conn)
            return &receiver->providers[i];
    return NULL;
}

/* The oldest request to a provider is none any more. */
static uint32_t answered(orr_state_receiver *receiver, orr_state_receiver_provider *s)
{
    const uint32_t chunk = s->asked[s->first];
    s->first = (s->first + 1) % ORR_CATCHUP_WINDOW;
    s->n_asked--;
    orr_bitmap_set(receiver->asked, chunk, false);
    receiver->n_asked--;
    return chunk;
}

static void forget_asked(orr_state_receiver *receiver, orr_state_receiver_provider *s)
{
    while (s->n_asked > 0)
        answered(receiver, s);
}

static void leave_all(orr_state_receiver *receiver, bool whole)
{
    for (uint32_t i = 0; i < receiver->n; i++) {
        orr_state_receiver_provider *s = &receiver->providers[i];
        orr_free(s->scratch);
        if (s->conn == 0)
            continue;
        if (whole)
            orr_state_receiver_acknowledge(receiver, i);
        receiver->net->close(receiver->net, s->conn, whole);
    }
    orr_free(receiver->providers);
    orr_free(receiver->asked);
    receiver->providers = NULL;
    receiver->asked = NULL;
    receiver->n = receiver->n_asked = 0;
    receiver->net->wake_at(receiver->net, &receiver->net_user, INT64_MAX);
}

/* The last thing that is done: the user may free the receiver. */
static void end_whole(orr_state_receiver *receiver)
{
    leave_all(receiver, true);
    receiver->begun = false;
    receiver->user.whole(receiver->user.ctx);
}

static void end_lost(orr_state_receiver *receiver, uint32_t chunk)
{
    char why[sizeof receiver->why + 64];
    snprintf(why, sizeof why, "chunk %u of %u: no source has it any more (%s)", chunk,
             receiver->chunks.n, receiver->why);
    leave_all(receiver, false);
    receiver->user.lost(receiver->user.ctx, why);
}

/* A provider is lost, or has less than was thought. Calls the user: last. */
static void go_on(orr_state_receiver *receiver)
{
    orr_state_receiver_request(receiver);
    const uint32_t orphan = orr_state_receiver_lost_chunk(receiver);
    if (orphan != ORR_CATCHUP_NONE)
        end_lost(receiver, orphan);
}

static void lose(orr_state_receiver *receiver, orr_state_receiver_provider *s, const char *why)
{
    forget_asked(receiver, s);
    orr_free(s->scratch);
    s->scratch = NULL;
    s->conn = 0;
    snprintf(receiver->why, sizeof receiver->why, "source %u: %.200s",
             (unsigned)(s - receiver->providers), why);
}

static void drop(orr_state_receiver *receiver, orr_state_receiver_provider *s, const char *why)
{
    receiver->net->close(receiver->net, s->conn, false);
    lose(receiver, s, why);
    go_on(receiver);
}

/* Whether this is the chunk that the provider owes next. */
static bool is_owed(const orr_state_receiver *receiver, const orr_state_receiver_provider *s,
                    const orr_net_frame *f)
{
    return s->n_asked > 0 && f->step == receiver->step && f->chunk == s->asked[s->first];
}

static bool is_given(const orr_state_receiver *receiver, const orr_state_receiver_provider *s,
                     const orr_net_frame *f)
{
    return f->kind == ORR_CATCHUP_DATA && is_owed(receiver, s, f) &&
           f->bytes == orr_chunk_bytes(&receiver->chunks, f->chunk);
}

static void *on_place(void *ctx, orr_conn conn, const orr_net_frame *f)
{
    orr_state_receiver *receiver = ctx;
    orr_state_receiver_provider *s = provider_of(receiver, conn);
    if (s == NULL || !is_given(receiver, s, f))
        return NULL;
    s->heard_ns = receiver->net->now_ns(receiver->net);
    void *place = orr_chunk_address(&receiver->chunks, f->chunk);
    if (place != NULL)
        return place;
    if (s->scratch == NULL)
        s->scratch = orr_malloc_aligned(ORR_CATCHUP_CHUNK_BYTES);
    return s->scratch;
}

static void take(orr_state_receiver *receiver, orr_state_receiver_provider *s,
                 const orr_net_frame *f, const void *payload)
{
    if (payload == NULL) {
        drop(receiver, s, "no memory for what it sent");
        return;
    }
    const uint32_t chunk = answered(receiver, s);
    if (payload != orr_chunk_address(&receiver->chunks, chunk))
        orr_chunk_write(&receiver->chunks, chunk, payload);
    orr_bitmap_set(receiver->had, chunk, true);
    receiver->n_had++;
    receiver->bytes += f->bytes;
    orr_state_receiver_trim_missing(receiver, chunk % receiver->n);
    if (receiver->n_had == receiver->chunks.n) {
        end_whole(receiver);
        return;
    }
    const uint32_t n_asked = s->n_asked;
    orr_state_receiver_request(receiver);
    if (s->n_asked == n_asked) /* no request said what has come */
        orr_state_receiver_acknowledge(receiver, (uint32_t)(s - receiver->providers));
}

/* What it still says to have must leave out what it refused, or it would be asked for ever. */
static void refuse(orr_state_receiver *receiver, orr_state_receiver_provider *s,
                   const orr_net_frame *f)
{
    const uint32_t me = (uint32_t)(s - receiver->providers);
    const bool same_part = f->lane == me && f->partition == receiver->n;
    const orr_chunk_range has =
        same_part ? (orr_chunk_range){f->op, f->round} : (orr_chunk_range){0};
    const uint32_t chunk = answered(receiver, s);
    if (chunk % receiver->n == me && chunk >= has.from && chunk < has.to) {
        drop(receiver, s, "it refuses what it says to have");
        return;
    }
    s->live = false;
    s->has = has;
    snprintf(receiver->why, sizeof receiver->why, "source %u: its state has changed", me);
    go_on(receiver);
}

static void on_frame(void *ctx, orr_conn conn, const orr_net_frame *f, const void *payload)
{
    orr_state_receiver *receiver = ctx;
    orr_state_receiver_provider *s = provider_of(receiver, conn);
    if (s == NULL)
        return;
    s->heard_ns = receiver->net->now_ns(receiver->net);
    if (is_given(receiver, s, f))
        take(receiver, s, f, payload);
    else if (f->kind == ORR_CATCHUP_GONE && f->bytes == 0 && is_owed(receiver, s, f))
        refuse(receiver, s, f);
    else
        drop(receiver, s, "it sent what was not asked for");
}

static void on_closed(void *ctx, orr_conn conn, orr_net_close_reason why)
{
    orr_state_receiver *receiver = ctx;
    orr_state_receiver_provider *s = provider_of(receiver, conn);
    if (s == NULL)
        return;
    lose(receiver, s, orr_net_close_reason_text(why));
    go_on(receiver);
}

/* Wakes when the first that owes something will have been silent for too long. A provider that owes
 * nothing at that time may owe something later, so there is always a next time. */
static void watch(orr_state_receiver *receiver, int64_t now_ns)
{
    int64_t at_ns = now_ns + receiver->silence_ns;
    for (uint32_t i = 0; i < receiver->n; i++) {
        const orr_state_receiver_provider *s = &receiver->providers[i];
        if (s->conn != 0 && s->n_asked > 0 && s->heard_ns + receiver->silence_ns < at_ns)
            at_ns = s->heard_ns + receiver->silence_ns;
    }
    receiver->net->wake_at(receiver->net, &receiver->net_user, at_ns);
}

static void on_woken(void *ctx)
{
    orr_state_receiver *receiver = ctx;
    const int64_t now_ns = receiver->net->now_ns(receiver->net);
    for (uint32_t i = 0; i < receiver->n; i++) {
        orr_state_receiver_provider *s = &receiver->providers[i];
        if (s->conn == 0 || s->n_asked == 0 || now_ns - s->heard_ns < receiver->silence_ns)
            continue;
        receiver->net->close(receiver->net, s->conn, false);
        lose(receiver, s, "it is silent");
    }
    if (receiver->providers == NULL)
        return;
    if (receiver->n_had == receiver->chunks.n) { /* of no bytes */
        end_whole(receiver);
        return;
    }
    watch(receiver, now_ns);
    go_on(receiver);
}

orr_status orr_state_receiver_new(orr_net *net, const orr_team_span *spans, uint32_t n,
                                  uint32_t window, const orr_state_receiver_callbacks *user,
                                  orr_state_receiver **ret, orr_error *err)
{
    orr_state_receiver *receiver = orr_calloc(1, sizeof *receiver);
    if (receiver == NULL)
        return orr_fail_memory(err);
    *receiver = (orr_state_receiver){.net = net,
                                     .net_user = {.ctx = receiver,
                                                  .place = on_place,
                                                  .frame = on_frame,
                                                  .closed = on_closed,
                                                  .woken = on_woken},
                                     .user = *user,
                                     .window = window == 0                   ? WINDOW
                                               : window < ORR_CATCHUP_WINDOW ? window
                                                                             : ORR_CATCHUP_WINDOW};
    const orr_status status = orr_chunks_init(&receiver->chunks, spans, n, err);
    if (status != ORR_OK) {
        orr_free(receiver);
        return status;
    }
    *ret = receiver;
    return ORR_OK;
}

void orr_state_receiver_free(orr_state_receiver *receiver)
{
    if (receiver == NULL)
        return;
    leave_all(receiver, false);
    receiver->net->forget(receiver->net, &receiver->net_user);
    orr_free(receiver->had);
    orr_chunks_done(&receiver->chunks);
    orr_free(receiver);
}

void orr_state_receiver_stop(orr_state_receiver *receiver)
{
    leave_all(receiver, false);
}

void orr_state_receiver_discard(orr_state_receiver *receiver)
{
    leave_all(receiver, false);
    receiver->begun = false;
}

/* Parts as n providers have them, with what is here already. */
static orr_status prepare(orr_state_receiver *receiver, uint32_t n, orr_error *err)
{
    if (receiver->had == NULL)
        receiver->had = orr_calloc(1, bitmap_bytes(receiver));
    receiver->asked = orr_calloc(1, bitmap_bytes(receiver));
    receiver->providers = orr_calloc(n, sizeof *receiver->providers);
    if (receiver->had == NULL || receiver->asked == NULL || receiver->providers == NULL)
        return orr_fail_memory(err);
    receiver->n = n;
    for (uint32_t i = 0; i < n; i++) {
        receiver->providers[i].live = true;
        receiver->providers[i].lacks.to = (receiver->chunks.n + n - 1 - i) / n;
        orr_state_receiver_trim_missing(receiver, i);
    }
    return ORR_OK;
}

/* One that cannot be reached is like one that is lost; only all of them are an error. */
static orr_status connect_all(orr_state_receiver *receiver, const char *const *addresses,
                              orr_error *err)
{
    orr_net *net = receiver->net;
    orr_error why = {0};
    orr_status status = ORR_OK;
    uint32_t connected = 0;
    for (uint32_t i = 0; i < receiver->n; i++) {
        orr_state_receiver_provider *s = &receiver->providers[i];
        const orr_status one = net->connect(net, &receiver->net_user, addresses[i], &s->conn, &why);
        connected += one == ORR_OK;
        if (one != ORR_OK) {
            status = one;
            lose(receiver, s, why.text);
        }
    }
    return connected > 0 ? ORR_OK : orr_fail(err, status, "no source of the state: %s", why.text);
}

orr_status orr_state_receiver_begin(orr_state_receiver *receiver, uint64_t step,
                                    const char *const *addresses, uint32_t n, int64_t silence_ns,
                                    orr_error *err)
{
    leave_all(receiver, false);
    if (n == 0 || n > ORR_CATCHUP_MAX_PROVIDERS)
        return orr_fail(err, n == 0 ? ORR_INVALID : ORR_LIMIT,
                        "%u sources of the state: there may be 1 to %d", n,
                        ORR_CATCHUP_MAX_PROVIDERS);
    if (!receiver->begun || receiver->step != step) {
        if (receiver->had != NULL)
            memset(receiver->had, 0, bitmap_bytes(receiver));
        receiver->n_had = 0;
        receiver->begun = true;
        receiver->step = step;
    }
    receiver->silence_ns = silence_ns;
    receiver->why[0] = '\0';
    orr_status status = prepare(receiver, n, err);
    if (status == ORR_OK)
        status = connect_all(receiver, addresses, err);
    if (status != ORR_OK) {
        leave_all(receiver, false);
        return status;
    }
    const int64_t now_ns = receiver->net->now_ns(receiver->net);
    orr_state_receiver_request(receiver);
    if (receiver->n_had == receiver->chunks.n) /* of no bytes: told when this has returned */
        receiver->net->wake_at(receiver->net, &receiver->net_user, now_ns);
    else
        watch(receiver, now_ns);
    return ORR_OK;
}

orr_state_receiver_progress orr_state_receiver_progress_of(const orr_state_receiver *receiver)
{
    return (orr_state_receiver_progress){
        .chunks = receiver->chunks.n, .had = receiver->n_had, .bytes = receiver->bytes};
}
