/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_NETWORK_ALPHA_BETA_FIT_H
#define ORR_COST_NETWORK_ALPHA_BETA_FIT_H

#include <orrery/cost.h>

/* Fit of alpha-beta constants of a level to measured collectives.
 *
 * The split for the built-in constants (fitted_constants.c), written down before the first fit: of
 * each measured system the points in order of payload (as they stand where payloads are equal),
 * counted from 0; even ones are fitted, odd ones are held out for the errors.
 * tests/reference/test_busbw.c repeats it: fits the even ones, compares with the constants in the
 * code, and prints the errors on the odd ones.
 *
 * Fitted: base and bandwidth of the three protocols, six numbers. The latency of one more hop
 * cannot be separated from the base by measurements of one group; it is NCCL's own (tuning.cc,
 * hwLat: LL, LL128 and Simple; of a tree of switches those of CollNet).
 *
 * Method: least absolute deviations, sum of |ln(price / measured)|, which a few outliers do not
 * bend. The price is concave and piecewise linear in bytes, so each protocol is a line, and a
 * best line goes through two of the points (or through one with base 0). All of those candidates
 * are tried, protocol by protocol until none improves, in each of the six orders, with
 * bandwidths in the order of the protocols. There are no starting values and no step sizes:
 * whoever repeats it gets the same constants. */
typedef struct orr_busbw_point {
    orr_span span;
    uint8_t collective, algorithm; /* AUTO: what the measured library chose */
    int64_t bytes;
    double ns;
} orr_busbw_point;

/* Time of a collective of n members from its bus bandwidth, as nccl-tests define it
 * (doc/PERFORMANCE.md): time times busbw is 2 (n - 1) / n S for all-reduce; (n - 1) / n S for
 * all-gather, reduce-scatter and all-to-all; S for others. */
double orr_busbw_ns(orr_collective collective, uint32_t n, int64_t bytes, double busbw_bytes_per_s);

/* Fits level `level` of the network, its `reduction` or its messages, with everything else
 * fixed, hops included. No bandwidth exceeds that of the link, `most_bytes_per_s`. Mean
 * |ln(price / measured)| in `ret_loss` (may be NULL). Errors: INVALID: nothing to fit to. */
orr_status orr_alpha_beta_fit(orr_network *network, uint32_t level, bool reduction,
                              double most_bytes_per_s, const orr_busbw_point *points, size_t n,
                              double *ret_loss, orr_error *err) ORR_MUST_CHECK;

/* Message constants of a level with a fitted in-network reduction among n members, where only
 * one bandwidth of rings was measured: small collectives are launched alike, so bases are equal
 * (or as much larger as makes two hops no cheaper than the reduction), and small messages do not
 * pass through the switches' arithmetic, so that the first two protocols have the same bus
 * bandwidth, at most that of the rings. Assumed, where it goes beyond all-reduce. */
orr_alpha_beta orr_alpha_beta_from_reduction(const orr_alpha_beta *reduction, uint32_t n,
                                             double ring_bytes_per_s);

/* NCCL's latency of a hop by protocol, ns: NVLink ring, network ring, tree of switches. */
extern const double ORR_HOP_NVLINK_NS[ORR_PROTOCOLS], ORR_HOP_NET_NS[ORR_PROTOCOLS],
    ORR_HOP_SWITCH_NS[ORR_PROTOCOLS];

/* Ring bandwidth, bytes/s, with which the point's price equals its measurement, given bases and
 * hops of the level's messages; 0: no bandwidth does. */
double orr_alpha_beta_ring_bandwidth(const orr_network *network, uint32_t level,
                                     const orr_busbw_point *point);

#endif /* ORR_COST_NETWORK_ALPHA_BETA_FIT_H */
