/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/search/processes.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "io/transport/transport.h"

/* Collectives of a distributed search over the transport. They are rare and short, so everything is
 * an all-to-all exchange after which each process computes the same result. */
struct orr_processes {
    orr_transport *transport;
    bool owns_transport; /* closed with this object */
};

orr_status orr_processes_over_transport(orr_transport *transport, orr_processes **ret,
                                        orr_error *err)
{
    orr_processes *processes = orr_calloc(1, sizeof *processes);
    if (processes == NULL)
        return orr_fail_memory(err);
    processes->transport = transport;
    *ret = processes;
    return ORR_OK;
}

orr_status orr_processes_open(orr_processes **ret, orr_error *err)
{
    uint32_t rank = 0, ranks = 1;
    orr_transport *transport = orr_transport_self();
    const bool together = orr_launcher_ranks(&rank, &ranks) && ranks > 1;
    if (together)
        ORR_TRY(orr_transport_mpi_connect(0, &transport, err));
    const orr_status status = orr_processes_over_transport(transport, ret, err);
    if (status == ORR_OK)
        (*ret)->owns_transport = together;
    else if (together)
        transport->abort(transport);
    return status;
}

void orr_processes_close(orr_processes *processes)
{
    if (processes == NULL)
        return;
    if (processes->owns_transport)
        processes->transport->close(processes->transport);
    orr_free(processes);
}

void orr_processes_abort(orr_processes *processes)
{
    processes->transport->abort(processes->transport);
}

uint32_t orr_processes_rank(const orr_processes *processes)
{
    return processes->transport->rank;
}

uint32_t orr_processes_count(const orr_processes *processes)
{
    return processes->transport->ranks;
}

/* Aborts the transport, so that no process waits for one that cannot take part. */
static orr_status no_memory(orr_processes *processes, orr_error *err)
{
    orr_processes_abort(processes);
    return orr_fail_memory(err);
}

/* --- collectives ----------------------------------------------------------------------------- */

/* The part of rank r in `all` is [first[r], first[r + 1]). */
static orr_status exchange_all(orr_processes *processes, const void *mine, const size_t *first,
                               uint8_t *all, orr_error *err)
{
    orr_transport *t = processes->transport;
    const size_t n_bytes = first[t->rank + 1] - first[t->rank];
    if (n_bytes > 0)
        memcpy(all + first[t->rank], mine, n_bytes);
    for (uint32_t k = 1; k < t->ranks; k++) {
        const uint32_t to = (t->rank + k) % t->ranks, from = (t->rank + t->ranks - k) % t->ranks;
        const orr_exchange x = {.to = to,
                                .from = from,
                                .out = mine,
                                .in = all + first[from],
                                .out_bytes = n_bytes,
                                .in_bytes = first[from + 1] - first[from]};
        ORR_TRY(t->exchange(t, &x, err));
    }
    return ORR_OK;
}

/* Exchanges `n_bytes` of each process; the result is to be freed. */
static orr_status exchange_same(orr_processes *processes, const void *mine, size_t n_bytes,
                                void **ret, orr_error *err)
{
    const uint32_t ranks = processes->transport->ranks;
    size_t all_bytes = 0;
    uint8_t *all = NULL;
    size_t *first = orr_calloc((size_t)ranks + 1, sizeof *first);
    if (orr_mul_size(n_bytes, ranks, &all_bytes))
        all = orr_malloc(all_bytes);
    for (uint32_t r = 0; first != NULL && r < ranks; r++)
        first[r + 1] = (r + 1) * n_bytes;
    const orr_status status = first != NULL && all != NULL
                                  ? exchange_all(processes, mine, first, all, err)
                                  : no_memory(processes, err);
    orr_free(first);
    if (status == ORR_OK)
        *ret = all;
    else
        orr_free(all);
    return status;
}

orr_status orr_processes_allreduce_min(orr_processes *processes, double *value, bool *more,
                                       orr_error *err)
{
    typedef struct contribution {
        double value;
        uint64_t more;
    } contribution;
    const contribution mine = {.value = *value, .more = *more};
    void *all = NULL;
    ORR_TRY(exchange_same(processes, &mine, sizeof mine, &all, err));
    const contribution *values = all;
    double least = INFINITY;
    bool any = false;
    for (uint32_t r = 0; r < processes->transport->ranks; r++) {
        least = values[r].value < least ? values[r].value : least;
        any |= values[r].more != 0;
    }
    orr_free(all);
    *value = least;
    *more = any;
    return ORR_OK;
}

/* Offset of each rank's part. NULL: the sum overflows, or out of memory. */
static size_t *offsets(const uint64_t *sizes, uint32_t ranks)
{
    size_t *first = orr_calloc((size_t)ranks + 1, sizeof *first);
    for (uint32_t r = 0; first != NULL && r < ranks; r++)
        if (!orr_add_size(first[r], sizes[r], &first[r + 1])) {
            orr_free(first);
            return NULL;
        }
    return first;
}

orr_status orr_processes_allgather(orr_processes *processes, const void *mine, size_t n_bytes,
                                   orr_arena *arena, const void **ret, size_t *ret_bytes,
                                   orr_error *err)
{
    const uint32_t ranks = processes->transport->ranks;
    const uint64_t size = n_bytes;
    void *sizes = NULL;
    ORR_TRY(exchange_same(processes, &size, sizeof size, &sizes, err));
    size_t *first = offsets(sizes, ranks);
    uint8_t *all =
        first != NULL ? orr_arena_alloc(arena, first[ranks], 1, _Alignof(max_align_t)) : NULL;
    const orr_status status =
        all != NULL ? exchange_all(processes, mine, first, all, err) : no_memory(processes, err);
    if (status == ORR_OK) {
        *ret = all;
        *ret_bytes = first[ranks];
    }
    orr_free(first);
    orr_free(sizes);
    return status;
}
