/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include <orrery/team.h>

const char *orr_team_event_name(orr_team_event_kind kind)
{
    static const char *const names[] = {
#define NAME_(name, text) text,
        ORR_TEAM_EVENT_MAP(NAME_)
#undef NAME_
    };
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

double orr_team_rate_factor(orr_team_rate_policy policy, uint64_t contributors, uint64_t replicas)
{
    const double part = replicas > 0 ? (double)contributors / (double)replicas : 1;
    return policy == ORR_TEAM_RATE_NONE ? 1 : policy == ORR_TEAM_RATE_SQRT ? sqrt(part) : part;
}
