/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/message/network.h"

#include "base/alloc.h"

enum { MOST_LINKS = 1 << 26 };

static inline uint32_t place(const orr_astra_network *network, uint32_t rank, uint32_t dim)
{
    if (network->n_dims == 1)
        return rank;
    return rank / network->stride[dim] % network->size[dim];
}

static uint32_t first_difference(const orr_astra_network *network, uint32_t from, uint32_t to)
{
    uint32_t dim = 0;
    while (dim + 1 < network->n_dims && place(network, from, dim) == place(network, to, dim))
        dim++;
    return dim;
}

int64_t orr_message_ns_between(const orr_astra_network *network, uint32_t from, uint32_t to,
                               int64_t bytes)
{
    const uint32_t dim = first_difference(network, from, to);
    const uint32_t hops = orr_hops(network->topology[dim], network->size[dim],
                                   place(network, from, dim), place(network, to, dim));
    return orr_message_ns(network, dim, hops, bytes);
}

/* Links that leave a rank, and those from a switch to it. */
static uint64_t links_a_rank(const orr_astra_network *network, uint32_t dim)
{
    return network->topology[dim] == ORR_TOPOLOGY_FULLY_CONNECTED ? network->size[dim] : 2;
}

orr_status orr_links_init(orr_links *links, const orr_astra_network *network, bool folded,
                          orr_bucket_queue *queue, orr_error *err)
{
    const uint64_t ranks = folded ? 1 : network->n_ranks;
    *links = (orr_links){.network = network, .queue = queue, .idle = ORR_NONE, .folded = folded};
    for (uint32_t d = 0; d < network->n_dims; d++)
        links->first[d + 1] = links->first[d] + ranks * links_a_rank(network, d);
    const uint64_t n = links->first[network->n_dims];
    if (n > MOST_LINKS)
        return orr_fail(err, ORR_LIMIT, "%llu links: at most %d", (unsigned long long)n,
                        MOST_LINKS);
    links->links = orr_calloc(n, sizeof *links->links);
    if (links->links == NULL)
        return orr_fail_memory(err);
    for (uint64_t i = 0; i < n; i++)
        links->links[i] =
            (orr_link_state){.head = ORR_NONE, .tail = ORR_NONE, .came_ns = -1, .sent_ns = -1};
    return ORR_OK;
}

void orr_links_done(orr_links *links)
{
    orr_free(links->links);
    orr_array_done(&links->parcels);
}

static uint32_t parcel_new(orr_links *links)
{
    const uint32_t idle = links->idle;
    if (idle != ORR_NONE) {
        links->idle = links->parcels.at[idle].next;
        return idle;
    }
    if (links->parcels.n >= ORR_NONE ||
        !orr_array_push(&links->parcels, (orr_message_in_flight){0})) {
        links->queue->failed = true;
        return ORR_NONE;
    }
    return (uint32_t)links->parcels.n - 1;
}

/* The next link of a message in flight, and where it ends. Dimensions are crossed in order; a
 * ring the shorter way, clockwise on a tie. A message keeps its way, since each hop makes the
 * rest shorter. */
static uint32_t next_link(const orr_links *links, const orr_message_in_flight *parcel,
                          uint32_t *ret_dim, uint32_t *ret_rank, bool *ret_at_switch)
{
    const orr_astra_network *network = links->network;
    const uint32_t dim = first_difference(network, parcel->at, parcel->to);
    const uint32_t n = network->size[dim], stride = network->stride[dim];
    const uint32_t from = place(network, parcel->at, dim), to = place(network, parcel->to, dim);
    uint32_t owner = parcel->at, port = 0;
    *ret_dim = dim;
    *ret_rank = parcel->at + (to - from) * stride;
    *ret_at_switch = false;
    switch ((orr_topology)network->topology[dim]) {
    case ORR_TOPOLOGY_SWITCH:
        if (parcel->at_switch) {
            owner = *ret_rank;
            port = 1;
        } else {
            *ret_rank = parcel->at;
            *ret_at_switch = true;
        }
        break;
    case ORR_TOPOLOGY_RING: {
        const uint32_t clockwise = from < to ? to - from : to + n - from;
        port = n - clockwise < clockwise ? 1 : 0;
        const uint32_t next =
            port == 0 ? (from + 1 == n ? 0 : from + 1) : (from == 0 ? n - 1 : from - 1);
        *ret_rank = parcel->at + (next - from) * stride;
        break;
    }
    case ORR_TOPOLOGY_FULLY_CONNECTED:
        port = links->folded ? (to + n - from) % n : to;
        break;
    }
    if (links->folded)
        owner = 0;
    return (uint32_t)(links->first[dim] + owner * links_a_rank(network, dim) + port);
}

