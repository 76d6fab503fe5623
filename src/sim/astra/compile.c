/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/astra/run.h"

typedef struct compiler {
    const orr_astra_job *job;
    const orr_graph *graph;
    uint32_t rank;
    bool chakra; /* the graph was read from a Chakra trace */
    orr_astra_program *program;
} compiler;

static orr_status bad_node(const compiler *c, orr_node_id id, orr_status status, orr_error *err,
                           const char *what)
{
    return orr_fail(err, status, "rank %u: node %" PRIu64 " '%.80s': %s", c->rank,
                    c->graph->source_id[id], orr_graph_str(c->graph, c->graph->name[id]), what);
}

static bool number_of(const orr_graph *graph, orr_node_id id, const char *name, int64_t *ret)
{
    orr_attr attr;
    return orr_graph_find_attr(graph, id, name, &attr) && orr_attr_int(&attr, ret);
}

/* "involved_dim": a flag for each dimension; dimensions without a flag are involved. */
static uint32_t involved_dims(const orr_graph *graph, orr_node_id id)
{
    orr_attr attr;
    uint32_t mask = (UINT32_C(1) << ORR_ASTRA_DIMS) - 1;
    if (!orr_graph_find_attr(graph, id, "involved_dim", &attr) || !attr.list ||
        attr.kind != ORR_ATTR_BOOL)
        return mask;
    for (uint32_t i = 0; i < attr.count && i < ORR_ASTRA_DIMS; i++)
        if (!((const uint8_t *)attr.values)[i])
            mask &= ~(UINT32_C(1) << i);
    return mask;
}

/* Number of the node's group; 0, or no name: all ranks. */
static orr_status group_of(const compiler *c, orr_node_id id, const orr_comm *comm, int64_t *ret,
                           orr_error *err)
{
    *ret = 0;
    if (comm->group == ORR_NONE)
        return ORR_OK;
    const char *name = orr_graph_str(c->graph, c->graph->groups[comm->group].name);
    char *end;
    if (*name == '\0')
        return ORR_OK;
    const long long number = strtoll(name, &end, 10);
    if (end == name || *end != '\0' || number < 0)
        return bad_node(c, id, ORR_INVALID, err, "its process group is not named by a number");
    *ret = number;
    return ORR_OK;
}

static orr_status set_peer(const compiler *c, orr_node_id id, orr_astra_node *node, orr_error *err)
{
    const bool send = node->collective == ORR_COLL_SEND;
    int64_t peer, tag = 0;
    if (!number_of(c->graph, id, send ? "comm_dst" : "comm_src", &peer))
        return bad_node(c, id, ORR_INVALID, err, send ? "no comm_dst" : "no comm_src");
    if (peer < 0 || peer >= c->job->network->n_ranks)
        return bad_node(c, id, ORR_INVALID, err, "its peer is not a rank of the network");
    if (peer == c->rank)
        return bad_node(c, id, ORR_INVALID, err, "it speaks to itself");
    (void)number_of(c->graph, id, "comm_tag", &tag);
    node->peer = (uint32_t)peer;
    node->tag = (uint32_t)tag;
    c->program->alone = false;
    return ORR_OK;
}

static orr_status set_comm(const compiler *c, orr_node_id id, orr_astra_node *node, orr_error *err)
{
    const orr_comm *comm = orr_graph_comm(c->graph, id);
    if (comm == NULL)
        return bad_node(c, id, ORR_INVALID, err, "it says nothing of what it communicates");
    if (node->slot == ORR_ASTRA_CPU)
        return bad_node(c, id, ORR_INVALID, err, "is_cpu_op, yet it communicates");
    node->collective = comm->collective;
    node->mask = involved_dims(c->graph, id);
    if (!number_of(c->graph, id, "comm_size", &node->bytes))
        node->bytes = comm->in_bytes;
    switch ((orr_collective)comm->collective) {
    case ORR_COLL_BROADCAST:
        return ORR_OK;
    case ORR_COLL_ALL_REDUCE:
    case ORR_COLL_ALL_GATHER:
    case ORR_COLL_REDUCE_SCATTER:
    case ORR_COLL_ALL_TO_ALL:
    case ORR_COLL_SEND:
    case ORR_COLL_RECV:
        break;
    default:
        return bad_node(c, id, ORR_UNSUPPORTED, err,
                        "only all-reduce, all-gather, reduce-scatter, all-to-all, broadcast, send "
                        "and recv are simulated");
    }
    if (node->bytes < 0)
        return bad_node(c, id, ORR_INVALID, err, "no comm_size");
    if (node->bytes > INT64_C(1) << 50)
        return bad_node(c, id, ORR_LIMIT, err, "comm_size is over 2^50 bytes");
    if (comm->collective == ORR_COLL_SEND || comm->collective == ORR_COLL_RECV)
        return set_peer(c, id, node, err);
    ORR_TRY(group_of(c, id, comm, &node->group, err));
    if (node->group != 0)
        c->program->alone = false;
    return ORR_OK;
}

