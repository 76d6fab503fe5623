/* SPDX-License-Identifier: Apache-2.0 */
/* Which way of writing rows that have changed costs a device less. */
#include <orrery/measure.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "store/file/place.h"

const orr_measured_storage *orr_measured_storage_of(const orr_measured *measured, const char *path)
{
    const orr_measured_storage *found = NULL;
    size_t longest = 0;
    for (uint32_t k = 0; k < measured->n_storage; k++) {
        const char *folder = measured->storage[k].path;
        size_t length = strlen(folder);
        while (length > 1 && folder[length - 1] == '/')
            length--;
        const bool root = length == 1 && folder[0] == '/';
        if (strncmp(path, folder, length) != 0 ||
            (!root && path[length] != '/' && path[length] != '\0') || length < longest)
            continue;
        found = &measured->storage[k];
        longest = length;
    }
    return found;
}

/* The most requests per second of an access, at any depth; 0: not measured. */
static double best_per_s(const orr_measured_storage *storage, orr_storage_access access,
                         uint32_t bytes)
{
    double best = 0;
    for (uint32_t k = 0; k < storage->n_accesses; k++) {
        const orr_measured_access *a = &storage->accesses[k];
        if (a->access == access && (bytes == 0 || a->bytes == bytes) && a->per_s > best)
            best = a->per_s;
    }
    return best;
}

/* Bytes per second of transfers in sequence. */
static double rate(const orr_measured_storage *storage, orr_storage_access access)
{
    double best = 0;
    for (uint32_t k = 0; k < storage->n_accesses; k++) {
        const orr_measured_access *a = &storage->accesses[k];
        if (a->access == access && a->per_s * a->bytes > best)
            best = a->per_s * a->bytes;
    }
    return best;
}

/* The share of rows that an extent still has when it is cleaned: the root below 1 of
 * used = (c - 1) / ln c, which grows with c. */
static double left_when_cleaned(double used)
{
    double low = 0, high = 1;
    for (int k = 0; k < 60; k++) {
        const double c = (low + high) / 2;
        if (c <= 0 || (c - 1) / log(c) < used)
            low = c;
        else
            high = c;
    }
    return (low + high) / 2;
}

/* A write of some sectors at a random place: as one of a sector takes, or as long as its bytes take
 * in sequence. */
static double random_write_ns(const orr_measured_storage *storage, double bytes)
{
    double per_s = best_per_s(storage, ORR_STORAGE_RANDOM_WRITE, storage->sector);
    if (per_s <= 0)
        per_s = best_per_s(storage, ORR_STORAGE_RANDOM_WRITE, 0);
    const double alone_ns = 1e9 / per_s, moved_ns = bytes * 1e9 / rate(storage, ORR_STORAGE_WRITE);
    return alone_ns > moved_ns ? alone_ns : moved_ns;
}

static void explain(orr_write_costs *costs, double used_frac, double most_used)
{
    if (isinf(costs->holes_ns))
        snprintf(costs->reason, sizeof costs->reason,
                 "extents: groups of rows come free only while at most %.0f %% of the "
                 "places are in use, and %.0f %% are",
                 100 * most_used, 100 * used_frac);
    else
        snprintf(costs->reason, sizeof costs->reason,
                 "%s: a changed row costs %.2f us of the device in free sectors, %.2f us in "
                 "extents that are cleaned at %.0f %% in use",
                 costs->holes ? "holes" : "extents", costs->holes_ns / 1e3, costs->extents_ns / 1e3,
                 100 * used_frac);
}

orr_status orr_storage_write_costs(const orr_measured_storage *storage, uint32_t record_bytes,
                                   double used_frac, orr_write_costs *ret, orr_error *err)
{
    if (!(used_frac > 0 && used_frac < 1))
        return orr_fail(err, ORR_INVALID,
                        "a share of %g of the places in use is not between 0 and 1", used_frac);
    const double read = rate(storage, ORR_STORAGE_READ), write = rate(storage, ORR_STORAGE_WRITE);
    if (read <= 0 || write <= 0 || best_per_s(storage, ORR_STORAGE_RANDOM_WRITE, 0) <= 0)
        return orr_fail(err, ORR_NOT_FOUND, "%s: writes were not measured; see `orrery bench`",
                        storage->path);
    orr_row_shape shape;
    ORR_TRY(orr_row_shape_of(record_bytes, 0, storage->sector, &shape, err));
    const double group_bytes = (double)shape.group_sectors * storage->sector,
                 row_bytes = group_bytes / shape.per_group;
    const double left = left_when_cleaned(used_frac);
    double harmonic = 0;
    for (uint32_t k = 1; k <= shape.per_group; k++)
        harmonic += 1.0 / k;
    orr_write_costs costs = {.extents_ns = row_bytes * 1e9 *
                                           (1 / write + (left > 1e-9 ? 1 / read : 0)) / (1 - left)};
    /* Among groups of which a share is in use, runs of free ones are 1 / share long. */
    costs.holes_ns = used_frac < 1 / harmonic ? random_write_ns(storage, group_bytes / used_frac) *
                                                    used_frac / shape.per_group
                                              : INFINITY;
    costs.holes = costs.holes_ns < costs.extents_ns;
    explain(&costs, used_frac, 1 / harmonic);
    *ret = costs;
    return ORR_OK;
}
