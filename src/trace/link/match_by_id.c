/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/common/idmap.h"
#include "trace/link/link.h"

/* Pairs operators by record-function id, which both observers of a run count upwards. If they did
 * not start together, the ids of one are at a constant offset, found by a vote of the operators
 * whose name is unique in each trace. */
typedef struct matcher {
    orr_linker *link;
    orr_idmap by_id; /* operators of the device trace */
} matcher;

static orr_status index_device(matcher *m, orr_error *err)
{
    const orr_graph *device = m->link->device;
    uint32_t old;
    for (orr_node_id d = 0; d < device->n_nodes; d++)
        if (device->source_id[d] != 0 && orr_link_is_op(device, d))
            ORR_TRY(orr_idmap_add(&m->by_id, device->source_id[d], d, &old, err));
    return ORR_OK;
}

static orr_node_id find(const matcher *m, orr_node_id h, uint64_t offset)
{
    const uint64_t id = m->link->host->source_id[h];
    return id == 0 ? ORR_NONE : orr_idmap_get(&m->by_id, id + offset);
}

static bool same_name(const orr_linker *link, orr_node_id h, orr_node_id d)
{
    return link->name[link->host->name[h]] == link->device->name[d];
}

static uint32_t count_matches(const matcher *m, uint64_t offset)
{
    uint32_t n = 0;
    for (orr_node_id h = 0; h < m->link->host->n_nodes; h++) {
        const orr_node_id d = orr_link_is_op(m->link->host, h) ? find(m, h, offset) : ORR_NONE;
        n += d != ORR_NONE && same_name(m->link, h, d);
    }
    return n;
}

/* For each name of the device trace its only operator, or ORR_NONE. */
static orr_node_id *only_ones(const orr_graph *graph, orr_arena *arena)
{
    const orr_node_id several = ORR_NONE - 1;
    orr_node_id *only = orr_arena_array(arena, orr_node_id, graph->n_strings);
    if (only == NULL)
        return NULL;
    for (uint32_t s = 0; s < graph->n_strings; s++)
        only[s] = ORR_NONE;
    for (orr_node_id v = 0; v < graph->n_nodes; v++)
        if (graph->source_id[v] != 0 && orr_link_is_op(graph, v))
            only[graph->name[v]] = only[graph->name[v]] == ORR_NONE ? v : several;
    for (uint32_t s = 0; s < graph->n_strings; s++)
        if (only[s] == several)
            only[s] = ORR_NONE;
    return only;
}

/* The offset that most votes agree on. */
static orr_status vote(const matcher *m, uint64_t *ret_offset, orr_error *err)
{
    const orr_linker *link = m->link;
    orr_idmap votes = {0};
    orr_status status = ORR_OK;
    uint32_t best = 0;
    const orr_arena_mark mark = orr_arena_get_mark(link->arena);
    const orr_node_id *of_host = only_ones(link->host, link->arena);
    const orr_node_id *of_device = only_ones(link->device, link->arena);
    *ret_offset = 0;
    if (of_host == NULL || of_device == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    for (uint32_t s = 0; s < link->host->n_strings; s++) {
        if (of_host[s] == ORR_NONE || link->name[s] == ORR_NONE ||
            of_device[link->name[s]] == ORR_NONE)
            continue;
        const uint64_t offset =
            link->device->source_id[of_device[link->name[s]]] - link->host->source_id[of_host[s]];
        const uint32_t before = orr_idmap_get(&votes, offset);
        const uint32_t now = before == UINT32_MAX ? 1 : before + 1;
        ORR_TRY_OUT(status, orr_idmap_set(&votes, offset, now, err));
        if (now > best) {
            best = now;
            *ret_offset = offset;
        }
    }
out:
    orr_idmap_done(&votes);
    orr_arena_rewind(link->arena, mark);
    return status;
}

static uint32_t match(matcher *m, uint64_t offset)
{
    orr_linker *link = m->link;
    uint32_t n = 0;
    for (orr_node_id h = 0; h < link->host->n_nodes; h++) {
        const orr_node_id d = orr_link_is_op(link->host, h) ? find(m, h, offset) : ORR_NONE;
        if (d == ORR_NONE)
            continue;
        if (!same_name(link, h, d) || link->taken[d]) {
            link->by_name[h] = true;
            continue;
        }
        link->partner[h] = d;
        link->taken[d] = true;
        n++;
    }
    return n;
}

/* Meaningful ids agree in nearly all names; chance agreements are rejected. */
static bool is_enough(uint32_t matches, uint32_t of)
{
    return matches > 0 && matches >= of - of / 4;
}

static uint32_t count_found(const matcher *m, uint64_t offset)
{
    uint32_t n = 0;
    for (orr_node_id h = 0; h < m->link->host->n_nodes; h++)
        n += orr_link_is_op(m->link->host, h) && find(m, h, offset) != ORR_NONE;
    return n;
}

orr_status orr_link_by_id(orr_linker *link, uint32_t *ret_matched, orr_error *err)
{
    matcher m = {.link = link};
    uint64_t offset = 0, other;
    orr_status status;
    *ret_matched = 0;
    ORR_TRY_OUT(status, index_device(&m, err));
    if (m.by_id.n == 0)
        goto out;
    const uint32_t straight = count_matches(&m, 0);
    if (!is_enough(straight, count_found(&m, 0))) {
        ORR_TRY_OUT(status, vote(&m, &other, err));
        if (count_matches(&m, other) > straight)
            offset = other;
    }
    if (is_enough(count_matches(&m, offset), count_found(&m, offset)))
        *ret_matched = match(&m, offset);
out:
    orr_idmap_done(&m.by_id);
    return status;
}
