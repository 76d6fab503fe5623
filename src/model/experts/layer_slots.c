/* SPDX-License-Identifier: Apache-2.0 */
#include "model/experts/layer_slots.h"

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
                             .begin = orr_arena_array(arena, uint32_t, (size_t)experts + 1)};
    return ret->first == NULL || ret->expert == NULL || ret->share == NULL || ret->copy == NULL ||
                   ret->rank == NULL || ret->begin == NULL
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

orr_status orr_layer_slots_set(orr_layer_slots *s, const orr_expert_placement *p, uint32_t layer,
                               orr_error *err)
{
    const uint32_t merged = p != NULL ? p->ranks / s->ranks : 0;
    uint32_t missing;
    s->n = 0;
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
    return index_copies(s, &missing)
               ? ORR_OK
               : orr_fail(err, ORR_INVALID, "%s: expert %u of layer %u has no slot", p->source,
                          missing, p->number != NULL ? p->number[layer] : layer);
}

/* Copies of an expert that a rank sends to, all or those on its host, and the sum of their
 * shares. */
typedef struct reach {
    uint32_t host; /* UINT32_MAX: all */
    double sum;
    uint32_t n;
} reach;

static uint32_t host_of(const orr_layer_slots *s, uint32_t rank)
{
    return s->host_ranks > 0 ? rank / s->host_ranks : 0;
}

static reach reach_of(const orr_layer_slots *s, uint32_t expert, uint32_t host)
{
    reach ret = {.host = host};
    for (uint32_t c = s->begin[expert]; c < s->begin[expert + 1]; c++)
        if (host == UINT32_MAX || host_of(s, s->rank[s->copy[c]]) == host) {
            ret.sum += s->share[s->copy[c]];
            ret.n++;
        }
    return ret;
}

static uint32_t own_slot(const orr_layer_slots *s, uint32_t rank, uint32_t expert)
{
    uint32_t c = s->begin[expert];
    while (c < s->begin[expert + 1] && s->rank[s->copy[c]] != rank)
        c++;
    return c < s->begin[expert + 1] ? s->copy[c] : UINT32_MAX;
}

static void send_to_copies(const orr_layer_slots *s, uint32_t rank, uint32_t expert, double share,
                           double weight, double *rows, double *sent)
{
    reach to = reach_of(s, expert, host_of(s, rank));
    if (to.n == 0)
        to = reach_of(s, expert, UINT32_MAX);
    for (uint32_t c = s->begin[expert]; c < s->begin[expert + 1]; c++) {
        const uint32_t slot = s->copy[c];
        if (to.host != UINT32_MAX && host_of(s, s->rank[slot]) != to.host)
            continue;
        const double part = share * (to.sum > 0 ? s->share[slot] / to.sum : 1.0 / to.n);
        rows[slot] += weight * part;
        sent[s->rank[slot]] += part;
    }
}

void orr_layer_slots_send(const orr_layer_slots *s, uint32_t rank, const double *share,
                          double weight, double *rows, double *ret_sent)
{
    memset(ret_sent, 0, s->ranks * sizeof *ret_sent);
    for (uint32_t e = 0; e < s->experts; e++) {
        const uint32_t only = s->copy[s->begin[e]];
        const uint32_t slot = s->begin[e + 1] - s->begin[e] == 1 ? only : own_slot(s, rank, e);
        if (slot == UINT32_MAX) {
            send_to_copies(s, rank, e, share[e], weight, rows, ret_sent);
            continue;
        }
        rows[slot] += weight * share[e];
        ret_sent[s->rank[slot]] += share[e];
    }
}
