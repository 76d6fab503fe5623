/* SPDX-License-Identifier: Apache-2.0 */
#include "team/catchup/receiver.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* Fetching: chunks as they arrive, sources as they are lost. The user's functions are called last
 * of all, since they may begin anew or free the taker. */

enum { WINDOW = 4 }; /* at 1 MiB each: more than what is on its way at 10 GB/s and 0.2 ms */

static size_t bitmap_bytes(const orr_state_receiver *taker)
{
    return ((size_t)taker->chunks.n / 64 + 1) * sizeof(uint64_t);
}

static orr_state_receiver_provider *provider_of(const orr_state_receiver *taker, orr_conn conn)
{
    for (uint32_t i = 0; i < taker->n; i++)
        if (taker->sources[i].conn == conn)
            return &taker->sources[i];
    return NULL;
}

/* The oldest request to a source is none any more. */
static uint32_t answered(orr_state_receiver *taker, orr_state_receiver_provider *s)
{
    const uint32_t chunk = s->asked[s->first];
    s->first = (s->first + 1) % ORR_CATCHUP_WINDOW;
    s->n_asked--;
    orr_bitmap_set(taker->asked, chunk, false);
    taker->n_asked--;
    return chunk;
}

static void forget_asked(orr_state_receiver *taker, orr_state_receiver_provider *s)
{
    while (s->n_asked > 0)
        answered(taker, s);
}

static void leave_all(orr_state_receiver *taker, bool whole)
{
    for (uint32_t i = 0; i < taker->n; i++) {
        orr_state_receiver_provider *s = &taker->sources[i];
        orr_free(s->scratch);
        if (s->conn == 0)
            continue;
        if (whole)
            orr_state_receiver_acknowledge(taker, i);
        taker->net->close(taker->net, s->conn, whole);
    }
    orr_free(taker->sources);
    orr_free(taker->asked);
    taker->sources = NULL;
    taker->asked = NULL;
    taker->n = taker->n_asked = 0;
    taker->net->wake_at(taker->net, &taker->net_user, INT64_MAX);
}

/* The last thing that is done: the user may free the taker. */
static void end_whole(orr_state_receiver *taker)
{
    leave_all(taker, true);
    taker->begun = false;
    taker->user.whole(taker->user.ctx);
}

static void end_lost(orr_state_receiver *taker, uint32_t chunk)
{
    char why[sizeof taker->why + 64];
    snprintf(why, sizeof why, "chunk %u of %u: no source has it any more (%s)", chunk,
             taker->chunks.n, taker->why);
    leave_all(taker, false);
    taker->user.lost(taker->user.ctx, why);
}

/* A source is lost, or has less than was thought. Calls the user: last. */
static void go_on(orr_state_receiver *taker)
{
    orr_state_receiver_request(taker);
    const uint32_t orphan = orr_state_receiver_lost_chunk(taker);
    if (orphan != ORR_CATCHUP_NONE)
        end_lost(taker, orphan);
}

static void lose(orr_state_receiver *taker, orr_state_receiver_provider *s, const char *why)
{
    forget_asked(taker, s);
    orr_free(s->scratch);
    s->scratch = NULL;
    s->conn = 0;
    snprintf(taker->why, sizeof taker->why, "source %u: %.200s", (unsigned)(s - taker->sources),
             why);
}

static void drop(orr_state_receiver *taker, orr_state_receiver_provider *s, const char *why)
{
    taker->net->close(taker->net, s->conn, false);
    lose(taker, s, why);
    go_on(taker);
}

/* Whether this is the chunk that the source owes next. */
static bool is_owed(const orr_state_receiver *taker, const orr_state_receiver_provider *s,
                    const orr_net_frame *f)
{
    return s->n_asked > 0 && f->step == taker->step && f->chunk == s->asked[s->first];
}

static bool is_given(const orr_state_receiver *taker, const orr_state_receiver_provider *s,
                     const orr_net_frame *f)
{
    return f->kind == ORR_CATCHUP_DATA && is_owed(taker, s, f) &&
           f->bytes == orr_chunk_bytes(&taker->chunks, f->chunk);
}

static void *on_place(void *ctx, orr_conn conn, const orr_net_frame *f)
{
    orr_state_receiver *taker = ctx;
    orr_state_receiver_provider *s = provider_of(taker, conn);
    if (s == NULL || !is_given(taker, s, f))
        return NULL;
    s->heard_ns = taker->net->now_ns(taker->net);
    void *place = orr_chunk_address(&taker->chunks, f->chunk);
    if (place != NULL)
        return place;
    if (s->scratch == NULL)
        s->scratch = orr_malloc_aligned(ORR_CATCHUP_CHUNK_BYTES);
    return s->scratch;
}

