/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_NET_PARTS_H
#define ORR_IO_NET_PARTS_H

#include <sys/socket.h>

#include "base/array.h"
#include "io/net/frame.h"
#include "io/net/tls.h"
#include "io/socket/local.h"
#include "io/socket/tcp.h"

/* Private to io/net: connections, their send queues, and the event loop of the system's net. */

/* A frame in a send queue. */
typedef struct orr_net_queued_frame {
    orr_net_frame frame;
    const uint8_t *payload; /* borrowed from the caller; NULL: copied */
    uint64_t copy;          /* of a copied payload: its position in all bytes ever copied */
} orr_net_queued_frame;

typedef struct orr_net_send_queue {
    orr_net_queued_frame *at; /* a ring */
    uint32_t room, first, n;
    size_t moved; /* bytes of the first frame that are sent, header and payload */
    size_t bytes; /* bytes still to send, of all frames */
    uint8_t *copies;
    size_t copies_room;
    uint64_t copies_begin, copies_end; /* the range of all bytes ever copied that `copies` holds */
} orr_net_send_queue;

enum { ORR_NET_FRAMES_PER_SEND = 16 }; /* frames to one system call */

/* Appends a sealed frame, of which `moved` bytes are sent already. `keep`: the payload is borrowed,
 * else it is copied. False: out of memory, nothing changed. */
bool orr_net_send_queue_add(orr_net_send_queue *queue, const orr_net_frame *frame,
                            const void *payload, bool keep, size_t moved) ORR_MUST_CHECK;
const uint8_t *orr_net_send_queue_payload(const orr_net_send_queue *queue,
                                          const orr_net_queued_frame *out);
static inline orr_net_queued_frame *orr_net_send_queue_nth(const orr_net_send_queue *queue,
                                                           uint32_t i)
{
    return &queue->at[(queue->first + i) & (queue->room - 1)];
}
/* The buffers still to send, of up to ORR_NET_FRAMES_PER_SEND frames; returns their number. */
int orr_net_send_queue_buffers(const orr_net_send_queue *queue,
                               struct iovec rest[2 * ORR_NET_FRAMES_PER_SEND]);
void orr_net_send_queue_advance(orr_net_send_queue *queue, size_t n);
/* Copies all borrowed payloads, since their owner will not keep them any longer. */
bool orr_net_send_queue_copy_payloads(orr_net_send_queue *queue) ORR_MUST_CHECK;
void orr_net_send_queue_clear(orr_net_send_queue *queue); /* drops all frames */
void orr_net_send_queue_done(orr_net_send_queue *queue);

typedef struct orr_net_system orr_net_system;
typedef struct orr_net_connection orr_net_connection;
typedef struct orr_net_shm orr_net_shm; /* shm.h */

/* The operations of a connection, for TCP and for shared memory (as proto_ops of Linux). Of these
 * only ready() calls the user. */
typedef struct orr_net_connection_ops {
    void (*ready)(orr_net_system *net, orr_net_connection *link,
                  uint32_t events); /* after events of epoll */
    void (*push)(orr_net_system *net,
                 orr_net_connection *link); /* sends what it can of the queue */
    /* Sends a frame at once, as far as it goes; returns the bytes of header and payload. */
    size_t (*write)(orr_net_system *net, orr_net_connection *link, const orr_net_frame *frame,
                    const void *payload);
    void (*waits)(orr_net_system *net, orr_net_connection *link); /* a frame was queued; or NULL */
    bool unhashed;                          /* payloads are neither hashed nor checked on it */
    void (*done)(orr_net_connection *link); /* or NULL                       */
} orr_net_connection_ops;

/* Work that is deferred to poll(), since a callback may be running. */
enum {
    ORR_NET_PENDING_CONNECTED = 1,
    ORR_NET_PENDING_DRAINED = 2,
    ORR_NET_PENDING_READ = 4, /* sending failed, but received bytes may still be there */
    ORR_NET_PENDING_CLOSE = 8
};

struct orr_net_connection {
    orr_conn conn;
    const orr_net_callbacks *user; /* NULL: closed by its user, and flushing */
    const orr_net_connection_ops *wire;
    int fd;
    bool calling;             /* not connected yet */
    bool proving, accepted;   /* the handshake of TLS is under way; it was called */
    bool clear;               /* and frames are not encrypted after it */
    orr_net_tls_session *tls; /* or NULL */
    int64_t prove_until_ns;
    bool dead;    /* to be freed when no callback can be inside */
    bool broken;  /* nothing can be sent any more */
    bool writing; /* epoll reports when it is writable again */
    bool shut;    /* flushed and shut down: waits for the peer's end */
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
    bool shm, clear;
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
    orr_array(orr_net_connection *) shms; /* in shared memory: looked at without epoll */
    uint64_t next_listener;
    orr_net_connection *todo_first, *todo_last, *dead;
    orr_net_tls *tls;
    uint32_t flushing;      /* connections that flush */
    uint32_t proving;       /* connections in a handshake of TLS */
    int64_t flush_check_ns; /* when the first of both may be given up */
    const orr_net_callbacks
        *alarm_lost;   /* a timer for which there was no memory: it fires at once */
    uint32_t unlooked; /* polls since epoll_wait() */
};

