/* SPDX-License-Identifier: Apache-2.0 */
#include "team/status/http.h"

/* Built without libmicrohttpd. */
static const char WHY[] = "showing a team over HTTP needs libmicrohttpd, and this build has none";

orr_status orr_http_server_open(const char *where, orr_http_server **ret, orr_error *err)
{
    (void)where, (void)ret;
    return orr_fail(err, ORR_UNSUPPORTED, "%s", WHY);
}

const char *orr_http_server_address(const orr_http_server *endpoint)
{
    (void)endpoint;
    return "";
}

orr_status orr_http_server_publish(orr_http_server *endpoint, const orr_team_status *status,
                                   orr_error *err)
{
    (void)endpoint, (void)status;
    return orr_fail(err, ORR_UNSUPPORTED, "%s", WHY);
}

void orr_http_server_close(orr_http_server *endpoint)
{
    (void)endpoint;
}
