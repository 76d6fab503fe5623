/* SPDX-License-Identifier: Apache-2.0 */
#include "io/socket/greeting.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "io/socket/tcp.h"

enum { MAGIC = ORR_GREETING_MAGIC_BYTES, DESCRIPTORS = 4 };

bool orr_greeting_send(int fd, const char *magic, const void *body, size_t bytes, int descriptor)
{
    struct iovec parts[2] = {{(void *)magic, MAGIC}, {(void *)body, bytes}};
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof descriptor)] = {0};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (descriptor >= 0) {
        message.msg_control = room;
        message.msg_controllen = sizeof room;
        struct cmsghdr *with = CMSG_FIRSTHDR(&message);
        with->cmsg_level = SOL_SOCKET;
        with->cmsg_type = SCM_RIGHTS;
        with->cmsg_len = CMSG_LEN(sizeof descriptor);
        memcpy(CMSG_DATA(with), &descriptor, sizeof descriptor);
    }
    return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)(MAGIC + bytes);
}

/* Keeps the last descriptor that came: a peer that sends several is not one of ours. */
static void take_descriptors(struct msghdr *message, int *descriptor)
{
    for (struct cmsghdr *with = CMSG_FIRSTHDR(message); with != NULL;
         with = CMSG_NXTHDR(message, with)) {
        if (with->cmsg_level != SOL_SOCKET || with->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= with->cmsg_len; at += sizeof(int)) {
            if (*descriptor >= 0)
                close(*descriptor);
            memcpy(descriptor, CMSG_DATA(with) + at, sizeof *descriptor);
        }
    }
}

orr_greeting_result orr_greeting_receive(int fd, const char *magic, void *body, size_t bytes,
                                         int64_t until_ns, int *ret_descriptor)
{
    char text[MAGIC + ORR_GREETING_BODY_MAX];
    const size_t whole = MAGIC + bytes;
    size_t n = 0;
    *ret_descriptor = -1;
    do {
        _Alignas(struct cmsghdr) char room[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
        struct iovec part = {text + n, whole - n};
        struct msghdr message = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
        const ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return ORR_GREETING_WRONG;
        if (got > 0) {
            n += (size_t)got;
            take_descriptors(&message, ret_descriptor);
        }
    } while (n < whole && until_ns > 0 && orr_socket_wait(fd, POLLIN, until_ns));
    if (n == 0)
        return ORR_GREETING_LATER;
    if (n < whole || memcmp(text, magic, MAGIC) != 0)
        return ORR_GREETING_WRONG;
    memcpy(body, text + MAGIC, bytes);
    return ORR_GREETING_HERE;
}
