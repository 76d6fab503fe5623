/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/whatif.h>

#include <math.h>
#include <string.h>

#include "sim/peer_durations.h"
#include "sim/placed_transfers.h"
#include "sim/selector.h"

/* What-if analysis: another device, batch size, network, or named slowdowns. Graphs stay as they
 * are: the changed job is the same graphs with other durations and bases. Switches apply in this
 * order: durations of other ranks (without stragglers), device (each kernel's recorded duration
 * times the ratio of the predictions for both devices, so that common errors of the model cancel),
 * batch, network or message size, factors by name, stragglers. */

void orr_whatif_init(orr_whatif *what)
{
    *what = (orr_whatif){.struct_bytes = sizeof *what, .batch = 1, .message_bytes = 1};
}

typedef struct change {
    const orr_ensemble *from;
    const orr_whatif *what;
    orr_cost_chain chain;
    orr_transfer_pricer *pricers; /* shape (2): of the recorded network, and of the other one */
    orr_transfer_placer placer;
    orr_arena *arena;
    int64_t **duration_ns; /* shape (D)(N_d) */
    uint8_t **basis;       /* shape (D)(N_d) */
    bool *scale_used;      /* shape (n_scales) */
    orr_whatif_report report;
    orr_error *err;
} change;

static bool is_factor(double factor)
{
    return isfinite(factor) && factor >= 0;
}

static orr_status check_rank(const change *c, const char *what, uint32_t rank)
{
    if (rank < c->from->n_ranks && c->from->graph_of_rank[rank] != ORR_NONE)
        return ORR_OK;
    return orr_fail(c->err, ORR_INVALID, "%s: rank %u is not in the job", what, rank);
}

static orr_status check(const change *c)
{
    const orr_whatif *what = c->what;
    if (!is_factor(what->batch) || !is_factor(what->message_bytes))
        return orr_fail(c->err, ORR_INVALID, "a factor must be a number that is not negative");
    for (uint32_t i = 0; i < what->n_scales; i++)
        if (!is_factor(what->scales[i].factor))
            return orr_fail(c->err, ORR_INVALID,
                            "%s: a factor must be a number that is not negative",
                            what->scales[i].name);
    for (uint32_t i = 0; i < what->n_stragglers; i++) {
        const orr_rank_factor *s = &what->stragglers[i];
        if (!is_factor(s->factor) || s->factor > 1000)
            return orr_fail(c->err, ORR_INVALID, "straggler %u: the factor must be from 0 to 1000",
                            s->rank);
        ORR_TRY(check_rank(c, "straggler", s->rank));
    }
    for (uint32_t i = 0; i < what->n_without_stragglers; i++)
        ORR_TRY(check_rank(c, "without stragglers", what->without_stragglers[i]));
    return ORR_OK;
}

static orr_status open_rows(change *c)
{
    const orr_ensemble *e = c->from;
    c->duration_ns = orr_arena_array(c->arena, int64_t *, e->n_graphs);
    c->basis = orr_arena_array(c->arena, uint8_t *, e->n_graphs);
    c->scale_used = orr_arena_array(c->arena, bool, c->what->n_scales);
    if (c->duration_ns == NULL || c->basis == NULL || c->scale_used == NULL)
        return orr_fail_memory(c->err);
    for (uint32_t d = 0; d < e->n_graphs; d++) {
        const orr_graph *g = e->graphs[d];
        int64_t *ns = c->duration_ns[d] = orr_arena_array(c->arena, int64_t, g->n_nodes);
        uint8_t *basis = c->basis[d] = orr_arena_array(c->arena, uint8_t, g->n_nodes);
        if (ns == NULL || basis == NULL)
            return orr_fail_memory(c->err);
        const int64_t *was =
            e->duration_ns && e->duration_ns[d] ? e->duration_ns[d] : g->duration_ns;
        memcpy(ns, was, g->n_nodes * sizeof *ns);
        if (e->basis && e->basis[d])
            memcpy(basis, e->basis[d], g->n_nodes);
        else
            memset(basis, ORR_BASIS_RECORDED, g->n_nodes);
    }
    return ORR_OK;
}

static bool communicates(const orr_graph *g, orr_node_id v)
{
    return g->kind[v] == ORR_NODE_COLLECTIVE || g->kind[v] == ORR_NODE_SEND ||
           g->kind[v] == ORR_NODE_RECV;
}

