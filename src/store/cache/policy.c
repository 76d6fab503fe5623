/* SPDX-License-Identifier: Apache-2.0 */
#include "store/cache/policy.h"

#define TEXT_(name, text) text,
static const char *const POLICIES[] = {ORR_CACHE_POLICY_MAP(TEXT_)};
#undef TEXT_

const char *orr_cache_policy_name(orr_cache_policy policy)
{
    return POLICIES[policy];
}
