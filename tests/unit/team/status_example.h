/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_STATUS_EXAMPLE_H
#define ORR_TESTS_STATUS_EXAMPLE_H

#include "team/status/status.h"

/* A team of three in the middle of a recovery. */
static inline orr_team_status status_example(void)
{
    return (orr_team_status){
        .state = ORR_STATE_RUNNING,
        .epoch = 12,
        .step = 3456,
        .contributors = 2,
        .replicas = 4,
        .epochs = 5,
        .commits = 3400,
        .retries = 3,
        .lost = {[ORR_LOST_DEATH] = 2, [ORR_LOST_SILENCE] = 1},
        .recoveries = 3,
        .recovery_last_ns = 41 * 1000 * 1000,
        .recovery_max_ns = INT64_C(2100000001),
        .recovery_sum_ns = INT64_C(2200000000),
        .step_ns = 250 * 1000 * 1000,
        .n = 3,
        .members = {{.id = {"a", 7},
                     .state = ORR_MEMBER_CONTRIBUTOR,
                     .ranks = 2,
                     .step = 3456,
                     .heard_ns = 12345678,
                     .posted = 9,
                     .reduced = 8,
                     .faults = 1},
                    {.id = {"b\\\"x\n", UINT64_MAX},
                     .state = ORR_MEMBER_CONTRIBUTOR,
                     .ranks = 2,
                     .step = 3456,
                     .heard_ns = 99,
                     .posted = 9,
                     .reduced = 9},
                    {.id = {"a", 8},
                     .state = ORR_MEMBER_HEALING,
                     .ranks = 2,
                     .step = ORR_TEAM_NONE,
                     .heard_ns = 0}},
    };
}

#endif /* ORR_TESTS_STATUS_EXAMPLE_H */
