/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_NET_TLS_H
#define ORR_IO_NET_TLS_H

#include <sys/types.h>
#include <sys/uio.h>

#include "io/net/net.h"

/* TLS 1.3 with a pre-shared key (RFC 8446, PSK with ephemeral Diffie-Hellman): both ends prove that
 * they have the key before a byte of a frame is read. By OpenSSL, which is opened by the first net
 * that has a key. */
typedef struct orr_net_tls orr_net_tls;                 /* of a net */
typedef struct orr_net_tls_session orr_net_tls_session; /* of a connection */

/* Errors: UNSUPPORTED: built without OpenSSL, or it is not on this machine; NO_MEMORY. */
orr_status orr_net_tls_new(const orr_net_key *key, orr_net_tls **ret,
                           orr_error *err) ORR_MUST_CHECK;
void orr_net_tls_free(orr_net_tls *tls); /* NULL is allowed */

/* On a connected socket, which stays its owner's. NULL: out of memory. */
orr_net_tls_session *orr_net_tls_begin(const orr_net_tls *tls, int fd, bool accepted);
void orr_net_tls_end(orr_net_tls_session *session); /* NULL is allowed */

typedef enum orr_net_tls_state {
    ORR_NET_TLS_PROVEN,
    ORR_NET_TLS_READING, /* waits until the socket is readable */
    ORR_NET_TLS_WRITING, /* likewise writable */
    ORR_NET_TLS_FAILED   /* the peer has not the key, or speaks something else */
} orr_net_tls_state;
orr_net_tls_state orr_net_tls_handshake(orr_net_tls_session *session);

/* As orr_socket_send() and orr_socket_receive(), of a session that is proven. */
ssize_t orr_net_tls_send(orr_net_tls_session *session, const struct iovec *parts, int n);
ssize_t orr_net_tls_receive(orr_net_tls_session *session, const struct iovec *parts, int n);
/* True: bytes have been received that the socket does not tell of any more. */
bool orr_net_tls_has_pending(const orr_net_tls_session *session);

#endif /* ORR_IO_NET_TLS_H */
