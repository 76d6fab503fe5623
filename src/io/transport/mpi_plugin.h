/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_TRANSPORT_MPI_PLUGIN_H
#define ORR_IO_TRANSPORT_MPI_PLUGIN_H

#include <stddef.h>

#include "io/transport/transport.h"

/* What the MPI plugin gives. It is a shared module of its own, opened only by processes that mpirun
 * or Slurm started, so that nobody else needs an MPI library; and it calls nothing of this library.
 */
enum { ORR_MPI_PLUGIN_VERSION = 1 };
#define ORR_MPI_PLUGIN_SYMBOL "orr_mpi_plugin_table"

/* orr_status of each; `why` is one sentence when it is not ORR_OK. CANCELED: a rank gave up. */
typedef struct orr_mpi_plugin {
    int version;
    int (*open)(int64_t deadline_ns, uint32_t *ret_rank, uint32_t *ret_ranks, char *why,
                size_t room);
    int (*exchange)(const orr_exchange *x, char *why, size_t room);
    void (*abort)(void);
    uint32_t (*given_up)(void); /* who did */
    void (*close)(void);
} orr_mpi_plugin;

#endif /* ORR_IO_TRANSPORT_MPI_PLUGIN_H */
