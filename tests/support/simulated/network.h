/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SUPPORT_SIMULATED_NETWORK_H
#define ORR_SUPPORT_SIMULATED_NETWORK_H

#include "io/net/net.h"

/* Deterministic simulation testing: hosts that communicate over a simulated network, in one thread
 * and on one clock, so that a run is a function of its seed and of the calls made to it. Each host
 * has a net (io/net/net.h) that the protocol cannot tell from the operating system's.
 *
 * Connections keep their frames in order; different connections are independent, so their frames
 * overtake one another. A frame takes latency + bytes / bandwidth + jitter; connections of a host
 * share nothing else. Random times are drawn from the seed (base/philox.h).
 *
 * Behaviour that io/net/net.h leaves open is drawn for each connection: whether memory that is kept
 * is read at once or only when the frame arrives (drained() follows then), and whether payloads are
 * written to where place() says or are read in place.
 *
 * Faults. Kill: a host loses all its state; peers see their connections close one latency later
 * (the process died), or never (the machine died: `silently`). Stop: a host neither runs nor
 * answers, but its connections stand, requests to it are accepted, and frames to it wait
 * (SIGSTOP). A machine that is back after dying knows nothing of its connections: it answers
 * frames on them with a reset. Cut: a link in one direction; frames are lost and nobody is told,
 * and that direction of the connection stays dead after the link heals. Slow: latency and
 * bandwidth times a factor. Corrupt: the next frame from a to b arrives with a flipped bit, and
 * the receiver's net closes the connection (CORRUPT). */
typedef struct orr_simnet orr_simnet;
typedef struct orr_simnet_options {
    uint64_t seed;
    int64_t latency_ns, jitter_ns; /* one way; 0: 20 us, 10 us */
    double bytes_per_s;            /* of a connection; 0: 10e9 */
    bool unhashed; /* payloads are not hashed, for speed; corruption is then known by a flag */
} orr_simnet_options;
orr_status orr_simnet_new(const orr_simnet_options *options, orr_simnet **ret,
                          orr_error *err) ORR_MUST_CHECK;
void orr_simnet_free(orr_simnet *world); /* frees nets too; users are dropped without a call */
int64_t orr_simnet_now_ns(const orr_simnet *world);
uint64_t orr_simnet_events(const orr_simnet *world); /* events so far */
uint64_t orr_simnet_digest(const orr_simnet *world); /* hash of all events and their times so far */
/* Number of payloads that were sent with `keep` and changed before they were delivered: a bug of
 * their senders. Detected only where payloads are hashed. */
uint64_t orr_simnet_changed_payloads(const orr_simnet *world);
/* Memory ran out: frames, requests or timers were lost. */
bool orr_simnet_out_of_memory(const orr_simnet *world);

/* Observer of all events, for a log. `frame` NULL: no frame. */
typedef void orr_simnet_observer(void *ctx, int64_t at_ns, const char *what, uint32_t from,
                                 uint32_t to, const orr_net_frame *frame);
void orr_simnet_observe(orr_simnet *world, orr_simnet_observer *watcher, void *ctx);

/* Adds a host with its net. Addresses of its listeners: "h3:1". */
orr_status orr_simnet_add_host(orr_simnet *world, uint32_t *ret, orr_error *err) ORR_MUST_CHECK;
orr_net *orr_simnet_host_net(orr_simnet *world, uint32_t host);

/* Calls `what` at that time, in no host. */
typedef void orr_simnet_call(void *ctx);
orr_status orr_simnet_at(orr_simnet *world, int64_t at_ns, orr_simnet_call *what, void *ctx,
                         orr_error *err) ORR_MUST_CHECK;
/* Runs the next event; false: there is none before `until_ns`, which is the time now. */
bool orr_simnet_step(orr_simnet *world, int64_t until_ns);
void orr_simnet_run(orr_simnet *world, int64_t until_ns);

/* Kills a host. Its users are dropped without a call (the caller frees its objects afterwards;
 * they may call their dead net, which does nothing); restart() gives it a new net with the same
 * orr_net address. */
void orr_simnet_kill(orr_simnet *world, uint32_t host, bool silently);
void orr_simnet_restart(orr_simnet *world, uint32_t host);
void orr_simnet_stop(orr_simnet *world, uint32_t host);
void orr_simnet_continue(orr_simnet *world, uint32_t host);
void orr_simnet_cut(orr_simnet *world, uint32_t from, uint32_t to, bool cut); /* one direction */
void orr_simnet_slow(orr_simnet *world, uint32_t host, double factor);        /* 1: normal */
void orr_simnet_corrupt(orr_simnet *world, uint32_t from, uint32_t to);
void orr_simnet_reset(orr_simnet *world, uint32_t a,
                      uint32_t b); /* closes all connections between them */

#endif /* ORR_SUPPORT_SIMULATED_NETWORK_H */
