/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/engine/flow_patterns.h"

#include <stdlib.h>

#include "base/alloc.h"

enum { FLOWS_MAX = 1 << 22, PATTERNS_MAX = 1024 };

void orr_flow_classes_free(orr_flow_classes *c)
{
    if (c == NULL)
        return;
    orr_strtab_free(c->patterns);
    orr_strtab_free(c->colours);
    orr_strtab_free(c->seen);
    orr_free(c->first_group);
    orr_free(c->position);
    orr_array_done(&c->text);
    orr_array_done(&c->sizes);
    orr_array_done(&c->flows);
    orr_array_done(&c->colour);
    orr_array_done(&c->hops);
    orr_array_done(&c->instances);
    orr_free(c->links_of);
    orr_free(c->shares);
    orr_free(c->component);
    orr_free(c->class_of_link);
    orr_free(c->number_of);
    orr_free(c->capacity);
    orr_array_done(&c->parts);
    orr_array_done(&c->crossings);
    orr_free(c->first_crossing);
    orr_array_done(&c->crossed);
    orr_array_done(&c->weight);
    orr_free(c->active);
    orr_array_done(&c->pattern_of_task);
    orr_array_done(&c->begun);
    orr_free(c);
}

/* Which of the sizes that occur, in order of appearance. ORR_NONE: out of memory. A collective
 * sends pieces of few sizes. */
static uint32_t size_id(orr_flow_classes *c, int64_t bytes)
{
    for (size_t i = c->sizes.n; i-- > 0;)
        if (c->sizes.at[i] == bytes)
            return (uint32_t)i;
    return orr_array_push(&c->sizes, bytes) ? (uint32_t)c->sizes.n - 1 : ORR_NONE;
}

/* The text of a pattern: its grouping and, of each demand, the places of its members in their group
 * and the number of its size. */
static bool write_pattern(orr_flow_classes *c, const orr_rendezvous_transfer *moved,
                          const orr_demands *demands)
{
    const orr_grouping *grouping = &c->ensemble->groupings[moved->grouping];
    const uint32_t first = grouping->first[moved->group];
    c->text.n = c->sizes.n = 0;
    if (!orr_array_reserve(&c->text, 3 * demands->n + 1))
        return false;
    for (uint32_t i = first; i < grouping->first[moved->group + 1]; i++)
        c->position[grouping->members[i]] = i - first;
    c->text.at[c->text.n++] = moved->grouping;
    for (size_t i = 0; i < demands->n; i++) {
        const uint32_t size = size_id(c, demands->at[i].bytes);
        if (size == ORR_NONE)
            return false;
        c->text.at[c->text.n++] = c->position[demands->at[i].src];
        c->text.at[c->text.n++] = c->position[demands->at[i].dst];
        c->text.at[c->text.n++] = size;
    }
    return true;
}

uint32_t orr_flow_classes_pattern(orr_flow_classes *c, const orr_rendezvous_transfer *moved,
                                  const orr_demands *demands)
{
    return write_pattern(c, moved, demands) ? orr_strtab_add(c->patterns, (const char *)c->text.at,
                                                             c->text.n * sizeof *c->text.at)
                                            : ORR_NONE;
}

/* Is this the first time that these numbers are seen together? *ret_room false: out of memory. */
static bool is_new(orr_flow_classes *c, uint32_t a, uint32_t b, bool *ret_room)
{
    const uint32_t pair[2] = {a, b}, before = orr_strtab_count(c->seen);
    const uint32_t id = orr_strtab_add(c->seen, (const char *)pair, sizeof pair);
    *ret_room = id != UINT32_MAX;
    return id == before;
}

/* Adds the flows of a pattern in a group, with their routes. */
static bool add_instance(orr_flow_classes *c, orr_engine *e, uint32_t group, uint32_t pattern)
{
    const orr_fabric *fabric = orr_flows_fabric(e->contention->flows);
    const orr_demands *demands = &e->contention->demands;
    const orr_flow_instance it = {.group = group,
                                  .pattern = pattern,
                                  .first = (uint32_t)c->flows.n,
                                  .n = (uint32_t)demands->n};
    c->sizes.n = 0;
    for (uint32_t i = 0; i < demands->n; i++) {
        const orr_flow_demand *demand = &demands->at[i];
        const uint32_t text[2] = {pattern, size_id(c, demand->bytes)};
        const uint32_t colour = orr_strtab_add(c->colours, (const char *)text, sizeof text);
        const orr_folded_flow flow = {group, pattern, i, (uint32_t)c->hops.n};
        if (text[1] == ORR_NONE || colour == UINT32_MAX || !orr_array_push(&c->flows, flow) ||
            !orr_array_push(&c->colour, colour - 1) ||
            !orr_fabric_route(fabric, demand->src, demand->dst, &c->hops, NULL))
            return false;
    }
    return orr_array_push(&c->instances, it);
}

