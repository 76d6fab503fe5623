/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/engine/flow_patterns.h"

enum { ROUNDS_MAX = 6, NO_PATTERN = 0 };

const orr_link_classes *orr_flow_classes_links(const orr_flow_classes *c)
{
    return &c->links;
}

orr_flow_verdict orr_flow_classes_verdict(const orr_flow_classes *c)
{
    return c->strange ? ORR_FLOWS_STRANGE : c->met ? ORR_FLOWS_MET : ORR_FLOWS_RIGHT;
}

static uint32_t component_of(const orr_flow_classes *c, uint32_t pattern)
{
    while (c->component[pattern] != pattern)
        pattern = c->component[pattern];
    return pattern;
}

/* Do two patterns use a link? */
static bool share(orr_flow_classes *c, uint32_t a, uint32_t b)
{
    enum { UNKNOWN, NO, YES };
    uint8_t *known = &c->shares[(size_t)a * (c->n_patterns + 1) + b];
    const uint64_t *x = c->links_of + (size_t)a * c->n_words;
    const uint64_t *y = c->links_of + (size_t)b * c->n_words;
    for (uint32_t i = 0; *known == UNKNOWN && i < c->n_words; i++)
        if ((x[i] & y[i]) != 0)
            *known = YES;
    if (*known == UNKNOWN)
        *known = NO;
    return *known == YES;
}

static void merge(orr_flow_classes *c, uint32_t a, uint32_t b)
{
    const uint32_t x = component_of(c, a), y = component_of(c, b);
    c->component[x > y ? x : y] = x > y ? y : x;
}

/* What takes too many rounds to learn is assumed: all that could meet is one component. */
static void merge_all(orr_flow_classes *c)
{
    for (uint32_t a = 1; a <= c->n_patterns; a++)
        for (uint32_t b = a + 1; b <= c->n_patterns; b++)
            if (component_of(c, a) != component_of(c, b) && share(c, a, b))
                merge(c, a, b);
}

static uint32_t number_components(orr_flow_classes *c)
{
    uint32_t n = 0;
    for (uint32_t p = 1; p <= c->n_patterns; p++) /* the first pattern of a component names it */
        c->number_of[p] = component_of(c, p) == p ? n++ : c->number_of[component_of(c, p)];
    return n;
}

/* What orr_fold_equivalent() is given, and the link and capacity of each vertex. */
typedef struct vertices {
    orr_fold_network network;
    uint32_t *group_of_flow, *hop_first, *hops, *link_colour;
    orr_array(uint32_t) component;
    orr_array(int64_t) capacity;
} vertices;

static void free_vertices(vertices *v)
{
    orr_free(v->group_of_flow);
    orr_free(v->hop_first);
    orr_free(v->hops);
    orr_free(v->link_colour);
    orr_free(v->network.class_of_flow);
    orr_free(v->network.class_of_link);
    orr_array_done(&v->component);
    orr_array_done(&v->capacity);
}

/* A vertex for each link in each component that uses it. */
static orr_status list_vertices(orr_flow_classes *c, const orr_fabric *fabric, vertices *v,
                                orr_error *err)
{
    const size_t n_flows = c->flows.n;
    const uint32_t n_components = c->links.n_components;
    v->group_of_flow = orr_calloc(n_flows + 1, sizeof *v->group_of_flow);
    v->hop_first = orr_calloc(n_flows + 1, sizeof *v->hop_first);
    v->hops = orr_calloc(c->hops.n + 1, sizeof *v->hops);
    v->network.class_of_flow = orr_calloc(n_flows + 1, sizeof *v->network.class_of_flow);
    if (!v->group_of_flow || !v->hop_first || !v->hops || !v->network.class_of_flow)
        return orr_fail_memory(err);
    for (size_t f = 0; f < n_flows; f++) {
        const uint32_t component = c->number_of[c->flows.at[f].pattern];
        v->group_of_flow[f] = c->flows.at[f].group;
        v->hop_first[f] = c->flows.at[f].first_hop;
        for (uint32_t h = v->hop_first[f]; h < orr_flow_hop_end(c, f); h++) {
            uint32_t *at = &c->class_of_link[(size_t)c->hops.at[h] * n_components + component];
            if (*at == ORR_NONE) {
                *at = (uint32_t)v->capacity.n;
                if (!orr_array_push(&v->capacity, fabric->links[c->hops.at[h]].capacity) ||
                    !orr_array_push(&v->component, component))
                    return orr_fail_memory(err);
            }
            v->hops[h] = *at;
        }
    }
    v->hop_first[n_flows] = (uint32_t)c->hops.n;
    return ORR_OK;
}

