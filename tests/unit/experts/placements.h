/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_EXPERTS_PLACEMENTS_H
#define TESTS_UNIT_EXPERTS_PLACEMENTS_H

#include <string.h>

#include "experts/placement/build.h"

/* A placement of one line a layer: ranks split by '|', the experts of a rank by ' '. Shares are
 * even; layers have the numbers 1, 3, 5, .. */
static orr_placement_draft placement_of(const char *const *lines, uint32_t layers, uint32_t experts,
                                        uint32_t ranks, uint32_t host_ranks, orr_arena *arena)
{
    enum { LAYERS = 16, RANKS = 16, SLOTS = 256 };
    uint32_t number[LAYERS], slots[LAYERS * RANKS] = {0}, n = 0;
    uint16_t expert[SLOTS];
    orr_placement_draft draft;
    orr_error err = {0};
    for (uint32_t l = 0; l < layers; l++) {
        uint32_t rank = 0;
        number[l] = 2 * l + 1;
        for (const char *at = lines[l]; *at != '\0'; at++)
            if (*at == '|') {
                rank++;
            } else if (*at >= '0' && *at <= '9') {
                expert[n++] = (uint16_t)strtoul(at, (char **)&at, 10);
                slots[l * ranks + rank]++;
                at--;
            }
    }
    const orr_expert_placement like = {.layers = layers,
                                       .experts = experts,
                                       .ranks = ranks,
                                       .host_ranks = host_ranks,
                                       .number = number};
    assert_int_equal(orr_placement_draft_new(&like, slots, true, arena, &draft, &err), ORR_OK);
    memcpy(draft.expert, expert, n * sizeof *expert);
    orr_placement_even_shares(&draft);
    return draft;
}

#endif /* TESTS_UNIT_EXPERTS_PLACEMENTS_H */
