/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/flow/fabric.h"

#include "base/alloc.h"
#include "cost/collective/collective.h"
#include "sim/flow/flows.h"
#include "sim/flow/max_min_rates.h"

static int64_t units_of(double bytes_per_s)
{
    const double units = bytes_per_s * (double)(INT64_C(1) << ORR_FLOW_UNIT_SHIFT) / 1e9;
    if (!(units >= 1)) /* also true for NaN */
        return 1;
    return units < (double)ORR_RATE_CAPACITY_MAX ? (int64_t)units : ORR_RATE_CAPACITY_MAX;
}

static double bandwidth(const orr_network *network, uint32_t k)
{
    return network->levels[k].bytes_per_s[ORR_PROTOCOL_BANDWIDTH];
}

static double oversubscription(const orr_network *network, uint32_t k)
{
    return network->oversubscription[k] > 1 ? network->oversubscription[k] : 1;
}

/* Units of a level. Sites and regions are few, and so are the parts within which units are
 * counted. */
static orr_status set_units(const orr_cluster *cluster, uint32_t k, orr_fabric_units *ret,
                            orr_error *err)
{
    uint32_t e = k, part = 0;
    while (e < cluster->n_levels && cluster->levels[e].ends == NULL)
        e++;
    const uint32_t *ends = e < cluster->n_levels ? cluster->levels[e].ends : &cluster->n_devices;
    *ret = (orr_fabric_units){.devices = e == k ? 0 : cluster->levels[k].devices};
    for (uint32_t first = 0; first < cluster->n_devices; first = ends[part++]) {
        if (part == ORR_SITES_MAX)
            return orr_fail(err, ORR_UNSUPPORTED,
                            "cluster '%s': more than %d uneven units at level '%s'; flows over "
                            "links know so many",
                            cluster->name, ORR_SITES_MAX, cluster->levels[e].name);
        const uint32_t devices = ends[part] - first;
        ret->first_device[part] = first;
        ret->first_unit[part + 1] =
            ret->first_unit[part] + (e == k ? 1 : (devices - 1) / cluster->levels[k].devices + 1);
    }
    ret->n_parts = part;
    return ORR_OK;
}

static uint32_t number_of(const orr_fabric_units *units)
{
    return units->first_unit[units->n_parts];
}

static uint32_t unit_of(const orr_fabric_units *units, uint32_t device)
{
    uint32_t part = units->n_parts - 1;
    while (device < units->first_device[part])
        part--;
    return units->first_unit[part] +
           (units->devices > 0 ? (device - units->first_device[part]) / units->devices : 0);
}

/* Number of a device's unit, among those that level k joins. */
static uint32_t joined_unit(const orr_fabric *fabric, uint32_t k, uint32_t device)
{
    return k > 0 ? unit_of(&fabric->levels[k - 1].units, device) : device;
}

/* Is a level below, through whose ports every transfer across level k goes, as narrow as the
 * port here? Then the port needs no link. */
static bool tighter_below(const orr_fabric *fabric, const orr_network *network, uint32_t k)
{
    for (uint32_t j = fabric->levels[k].base; j < k; j++)
        if (fabric->levels[j].topology == ORR_TOPOLOGY_SWITCH &&
            fabric->levels[j].port != ORR_NONE && bandwidth(network, j) <= bandwidth(network, k))
            return true;
    return false;
}

static void push(orr_fabric *fabric, double bytes_per_s, uint32_t level, uint32_t unit, bool up)
{
    if (fabric->links != NULL) /* the first pass only counts */
        fabric->links[fabric->n_links] = (orr_fabric_link){units_of(bytes_per_s), level, unit, up};
    fabric->n_links++;
}

static void push_both(orr_fabric *fabric, double bytes_per_s, uint32_t level, uint32_t unit)
{
    push(fabric, bytes_per_s, level, unit, true);
    push(fabric, bytes_per_s, level, unit, false);
}

static uint32_t joined_units(const orr_fabric *fabric, uint32_t k)
{
    return k > 0 ? number_of(&fabric->levels[k - 1].units) : fabric->n_devices;
}

/* Shared links of a level, in pairs of up and down; of a FULLY_CONNECTED level single. */
static uint64_t shared_links(const orr_fabric *fabric, const orr_network *network, uint32_t k)
{
    const orr_fabric_level *level = &fabric->levels[k];
    const uint64_t places = (uint64_t)number_of(&level->units) * level->size;
    if (level->topology == ORR_TOPOLOGY_FULLY_CONNECTED)
        return places * level->size;
    if (level->topology == ORR_TOPOLOGY_RING)
        return 2 * places;
    return level->below > 1 && oversubscription(network, k) > 1
               ? 2 * (uint64_t)joined_units(fabric, k)
               : 0;
}