/* Links are of one colour where component and capacity are equal. */
static orr_status colour_vertices(const orr_flow_classes *c, vertices *v, orr_error *err)
{
    const size_t n = v->capacity.n;
    orr_strtab *colours = orr_strtab_new();
    v->link_colour = orr_calloc(n + 1, sizeof *v->link_colour);
    v->network.class_of_link = orr_calloc(n + 1, sizeof *v->network.class_of_link);
    bool room = colours && v->link_colour && v->network.class_of_link;
    for (size_t i = 0; room && i < n; i++) {
        const int64_t text[2] = {v->capacity.at[i], v->component.at[i]};
        const uint32_t id = orr_strtab_add(colours, (const char *)text, sizeof text);
        room = id != UINT32_MAX;
        v->link_colour[i] = id - 1;
    }
    v->network.n_link_colours = room ? orr_strtab_count(colours) - 1 : 0;
    orr_strtab_free(colours);
    v->network.n_flows = (uint32_t)c->flows.n;
    v->network.n_links = (uint32_t)n;
    v->network.n_flow_colours = orr_strtab_count(c->colours) - 1;
    v->network.group_of_flow = v->group_of_flow;
    v->network.flow_colour = c->colour.at;
    v->network.link_colour = v->link_colour;
    v->network.hop_first = v->hop_first;
    v->network.hops = v->hops;
    return room ? ORR_OK : orr_fail_memory(err);
}

static int by_flows(const void *a_, const void *b_)
{
    const orr_flow_crossing *a = a_, *b = b_;
    if (a->flows != b->flows)
        return a->flows < b->flows ? -1 : 1;
    return (a->links > b->links) - (a->links < b->links);
}

/* How many flows of each class cross a link of each class: counted on the first link of each. */
static orr_status count_crossings(orr_flow_classes *c, const vertices *v, orr_error *err)
{
    const orr_fold_network *network = &v->network;
    uint32_t *first = orr_calloc((size_t)network->n_link_classes + 1, sizeof *first);
    c->first_crossing = orr_calloc((size_t)network->n_flow_classes + 2, sizeof *c->first_crossing);
    bool room = first != NULL && c->first_crossing != NULL;
    for (uint32_t l = network->n_links; room && l-- > 0;)
        first[network->class_of_link[l]] = l;
    for (uint32_t f = 0; room && f < network->n_flows; f++)
        for (uint32_t h = v->hop_first[f]; room && h < v->hop_first[f + 1]; h++) {
            const uint32_t class = network->class_of_link[v->hops[h]];
            if (first[class] == v->hops[h])
                room = orr_array_push(&c->crossings,
                                      ((orr_flow_crossing){network->class_of_flow[f], class}));
        }
    orr_free(first);
    if (!room)
        return orr_fail_memory(err);
    if (c->crossings.n > 1)
        qsort(c->crossings.at, c->crossings.n, sizeof *c->crossings.at, by_flows);
    for (size_t i = 0, k; i < c->crossings.n; i = k) {
        for (k = i + 1;
             k < c->crossings.n && by_flows(&c->crossings.at[i], &c->crossings.at[k]) == 0;)
            k++;
        c->first_crossing[c->crossings.at[i].flows + 1]++;
        if (!orr_array_push(&c->crossed, c->crossings.at[i].links) ||
            !orr_array_push(&c->weight, (uint32_t)(k - i)))
            return orr_fail_memory(err);
    }
    for (uint32_t k = 0; k < network->n_flow_classes; k++)
        c->first_crossing[k + 1] += c->first_crossing[k];
    return ORR_OK;
}

/* The classes of flows of each instance, each with its first demand. */
static orr_status list_parts(orr_flow_classes *c, const vertices *v, orr_error *err)
{
    const orr_fold_network *network = &v->network;
    uint32_t *stamp = orr_calloc((size_t)network->n_flow_classes + 1, sizeof *stamp);
    bool room = stamp != NULL;
    for (size_t i = 0; room && i < c->instances.n; i++) {
        orr_flow_instance *it = &c->instances.at[i];
        it->first_part = (uint32_t)c->parts.n;
        for (uint32_t f = it->first; room && f < it->first + it->n; f++) {
            const uint32_t class = network->class_of_flow[f];
            if (stamp[class] == i + 1)
                continue;
            stamp[class] = (uint32_t)i + 1;
            room = orr_array_push(&c->parts, ((orr_flow_part){class, c->flows.at[f].demand}));
        }
        it->n_parts = (uint32_t)c->parts.n - it->first_part;
    }
    orr_free(stamp);
    return room ? ORR_OK : orr_fail_memory(err);
}

