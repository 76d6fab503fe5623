/* SPDX-License-Identifier: Apache-2.0 */
#include "net_ends.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/net/shm.h"

/* Peers that die, lie, or are hung up on; and no memory or no files. */

/* A plain socket that calls the TCP port of `address`. */
static int call_tcp(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons((uint16_t)strtoul(strchr(address, ':') + 1, NULL, 10));
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void write_all(int fd, const void *bytes, size_t n)
{
    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
}

static void test_corrupt(void **state)
{
    static const char payload[] = "what was meant";
    for (int wrong = 0; wrong < 6; wrong++) {
        end ends[ENDS];
        meet(ends, places[0], NULL);
        const int fd = call_tcp(ends[0].address);
        UNTIL(ends, ends[0].accepted == 2);
        orr_net_frame frame = {.kind = 1, .bytes = sizeof payload};
        orr_net_frame_seal(&frame, payload, false);
        write_all(fd, &frame, sizeof frame);
        write_all(fd, payload, sizeof payload);
        UNTIL(ends, ends[0].frames == 1);
        char sent[sizeof frame + sizeof payload];
        if (wrong == 0)
            frame.bytes ^= 1u << 30; /* a length that nobody said */
        else if (wrong == 1)
            frame.kind++;
        else if (wrong == 2)
            frame.magic++;
        else if (wrong == 3)
            frame.payload_hash++;
        memcpy(sent, &frame, sizeof frame);
        memcpy(sent + sizeof frame, payload, sizeof payload);
        if (wrong == 3) { /* a header that holds, of another payload */
            orr_net_frame_seal(&frame, payload, false);
            memcpy(sent, &frame, sizeof frame);
        }
        if (wrong == 4)
            sent[sizeof frame + 3] ^= 4;
        write_all(fd, sent, wrong == 5 ? sizeof sent - 1 : sizeof sent);
        if (wrong == 5)
            close(fd); /* in the middle */
        UNTIL(ends, ends[0].closed == 1);
        assert_int_equal(ends[0].why, wrong == 5 ? ORR_NET_PEER_CLOSED : ORR_NET_CORRUPT);
        assert_int_equal(ends[0].frames, 1);
        char byte;
        if (wrong < 5) {
            assert_true(recv(fd, &byte, 1, 0) <= 0);
            close(fd);
        }
        assert_int_equal(ends[1].closed, 0);
        part(ends);
    }
    (void)state;
}

static struct sockaddr_un shm_socket(const char *address, socklen_t *ret_n)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *name = strrchr(address, ':') + 1;
    memcpy(to.sun_path + 1, name, strlen(name));
    *ret_n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    return to;
}

/* A caller that does by hand what a net does: the memory as it was given, mapped once. */
static uint8_t *call_shm(end ends[ENDS], int *ret_fd, size_t *ret_bytes)
{
    char greeting[16];
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } with;
    struct iovec some = {greeting, sizeof greeting};
    struct msghdr message = {
        .msg_iov = &some, .msg_iovlen = 1, .msg_control = &with, .msg_controllen = sizeof with};
    socklen_t n;
    int memory;
    const struct sockaddr_un to = shm_socket(ends[0].address, &n);
    const int accepted = ends[0].accepted;
    *ret_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(*ret_fd, (const struct sockaddr *)&to, n), 0);
    UNTIL(ends, ends[0].accepted == accepted + 1);
    assert_int_equal(recvmsg(*ret_fd, &message, 0), sizeof greeting);
    memcpy(&memory, CMSG_DATA(&with.head), sizeof memory);
    *ret_bytes = (size_t)lseek(memory, 0, SEEK_END);
    assert_int_equal(ftruncate(memory, 0), -1); /* cannot shrink under the other */
    uint8_t *map = mmap(NULL, *ret_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    close(memory);
    return map;
}

