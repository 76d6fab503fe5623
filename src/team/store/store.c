/* SPDX-License-Identifier: Apache-2.0 */
#include "team/store/store.h"

#include <string.h>

#include "base/alloc.h"

/* The slash that ends the last endpoint and begins the key; NULL: there is none. A key may have
 * slashes and commas of its own. */
static const char *slash_of(const char *at)
{
    for (;;) {
        const char *scheme = strstr(at, "://");
        const size_t n = strcspn(at, ",/");
        if (scheme != NULL && scheme < at + n)
            at = scheme + 3;
        at += strcspn(at, ",/");
        if (*at != ',')
            return *at == '/' ? at : NULL;
        at++;
    }
}

static orr_status open_etcd(const char *where, int64_t timeout_ns, orr_team_store **ret,
                            orr_error *err)
{
    const char *slash = slash_of(where);
    if (slash == NULL || slash[1] == '\0')
        return orr_fail(err, ORR_INVALID,
                        "'etcd:%s' names no key: it reads etcd:http://host:2379/key", where);
    const size_t n = (size_t)(slash - where);
    char *endpoints = orr_malloc(n + 1);
    if (endpoints == NULL)
        return orr_fail_memory(err);
    memcpy(endpoints, where, n);
    endpoints[n] = '\0';
    const orr_status status = orr_team_store_etcd(endpoints, slash + 1, timeout_ns, ret, err);
    orr_free(endpoints);
    return status;
}

orr_status orr_team_store_open(const char *where, int64_t timeout_ns, orr_team_store **ret,
                               orr_error *err)
{
    static const char ETCD[] = "etcd:";
    if (strncmp(where, ETCD, sizeof ETCD - 1) == 0)
        return open_etcd(where + sizeof ETCD - 1, timeout_ns, ret, err);
    if (where[0] == '\0')
        return orr_fail(err, ORR_INVALID,
                        "a coordinator's store is the path of a file, or etcd:...");
    return orr_team_store_log(where, ret, err);
}
