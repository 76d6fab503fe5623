/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_FLOW_FABRIC_H
#define ORR_SIM_FLOW_FABRIC_H

#include <orrery/cost.h>

#include "base/array.h"

/* Fabric: the tree of levels of a cluster as directed links with capacities, and the route between
 * two devices.
 *
 * A transfer crosses the lowest level t that holds both devices. It uses links of levels base(t) ..
 * t (orr_network_lowest_level(): NICs do not pass through NVLink), and of those below t only
 * switches. Links of a level, with b the bandwidth of a device, d the devices of a unit that the
 * level joins, o the oversubscription, s the units joined:
 *
 *   port    of each device, up and down, b; left out where a switch below, on every such
 *           route, is as narrow
 *   shared  of each unit, what its devices have together:
 *             SWITCH           up and down, b d / o; left out where d = 1 (the port has b / o)
 *                              or o = 1
 *             RING             to the next unit and to the previous one, b d / (2 o); the shorter
 *                              way is taken, on a tie the next if the unit's index is even
 *             FULLY_CONNECTED  to each other unit, b d / ((s - 1) o)
 *
 * Two units alone on a level are joined by a switch.
 *
 * Where sites are uneven, d is the devices that a unit really has, and units are numbered through
 * all sites. Rings and full meshes have a position for each unit that a complete unit of the level
 * has.
 *
 * Numbers in an orr_link_use: a shared link has the number of its unit among all units of that
 * kind (RING: up is to the next), a link of a FULLY_CONNECTED level the number of its unit times
 * s plus the other's index, and a port the number of its device, counted on from there. */
typedef struct orr_fabric_link {
    int64_t capacity; /* in units of sim/flow/flows.h */
    uint32_t level, unit;
    bool up;
} orr_fabric_link;
/* Units of a level. Their numbering restarts in each part. */
typedef struct orr_fabric_units {
    uint32_t devices; /* 0: a part is one unit */
    uint32_t n_parts; /* uneven units of the lowest such level from here up; or 1: all */
    uint32_t first_device[ORR_SITES_MAX];
    uint32_t first_unit[ORR_SITES_MAX + 1]; /* the entry after the last part: number of units */
} orr_fabric_units;
typedef struct orr_fabric_level {
    uint32_t size, below, devices; /* units joined; devices of such a unit; devices of a unit of
                                    * this level */
    orr_fabric_units units;
    uint32_t base;
    uint8_t topology;
    uint32_t shared, port; /* first link, or ORR_NONE */
    int64_t latency_ns;
} orr_fabric_level;
typedef struct orr_fabric {
    uint32_t n_devices, n_levels, n_links;
    orr_fabric_level levels[ORR_LEVELS_MAX];
    orr_fabric_link *links; /* shape (n_links), by (level, unit, up first) */
} orr_fabric;
typedef orr_array(uint32_t) orr_route;

/* Builds the links. Errors: NO_MEMORY; LIMIT: over 2^31 links; UNSUPPORTED: more than
 * ORR_SITES_MAX uneven units of a level, a ring or full mesh of incomplete units. */
orr_status orr_fabric_init(orr_fabric *fabric, const orr_cluster *cluster,
                           const orr_network *network, orr_error *err) ORR_MUST_CHECK;
void orr_fabric_done(orr_fabric *fabric);
/* Appends the links from src to dst (both on the cluster) to `route`; none for src == dst.
 * False: out of memory. `ret_latency_ns` (may be NULL): of all hops. */
bool orr_fabric_route(const orr_fabric *fabric, uint32_t src, uint32_t dst, orr_route *route,
                      int64_t *ret_latency_ns);

#endif /* ORR_SIM_FLOW_FABRIC_H */
