/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPLAY_COUNTERS_H
#define ORR_REPLAY_COUNTERS_H

#include <stdint.h>

/* Hardware performance counters of this process and its threads, where the system permits
 * (perf_event_open). */
typedef enum orr_counter {
    ORR_COUNTER_CACHE_MISSES,
    ORR_COUNTER_INSTRUCTIONS,
    ORR_COUNTER_CYCLES,
    ORR_COUNTERS
} orr_counter;
typedef struct orr_counter_set {
    int fd[ORR_COUNTERS]; /* -1: not permitted */
} orr_counter_set;
/* Call it before the threads that are to be counted start. */
void orr_counters_open(orr_counter_set *set);
void orr_counters_start(const orr_counter_set *set);
/* Counts since the start; -1: not permitted. */
void orr_counters_stop(const orr_counter_set *set, int64_t ret[ORR_COUNTERS]);
void orr_counters_close(orr_counter_set *set);

#endif /* ORR_REPLAY_COUNTERS_H */
