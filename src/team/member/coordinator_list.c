/* SPDX-License-Identifier: Apache-2.0 */
#include "team/member/coordinator_list.h"

#include <string.h>

orr_status orr_coordinator_list_read(const char *text, orr_coordinator_list *ret, orr_error *err)
{
    *ret = (orr_coordinator_list){.n = 0};
    if (text == NULL)
        return orr_fail(err, ORR_INVALID, "no address of a coordinator");
    for (const char *at = text;; at++) {
        const size_t n = strcspn(at, ",");
        if (n == 0 || n >= ORR_NET_ADDRESS_BYTES)
            return orr_fail(err, ORR_INVALID, "\"%.80s\" is no list of coordinators: HOST:PORT,...",
                            text);
        if (ret->n == ORR_COORDINATOR_LIST_MAX)
            return orr_fail(err, ORR_INVALID, "a team has %d coordinators at most",
                            ORR_COORDINATOR_LIST_MAX);
        memcpy(ret->addresses[ret->n], at, n);
        ret->addresses[ret->n++][n] = '\0';
        at += n;
        if (*at == '\0')
            return ORR_OK;
    }
}

const char *orr_coordinator_list_call(orr_coordinator_list *list)
{
    list->answered = false;
    return list->addresses[list->index];
}

void orr_coordinator_list_next(orr_coordinator_list *list)
{
    list->index = (list->index + 1) % list->n;
    list->answered = false;
}

void orr_coordinator_list_lost(orr_coordinator_list *list)
{
    if (!list->answered)
        orr_coordinator_list_next(list);
    list->answered = false;
}
