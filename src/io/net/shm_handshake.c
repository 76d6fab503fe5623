/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/net/shm.h"

/* How two processes come to share memory: a socket of the machine, over which it is handed. */

enum {
    HEAD = 64 << 10, /* of both ways' positions: a whole page, whatever pages measure */
    RING_DEFAULT = 4 << 20,
    RING_LEAST = 64 << 10,
    RING_MOST = 1 << 30,
    SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW
};

/* What the caller gets first, with the memory. */
typedef struct shm_greeting {
    char magic[8];
    uint64_t ring_bytes;
} shm_greeting;
static const char magic[8] = "orrshm1";

static size_t ring_bytes_of(const orr_net_system *net)
{
    const int64_t wanted = net->options.shm_bytes > 0 ? net->options.shm_bytes : RING_DEFAULT;
    size_t bytes = RING_LEAST;
    while ((int64_t)bytes < wanted && bytes < RING_MOST)
        bytes *= 2;
    return bytes;
}

/* Both rings, each twice in a row. `first`: whose first ring is its own to write. */
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

/* Somebody else of this machine may know the name. */
static bool is_same_user(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.uid == geteuid();
}

/* All of it is there from the start: memory that runs out later would end the process. */
static int make_memory(size_t bytes)
{
    const int memory = memfd_create("orrery", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0)
        return -1;
    if (fallocate(memory, 0, 0, (off_t)bytes) == 0 && fcntl(memory, F_ADD_SEALS, SEALS) == 0)
        return memory;
    close(memory);
    return -1;
}

static bool send_memory(int fd, int memory, size_t ring_bytes)
{
    shm_greeting greeting = {.ring_bytes = ring_bytes};
    memcpy(greeting.magic, magic, sizeof magic);
    struct iovec part = {&greeting, sizeof greeting};
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof memory)] = {0};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *with = CMSG_FIRSTHDR(&message);
    with->cmsg_level = SOL_SOCKET;
    with->cmsg_type = SCM_RIGHTS;
    with->cmsg_len = CMSG_LEN(sizeof memory);
    memcpy(CMSG_DATA(with), &memory, sizeof memory);
    return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof greeting;
}

bool orr_net_shm_accept(orr_net_system *net, orr_net_connection *link)
{
    const size_t ring_bytes = ring_bytes_of(net);
    if (!is_same_user(link->fd))
        return false;
    const int memory = make_memory(HEAD + 2 * ring_bytes);
    if (memory < 0)
        return false;
    const bool good =
        join(net, link, memory, ring_bytes, true) && send_memory(link->fd, memory, ring_bytes);
    close(memory);
    return good;
}

/* -1: none came. A peer that sends several is no friend; all are closed. */
static int received_memory(struct msghdr *message)
{
    int memory = -1;
    for (struct cmsghdr *with = CMSG_FIRSTHDR(message); with != NULL;
         with = CMSG_NXTHDR(message, with)) {
        if (with->cmsg_level != SOL_SOCKET || with->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; CMSG_LEN(at + sizeof memory) <= with->cmsg_len; at += sizeof memory) {
            if (memory >= 0)
                close(memory);
            memcpy(&memory, CMSG_DATA(with) + at, sizeof memory);
        }
    }
    return memory;
}

static bool is_memory_good(const shm_greeting *greeting, int memory)
{
    struct stat about;
    const uint64_t ring = greeting->ring_bytes;
    return memcmp(greeting->magic, magic, sizeof magic) == 0 && ring >= RING_LEAST &&
           ring <= RING_MOST && (ring & (ring - 1)) == 0 && fstat(memory, &about) == 0 &&
           (uint64_t)about.st_size == HEAD + 2 * ring &&
           (fcntl(memory, F_GET_SEALS) & SEALS) == SEALS;
}

void orr_net_shm_handshake(orr_net_system *net, orr_net_connection *link)
{
    shm_greeting greeting;
    struct iovec part = {&greeting, sizeof greeting};
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(4 * sizeof(int))];
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    const ssize_t n = recvmsg(link->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    const int memory = n < 0 ? -1 : received_memory(&message);
    orr_net_close_reason why = ORR_NET_REFUSED;
    bool good = false;
    if (n == (ssize_t)sizeof greeting && memory >= 0) {
        why = is_memory_good(&greeting, memory) ? ORR_NET_MEMORY : ORR_NET_CORRUPT;
        good = why == ORR_NET_MEMORY && join(net, link, memory, greeting.ring_bytes, false);
    }
    if (memory >= 0)
        close(memory);
    if (good)
        orr_net_connection_connected(net, link);
    else
        orr_net_connection_close(net, link, why);
}

static socklen_t socket_name(const char *name, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    const size_t n = strlen(name);
    memcpy(ret->sun_path + 1, name, n); /* abstract: no file is left behind, unix(7) */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

orr_status orr_net_shm_listen(orr_net_system *net, orr_net_address *address, int *ret_fd,
                              orr_error *err)
{
    struct sockaddr_un at;
    uint64_t random;
    (void)net;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return orr_fail(err, ORR_IO, "random bytes: %s", strerror(errno));
    snprintf(address->name, sizeof address->name, "orrery-%d-%016llx", (int)getpid(),
             (unsigned long long)random);
    const socklen_t n = socket_name(address->name, &at);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) != 0 || listen(fd, SOMAXCONN) != 0) {
        const int error = errno;
        if (fd >= 0)
            close(fd);
        return orr_fail(err, ORR_IO, "listening for shared memory: %s", strerror(error));
    }
    *ret_fd = fd;
    return ORR_OK;
}

orr_status orr_net_shm_connect(orr_net_system *net, const orr_net_callbacks *user,
                               const orr_net_address *address, orr_conn *ret, orr_error *err)
{
    struct sockaddr_un at;
    orr_net_connection *link;
    const socklen_t n = socket_name(address->name, &at);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return orr_fail(err, ORR_IO, "calling %s: %s", address->name, strerror(errno));
    const orr_status status = orr_net_connection_new(net, user, &orr_net_shm_ops, fd, &link, err);
    if (status != ORR_OK) {
        close(fd);
        return status;
    }
    link->calling = true;
    if (connect(fd, (struct sockaddr *)&at, n) != 0 || !is_same_user(fd) ||
        !orr_net_connection_watch(net, link, true, false))
        orr_net_connection_fail(net, link, ORR_NET_REFUSED);
    *ret = link->conn;
    return ORR_OK;
}