/* Values of epoll_event.data beside the numbers of connections. */
#define ORR_NET_EPOLL_LISTENER (UINT64_C(1) << 63)
#define ORR_NET_EPOLL_WAKE     UINT64_C(0)

void orr_net_system_poll(orr_net *self, int64_t until_ns);

/* connection.c. All take a connection that may be dead. */
orr_status orr_net_connection_new(orr_net_system *net, const orr_net_callbacks *user,
                                  const orr_net_connection_ops *wire, int fd,
                                  orr_net_connection **ret, orr_error *err) ORR_MUST_CHECK;
orr_net_connection *orr_net_connection_of(const orr_net_system *net,
                                          orr_conn conn); /* NULL: no more */
bool orr_net_connection_watch(orr_net_system *net, orr_net_connection *link, bool add,
                              bool writing);
/* End a connection: from the next poll(), and at once. */
void orr_net_connection_fail(orr_net_system *net, orr_net_connection *link,
                             orr_net_close_reason why);
void orr_net_connection_close(orr_net_system *net, orr_net_connection *link,
                              orr_net_close_reason why);                     /* calls closed() */
void orr_net_connection_kill(orr_net_system *net, orr_net_connection *link); /* calls nobody */
void orr_net_connection_connected(orr_net_system *net, orr_net_connection *link);
/* Nothing more can be sent; what was received before is still read, up to the end of the stream. */
void orr_net_connection_broken(orr_net_system *net, orr_net_connection *link);
/* Work for the next poll(): ORR_NET_PENDING_... */
void orr_net_connection_defer(orr_net_system *net, orr_net_connection *link, unsigned what);
/* After some of the queue has gone. */
void orr_net_connection_after_send(orr_net_system *net, orr_net_connection *link, bool moved);
/* Call place() and frame() of the user; false: the connection is dead now. `reads`: the frame
 * reader receives where place() said. */
bool orr_net_connection_place(orr_net_system *net, orr_net_connection *link,
                              const orr_net_frame *frame, bool reads);
bool orr_net_connection_read_frames(orr_net_system *net, orr_net_connection *link, uint32_t *count);
bool orr_net_connection_deliver(orr_net_system *net, orr_net_connection *link,
                                const orr_net_frame *frame, const void *payload);
/* How long a flush may make no progress. Assumed: longer than any pause of a peer that lives. */
enum { ORR_NET_FLUSH_S = 5 };
/* How long a handshake of TLS may take, and how many callers may be at it at once. */
enum { ORR_NET_PROOF_S = 5, ORR_NET_PROOFS_MOST = 64 };
void orr_net_connection_reap(orr_net_system *net);

/* frame_hash_avx2.c, frame_hash_avx512.c: XXH3 for CPUs of these levels. The library of a
 * distribution uses SSE2 alone: in the cache 20 GB/s against 58 on Zen 4 with AVX2, and on a Xeon
 * with AVX-512 26 with AVX2 and 43 with it. The hash is the same. */
#if defined __x86_64__
uint64_t orr_net_hash_avx2(const void *bytes, size_t n);
uint64_t orr_net_hash_avx512(const void *bytes, size_t n);
#endif

/* address.c: "host:port", "host:port|shm" to be reached through shared memory too, and what is then
 * published: "host:port|shm:machine:name". "host:port|clear" and "host:port|clear|shm": not
 * encrypted, once the key is proven. */
typedef struct orr_net_address {
    orr_address tcp;
    bool shm, clear;
    uint64_t machine;                /* of orr_local_machine_id(); 0: not said */
    char name[ORR_LOCAL_NAME_BYTES]; /* of the local socket                    */
} orr_net_address;
orr_status orr_net_address_parse(const char *text, orr_net_address *ret,
                                 orr_error *err) ORR_MUST_CHECK;
orr_status orr_net_address_print(const orr_net_address *address, char ret[ORR_NET_ADDRESS_BYTES],
                                 orr_error *err) ORR_MUST_CHECK;
/* tcp.c */
extern const orr_net_connection_ops orr_net_tcp_ops;
/* Begins the handshake of TLS. False: out of memory. */
bool orr_net_tcp_begin_proof(orr_net_system *net, orr_net_connection *link, bool accepted,
                             bool clear);
orr_status orr_net_tcp_connect(orr_net_system *net, const orr_net_callbacks *user,
                               const orr_net_address *address, orr_conn *ret,
                               orr_error *err) ORR_MUST_CHECK;

/* shm.c, shm_handshake.c */
extern const orr_net_connection_ops orr_net_shm_ops;
orr_status orr_net_shm_connect(orr_net_system *net, const orr_net_callbacks *user,
                               const orr_net_address *address, orr_conn *ret,
                               orr_error *err) ORR_MUST_CHECK;
bool orr_net_shm_accept(orr_net_system *net, orr_net_connection *link);
bool orr_net_shm_progress(orr_net_system *net,
                          orr_net_connection *link); /* true: something moved */
void orr_net_shm_set_sleeping(orr_net_connection *link, bool sleeps);

#endif /* ORR_IO_NET_PARTS_H */
