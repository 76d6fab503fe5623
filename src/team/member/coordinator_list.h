/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_MEMBER_COORDINATOR_LIST_H
#define ORR_TEAM_MEMBER_COORDINATOR_LIST_H

#include "io/net/net.h"

/* The coordinators of a team that a member or a proxy calls, one after another, until one answers
 * that leads. */
enum { ORR_COORDINATOR_LIST_MAX = 8 };
typedef struct orr_coordinator_list {
    uint32_t n, index; /* the one that is called now or next */
    bool answered;     /* it has, since it was called last */
    char addresses[ORR_COORDINATOR_LIST_MAX][ORR_NET_ADDRESS_BYTES];
} orr_coordinator_list;

/* "host:port", several with commas. INVALID: none, one that is empty or too long, or too many. */
orr_status orr_coordinator_list_read(const char *text, orr_coordinator_list *ret,
                                     orr_error *err) ORR_MUST_CHECK;
/* The address to call now. */
const char *orr_coordinator_list_call(orr_coordinator_list *list);
/* A call is over: the next is of the same coordinator if that `answered` and was only lost. */
void orr_coordinator_list_lost(orr_coordinator_list *list);
/* It is silent, or stands by: the next call is of the next, after the last of the first. */
void orr_coordinator_list_next(orr_coordinator_list *list);

#endif /* ORR_TEAM_MEMBER_COORDINATOR_LIST_H */
