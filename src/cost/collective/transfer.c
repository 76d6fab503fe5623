/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/collective/transfer.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

/* Bytes of one member as orr_collective_price() takes them: the larger of the two that are
 * recorded. */
orr_transfer orr_transfer_of(const orr_comm *comm)
{
    const uint8_t collective = comm->collective == ORR_COLL_RECV ? ORR_COLL_SEND : comm->collective;
    int64_t bytes = comm->in_bytes > comm->out_bytes ? comm->in_bytes : comm->out_bytes;
    if (bytes < 0 && collective == ORR_COLL_BARRIER)
        bytes = 0;
    return (orr_transfer){collective, comm->root, bytes < 0 ? -1 : bytes};
}

orr_transfer orr_transfer_join(orr_transfer a, orr_transfer b)
{
    if (a.collective == ORR_COLL_UNKNOWN)
        a.collective = b.collective;
    if (a.root < 0)
        a.root = b.root;
    if (a.bytes < b.bytes)
        a.bytes = b.bytes;
    return a;
}

void orr_transfer_pricer_init(orr_transfer_pricer *pricer, const orr_cluster *cluster,
                              uint8_t algorithm)
{
    memset(pricer, 0, sizeof *pricer);
    pricer->cluster = cluster;
    pricer->algorithm = algorithm;
    if (cluster != NULL)
        orr_network_of_cluster(cluster, &pricer->network);
}

static orr_status fail(const orr_graph *graph, orr_node_id who, const char *why, orr_error *err)
{
    return orr_fail(err, ORR_INVALID, "'%.60s' (node %u) has no duration, and %s",
                    orr_graph_str(graph, graph->name[who]), who, why);
}

static uint32_t slot_of(const orr_span *span, const orr_transfer *transfer)
{
    uint64_t hash = (uint64_t)transfer->bytes * 8 + transfer->collective;
    for (uint32_t l = 0; l < span->n_levels && l < ORR_LEVELS_MAX; l++)
        hash = (hash ^ span->width[l]) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash >> 56) % ORR_PRICES_KEPT;
}

static bool same_span(const orr_span *a, const orr_span *b)
{
    return a->n_ranks == b->n_ranks && a->n_levels == b->n_levels && a->top == b->top &&
           a->even == b->even && memcmp(a->width, b->width, sizeof a->width) == 0;
}

static orr_price priced(orr_transfer_pricer *p, const orr_span *span, const orr_transfer *transfer)
{
    const uint32_t slot = slot_of(span, transfer);
    if (!p->kept[slot].taken || p->kept[slot].transfer.bytes != transfer->bytes ||
        p->kept[slot].transfer.collective != transfer->collective ||
        !same_span(&p->kept[slot].span, span)) {
        p->kept[slot].taken = true;
        p->kept[slot].span = *span;
        p->kept[slot].transfer = *transfer;
        p->kept[slot].price =
            orr_collective_price(&p->network, span, (orr_collective)transfer->collective,
                                 (orr_algorithm)p->algorithm, transfer->bytes);
    }
    return p->kept[slot].price;
}

orr_status orr_transfer_price(orr_transfer_pricer *pricer, const orr_transfer *transfer,
                              const uint32_t *ranks, uint32_t n, const orr_graph *graph,
                              orr_node_id who, orr_price *ret, orr_error *err)
{
    orr_span span = {0};
    if (pricer->cluster == NULL)
        return fail(graph, who, "there is no cluster to price it on", err);
    if (!orr_transfer_is_known(transfer))
        return fail(graph, who, "neither its kind nor its bytes are known", err);
    ORR_TRY(orr_cluster_span(pricer->cluster, ranks, n, &span, err));
    *ret = priced(pricer, &span, transfer);
    return ORR_OK;
}

static orr_status price_placed(orr_transfer_pricer *pricer, const orr_placed_transfer *placed,
                               orr_price *ret, orr_error *err)
{
    orr_span span = {0};
    ORR_TRY(orr_cluster_span(pricer->cluster, placed->ranks, placed->n, &span, err));
    *ret = priced(pricer, &span, &placed->transfer);
    return ORR_OK;
}

int64_t orr_scale_ratio(int64_t x, int64_t num, int64_t den)
{
    if (den <= 0 || num < 0)
        return x;
    const __int128 scaled = ((__int128)x * num + den / 2) / den;
    return scaled > INT64_MAX / 4 ? INT64_MAX / 4 : (int64_t)scaled;
}

orr_status orr_transfer_reprice(orr_transfer_pricer *recorded, orr_transfer_pricer *there,
                                int64_t recorded_ns, const orr_placed_transfer *was,
                                const orr_placed_transfer *is, orr_price *ret,
                                orr_transfer_basis *ret_basis, orr_error *err)
{
    *ret = (orr_price){recorded_ns, ORR_BASIS_RECORDED, NAN, ""};
    *ret_basis = !orr_transfer_is_known(&is->transfer) ? ORR_TRANSFER_NO_SIZE
                 : is->n == 0                          ? ORR_TRANSFER_NO_MEMBERS
                 : there->cluster == NULL              ? ORR_TRANSFER_NO_NETWORK
                                                       : ORR_TRANSFER_PRICED;
    if (*ret_basis != ORR_TRANSFER_PRICED)
        return ORR_OK;
    orr_price now, then = {0};
    ORR_TRY(price_placed(there, is, &now, err));
    const bool anchored = recorded->cluster != NULL && was->n > 0 &&
                          orr_transfer_is_known(&was->transfer) && recorded_ns > 0 &&
                          price_placed(recorded, was, &then, NULL) == ORR_OK && then.ns > 0;
    if (anchored) {
        *ret_basis = ORR_TRANSFER_ANCHORED;
        if (now.ns == then.ns)
            return ORR_OK;
        now.ns = orr_scale_ratio(recorded_ns, now.ns, then.ns);
    }
    *ret = now;
    return ORR_OK;
}

orr_status orr_transfer_price_alone(orr_transfer_pricer *pricer, const orr_graph *graph,
                                    orr_node_id who, const orr_comm *comm, orr_price *ret,
                                    orr_error *err)
{
    const orr_group *group = comm->group != ORR_NONE ? &graph->groups[comm->group] : NULL;
    const bool is_pair = comm->collective == ORR_COLL_SEND || comm->collective == ORR_COLL_RECV;
    uint32_t n = group && group->size > 0 ? group->size
                 : comm->group_size > 0   ? (uint32_t)comm->group_size
                 : graph->world_size > 0  ? graph->world_size
                                          : 1;
    if (is_pair)
        n = 2;
    if (pricer->cluster != NULL && n > pricer->cluster->n_devices)
        return orr_fail(err, ORR_INVALID, "a group of %u ranks: cluster '%s' has %u devices", n,
                        pricer->cluster->name, pricer->cluster->n_devices);
    uint32_t *ranks = orr_calloc(n, sizeof *ranks);
    if (ranks == NULL)
        return orr_fail_memory(err);
    const bool listed =
        !is_pair && group && group->size == n && orr_group_rank(group, 0) != ORR_NONE;
    for (uint32_t i = 0; i < n; i++)
        ranks[i] = listed ? orr_group_rank(group, i) : i;
    const orr_transfer transfer = orr_transfer_of(comm);
    const orr_status status = orr_transfer_price(pricer, &transfer, ranks, n, graph, who, ret, err);
    orr_free(ranks);
    return status;
}