/* The second way of the two is the caller's; its ring lies at the end. */
static void test_hostile_caller(void **state)
{
    static const uint64_t positions[] = {1, 63, 65, (1 << 16) + 64, UINT64_MAX - 63, 0};
    for (size_t i = 0; i < 8; i++) {
        end ends[ENDS];
        int fd;
        size_t bytes;
        meet(ends, places[1], &(orr_net_system_options){.shm_bytes = 1 << 16});
        uint8_t *map = call_shm(ends, &fd, &bytes);
        orr_shm_ring_positions *ways = (orr_shm_ring_positions *)map;
        uint8_t *ring = map + bytes - (1 << 16);
        orr_net_frame frame = {.kind = 2, .bytes = 100};
        orr_net_frame_seal(&frame, map, false);
        memcpy(ring, &frame, sizeof frame);
        memset(ring + sizeof frame, 1, 128);
        if (i < 5) {
            atomic_store(&ways[1].bytes.written, positions[i]);
        } else if (i == 5) { /* what was read is more than what was written */
            atomic_store(&ways[0].bytes.read, 640);
            send_text(&ends[0], "to the caller");
        } else if (i == 6) { /* a header that its hash denies */
            ring[9] ^= 1;
            atomic_store(&ways[1].bytes.written, 192);
        } else { /* a frame of which some is missing, and the end */
            atomic_store(&ways[1].bytes.written, 128);
            close(fd);
        }
        UNTIL(ends, ends[0].closed == 1);
        assert_int_equal(ends[0].why, i == 7 ? ORR_NET_PEER_CLOSED : ORR_NET_CORRUPT);
        assert_int_equal(ends[0].frames, 0);
        munmap(map, bytes);
        if (i < 7)
            close(fd);
        part(ends);
    }
    (void)state;
}

/* Who answers in the place of a net: says nothing, nonsense, or hands out memory that could shrink.
 */
static void test_hostile_listener(void **state)
{
    for (int i = 0; i < 4; i++) {
        end ends[ENDS];
        orr_error err = {0};
        meet(ends, places[1], NULL);
        char address[ORR_NET_ADDRESS_BYTES];
        snprintf(address, sizeof address, "%.*s:hostile-%d-%d",
                 (int)(strrchr(ends[0].address, ':') - ends[0].address), ends[0].address,
                 (int)getpid(), i);
        socklen_t n;
        const struct sockaddr_un at = shm_socket(address, &n);
        const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(listener, (const struct sockaddr *)&at, n), 0);
        assert_int_equal(listen(listener, 1), 0);
        assert_int_equal(
            ends[1].net->connect(ends[1].net, &ends[1].user, address, &ends[1].conn, &err), ORR_OK);
        const int fd = accept(listener, NULL, NULL);
        assert_true(fd >= 0);
        char greeting[16] = "orrshm1";
        memcpy(greeting + 8, &(uint64_t){1 << 16}, 8);
        struct iovec some = {greeting, sizeof greeting};
        union {
            struct cmsghdr head;
            char room[CMSG_SPACE(sizeof(int))];
        } with = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
                           .cmsg_level = SOL_SOCKET,
                           .cmsg_type = SCM_RIGHTS}};
        const int memory = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(ftruncate(memory, (1 << 16) * (i == 3 ? 2 : 3)), 0);
        if (i == 3)
            fcntl(memory, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW);
        memcpy(CMSG_DATA(&with.head), &memory, sizeof memory);
        struct msghdr message = {.msg_iov = &some, .msg_iovlen = 1};
        if (i >= 2) {
            message.msg_control = &with;
            message.msg_controllen = sizeof with;
        }
        if (i >= 1)
            assert_int_equal(sendmsg(fd, &message, 0), sizeof greeting);
        if (i == 0)
            close(fd);
        UNTIL(ends, ends[1].closed == 1);
        assert_int_equal(ends[1].why, i < 2 ? ORR_NET_REFUSED : ORR_NET_CORRUPT);
        assert_int_equal(ends[1].connected, 1);
        close(memory);
        close(listener);
        if (i > 0)
            close(fd);
        part(ends);
    }
    (void)state;
}

