/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_PROGRAM_TRANSFER_H
#define ORR_SIM_PROGRAM_TRANSFER_H

#include <orrery/sim.h>

/* Transfer: what a communication moves, and how long that takes by closed form where the ensemble
 * does not say. */
typedef struct orr_transfer {
    uint8_t collective; /* orr_collective; SEND for a send and its recv */
    int32_t root;       /* in the group, or -1 */
    int64_t bytes;      /* as in orr_collective_price(); -1: not known */
} orr_transfer;

/* What one member says of it. */
orr_transfer orr_transfer_of(const orr_comm *comm);
/* What all say together: the most bytes, and a root if one is known. */
orr_transfer orr_transfer_join(orr_transfer a, orr_transfer b);

/* Prices, remembered: a job asks for the same few over and over. One thread. */
enum { ORR_PRICES_KEPT = 256 };
typedef struct orr_transfer_pricer {
    const orr_cluster *cluster; /* NULL: there is none */
    orr_network network;
    uint8_t mode;      /* orr_network_mode */
    uint8_t algorithm; /* orr_algorithm    */
    struct {
        orr_span span;
        orr_transfer transfer;
        orr_price price;
        bool taken;
    } kept[ORR_PRICES_KEPT];
} orr_transfer_pricer;

void orr_transfer_pricer_init(orr_transfer_pricer *pricer, const orr_sim_options *options);
/* Does the network say how long it takes, and not the ensemble? */
bool orr_transfer_pricer_decides(const orr_transfer_pricer *pricer, const orr_transfer *transfer,
                                 int64_t given_ns);
/* `ranks`: shape (n), the members. Errors: INVALID: no cluster, or one that is too small; bytes or
 * kind not known (who: for the message). */
orr_status orr_transfer_price(orr_transfer_pricer *pricer, const orr_transfer *transfer,
                              const uint32_t *ranks, uint32_t n, const orr_graph *graph,
                              orr_node_id who, orr_price *ret, orr_error *err) ORR_MUST_CHECK;
/* Of a communication whose partners are not in the ensemble: its recorded group lies where that
 * says; a group of which only the size is known is taken to be the first devices (assumed). */
orr_status orr_transfer_price_alone(orr_transfer_pricer *pricer, const orr_graph *graph,
                                    orr_node_id who, const orr_comm *comm, orr_price *ret,
                                    orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_PROGRAM_TRANSFER_H */