static double shared_bytes_per_s(const orr_fabric_level *level, double all_bytes_per_s)
{
    switch (level->topology) {
    case ORR_TOPOLOGY_RING:
        return all_bytes_per_s / 2;
    case ORR_TOPOLOGY_FULLY_CONNECTED:
        return all_bytes_per_s / (level->size - 1);
    default:
        return all_bytes_per_s;
    }
}

static bool has_port(const orr_fabric *fabric, const orr_network *network, uint32_t k)
{
    const orr_fabric_level *level = &fabric->levels[k];
    if (level->below == 1)
        return level->topology == ORR_TOPOLOGY_SWITCH;
    return !tighter_below(fabric, network, k);
}

/* Devices of a unit that a switch of the level joins, from the unit's first device. */
static uint32_t devices_from(const orr_fabric *fabric, uint32_t k, uint32_t first)
{
    uint32_t end = fabric->n_devices;
    const orr_fabric_units *units = k > 0 ? &fabric->levels[k - 1].units : NULL;
    if (units == NULL)
        return 1;
    for (uint32_t part = units->n_parts; part-- > 0 && units->first_device[part] > first;)
        end = units->first_device[part];
    return units->devices == 0 || end - first < units->devices ? end - first : units->devices;
}

static void lay_shared(orr_fabric *fabric, const orr_network *network, uint32_t k, uint32_t n)
{
    const orr_fabric_level *level = &fabric->levels[k];
    const double over = oversubscription(network, k), mine = bandwidth(network, k);
    const bool single = level->topology == ORR_TOPOLOGY_FULLY_CONNECTED;
    const double shared = shared_bytes_per_s(level, mine * level->below / over);
    for (uint32_t u = 0, first = 0; u < n; u++) {
        double bytes_per_s = shared;
        if (level->topology == ORR_TOPOLOGY_SWITCH) {
            const uint32_t devices = devices_from(fabric, k, first);
            bytes_per_s = mine * devices / over;
            first += devices;
        }
        if (single)
            push(fabric, bytes_per_s, k, u, true);
        else
            push_both(fabric, bytes_per_s, k, u);
    }
}

static void lay_level(orr_fabric *fabric, const orr_network *network, uint32_t k)
{
    orr_fabric_level *level = &fabric->levels[k];
    const double over = oversubscription(network, k), mine = bandwidth(network, k);
    const uint64_t n_shared = shared_links(fabric, network, k);
    const bool single = level->topology == ORR_TOPOLOGY_FULLY_CONNECTED;
    level->shared = n_shared > 0 ? fabric->n_links : ORR_NONE;
    const uint32_t n_units = (uint32_t)(single ? n_shared : n_shared / 2);
    lay_shared(fabric, network, k, n_units);
    level->port = has_port(fabric, network, k) ? fabric->n_links : ORR_NONE;
    for (uint32_t d = 0; level->port != ORR_NONE && d < fabric->n_devices; d++)
        push_both(fabric, level->below == 1 ? mine / over : mine, k, n_units + d);
}

static void lay(orr_fabric *fabric, const orr_network *network)
{
    fabric->n_links = 0;
    for (uint32_t k = 0; k < fabric->n_levels; k++)
        lay_level(fabric, network, k);
}

/* Rings and full meshes number units by position, so the units below have to be complete. */
static orr_status check_places(const orr_fabric *fabric, const orr_cluster *cluster, orr_error *err)
{
    for (uint32_t k = 0; k < fabric->n_levels; k++) {
        const orr_fabric_level *level = &fabric->levels[k];
        const uint64_t places = (uint64_t)number_of(&level->units) * level->size;
        if (level->topology != ORR_TOPOLOGY_SWITCH && joined_units(fabric, k) != places)
            return orr_fail(err, ORR_UNSUPPORTED,
                            "level '%s' of cluster '%s': not all units of a %s are there; flows "
                            "over links need them",
                            cluster->levels[k].name, cluster->name,
                            orr_topology_name(level->topology));
    }
    return ORR_OK;
}

