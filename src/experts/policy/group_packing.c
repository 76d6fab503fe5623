/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/policy/group_packing.h"

enum { MOST_NODES = 20000 };
#define TOLERANCE 1e-9

static double most_of(const orr_group_packing *p)
{
    double most = 0;
    for (uint32_t h = 0; h < p->hosts; h++)
        most = p->sum[h] / p->live[h] > most ? p->sum[h] / p->live[h] : most;
    return most;
}

static void clear(orr_group_packing *p)
{
    for (uint32_t h = 0; h < p->hosts; h++) {
        p->sum[h] = 0;
        p->count[h] = 0;
    }
}

/* Groups by descending load, ties by number: there are few. */
static void sort_groups(orr_group_packing *p)
{
    for (uint32_t g = 0; g < p->groups; g++) {
        uint32_t at = g;
        for (; at > 0 && p->load[p->order[at - 1]] < p->load[g]; at--)
            p->order[at] = p->order[at - 1];
        p->order[at] = g;
    }
}

/* The most loaded first, each to the least loaded host that has room. */
static double pack_greedily(orr_group_packing *p)
{
    const uint32_t room = p->groups / p->hosts;
    clear(p);
    for (uint32_t i = 0; i < p->groups; i++) {
        const uint32_t g = p->order[i];
        uint32_t best = UINT32_MAX;
        for (uint32_t h = 0; h < p->hosts; h++)
            if (p->count[h] < room &&
                (best == UINT32_MAX || p->sum[h] * p->live[best] < p->sum[best] * p->live[h]))
                best = h;
        p->host[g] = best;
        p->sum[best] += p->load[g];
        p->count[best]++;
    }
    return most_of(p);
}

/* The next host, from `h` on, that takes a group and stays below `limit`; hosts that are as those
 * before them are left out. */
static uint32_t next_host(const orr_group_packing *p, uint32_t h, double load, double limit)
{
    for (; h < p->hosts; h++) {
        bool again = p->count[h] == p->groups / p->hosts || p->sum[h] + load >= limit * p->live[h];
        for (uint32_t other = 0; other < h && !again; other++)
            again = p->sum[other] == p->sum[h] && p->count[other] == p->count[h] &&
                    p->live[other] == p->live[h];
        if (!again)
            return h;
    }
    return UINT32_MAX;
}

/* Depth first; every leaf that is reached is better than the best so far. True: all was seen, or
 * nothing can be better than `least`. */
static bool branch(orr_group_packing *p, double least, double *best)
{
    uint32_t depth = 0;
    clear(p);
    p->trial[0] = UINT32_MAX;
    for (uint32_t nodes = 0; nodes < MOST_NODES; nodes++) {
        const uint32_t g = p->order[depth], was = p->trial[depth];
        if (*best <= least * (1 + TOLERANCE))
            return true;
        if (was != UINT32_MAX) {
            p->sum[was] -= p->load[g];
            p->count[was]--;
        }
        const uint32_t h = next_host(p, was + 1, p->load[g], *best * (1 - TOLERANCE));
        p->trial[depth] = h;
        if (h == UINT32_MAX) {
            if (depth-- == 0)
                return true;
            continue;
        }
        p->sum[h] += p->load[g];
        p->count[h]++;
        if (depth + 1 < p->groups) {
            p->trial[++depth] = UINT32_MAX;
            continue;
        }
        *best = most_of(p);
        for (uint32_t i = 0; i < p->groups; i++)
            p->host[p->order[i]] = p->trial[i];
    }
    return false;
}

/* Exchanges a group of the fullest host for one of another as long as the fuller of both gets
 * emptier. */
static void exchange(orr_group_packing *p, double *best)
{
    clear(p);
    for (uint32_t g = 0; g < p->groups; g++)
        p->sum[p->host[g]] += p->load[g];
    for (bool better = true; better;) {
        better = false;
        for (uint32_t a = 0; a < p->groups; a++)
            for (uint32_t b = 0; b < p->groups; b++) {
                const uint32_t x = p->host[a], y = p->host[b];
                const double moved = p->load[a] - p->load[b];
                if (x == y || p->sum[x] < *best * p->live[x] * (1 - TOLERANCE) || moved <= 0 ||
                    p->sum[y] + moved >= *best * p->live[y] * (1 - TOLERANCE))
                    continue;
                p->sum[x] -= moved;
                p->sum[y] += moved;
                p->host[a] = y;
                p->host[b] = x;
                better = true;
            }
        *best = most_of(p);
    }
}

bool orr_groups_pack(orr_group_packing *p, double *ret_most)
{
    double sum = 0, live = 0;
    sort_groups(p);
    for (uint32_t g = 0; g < p->groups; g++)
        sum += p->load[g];
    for (uint32_t h = 0; h < p->hosts; h++)
        live += p->live[h];
    double best = pack_greedily(p);
    const bool proven = branch(p, sum / live, &best);
    if (!proven)
        exchange(p, &best);
    *ret_most = best;
    return proven;
}
