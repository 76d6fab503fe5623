/* SPDX-License-Identifier: Apache-2.0 */
/* DeepSeek's load balancer for experts. Its three greedy steps: whole groups of experts are packed
 * onto hosts, most loaded first; each further slot of a host copies the expert whose copies are
 * most loaded; the copies are packed onto the ranks of the host, most loaded first. Without groups
 * all ranks count as one host.
 *
 * Source: github.com/deepseek-ai/EPLB, eplb.py. Results are equal, ties go to the lowest index, and
 * arithmetic is in float as there. It may put two copies of an expert on one rank. Beyond it: ranks
 * may have different numbers of slots.
 *
 * Order of work, n slots of a layer on m ranks: O(n log m) and a radix sort, where the source scans
 * all experts for each copy and all ranks for each slot. */
#include "experts/policy/keys.h"
#include "experts/policy/policy.h"

/* A host: its ranks, its kept experts and its slots, as parts of the problem's arrays. */
typedef struct host {
    uint32_t first_rank, ranks;
    uint32_t first_expert, experts; /* of `member` */
    uint32_t first_copy, slots;
    bool single;        /* no rank has more than one */
    uint32_t heap_size; /* ranks that are not full */
} host;

typedef struct eplb {
    const orr_policy_problem *problem;
    bool grouped;
    uint32_t n_hosts, group_experts;
    host *hosts;
    float *weight;         /* shape (E) */
    uint16_t *member;      /* shape (E): kept experts, host by host */
    uint32_t *copies;      /* shape (E) */
    float *part, *share;   /* shape (E): load of a copy, 1 / copies */
    uint16_t *copy;        /* shape (slots): the expert of a copy, host by host */
    uint16_t *copy_host;   /* shape (slots) */
    uint64_t *key, *spare; /* shape (slots) or (E), whichever is more */
    uint64_t *lightest;    /* shape (R): for each host a min-heap of load and rank */
    float *rank_load;      /* shape (R) */
    uint32_t *rank_used;   /* shape (R) */
} eplb;

/* Packs the groups of a layer onto hosts, equally many on each, and lists the experts of each host
 * in the order in which its groups came. */
static void pack_groups(eplb *s)
{
    const uint32_t groups = s->problem->options->expert_groups, room = groups / s->n_hosts;
    uint64_t *load = s->lightest; /* of hosts: there are as many as ranks at most */
    for (uint32_t g = 0; g < groups; g++) {
        double sum = 0;
        for (uint32_t i = 0; i < s->group_experts; i++)
            sum += (double)s->weight[g * s->group_experts + i];
        s->key[g] = orr_key_descending((float)sum, g);
    }
    uint64_t *const sorted = room > 1 ? orr_key_sort(s->key, s->spare, groups) : s->key;
    for (uint32_t h = 0; h < s->n_hosts; h++) {
        load[h] = h;
        s->hosts[h].experts = 0;
    }
    uint32_t n = s->n_hosts;
    for (uint32_t i = 0; i < groups; i++) {
        const uint32_t g = (uint32_t)sorted[i];
        host *const h = &s->hosts[room > 1 ? (uint32_t)load[0] : g];
        for (uint32_t e = 0; e < s->group_experts; e++)
            s->member[h->first_expert + h->experts++] = (uint16_t)(g * s->group_experts + e);
        if (room == 1)
            continue;
        /* The sum of the groups on the host stands in the upper half of its key. */
        float sum, more;
        const uint32_t sum_bits = (uint32_t)(load[0] >> 32),
                       more_bits = ~(uint32_t)(sorted[i] >> 32);
        memcpy(&sum, &sum_bits, sizeof sum);
        memcpy(&more, &more_bits, sizeof more);
        load[0] = h->experts == room * s->group_experts
                      ? load[--n]
                      : orr_key_ascending(sum + more, (uint32_t)load[0]);
        orr_key_sift_down(load, n, 0);
    }
}

/* Gives each slot of a host an expert: first each its own, then a copy of the one whose copies have
 * most. Writes them to copy[at..). */
static void copy_experts(eplb *s, const host *h, uint32_t at)
{
    const uint16_t *member = s->member + h->first_expert;
    uint64_t *const heap = s->key; /* the least inverted load is the most load */
    for (uint32_t i = 0; i < h->experts; i++) {
        heap[i] = orr_key_descending(s->weight[member[i]], i);
        s->copies[member[i]] = 1;
        s->part[member[i]] = s->weight[member[i]];
        s->share[member[i]] = 1;
        s->copy[at + i] = member[i];
    }
    for (uint32_t i = h->slots > h->experts ? h->experts / 2 : 0; i-- > 0;)
        orr_key_sift_down(heap, h->experts, i);
    for (uint32_t i = h->experts; i < h->slots; i++) {
        const uint32_t m = (uint32_t)heap[0];
        const uint16_t e = member[m];
        s->copy[at + i] = e;
        const float copies = (float)++s->copies[e];
        s->part[e] = s->weight[e] / copies;
        s->share[e] = 1 / copies;
        heap[0] = orr_key_descending(s->part[e], m);
        orr_key_sift_down(heap, h->experts, 0);
    }
}

/* Packs the copies of a layer onto the ranks of their hosts; `expert` and `share` are the layer's
 * slots. */