/* Sends without end until it is killed. */
static void child(const char *address, const orr_net_system_options *options)
{
    static uint8_t bytes[100000];
    end self;
    orr_error err = {0};
    end_init(&self, options);
    if (self.net->connect(self.net, &self.user, address, &self.conn, &err) != ORR_OK)
        _exit(1);
    for (uint32_t n = 0;;) {
        const orr_net_frame frame = {.bytes = sizeof bytes, .round = n};
        if (self.net->queued(self.net, self.conn) < 1 << 20) {
            self.net->send(self.net, self.conn, &frame, bytes, false);
            n++;
        }
        self.net->poll(self.net, 0);
    }
}

static void test_death(void **state)
{
    for (size_t i = 0; i < n_places(); i++) {
        end ends[ENDS];
        orr_error err = {0};
        const orr_net_system_options options = with_key(places[i], NULL);
        end_init(&ends[0], &options);
        ends[1].net = NULL;
        orr_net *net = ends[0].net;
        assert_int_equal(
            net->listen(net, &ends[0].user, place_of(places[i]), ends[0].address, &err), ORR_OK);
        const pid_t pid = fork();
        if (pid == 0)
            child(ends[0].address, &options);
        UNTIL(ends, ends[0].frames > 20);
        kill(pid, SIGKILL);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        UNTIL(ends, ends[0].closed == 1);
        assert_int_equal(ends[0].why, ORR_NET_PEER_CLOSED);
        assert_int_equal(ends[0].last.round, ends[0].frames - 1); /* none twice, none lost */
        orr_net_free(net);
    }
    (void)state;
}

/* To one that has gone: no signal, and its last words are still heard. */
static void test_send_to_the_gone(void **state)
{
    uint8_t *bytes = orr_calloc(1, 1 << 20);
    for (size_t i = 0; i < n_places(); i++) {
        end ends[ENDS];
        meet(ends, places[i], NULL);
        send_text(&ends[1], "last words");
        orr_net_free(ends[1].net);
        ends[1].net = NULL;
        const orr_net_frame frame = {.bytes = 1 << 20};
        for (int n = 0; n < 20; n++)
            ends[0].net->send(ends[0].net, ends[0].conn, &frame, bytes, true);
        UNTIL(ends, ends[0].closed == 1);
        assert_int_equal(ends[0].why, ORR_NET_PEER_CLOSED);
        assert_int_equal(ends[0].frames, 1);
        orr_net_free(ends[0].net);
    }
    orr_free(bytes);
    (void)state;
}

/* A listener without files hangs up on callers, and goes on. */
static void test_no_files(void **state)
{
    struct rlimit before, none;
    end ends[ENDS];
    meet(ends, places[0], NULL);
    const int waiting = call_tcp(ends[0].address);
    UNTIL(ends, ends[0].accepted == 2);
    const int caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to;
    socklen_t n = sizeof to;
    assert_int_equal(getpeername(waiting, (struct sockaddr *)&to, &n), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)caller + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(connect(caller, (struct sockaddr *)&to, n), 0);
    for (int k = 0; k < 50; k++)
        poll_both(ends);
    char byte;
    const ssize_t heard = recv(caller, &byte, 1, MSG_DONTWAIT);
    orr_conn conn;
    orr_error err = {0};
    const orr_status status =
        ends[1].net->connect(ends[1].net, &ends[1].user, ends[0].address, &conn, &err);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(heard, 0);
    assert_int_equal(status, ORR_IO);
    assert_int_equal(ends[0].accepted, 2);
    send_text(&ends[1], "as before");
    UNTIL(ends, ends[0].frames == 1);
    close(caller);
    close(waiting);
    part(ends);
    (void)state;
}

/* Who has another key, or none, or says nothing, is nobody; who has it comes in beside 200 others.
 */