/* Roofline time: num_ops over the lesser of peak and bandwidth x intensity. */
static orr_status set_roofline(const compiler *c, orr_node_id id, orr_astra_node *node,
                               orr_error *err)
{
    const orr_astra_system *system = c->job->system;
    int64_t ops, size;
    if (!number_of(c->graph, id, "num_ops", &ops) || !number_of(c->graph, id, "tensor_size", &size))
        return bad_node(c, id, ORR_INVALID, err,
                        "roofline-enabled needs its num_ops and tensor_size");
    if (size <= 0) {
        node->skipped = true; /* as in the original */
        return ORR_OK;
    }
    const double intensity = (double)ops / (double)size;
    const double memory = system->local_bytes_per_ns * 1e9 * intensity;
    const double perf = memory < system->peak_flops ? memory : system->peak_flops;
    const double ns = ops > 0 ? (double)ops / perf * 1e9 : 0;
    node->duration_ns = ns < 1e18 ? (int64_t)ns : INT64_C(1000000000000000000);
    return ORR_OK;
}

/* What a node occupies. In a Chakra trace a node without is_cpu_op is of the device. */
static orr_astra_resource slot_of(const compiler *c, orr_node_id id)
{
    const orr_graph *g = c->graph;
    int64_t on_cpu;
    if (!number_of(g, id, "is_cpu_op", &on_cpu))
        on_cpu = !c->chakra && g->lanes[g->lane[id]].kind == ORR_LANE_HOST;
    if (on_cpu)
        return ORR_ASTRA_CPU;
    switch ((orr_node_kind)g->kind[id]) {
    case ORR_NODE_RECV:
        return ORR_ASTRA_RECEIVE;
    case ORR_NODE_SEND:
    case ORR_NODE_COLLECTIVE:
    case ORR_NODE_META:
    case ORR_NODE_OTHER:
    case ORR_NODE_MEM_LOAD:
    case ORR_NODE_MEM_STORE:
        return ORR_ASTRA_COMM;
    default:
        return ORR_ASTRA_COMPUTE;
    }
}

/* The file's whole microseconds, which traces that Orrery wrote have beside the exact time; at
 * least 1 ns. */
static int64_t duration_of(const compiler *c, orr_node_id id)
{
    int64_t ns = c->graph->duration_ns[id], us;
    if (c->chakra) {
        (void)number_of(c->graph, id, "self_ns", &ns);
        ns = (ns + 500) / 1000 * 1000;
        if (number_of(c->graph, id, "chakra.duration", &us))
            ns = us * 1000;
    }
    return ns > 0 ? ns : 1;
}

static orr_status set_node(const compiler *c, orr_node_id id, orr_astra_node *node, orr_error *err)
{
    const orr_graph *g = c->graph;
    const orr_node_kind kind = (orr_node_kind)g->kind[id];
    *node = (orr_astra_node){.id = id};
    node->slot = (uint8_t)slot_of(c, id);
    node->duration_ns = duration_of(c, id);
    if (node->duration_ns > INT64_C(1000000000000000000))
        return bad_node(c, id, ORR_LIMIT, err, "it takes over 10^18 ns");
    if (c->job->system->replay_only)
        return ORR_OK;
    switch (kind) {
    case ORR_NODE_OTHER:
    case ORR_NODE_META:
        node->skipped = true;
        return ORR_OK;
    case ORR_NODE_COLLECTIVE:
    case ORR_NODE_SEND:
    case ORR_NODE_RECV:
        return set_comm(c, id, node, err);
    case ORR_NODE_MEM_LOAD:
    case ORR_NODE_MEM_STORE:
        return bad_node(c, id, ORR_UNSUPPORTED, err, "there is no remote memory");
    default:
        if (c->job->system->roofline && node->slot == ORR_ASTRA_COMPUTE)
            return set_roofline(c, id, node, err);
        return ORR_OK;
    }
}

typedef struct by_id {
    uint64_t source_id;
    orr_node_id id;
} by_id;

