/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_FLOW_STATE_H
#define ORR_SIM_FLOW_STATE_H

#include "sim/flow/fabric.h"
#include "sim/flow/flows.h"
#include "sim/flow/event_heap.h"
#include "sim/flow/max_min_rates.h"
#include "sim/flow/link_load.h"

/* Inside of orr_flows, for the files of this folder and tests. A flow has the same row in
 * `rates.flows`. */
typedef struct orr_flow_row {
    int64_t bytes;
    int64_t left; /* in 2^-20 bytes, at since_ns */
    int64_t rate; /* 0: a free row */
    int64_t since_ns;
    uint32_t transfer;
} orr_flow_row;

/* The flows of one orr_flows_begin(). */
typedef struct orr_flow_transfer {
    uint64_t tag, order;
    int64_t latency_ns;
    uint32_t n_left; /* flows that have not ended */
    uint32_t next_free;
} orr_flow_transfer;

struct orr_flows {
    orr_cluster cluster; /* devices and levels only */
    orr_level levels[ORR_LEVELS_MAX];
    orr_network network;
    orr_fabric fabric;
    orr_flow_rates rates;
    const orr_link_classes *classes; /* NULL: each link by itself */
    orr_link_load *uses;             /* shape (n_uses): of links, or of classes of links */
    uint32_t n_uses;
    orr_array(orr_flow_row) rows;
    orr_array(orr_flow_transfer) transfers;
    uint32_t free_transfer, n_transfers;
    orr_flow_heap ends;  /* ends of flows, by row */
    orr_flow_heap dones; /* ends of transfers, by row */
    orr_array(uint64_t) done;
    orr_route route;               /* routes of the demands that are being started */
    orr_array(uint32_t) route_end; /* shape (n demands) */
    orr_array(uint32_t) weights;   /* parallel to `route`, of folded flows */
    orr_array(int64_t) bytes;      /* shape (n demands) */
    int64_t now_ns;
    uint64_t n_begun;
};

#endif /* ORR_SIM_FLOW_STATE_H */
