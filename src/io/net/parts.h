/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_NET_PARTS_H
#define ORR_IO_NET_PARTS_H

#include <sys/socket.h>

#include "base/array.h"
#include "io/net/frame.h"
#include "io/socket/local.h"
#include "io/socket/tcp.h"

/* What the files of the system's net share. */

/* Frames to be sent, oldest first. */
typedef struct orr_net_queued_frame {
    orr_net_frame frame;
    const uint8_t *payload; /* the caller keeps it; NULL: copied */
    uint64_t copy;          /* where, in all that was ever copied */
} orr_net_queued_frame;

typedef struct orr_net_send_queue {
    orr_net_queued_frame *at; /* a ring */
    uint32_t room, first, n;
    size_t moved; /* of the first frame, header and payload */
    size_t bytes; /* still to go, of all                    */
    uint8_t *copies;
    size_t copies_room;
    uint64_t copies_begin, copies_end; /* what `copies` holds of all that was ever copied */
} orr_net_send_queue;

enum { ORR_NET_FRAMES_PER_SEND = 16 }; /* frames to one system call */

/* `frame` is sealed; `moved` bytes of it have gone already. False: out of memory, nothing changed.
 */
bool orr_net_send_queue_add(orr_net_send_queue *queue, const orr_net_frame *frame,
                            const void *payload, bool keep, size_t moved) ORR_MUST_CHECK;
const uint8_t *orr_net_send_queue_payload(const orr_net_send_queue *queue,
                                          const orr_net_queued_frame *out);
static inline orr_net_queued_frame *orr_net_send_queue_nth(const orr_net_send_queue *queue,
                                                           uint32_t i)
{
    return &queue->at[(queue->first + i) & (queue->room - 1)];
}
/* What is still to go, up to ORR_NET_FRAMES_PER_SEND frames: the number of places. */
int orr_net_send_queue_buffers(const orr_net_send_queue *queue,
                               struct iovec rest[2 * ORR_NET_FRAMES_PER_SEND]);
void orr_net_send_queue_advance(orr_net_send_queue *queue, size_t n);
/* Payloads that the caller keeps are copied: it will not any more. */
bool orr_net_send_queue_copy_payloads(orr_net_send_queue *queue) ORR_MUST_CHECK;
void orr_net_send_queue_clear(orr_net_send_queue *queue); /* all that is in it */
void orr_net_send_queue_done(orr_net_send_queue *queue);

/* A connection. */
typedef struct orr_net_system orr_net_system;
typedef struct orr_net_connection orr_net_connection;
typedef struct orr_net_shm orr_net_shm; /* net_shm.c */

/* How bytes pass on it. None of these calls the user, but for ready() and look(). */
typedef struct orr_net_connection_ops {
    void (*ready)(orr_net_system *net, orr_net_connection *link, uint32_t events); /* of epoll */
    void (*push)(orr_net_system *net, orr_net_connection *link); /* sends of the queue what goes */
    /* Sends a frame at once as far as it goes: how much of header and payload. */
    size_t (*write)(orr_net_system *net, orr_net_connection *link, const orr_net_frame *frame,
                    const void *payload);
    void (*waits)(orr_net_system *net,
                  orr_net_connection *link); /* something was queued; or NULL */
    bool unhashed; /* payloads are not checked on it, and so not hashed for it */
    void (*done)(orr_net_connection *link); /* or NULL                       */
} orr_net_connection_ops;

/* What is to be told, or done, in poll(). */
enum {
    ORR_NET_PENDING_CONNECTED = 1,
    ORR_NET_PENDING_DRAINED = 2,
    ORR_NET_PENDING_READ = 4, /* what sending found broken may still have something to say */
    ORR_NET_PENDING_CLOSE = 8
};

struct orr_net_connection {
    orr_conn conn;
    const orr_net_callbacks *user; /* NULL: closed, and flushing what is queued */
    const orr_net_connection_ops *wire;
    int fd;
    bool calling; /* not connected yet                        */
    bool dead;    /* freed when no callback can be inside     */
    bool broken;  /* nothing can be sent any more             */
    bool writing; /* epoll tells when it can be sent again    */
    bool shut;    /* flushed: waits for the peer's end        */
    unsigned todo;
    orr_net_close_reason why; /* of ORR_NET_PENDING_CLOSE */
    int64_t flush_until_ns;
    orr_net_send_queue queue;
    orr_net_frame_reader reader;
    orr_net_shm *shm;
    struct addrinfo *addresses, *next_address; /* TCP: of the peer; the next to be tried */
    orr_net_connection *next_todo, *next_dead;
    bool in_todo;
};

typedef struct orr_net_listener {
    uint64_t id;
    int fd;
    bool shm;
    const orr_net_callbacks *user;
} orr_net_listener;

typedef struct orr_net_timer {
    const orr_net_callbacks *user; /* NULL: gone */
    int64_t at_ns;
} orr_net_timer;

typedef struct orr_net_slot {
    orr_net_connection *link;
    uint32_t generation;
} orr_net_slot;

