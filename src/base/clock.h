/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_BASE_CLOCK_H
#define ORR_BASE_CLOCK_H

#include <stdint.h>

/* Time as a thing that is handed in, so that a test or a simulation can hand in its own. */
typedef struct orr_clock {
    int64_t (*now_ns)(void *ctx);                  /* never goes back */
    void (*sleep_until_ns)(void *ctx, int64_t ns); /* returns at ns or later */
    void *ctx;
} orr_clock;

static inline int64_t orr_clock_now_ns(const orr_clock *clock)
{
    return clock->now_ns(clock->ctx);
}

static inline void orr_clock_sleep_until_ns(const orr_clock *clock, int64_t ns)
{
    clock->sleep_until_ns(clock->ctx, ns);
}

/* CLOCK_MONOTONIC. Threads: any. */
extern const orr_clock orr_clock_monotonic;

/* A clock that stands until it is moved: sleeping moves it. Threads: one. */
orr_clock orr_clock_manual(int64_t *now_ns);

#endif /* ORR_BASE_CLOCK_H */
