/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPLAY_PROGRAM_H
#define ORR_REPLAY_PROGRAM_H

#include "replay/select.h"

/* A selection as a program with its memory. */
typedef struct orr_replay_program {
    orr_replay_builder builder;
    orr_program *program;
    orr_backend *backend;
    orr_binding *bindings;
    void *storages; /* memory of all recorded storages */
    size_t storage_bytes;
    int64_t memory_bytes;
    int64_t *start_ns, *end_ns; /* shape (calls) */
} orr_replay_program;

/* Also sets how each unit is run. `communicator`: with the other ranks, or NULL. Errors:
 * UNSUPPORTED: strict, and an operator would be emulated; LIMIT; NO_MEMORY. Close it after a
 * failure too. */
orr_status orr_replay_program_open(const orr_graph *graph, const orr_replay_options *options,
                                   const orr_replay_selection *selection,
                                   orr_communicator *communicator, orr_backend *backend,
                                   orr_workers *workers, orr_arena *arena, orr_replay_program *ret,
                                   orr_error *err) ORR_MUST_CHECK;
void orr_replay_program_close(orr_replay_program *p);

#endif /* ORR_REPLAY_PROGRAM_H */
