/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_STATUS_HTTP_ADDRESS_H
#define ORR_TEAM_STATUS_HTTP_ADDRESS_H

#include <netdb.h>
#include <stdbool.h>

#include <orrery/status.h>

/* "host:port", the host perhaps in brackets or left out, as addresses of the system: to be freed
 * with freeaddrinfo(). Errors: INVALID: it does not read so; IO: there is no such host. */
orr_status orr_http_resolve(const char *address, bool to_listen, struct addrinfo **ret,
                            orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TEAM_STATUS_HTTP_ADDRESS_H */
