/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/recover/recover.h"

#include <stdlib.h>

#include "base/alloc.h"

/* Hand-offs from forward to backward operators: by PyTorch's "fwdbwd" flow arrows, or by autograd
 * sequence numbers. */

static orr_status hand_off(orr_graph_builder *b, orr_node_id from, orr_node_id to, orr_error *err)
{
    if (from == ORR_NONE || to == ORR_NONE || b->lane[from] == b->lane[to] ||
        orr_recorded_end_ns(b, from) >= b->start_ns[to])
        return ORR_OK;
    return orr_builder_dep(b, to, from, ORR_DEP_HANDOFF, err);
}

static int by_id(const void *a, const void *b)
{
    const orr_flow *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->finish != y->finish)
        return x->finish ? 1 : -1;
    return x->at_ns < y->at_ns ? -1 : x->at_ns > y->at_ns;
}

/* The operator where an arrow starts or ends: of those that begin there, the innermost. */
static orr_node_id operator_at(const orr_graph_builder *b, const orr_flow *flow)
{
    orr_node_id found = ORR_NONE;
    uint32_t last;
    for (uint32_t i = orr_lane_rows_at(b, flow->lane, flow->at_ns, &last); i < last; i++)
        if (b->kind[b->lane_rows.node[i]] == ORR_NODE_HOST_OP)
            found = b->lane_rows.node[i];
    return found;
}

static orr_status follow_arrows(orr_graph_builder *b, const orr_recovery *r, orr_error *err)
{
    const size_t n = r->forward.n;
    orr_status status = ORR_OK;
    orr_flow *flows = orr_malloc(n * sizeof *flows);
    if (flows == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        flows[i] = r->forward.at[i];
    qsort(flows, n, sizeof *flows, by_id);
    const orr_flow *begin = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!flows[i].finish)
            begin = &flows[i];
        else if (begin != NULL && begin->id == flows[i].id)
            ORR_TRY_OUT(status, hand_off(b, operator_at(b, begin), operator_at(b, &flows[i]), err));
    }
out:
    orr_free(flows);
    return status;
}

static int by_sequence(const void *a, const void *b)
{
    const orr_autograd *x = a, *y = b;
    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? -1 : 1;
    if (x->backward != y->backward)
        return x->backward ? 1 : -1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* For the operators [0, n) of one sequence number: the forward operator that ended last before the
 * first backward operator began. */
static orr_status follow_sequence(orr_graph_builder *b, const orr_autograd *ops, size_t n,
                                  orr_error *err)
{
    orr_node_id forward = ORR_NONE, backward = ORR_NONE;
    for (size_t i = n; i-- > 0;) {
        const orr_node_id v = ops[i].node;
        if (ops[i].backward) {
            if (backward == ORR_NONE || b->start_ns[v] < b->start_ns[backward])
                backward = v;
        } else if (backward != ORR_NONE && orr_recorded_end_ns(b, v) < b->start_ns[backward] &&
                   (forward == ORR_NONE ||
                    orr_recorded_end_ns(b, v) > orr_recorded_end_ns(b, forward))) {
            forward = v;
        }
    }
    return hand_off(b, forward, backward, err);
}

static orr_status follow_sequences(orr_graph_builder *b, const orr_recovery *r, orr_error *err)
{
    const size_t n = r->autograd.n;
    orr_status status = ORR_OK;
    orr_autograd *ops = orr_malloc(n * sizeof *ops);
    if (ops == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        ops[i] = r->autograd.at[i];
    qsort(ops, n, sizeof *ops, by_sequence);
    for (size_t first = 0, last; first < n; first = last) {
        for (last = first + 1; last < n && ops[last].sequence == ops[first].sequence;)
            last++;
        ORR_TRY_OUT(status, follow_sequence(b, ops + first, last - first, err));
    }
out:
    orr_free(ops);
    return status;
}

orr_status orr_recover_autograd_handoffs(orr_graph_builder *b, const orr_recovery *r,
                                         orr_error *err)
{
    if (r->forward.n > 0)
        return follow_arrows(b, r, err);
    return r->autograd.n > 0 ? follow_sequences(b, r, err) : ORR_OK;
}
