/* SPDX-License-Identifier: Apache-2.0 */
#include "io/net/tls.h"

/* A build without OpenSSL: no net has a key, and so no connection a session. */

orr_status orr_net_tls_new(const orr_net_key *key, orr_net_tls **ret, orr_error *err)
{
    (void)key, (void)ret;
    return orr_fail(err, ORR_UNSUPPORTED,
                    "a key needs OpenSSL 3, which this build was made without");
}

void orr_net_tls_free(orr_net_tls *tls)
{
    (void)tls;
}

orr_net_tls_session *orr_net_tls_begin(const orr_net_tls *tls, int fd, bool accepted)
{
    (void)tls, (void)fd, (void)accepted;
    return NULL;
}

void orr_net_tls_end(orr_net_tls_session *session)
{
    (void)session;
}

orr_net_tls_state orr_net_tls_handshake(orr_net_tls_session *session)
{
    (void)session;
    return ORR_NET_TLS_FAILED;
}

ssize_t orr_net_tls_send(orr_net_tls_session *session, const struct iovec *parts, int n)
{
    (void)session, (void)parts, (void)n;
    return -1;
}

ssize_t orr_net_tls_receive(orr_net_tls_session *session, const struct iovec *parts, int n)
{
    (void)session, (void)parts, (void)n;
    return -1;
}

bool orr_net_tls_has_pending(const orr_net_tls_session *session)
{
    (void)session;
    return false;
}
