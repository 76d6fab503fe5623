/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "trace/link/link.h"

/* Pairs threads of the two traces by their contents, and their operators by sequence alignment of
 * names: a greedy diff. Where the sequences differ, it resynchronizes at the nearest place where
 * they agree, within NEARBY operators, or else at the next occurrence in the device trace of a run
 * of RUN = 6 names (an n-gram index). Linear, but for the sort of the index. */
enum { RUN = 6, NEARBY = 24, SHORT = 64, LONGEST_SAMPLE = 4096, MOST_LANES = 64 };

typedef struct sequence {
    orr_node_id *node;
    orr_str *name; /* name in the device trace's strings; ORR_NONE: does not occur there */
    uint32_t n;
} sequence;

/* The index: positions of runs of RUN names in the device trace's sequence. */
typedef struct run {
    uint64_t hash;
    uint32_t at;
} run;

typedef struct aligner {
    orr_linker *link;
    sequence host, device;
    run *runs;
    uint32_t n_runs;
    uint32_t matched;
} aligner;

/* The unpaired operators among nodes[0..n), a stretch of a lane. */
static bool make_sequence(const orr_linker *link, bool of_host, const orr_node_id *nodes,
                          uint32_t n, sequence *ret)
{
    const orr_graph *g = of_host ? link->host : link->device;
    *ret = (sequence){.node = orr_arena_array(link->arena, orr_node_id, n),
                      .name = orr_arena_array(link->arena, orr_str, n)};
    if (ret->node == NULL || ret->name == NULL)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const orr_node_id v = nodes[i];
        if (!orr_link_is_op(g, v) || (of_host ? link->partner[v] != ORR_NONE : link->taken[v]))
            continue;
        ret->node[ret->n] = v;
        ret->name[ret->n++] = of_host ? link->name[g->name[v]] : g->name[v];
    }
    return true;
}

static uint64_t hash_run(const orr_str *name)
{
    uint64_t hash = 0;
    for (int i = 0; i < RUN; i++)
        hash = (hash ^ name[i]) * UINT64_C(0x9E3779B97F4A7C15) + (hash >> 29);
    return hash;
}

