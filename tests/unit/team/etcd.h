/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_ETCD_H
#define ORR_TESTS_ETCD_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A real etcd of one member, on ports that are free, its data in a folder of the test's. */
typedef struct etcd_process {
    char folder[4096];
    int port, peer_port;
    pid_t pid; /* 0: does not run */
} etcd_process;

static inline bool etcd_is_installed(void)
{
    return system("command -v etcd >/dev/null 2>&1") == 0;
}

/* A socket bound to 127.0.0.1, and the port that it got. */
static inline int bound_socket(int *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &n) != 0)
        abort();
    *ret_port = ntohs(at.sin_port);
    return fd;
}

static inline int free_port(void)
{
    int port;
    (void)close(bound_socket(&port));
    return port;
}

/* Starts it, or starts it again with the data that it had. Does not wait until it answers. */
static inline void etcd_start(etcd_process *etcd)
{
    char client[64], peer[64], cluster[96];
    (void)snprintf(client, sizeof client, "http://127.0.0.1:%d", etcd->port);
    (void)snprintf(peer, sizeof peer, "http://127.0.0.1:%d", etcd->peer_port);
    (void)snprintf(cluster, sizeof cluster, "default=%s", peer);
    etcd->pid = fork();
    if (etcd->pid != 0)
        return;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int null = open("/dev/null", O_RDWR);
    (void)dup2(null, 1);
    (void)dup2(null, 2);
    (void)execlp("etcd", "etcd", "--data-dir", etcd->folder, "--listen-client-urls", client,
                 "--advertise-client-urls", client, "--listen-peer-urls", peer,
                 "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster,
                 "--max-request-bytes", "500000", NULL);
    _exit(127);
}

static inline void etcd_new(etcd_process *etcd, const char *folder)
{
    *etcd = (etcd_process){.port = free_port(), .peer_port = free_port()};
    (void)snprintf(etcd->folder, sizeof etcd->folder, "%s", folder);
    etcd_start(etcd);
}

static inline void etcd_kill(etcd_process *etcd)
{
    if (etcd->pid <= 0)
        return;
    (void)kill(etcd->pid, SIGKILL);
    (void)waitpid(etcd->pid, NULL, 0);
    etcd->pid = 0;
}

#endif /* ORR_TESTS_ETCD_H */
