/* SPDX-License-Identifier: Apache-2.0 */
#include "team/status/http.h"

/* Built without libmicrohttpd. */
static const char WHY[] = "showing a team over HTTP needs libmicrohttpd, and this build has none";

orr_status orr_endpoint_open(const char *where, orr_endpoint **ret, orr_error *err)
{
    (void)where, (void)ret;
    return orr_fail(err, ORR_UNSUPPORTED, "%s", WHY);
}

const char *orr_endpoint_address(const orr_endpoint *endpoint)
{
    (void)endpoint;
    return "";
}

orr_status orr_endpoint_publish(orr_endpoint *endpoint, const orr_team_status *status,
                                orr_error *err)
{
    (void)endpoint, (void)status;
    return orr_fail(err, ORR_UNSUPPORTED, "%s", WHY);
}

void orr_endpoint_close(orr_endpoint *endpoint)
{
    (void)endpoint;
}