/* Adds the patterns of one rendezvous, which are those of all groups of the class of its group. */
static orr_status add_rendezvous(orr_flow_classes *c, orr_engine *e, const orr_fold *fold,
                                 uint32_t rendezvous, orr_error *err)
{
    orr_rendezvous_transfer moved = e->rendezvous.moved[rendezvous];
    const orr_contention *d = e->contention;
    const uint32_t class = fold->class_of_group[orr_flow_group(c, &moved)];
    const uint32_t n_groups = c->ensemble->groupings[moved.grouping].n_groups;
    bool room;
    ORR_TRY(orr_contention_demands(e, &moved, rendezvous));
    uint32_t pattern = orr_flow_classes_pattern(c, &moved, &d->demands);
    if (pattern == ORR_NONE)
        return orr_fail_memory(err);
    if (!is_new(c, class, pattern, &room))
        return room ? ORR_OK : orr_fail_memory(err);
    for (moved.group = 0; moved.group < n_groups && c->flows.n <= FLOWS_MAX; moved.group++) {
        const uint32_t group = orr_flow_group(c, &moved);
        if (fold->class_of_group[group] != class)
            continue;
        ORR_TRY(orr_contention_demands(e, &moved, rendezvous));
        pattern = orr_flow_classes_pattern(c, &moved, &d->demands);
        if (pattern == ORR_NONE)
            return orr_fail_memory(err);
        if (is_new(c, UINT32_MAX - group, pattern, &room) && !add_instance(c, e, group, pattern))
            return orr_fail_memory(err);
        if (!room)
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

static int by_group(const void *a_, const void *b_)
{
    const orr_flow_instance *a = a_, *b = b_;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    return (a->pattern > b->pattern) - (a->pattern < b->pattern);
}

/* Which links each pattern uses; each pattern a component of its own. */
static orr_status begin_components(orr_flow_classes *c, orr_error *err)
{
    const size_t n = (size_t)orr_strtab_count(c->patterns);
    c->n_patterns = (uint32_t)n - 1;
    c->n_words = c->n_links / 64 + 1;
    c->links_of = orr_calloc(n * c->n_words, sizeof *c->links_of);
    c->shares = orr_calloc(n * n, sizeof *c->shares);
    c->component = orr_calloc(n, sizeof *c->component);
    c->number_of = orr_calloc(n, sizeof *c->number_of);
    c->active = orr_calloc(n, sizeof *c->active);
    if (!c->links_of || !c->shares || !c->component || !c->number_of || !c->active)
        return orr_fail_memory(err);
    for (uint32_t p = 0; p < n; p++)
        c->component[p] = p;
    for (size_t f = 0; f < c->flows.n; f++) {
        uint64_t *links = c->links_of + (size_t)c->flows.at[f].pattern * c->n_words;
        for (uint32_t h = c->flows.at[f].first_hop; h < orr_flow_hop_end(c, f); h++)
            links[c->hops.at[h] / 64] |= UINT64_C(1) << c->hops.at[h] % 64;
    }
    if (c->instances.n > 1)
        qsort(c->instances.at, c->instances.n, sizeof *c->instances.at, by_group);
    return ORR_OK;
}

static orr_status take_tables(orr_flow_classes *c, orr_error *err)
{
    const orr_ensemble *ensemble = c->ensemble;
    c->patterns = orr_strtab_new();
    c->colours = orr_strtab_new();
    c->seen = orr_strtab_new();
    c->first_group = orr_calloc((size_t)ensemble->n_groupings + 1, sizeof *c->first_group);
    c->position = orr_calloc((size_t)ensemble->n_ranks + 1, sizeof *c->position);
    if (!c->patterns || !c->colours || !c->seen || !c->first_group || !c->position)
        return orr_fail_memory(err);
    for (uint32_t k = 0; k < ensemble->n_groupings; k++)
        c->first_group[k + 1] = c->first_group[k] + ensemble->groupings[k].n_groups;
    return ORR_OK;
}

orr_status orr_flow_classes_new(orr_engine *coarse, const orr_fold *fold, orr_flow_classes **ret,
                                orr_error *err)
{
    orr_flow_classes *c = orr_calloc(1, sizeof *c);
    orr_status status = c ? ORR_OK : orr_fail_memory(err);
    bool many = false;
    *ret = NULL;
    ORR_TRY_OUT(status, status);
    c->ensemble = coarse->ensemble;
    c->n_links = orr_flows_fabric(coarse->contention->flows)->n_links;
    ORR_TRY_OUT(status, take_tables(c, err));
    for (uint32_t r = 0; r < coarse->rendezvous.n && !many; r++) {
        if (!coarse->rendezvous.moved[r].flows)
            continue;
        ORR_TRY_OUT(status, add_rendezvous(c, coarse, fold, r, err));
        many = c->flows.n > FLOWS_MAX || orr_strtab_count(c->patterns) > PATTERNS_MAX;
    }
    if (!many)
        ORR_TRY_OUT(status, begin_components(c, err));
    *ret = many ? NULL : c;
out:
    if (status != ORR_OK || many)
        orr_flow_classes_free(c);
    return status;
}

const orr_flow_instance *orr_flow_instance_find(const orr_flow_classes *c, uint32_t group,
                                                uint32_t pattern)
{
    const orr_flow_instance key = {.group = group, .pattern = pattern};
    return bsearch(&key, c->instances.at, c->instances.n, sizeof key, by_group);
}
