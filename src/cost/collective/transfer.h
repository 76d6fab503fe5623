/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_COLLECTIVE_TRANSFER_H
#define ORR_COST_COLLECTIVE_TRANSFER_H

#include <orrery/cost.h>
#include <orrery/graph.h>

/* A transfer: the data movement of a communication, and its price on a cluster. */
typedef struct orr_transfer {
    uint8_t collective; /* orr_collective; SEND for a send and its receive */
    int32_t root;       /* index in the group, or -1 */
    int64_t bytes;      /* as in orr_collective_price(); -1: unknown */
} orr_transfer;

/* The transfer as one member recorded it. */
orr_transfer orr_transfer_of(const orr_comm *comm);
/* Combines what two members recorded: the larger bytes, and a root if one is known. */
orr_transfer orr_transfer_join(orr_transfer a, orr_transfer b);

/* A cache of prices: a job asks for the same few over and over. Not thread safe. */
enum { ORR_PRICES_KEPT = 256 };
typedef struct orr_transfer_pricer {
    const orr_cluster *cluster; /* NULL: none */
    orr_network network;
    uint8_t algorithm; /* orr_algorithm */
    struct {
        orr_span span;
        orr_transfer transfer;
        orr_price price;
        bool taken;
    } kept[ORR_PRICES_KEPT];
} orr_transfer_pricer;

void orr_transfer_pricer_init(orr_transfer_pricer *pricer, const orr_cluster *cluster,
                              uint8_t algorithm);
/* Prices a transfer. `ranks`: shape (n), the members. Errors: INVALID: no cluster, or one that
 * is too small; unknown bytes or kind (`who`: for the message). */
orr_status orr_transfer_price(orr_transfer_pricer *pricer, const orr_transfer *transfer,
                              const uint32_t *ranks, uint32_t n, const orr_graph *graph,
                              orr_node_id who, orr_price *ret, orr_error *err) ORR_MUST_CHECK;
/* A transfer among these ranks, shape (n); n = 0: they are not known. */
typedef struct orr_placed_transfer {
    orr_transfer transfer;
    const uint32_t *ranks;
    uint32_t n;
} orr_placed_transfer;
static inline bool orr_transfer_is_known(const orr_transfer *transfer)
{
    return transfer->bytes >= 0 && transfer->collective != ORR_COLL_UNKNOWN;
}

/* The length of a recorded transfer elsewhere: the one answer of every what-if question. `was` on
 * the cluster of `recorded` took recorded_ns; *ret is what `is` takes on the cluster of `there`.
 * The same transfer on the same cluster takes recorded_ns. A transfer of which the bytes, the kind
 * or the ranks are not known keeps recorded_ns, whatever it was scaled to. Without a cluster in
 * `recorded`, or one too small, and where recorded_ns or its price is 0, the price alone. Errors:
 * INVALID: a rank beyond the cluster of `there`. */
orr_status orr_transfer_reprice(orr_transfer_pricer *recorded, orr_transfer_pricer *there,
                                int64_t recorded_ns, const orr_placed_transfer *was,
                                const orr_placed_transfer *is, orr_price *ret,
                                orr_transfer_basis *ret_basis, orr_error *err) ORR_MUST_CHECK;

/* x * num / den, rounded to nearest, for what is not negative; x where den is 0. */
int64_t orr_scale_ratio(int64_t x, int64_t num, int64_t den);

/* Prices a communication whose partners are not in the ensemble: its recorded group is placed as
 * recorded; a group of which only the size is known takes the first devices (assumed). */
orr_status orr_transfer_price_alone(orr_transfer_pricer *pricer, const orr_graph *graph,
                                    orr_node_id who, const orr_comm *comm, orr_price *ret,
                                    orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_COST_COLLECTIVE_TRANSFER_H */
