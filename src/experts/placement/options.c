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

static const char *const format_names[] = {
#define FORMAT_NAME(name, text) text,
    ORR_PLACEMENT_FORMAT_MAP(FORMAT_NAME)
#undef FORMAT_NAME
};

const char *orr_placement_format_name(orr_placement_format format)
{
    return (unsigned)format < ORR_PLACEMENT_FORMATS ? format_names[format] : "unknown";
}

bool orr_placement_format_parse(const char *name, orr_placement_format *ret)
{
    for (unsigned i = 0; i < ORR_PLACEMENT_FORMATS; i++)
        if (strcmp(name, format_names[i]) == 0) {
            *ret = (orr_placement_format)i;
            return true;
        }
    return false;
}

void orr_expert_options_init(orr_expert_options *options)
{
    *options =
        (orr_expert_options){.struct_bytes = sizeof *options, .policy = ORR_EXPERT_POLICY_BEST};
}
