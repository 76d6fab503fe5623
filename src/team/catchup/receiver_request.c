/* SPDX-License-Identifier: Apache-2.0 */
#include "team/catchup/receiver.h"

/* Which chunk is asked of which source. Each is asked for its own part, from the front; one that
 * has nothing left there takes from the end of another's part, of one that is lost first. */

static uint32_t chunk_at(const orr_state_receiver *taker, uint32_t source, uint32_t position)
{
    return source + position * taker->n;
}

void orr_state_receiver_trim_missing(orr_state_receiver *taker, uint32_t source)
{
    orr_chunk_range *lacks = &taker->sources[source].lacks;
    while (lacks->from < lacks->to &&
           orr_bitmap_get(taker->had, chunk_at(taker, source, lacks->from)))
        lacks->from++;
    while (lacks->from < lacks->to &&
           orr_bitmap_get(taker->had, chunk_at(taker, source, lacks->to - 1)))
        lacks->to--;
}

static bool is_free(const orr_state_receiver *taker, uint32_t chunk)
{
    return !orr_bitmap_get(taker->had, chunk) && !orr_bitmap_get(taker->asked, chunk);
}

static bool inside(orr_chunk_range range, uint32_t chunk)
{
    return chunk >= range.from && chunk < range.to;
}

static uint32_t own_chunk(const orr_state_receiver *taker, uint32_t source)
{
    const orr_state_receiver_provider *s = &taker->sources[source];
    for (uint32_t at = s->lacks.from; at < s->lacks.to; at++) {
        const uint32_t chunk = chunk_at(taker, source, at);
        if (is_free(taker, chunk) && (s->live || inside(s->has, chunk)))
            return chunk;
    }
    return ORR_CATCHUP_NONE;
}

static uint32_t last_chunk(const orr_state_receiver *taker, uint32_t source)
{
    const orr_chunk_range lacks = taker->sources[source].lacks;
    for (uint32_t at = lacks.to; at > lacks.from; at--)
        if (is_free(taker, chunk_at(taker, source, at - 1)))
            return chunk_at(taker, source, at - 1);
    return ORR_CATCHUP_NONE;
}

/* Of the longest rest; one that nobody else serves is longer than all. */
static uint32_t others_chunk(const orr_state_receiver *taker)
{
    uint32_t best = ORR_CATCHUP_NONE;
    uint64_t most = 0;
    for (uint32_t i = 0; i < taker->n; i++) {
        const orr_state_receiver_provider *s = &taker->sources[i];
        const uint64_t rest = s->lacks.to - s->lacks.from + (s->conn == 0 ? UINT64_C(1) << 32 : 0);
        const uint32_t chunk = rest > most ? last_chunk(taker, i) : ORR_CATCHUP_NONE;
        if (chunk == ORR_CATCHUP_NONE)
            continue;
        best = chunk;
        most = rest;
    }
    return best;
}

static orr_net_frame frame_to(const orr_state_receiver *taker, uint32_t source, uint16_t kind)
{
    const orr_state_receiver_provider *s = &taker->sources[source];
    const bool none = s->lacks.from == s->lacks.to;
    return (orr_net_frame){.kind = kind,
                           .lane = (uint16_t)source,
                           .epoch = taker->chunks.bytes,
                           .step = taker->step,
                           .partition = taker->n,
                           .op = none ? 0 : chunk_at(taker, source, s->lacks.from),
                           .round = none ? 0 : chunk_at(taker, source, s->lacks.to - 1) + 1};
}

void orr_state_receiver_acknowledge(orr_state_receiver *taker, uint32_t source)
{
    const orr_net_frame have = frame_to(taker, source, ORR_CATCHUP_ACK);
    taker->net->send(taker->net, taker->sources[source].conn, &have, NULL, false);
}

static void ask(orr_state_receiver *taker, uint32_t source, uint32_t chunk)
{
    orr_state_receiver_provider *s = &taker->sources[source];
    if (s->n_asked == 0) /* it owed nothing until now */
        s->heard_ns = taker->net->now_ns(taker->net);
    s->asked[(s->first + s->n_asked++) % ORR_CATCHUP_WINDOW] = chunk;
    orr_bitmap_set(taker->asked, chunk, true);
    taker->n_asked++;
    orr_net_frame frame = frame_to(taker, source, ORR_CATCHUP_REQUEST);
    frame.chunk = chunk;
    taker->net->send(taker->net, s->conn, &frame, NULL, false);
}

/* Turn by turn, so that what is left over when a source is lost goes to all others. */
void orr_state_receiver_request(orr_state_receiver *taker)
{
    for (bool more = true; more && taker->n_had + taker->n_asked < taker->chunks.n;) {
        more = false;
        for (uint32_t i = 0; i < taker->n; i++) {
            const orr_state_receiver_provider *s = &taker->sources[i];
            if (s->conn == 0 || s->n_asked == taker->window)
                continue;
            uint32_t chunk = own_chunk(taker, i);
            if (chunk == ORR_CATCHUP_NONE && s->live)
                chunk = others_chunk(taker);
            if (chunk == ORR_CATCHUP_NONE)
                continue;
            ask(taker, i, chunk);
            more = true;
        }
    }
}

uint32_t orr_state_receiver_lost_chunk(const orr_state_receiver *taker)
{
    for (uint32_t i = 0; i < taker->n; i++)
        if (taker->sources[i].conn != 0 && taker->sources[i].live)
            return ORR_CATCHUP_NONE;
    for (uint32_t i = 0; i < taker->n; i++) {
        const orr_state_receiver_provider *s = &taker->sources[i];
        for (uint32_t at = s->lacks.from; at < s->lacks.to; at++) {
            const uint32_t chunk = chunk_at(taker, i, at);
            if (!orr_bitmap_get(taker->had, chunk) && (s->conn == 0 || !inside(s->has, chunk)))
                return chunk;
        }
    }
    return ORR_CATCHUP_NONE;
}
