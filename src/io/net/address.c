/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "io/net/parts.h"

enum { MOST_PORT = 65535 };

static orr_status no_address(const char *text, orr_error *err)
{
    return orr_fail(err, ORR_INVALID, "%s: an address is host:port, perhaps with |shm", text);
}

/* The host perhaps in brackets: "[::1]:5000". */
static bool parse_host(const char *text, size_t n, orr_net_address *ret)
{
    const char *colon = memrchr(text, ':', n);
    if (colon == NULL)
        return false;
    const char *port = colon + 1;
    const size_t port_n = n - (size_t)(port - text);
    size_t host_n = (size_t)(colon - text);
    if (host_n >= 2 && text[0] == '[' && text[host_n - 1] == ']') {
        text++;
        host_n -= 2;
    }
    if (host_n >= sizeof ret->host || port_n == 0 || port_n >= sizeof ret->port)
        return false;
    memcpy(ret->host, text, host_n);
    memcpy(ret->port, port, port_n);
    return strspn(ret->port, "0123456789") == port_n && strtoul(ret->port, NULL, 10) <= MOST_PORT;
}

/* ":machine:name", or nothing. */
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
    const char *bar = strchr(text, '|');
    const size_t n = bar == NULL ? strlen(text) : (size_t)(bar - text);
    if (!parse_host(text, n, &address))
        return no_address(text, err);
    if (bar != NULL && (strncmp(bar, "|shm", 4) != 0 || !parse_shm(bar + 4, &address)))
        return no_address(text, err);
    *ret = address;
    return ORR_OK;
}

orr_status orr_net_address_print(const orr_net_address *address, char ret[ORR_NET_ADDRESS_BYTES],
                                 orr_error *err)
{
    char text[ORR_NET_ADDRESS_BYTES + 1];
    const bool v6 = strchr(address->host, ':') != NULL;
    int n = snprintf(text, sizeof text, v6 ? "[%s]:%s" : "%s:%s", address->host, address->port);
    if (address->shm && address->machine != 0 && n > 0 && n < ORR_NET_ADDRESS_BYTES)
        n += snprintf(text + n, sizeof text - (size_t)n, "|shm:%016" PRIx64 ":%s", address->machine,
                      address->name);
    if (n < 0 || n >= ORR_NET_ADDRESS_BYTES)
        return orr_fail(err, ORR_INVALID, "%s: the address is too long", address->host);
    memcpy(ret, text, (size_t)n + 1);
    return ORR_OK;
}

/* Sockets of shared memory are named in a network namespace, which containers of one machine do not
 * share. */
uint64_t orr_net_machine_id(void)
{
    char text[128];
    const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    const ssize_t n = read(file, text, sizeof text);
    close(file);
    struct stat space;
    if (n <= 0 || stat("/proc/self/ns/net", &space) != 0)
        return 0;
    const uint64_t seed = (uint64_t)space.st_ino ^ (uint64_t)space.st_dev << 32;
    const uint64_t hash = XXH3_64bits_withSeed(text, (size_t)n, seed);
    return hash == 0 ? 1 : hash;
}
