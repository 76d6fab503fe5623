/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_TRANSPORT_TRANSPORT_H
#define ORR_IO_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/status.h>

/* How ranks reach one another: shared memory, TCP, MPI, or what a test or a simulation hands in.
 *
 * Messages between two ranks on one channel arrive in order; channels are independent, each for one
 * thread at a time. A peer that is gone, or silent for longer than the deadline (0: none), is an
 * error at every rank that waits for it, directly or not: an exchange that fails gives up for this
 * rank, and nobody hangs. */
typedef struct orr_transport orr_transport;
enum { ORR_CHANNELS = 8 };

/* A message each way at the same time; NULL and 0 bytes: none that way. Peers may be the same or
 * not; both sides agree on the number of bytes. */
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
    /* Returns when what is given has been taken over and what is wanted is there. Errors: IO:
     * "rank 3 is gone", "rank 3 said nothing for 30 s"; INVALID: lengths that do not agree. */
    orr_status (*exchange)(orr_transport *self, const orr_exchange *exchange, orr_error *err);
    /* All others learn that this rank gives up: their exchanges fail. */
    void (*abort)(orr_transport *self);
    void (*close)(orr_transport *self);
};

/* One rank that is alone. */
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
 * addresses "host:port". Errors: IO. */
orr_status orr_transport_tcp_connect(uint32_t rank, uint32_t ranks, int listener,
                                     const char *const *addresses, int64_t deadline_ns,
                                     orr_transport **ret, orr_error *err) ORR_MUST_CHECK;
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