static bool runs_on_device(const orr_graph *g, orr_node_id v)
{
    return g->kind[v] >= ORR_NODE_COMPUTE && g->kind[v] < ORR_NODE_SYNC &&
           g->lanes[g->lane[v]].kind == ORR_LANE_STREAM;
}

static int64_t times(int64_t ns, double factor)
{
    const double scaled = (double)ns * factor;
    return ns < 0 ? ns : scaled >= 0x1p62 ? INT64_C(1) << 62 : (int64_t)llround(scaled);
}

static void set(change *c, uint32_t d, orr_node_id v, double factor, orr_basis basis)
{
    c->duration_ns[d][v] = times(c->duration_ns[d][v], factor);
    c->basis[d][v] = (uint8_t)basis;
}

static void count_error(change *c, int64_t ns, double error_frac)
{
    c->report.changed_ns += ns;
    if (isnan(error_frac))
        return;
    c->report.known_ns += ns;
    c->report.known_error_ns += (double)ns * error_frac;
}

static bool in_optimizer(const orr_graph *g, orr_node_id v, const orr_work *work)
{
    if (work != NULL && work->family == ORR_FAMILY_OPTIMIZER)
        return true;
    for (uint32_t i = g->dep_first[v]; i < g->dep_first[v + 1]; i++)
        if (g->dep_kind[i] == ORR_DEP_LAUNCH)
            for (orr_node_id p = g->dep[i]; p != ORR_NONE; p = g->parent[p])
                if (strncmp(orr_graph_str(g, g->name[p]), "Optimizer.", 10) == 0)
                    return true;
    return false;
}

/* The work of the same operator with another batch size: tokens are rows of the left operand;
 * work that is known as bytes and FLOPs only scales with them. */
static orr_work with_batch(const orr_work *work, double factor)
{
    orr_work grown = *work;
    if (work->family == ORR_FAMILY_GEMM && !work->backward) {
        grown.dims[1] = times(work->dims[1], factor);
        grown.flops = grown.read_bytes = grown.write_bytes = 0;
        orr_work_complete(&grown);
        return grown;
    }
    grown.flops *= factor;
    grown.read_bytes *= factor;
    grown.write_bytes *= factor;
    return grown;
}

/* Scales a kernel of which nothing is known by the ratio of memory bandwidths: most such kernels
 * are bound by memory. */
static void by_bandwidth(change *c, uint32_t d, orr_node_id v)
{
    const orr_device *from = c->what->from, *to = c->what->to;
    double factor = 1;
    if (from != NULL && to != NULL) {
        const bool copy = c->from->graphs[d]->kind[v] == ORR_NODE_COPY;
        factor = copy ? from->pcie_bytes_per_s.value / to->pcie_bytes_per_s.value
                      : from->memory_bytes_per_s.value / to->memory_bytes_per_s.value;
    }
    if (!in_optimizer(c->from->graphs[d], v, NULL))
        factor *= c->what->batch;
    if (!isfinite(factor)) {
        c->report.unpriced++;
        return;
    }
    set(c, d, v, factor, ORR_BASIS_ASSUMED);
    c->report.by_bandwidth++;
}

static void reprice(change *c, uint32_t d, orr_node_id v)
{
    const orr_whatif *what = c->what;
    const orr_graph *g = c->from->graphs[d];
    orr_work work;
    if (what->from == NULL || orr_work_of_node(g, v, &work, NULL) != ORR_OK) {
        by_bandwidth(c, d, v);
        return;
    }
    const orr_work grown =
        what->batch != 1 && !in_optimizer(g, v, &work) ? with_batch(&work, what->batch) : work;
    const orr_device *from = what->from, *to = what->to ? what->to : what->from;
    orr_price before, after;
    if (!orr_cost_price_pair(&c->chain, (orr_priced_work){from, &work},
                             (orr_priced_work){to, &grown}, &before, &after) ||
        before.basis == ORR_BASIS_ASSUMED || before.ns <= 0) {
        by_bandwidth(c, d, v);
        return;
    }
    set(c, d, v, (double)after.ns / (double)before.ns, (orr_basis)after.basis);
    /* the larger of both errors: common errors would cancel, but are not known to */
    count_error(c, c->duration_ns[d][v], fmax(before.error_frac, after.error_frac));
    c->report.repriced++;
}

