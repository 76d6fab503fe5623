/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SUPPORT_SIMULATED_NETWORK_H
#define ORR_SUPPORT_SIMULATED_NETWORK_H

#include "io/net/net.h"

/* Hosts that speak over a simulated network, in one thread, on one clock: the same seed and the
 * same calls give the same run. Each host has a net (io/net/net.h) that the protocol cannot tell
 * from the system's.
 *
 * Connections keep their frames in order; different connections are independent, so frames of
 * different connections overtake one another. A frame takes latency + bytes / bandwidth + jitter;
 * connections of a host share nothing else. Times are drawn from the seed (base/philox.h).
 *
 * What io/net/net.h leaves open is drawn for each connection: whether memory that is kept is read
 * at once or only when the frame arrives (drained() follows then), and whether payloads are put
 * where place() says or are read where they are.
 *
 * Faults: a host that is killed drops all it had; peers see their connections close one latency
 * later (a process that died on a machine that lives), or never (the machine died: `silently`). A
 * host that is stopped neither runs nor answers, but its connections stand, calls to it are
 * answered, and what is sent to it waits (SIGSTOP). A machine that died knows nothing of its
 * connections when it is back: it answers what still comes over them by closing them. A link may be
 * cut one way: what is sent is lost and nobody is told; so it stays lost for that connection, which
 * is then dead in that direction, even after the link heals. Slow: latency and bandwidth times a
 * factor. Corrupt: the next frame from a to b arrives with a flipped bit: the receiver's net closes
 * the connection (CORRUPT). */
typedef struct orr_simnet orr_simnet;
typedef struct orr_simnet_options {
    uint64_t seed;
    int64_t latency_ns, jitter_ns; /* one way; 0: 20 us, 10 us */
    double bytes_per_s;            /* of a connection; 0: 10e9 */
    bool unhashed; /* payloads are not hashed (corruption is then told by its flag): speed */
} orr_simnet_options;
orr_status orr_simnet_new(const orr_simnet_options *options, orr_simnet **ret,
                          orr_error *err) ORR_MUST_CHECK;
void orr_simnet_free(orr_simnet *world); /* nets too; users are forgotten, not called */
int64_t orr_simnet_now_ns(const orr_simnet *world);
uint64_t orr_simnet_events(const orr_simnet *world); /* so far */
uint64_t orr_simnet_digest(const orr_simnet *world); /* of what happened so far, and when */
/* Payloads that were sent with `keep` and changed before they were handed over: a bug of their
 * senders. They are told apart only where payloads are hashed. */
uint64_t orr_simnet_changed_payloads(const orr_simnet *world);
/* Memory ran out somewhere: frames, calls or timers were lost. */
bool orr_simnet_out_of_memory(const orr_simnet *world);

/* What happens, as it happens: for a log. `frame` NULL: no frame. */
typedef void orr_simnet_observer(void *ctx, int64_t at_ns, const char *what, uint32_t from,
                                 uint32_t to, const orr_net_frame *frame);
void orr_simnet_observe(orr_simnet *world, orr_simnet_observer *watcher, void *ctx);

/* A host, and its net. Addresses of its listeners: "h3:1". */
orr_status orr_simnet_add_host(orr_simnet *world, uint32_t *ret, orr_error *err) ORR_MUST_CHECK;
orr_net *orr_simnet_host_net(orr_simnet *world, uint32_t host);

/* Calls `what` at that time, in no host. */
typedef void orr_simnet_call(void *ctx);
orr_status orr_simnet_at(orr_simnet *world, int64_t at_ns, orr_simnet_call *what, void *ctx,
                         orr_error *err) ORR_MUST_CHECK;
/* Handles the next event; false: there is none before `until_ns`, and it is that time now. */
bool orr_simnet_step(orr_simnet *world, int64_t until_ns);
void orr_simnet_run(orr_simnet *world, int64_t until_ns);

/* The host's users are forgotten without a call (the caller frees its objects afterwards; they may
 * call their dead net, which does nothing); restart() makes it able to listen and connect again,
 * with a new net that has the same orr_net address. */
void orr_simnet_kill(orr_simnet *world, uint32_t host, bool silently);
void orr_simnet_restart(orr_simnet *world, uint32_t host);
void orr_simnet_stop(orr_simnet *world, uint32_t host);
void orr_simnet_continue(orr_simnet *world, uint32_t host);
void orr_simnet_cut(orr_simnet *world, uint32_t from, uint32_t to, bool cut); /* one way */
void orr_simnet_slow(orr_simnet *world, uint32_t host, double factor);        /* 1: as before */
void orr_simnet_corrupt(orr_simnet *world, uint32_t from, uint32_t to);
void orr_simnet_reset(orr_simnet *world, uint32_t a,
                      uint32_t b); /* all connections between them close */

#endif /* ORR_SUPPORT_SIMULATED_NETWORK_H */
