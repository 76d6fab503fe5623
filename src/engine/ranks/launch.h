/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_RANKS_LAUNCH_H
#define ORR_ENGINE_RANKS_LAUNCH_H

#include <stdbool.h>

#include "io/transport/transport.h"

/* Ranks as processes. The caller is rank 0; the others are forked from it, so no threads may exist
 * yet. Under mpirun or Slurm (with MPI built in) the processes exist already, and `n` must be their
 * number or 0.
 *
 * body runs in each; a forked process ends after it. When one fails or dies, exchanges of the
 * others fail too, all end, and the caller gets the first cause: "rank 2: ..." or "rank 2 was
 * killed by signal 9". Forked ranks leave SIGINT, SIGTERM, SIGHUP and SIGUSR1 to the caller, and end
 * when it does. */
typedef enum orr_ranks_kind {
    ORR_RANKS_AUTO,
    ORR_RANKS_SHM,
    ORR_RANKS_TCP,
    ORR_RANKS_MPI
} orr_ranks_kind;
typedef orr_status orr_ranks_body(void *ctx, orr_transport *transport, orr_error *err);
orr_status orr_ranks_run(uint32_t n, orr_ranks_kind kind, int64_t deadline_ns, orr_ranks_body *body,
                         void *ctx, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_RANKS_LAUNCH_H */
