/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_NAIVE_EPLB_H
#define TESTS_NAIVE_EPLB_H

#include <stdint.h>
#include <stdlib.h>

/* DeepSeek's load balancer (github.com/deepseek-ai/EPLB) as loops: every step scans all that it
 * chooses from. One layer; ties go to the lowest index. */
enum { NAIVE_MOST = 4096 };

/* Packs n items, equally many in each of `packs`; ret_at: the place of each item, pack * (n /
 * packs)
 * + index in the pack. */
static inline void naive_pack(const float *weight, uint32_t n, uint32_t packs, uint32_t *ret_at)
{
    float load[NAIVE_MOST] = {0};
    uint32_t items[NAIVE_MOST] = {0}, order[NAIVE_MOST];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;
        for (; at > 0 && weight[order[at - 1]] < weight[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t p = 0; p < packs; p++)
            if (items[p] < n / packs && (best == UINT32_MAX || load[p] < load[best]))
                best = p;
        ret_at[order[i]] = n == packs ? order[i] : best * (n / packs) + items[best];
        items[best]++;
        load[best] += weight[order[i]];
    }
}

/* ret: shape (slots), the expert of each slot. Hosts 1, groups 1: all ranks are one host. */
static inline void naive_eplb(const double *load, uint32_t experts, uint32_t slots, uint32_t groups,
                              uint32_t hosts, uint32_t ranks, uint16_t *ret)
{
    const uint32_t size = experts / groups, here = experts / hosts, room = slots / hosts;
    float sum[NAIVE_MOST] = {0}, weight[NAIVE_MOST];
    uint32_t place[NAIVE_MOST], member[NAIVE_MOST];
    for (uint32_t e = 0; e < experts; e++)
        sum[e / size] += (float)load[e];
    naive_pack(sum, groups, hosts, place);
    for (uint32_t e = 0; e < experts; e++)
        member[place[e / size] * size + e % size] = e;
    for (uint32_t h = 0; h < hosts; h++) {
        const uint32_t *own = member + h * here;
        uint32_t copies[NAIVE_MOST], copy[NAIVE_MOST];
        for (uint32_t i = 0; i < room; i++) {
            uint32_t most = 0;
            for (uint32_t j = 0; i >= here && j < here; j++)
                if ((float)load[own[j]] / (float)copies[j] >
                    (float)load[own[most]] / (float)copies[most])
                    most = j;
            copy[i] = i < here ? i : most;
            copies[copy[i]] = i < here ? 1 : copies[most] + 1;
        }
        for (uint32_t i = 0; i < room; i++)
            weight[i] = (float)load[own[copy[i]]] / (float)copies[copy[i]];
        naive_pack(weight, room, ranks / hosts, place);
        for (uint32_t i = 0; i < room; i++)
            ret[h * room + place[i]] = (uint16_t)own[copy[i]];
    }
}

#endif /* TESTS_NAIVE_EPLB_H */