static void take(orr_state_receiver *taker, orr_state_receiver_provider *s, const orr_net_frame *f,
                 const void *payload)
{
    if (payload == NULL) {
        drop(taker, s, "no memory for what it sent");
        return;
    }
    const uint32_t chunk = answered(taker, s);
    if (payload != orr_chunk_address(&taker->chunks, chunk))
        orr_chunk_write(&taker->chunks, chunk, payload);
    orr_bitmap_set(taker->had, chunk, true);
    taker->n_had++;
    taker->bytes += f->bytes;
    orr_state_receiver_trim_missing(taker, chunk % taker->n);
    if (taker->n_had == taker->chunks.n) {
        end_whole(taker);
        return;
    }
    const uint32_t n_asked = s->n_asked;
    orr_state_receiver_request(taker);
    if (s->n_asked == n_asked) /* no request said what has come */
        orr_state_receiver_acknowledge(taker, (uint32_t)(s - taker->sources));
}

/* What it still says to have must leave out what it refused, or it would be asked for ever. */
static void refuse(orr_state_receiver *taker, orr_state_receiver_provider *s,
                   const orr_net_frame *f)
{
    const uint32_t me = (uint32_t)(s - taker->sources);
    const bool same_part = f->lane == me && f->partition == taker->n;
    const orr_chunk_range has =
        same_part ? (orr_chunk_range){f->op, f->round} : (orr_chunk_range){0};
    const uint32_t chunk = answered(taker, s);
    if (chunk % taker->n == me && chunk >= has.from && chunk < has.to) {
        drop(taker, s, "it refuses what it says to have");
        return;
    }
    s->live = false;
    s->has = has;
    snprintf(taker->why, sizeof taker->why, "source %u: its state has changed", me);
    go_on(taker);
}

static void on_frame(void *ctx, orr_conn conn, const orr_net_frame *f, const void *payload)
{
    orr_state_receiver *taker = ctx;
    orr_state_receiver_provider *s = provider_of(taker, conn);
    if (s == NULL)
        return;
    s->heard_ns = taker->net->now_ns(taker->net);
    if (is_given(taker, s, f))
        take(taker, s, f, payload);
    else if (f->kind == ORR_CATCHUP_GONE && f->bytes == 0 && is_owed(taker, s, f))
        refuse(taker, s, f);
    else
        drop(taker, s, "it sent what was not asked for");
}

static void on_closed(void *ctx, orr_conn conn, orr_net_close_reason why)
{
    orr_state_receiver *taker = ctx;
    orr_state_receiver_provider *s = provider_of(taker, conn);
    if (s == NULL)
        return;
    lose(taker, s, orr_net_close_reason_text(why));
    go_on(taker);
}

/* Wakes when the first that owes something will have been silent for too long. A source that owes
 * nothing at that time may owe something later, so there is always a next time. */
static void watch(orr_state_receiver *taker, int64_t now_ns)
{
    int64_t at_ns = now_ns + taker->silence_ns;
    for (uint32_t i = 0; i < taker->n; i++) {
        const orr_state_receiver_provider *s = &taker->sources[i];
        if (s->conn != 0 && s->n_asked > 0 && s->heard_ns + taker->silence_ns < at_ns)
            at_ns = s->heard_ns + taker->silence_ns;
    }
    taker->net->wake_at(taker->net, &taker->net_user, at_ns);
}

static void on_woken(void *ctx)
{
    orr_state_receiver *taker = ctx;
    const int64_t now_ns = taker->net->now_ns(taker->net);
    for (uint32_t i = 0; i < taker->n; i++) {
        orr_state_receiver_provider *s = &taker->sources[i];
        if (s->conn == 0 || s->n_asked == 0 || now_ns - s->heard_ns < taker->silence_ns)
            continue;
        taker->net->close(taker->net, s->conn, false);
        lose(taker, s, "it is silent");
    }
    if (taker->sources == NULL)
        return;
    if (taker->n_had == taker->chunks.n) { /* of no bytes */
        end_whole(taker);
        return;
    }
    watch(taker, now_ns);
    go_on(taker);
}

