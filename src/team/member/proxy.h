/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_HUB_H
#define ORR_TEAM_HUB_H

#include "io/net/net.h"

/* Speaks to the coordinator for a replica of several ranks: what all ranks say becomes what the replica says, and
 * what the coordinator says goes to all of them, each with the addresses of its own ring. Its ranks are members
 * who take it for their coordinator. When a rank is gone, or the coordinator is, it hangs up on everybody, and begins
 * again when all ranks have called. */
typedef struct orr_hub orr_hub;
typedef struct orr_hub_settings {
    const char *coordinator; /* "host:port"          */
    const char *where;       /* its ranks call there */
    uint32_t    ranks;
    int64_t     failure_timeout_ns;
} orr_hub_settings;
orr_status orr_hub_new(orr_net *net, const orr_hub_settings *settings, orr_hub **ret,
                       orr_error *err) ORR_MUST_CHECK;
void        orr_hub_free(orr_hub *hub); /* NULL is allowed */
const char *orr_hub_address(const orr_hub *hub);

#endif /* ORR_TEAM_HUB_H */
