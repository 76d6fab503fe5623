/* SPDX-License-Identifier: Apache-2.0 */
#include "team/catchup/receiver.h"

/* Which chunk is asked of which provider. Each is asked for its own part, from the front; one that
 * has nothing left there takes from the end of another's part, of one that is lost first. */

static uint32_t chunk_at(const orr_state_receiver *receiver, uint32_t provider, uint32_t position)
{
    return provider + position * receiver->n;
}

void orr_state_receiver_trim_missing(orr_state_receiver *receiver, uint32_t provider)
{
    orr_chunk_range *lacks = &receiver->providers[provider].lacks;
    while (lacks->from < lacks->to &&
           orr_bitmap_get(receiver->had, chunk_at(receiver, provider, lacks->from)))
        lacks->from++;
    while (lacks->from < lacks->to &&
           orr_bitmap_get(receiver->had, chunk_at(receiver, provider, lacks->to - 1)))
        lacks->to--;
}

static bool is_free(const orr_state_receiver *receiver, uint32_t chunk)
{
    return !orr_bitmap_get(receiver->had, chunk) && !orr_bitmap_get(receiver->asked, chunk);
}

static bool inside(orr_chunk_range range, uint32_t chunk)
{
    return chunk >= range.from && chunk < range.to;
}

static uint32_t own_chunk(const orr_state_receiver *receiver, uint32_t provider)
{
    const orr_state_receiver_provider *s = &receiver->providers[provider];
    for (uint32_t at = s->lacks.from; at < s->lacks.to; at++) {
        const uint32_t chunk = chunk_at(receiver, provider, at);
        if (is_free(receiver, chunk) && (s->live || inside(s->has, chunk)))
            return chunk;
    }
    return ORR_CATCHUP_NONE;
}

static uint32_t last_chunk(const orr_state_receiver *receiver, uint32_t provider)
{
    const orr_chunk_range lacks = receiver->providers[provider].lacks;
    for (uint32_t at = lacks.to; at > lacks.from; at--)
        if (is_free(receiver, chunk_at(receiver, provider, at - 1)))
            return chunk_at(receiver, provider, at - 1);
    return ORR_CATCHUP_NONE;
}

/* Of the longest rest; one that nobody else serves is longer than all. */
static uint32_t others_chunk(const orr_state_receiver *receiver)
{
    uint32_t best = ORR_CATCHUP_NONE;
    uint64_t most = 0;
    for (uint32_t i = 0; i < receiver->n; i++) {
        const orr_state_receiver_provider *s = &receiver->providers[i];
        const uint64_t rest = s->lacks.to - s->lacks.from + (s->conn == 0 ? UINT64_C(1) << 32 : 0);
        const uint32_t chunk = rest > most ? last_chunk(receiver, i) : ORR_CATCHUP_NONE;
        if (chunk == ORR_CATCHUP_NONE)
            continue;
        best = chunk;
        most = rest;
    }
    return best;
}

static orr_net_frame frame_to(const orr_state_receiver *receiver, uint32_t provider, uint16_t kind)
{
    const orr_state_receiver_provider *s = &receiver->providers[provider];
    const bool none = s->lacks.from == s->lacks.to;
    return (orr_net_frame){.kind = kind,
                           .lane = (uint16_t)provider,
                           .epoch = receiver->chunks.bytes,
                           .step = receiver->step,
                           .partition = receiver->n,
                           .op = none ? 0 : chunk_at(receiver, provider, s->lacks.from),
                           .round = none ? 0 : chunk_at(receiver, provider, s->lacks.to - 1) + 1};
}

void orr_state_receiver_acknowledge(orr_state_receiver *receiver, uint32_t provider)
{
    const orr_net_frame have = frame_to(receiver, provider, ORR_CATCHUP_ACK);
    receiver->net->send(receiver->net, receiver->providers[provider].conn, &have, NULL, false);
}

static void ask(orr_state_receiver *receiver, uint32_t provider, uint32_t chunk)
{
    orr_state_receiver_provider *s = &receiver->providers[provider];
    if (s->n_asked == 0) /* it owed nothing until now */
        s->heard_ns = receiver->net->now_ns(receiver->net);
    s->asked[(s->first + s->n_asked++) % ORR_CATCHUP_WINDOW] = chunk;
    orr_bitmap_set(receiver->asked, chunk, true);
    receiver->n_asked++;
    orr_net_frame frame = frame_to(receiver, provider, ORR_CATCHUP_REQUEST);
    frame.chunk = chunk;
    receiver->net->send(receiver->net, s->conn, &frame, NULL, false);
}

/* Turn by turn, so that what is left over when a provider is lost goes to all others. */
void orr_state_receiver_request(orr_state_receiver *receiver)
{
    for (bool more = true; more && receiver->n_had + receiver->n_asked < receiver->chunks.n;) {
        more = false;
        for (uint32_t i = 0; i < receiver->n; i++) {
            const orr_state_receiver_provider *s = &receiver->providers[i];
            if (s->conn == 0 || s->n_asked == receiver->window)
                continue;
            uint32_t chunk = own_chunk(receiver, i);
            if (chunk == ORR_CATCHUP_NONE && s->live)
                chunk = others_chunk(receiver);
            if (chunk == ORR_CATCHUP_NONE)
                continue;
            ask(receiver, i, chunk);
            more = true;
        }
    }
}

uint32_t orr_state_receiver_lost_chunk(const orr_state_receiver *receiver)
{
    for (uint32_t i = 0; i < receiver->n; i++)
        if (receiver->providers[i].conn != 0 && receiver->providers[i].live)
            return ORR_CATCHUP_NONE;
    for (uint32_t i = 0; i < receiver->n; i++) {
        const orr_state_receiver_provider *s = &receiver->providers[i];
        for (uint32_t at = s->lacks.from; at < s->lacks.to; at++) {
            const uint32_t chunk = chunk_at(receiver, i, at);
            if (!orr_bitmap_get(receiver->had, chunk) && (s->conn == 0 || !inside(s->has, chunk)))
                return chunk;
        }
    }
    return ORR_CATCHUP_NONE;
}
