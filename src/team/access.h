/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_ACCESS_H
#define ORR_TEAM_ACCESS_H

#include <orrery/team.h>

#include "io/net/net.h"

/* INVALID: other machines reach `where` ("host:port"), and nobody has to prove anything. */
orr_status orr_team_access_check(const orr_team_access *access, const char *where,
                                 orr_error *err) ORR_MUST_CHECK;
/* The options of a net that has the key. */
orr_net_system_options orr_team_access_net(const orr_team_access *access);
/* What stands behind an address for sums: "", or "|clear" where the key is asked for alone. */
const char *orr_team_access_mark(const orr_team_access *access);

#endif /* ORR_TEAM_ACCESS_H */
