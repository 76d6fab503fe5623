/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "rescale/compose/compose.h"

/* A piece of a recording, written once more: the same calls with the same host times, the same
 * work on the same streams; what it waits for is found anew. Events between streams are as deep as
 * in the recording (the last work of a stream, the one before it...), except around
 * communications, where the rule of PyTorch's NCCL backend holds: a communication waits for the
 * stream of computation as it stands, and computation waits for one whose result is used at
 * once. */
typedef struct copy {
    orr_composer *c;
    const orr_profiled_step *step;
    const orr_step_piece *p;
    orr_ratio parameters;
    int64_t shift_ns;  /* of host times */
    uint32_t products; /* aten::mm seen */
    bool changed;      /* shapes of the operator at hand */
} copy;

/* Status of the emitter, which keeps its first failure. */
static orr_status so_far(const orr_composer *c)
{
    return c->e.status;
}

static orr_status remember(orr_composer *c, orr_node_id made, orr_origin origin)
{
    while (c->origins.n <= made)
        if (!orr_array_push(&c->origins, ((orr_origin){.graph = ORR_NONE, .node = ORR_NONE})))
            return orr_fail_memory(c->err);
    c->origins.at[made] = origin;
    return ORR_OK;
}

/* Copies an attribute's value to the new builder, with its text interned there. */
static orr_status copy_attr(copy *k, const orr_attr *from, orr_attr *to, orr_str *text,
                            const char *other_text)
{
    orr_emit *e = &k->c->e;
    const orr_graph *g = k->step->g;
    *to = *from;
    to->name = orr_emit_str(e, orr_graph_str(g, from->name));
    to->doc = 0;
    if (from->kind == ORR_ATTR_JSON || from->kind == ORR_ATTR_STRING) {
        const orr_str old = *(const orr_str *)from->values;
        *text = orr_emit_str(e, other_text != NULL ? other_text : orr_graph_str(g, old));
        to->values = text;
    }
    return so_far(k->c);
}

static bool is_dims(const orr_graph *g, const orr_attr *attr)
{
    return strcmp(orr_graph_str(g, attr->name), "Input Dims") == 0 && attr->count == 1 &&
           (attr->kind == ORR_ATTR_JSON || attr->kind == ORR_ATTR_STRING);
}

/* The row count of an embedding's gradient is an argument, not a shape. */
static const char *other_values(copy *k, orr_node_id v, const orr_attr *attr)
{
    const orr_graph *g = k->step->g;
    static const orr_dim_meaning vocab = {ORR_SYMBOL_VOCAB, true};
    if (strcmp(orr_graph_str(g, attr->name), "Concrete Inputs") != 0 ||
        strstr(orr_graph_str(g, g->name[v]), "embedding_dense_backward") == NULL ||
        attr->kind != ORR_ATTR_JSON)
        return NULL;
    const char *text = orr_graph_str(g, *(const orr_str *)attr->values);
    const char *at = text;
    for (int comma = 0; comma < 2 && at != NULL; comma++)
        at = strchr(at + 1, ',');
    at = at == NULL ? NULL : at + strcspn(at, "0123456789");
    if (at == NULL || *at == '\0')
        return NULL;
    const size_t len = strspn(at, "0123456789");
    int64_t value = 0;
    for (size_t i = 0; i < len && i < 12; i++)
        value = value * 10 + (at[i] - '0');
    const int64_t old = value;
    if (!orr_dim_translate(&k->c->from, &k->c->to, vocab, &value) || value == old)
        return NULL;
    k->changed = true;
    return orr_arena_printf(k->c->arena, "%.*s%lld%s", (int)(at - text), text, (long long)value,
                            at + len);
}

