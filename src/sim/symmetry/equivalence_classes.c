/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/symmetry/fold.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strtab.h"
#include "sim/symmetry/partition.h"

/* Equivalence classes of ranks, by partition refinement of a bipartite graph: vertices are ranks,
 * then groups, and an edge joins a rank to each group in which its graph communicates; where
 * transfers share links, flows and links follow, with an edge from a flow to its group and to each
 * link that it crosses. Initial colours are what a vertex shows by itself: of a rank its graph,
 * start time and slowdown; of a group its grouping and, where prices depend on positions, its
 * members' graphs and distances. Classes are then numbered by their first rank, which represents
 * them, so that the result does not depend on how the refinement numbers them. */
typedef struct folder {
    const orr_ensemble *ensemble;
    const orr_prepared_program *prepared_programs;
    const orr_cluster *cluster;
    orr_fold_network *network; /* NULL: no flows */
    uint32_t n_ranks, n_vertices, first_flow, first_link;
    uint32_t *first_group; /* shape (n_groupings + 1): vertex of group 0 of each grouping */
    uint32_t *class_of;    /* shape (n_vertices) */
    uint32_t n_classes;
    uint32_t *first, *to; /* neighbours */
} folder;

static orr_status number_vertices(folder *f, orr_error *err)
{
    const orr_ensemble *e = f->ensemble;
    uint64_t n = e->n_ranks;
    f->first_group = orr_calloc((size_t)e->n_groupings + 1, sizeof *f->first_group);
    if (f->first_group == NULL)
        return orr_fail_memory(err);
    for (uint32_t k = 0; k < e->n_groupings; k++) {
        f->first_group[k] = (uint32_t)n;
        n += e->groupings[k].n_groups;
        if (n > UINT32_MAX - 2)
            return orr_fail(err, ORR_LIMIT, "over 2^32 - 2 ranks and groups");
    }
    f->first_group[e->n_groupings] = f->first_flow = f->first_link = (uint32_t)n;
    if (f->network != NULL) {
        f->first_link += f->network->n_flows;
        n += (uint64_t)f->network->n_flows + f->network->n_links;
        if (n > UINT32_MAX - 2)
            return orr_fail(err, ORR_LIMIT, "over 2^32 - 2 flows and links");
    }
    f->n_vertices = (uint32_t)n;
    f->class_of = orr_calloc((size_t)n + 1, sizeof *f->class_of);
    f->first = orr_calloc((size_t)n + 2, sizeof *f->first);
    return f->class_of && f->first ? ORR_OK : orr_fail_memory(err);
}

/* Calls visit() for each edge of flows: with their groups and with the links that they cross. */
static void each_flow_edge(folder *f, void (*visit)(folder *f, uint32_t a, uint32_t b))
{
    const orr_fold_network *network = f->network;
    for (uint32_t i = 0; network != NULL && i < network->n_flows; i++) {
        visit(f, f->first_flow + i, f->n_ranks + network->group_of_flow[i]);
        for (uint32_t h = network->hop_first[i]; h < network->hop_first[i + 1]; h++)
            visit(f, f->first_flow + i, f->first_link + network->hops[h]);
    }
}

/* Calls visit() for each edge. A rank's calls are sorted by grouping. */
static void each_edge(folder *f, void (*visit)(folder *f, uint32_t rank, uint32_t group_vertex))
{
    each_flow_edge(f, visit);
    for (uint32_t r = 0; r < f->n_ranks; r++) {
        if (f->ensemble->graph_of_rank[r] == ORR_NONE)
            continue;
        const orr_prepared_program *prepared = &f->prepared_programs[f->ensemble->graph_of_rank[r]];
        for (uint32_t i = 0, end; i < prepared->n_calls; i = end) {
            const uint32_t k = prepared->calls[i].grouping;
            const uint32_t group = f->ensemble->groupings[k].group_of[r];
            orr_prepared_calls_of(prepared, k, &i, &end);
            if (group != ORR_NONE)
                visit(f, r, f->first_group[k] + group);
        }
    }
}

static void count_edge(folder *f, uint32_t rank, uint32_t group)
{
    f->first[rank + 2]++;
    f->first[group + 2]++;
}

static void add_edge(folder *f, uint32_t rank, uint32_t group)
{
    f->to[f->first[rank + 1]++] = group;
    f->to[f->first[group + 1]++] = rank;
}

static orr_status find_edges(folder *f, orr_error *err)
{
    each_edge(f, count_edge); /* rows are shifted by two; after adding edges each row's start is
                               * in place */
    uint64_t n = 0;
    for (uint32_t v = 0; v < f->n_vertices; v++)
        n += f->first[v + 2];
    if (n > UINT32_MAX)
        return orr_fail(err, ORR_LIMIT, "over 2^31 members of groups");
    f->to = orr_calloc((size_t)n + 1, sizeof *f->to);
    if (f->to == NULL)
        return orr_fail_memory(err);
    for (uint32_t v = 0; v < f->n_vertices; v++)
        f->first[v + 2] += f->first[v + 1];
    each_edge(f, add_edge);
    return ORR_OK;
}

