/* SPDX-License-Identifier: Apache-2.0 */
#include "io/http/listener.h"

/* Built without libmicrohttpd. */
orr_status orr_http_listener_open(const orr_http_listener_options *options, orr_http_listener **ret,
                                  orr_error *err)
{
    (void)ret;
    return orr_fail(err, ORR_UNSUPPORTED,
                    "%s over HTTP needs libmicrohttpd, and this build has none", options->what);
}

const char *orr_http_listener_address(const orr_http_listener *listener)
{
    (void)listener;
    return "";
}

void orr_http_listener_quiesce(orr_http_listener *listener)
{
    (void)listener;
}

void orr_http_listener_close(orr_http_listener *listener)
{
    (void)listener;
}

void orr_http_exchange_answer(orr_http_exchange *exchange, const orr_http_answer *answer)
{
    (void)exchange;
    (void)answer;
}