/* Classes of links from their vertices. */
static orr_status keep_links(orr_flow_classes *c, const vertices *v, orr_error *err)
{
    const orr_fold_network *network = &v->network;
    c->capacity = orr_calloc((size_t)network->n_link_classes + 1, sizeof *c->capacity);
    if (c->capacity == NULL)
        return orr_fail_memory(err);
    for (uint32_t l = 0; l < network->n_links; l++)
        c->capacity[network->class_of_link[l]] = v->capacity.at[l];
    for (size_t i = 0; i < (size_t)c->n_links * c->links.n_components; i++)
        if (c->class_of_link[i] != ORR_NONE)
            c->class_of_link[i] = network->class_of_link[c->class_of_link[i]];
    c->links.n_classes = network->n_link_classes;
    c->links.capacity = c->capacity;
    c->links.class_of = c->class_of_link;
    return ORR_OK;
}

/* Forgets the last fold and simulation. */
static orr_status begin_fold(orr_flow_classes *c, orr_error *err)
{
    orr_free(c->class_of_link);
    orr_free(c->capacity);
    orr_free(c->first_crossing);
    c->capacity = NULL;
    c->first_crossing = NULL;
    c->parts.n = c->crossings.n = c->crossed.n = c->weight.n = c->pattern_of_task.n = 0;
    memset(c->active, 0, ((size_t)c->n_patterns + 1) * sizeof *c->active);
    c->met = c->strange = false;
    if (++c->round > ROUNDS_MAX)
        merge_all(c);
    c->links = (orr_link_classes){.n_components = number_components(c)};
    const size_t n = (size_t)c->n_links * c->links.n_components;
    c->class_of_link = orr_malloc((n + 1) * sizeof *c->class_of_link);
    if (c->class_of_link == NULL)
        return orr_fail_memory(err);
    memset(c->class_of_link, 0xff, n * sizeof *c->class_of_link);
    return ORR_OK;
}

orr_status orr_flow_classes_fold(orr_flow_classes *c, const orr_fabric *fabric,
                                 const orr_prepared_program *prepared_programs,
                                 const orr_cluster *cluster, orr_arena *arena, orr_fold *ret,
                                 orr_error *err)
{
    vertices v = {0};
    orr_status status = begin_fold(c, err);
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, list_vertices(c, fabric, &v, err));
    ORR_TRY_OUT(status, colour_vertices(c, &v, err));
    ORR_TRY_OUT(status, orr_fold_equivalent(c->ensemble, prepared_programs, cluster, &v.network,
                                            arena, ret, err));
    ORR_TRY_OUT(status, count_crossings(c, &v, err));
    ORR_TRY_OUT(status, list_parts(c, &v, err));
    status = keep_links(c, &v, err);
out:
    free_vertices(&v);
    return status;
}

/* Merges the components of patterns that are under way on a link of this one. */
static void meet(orr_flow_classes *c, uint32_t pattern)
{
    for (uint32_t p = 1; p <= c->n_patterns; p++)
        if (c->active[p] > 0 && component_of(c, p) != component_of(c, pattern) &&
            share(c, p, pattern)) {
            merge(c, p, pattern);
            c->met = true;
        }
}

orr_status orr_flow_classes_begin(orr_flow_classes *c, orr_flows *flows,
                                  const orr_rendezvous_transfer *moved, uint32_t pattern,
                                  const orr_demands *demands, uint32_t task, int64_t now_ns,
                                  orr_error *err)
{
    if (pattern == ORR_NONE)
        return orr_fail_memory(err);
    const orr_flow_instance *it = orr_flow_instance_find(c, orr_flow_group(c, moved), pattern);
    if (it == NULL || it->n != demands->n) {
        c->strange = true;
        return orr_fail(err, ORR_CANCELED, "flows of an unknown pattern");
    }
    c->begun.n = 0;
    if (!orr_array_reserve(&c->begun, it->n_parts))
        return orr_fail_memory(err);
    for (uint32_t i = it->first_part; i < it->first_part + it->n_parts; i++) {
        const uint32_t first = c->first_crossing[c->parts.at[i].class];
        c->begun.at[c->begun.n++] =
            (orr_flow_class){.bytes = demands->at[c->parts.at[i].demand].bytes,
                             .links = c->crossed.at + first,
                             .weights = c->weight.at + first,
                             .n_links = c->first_crossing[c->parts.at[i].class + 1] - first};
    }
    while (c->pattern_of_task.n <= task)
        if (!orr_array_push(&c->pattern_of_task, NO_PATTERN))
            return orr_fail_memory(err);
    c->pattern_of_task.at[task] = pattern;
    meet(c, pattern);
    c->active[pattern]++;
    return orr_flows_begin_classes(flows, now_ns, c->begun.at, c->begun.n, demands->latency_ns,
                                   task, err);
}

void orr_flow_classes_end(orr_flow_classes *c, uint32_t task)
{
    c->active[c->pattern_of_task.at[task]]--;
}