static void transmit(orr_links *links, int64_t now_ns, uint64_t hop_what, uint64_t free_what,
                     uint32_t link, uint32_t dim, uint32_t parcel)
{
    const orr_astra_network *network = links->network;
    const double serial = (double)links->parcels.at[parcel].bytes / network->bytes_per_ns[dim];
    links->links[link].busy = true;
    orr_bucket_queue_push(links->queue, now_ns + (int64_t)(network->latency_ns[dim] + serial),
                          (orr_message_event){hop_what, parcel, link});
    orr_bucket_queue_push(links->queue, now_ns + (int64_t)serial,
                          (orr_message_event){free_what, link, dim});
}

static void enter(orr_links *links, int64_t now_ns, uint64_t hop_what, uint64_t free_what,
                  uint32_t number, bool own)
{
    uint32_t dim, rank;
    bool at_switch;
    orr_message_in_flight *parcel = &links->parcels.at[number];
    const uint32_t at = next_link(links, parcel, &dim, &rank, &at_switch);
    orr_link_state *link = &links->links[at];
    /* The rank's own messages are in its own order. */
    if (link->came_ns == now_ns || (!own && link->sent_ns == now_ns))
        links->tied = true;
    *(own ? &link->sent_ns : &link->came_ns) = now_ns;
    parcel->at = rank;
    parcel->at_switch = at_switch;
    parcel->next = ORR_NONE;
    if (!link->busy) {
        transmit(links, now_ns, hop_what, free_what, at, dim, number);
    } else if (link->tail == ORR_NONE) {
        link->head = link->tail = number;
    } else {
        links->parcels.at[link->tail].next = number;
        link->tail = number;
    }
}

void orr_links_send(orr_links *links, int64_t now_ns, uint64_t hop_what, uint64_t free_what,
                    uint32_t from, uint32_t to, int64_t bytes, orr_message_event arrival)
{
    const uint32_t number = parcel_new(links);
    if (number == ORR_NONE)
        return;
    links->parcels.at[number] = (orr_message_in_flight){
        .arrival = arrival, .bytes = bytes, .at = from, .to = to, .next = ORR_NONE};
    enter(links, now_ns, hop_what, free_what, number, true);
}

bool orr_links_hop(orr_links *links, int64_t now_ns, uint64_t hop_what, uint64_t free_what,
                   uint32_t number, orr_message_event *ret_arrival)
{
    orr_message_in_flight *parcel = &links->parcels.at[number];
    if (parcel->at != parcel->to || parcel->at_switch) {
        enter(links, now_ns, hop_what, free_what, number, false);
        return false;
    }
    *ret_arrival = parcel->arrival;
    parcel->next = links->idle;
    links->idle = number;
    return true;
}

void orr_links_free(orr_links *links, int64_t now_ns, uint64_t hop_what, uint64_t free_what,
                    uint32_t at, uint32_t dim)
{
    orr_link_state *link = &links->links[at];
    const uint32_t number = link->head;
    link->busy = false;
    if (number == ORR_NONE)
        return;
    link->head = links->parcels.at[number].next;
    if (link->head == ORR_NONE)
        link->tail = ORR_NONE;
    transmit(links, now_ns, hop_what, free_what, at, dim, number);
}