orr_status orr_state_receiver_new(orr_net *net, const orr_team_span *spans, uint32_t n,
                                  uint32_t window, const orr_state_receiver_callbacks *user,
                                  orr_state_receiver **ret, orr_error *err)
{
    orr_state_receiver *taker = orr_calloc(1, sizeof *taker);
    if (taker == NULL)
        return orr_fail_memory(err);
    *taker = (orr_state_receiver){.net = net,
                                  .net_user = {.ctx = taker,
                                               .place = on_place,
                                               .frame = on_frame,
                                               .closed = on_closed,
                                               .woken = on_woken},
                                  .user = *user,
                                  .window = window == 0                   ? WINDOW
                                            : window < ORR_CATCHUP_WINDOW ? window
                                                                          : ORR_CATCHUP_WINDOW};
    const orr_status status = orr_chunks_init(&taker->chunks, spans, n, err);
    if (status != ORR_OK) {
        orr_free(taker);
        return status;
    }
    *ret = taker;
    return ORR_OK;
}

void orr_state_receiver_free(orr_state_receiver *taker)
{
    if (taker == NULL)
        return;
    leave_all(taker, false);
    taker->net->forget(taker->net, &taker->net_user);
    orr_free(taker->had);
    orr_chunks_done(&taker->chunks);
    orr_free(taker);
}

void orr_state_receiver_stop(orr_state_receiver *taker)
{
    leave_all(taker, false);
}

void orr_state_receiver_discard(orr_state_receiver *taker)
{
    leave_all(taker, false);
    taker->begun = false;
}

/* Parts as n sources have them, with what is here already. */
static orr_status prepare(orr_state_receiver *taker, uint32_t n, orr_error *err)
{
    if (taker->had == NULL)
        taker->had = orr_calloc(1, bitmap_bytes(taker));
    taker->asked = orr_calloc(1, bitmap_bytes(taker));
    taker->sources = orr_calloc(n, sizeof *taker->sources);
    if (taker->had == NULL || taker->asked == NULL || taker->sources == NULL)
        return orr_fail_memory(err);
    taker->n = n;
    for (uint32_t i = 0; i < n; i++) {
        taker->sources[i].live = true;
        taker->sources[i].lacks.to = (taker->chunks.n + n - 1 - i) / n;
        orr_state_receiver_trim_missing(taker, i);
    }
    return ORR_OK;
}

/* One that cannot be reached is like one that is lost; only all of them are an error. */
static orr_status connect_all(orr_state_receiver *taker, const char *const *addresses,
                              orr_error *err)
{
    orr_net *net = taker->net;
    orr_error why = {0};
    orr_status status = ORR_OK;
    uint32_t connected = 0;
    for (uint32_t i = 0; i < taker->n; i++) {
        orr_state_receiver_provider *s = &taker->sources[i];
        const orr_status one = net->connect(net, &taker->net_user, addresses[i], &s->conn, &why);
        connected += one == ORR_OK;
        if (one != ORR_OK) {
            status = one;
            lose(taker, s, why.text);
        }
    }
    return connected > 0 ? ORR_OK : orr_fail(err, status, "no source of the state: %s", why.text);
}

orr_status orr_state_receiver_begin(orr_state_receiver *taker, uint64_t step,
                                    const char *const *addresses, uint32_t n, int64_t silence_ns,
                                    orr_error *err)
{
    leave_all(taker, false);
    if (n == 0 || n > ORR_CATCHUP_MAX_PROVIDERS)
        return orr_fail(err, n == 0 ? ORR_INVALID : ORR_LIMIT,
                        "%u sources of the state: there may be 1 to %d", n,
                        ORR_CATCHUP_MAX_PROVIDERS);
    if (!taker->begun || taker->step != step) {
        if (taker->had != NULL)
            memset(taker->had, 0, bitmap_bytes(taker));
        taker->n_had = 0;
        taker->begun = true;
        taker->step = step;
    }
    taker->silence_ns = silence_ns;
    taker->why[0] = '\0';
    orr_status status = prepare(taker, n, err);
    if (status == ORR_OK)
        status = connect_all(taker, addresses, err);
    if (status != ORR_OK) {
        leave_all(taker, false);
        return status;
    }
    const int64_t now_ns = taker->net->now_ns(taker->net);
    orr_state_receiver_request(taker);
    if (taker->n_had == taker->chunks.n) /* of no bytes: told when this has returned */
        taker->net->wake_at(taker->net, &taker->net_user, now_ns);
    else
        watch(taker, now_ns);
    return ORR_OK;
}

orr_state_receiver_progress orr_state_receiver_progress_of(const orr_state_receiver *taker)
{
    return (orr_state_receiver_progress){
        .chunks = taker->chunks.n, .had = taker->n_had, .bytes = taker->bytes};
}
