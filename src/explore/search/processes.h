/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_SEARCH_PROCESSES_H
#define ORR_EXPLORE_SEARCH_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include <orrery/arena.h>
#include <orrery/status.h>

#include "io/transport/transport.h"

/* A search over several processes, of one machine or of many. All of them run the same search over
 * the same list of families and take every n-th; now and then they meet to tell one another the
 * best that they have, and in the end what they found. Calls that meet are made by all processes in
 * the same order, by one thread of each. */
typedef struct orr_processes orr_processes;
/* Those that mpirun or srun started together; else this process alone. Started so, once in a
 * process: MPI ends with the close. Errors: IO, NO_MEMORY; UNSUPPORTED: several were started, and
 * this build has no MPI. */
orr_status orr_processes_open(orr_processes **ret, orr_error *err) ORR_MUST_CHECK;
/* Over what the caller brings, which stays the caller's. */
orr_status orr_processes_over_transport(orr_transport *transport, orr_processes **ret,
                                        orr_error *err) ORR_MUST_CHECK;
/* At the end, by all. NULL is allowed. */
void orr_processes_close(orr_processes *share);
/* This process cannot go on: wherever the others meet, now or later, they fail with IO. After a
 * meeting that failed it has happened already. Close as ever. */
void orr_processes_abort(orr_processes *share);
uint32_t orr_processes_rank(const orr_processes *share);
uint32_t orr_processes_count(const orr_processes *share);
/* Meets: the least of everybody's `value` (INFINITY: none), and whether anybody says `more`. */
orr_status orr_processes_allreduce_min(orr_processes *share, double *value, bool *more,
                                       orr_error *err) ORR_MUST_CHECK;
/* Meets: everybody's bytes one behind the other, by rank; the same at all. In the arena. */
orr_status orr_processes_allgather(orr_processes *share, const void *mine, size_t n_bytes,
                                   orr_arena *arena, const void **ret, size_t *ret_bytes,
                                   orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPLORE_SEARCH_PROCESSES_H */
