/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_SEARCH_PROCESSES_H
#define ORR_EXPLORE_SEARCH_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include <orrery/arena.h>
#include <orrery/status.h>

#include "io/transport/transport.h"

/* The processes of a distributed search, on one machine or many. Each runs the same search over the
 * same families and takes every n-th work item of a round; results are exchanged after the round.
 * Collective calls are made by all processes in the same order, by one thread of each. */
typedef struct orr_processes orr_processes;
/* Joins the processes that mpirun or srun started together; without them, this process alone. At
 * most once in a process, for closing ends MPI. Errors: IO, NO_MEMORY; UNSUPPORTED: several were
 * started, and this build has no MPI. */
orr_status orr_processes_open(orr_processes **ret, orr_error *err) ORR_MUST_CHECK;
/* Uses a transport that stays the caller's. */
orr_status orr_processes_over_transport(orr_transport *transport, orr_processes **ret,
                                        orr_error *err) ORR_MUST_CHECK;
/* Collective. NULL is allowed. */
void orr_processes_close(orr_processes *processes);
/* Gives up: every collective call of the others fails with IO, now or later. A failed collective
 * call has done this already. The object still has to be closed. */
void orr_processes_abort(orr_processes *processes);
uint32_t orr_processes_rank(const orr_processes *processes);
uint32_t orr_processes_count(const orr_processes *processes);
/* Collective: the minimum of `value` over the processes (INFINITY: none), and whether any has
 * `more`. */
orr_status orr_processes_allreduce_min(orr_processes *processes, double *value, bool *more,
                                       orr_error *err) ORR_MUST_CHECK;
/* Collective: the bytes of all processes in the order of their ranks; in the arena. */
orr_status orr_processes_allgather(orr_processes *processes, const void *mine, size_t n_bytes,
                                   orr_arena *arena, const void **ret, size_t *ret_bytes,
                                   orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPLORE_SEARCH_PROCESSES_H */