struct orr_net_system {
    orr_net net;
    orr_net_system_options options;
    int epoll, wake, spare; /* spare: given up to refuse a caller when files run out */
    orr_array(orr_net_slot) slots;
    orr_array(uint32_t) free_slots;
    orr_array(orr_net_listener) listeners;
    orr_array(orr_net_timer) alarms;
    orr_array(orr_net_connection *) shms; /* those of shared memory, looked at without epoll */
    uint64_t next_listener;
    orr_net_connection *todo_first, *todo_last, *dead;
    uint32_t flushing; /* links that are */
    int64_t flush_check_ns;
    const orr_net_callbacks *alarm_lost; /* there was no memory for it: is woken at once */
    uint32_t unlooked;                   /* polls since epoll was asked */
};

/* What epoll tells, beside the numbers of connections. */
#define ORR_NET_EPOLL_LISTENER (UINT64_C(1) << 63)
#define ORR_NET_EPOLL_WAKE     UINT64_C(0)

void orr_net_system_poll(orr_net *self, int64_t until_ns);

/* net_link.c. Everything takes a link that may be dead. */
orr_status orr_net_connection_new(orr_net_system *net, const orr_net_callbacks *user,
                                  const orr_net_connection_ops *wire, int fd,
                                  orr_net_connection **ret, orr_error *err) ORR_MUST_CHECK;
orr_net_connection *orr_net_connection_of(const orr_net_system *net,
                                          orr_conn conn); /* NULL: no more */
bool orr_net_connection_watch(orr_net_system *net, orr_net_connection *link, bool add,
                              bool writing);
void orr_net_connection_defer(orr_net_system *net, orr_net_connection *link, unsigned what);
/* Ends it: later, from poll(), and at once. */
void orr_net_connection_fail(orr_net_system *net, orr_net_connection *link,
                             orr_net_close_reason why);
void orr_net_connection_close(orr_net_system *net, orr_net_connection *link,
                              orr_net_close_reason why);                     /* tells the user */
void orr_net_connection_kill(orr_net_system *net, orr_net_connection *link); /* tells nobody */
void orr_net_connection_connected(orr_net_system *net, orr_net_connection *link);
/* Nothing more can be sent; what was received before is still read, which finds the end. */
void orr_net_connection_broken(orr_net_system *net, orr_net_connection *link);
/* After some of the queue has gone. */
void orr_net_connection_after_send(orr_net_system *net, orr_net_connection *link, bool moved);
/* The user is asked and told; false: the link is dead. place(): and the reader reads there, if it
 * `reads`. */
bool orr_net_connection_place(orr_net_system *net, orr_net_connection *link,
                              const orr_net_frame *frame, bool reads);
bool orr_net_connection_read_frames(orr_net_system *net, orr_net_connection *link, uint32_t *count);
bool orr_net_connection_deliver(orr_net_system *net, orr_net_connection *link,
                                const orr_net_frame *frame, const void *payload);
/* How long a flush may stand still. Assumed: longer than any pause of a peer that lives. */
enum { ORR_NET_FLUSH_S = 5 };
void orr_net_connection_reap(orr_net_system *net);

/* net_hash.c. False: this machine has no wide vectors. */
bool orr_net_hash_avx2(const void *bytes, size_t n, uint64_t *ret);

/* address.c: "host:port", "host:port|shm" to be reached through shared memory too, and what is then
 * published: "host:port|shm:machine:name". */
typedef struct orr_net_address {
    orr_address tcp;
    bool shm;
    uint64_t machine;                /* of orr_local_machine_id(); 0: not said */
    char name[ORR_LOCAL_NAME_BYTES]; /* of the local socket                    */
} orr_net_address;
orr_status orr_net_address_parse(const char *text, orr_net_address *ret,
                                 orr_error *err) ORR_MUST_CHECK;
orr_status orr_net_address_print(const orr_net_address *address, char ret[ORR_NET_ADDRESS_BYTES],
                                 orr_error *err) ORR_MUST_CHECK;
/* net_tcp.c */
extern const orr_net_connection_ops orr_net_tcp_ops;
orr_status orr_net_tcp_connect(orr_net_system *net, const orr_net_callbacks *user,
                               const orr_net_address *address, orr_conn *ret,
                               orr_error *err) ORR_MUST_CHECK;

/* net_shm.c, net_shm_meet.c */
extern const orr_net_connection_ops orr_net_shm_ops;
orr_status orr_net_shm_connect(orr_net_system *net, const orr_net_callbacks *user,
                               const orr_net_address *address, orr_conn *ret,
                               orr_error *err) ORR_MUST_CHECK;
bool orr_net_shm_accept(orr_net_system *net, orr_net_connection *link);
bool orr_net_shm_progress(orr_net_system *net,
                          orr_net_connection *link); /* true: something moved */
void orr_net_shm_set_sleeping(orr_net_connection *link, bool sleeps);

#endif /* ORR_IO_NET_PARTS_H */