/* Does the message grow with the batch? Activations do: between stages and to experts. Other
 * collectives are assumed to carry weights or gradients. */
static bool grows_with_batch(const orr_comm *comm)
{
    return comm->collective == ORR_COLL_ALL_TO_ALL || comm->collective == ORR_COLL_SEND ||
           comm->collective == ORR_COLL_RECV;
}

static void count_comm(change *c, orr_transfer_basis basis, int64_t was_ns, int64_t is_ns)
{
    c->report.comms[basis]++;
    c->report.comms_recorded_ns[basis] += was_ns;
    c->report.comms_ns[basis] += is_ns;
}

/* Where nothing but the number of ranks changed, only that can be told. */
static void keep_comm(change *c, const orr_placed_transfer *was, const orr_placed_transfer *is,
                      int64_t ns)
{
    if (c->what->recorded != NULL && was->n != is->n)
        count_comm(c, ORR_TRANSFER_NO_NETWORK, ns, ns);
}

static orr_status price_comm(change *c, uint32_t d, orr_node_id v)
{
    const orr_comm *comm = orr_graph_comm(c->from->graphs[d], v);
    const orr_whatif *what = c->what;
    const int64_t was_ns = c->duration_ns[d][v];
    const double factor =
        what->message_bytes * (comm != NULL && grows_with_batch(comm) ? what->batch : 1);
    orr_placed_transfer was, is;
    orr_price price;
    orr_transfer_basis basis;
    if (what->network == NULL && factor != 1)
        set(c, d, v, factor, ORR_BASIS_ASSUMED);
    if (what->network == NULL && what->recorded == NULL)
        return ORR_OK;
    const orr_arena_mark mark = orr_arena_get_mark(c->arena);
    ORR_TRY(orr_place_transfer(&c->placer, d, v, c->arena, &was, &is, c->err));
    if (what->network == NULL) {
        keep_comm(c, &was, &is, c->duration_ns[d][v]);
        return ORR_OK;
    }
    is.transfer.bytes = times(is.transfer.bytes, factor);
    ORR_TRY(orr_transfer_reprice(&c->pricers[0], &c->pricers[1], was_ns, &was, &is, &price, &basis,
                                 c->err));
    orr_arena_rewind(c->arena, mark);
    c->duration_ns[d][v] = price.ns;
    count_comm(c, basis, was_ns, price.ns);
    if (price.basis == ORR_BASIS_RECORDED)
        return ORR_OK;
    c->basis[d][v] = price.basis;
    count_error(c, price.ns, price.error_frac);
    return ORR_OK;
}

static orr_status scale_by_name(change *c, uint32_t d)
{
    const orr_graph *g = c->from->graphs[d];
    const orr_arena_mark mark = orr_arena_get_mark(c->arena);
    uint8_t *marks = orr_arena_array(c->arena, uint8_t, c->what->n_scales > 0 ? g->n_nodes : 0);
    if (marks == NULL)
        return orr_fail_memory(c->err);
    for (uint32_t i = 0; i < c->what->n_scales; i++) {
        const orr_selector selector = orr_selector_of(c->what->scales[i].name);
        const uint32_t n = orr_selector_mark(&selector, g, marks);
        for (orr_node_id v = 0; n > 0 && v < g->n_nodes; v++)
            if (marks[v])
                c->duration_ns[d][v] = times(c->duration_ns[d][v], c->what->scales[i].factor);
        c->scale_used[i] |= n > 0;
        c->report.scaled += n;
    }
    orr_arena_rewind(c->arena, mark);
    return ORR_OK;
}

static orr_status change_graph(change *c, uint32_t d)
{
    const orr_graph *g = c->from->graphs[d];
    const bool kernels = c->what->to != NULL || c->what->batch != 1;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        if (communicates(g, v))
            ORR_TRY(price_comm(c, d, v));
        else if (!runs_on_device(g, v))
            continue;
        else if (kernels)
            reprice(c, d, v);
    }
    return scale_by_name(c, d);
}

