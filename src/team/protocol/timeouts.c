/* SPDX-License-Identifier: Apache-2.0 */
#include "team/protocol/timeouts.h"

#define MS  INT64_C(1000000)
#define DAY (INT64_C(86400000) * MS)
/* Assumed: the first step reads data and warms caches, and has no predecessor to compare with. */
#define FIRST_STEP (INT64_C(300000) * MS)

orr_status orr_team_timeouts_of(int64_t failure_ns, orr_team_timeouts *ret, orr_error *err)
{
    const int64_t t = failure_ns == 0 ? 2000 * MS : failure_ns;
    if (t < 50 * MS || t > DAY)
        return orr_fail(err, ORR_INVALID,
                        "a failure timeout of %lld ms: at least 50 ms, at most a day",
                        (long long)(t / MS));
    *ret = (orr_team_timeouts){.failure_ns = t,
                               .heartbeat_ns = t / 10,
                               .silent_ns = t / 10 * 8,
                               .fenced_ns = t,
                               .grace_ns = t / 50,
                               .reconnect_ns = t / 40,
                               .fetch_ns = 5 * t,
                               .call_ns = t / 10 * 4};
    return ORR_OK;
}

int64_t orr_team_stall_timeout_ns(const orr_team_timeouts *times, int64_t step_ns)
{
    const int64_t most = step_ns > 0 ? 3 * step_ns : FIRST_STEP;
    return most > times->failure_ns ? most : times->failure_ns;
}
