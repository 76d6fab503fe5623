/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "team/protocol/message.h"

/* The data cursor: every slot below `next` is trained, but for those in the sorted list of returned
 * slots; so each slot of data is trained once, whoever dies. */

static uint32_t place_of(const orr_team_data_cursor *data, uint64_t slot)
{
    uint32_t i = 0;
    while (i < data->n && data->returned[i] < slot)
        i++;
    return i;
}

bool orr_team_data_cursor_is_open(const orr_team_data_cursor *data, uint64_t slot)
{
    const uint32_t i = place_of(data, slot);
    return slot >= data->next || (i < data->n && data->returned[i] == slot);
}

/* Moves `next` behind `slot`. The slots it passes join the returned ones: they had been given to
 * replicas that died before the step was committed. */
static bool give_out_up_to(orr_team_data_cursor *data, uint64_t slot)
{
    if (slot < data->next)
        return true;
    const uint64_t last = slot - data->next;
    if (last >= ORR_TEAM_MAX_RETURNED_SLOTS - data->n)
        return false;
    /* Counted, since a loop of `next <= slot` does not end for the largest slot: clang 14 takes it
     * that it does, and leaves out the caller's check for ORR_TEAM_NONE. */
    for (uint64_t i = 0; i <= last; i++)
        data->returned[data->n++] = data->next++;
    return true;
}

bool orr_team_data_cursor_consume(orr_team_data_cursor *data, const uint64_t *slots, uint32_t n)
{
    orr_team_data_cursor after = *data;
    for (uint32_t i = 0; i < n; i++) {
        if (slots[i] == ORR_TEAM_NONE || !orr_team_data_cursor_is_open(&after, slots[i]) ||
            !give_out_up_to(&after, slots[i]))
            return false;
        const uint32_t at = place_of(&after, slots[i]);
        memmove(&after.returned[at], &after.returned[at + 1],
                (--after.n - at) * sizeof *after.returned);
    }
    *data = after;
    return true;
}