static int by_hash(const void *a, const void *b)
{
    const run *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static bool make_runs(aligner *a)
{
    a->n_runs = a->device.n >= RUN ? a->device.n - RUN + 1 : 0;
    a->runs = orr_arena_array(a->link->arena, run, a->n_runs);
    if (a->runs == NULL)
        return false;
    for (uint32_t i = 0; i < a->n_runs; i++)
        a->runs[i] = (run){hash_run(a->device.name + i), i};
    qsort(a->runs, a->n_runs, sizeof *a->runs, by_hash);
    return true;
}

/* The first position from `from` on where the device's names run like the host's at i. */
static uint32_t find_run(const aligner *a, uint32_t i, uint32_t from)
{
    const run wanted = {hash_run(a->host.name + i), from};
    uint32_t low = 0, high = a->n_runs;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (by_hash(&a->runs[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < a->n_runs && a->runs[low].hash == wanted.hash ? a->runs[low].at : ORR_NONE;
}

/* Whether the next two names agree, or all that are left. */
static bool agree(const aligner *a, uint32_t i, uint32_t j)
{
    for (uint32_t k = 0; k < 2; k++) {
        if (i + k >= a->host.n || j + k >= a->device.n)
            return k > 0;
        if (a->host.name[i + k] != a->device.name[j + k])
            return false;
    }
    return true;
}

/* Advances *i and *j to the nearest place where they agree. */
static bool resync_nearby(const aligner *a, uint32_t *i, uint32_t *j)
{
    for (uint32_t distance = 1; distance <= NEARBY; distance++)
        for (uint32_t skip = 0; skip <= distance; skip++)
            if (*i + skip < a->host.n && *j + distance - skip < a->device.n &&
                agree(a, *i + skip, *j + distance - skip)) {
                *i += skip;
                *j += distance - skip;
                return true;
            }
    return false;
}

static void pair(aligner *a, uint32_t i, uint32_t j, bool keep)
{
    a->matched++;
    if (!keep)
        return;
    a->link->partner[a->host.node[i]] = a->device.node[j];
    a->link->taken[a->device.node[j]] = true;
}

/* Two operators with seemingly equal times may be in either order. */
static bool is_swapped(const aligner *a, uint32_t i, uint32_t j)
{
    return i + 1 < a->host.n && j + 1 < a->device.n && a->host.name[i] == a->device.name[j + 1] &&
           a->host.name[i + 1] == a->device.name[j];
}

/* Aligns both sequences, up to `most` operators of the host trace; records pairs only if `keep`. */
static void align(aligner *a, uint32_t most, bool keep)
{
    uint32_t i = 0, j = 0;
    bool in_step = false;
    while (i < a->host.n && i < most && j < a->device.n) {
        if (in_step ? a->host.name[i] == a->device.name[j] : agree(a, i, j)) {
            pair(a, i++, j++, keep);
            in_step = true;
            continue;
        }
        if (in_step && is_swapped(a, i, j)) {
            pair(a, i, j + 1, keep);
            pair(a, i + 1, j, keep);
            i += 2, j += 2;
            continue;
        }
        const bool near = in_step || a->device.n - j <= SHORT;
        in_step = false;
        if (near && resync_nearby(a, &i, &j))
            continue;
        const uint32_t at = i + RUN <= a->host.n ? find_run(a, i, j + 1) : ORR_NONE;
        if (at != ORR_NONE)
            j = at;
        else
            i++;
    }
}

static uint32_t lane_size(const orr_graph *g, uint32_t lane)
{
    return g->lane_first[lane + 1] - g->lane_first[lane];
}

/* Aligns a stretch of a host lane with one of a device lane. */
static orr_status align_stretch(orr_linker *link, const orr_node_id *host, uint32_t n_host,
                                const orr_node_id *device, uint32_t n_device, bool keep,
                                uint32_t *ret_matched, orr_error *err)
{
    const orr_arena_mark mark = orr_arena_get_mark(link->arena);
    aligner a = {.link = link};
    const bool ready = make_sequence(link, true, host, n_host, &a.host) &&
                       make_sequence(link, false, device, n_device, &a.device) && make_runs(&a);
    if (ready)
        align(&a, keep ? UINT32_MAX : LONGEST_SAMPLE, keep);
    *ret_matched += a.matched;
    orr_arena_rewind(link->arena, mark);
    return ready ? ORR_OK : orr_fail_memory(err);
}

/* Similarity of two lanes: operators of the host lane that would be paired. */
static orr_status fit(orr_linker *link, uint32_t host_lane, uint32_t device_lane, uint32_t *ret,
                      orr_error *err)
{
    const orr_graph *host = link->host, *device = link->device;
    *ret = 0;
    return align_stretch(link, host->lane_node + host->lane_first[host_lane],
                         lane_size(host, host_lane),
                         device->lane_node + device->lane_first[device_lane],
                         lane_size(device, device_lane), false, ret, err);
}

/* Pairs lanes by the operators that were paired by id. */
static orr_status pair_by_votes(orr_linker *link, orr_error *err)
{
    const orr_graph *host = link->host, *device = link->device;
    const orr_arena_mark mark = orr_arena_get_mark(link->arena);
    uint32_t *votes = orr_arena_array(link->arena, uint32_t, device->n_lanes);
    if (votes == NULL)
        return orr_fail_memory(err);
    for (uint32_t l = 0; l < host->n_lanes; l++) {
        uint32_t best = 0;
        memset(votes, 0, device->n_lanes * sizeof *votes);
        for (uint32_t i = host->lane_first[l]; i < host->lane_first[l + 1]; i++) {
            const orr_node_id d = link->partner[host->lane_node[i]];
            if (d == ORR_NONE || ++votes[device->lane[d]] <= best)
                continue;
            best = votes[device->lane[d]];
            link->lane[l] = device->lane[d];
        }
    }
    orr_arena_rewind(link->arena, mark);
    return ORR_OK;
}

static bool is_paired(const orr_linker *link, uint32_t device_lane)
{
    for (uint32_t l = 0; l < link->host->n_lanes; l++)
        if (link->lane[l] == device_lane)
            return true;
    return false;
}

/* The lanes with most nodes, at most MOST_LANES. */
static uint32_t largest_lanes(const orr_graph *g, uint32_t ret[MOST_LANES])
{
    uint32_t n = 0;
    for (uint32_t l = 0; l < g->n_lanes; l++) {
        if (g->lanes[l].kind != ORR_LANE_HOST)
            continue;
        if (n == MOST_LANES && lane_size(g, ret[n - 1]) >= lane_size(g, l))
            continue;
        uint32_t at = n < MOST_LANES ? n++ : MOST_LANES - 1;
        for (; at > 0 && lane_size(g, ret[at - 1]) < lane_size(g, l); at--)
            ret[at] = ret[at - 1];
        ret[at] = l;
    }
    return n;
}

/* Pairs other lanes by similarity, the largest choosing first. */
static orr_status pair_by_fit(orr_linker *link, orr_error *err)
{
    uint32_t hosts[MOST_LANES], devices[MOST_LANES];
    const uint32_t n_hosts = largest_lanes(link->host, hosts);
    const uint32_t n_devices = largest_lanes(link->device, devices);
    for (uint32_t h = 0; h < n_hosts; h++) {
        uint32_t best = 0;
        if (link->lane[hosts[h]] != ORR_NONE)
            continue;
        uint32_t chosen = ORR_NONE;
        for (uint32_t d = 0; d < n_devices; d++) {
            uint32_t fits;
            if (is_paired(link, devices[d]))
                continue;
            ORR_TRY(fit(link, hosts[h], devices[d], &fits, err));
            if (fits > best) {
                best = fits;
                chosen = devices[d];
            }
        }
        link->lane[hosts[h]] = chosen;
    }
    return ORR_OK;
}

/* Position of each node of the device trace in its lane. */
static uint32_t *make_places(const orr_graph *g, orr_arena *arena)
{
    uint32_t *place = orr_arena_array(arena, uint32_t, g->n_nodes);
    for (uint32_t i = 0; place != NULL && i < g->n_nodes; i++)
        place[g->lane_node[i]] = i;
    return place;
}

/* Aligns two paired lanes, stretch by stretch between operators that were paired by id. */
static orr_status align_lanes(orr_linker *link, uint32_t host_lane, const uint32_t *place,
                              uint32_t *ret_matched, orr_error *err)
{
    const orr_graph *host = link->host, *device = link->device;
    const uint32_t lane = link->lane[host_lane], end = host->lane_first[host_lane + 1];
    const uint32_t device_end = device->lane_first[lane + 1];
    uint32_t begin = host->lane_first[host_lane], device_begin = device->lane_first[lane];
    for (uint32_t i = begin; i <= end; i++) {
        const orr_node_id d = i < end ? link->partner[host->lane_node[i]] : ORR_NONE;
        uint32_t stop = device_end;
        if (i < end) {
            if (d == ORR_NONE || device->lane[d] != lane || place[d] < device_begin)
                continue;
            stop = place[d];
        }
        if (i > begin && stop > device_begin)
            ORR_TRY(align_stretch(link, host->lane_node + begin, i - begin,
                                  device->lane_node + device_begin, stop - device_begin, true,
                                  ret_matched, err));
        begin = i + 1;
        device_begin = stop + 1;
    }
    return ORR_OK;
}

orr_status orr_link_by_order(orr_linker *link, uint32_t *ret_matched, orr_error *err)
{
    const uint32_t *place = make_places(link->device, link->arena);
    *ret_matched = 0;
    if (place == NULL)
        return orr_fail_memory(err);
    ORR_TRY(pair_by_votes(link, err));
    ORR_TRY(pair_by_fit(link, err));
    for (uint32_t l = 0; l < link->host->n_lanes; l++)
        if (link->lane[l] != ORR_NONE)
            ORR_TRY(align_lanes(link, l, place, ret_matched, err));
    return ORR_OK;
}
