/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_SOCKET_TCP_H
#define ORR_IO_SOCKET_TCP_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "io/socket/address.h"

/* TCP sockets. All of them are non-blocking, close on exec, send at once (no Nagle), and keep the
 * connection alive, so that the loss of a peer's machine is noticed though nothing is sent.
 * `buffer_bytes` is the size of a socket's buffers, or 0 to let the system tune them. */

/* A listening socket. `address` becomes what others connect to: the port that bind() chose if it
 * was 0, and the name of this machine if it was all addresses. Errors: IO. */
orr_status orr_tcp_listen(orr_address *address, int64_t buffer_bytes, int *ret_fd,
                          orr_error *err) ORR_MUST_CHECK;
/* Begins a connection: its socket, or -1 and errno. When the socket is writable, orr_tcp_error()
 * says how the attempt ended: 0, or an errno. A connection to itself, which TCP makes when a port
 * of this machine is called from that very port (simultaneous open), counts as refused. */
int orr_tcp_connect_begin(const struct sockaddr *to, socklen_t bytes, int64_t buffer_bytes);
int orr_tcp_connect_error(int fd);
/* Tries one address after the other and waits, until `until_ns` of the monotonic clock. -1: errno
 * is that of the last one. */
int orr_tcp_connect(const struct addrinfo *addresses, int64_t until_ns);
void orr_tcp_tune(int fd, int64_t buffer_bytes);

/* Moves what can be moved without waiting. Returns the bytes; 0: none now; -1: the connection is
 * over, and errno says why, 0 for the peer's orderly end. */
ssize_t orr_socket_send(int fd, struct iovec *parts, int n);
ssize_t orr_socket_receive(int fd, struct iovec *parts, int n);
/* Waits for `events` of poll(). False: errno says why, ETIMEDOUT at `until_ns`. */
bool orr_socket_wait(int fd, short events, int64_t until_ns);

#endif /* ORR_IO_SOCKET_TCP_H */
