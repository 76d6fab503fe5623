/* SPDX-License-Identifier: Apache-2.0 */
#include "team/store/store.h"

/* Built without libcurl. */
orr_status orr_team_store_etcd(const char *endpoints, const char *key, int64_t timeout_ns,
                               orr_team_store **ret, orr_error *err)
{
    (void)endpoints, (void)key, (void)timeout_ns, (void)ret;
    return orr_fail(err, ORR_UNSUPPORTED,
                    "a store in etcd needs libcurl, and this build has none: give a file");
}