/* Attributes of a node with its shapes carried over. */
static orr_status copy_attrs(copy *k, orr_node_id v, orr_node_id made)
{
    enum { MOST = 16 };
    const orr_graph *g = k->step->g;
    orr_attr list[MOST];
    orr_str texts[MOST];
    uint32_t n = 0;
    orr_attr_iter it = orr_graph_attrs(g, v);
    for (orr_attr attr; n < MOST && orr_attr_next(&it, &attr);) {
        const char *text = NULL;
        if (attr.list || attr.kind == ORR_ATTR_BYTES || attr.kind == ORR_ATTR_UNKNOWN)
            continue;
        if (is_dims(g, &attr)) {
            const char *name = orr_graph_str(g, g->name[v]);
            const char *old = orr_graph_str(g, *(const orr_str *)attr.values);
            ORR_TRY(orr_compose_dims(k->c, k->p, name, k->products, old, k->parameters, &text));
            k->changed = text != old;
        } else {
            text = other_values(k, v, &attr);
        }
        ORR_TRY(copy_attr(k, &attr, &list[n], &texts[n], text));
        n++;
    }
    if (strcmp(orr_graph_str(g, g->name[v]), "aten::mm") == 0)
        k->products++;
    return n == 0 ? ORR_OK : orr_builder_attrs(k->c->e.b, made, list, n, k->c->err);
}

/* A call that waited for the device counts without the wait. */
static int64_t own_duration_ns(const orr_graph *g, orr_node_id v)
{
    int64_t free_ns = g->start_ns[v];
    for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++) {
        const orr_node_id u = g->dep[d];
        if (g->dep_kind[d] == ORR_DEP_SYNC && g->start_ns[u] != ORR_TIME_NONE &&
            g->start_ns[u] + g->duration_ns[u] > free_ns)
            free_ns = g->start_ns[u] + g->duration_ns[u];
    }
    const int64_t own = g->start_ns[v] + g->duration_ns[v] - free_ns;
    return own > 0 ? own : 0;
}

static orr_status copy_host_node(copy *k, orr_node_id v)
{
    orr_composer *c = k->c;
    orr_emit *e = &c->e;
    const orr_graph *g = k->step->g;
    const bool root = v == k->p->root;
    const bool runtime = g->kind[v] == ORR_NODE_RUNTIME;
    const orr_node node = {.name = orr_emit_str(e, orr_graph_str(g, g->name[v])),
                           .kind = (orr_node_kind)g->kind[v],
                           .lane = e->hosts[e->at].lane,
                           .start_ns = g->start_ns[v] + k->shift_ns,
                           .duration_ns = g->duration_ns[v],
                           .parent = root ? ORR_NONE : c->made[g->parent[v]],
                           .source_id = runtime ? ++e->correlation : ++e->record_function};
    const orr_node_id made = orr_emit_node(e, &node);
    ORR_TRY(so_far(c));
    c->made[v] = made;
    ORR_TRY(remember(c, made, (orr_origin){k->step->graph, v, false}));
    if (root)
        orr_emit_program_order(e, made);
    for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++)
        if (!root && k->step->piece_of[g->dep[d]] == k->step->piece_of[v] &&
            (g->dep_kind[d] == ORR_DEP_THREAD || g->dep_kind[d] == ORR_DEP_CONTROL))
            orr_emit_dep(e, made, c->made[g->dep[d]], (orr_dep_kind)g->dep_kind[d]);
    return copy_attrs(k, v, made);
}

static orr_node_id launch_of(const orr_graph *g, orr_node_id v)
{
    for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++)
        if (g->dep_kind[d] == ORR_DEP_LAUNCH)
            return g->dep[d];
    return ORR_NONE;
}

static uint32_t stream_of(orr_composer *c, const orr_graph *g, orr_node_id v)
{
    return orr_emit_stream_of(&c->e, g->lanes[g->lane[v]].tid);
}

/* Number of works issued on the stream of u after u and before the piece's own. */
static uint32_t depth_of(const copy *k, orr_node_id u)
{
    enum { MOST = 64 };
    const orr_profiled_step *step = k->step;
    const orr_graph *g = step->g;
    const uint32_t end = k->p->first_work;
    uint32_t depth = 0;
    for (uint32_t i = end; i-- > 0 && depth < MOST;) {
        const orr_node_id w = step->works[i];
        if (w == u)
            return depth;
        depth += g->lane[w] == g->lane[u] && g->kind[w] != ORR_NODE_SYNC;
    }
    return 0;
}

