/* SPDX-License-Identifier: Apache-2.0 */
#include "io/socket/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT_MAX = 65535 };

bool orr_address_parse(const char *text, size_t n, orr_address *ret)
{
    const char *colon = memrchr(text, ':', n);
    if (colon == NULL)
        return false;
    *ret = (orr_address){0};
    const size_t port_n = n - (size_t)(colon + 1 - text);
    size_t host_n = (size_t)(colon - text);
    const bool bracketed = host_n >= 2 && text[0] == '[' && text[host_n - 1] == ']';
    if (!bracketed && memchr(text, ':', host_n) != NULL)
        return false;
    if (bracketed) {
        text++;
        host_n -= 2;
    }
    if (host_n >= sizeof ret->host || port_n == 0 || port_n >= sizeof ret->port)
        return false;
    memcpy(ret->host, text, host_n);
    memcpy(ret->port, colon + 1, port_n);
    return strspn(ret->port, "0123456789") == port_n && strtoul(ret->port, NULL, 10) <= PORT_MAX;
}

size_t orr_address_print(const orr_address *address, char *ret, size_t room)
{
    const bool v6 = strchr(address->host, ':') != NULL;
    const int n = snprintf(ret, room, v6 ? "[%s]:%s" : "%s:%s", address->host, address->port);
    return n > 0 && (size_t)n < room ? (size_t)n : 0;
}

orr_status orr_address_resolve(const orr_address *address, bool to_listen, struct addrinfo **ret,
                               orr_error *err)
{
    const char *host = address->host[0] == '\0' ? NULL : address->host;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags =
                                 AI_NUMERICHOST | AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0)};
    int error = getaddrinfo(host, address->port, &hints, ret);
    if (error == EAI_NONAME) {
        hints.ai_flags &= ~AI_NUMERICHOST;
        error = getaddrinfo(host, address->port, &hints, ret);
    }
    if (error == EAI_MEMORY)
        return orr_fail_memory(err);
    if (error != 0)
        return orr_fail(err, ORR_IO, "%s:%s: %s", address->host, address->port,
                        gai_strerror(error));
    return ORR_OK;
}

orr_status orr_address_resolve_text(const char *text, bool to_listen, struct addrinfo **ret,
                                    orr_error *err)
{
    orr_address address;
    if (!orr_address_parse(text, strlen(text), &address))
        return orr_fail(err, ORR_INVALID, "'%s' is no address: it reads host:port", text);
    return orr_address_resolve(&address, to_listen, ret, err);
}

/* The source address that the system's routes give a datagram socket: connecting one sends nothing
 * (connect(2)). */
static bool source_of(const struct addrinfo *to, char *ret, size_t room)
{
    struct sockaddr_storage from;
    socklen_t bytes = sizeof from;
    char host[NI_MAXHOST];
    const int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    const bool found = connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
                       getsockname(fd, (struct sockaddr *)&from, &bytes) == 0 &&
                       getnameinfo((struct sockaddr *)&from, bytes, host, sizeof host, NULL, 0,
                                   NI_NUMERICHOST) == 0;
    (void)close(fd);
    const bool v6 = found && strchr(host, ':') != NULL;
    return found && (size_t)snprintf(ret, room, v6 ? "[%s]" : "%s", host) < room;
}

orr_status orr_address_toward(const char *peer, char *ret, size_t room, orr_error *err)
{
    struct addrinfo *found;
    bool routed = false;
    ORR_TRY(orr_address_resolve_text(peer, false, &found, err));
    for (const struct addrinfo *at = found; at != NULL && !routed; at = at->ai_next)
        routed = source_of(at, ret, room);
    freeaddrinfo(found);
    return routed ? ORR_OK : orr_fail(err, ORR_IO, "no address of this machine reaches %s", peer);
}
