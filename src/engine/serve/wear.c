/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/serve/wear.h"

#define DAY_NS 86400e9

orr_wear orr_wear_from(int64_t now_ns, uint64_t bytes)
{
    return (orr_wear){now_ns, now_ns, bytes, bytes};
}

double orr_wear_bytes_per_day(orr_wear *w, int64_t now_ns, uint64_t bytes)
{
    if (now_ns - w->next_ns >= ORR_WEAR_RANGE_NS) {
        w->since_ns = w->next_ns;
        w->since_bytes = w->next_bytes;
        w->next_ns = now_ns;
        w->next_bytes = bytes;
    }
    const int64_t ns = now_ns - w->since_ns;
    return ns > 0 ? (double)(bytes - w->since_bytes) / (double)ns * DAY_NS : 0;
}