static void pack_copies(eplb *s, const uint32_t *first_slot, uint16_t *expert, float *share)
{
    const orr_policy_problem *p = s->problem;
    for (uint32_t i = 0; i < p->slots; i++)
        s->key[i] = orr_key_descending(s->part[s->copy[i]], i);
    const uint64_t *sorted = orr_key_sort(s->key, s->spare, p->slots);
    for (uint32_t h = 0; h < s->n_hosts; h++) {
        host *const at = &s->hosts[h];
        at->heap_size = 0;
        for (uint32_t r = at->first_rank; r < at->first_rank + at->ranks; r++) {
            s->rank_load[r] = 0;
            s->rank_used[r] = 0;
            if (p->rank_slots[r] > 0)
                s->lightest[at->first_rank + at->heap_size++] = r;
        }
    }
    for (uint32_t i = 0; i < p->slots; i++) {
        const uint32_t c = (uint32_t)sorted[i], e = s->copy[c];
        host *const at = &s->hosts[s->copy_host[c]];
        uint64_t *const heap = s->lightest + at->first_rank;
        const uint32_t r = (uint32_t)heap[at->single ? c - at->first_copy : 0];
        const uint32_t slot = first_slot[r] - first_slot[0] + s->rank_used[r]++;
        expert[slot] = (uint16_t)e;
        share[slot] = s->share[e];
        if (at->single)
            continue; /* as the source: in the order of copies, whatever their loads */
        s->rank_load[r] += s->part[e];
        heap[0] = s->rank_used[r] == p->rank_slots[r] ? heap[--at->heap_size]
                                                      : orr_key_ascending(s->rank_load[r], r);
        orr_key_sift_down(heap, at->heap_size, 0);
    }
}

static void make_hosts(eplb *s)
{
    const orr_policy_problem *p = s->problem;
    uint32_t at = 0;
    for (uint32_t h = 0; h < s->n_hosts; h++) {
        const uint32_t first = s->grouped ? h * p->host_ranks : 0;
        const uint32_t left = p->ranks - first;
        s->hosts[h] = (host){
            .first_rank = first,
            .ranks = s->grouped && left > p->host_ranks ? p->host_ranks : left,
            .first_expert = h * (p->kept / s->n_hosts),
            .experts = p->kept / s->n_hosts,
            .first_copy = at,
            .single = true,
        };
        for (uint32_t r = first; r < first + s->hosts[h].ranks; r++) {
            s->hosts[h].slots += p->rank_slots[r];
            s->hosts[h].single &= p->rank_slots[r] <= 1;
        }
        for (uint32_t i = 0; i < s->hosts[h].slots; i++)
            s->copy_host[at++] = (uint16_t)h;
    }
}

static orr_status make_scratch(eplb *s, orr_arena *arena, orr_error *err)
{
    const orr_policy_problem *p = s->problem;
    const uint32_t n = p->slots > p->experts ? p->slots : p->experts;
    s->hosts = orr_arena_array(arena, host, s->n_hosts);
    s->weight = orr_arena_array(arena, float, p->experts);
    s->member = orr_arena_array(arena, uint16_t, p->experts);
    s->copies = orr_arena_array(arena, uint32_t, p->experts);
    s->part = orr_arena_array(arena, float, p->experts);
    s->share = orr_arena_array(arena, float, p->experts);
    s->copy = orr_arena_array(arena, uint16_t, p->slots);
    s->copy_host = orr_arena_array(arena, uint16_t, p->slots);
    s->key = orr_arena_array(arena, uint64_t, n);
    s->spare = orr_arena_array(arena, uint64_t, n);
    s->lightest = orr_arena_array(arena, uint64_t, p->ranks);
    s->rank_load = orr_arena_array(arena, float, p->ranks);
    s->rank_used = orr_arena_array(arena, uint32_t, p->ranks);
    if (s->hosts == NULL || s->weight == NULL || s->member == NULL || s->copies == NULL ||
        s->part == NULL || s->share == NULL || s->copy == NULL || s->copy_host == NULL ||
        s->key == NULL || s->spare == NULL || s->lightest == NULL || s->rank_load == NULL ||
        s->rank_used == NULL)
        return orr_fail_memory(err);
    return ORR_OK;
}

static void place_layer(eplb *s, uint32_t layer, const orr_placement_draft *draft)
{
    const orr_policy_problem *p = s->problem;
    const size_t row = (size_t)layer * p->experts, first = (size_t)layer * p->slots;
    /* Adding 0 makes a negative zero, whose bits would be the largest key, a positive one. */
    for (uint32_t e = 0; e < p->experts; e++)
        s->weight[e] = (float)p->load[row + e] + 0.0F;
    if (s->grouped)
        pack_groups(s);
    else
        for (uint32_t e = 0, n = 0; e < p->experts; e++)
            if (p->missing == NULL || !p->missing[row + e])
                s->member[n++] = (uint16_t)e;
    for (uint32_t h = 0, at = 0; h < s->n_hosts; at += s->hosts[h++].slots)
        copy_experts(s, &s->hosts[h], at);
    pack_copies(s, draft->placement.first_slot + (size_t)layer * (p->ranks + 1),
                draft->expert + first, draft->share + first);
}

orr_status orr_place_eplb(const orr_policy_problem *p, orr_arena *arena, orr_expert_result *ret,
                          orr_error *err)
{
    eplb s = {.problem = p, .grouped = p->grouped};
    orr_placement_draft draft;
    s.n_hosts = s.grouped ? p->hosts : 1;
    s.group_experts = s.grouped ? p->experts / p->options->expert_groups : 0;
    ORR_TRY(orr_policy_draft(p, NULL, arena, &draft, err));
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    const orr_status status = make_scratch(&s, arena, err);
    if (status == ORR_OK) {
        make_hosts(&s);
        for (uint32_t l = 0; l < p->layers; l++)
            place_layer(&s, l, &draft);
        ret->placement = draft.placement;
    }
    orr_arena_rewind(arena, mark);
    return status;
}