static orr_status set_levels(orr_fabric *fabric, const orr_cluster *cluster,
                             const orr_network *network, orr_error *err)
{
    uint32_t below = 1;
    uint64_t most = 0;
    for (uint32_t k = 0; k < fabric->n_levels; k++) {
        orr_fabric_level *level = &fabric->levels[k];
        *level = (orr_fabric_level){.size = cluster->levels[k].size,
                                    .below = below,
                                    .devices = cluster->levels[k].devices,
                                    .topology = cluster->levels[k].topology};
        if (level->size <= 2)
            level->topology = ORR_TOPOLOGY_SWITCH;
        ORR_TRY(set_units(cluster, k, &level->units, err));
        level->base = orr_network_lowest_level(network, k);
        level->latency_ns = (int64_t)network->levels[k].alpha_ns[ORR_PROTOCOL_LATENCY];
        below = level->devices;
        most += shared_links(fabric, network, k) + 2 * (uint64_t)fabric->n_devices;
    }
    return most <= INT32_MAX
               ? ORR_OK
               : orr_fail(err, ORR_LIMIT, "cluster '%s' has more than 2^31 links", cluster->name);
}

orr_status orr_fabric_init(orr_fabric *fabric, const orr_cluster *cluster,
                           const orr_network *network, orr_error *err)
{
    *fabric = (orr_fabric){.n_devices = cluster->n_devices, .n_levels = cluster->n_levels};
    if (fabric->n_levels > ORR_LEVELS_MAX)
        return orr_fail(err, ORR_LIMIT, "cluster '%s' has %u levels, more than %d", cluster->name,
                        cluster->n_levels, ORR_LEVELS_MAX);
    ORR_TRY(set_levels(fabric, cluster, network, err));
    ORR_TRY(check_places(fabric, cluster, err));
    lay(fabric, network);
    fabric->links = orr_calloc(fabric->n_links > 0 ? fabric->n_links : 1, sizeof *fabric->links);
    if (fabric->links == NULL)
        return orr_fail_memory(err);
    lay(fabric, network);
    return ORR_OK;
}

void orr_fabric_done(orr_fabric *fabric)
{
    orr_free(fabric->links);
    fabric->links = NULL;
}

/* Route along a ring of units, the shorter way. Returns the number of hops; 0: out of memory. */
static uint32_t route_ring(const orr_fabric_level *level, uint32_t from, uint32_t to,
                           orr_route *route)
{
    const uint32_t size = level->size, start = from / size * size;
    const uint32_t ahead = (to % size + size - from % size) % size, back = size - ahead;
    const bool up = ahead != back ? ahead < back : from % size % 2 == 0;
    const uint32_t hops = up ? ahead : back;
    for (uint32_t i = 0, at = from % size; i < hops; i++) {
        if (!orr_array_push(route, level->shared + 2 * (start + at) + !up))
            return 0;
        at = (up ? at + 1 : at + size - 1) % size;
    }
    return hops;
}

static bool route_ends(uint32_t first, uint32_t from, uint32_t to, orr_route *route)
{
    return first == ORR_NONE ||
           (orr_array_push(route, first + 2 * from) && orr_array_push(route, first + 2 * to + 1));
}

bool orr_fabric_route(const orr_fabric *fabric, uint32_t src, uint32_t dst, orr_route *route,
                      int64_t *ret_latency_ns)
{
    uint32_t top = 0, hops = 1;
    if (src == dst) {
        if (ret_latency_ns != NULL)
            *ret_latency_ns = 0;
        return true;
    }
    while (unit_of(&fabric->levels[top].units, src) != unit_of(&fabric->levels[top].units, dst))
        top++;
    for (uint32_t k = fabric->levels[top].base; k <= top; k++) {
        const orr_fabric_level *level = &fabric->levels[k];
        const uint32_t from = joined_unit(fabric, k, src), to = joined_unit(fabric, k, dst);
        if (k < top && level->topology != ORR_TOPOLOGY_SWITCH)
            continue;
        if (!route_ends(level->port, src, dst, route))
            return false;
        if (level->topology == ORR_TOPOLOGY_RING) {
            if ((hops = route_ring(level, from, to, route)) == 0)
                return false;
        } else if (level->topology == ORR_TOPOLOGY_FULLY_CONNECTED) {
            if (!orr_array_push(route, level->shared + from * level->size + to % level->size))
                return false;
        } else if (!route_ends(level->shared, from, to, route)) {
            return false;
        }
    }
    if (ret_latency_ns != NULL)
        *ret_latency_ns = hops * fabric->levels[top].latency_ns;
    return true;
}
