/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_NET_NET_H
#define ORR_IO_NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/status.h>

/* Connections over which frames pass, without ever waiting: what the fault-tolerant protocol
 * reaches the world through. In production this is TCP and shared memory behind one epoll loop
 * (orr_net_system), under test a simulation of many hosts in one thread
 * (tests/support/simulated/network.h); the protocol cannot tell.
 *
 * Everything happens in callbacks, in the one thread that polls. A callback may call anything of
 * the net, close connections too (its own as well), but not poll or free it. Threads: the polling
 * one; interrupt() from any. */
typedef struct orr_net orr_net;
typedef uint64_t orr_conn; /* of a net; never used again; 0: none */

enum { ORR_NET_FRAME_BYTES = 64, ORR_NET_ADDRESS_BYTES = 160, ORR_NET_BUFFER_BYTES = 1 << 16 };

/* What stands before every payload, on the wire as here, little endian. The net fills in magic,
 * header_hash and, where it is 0, payload_hash (XXH3, 64 bits, of the payload; never 0); the rest
 * is the sender's. Headers are always checked; payloads are where they pass a network. Through
 * shared memory they are not, nor hashed: a payload_hash that the sender left 0 is 1 there. */
typedef struct orr_net_frame {
    uint32_t magic;
    uint16_t kind; /* of message                                              */
    uint16_t lane; /* ring: direction and stream; else the rank in the replica */
    uint64_t epoch, step;
    uint32_t op, partition, chunk, round;
    uint32_t bytes;       /* of the payload                                          */
    uint32_t header_hash; /* XXH32 of the header with this field 0                   */
    uint64_t payload_hash;
    uint64_t from; /* the sender's number, as the protocol has it             */
} orr_net_frame;
_Static_assert(sizeof(orr_net_frame) == ORR_NET_FRAME_BYTES,
               "a frame's header is on the wire as it is");

typedef enum orr_net_close_reason {
    ORR_NET_PEER_CLOSED, /* the peer closed, or its process died          */
    ORR_NET_REFUSED,     /* nobody listens there, or it cannot be reached */
    ORR_NET_CORRUPT,     /* a header or payload that its hash denies      */
    ORR_NET_MEMORY       /* of this side                                  */
} orr_net_close_reason;
const char *
orr_net_close_reason_text(orr_net_close_reason end); /* "the peer closed the connection" */

/* Whom a net tells. Lives where its owner keeps it, at one address, until orr_net.forget(). */
typedef struct orr_net_callbacks {
    void *ctx;
    void (*accepted)(void *ctx, orr_conn conn);  /* by a listener of this user */
    void (*connected)(void *ctx, orr_conn conn); /* NULL: not interested       */
    /* Where the payload is to be read to, at least frame->bytes. NULL, or no function: up to
     * ORR_NET_BUFFER_BYTES bytes in the net's own room; of more, the payload is dropped and frame()
     * gets NULL. May be called, and the memory written to, though the frame then turns out to be
     * corrupt. */
    void *(*place)(void *ctx, orr_conn conn, const orr_net_frame *frame);
    /* A whole frame, checked. `payload`: where place() said, or memory of the net's (its own room,
     * or the ring of shared memory, also where place() said something) that lasts until this
     * returns. */
    void (*frame)(void *ctx, orr_conn conn, const orr_net_frame *frame, const void *payload);
    void (*drained)(void *ctx, orr_conn conn); /* all that was sent has been handed over; or NULL */
    void (*closed)(void *ctx, orr_conn conn,
                   orr_net_close_reason why); /* not by close(); conn is no more */
    void (*woken)(void *ctx);                 /* wake_at() has come; or NULL */
} orr_net_callbacks;

struct orr_net {
    const char *name; /* "system", "sim" */
    int64_t (*now_ns)(orr_net *net);
    /* `where`: "host:port", port 0: any; of the system's net also "host:port|shm" to be reached
     * through shared memory by processes of this machine. ret_address: what others connect to.
     * Errors: IO, INVALID: no address. */
    orr_status (*listen)(orr_net *net, const orr_net_callbacks *user, const char *where,
                         char ret_address[ORR_NET_ADDRESS_BYTES], orr_error *err);
    /* connected() or closed() follows, later. Frames may be sent at once. Names of hosts that are
     * not numbers are looked up here, which may wait for a resolver. Errors: INVALID, NO_MEMORY,
     * IO: out of sockets. */
    orr_status (*connect)(orr_net *net, const orr_net_callbacks *user, const char *address,
                          orr_conn *ret, orr_error *err);
    /* In order, on a connection. `payload`: frame->bytes; if `keep`, the caller leaves it as it is
     * until drained() or until the connection is no more, else it is copied. To a connection that
     * is no more: nothing. */
    void (*send)(orr_net *net, orr_conn conn, const orr_net_frame *frame, const void *payload,
                 bool keep);
    size_t (*queued)(orr_net *net, orr_conn conn); /* bytes not handed over yet */
    /* What is queued is lost, unless `flush`: then it is handed over first. No callback follows. */
    void (*close)(orr_net *net, orr_conn conn, bool flush);
    /* woken() at that time; one a user: the last that was said. INT64_MAX: none. */
    void (*wake_at)(orr_net *net, const orr_net_callbacks *user, int64_t at_ns);
    /* The user is going: its listeners and connections close, nothing calls it again. */
    void (*forget)(orr_net *net, const orr_net_callbacks *user);
    /* Handles what there is; if nothing, waits for it, until `until_ns` at most. NULL: somebody
     * else drives this net. */
    void (*poll)(orr_net *net, int64_t until_ns);
    void (*interrupt)(orr_net *net); /* from any thread: poll() returns; NULL as above */
    void (*free)(orr_net *net);
};

/* TCP, and shared memory where addresses say so. IO: no epoll. */
typedef struct orr_net_system_options {
    int64_t socket_bytes; /* of a socket's buffers; 0: as the system tunes them        */
    int64_t shm_bytes;    /* of a ring each way; 0: 4 MiB                              */
    int64_t spin_ns;      /* how long poll() looks again before it sleeps; 0: not at all */
    bool unchecked;       /* payloads are neither hashed nor checked: for measurements */
} orr_net_system_options;
orr_status orr_net_system_new(const orr_net_system_options *options, orr_net **ret,
                              orr_error *err) ORR_MUST_CHECK;

static inline void orr_net_free(orr_net *net)
{
    if (net != NULL)
        net->free(net);
}

#endif /* ORR_IO_NET_NET_H */
