/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_TRANSPORT_TRANSPORT_H
#define ORR_IO_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/status.h>

/* Blocking point-to-point messages between a fixed set of ranks: in shared memory, over TCP, by
 * MPI, or through what a test or a simulation hands in. Messages between two ranks on one channel
 * arrive in order; channels are independent (as communicators of MPI), each for one thread at a
 * time.
 *
 * The difference to net/net.h, which stands on the same sockets and segments (io/socket): ranks are
 * one program and trust one another, and a job that loses one ends. So an exchange waits, spinning
 * first, and a message is 8 bytes of length and its payload: 8 bytes are all-reduced by two ranks
 * in shared memory in 0.21 us, against 1.0 through the net (docs/benchmarks.md).
 *
 * A peer that is gone, or silent for longer than the deadline (0: none), is an error at every rank
 * that waits for it, directly or not: an exchange that fails aborts this rank, so that nobody
 * hangs. */
typedef struct orr_transport orr_transport;
enum { ORR_CHANNELS = 8 };

/* Sends one message and receives one at the same time (MPI_Sendrecv); NULL and 0 bytes: none that
 * way. The peers may differ; both sides agree on the number of bytes. */
typedef struct orr_exchange {
    uint32_t channel;
    uint32_t to, from; /* ranks */
    const void *out;
    void *in;
    size_t out_bytes, in_bytes;
} orr_exchange;
struct orr_transport {
    uint32_t rank, ranks;
    const char *name; /* "shm", "tcp", "mpi", "self" */
    void *ctx;
    /* Returns when `out` may be changed again and `in` is complete. Errors: IO:
     * "rank 3 is gone", "rank 3 said nothing for 30 s"; INVALID: lengths that do not agree. */
    orr_status (*exchange)(orr_transport *self, const orr_exchange *exchange, orr_error *err);
    /* Makes the exchanges of all other ranks fail (MPI_Abort). */
    void (*abort)(orr_transport *self);
    void (*close)(orr_transport *self);
};

/* The transport of a single rank. */
orr_transport *orr_transport_self(void); /* static storage */

/* Shared memory for `ranks` processes of this machine, made before they are forked; each then takes
 * its end. Errors: IO, NO_MEMORY. */
typedef struct orr_transport_shm orr_transport_shm;
/* LIMIT: more than 256 ranks. */
orr_status orr_transport_shm_new(uint32_t ranks, orr_transport_shm **ret,
                                 orr_error *err) ORR_MUST_CHECK;
orr_status orr_transport_shm_attach(orr_transport_shm *shm, uint32_t rank, int64_t deadline_ns,
                                    orr_transport **ret, orr_error *err) ORR_MUST_CHECK;
/* Tells the others who will be this rank, so that they see it die before it attaches. */
void orr_transport_shm_set_pid(orr_transport_shm *shm, uint32_t rank, int pid);
void orr_transport_shm_free(orr_transport_shm *shm);

/* TCP: every rank listens on `listener` (a socket that is bound already) and knows the others'
 * addresses "host:port". `failed` (or NULL): not 0 once a rank has given up, so that nobody waits
 * for it. Errors: IO. */
orr_status orr_transport_tcp_connect(uint32_t rank, uint32_t ranks, int listener,
                                     const char *const *addresses, int64_t deadline_ns,
                                     const _Atomic uint32_t *failed, orr_transport **ret,
                                     orr_error *err) ORR_MUST_CHECK;
/* A socket on a free port of `host`, and its address. */
orr_status orr_transport_tcp_listen(const char *host, int *ret_socket, char *ret_address,
                                    size_t room, orr_error *err) ORR_MUST_CHECK;

/* Rank of this process among those that mpirun or Slurm started, and how many; false: neither did.
 */
bool orr_launcher_ranks(uint32_t *ret_rank, uint32_t *ret_n);
/* MPI, when this process was started by mpirun or by Slurm with it. UNSUPPORTED: built without. */
orr_status orr_transport_mpi_connect(int64_t deadline_ns, orr_transport **ret,
                                     orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_IO_TRANSPORT_TRANSPORT_H */