static void wait_as_recorded(copy *k, orr_node_id v)
{
    orr_composer *c = k->c;
    const orr_graph *g = k->step->g;
    const uint32_t own = stream_of(c, g, v);
    for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++) {
        const orr_node_id u = g->dep[d];
        if (g->dep_kind[d] != ORR_DEP_EVENT || k->step->piece_of[u] == ORR_NONE)
            continue;
        const orr_step_piece *other = &k->step->pieces[k->step->piece_of[u]];
        if (other != k->p && other->role != ORR_ROLE_WORK)
            continue; /* by the rule for communications */
        const uint32_t on = stream_of(c, g, u);
        const orr_node_ids *issued = &c->e.streams[on].issued;
        const uint32_t depth = other == k->p ? 0 : depth_of(k, u);
        orr_node_id before = other == k->p       ? c->made[u]
                             : issued->n > depth ? issued->at[issued->n - 1 - depth]
                                                 : ORR_NONE;
        if (before != ORR_NONE && c->e.status == ORR_OK &&
            !orr_array_push(&c->e.streams[own].pending, before))
            c->e.status = orr_fail_memory(c->err);
    }
}

static orr_comm carried_comm(copy *k, const orr_comm *old, orr_comm_role role)
{
    orr_composer *c = k->c;
    orr_comm comm = *old;
    const uint32_t grouping = orr_grouping_of_role(role);
    comm.group = c->groups[grouping];
    comm.group_size = (int32_t)orr_plan_group(&c->to, grouping, 0).size;
    comm.seq = orr_compose_next_seq(c, role);
    comm.dtype = orr_emit_str(&c->e, orr_graph_str(k->step->g, old->dtype));
    comm.in_splits = comm.out_splits = 0;
    if (comm.peer >= 0)
        comm.peer = (int32_t)orr_compose_peer(c, role);
    return comm;
}

/* Bytes go with the elements: of the shapes, of the parameters, or of the activations in all. */
static void carry_bytes(copy *k, orr_comm_role role, orr_comm *comm)
{
    orr_composer *c = k->c;
    orr_ratio r = k->parameters;
    orr_node_id op;
    orr_input_dims old, new;
    if (role != ORR_ROLE_DP) {
        const char *text = orr_piece_dims(k->step, k->p, &op), *now = text;
        r = (orr_ratio){(int64_t)c->to.micro_batch * c->to.seq * c->to.hidden,
                        (int64_t)c->from.micro_batch * c->from.seq * c->from.hidden};
        const orr_ratio none = {0, 0};
        if (text != NULL && orr_compose_dims(c, k->p, "", 0, text, none, &now) == ORR_OK &&
            orr_dims_parse(text, &old) && orr_dims_parse(now, &new) && old.n > 0)
            r = (orr_ratio){orr_dims_product(&new, old.at[0].arg),
                            orr_dims_product(&old, old.at[0].arg)};
    }
    if (r.now <= 0 || r.before <= 0)
        return;
    if (comm->in_bytes > 0)
        comm->in_bytes = orr_scale_ratio(comm->in_bytes, r.now, r.before);
    if (comm->out_bytes > 0)
        comm->out_bytes = orr_scale_ratio(comm->out_bytes, r.now, r.before);
}

static orr_status copy_work(copy *k, orr_node_id v)
{
    orr_composer *c = k->c;
    orr_emit *e = &c->e;
    const orr_graph *g = k->step->g;
    const uint32_t stream = stream_of(c, g, v);
    const bool communicates = orr_is_communication(g, v);
    const orr_node_id launch = launch_of(g, v);
    const orr_node_id call = launch == ORR_NONE ? ORR_NONE : c->made[launch];
    if (communicates)
        orr_emit_wait(e, stream, orr_emit_stream_of(e, e->compute_stream));
    else if (g->kind[v] != ORR_NODE_SYNC)
        wait_as_recorded(k, v);
    const orr_node node = {.name = orr_emit_str(e, orr_graph_str(g, g->name[v])),
                           .kind = (orr_node_kind)g->kind[v]}; /* time: of the ensemble */
    const orr_node_id made = orr_emit_work(e, stream, call, &node);
    ORR_TRY(so_far(c));
    c->made[v] = made;
    ORR_TRY(remember(c, made, (orr_origin){k->step->graph, v, k->changed}));
    if (communicates) {
        const orr_comm_role role = (orr_comm_role)k->p->role;
        orr_comm comm = carried_comm(k, orr_graph_comm(g, v), role);
        carry_bytes(k, role, &comm);
        orr_emit_comm_row(e, made, &comm, orr_compose_rendezvous(c, role, comm.seq),
                          &c->rendezvous);
        if (role == ORR_ROLE_TP || orr_comm_is_recv(role))
            orr_emit_wait(e, orr_emit_stream_of(e, e->compute_stream), stream);
    } else if (orr_graph_copy(g, v) != NULL) {
        ORR_TRY(orr_builder_copy(e->b, made, orr_graph_copy(g, v), c->err));
    }
    return so_far(c);
}

