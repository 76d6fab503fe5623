/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

static const int64_t second_ns = 1000000000;

static int64_t monotonic_now(void *ctx)
{
    (void)ctx;
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * second_ns + now.tv_nsec;
}

static void monotonic_sleep(void *ctx, int64_t ns)
{
    (void)ctx;
    if (ns < 0)
        return;
    const struct timespec until = {.tv_sec = (time_t)(ns / second_ns),
                                   .tv_nsec = (long)(ns % second_ns)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

const orr_clock orr_clock_monotonic = {.now_ns = monotonic_now, .sleep_until_ns = monotonic_sleep};

static int64_t manual_now(void *ctx)
{
    return *(const int64_t *)ctx;
}

static void manual_sleep(void *ctx, int64_t ns)
{
    int64_t *now = ctx;
    if (*now < ns)
        *now = ns;
}

orr_clock orr_clock_manual(int64_t *now_ns)
{
    return (orr_clock){.now_ns = manual_now, .sleep_until_ns = manual_sleep, .ctx = now_ns};
}
