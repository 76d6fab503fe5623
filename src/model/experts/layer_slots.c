/* SPDX-License-Identifier: Apache-2.0 */
#include "model/experts/layer_slots.h"

#include <math.h>
#include <string.h>

uint32_t orr_layer_slots_most(const orr_expert_placement *p, uint32_t experts)
{
    uint32_t most = experts;
    for (uint32_t l = 0; p != NULL && l < p->layers; l++) {
        const uint32_t *first = p->first_slot + (size_t)l * (p->ranks + 1);
        const uint32_t n = first[p->ranks] - first[0];
        most = n > most ? n : most;
    }
    return most;
}

orr_status orr_layer_slots_new(uint32_t experts, uint32_t ranks, const orr_expert_placement *p,
                               orr_arena *arena, orr_layer_slots *ret, orr_error *err)
{
    const uint32_t most = orr_layer_slots_most(p, experts);
    *ret = (orr_layer_slots){.experts = experts,
                             .ranks = ranks,
                             .host_ranks = p != NULL ? p->host_ranks / (p->ranks / ranks) : 0,
                             .first = orr_arena_array(arena, uint32_t, (size_t)ranks + 1),
                             .expert = orr_arena_array(arena, uint16_t, most),
                             .share = orr_arena_array(arena, double, most),
                             .copy = orr_arena_array(arena, uint32_t, most),
                             .rank = orr_arena_array(arena, uint16_t, most),
                             .beyond = orr_arena_array(arena, double, most),
                             .of_host = orr_arena_array(arena, double, ranks),
                             .begin = orr_arena_array(arena, uint32_t, (size_t)experts + 1)};
    return ret->first == NULL || ret->expert == NULL || ret->share == NULL || ret->copy == NULL ||
                   ret->rank == NULL || ret->beyond == NULL || ret->of_host == NULL ||
                   ret->begin == NULL
               ? orr_fail_memory(err)
               : ORR_OK;
}

/* Adds a slot of a rank; the first one of its expert there takes what all are given. One that came
 * with another rank is none: its weights are there already. */
static void add_slot(orr_layer_slots *s, uint32_t rank, uint32_t merged_from, uint16_t expert,
                     double share)
{
    for (uint32_t i = s->first[rank]; i < s->n; i++)
        if (s->expert[i] == expert) {
            s->share[i] += share;
            if (i < merged_from)
                return;
            share = 0;
            break;
        }
    s->expert[s->n] = expert;
    s->share[s->n] = share;
    s->rank[s->n++] = (uint16_t)rank;
}

/* Slots by expert. False, *ret_missing: an expert has none. */
static bool index_copies(orr_layer_slots *s, uint32_t *ret_missing)
{
    uint32_t *begin = s->begin;
    memset(begin, 0, (s->experts + 1) * sizeof *begin);
    for (uint32_t i = 0; i < s->n; i++)
        begin[s->expert[i] + 1u]++;
    s->copied = false;
    for (uint32_t e = 0; e < s->experts; e++) {
        if (begin[e + 1] == 0) {
            *ret_missing = e;
            return false;
        }
        s->copied |= begin[e + 1] > 1;
        begin[e + 1] += begin[e];
    }
    for (uint32_t i = s->n; i-- > 0;)
        s->copy[--begin[s->expert[i] + 1u]] = i;
    /* Each begin[e + 1] is now where the copies of e begin. */
    memmove(begin, begin + 1, s->experts * sizeof *begin);
    begin[s->experts] = s->n;
    return true;
}

static uint32_t host_of(const orr_layer_slots *s, uint32_t rank)
{
    return s->host_ranks > 0 ? rank / s->host_ranks : 0;
}

static uint32_t own_slot(const orr_layer_slots *s, uint32_t rank, uint32_t expert)
{
    uint32_t c = s->begin[expert];
    while (c < s->begin[expert + 1] && s->rank[s->copy[c]] != rank)
        c++;
    return c < s->begin[expert + 1] ? s->copy[c] : UINT32_MAX;
}

/* The part of an expert's tokens of a rank that its copy there, or none, takes. */
static double kept(const orr_layer_slots *s, uint32_t slot)
{
    return slot == UINT32_MAX ? 0 : s->nearest ? 1 : fmin(s->share[slot] * s->live, 1);
}

/* What a copy may take of other ranks: of its share what its own rank leaves. */
static double room_of(const orr_layer_slots *s, uint32_t slot)
{
    return s->nearest ? s->share[slot] : fmax(s->share[slot] - 1.0 / s->live, 0);
}

/* Of a host: the room of its copies of an expert, their number, and what its ranks leave of their
 * tokens. */
typedef struct host_rest {
    double room, rows;
    uint32_t n;
} host_rest;

static host_rest rest_of(const orr_layer_slots *s, uint32_t expert, uint32_t host)
{
    host_rest ret = {.rows = s->of_host[host]};
    for (uint32_t c = s->begin[expert]; c < s->begin[expert + 1]; c++) {
        const uint32_t slot = s->copy[c];
        if (host_of(s, s->rank[slot]) != host)
            continue;
        ret.rows -= kept(s, slot) / s->live;
        ret.room += room_of(s, slot);
        ret.n++;
    }
    return ret;
}

/* What hosts have of all tokens, and what copies have for other hosts: of their room what the
 * tokens of their own host leave. */
