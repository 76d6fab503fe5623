/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <orrery/machine.h>

#include "base/alloc.h"

static int by_rank(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool ascending(const uint32_t *ranks, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (ranks[i - 1] >= ranks[i])
            return false;
    return true;
}

/* First rank behind the unit of `devices` that holds the rank. */
static uint64_t end_of_unit(uint32_t rank, uint32_t devices)
{
    return ((uint64_t)rank / devices + 1) * devices;
}

/* Of ascending ranks: the most units of `below` devices in one unit of `devices`; *even turns
 * false where two units have different numbers of them. Divides once a unit, not once a rank. */
static uint32_t width_of(const uint32_t *ranks, uint32_t n, uint32_t below, uint32_t devices,
                         bool *even)
{
    uint32_t most = 0, width = 0, least = UINT32_MAX;
    uint64_t below_end = 0, unit_end = end_of_unit(ranks[0], devices);
    for (uint32_t i = 0; i < n; i++) {
        if (ranks[i] < below_end)
            continue;
        if (ranks[i] >= unit_end) {
            least = width < least ? width : least;
            width = 0;
            unit_end = end_of_unit(ranks[i], devices);
        }
        below_end = end_of_unit(ranks[i], below);
        width++;
        most = width > most ? width : most;
    }
    *even &= most == (width < least ? width : least);
    return most;
}

static void span_of(const orr_cluster *cluster, const uint32_t *ranks, uint32_t n, orr_span *ret)
{
    orr_span span = {.n_ranks = n, .n_levels = cluster->n_levels, .even = true};
    uint32_t below = 1;
    for (uint32_t l = 0; l < cluster->n_levels; l++) {
        span.width[l] = width_of(ranks, n, below, cluster->levels[l].devices, &span.even);
        below = cluster->levels[l].devices;
        if (span.width[l] > 1)
            span.top = l;
    }
    *ret = span;
}

static orr_status check(const orr_cluster *cluster, const uint32_t *ranks, uint32_t n,
                        orr_error *err)
{
    if (n == 0)
        return orr_fail(err, ORR_INVALID, "a process group without ranks");
    for (uint32_t i = 0; i < n; i++) {
        if (ranks[i] >= cluster->n_devices)
            return orr_fail(err, ORR_INVALID, "rank %u: cluster '%s' has %u devices", ranks[i],
                            cluster->name, cluster->n_devices);
        if (i > 0 && ranks[i] == ranks[i - 1])
            return orr_fail(err, ORR_INVALID, "rank %u is twice in one process group", ranks[i]);
    }
    return ORR_OK;
}

orr_status orr_cluster_span(const orr_cluster *cluster, const uint32_t *ranks, uint32_t n,
                            orr_span *ret, orr_error *err)
{
    uint32_t *sorted = NULL;
    if (!ascending(ranks, n)) {
        sorted = orr_calloc(n, sizeof *sorted);
        if (sorted == NULL)
            return orr_fail_memory(err);
        memcpy(sorted, ranks, n * sizeof *sorted);
        qsort(sorted, n, sizeof *sorted, by_rank);
        ranks = sorted;
    }
    const orr_status status = check(cluster, ranks, n, err);
    if (status == ORR_OK)
        span_of(cluster, ranks, n, ret);
    orr_free(sorted);
    return status;
}
