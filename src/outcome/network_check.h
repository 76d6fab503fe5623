/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_OUTCOME_NETWORK_CHECK_H
#define ORR_OUTCOME_NETWORK_CHECK_H

#include "base/array.h"
#include "cost/collective/collective.h"
#include "cost/network/rdma_transport.h"
#include "outcome/outcome.h"
#include "sim/effects/path_flows.h"

/* Transfers of a simulated step as flows over uplinks, and the uplinks themselves. */

/* How bytes travel over a level: what the transport says of it, and of an uplink what a device has.
 */
typedef struct orr_checked_way {
    orr_rdma_transport with;
    double sent_bytes; /* of a transfer, through the port of a device; 0: not checked */
    double level_ns;   /* of these bytes, by closed form */
    double window_bytes, room_ns, round_trip_ns;
    double port_bytes_per_s;  /* of a device */
    double share_bytes_per_s; /* of an uplink, for each device behind it */
} orr_checked_way;

/* Transfers of one size and collective along one axis; of stages, across one boundary. */
typedef struct orr_checked_kind {
    uint32_t grouping; /* orr_axis, or ORR_STEP_MIRROR */
    uint32_t stage;    /* of PP: the boundary after it; else 0 */
    uint8_t collective;
    int64_t bytes;
    const orr_job_rates *rates;
    orr_coll_schedule schedule;
    double closed_ns; /* of the schedule */
    orr_checked_way way[ORR_LEVELS_MAX];
} orr_checked_kind;

/* A transfer of a class of ranks: a node of its graph. */
typedef struct orr_checked_transfer {
    uint32_t class, graph, stage, kind;
    orr_node_id node;
    uint32_t ordinal;
    int32_t peer;
    int64_t closed_ns, now_ns;      /* by closed form, and in the last simulation */
    double flow_ns[ORR_LEVELS_MAX]; /* on the uplinks of a level; the longest */
} orr_checked_transfer;

/* The way out of a unit of the level below; one stands for all that have as many ranks of each
 * stage. */
typedef struct orr_checked_uplink {
    uint32_t level, devices;
    const uint32_t *ranks; /* shape (stages): of the unit */
} orr_checked_uplink;

typedef struct orr_checked_step {
    const orr_outcome *outcome;
    orr_arena *arena;
    bool level[ORR_LEVELS_MAX]; /* is it checked? */
    orr_array(orr_checked_kind) kinds;
    orr_array(orr_checked_transfer) transfers;
    orr_array(orr_checked_uplink) uplinks;
} orr_checked_step;

/* Lists the transfers of a step that cross a level which is checked, and the uplinks there. Release
 * with orr_checked_step_done(), whatever is returned. */
orr_status orr_checked_step_init(orr_checked_step *step, const orr_outcome *outcome,
                                 orr_arena *arena, orr_error *err) ORR_MUST_CHECK;
void orr_checked_step_done(orr_checked_step *step);
/* Is a level checked: between sites, or with a transport? */
bool orr_network_is_checked(const orr_cluster *cluster, uint32_t level);
/* The axis that the transfers of a kind count for. */
orr_axis orr_checked_axis(const orr_checked_kind *kind);
/* The price of a transfer whose bytes take so long on each level (shape (ORR_LEVELS_MAX); 0: as in
 * the closed form), over that of the closed form. */
double orr_checked_price_frac(const orr_checked_kind *kind, const double *flow_ns);

#endif /* ORR_OUTCOME_NETWORK_CHECK_H */