static orr_status even_out(change *c)
{
    const orr_ensemble *e = c->from;
    const orr_whatif *what = c->what;
    if (what->n_without_stragglers == 0)
        return ORR_OK;
    orr_arena *scratch = orr_arena_new(0, 0);
    bool *chosen = orr_arena_array(c->arena, bool, e->n_graphs);
    orr_peer_operations operations;
    orr_status status = scratch && chosen ? ORR_OK : orr_fail_memory(c->err);
    ORR_TRY_OUT(status, status);
    for (uint32_t i = 0; i < what->n_without_stragglers; i++)
        chosen[e->graph_of_rank[what->without_stragglers[i]]] = true;
    ORR_TRY_OUT(status, orr_peer_operations_find(e, scratch, &operations, c->err));
    ORR_TRY_OUT(status, orr_peer_durations_set(&operations, e, chosen, scratch, c->duration_ns,
                                               &c->report.evened, c->err));
out:
    orr_arena_free(scratch);
    return status;
}

static bool has_device_work(const orr_graph *g)
{
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (runs_on_device(g, v))
            return true;
    return false;
}

static orr_status set_stragglers(change *c, orr_ensemble *to)
{
    const orr_ensemble *e = c->from;
    if (c->what->n_stragglers == 0)
        return ORR_OK;
    uint32_t *ppm = orr_arena_array(c->arena, uint32_t, e->n_ranks);
    if (ppm == NULL)
        return orr_fail_memory(c->err);
    for (uint32_t r = 0; r < e->n_ranks; r++)
        ppm[r] = e->slowdown_ppm ? e->slowdown_ppm[r] : 1000000;
    for (uint32_t i = 0; i < c->what->n_stragglers; i++) {
        const orr_rank_factor *s = &c->what->stragglers[i];
        ppm[s->rank] = (uint32_t)times(ppm[s->rank], s->factor);
        if (c->report.idle_straggler == ORR_NONE &&
            !has_device_work(e->graphs[e->graph_of_rank[s->rank]]))
            c->report.idle_straggler = s->rank;
    }
    to->slowdown_ppm = ppm;
    return ORR_OK;
}

static orr_status change_graphs(change *c)
{
    const orr_whatif *what = c->what;
    c->pricers = orr_arena_array(c->arena, orr_transfer_pricer, 2);
    if (c->pricers == NULL)
        return orr_fail_memory(c->err);
    orr_transfer_pricer_init(&c->pricers[0], what->recorded_network, what->algorithm);
    orr_transfer_pricer_init(&c->pricers[1], what->network, what->algorithm);
    if (what->network != NULL || what->recorded != NULL)
        ORR_TRY(orr_transfer_placer_init(&c->placer, what->recorded, c->from, c->arena, c->err));
    for (uint32_t d = 0; d < c->from->n_graphs; d++)
        ORR_TRY(change_graph(c, d));
    return ORR_OK;
}

orr_status orr_whatif_apply(const orr_ensemble *ensemble, const orr_whatif *given, orr_arena *arena,
                            const orr_ensemble **ret, orr_whatif_report *ret_report, orr_error *err)
{
    orr_whatif what;
    orr_whatif_init(&what);
    /* A caller that was built against an older header has a shorter struct. */
    memcpy(&what, given, given->struct_bytes < sizeof what ? given->struct_bytes : sizeof what);
    change c = {.from = ensemble,
                .what = &what,
                .chain = what.chain ? *what.chain : orr_cost_default_chain(),
                .arena = arena,
                .report = {.unused_scale = ORR_NONE, .idle_straggler = ORR_NONE},
                .err = err};
    orr_ensemble *to = orr_arena_one(arena, orr_ensemble);
    if (to == NULL)
        return orr_fail_memory(err);
    ORR_TRY(check(&c));
    ORR_TRY(open_rows(&c));
    ORR_TRY(even_out(&c));
    ORR_TRY(change_graphs(&c));
    *to = *ensemble;
    ORR_TRY(set_stragglers(&c, to));
    to->duration_ns = (const int64_t *const *)c.duration_ns;
    to->basis = (const uint8_t *const *)c.basis;
    for (uint32_t i = what.n_scales; i-- > 0;)
        if (!c.scale_used[i])
            c.report.unused_scale = i;
    *ret = to;
    *ret_report = c.report;
    return ORR_OK;
}