static void test_strangers(void **state)
{
    static const orr_net_key keys[] = {{"another key than that", 20}, {"", 0}};
    end ends[ENDS] = {0}, stranger;
    orr_error err = {0};
    (void)state;
    if (n_places() < 3)
        skip();
    const orr_net_system_options good = {.key = the_key};
    end_init(&ends[0], &good);
    end *a = &ends[0], *b = &ends[1];
    assert_int_equal(a->net->listen(a->net, &a->user, "127.0.0.1:0", a->address, &err), ORR_OK);
    for (int k = 0; k < 2; k++) {
        end_init(&stranger, &(orr_net_system_options){.key = keys[k]});
        assert_int_equal(
            stranger.net->connect(stranger.net, &stranger.user, a->address, &stranger.conn, &err),
            ORR_OK);
        send_text(&stranger, "let me in");
        UNTIL(ends, (stranger.net->poll(stranger.net, 0), stranger.closed == 1));
        if (k == 0)
            assert_int_equal(stranger.why, ORR_NET_UNPROVEN);
        orr_net_free(stranger.net);
    }
    int silent[200];
    const int port = atoi(strrchr(a->address, ':') + 1);
    for (int i = 0; i < 200; i++) {
        const struct sockaddr_in to = {.sin_family = AF_INET,
                                       .sin_port = htons((uint16_t)port),
                                       .sin_addr = {htonl(INADDR_LOOPBACK)}};
        silent[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(silent[i], (const struct sockaddr *)&to, sizeof to), 0);
        poll_both(ends);
    }
    end_init(b, &good);
    assert_int_equal(b->net->connect(b->net, &b->user, a->address, &b->conn, &err), ORR_OK);
    send_text(b, "hello");
    UNTIL(ends, a->frames == 1);
    assert_int_equal(a->accepted, 1);
    for (int i = 0; i < 200; i++)
        close(silent[i]);
    part(ends);
}

/* Whatever allocation fails: a status, an end, or nothing; and all of it is given back. */
static bool talk(const char *where, uint64_t fails_from)
{
    static uint8_t bytes[200000];
    end ends[ENDS] = {0};
    orr_error err = {0};
    bool said = true;
    const orr_net_system_options options = with_key(where, NULL);
    orr_alloc_fail_from(fails_from);
    for (int e = 0; e < ENDS; e++) {
        ends[e].user = (orr_net_callbacks){.ctx = &ends[e],
                                           .accepted = on_accepted,
                                           .frame = on_frame,
                                           .closed = on_closed,
                                           .woken = on_woken};
        if (orr_net_system_new(&options, &ends[e].net, &err) != ORR_OK)
            goto out;
    }
    end *a = &ends[0], *b = &ends[1];
    if (a->net->listen(a->net, &a->user, place_of(where), a->address, &err) != ORR_OK ||
        b->net->connect(b->net, &b->user, a->address, &b->conn, &err) != ORR_OK)
        goto out;
    a->net->wake_at(a->net, &a->user, 0);
    const orr_net_frame frame = {.bytes = 200000}, small = {.bytes = 20000};
    for (int i = 0; i < 20; i++)
        b->net->send(b->net, b->conn, i % 3 == 0 ? &frame : &small, bytes, false);
    b->net->close(b->net, b->conn, true);
    for (int i = 0; i < 400 && a->closed == 0; i++)
        poll_both(ends);
    said = a->frames == 20;
    assert_int_equal(a->woken, 1);
out:
    orr_alloc_fail_from(0);
    assert_true(err.status == ORR_OK || err.status == ORR_NO_MEMORY);
    for (int e = 0; e < ENDS; e++)
        orr_net_free(ends[e].net);
    return said && err.status == ORR_OK;
}

static void test_no_memory(void **state)
{
    for (size_t i = 0; i < n_places(); i++) {
        uint64_t n = 1;
        while (!talk(places[i], n))
            assert_true(n++ < 200);
        assert_true(n > 10);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_corrupt),          cmocka_unit_test(test_hostile_caller),
        cmocka_unit_test(test_hostile_listener), cmocka_unit_test(test_death),
        cmocka_unit_test(test_send_to_the_gone), cmocka_unit_test(test_no_files),
        cmocka_unit_test(test_strangers),        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
