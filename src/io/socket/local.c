/* SPDX-License-Identifier: Apache-2.0 */
#include "io/socket/local.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <xxhash.h>

static socklen_t address_of(const char *name, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    const size_t n = strlen(name);
    memcpy(ret->sun_path + 1, name, n); /* a name that begins with a NUL is abstract */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

orr_status orr_local_listen(char ret_name[ORR_LOCAL_NAME_BYTES], int *ret_fd, orr_error *err)
{
    struct sockaddr_un at;
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return orr_fail(err, ORR_IO, "random bytes: %s", strerror(errno));
    snprintf(ret_name, ORR_LOCAL_NAME_BYTES, "orrery-%d-%016llx", (int)getpid(),
             (unsigned long long)random);
    const socklen_t n = address_of(ret_name, &at);
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

int orr_local_connect(const char *name)
{
    struct sockaddr_un to;
    const socklen_t n = address_of(name, &to);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, n) == 0)
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

bool orr_local_is_same_user(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.uid == geteuid();
}

uint64_t orr_local_machine_id(void)
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
