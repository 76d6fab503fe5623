/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_SOCKET_ADDRESS_H
#define ORR_IO_SOCKET_ADDRESS_H

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>

#include <orrery/status.h>

/* A TCP address as text: "host:port". The host may be empty (all addresses of this machine) or in
 * brackets, and must be in brackets when it has colons itself: "[::1]:5000". */
typedef struct orr_address {
    char host[256]; /* without brackets; RFC 1035 allows names of 253 characters */
    char port[8];   /* decimal, up to 65535 */
} orr_address;

/* Parses `n` bytes of text; false when they are not of that form. */
bool orr_address_parse(const char *text, size_t n, orr_address *ret);
/* The inverse; returns the length of the text, or 0 when it does not fit. */
size_t orr_address_print(const orr_address *address, char *ret, size_t room);
/* Looks the address up, for bind() or for connect(); the result is freed with freeaddrinfo().
 * Numeric hosts never wait for a resolver. Errors: IO: no such host; NO_MEMORY. */
orr_status orr_address_resolve(const orr_address *address, bool to_listen, struct addrinfo **ret,
                               orr_error *err) ORR_MUST_CHECK;
/* Both in one, from a string. Errors: INVALID, and those of orr_address_resolve(). */
orr_status orr_address_resolve_text(const char *text, bool to_listen, struct addrinfo **ret,
                                    orr_error *err) ORR_MUST_CHECK;

/* The numeric address of this machine from which packets to `peer` ("host:port") are sent, in
 * brackets where it has colons; nothing is sent to find it. Errors: INVALID, NO_MEMORY; IO: no such
 * host, or no route to it. */
orr_status orr_address_toward(const char *peer, char *ret, size_t room,
                              orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_IO_SOCKET_ADDRESS_H */
