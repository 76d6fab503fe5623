/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/net/parts.h"

/* Parses ":machine:name", or nothing. */
static bool parse_shm(const char *text, orr_net_address *ret)
{
    ret->shm = true;
    if (*text == '\0')
        return true;
    char *end;
    if (*text != ':')
        return false;
    ret->machine = strtoull(text + 1, &end, 16);
    const size_t n = *end == ':' ? strlen(end + 1) : 0;
    if (n == 0 || n >= sizeof ret->name)
        return false;
    memcpy(ret->name, end + 1, n);
    return true;
}

orr_status orr_net_address_parse(const char *text, orr_net_address *ret, orr_error *err)
{
    orr_net_address address = {0};
    const char *bar = strchrnul(text, '|');
    const size_t n = (size_t)(bar - text);
    address.clear = strncmp(bar, "|clear", 6) == 0;
    bar += address.clear ? 6 : 0;
    if (!orr_address_parse(text, n, &address.tcp) ||
        (*bar != '\0' && (strncmp(bar, "|shm", 4) != 0 || !parse_shm(bar + 4, &address))))
        return orr_fail(err, ORR_INVALID,
                        "%s: an address is host:port, perhaps with |clear or |shm", text);
    *ret = address;
    return ORR_OK;
}

orr_status orr_net_address_print(const orr_net_address *address, char ret[ORR_NET_ADDRESS_BYTES],
                                 orr_error *err)
{
    size_t n = orr_address_print(&address->tcp, ret, ORR_NET_ADDRESS_BYTES);
    if (address->clear && n > 0)
        n += (size_t)snprintf(ret + n, ORR_NET_ADDRESS_BYTES - n, "|clear");
    if (address->shm && address->machine != 0 && n > 0)
        n += (size_t)snprintf(ret + n, ORR_NET_ADDRESS_BYTES - n, "|shm:%016" PRIx64 ":%s",
                              address->machine, address->name);
    if (n == 0 || n >= ORR_NET_ADDRESS_BYTES)
        return orr_fail(err, ORR_INVALID, "%s: the address is too long", address->tcp.host);
    return ORR_OK;
}