/* The initial colour of a rank. */
typedef struct rank_key {
    int64_t start_ns;
    uint32_t graph, slowdown_ppm, rank;
} rank_key;

static int compare_keys(const rank_key *a, const rank_key *b)
{
    if (a->graph != b->graph)
        return a->graph < b->graph ? -1 : 1;
    if (a->slowdown_ppm != b->slowdown_ppm)
        return a->slowdown_ppm < b->slowdown_ppm ? -1 : 1;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static int by_key(const void *a_, const void *b_)
{
    const rank_key *a = a_, *b = b_;
    const int by = compare_keys(a, b);
    return by ? by : (a->rank > b->rank) - (a->rank < b->rank);
}

static orr_status colour_ranks(folder *f, orr_error *err)
{
    const orr_ensemble *e = f->ensemble;
    rank_key *keys = orr_calloc((size_t)f->n_ranks + 1, sizeof *keys);
    if (keys == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < f->n_ranks; r++)
        keys[r] = (rank_key){e->start_ns ? e->start_ns[r] : 0, e->graph_of_rank[r],
                             e->slowdown_ppm ? e->slowdown_ppm[r] : 1000000, r};
    qsort(keys, f->n_ranks, sizeof *keys, by_key);
    for (uint32_t i = 0; i < f->n_ranks; i++) {
        if (i == 0 || compare_keys(&keys[i - 1], &keys[i]) != 0)
            f->n_classes++;
        f->class_of[keys[i].rank] = f->n_classes - 1;
    }
    orr_free(keys);
    return ORR_OK;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The lowest level of the cluster at which two devices are in one unit. */
static uint32_t joined_at(const orr_cluster *cluster, uint32_t a, uint32_t b)
{
    for (uint32_t l = 0; l < cluster->n_levels; l++)
        if (orr_cluster_unit(cluster, l, a).end > b)
            return l;
    return cluster->n_levels;
}

/* The initial colour of a group: all that the price of a transfer among its members depends on,
 * which is how far apart which graphs are. In order of rank, the levels that join neighbours
 * determine those that join any two members (the highest in between), so that equal signatures mean
 * equal spans, also of parts of the group. */
static size_t write_signature(const folder *f, uint32_t grouping, uint32_t *members, uint32_t n,
                              uint32_t *text)
{
    size_t len = 0;
    text[len++] = grouping;
    if (f->cluster == NULL)
        return len;
    qsort(members, n, sizeof *members, by_number);
    for (uint32_t i = 0; i < n; i++) {
        text[len++] = f->ensemble->graph_of_rank[members[i]];
        text[len++] = i > 0 ? joined_at(f->cluster, members[i - 1], members[i]) : 0;
    }
    return len;
}

static orr_status colour_groups(folder *f, orr_error *err)
{
    orr_strtab *signatures = orr_strtab_new();
    uint32_t *members = orr_calloc((size_t)f->n_ranks + 1, sizeof *members);
    uint32_t *text = orr_calloc((size_t)f->n_ranks * 2 + 1, sizeof *text);
    bool room = signatures && members && text;
    for (uint32_t k = 0; room && k < f->ensemble->n_groupings; k++) {
        const orr_grouping *grouping = &f->ensemble->groupings[k];
        for (uint32_t g = 0; room && g < grouping->n_groups; g++) {
            const uint32_t n = grouping->first[g + 1] - grouping->first[g];
            memcpy(members, grouping->members + grouping->first[g], n * sizeof *members);
            const size_t len = write_signature(f, k, members, n, text);
            const uint32_t id = orr_strtab_add(signatures, (const char *)text, len * sizeof *text);
            room = id != UINT32_MAX;
            f->class_of[f->first_group[k] + g] = f->n_classes + id - 1; /* number 0 is "" */
        }
    }
    if (room)
        f->n_classes += orr_strtab_count(signatures) - 1;
    orr_strtab_free(signatures);
    orr_free(members);
    orr_free(text);
    return room ? ORR_OK : orr_fail_memory(err);
}

/* The initial colours of flows and links, as they are given. */
static void colour_network(folder *f)
{
    const orr_fold_network *network = f->network;
    if (network == NULL)
        return;
    for (uint32_t i = 0; i < network->n_flows; i++)
        f->class_of[f->first_flow + i] = f->n_classes + network->flow_colour[i];
    f->n_classes += network->n_flow_colours;
    for (uint32_t i = 0; i < network->n_links; i++)
        f->class_of[f->first_link + i] = f->n_classes + network->link_colour[i];
    f->n_classes += network->n_link_colours;
}

/* Classes of n vertices from `first` on, numbered by their first member. */
static uint32_t number_classes(const orr_partition *p, uint32_t first, uint32_t n, uint32_t *number,
                               uint32_t *ret)
{
    uint32_t n_classes = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *c = &number[p->class_of[first + i]];
        if (*c == ORR_NONE)
            *c = n_classes++;
        ret[i] = *c;
    }
    return n_classes;
}

static void keep_network(const folder *f, const orr_partition *p, uint32_t *number)
{
    orr_fold_network *network = f->network;
    if (network == NULL)
        return;
    network->n_flow_classes =
        number_classes(p, f->first_flow, network->n_flows, number, network->class_of_flow);
    network->n_link_classes =
        number_classes(p, f->first_link, network->n_links, number, network->class_of_link);
}

/* Classes numbered by their first rank. */
static orr_status keep_ranks(const folder *f, const orr_partition *p, uint32_t *number,
                             orr_arena *arena, orr_fold *fold, orr_error *err)
{
    const uint32_t n = f->n_ranks;
    uint32_t *class_of_rank = orr_arena_array(arena, uint32_t, n);
    uint32_t *first_rank = orr_arena_array(arena, uint32_t, n);
    uint32_t *n_ranks = orr_arena_array(arena, uint32_t, n);
    if (class_of_rank == NULL || first_rank == NULL || n_ranks == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < n; r++) {
        uint32_t *c = &number[p->class_of[r]];
        class_of_rank[r] = ORR_NONE;
        if (f->ensemble->graph_of_rank[r] == ORR_NONE)
            continue;
        if (*c == ORR_NONE) {
            *c = fold->n_classes++;
            first_rank[*c] = r;
        }
        class_of_rank[r] = *c;
        n_ranks[*c] += f->ensemble->multiplicity ? f->ensemble->multiplicity[r] : 1;
    }
    fold->class_of_rank = class_of_rank;
    fold->first_rank = first_rank;
    fold->n_ranks = n_ranks;
    return ORR_OK;
}

/* The first group of each class in which somebody communicates. */
static orr_status keep_groups(const folder *f, const orr_partition *p, uint32_t *number,
                              orr_arena *arena, orr_fold *fold, orr_error *err)
{
    orr_fold_group *groups = orr_arena_array(arena, orr_fold_group, f->first_flow - f->n_ranks);
    uint32_t *class_of = orr_arena_array(arena, uint32_t, f->first_flow - f->n_ranks);
    if (groups == NULL || class_of == NULL)
        return orr_fail_memory(err);
    for (uint32_t k = 0; k < f->ensemble->n_groupings; k++)
        for (uint32_t v = f->first_group[k]; v < f->first_group[k + 1]; v++) {
            uint32_t *c = &number[p->class_of[v]];
            const bool silent = f->first[v] == f->first[v + 1];
            if (*c == ORR_NONE && !silent) {
                *c = fold->n_groups;
                groups[fold->n_groups++] = (orr_fold_group){k, v - f->first_group[k]};
            }
            class_of[v - f->n_ranks] = silent ? ORR_NONE : *c;
        }
    fold->groups = groups;
    fold->class_of_group = class_of;
    return ORR_OK;
}

static orr_status keep(const folder *f, const orr_partition *p, orr_arena *arena, orr_fold *ret,
                       orr_error *err)
{
    orr_fold fold = {0};
    uint32_t *number = orr_malloc(((size_t)p->n_classes + 1) * sizeof *number);
    orr_status status = number ? ORR_OK : orr_fail_memory(err);
    if (status == ORR_OK) {
        memset(number, 0xff, p->n_classes * sizeof *number);
        status = keep_ranks(f, p, number, arena, &fold, err);
    }
    if (status == ORR_OK)
        status = keep_groups(f, p, number, arena, &fold, err);
    if (status == ORR_OK) {
        keep_network(f, p, number);
        *ret = fold;
    }
    orr_free(number);
    return status;
}

orr_status orr_fold_equivalent(const orr_ensemble *ensemble,
                               const orr_prepared_program *prepared_programs,
                               const orr_cluster *cluster, orr_fold_network *network,
                               orr_arena *arena, orr_fold *ret, orr_error *err)
{
    folder f = {.ensemble = ensemble,
                .prepared_programs = prepared_programs,
                .cluster = cluster,
                .network = network,
                .n_ranks = ensemble->n_ranks};
    orr_partition p = {0};
    orr_status status = ORR_OK;

    ORR_TRY_OUT(status, number_vertices(&f, err));
    ORR_TRY_OUT(status, find_edges(&f, err));
    ORR_TRY_OUT(status, colour_ranks(&f, err));
    ORR_TRY_OUT(status, colour_groups(&f, err));
    colour_network(&f);
    ORR_TRY_OUT(status, orr_partition_init(&p, f.class_of, f.n_vertices, f.n_classes, err));
    ORR_TRY_OUT(status, orr_partition_refine(&p, f.first, f.to, err));
    status = keep(&f, &p, arena, ret, err);
out:
    orr_partition_done(&p);
    orr_free(f.first_group);
    orr_free(f.class_of);
    orr_free(f.first);
    orr_free(f.to);
    return status;
}