static void weigh_copies(orr_layer_slots *s)
{
    for (uint32_t r = 0; r < s->ranks; r++) {
        s->live += s->first[r] < s->first[r + 1];
        s->of_host[r] = 0;
    }
    for (uint32_t r = 0; r < s->ranks; r++)
        if (s->first[r] < s->first[r + 1])
            s->of_host[host_of(s, r)] += 1.0 / s->live;
    for (uint32_t e = 0; s->copied && e < s->experts; e++)
        for (uint32_t c = s->begin[e]; c < s->begin[e + 1]; c++) {
            const uint32_t slot = s->copy[c];
            const host_rest rest = rest_of(s, e, host_of(s, s->rank[slot]));
            const double rows = fmax(rest.rows, 0); /* rounding may leave less than none */
            s->beyond[slot] = s->nearest         ? s->share[slot]
                              : rest.room > rows ? room_of(s, slot) * (1 - rows / rest.room)
                                                 : 0;
        }
}

orr_status orr_layer_slots_set(orr_layer_slots *s, const orr_expert_placement *p, uint32_t layer,
                               orr_error *err)
{
    const uint32_t merged = p != NULL ? p->ranks / s->ranks : 0;
    uint32_t missing;
    s->n = s->live = 0;
    s->nearest = p != NULL && p->nearest;
    for (uint32_t r = 0; r < s->ranks; r++) {
        s->first[r] = s->n;
        if (p == NULL) {
            for (uint32_t e = 0; e < s->experts / s->ranks; e++)
                add_slot(s, r, s->n, (uint16_t)(r * (s->experts / s->ranks) + e), 1);
            continue;
        }
        const uint32_t *first = p->first_slot + (size_t)layer * (p->ranks + 1);
        for (uint32_t from = r * merged; from < (r + 1) * merged; from++) {
            const uint32_t own = s->n;
            for (uint32_t i = first[from]; i < first[from + 1]; i++)
                add_slot(s, r, own, p->expert[i], p->share[i]);
        }
    }
    s->first[s->ranks] = s->n;
    if (!index_copies(s, &missing))
        return orr_fail(err, ORR_INVALID, "%s: expert %u of layer %u has no slot", p->source,
                        missing, p->number != NULL ? p->number[layer] : layer);
    weigh_copies(s);
    return ORR_OK;
}

/* --- one expert's tokens of a rank ------------------------------------------------------------ */

typedef struct sending {
    const orr_layer_slots *slots;
    uint32_t expert, host; /* of the tokens */
    double weight;
    double *rows, *sent;
} sending;

static void send_to(const sending *to, uint32_t slot, double part)
{
    to->rows[slot] += to->weight * part;
    to->sent[to->slots->rank[slot]] += part;
}

/* To the copies of the host, by their room; evenly where none has any. */
static void send_within(const sending *to, const host_rest *rest, double part)
{
    const orr_layer_slots *s = to->slots;
    for (uint32_t c = s->begin[to->expert]; c < s->begin[to->expert + 1]; c++) {
        const uint32_t slot = s->copy[c];
        if (host_of(s, s->rank[slot]) == to->host)
            send_to(to, slot,
                    part * (rest->room > 0 ? room_of(s, slot) / rest->room : 1.0 / rest->n));
    }
}

/* Where no copy has room left, which takes rounding or shares of 0, to all by their shares. */
static void send_beyond(const sending *to, double part)
{
    const orr_layer_slots *s = to->slots;
    const uint32_t begin = s->begin[to->expert], end = s->begin[to->expert + 1];
    double room = 0, shares = 0;
    for (uint32_t c = begin; c < end; c++) {
        room += s->beyond[s->copy[c]];
        shares += s->share[s->copy[c]];
    }
    for (uint32_t c = begin; c < end; c++)
        send_to(to, s->copy[c],
                part * (room > 0     ? s->beyond[s->copy[c]] / room
                        : shares > 0 ? s->share[s->copy[c]] / shares
                                     : 1.0 / (end - begin)));
}

static void send_expert(const sending *to, uint32_t own, double share)
{
    const orr_layer_slots *s = to->slots;
    const double stays = share * kept(s, own);
    if (stays > 0)
        send_to(to, own, stays);
    double left = share - stays;
    if (!(left > 0))
        return;
    const host_rest rest = rest_of(s, to->expert, to->host);
    double near = rest.n > 0 ? 1 : 0;
    if (!s->nearest)
        near = rest.room > 0 ? (rest.rows > rest.room ? rest.room / rest.rows : 1) : 0;
    if (near > 0)
        send_within(to, &rest, near * left);
    left -= near * left;
    if (left > 0)
        send_beyond(to, left);
}

void orr_layer_slots_send(const orr_layer_slots *s, uint32_t rank, const double *share,
                          double weight, double *rows, double *ret_sent)
{
    sending to = {.slots = s, .host = host_of(s, rank), .weight = weight};
    to.rows = rows;
    to.sent = ret_sent;
    memset(ret_sent, 0, s->ranks * sizeof *ret_sent);
    for (uint32_t e = 0; e < s->experts; e++) {
        const bool alone = s->begin[e + 1] - s->begin[e] == 1;
        to.expert = e;
        if (alone)
            send_to(&to, s->copy[s->begin[e]], share[e]);
        else
            send_expert(&to, own_slot(s, rank, e), share[e]);
    }
}
