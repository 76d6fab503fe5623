/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_FLOW_MAX_MIN_RATES_H
#define ORR_SIM_FLOW_MAX_MIN_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

/* Max-min fair rates of flows over links, in whole units, recomputed where a change reaches.
 *
 * Definition. A link of capacity C, whose flows f have rates r(f), is full from level w >= 1 if its
 * flows below w, and all others at w + 1, would need more than C:
 *     sum of r(f) over r(f) < w  +  (w + 1) * |{f: r(f) >= w}|  >  C
 * and its saturation is the least such w, if there is one. Rates are right if every flow has the
 * least saturation of its links (and no flow is without a link that saturates).
 *
 * There is exactly one such assignment. Whether a link is full from w depends only on which flows
 * are below w, and on their rates; so if two right assignments agree on the flows below w (none is
 * below 1), they agree on the links that are full from w and not from less, hence on the flows at
 * w. It exists: raise all flows by one unit at a time and stop those of full links: progressive
 * filling (Bertsekas & Gallager, "Data Networks", 6.5.2). With rates in real numbers the same text
 * defines max-min fairness; whole units leave at most one unit per flow of a link unused.
 *
 * Hence locality is exact: a link's saturation depends on its own flows only. Some flows are opened
 * and filled against the others, held fixed; if then each fixed flow on a touched link still has
 * the least saturation of its links, all is right; else those that have not are opened too. After a
 * few rounds everything connected is opened at once, so the cost is bounded by that of a few full
 * computations over the connected part. tests/property/test_flows.c holds this against the
 * definition, level by level.
 *
 * Nothing allocates but orr_flow_rates_reserve(). Threads: one. */
enum { ORR_FLOW_LIST_END = -1 };
#define ORR_RATE_NEVER        INT64_MAX /* does not saturate; has not stopped rising */
#define ORR_RATE_CAPACITY_MAX (INT64_C(1) << 62)

typedef struct orr_rate_hop { /* a flow on a link */
    uint32_t flow, link;
    uint32_t weight;        /* flows of this kind on the link */
    int32_t next, previous; /* on the link */
    int32_t further;        /* along the flow; or the next free hop */
} orr_rate_hop;
typedef struct orr_rate_flow {
    int64_t rate;      /* 0: not solved yet, or a free row */
    int64_t level;     /* level at which it stops, during a solve; else its rate */
    int32_t first_hop; /* or the next free flow */
    bool open;
} orr_rate_flow;
typedef struct orr_rate_link {
    int64_t capacity, load, saturation;
    int32_t first_hop;
    uint32_t n_flows; /* by weight, as n_open and rising */
    /* during a solve */
    bool touched, settled;
    uint32_t n_open, rising;
    int64_t stopped; /* sum of the levels of open flows that stopped */
    int64_t was_saturation;
} orr_rate_link;
typedef struct orr_rate_key { /* key in the heap: the link saturates at `level` or later */
    int64_t level;
    uint32_t link;
} orr_rate_key;

typedef struct orr_flow_rates {
    orr_rate_link *links; /* shape (n_links) */
    uint32_t n_links;
    orr_array(orr_rate_flow) flows;
    orr_array(orr_rate_hop) hops;
    int32_t free_flow, free_hop;
    uint32_t n_live_flows, n_live_hops;
    orr_array(uint32_t) touched; /* links that changed, or were examined in the last solve */
    orr_array(uint32_t) open;    /* flows whose rate is to be found, or was in the last solve */
    orr_array(orr_rate_key) heap;
    orr_array(uint32_t) full; /* links that are full from the current level */
    bool solved;
    uint64_t n_opened; /* flows computed, over all solves */
} orr_flow_rates;

/* Capacities in units, shape (n_links), 1 .. ORR_RATE_CAPACITY_MAX. False: out of memory. */
bool orr_flow_rates_init(orr_flow_rates *rates, const int64_t *capacity, uint32_t n_links);
void orr_flow_rates_done(orr_flow_rates *rates);
/* Makes room for that many more flows and hops. False: out of memory. */
bool orr_flow_rates_reserve(orr_flow_rates *rates, size_t n_flows, size_t n_hops);
/* Adds a flow over these links, each once, at least one; room was reserved. Returns its row,
 * which is reused after removal. Not to be called between a solve and reading its lists.
 * `weights`, shape (n_links), at least 1 each: the flow stands for a class of flows of one rate, so
 * many of which cross the link; NULL: 1. The definition above counts each of them. */
uint32_t orr_flow_rates_add(orr_flow_rates *rates, const uint32_t *links, const uint32_t *weights,
                            uint32_t n_links);
void orr_flow_rates_remove(orr_flow_rates *rates, uint32_t flow);
/* Solves the rates. Afterwards, until the next add or remove, `open` lists the flows that may
 * have changed, and `touched` the links. */
void orr_flow_rates_solve(orr_flow_rates *rates);

#endif /* ORR_SIM_FLOW_MAX_MIN_RATES_H */