static int compare_ids(const void *a, const void *b)
{
    const by_id *x = a, *y = b;
    if (x->source_id != y->source_id)
        return x->source_id < y->source_id ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Fills in nodes; nodes[place[id]] is the node with that id. */
static orr_status set_nodes(const compiler *c, orr_astra_node *nodes, uint32_t *place,
                            orr_error *err)
{
    const uint32_t n = c->graph->n_nodes;
    by_id *ids = orr_malloc((n > 0 ? n : 1) * sizeof *ids);
    orr_status status = ORR_OK;
    if (ids == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (by_id){c->graph->source_id[i], i};
    qsort(ids, n, sizeof *ids, compare_ids);
    for (uint32_t i = 0; i < n && status == ORR_OK; i++) {
        place[ids[i].id] = i;
        status = set_node(c, ids[i].id, &nodes[i], err);
    }
    orr_free(ids);
    return status;
}

/* Dependencies of data and of control, a set: files hold some twice. */
static bool is_wait(const orr_graph *graph, orr_node_id v, uint32_t at)
{
    if (graph->dep_kind[at] != ORR_DEP_DATA && graph->dep_kind[at] != ORR_DEP_CONTROL)
        return false;
    for (uint32_t i = graph->dep_first[v]; i < at; i++)
        if (graph->dep[i] == graph->dep[at] &&
            (graph->dep_kind[i] == ORR_DEP_DATA || graph->dep_kind[i] == ORR_DEP_CONTROL))
            return false;
    return true;
}

/* Successors by place, in compressed rows. */
static orr_status set_edges(const compiler *c, orr_astra_node *nodes, const uint32_t *place,
                            orr_arena *arena, orr_error *err)
{
    const orr_graph *g = c->graph;
    const uint32_t n = g->n_nodes;
    uint32_t *first = orr_arena_array(arena, uint32_t, (size_t)n + 2);
    uint32_t *next = orr_arena_array(arena, uint32_t, g->n_deps);
    if (first == NULL || next == NULL)
        return orr_fail_memory(err);
    for (orr_node_id v = 0; v < n; v++)
        for (uint32_t i = g->dep_first[v]; i < g->dep_first[v + 1]; i++)
            if (is_wait(g, v, i)) {
                first[place[g->dep[i]] + 2]++;
                nodes[place[v]].n_waits++;
            }
    for (uint32_t i = 0; i < n; i++)
        first[i + 2] += first[i + 1];
    for (uint32_t i = 0; i < n; i++) { /* in the order of ids, so that equal graphs compare equal */
        const orr_node_id v = nodes[i].id;
        for (uint32_t j = g->dep_first[v]; j < g->dep_first[v + 1]; j++)
            if (is_wait(g, v, j))
                next[first[place[g->dep[j]] + 1]++] = i;
    }
    c->program->first = first;
    c->program->next = next;
    return ORR_OK;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x100000001b3) ^ hash >> 31;
}

static uint64_t hash_of(const orr_astra_program *p)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; i < p->n; i++) {
        const orr_astra_node *v = &p->nodes[i];
        hash = mix(hash, (uint64_t)v->slot << 40 | (uint64_t)v->skipped << 32 |
                             (uint64_t)v->collective << 24 | v->n_waits);
        hash = mix(hash, (uint64_t)v->duration_ns);
        hash = mix(hash, (uint64_t)v->bytes);
        hash = mix(hash, (uint64_t)v->group ^ (uint64_t)v->mask << 32);
    }
    return hash;
}

bool orr_astra_same_program(const orr_astra_program *a, const orr_astra_program *b)
{
    if (a == b)
        return true;
    if (a->n != b->n || a->hash != b->hash || a->first[a->n] != b->first[b->n])
        return false;
    for (uint32_t i = 0; i < a->n; i++) {
        const orr_astra_node *x = &a->nodes[i], *y = &b->nodes[i];
        if (x->id != y->id || x->slot != y->slot || x->skipped != y->skipped ||
            x->collective != y->collective || x->mask != y->mask || x->peer != y->peer ||
            x->tag != y->tag || x->duration_ns != y->duration_ns || x->bytes != y->bytes ||
            x->group != y->group)
            return false;
    }
    return memcmp(a->first, b->first, ((size_t)a->n + 1) * sizeof *a->first) == 0 &&
           memcmp(a->next, b->next, a->first[a->n] * sizeof *a->next) == 0;
}

orr_status orr_astra_compile(const orr_astra_job *job, uint32_t rank, orr_arena *arena,
                             orr_astra_program *ret, orr_error *err)
{
    const orr_graph *graph = job->graphs[rank];
    *ret = (orr_astra_program){.n = graph->n_nodes, .alone = true};
    const char *source = orr_graph_str(graph, graph->source);
    const compiler c = {job, graph, rank, strncmp(source, "chakra", 6) == 0, ret};
    orr_astra_node *nodes = orr_arena_array(arena, orr_astra_node, graph->n_nodes);
    uint32_t *place = orr_malloc(((size_t)graph->n_nodes + 1) * sizeof *place);
    orr_status status = ORR_OK;
    if (nodes == NULL || place == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    ret->nodes = nodes;
    ORR_TRY_OUT(status, set_nodes(&c, nodes, place, err));
    ORR_TRY_OUT(status, set_edges(&c, nodes, place, arena, err));
    ret->hash = hash_of(ret);
out:
    orr_free(place);
    return status;
}