/* Synchronising calls wait for the new work: of all streams, or of those that they waited for. The
 * recorded wait is no time of the piece. */
static void copy_syncs(copy *k, orr_node_id v)
{
    orr_emit *e = &k->c->e;
    const orr_graph *g = k->step->g;
    const char *name = orr_graph_str(g, g->name[v]);
    const bool all =
        strstr(name, "DeviceSynchronize") != NULL || strstr(name, "CtxSynchronize") != NULL;
    bool waits = all;
    for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++) {
        if (g->dep_kind[d] != ORR_DEP_SYNC)
            continue;
        waits = true;
        if (!all)
            orr_emit_dep(e, k->c->made[v], orr_emit_tail(e, stream_of(k->c, g, g->dep[d])),
                         ORR_DEP_SYNC);
    }
    for (uint32_t i = 0; i < e->n_streams && all; i++)
        orr_emit_dep(e, k->c->made[v], orr_emit_tail(e, i), ORR_DEP_SYNC);
    const int64_t waited = waits ? g->duration_ns[v] - own_duration_ns(g, v) : 0;
    for (orr_node_id u = v; waited > 0 && e->status == ORR_OK; u = g->parent[u]) {
        e->b->duration_ns[k->c->made[u]] -= waited;
        if (u == k->p->root)
            break;
    }
    k->shift_ns -= waited;
}

/* The thread of a recorded lane, numbered in the order of first use. */
static uint32_t thread_of(orr_composer *c, const orr_profiled_step *step, uint32_t lane)
{
    uint32_t seen[ORR_EMIT_HOSTS], n = 0, at = 0;
    for (uint32_t i = 0; i < step->n_pieces; i++) {
        for (at = 0; at < n && seen[at] != step->pieces[i].lane;)
            at++;
        if (at == n && n < ORR_EMIT_HOSTS)
            seen[n++] = step->pieces[i].lane;
        if (step->pieces[i].lane == lane)
            break;
    }
    return orr_emit_thread(&c->e, "python", (int64_t)at + 1);
}

orr_status orr_compose_copy_piece(orr_composer *c, const orr_profiled_step *step,
                                  const orr_step_piece *p, orr_ratio parameters)
{
    orr_emit *e = &c->e;
    copy k = {.c = c, .step = step, .p = p, .parameters = parameters};
    uint32_t next = 0;
    orr_emit_switch_thread(e, thread_of(c, step, p->lane));
    orr_emit_advance(e, p->gap_ns);
    k.shift_ns = e->hosts[e->at].now_ns - p->start_ns;
    for (uint32_t i = 0; i < p->n_works; i++) /* of an earlier copy */
        c->made[step->works[p->first_work + i]] = ORR_NONE;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const orr_node_id v = step->nodes[p->first_node + i];
        ORR_TRY(copy_host_node(&k, v));
        copy_syncs(&k, v);
        /* Work right behind its launch, so that streams see the order of the thread. */
        for (; next < p->n_works; next++) {
            const orr_node_id w = step->works[p->first_work + next];
            const orr_node_id call = launch_of(step->g, w);
            if (call != v && !(call == ORR_NONE && next > 0))
                break;
            ORR_TRY(copy_work(&k, w));
        }
    }
    for (; next < p->n_works; next++)
        ORR_TRY(copy_work(&k, step->works[p->first_work + next]));
    e->hosts[e->at].now_ns = p->end_ns + k.shift_ns;
    return so_far(c);
}
