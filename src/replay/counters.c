/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/counters.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

void orr_counters_open(orr_counter_set *set)
{
    static const uint64_t events[ORR_COUNTERS] = {
        PERF_COUNT_HW_CACHE_MISSES, PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_CPU_CYCLES};
    for (int i = 0; i < ORR_COUNTERS; i++) {
        struct perf_event_attr attr;
        memset(&attr, 0, sizeof attr);
        attr.type = PERF_TYPE_HARDWARE;
        attr.size = sizeof attr;
        attr.config = events[i];
        attr.disabled = 1;
        attr.inherit = 1;
        attr.exclude_kernel = 1;
        set->fd[i] = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    }
}

void orr_counters_start(const orr_counter_set *set)
{
    for (int i = 0; i < ORR_COUNTERS; i++)
        if (set->fd[i] >= 0) {
            (void)ioctl(set->fd[i], PERF_EVENT_IOC_RESET, 0);
            (void)ioctl(set->fd[i], PERF_EVENT_IOC_ENABLE, 0);
        }
}

void orr_counters_stop(const orr_counter_set *set, int64_t ret[ORR_COUNTERS])
{
    for (int i = 0; i < ORR_COUNTERS; i++) {
        uint64_t value = 0;
        ret[i] = -1;
        if (set->fd[i] < 0)
            continue;
        (void)ioctl(set->fd[i], PERF_EVENT_IOC_DISABLE, 0);
        if (read(set->fd[i], &value, sizeof value) == (ssize_t)sizeof value)
            ret[i] = (int64_t)value;
    }
}

void orr_counters_close(orr_counter_set *set)
{
    for (int i = 0; i < ORR_COUNTERS; i++)
        if (set->fd[i] >= 0)
            (void)close(set->fd[i]);
}
