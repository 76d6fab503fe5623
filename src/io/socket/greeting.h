/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_SOCKET_GREETING_H
#define ORR_IO_SOCKET_GREETING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first bytes on a connection: eight that name the protocol and its version, and a body of
 * fixed size that says who calls or what is offered. Over a local socket a file descriptor may come
 * with it (SCM_RIGHTS, unix(7)). */
enum { ORR_GREETING_MAGIC_BYTES = 8, ORR_GREETING_BODY_MAX = 16 };

/* Sent on a connection that nothing was sent on, whose buffer takes it whole. `descriptor`: -1:
 * none. False: the connection is over. */
bool orr_greeting_send(int fd, const char *magic, const void *body, size_t bytes, int descriptor);

typedef enum orr_greeting_result {
    ORR_GREETING_HERE,
    ORR_GREETING_LATER, /* nothing has come yet, and `until_ns` is over */
    ORR_GREETING_WRONG  /* another protocol, a piece only, or the peer's end */
} orr_greeting_result;
/* Waits until `until_ns` of the monotonic clock; 0: not at all. *ret_descriptor: what came with it,
 * whatever the result, for the caller to close; -1: none. */
orr_greeting_result orr_greeting_receive(int fd, const char *magic, void *body, size_t bytes,
                                         int64_t until_ns, int *ret_descriptor);

#endif /* ORR_IO_SOCKET_GREETING_H */
