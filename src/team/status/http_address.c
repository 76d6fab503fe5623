/* SPDX-License-Identifier: Apache-2.0 */
#include "team/status/http_address.h"

#include <string.h>
#include <sys/socket.h>

orr_status orr_http_resolve(const char *address, bool to_listen, struct addrinfo **ret,
                            orr_error *err)
{
    const char *colon = strrchr(address, ':');
    const char *begin = address, *end = colon;
    if (colon != NULL && *begin == '[' && end - begin >= 2 && end[-1] == ']') {
        begin++;
        end--;
    }
    char host[256];
    const size_t n = colon != NULL ? (size_t)(end - begin) : sizeof host;
    if (n >= sizeof host || colon[1] == '\0' || (begin == address && memchr(begin, ':', n) != NULL))
        return orr_fail(err, ORR_INVALID, "'%s' is no address: it reads host:port", address);
    memcpy(host, begin, n);
    host[n] = '\0';
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0)};
    const int code = getaddrinfo(n > 0 ? host : NULL, colon + 1, &hints, ret);
    if (code == EAI_MEMORY)
        return orr_fail_memory(err);
    if (code == EAI_NONAME && strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return orr_fail(err, ORR_INVALID, "'%s' is no address: it reads host:port", address);
    if (code != 0)
        return orr_fail(err, ORR_IO, "the address %s cannot be found: %s", address,
                        gai_strerror(code));
    return ORR_OK;
}
