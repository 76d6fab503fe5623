/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_NET_NET_H
#define ORR_IO_NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/status.h>

/* Non-blocking message connections (a reactor): what the fault-tolerant protocol reaches the world
 * through. In production this is TCP and shared memory behind one epoll loop (orr_net_system),
 * under test a simulation of many hosts in one thread (tests/support/simulated/network.h); the
 * protocol cannot tell.
 *
 * The difference to transport/transport.h, which stands on the same sockets and segments
 * (io/socket): here members come and go, are not trusted, and the loss of one is an event that the
 * others survive; so nothing ever waits, headers carry hashes, and frames queue. That costs a
 * factor of five in latency: 8 bytes all-reduced by two ranks in shared memory take 1.0 us, where
 * the spinning transport takes 0.21 (docs/reliability.md, docs/benchmarks.md).
 *
 * Everything happens in callbacks, in the one thread that polls. A callback may call anything of
 * the net, and close connections, its own too, but not poll or free it. Threads: the polling one;
 * interrupt() from any. */
typedef struct orr_net orr_net;
typedef uint64_t orr_conn; /* number of a connection, never used again; 0: none */

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
    ORR_NET_UNPROVEN,    /* the peer has another key, or none             */
    ORR_NET_MEMORY       /* of this side                                  */
} orr_net_close_reason;
const char *
orr_net_close_reason_text(orr_net_close_reason end); /* "the peer closed the connection" */

/* The callbacks of one user of a net. They stay at one address until orr_net.forget(). */
typedef struct orr_net_callbacks {
    void *ctx;
    void (*accepted)(void *ctx, orr_conn conn);  /* by a listener of this user */
    void (*connected)(void *ctx, orr_conn conn); /* NULL: not interested       */
    /* Says where a payload is to be received, at least frame->bytes (zero copy). NULL, or no
     * function: up to ORR_NET_BUFFER_BYTES go to the net's own buffer; a larger payload is dropped
     * and frame() gets NULL. The memory may be written though the frame then proves corrupt. */
    void *(*place)(void *ctx, orr_conn conn, const orr_net_frame *frame);
    /* A whole frame, checked. `payload` is where place() said, or memory of the net's (its buffer,
     * or the ring of shared memory, even where place() said something) that lasts until this
     * returns. */
    void (*frame)(void *ctx, orr_conn conn, const orr_net_frame *frame, const void *payload);
    void (*drained)(void *ctx, orr_conn conn); /* all that was sent has left the memory of this
                                                  process or of its user; or NULL */
    void (*closed)(
        void *ctx, orr_conn conn,
        orr_net_close_reason why); /* by the peer or an error, not by close(); conn is no more */
    void (*woken)(void *ctx);      /* the time of wake_at() has come; or NULL */
} orr_net_callbacks;

struct orr_net {
    const char *name; /* "system", "sim" */
    int64_t (*now_ns)(orr_net *net);
    /* `where`: "host:port", port 0: any; of the system's net also "host:port|shm" to be reached
     * through shared memory by processes of this machine, and with "|clear" behind the port to be
     * asked for the key alone, not for encryption. ret_address: what others connect to.
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
    /* Drops what is queued, unless `flush`: then that is handed over first. No callback follows. */
    void (*close)(orr_net *net, orr_conn conn, bool flush);
    /* Sets the user's only timer: woken() is called then. INT64_MAX: none. */
    void (*wake_at)(orr_net *net, const orr_net_callbacks *user, int64_t at_ns);
    /* Closes all listeners and connections of a user; nothing calls it again. */
    void (*forget)(orr_net *net, const orr_net_callbacks *user);
    /* Handles what is ready; if nothing is, waits for it, until `until_ns` at most. NULL: somebody
     * else drives this net. */
    void (*poll)(orr_net *net, int64_t until_ns);
    void (*interrupt)(orr_net *net); /* from any thread: poll() returns; NULL as above */
    void (*free)(orr_net *net);
};

/* What members of one team have in common: any bytes, copied. */
typedef struct orr_net_key {
    const void *at;
    size_t bytes; /* 0: no key */
} orr_net_key;

/* TCP, and shared memory where addresses say so, which only processes of the same user can join.
 * With a key TCP is TLS 1.3 with that key, and a peer that has not proved to have it within some
 * seconds is nobody: accepted() is not called, and no more than 64 of them are held. IO: no epoll;
 * UNSUPPORTED: a key, and no OpenSSL. */
typedef struct orr_net_system_options {
    orr_net_key key;
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
