/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_MEMBER_PROXY_H
#define ORR_TEAM_MEMBER_PROXY_H

#include "io/net/net.h"

/* The replica proxy: speaks to the coordinator for a replica of several ranks, whose ranks take it
 * for their coordinator (torchft's ManagerServer). The reports of all ranks are merged into one;
 * what the coordinator says goes to all of them, each with the addresses of its own ring. When a
 * rank or the coordinator is lost, it hangs up on everybody, and begins again when all ranks have
 * called. */
typedef struct orr_replica_proxy orr_replica_proxy;
typedef struct orr_replica_proxy_settings {
    const char *coordinator; /* "host:port", several with commas */
    const char *where;       /* its ranks call there */
    uint32_t ranks;
    int64_t failure_timeout_ns;
} orr_replica_proxy_settings;
orr_status orr_replica_proxy_new(orr_net *net, const orr_replica_proxy_settings *settings,
                                 orr_replica_proxy **ret, orr_error *err) ORR_MUST_CHECK;
void orr_replica_proxy_free(orr_replica_proxy *proxy); /* NULL is allowed */
const char *orr_replica_proxy_address(const orr_replica_proxy *proxy);

#endif /* ORR_TEAM_MEMBER_PROXY_H */
