/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/search/processes.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "io/transport/transport.h"

/* Meetings are rare and what is said is short: everybody tells everybody, and works out the same.
 */
struct orr_processes {
    orr_transport *transport;
    bool is_ours; /* to be closed */
};

orr_status orr_processes_over_transport(orr_transport *transport, orr_processes **ret,
                                        orr_error *err)
{
    orr_processes *share = orr_calloc(1, sizeof *share);
    if (share == NULL)
        return orr_fail_memory(err);
    share->transport = transport;
    *ret = share;
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
        (*ret)->is_ours = together;
    else if (together)
        transport->abort(transport);
    return status;
}

void orr_processes_close(orr_processes *share)
{
    if (share == NULL)
        return;
    if (share->is_ours)
        share->transport->close(share->transport);
    orr_free(share);
}

void orr_processes_abort(orr_processes *share)
{
    share->transport->abort(share->transport);
}

uint32_t orr_processes_rank(const orr_processes *share)
{
    return share->transport->rank;
}

uint32_t orr_processes_count(const orr_processes *share)
{
    return share->transport->ranks;
}

/* Nobody waits for a process that cannot take part. */
static orr_status no_memory(orr_processes *share, orr_error *err)
{
    orr_processes_abort(share);
    return orr_fail_memory(err);
}

/* --- rendezvous --------------------------------------------------------------------------------
 */

/* Rank r's part of `all` is [first[r], first[r + 1]). */
static orr_status exchange_all(orr_processes *share, const void *mine, const size_t *first,
                               uint8_t *all, orr_error *err)
{
    orr_transport *t = share->transport;
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

/* So many bytes of each, in memory to be freed. */
static orr_status exchange_same(orr_processes *share, const void *mine, size_t n_bytes, void **ret,
                                orr_error *err)
{
    const uint32_t ranks = share->transport->ranks;
    size_t all_bytes = 0;
    uint8_t *all = NULL;
    size_t *first = orr_calloc((size_t)ranks + 1, sizeof *first);
    if (orr_mul_size(n_bytes, ranks, &all_bytes))
        all = orr_malloc(all_bytes);
    for (uint32_t r = 0; first != NULL && r < ranks; r++)
        first[r + 1] = (r + 1) * n_bytes;
    const orr_status status = first != NULL && all != NULL
                                  ? exchange_all(share, mine, first, all, err)
                                  : no_memory(share, err);
    orr_free(first);
    if (status == ORR_OK)
        *ret = all;
    else
        orr_free(all);
    return status;
}

orr_status orr_processes_allreduce_min(orr_processes *share, double *value, bool *more,
                                       orr_error *err)
{
    typedef struct word {
        double value;
        uint64_t more;
    } word;
    const word mine = {.value = *value, .more = *more};
    void *all = NULL;
    ORR_TRY(exchange_same(share, &mine, sizeof mine, &all, err));
    const word *words = all;
    double least = INFINITY;
    bool any = false;
    for (uint32_t r = 0; r < share->transport->ranks; r++) {
        least = words[r].value < least ? words[r].value : least;
        any |= words[r].more != 0;
    }
    orr_free(all);
    *value = least;
    *more = any;
    return ORR_OK;
}

/* Where each begins; NULL: more than there is room for. */
static size_t *places(const uint64_t *sizes, uint32_t ranks)
{
    size_t *first = orr_calloc((size_t)ranks + 1, sizeof *first);
    for (uint32_t r = 0; first != NULL && r < ranks; r++)
        if (!orr_add_size(first[r], sizes[r], &first[r + 1])) {
            orr_free(first);
            return NULL;
        }
    return first;
}

orr_status orr_processes_allgather(orr_processes *share, const void *mine, size_t n_bytes,
                                   orr_arena *arena, const void **ret, size_t *ret_bytes,
                                   orr_error *err)
{
    const uint32_t ranks = share->transport->ranks;
    const uint64_t size = n_bytes;
    void *sizes = NULL;
    ORR_TRY(exchange_same(share, &size, sizeof size, &sizes, err));
    size_t *first = places(sizes, ranks);
    uint8_t *all =
        first != NULL ? orr_arena_alloc(arena, first[ranks], 1, _Alignof(max_align_t)) : NULL;
    const orr_status status =
        all != NULL ? exchange_all(share, mine, first, all, err) : no_memory(share, err);
    if (status == ORR_OK) {
        *ret = all;
        *ret_bytes = first[ranks];
    }
    orr_free(first);
    orr_free(sizes);
    return status;
}
