/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/net/shm.h"
#include "io/socket/greeting.h"

/* The handshake of two processes that will share memory: the listener makes a sealed segment and
 * hands it to its caller over a local socket, with the greeting. */

enum {
    HEAD = 64 << 10, /* of both rings' positions: whole pages, of any page size */
    RING_DEFAULT = 4 << 20,
    RING_LEAST = 64 << 10,
    RING_MOST = 1 << 30
};

/* The greeting with which the listener hands over the memory; its body is the size of a ring. */
static const char magic[ORR_GREETING_MAGIC_BYTES] = "orrshm1";

static size_t ring_bytes_of(const orr_net_system *net)
{
    const int64_t wanted = net->options.shm_bytes > 0 ? net->options.shm_bytes : RING_DEFAULT;
    size_t bytes = RING_LEAST;
    while ((int64_t)bytes < wanted && bytes < RING_MOST)
        bytes *= 2;
    return bytes;
}

/* Maps the positions, and each ring twice in a row. `first`: this side writes the first ring. */
static bool map_rings(orr_net_shm *shm, int memory, size_t ring_bytes, bool first)
{
    const size_t map_bytes = HEAD + 4 * ring_bytes;
    const int both = PROT_READ | PROT_WRITE;
    uint8_t *map =
        mmap(NULL, map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return false;
    shm->map = map;
    shm->map_bytes = map_bytes;
    shm->ring_bytes = ring_bytes;
    if (mmap(map, HEAD, both, MAP_SHARED | MAP_FIXED, memory, 0) == MAP_FAILED)
        return false;
    for (size_t i = 0; i < 4; i++)
        if (mmap(map + HEAD + i * ring_bytes, ring_bytes, both, MAP_SHARED | MAP_FIXED, memory,
                 (off_t)(HEAD + i / 2 * ring_bytes)) == MAP_FAILED)
            return false;
    orr_shm_ring_positions *ways = (orr_shm_ring_positions *)map;
    uint8_t *rings[2] = {map + HEAD, map + HEAD + 2 * ring_bytes};
    shm->out = &ways[first ? 0 : 1];
    shm->in = &ways[first ? 1 : 0];
    shm->out_bytes = rings[first ? 0 : 1];
    shm->in_bytes = rings[first ? 1 : 0];
    return true;
}

void orr_net_shm_done(orr_net_connection *link)
{
    orr_net_shm *shm = link->shm;
    link->shm = NULL;
    if (shm == NULL)
        return;
    if (shm->map != NULL)
        munmap(shm->map, shm->map_bytes);
    orr_free(shm);
}

static bool join(orr_net_system *net, orr_net_connection *link, int memory, size_t ring_bytes,
                 bool first)
{
    if (!orr_array_reserve(&net->shms, 1) ||
        (link->shm = orr_calloc(1, sizeof *link->shm)) == NULL ||
        !map_rings(link->shm, memory, ring_bytes, first))
        return false;
    net->shms.at[net->shms.n++] = link;
    return true;
}

bool orr_net_shm_accept(orr_net_system *net, orr_net_connection *link)
{
    const size_t ring_bytes = ring_bytes_of(net);
    if (!orr_local_is_same_user(link->fd))
        return false;
    const int memory = orr_segment_new_sealed(HEAD + 2 * ring_bytes);
    if (memory < 0)
        return false;
    const bool good =
        join(net, link, memory, ring_bytes, true) &&
        orr_greeting_send(link->fd, magic, &(uint64_t){ring_bytes}, sizeof(uint64_t), memory);
    close(memory);
    return good;
}

static bool is_ring_size(uint64_t bytes)
{
    return bytes >= RING_LEAST && bytes <= RING_MOST && (bytes & (bytes - 1)) == 0;
}

void orr_net_shm_handshake(orr_net_system *net, orr_net_connection *link)
{
    uint64_t ring_bytes;
    int memory;
    const orr_greeting_result came =
        orr_greeting_receive(link->fd, magic, &ring_bytes, sizeof ring_bytes, 0, &memory);
    if (came == ORR_GREETING_LATER)
        return;
    orr_net_close_reason why = ORR_NET_REFUSED;
    bool good = false;
    if (came == ORR_GREETING_HERE && memory >= 0) {
        good = is_ring_size(ring_bytes) && orr_segment_is_sealed(memory, HEAD + 2 * ring_bytes);
        why = good ? ORR_NET_MEMORY : ORR_NET_CORRUPT;
        good = good && join(net, link, memory, ring_bytes, false);
    }
    if (memory >= 0)
        close(memory);
    if (good)
        orr_net_connection_connected(net, link);
    else
        orr_net_connection_close(net, link, why);
}

orr_status orr_net_shm_connect(orr_net_system *net, const orr_net_callbacks *user,
                               const orr_net_address *address, orr_conn *ret, orr_error *err)
{
    orr_net_connection *link;
    const int fd = orr_local_connect(address->name);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS))
        return orr_fail(err, ORR_IO, "calling %s: %s", address->name, strerror(errno));
    const orr_status status = orr_net_connection_new(net, user, &orr_net_shm_ops, fd, &link, err);
    if (status != ORR_OK) {
        if (fd >= 0)
            close(fd);
        return status;
    }
    link->calling = true;
    if (fd < 0 || !orr_local_is_same_user(fd) || !orr_net_connection_watch(net, link, true, false))
        orr_net_connection_fail(net, link, ORR_NET_REFUSED);
    *ret = link->conn;
    return ORR_OK;
}
