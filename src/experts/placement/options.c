/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <orrery/experts.h>

static const char *const policy_names[] = {
#define POLICY_NAME(name, text) text,
    ORR_EXPERT_POLICY_MAP(POLICY_NAME)
#undef POLICY_NAME
};

const char *orr_expert_policy_name(orr_expert_policy policy)
{
    return (unsigned)policy < ORR_EXPERT_POLICIES ? policy_names[policy] : "unknown";
}

bool orr_expert_policy_parse(const char *name, orr_expert_policy *ret)
{
    for (unsigned i = 0; i < ORR_EXPERT_POLICIES; i++)
        if (strcmp(name, policy_names[i]) == 0) {
            *ret = (orr_expert_policy)i;
            return true;
        }
    return false;
}

void orr_expert_options_init(orr_expert_options *options)
{
    *options =
        (orr_expert_options){.struct_bytes = sizeof *options, .policy = ORR_EXPERT_POLICY_BEST};
}
