/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/flow/max_min_rates.h"

#include "base/alloc.h"

/* Max-min fair rates by progressive filling (the header has the definition and the proof). A
 * solve opens the flows that a change can affect, and fills round by round: a heap gives the
 * links with the least saturation; the open flows on them stop at that level; stopped flows only
 * raise the saturation of other links, so a link's key in the heap is a lower bound and is
 * recomputed when it comes up. Then each fixed flow on a touched link is checked, and those that
 * are no longer right are opened for another round. */

bool orr_flow_rates_init(orr_flow_rates *rates, const int64_t *capacity, uint32_t n_links)
{
    *rates = (orr_flow_rates){.n_links = n_links,
                              .free_flow = ORR_FLOW_LIST_END,
                              .free_hop = ORR_FLOW_LIST_END,
                              .solved = true};
    rates->links = orr_calloc(n_links > 0 ? n_links : 1, sizeof *rates->links);
    if (rates->links == NULL)
        return false;
    for (uint32_t l = 0; l < n_links; l++)
        rates->links[l] = (orr_rate_link){
            .capacity = capacity[l], .saturation = ORR_RATE_NEVER, .first_hop = ORR_FLOW_LIST_END};
    return true;
}

void orr_flow_rates_done(orr_flow_rates *rates)
{
    orr_free(rates->links);
    rates->links = NULL;
    orr_array_done(&rates->flows);
    orr_array_done(&rates->hops);
    orr_array_done(&rates->touched);
    orr_array_done(&rates->open);
    orr_array_done(&rates->heap);
    orr_array_done(&rates->full);
}

/* Makes room: every link may be touched by flows that leave and by those that stay, and every
 * flow may be open. */
bool orr_flow_rates_reserve(orr_flow_rates *rates, size_t n_flows, size_t n_hops)
{
    size_t links = rates->touched.n + rates->n_live_hops + n_hops;
    if (links > rates->n_links)
        links = rates->n_links;
    const size_t flows = rates->n_live_flows + n_flows;
    if (flows > INT32_MAX || rates->n_live_hops + n_hops > INT32_MAX)
        return false;
#define ROOM_(array, total)                                                                        \
    ((array)->n >= (total) || orr_array_reserve((array), (total) - (array)->n))
    return ROOM_(&rates->flows, flows) && ROOM_(&rates->hops, rates->n_live_hops + n_hops) &&
           ROOM_(&rates->open, rates->open.n + flows) && ROOM_(&rates->touched, links) &&
           ROOM_(&rates->heap, links) && ROOM_(&rates->full, links);
#undef ROOM_
}

static void touch(orr_flow_rates *rates, uint32_t l)
{
    orr_rate_link *link = &rates->links[l];
    if (link->touched)
        return;
    link->touched = true;
    link->was_saturation = link->saturation;
    rates->touched.at[rates->touched.n++] = l;
}

static void open_flow(orr_flow_rates *rates, uint32_t f)
{
    rates->flows.at[f].open = true;
    rates->open.at[rates->open.n++] = f;
    rates->n_opened++;
    for (int32_t h = rates->flows.at[f].first_hop; h >= 0; h = rates->hops.at[h].further) {
        touch(rates, rates->hops.at[h].link);
        rates->links[rates->hops.at[h].link].n_open += rates->hops.at[h].weight;
    }
}

/* Clears the lists of the last solve. */
static void begin_change(orr_flow_rates *rates)
{
    if (!rates->solved)
        return;
    rates->solved = false;
    rates->open.n = 0;
    rates->touched.n = 0;
}

static int32_t take_hop(orr_flow_rates *rates)
{
    const int32_t h = rates->free_hop;
    if (h < 0)
        return (int32_t)rates->hops.n++;
    rates->free_hop = rates->hops.at[h].further;
    return h;
}

static uint32_t take_flow(orr_flow_rates *rates)
{
    const int32_t f = rates->free_flow;
    if (f < 0)
        return (uint32_t)rates->flows.n++;
    rates->free_flow = rates->flows.at[f].first_hop;
    return (uint32_t)f;
}

uint32_t orr_flow_rates_add(orr_flow_rates *rates, const uint32_t *links, const uint32_t *weights,
                            uint32_t n_links)
{
    begin_change(rates);
    const uint32_t f = take_flow(rates);
    int32_t further = ORR_FLOW_LIST_END;
    for (uint32_t i = n_links; i-- > 0;) {
        orr_rate_link *link = &rates->links[links[i]];
        const int32_t h = take_hop(rates);
        rates->hops.at[h] = (orr_rate_hop){.flow = f,
                                           .link = links[i],
                                           .weight = weights != NULL ? weights[i] : 1,
                                           .next = link->first_hop,
                                           .previous = ORR_FLOW_LIST_END,
                                           .further = further};
        if (link->first_hop >= 0)
            rates->hops.at[link->first_hop].previous = h;
        link->first_hop = h;
        link->n_flows += rates->hops.at[h].weight;
        further = h;
    }
    rates->flows.at[f] = (orr_rate_flow){.level = ORR_RATE_NEVER, .first_hop = further};
    rates->n_live_flows++;
    rates->n_live_hops += n_links;
    open_flow(rates, f);
    return f;
}

static void unlink_hop(orr_flow_rates *rates, int32_t h)
{
    orr_rate_hop *hop = &rates->hops.at[h];
    orr_rate_link *link = &rates->links[hop->link];
    if (hop->next >= 0)
        rates->hops.at[hop->next].previous = hop->previous;
    if (hop->previous >= 0)
        rates->hops.at[hop->previous].next = hop->next;
    else
        link->first_hop = hop->next;
    link->n_flows -= hop->weight;
}

/* Removes a flow that was never solved from the list of open flows. */
static void forget_open(orr_flow_rates *rates, uint32_t f)
{
    for (size_t i = 0; i < rates->open.n; i++) {
        if (rates->open.at[i] != f)
            continue;
        rates->open.at[i] = rates->open.at[--rates->open.n];
        return;
    }
}

void orr_flow_rates_remove(orr_flow_rates *rates, uint32_t f)
{
    begin_change(rates);
    orr_rate_flow *flow = &rates->flows.at[f];
    const bool open = flow->open;
    if (open)
        forget_open(rates, f);
    for (int32_t h = flow->first_hop, further; h >= 0; h = further) {
        orr_rate_link *link = &rates->links[rates->hops.at[h].link];
        further = rates->hops.at[h].further;
        touch(rates, rates->hops.at[h].link);
        const uint32_t weight = rates->hops.at[h].weight;
        link->load -= weight * flow->rate;
        link->n_open -= open ? weight : 0;
        unlink_hop(rates, h);
        rates->hops.at[h].further = rates->free_hop;
        rates->free_hop = h;
        rates->n_live_hops--;
    }
    *flow = (orr_rate_flow){.first_hop = rates->free_flow};
    rates->free_flow = (int32_t)f;
    rates->n_live_flows--;
}

/* Solving: see the definition in the header. */

static int64_t at_least_one(int64_t level)
{
    return level > 1 ? level : 1;
}

/* Saturation of a link, where open flows that have not stopped count as still rising. Iterated
 * from below: w is never above the saturation, and where the link is not full from w, w moves to
 * the level from which it would be full if no more flows turned out to be below. */
static int64_t saturation_of(const orr_flow_rates *rates, const orr_rate_link *link)
{
    if (link->n_open == link->n_flows) /* all flows are in the two sums */
        return link->rising == 0 ? ORR_RATE_NEVER
                                 : at_least_one((link->capacity - link->stopped) / link->rising);
    int64_t w = at_least_one(link->capacity / link->n_flows);
    for (;;) {
        int64_t sum = 0;
        uint32_t below = 0;
        for (int32_t h = link->first_hop; h >= 0; h = rates->hops.at[h].next) {
            const int64_t level = rates->flows.at[rates->hops.at[h].flow].level;
            if (level < w) {
                sum += rates->hops.at[h].weight * level;
                below += rates->hops.at[h].weight;
            }
        }
        if (below == link->n_flows)
            return ORR_RATE_NEVER;
        const int64_t next = (link->capacity - sum) / (link->n_flows - below);
        if (next <= w)
            return w;
        w = next;
    }
}

static void sift_down(orr_rate_key *heap, size_t n, size_t i)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            return;
        if (child + 1 < n && heap[child + 1].level < heap[child].level)
            child++;
        if (heap[i].level <= heap[child].level)
            return;
        const orr_rate_key key = heap[i];
        heap[i] = heap[child];
        heap[child] = key;
        i = child;
    }
}

static void begin_fill(orr_flow_rates *rates)
{
    for (size_t i = 0; i < rates->open.n; i++)
        rates->flows.at[rates->open.at[i]].level = ORR_RATE_NEVER;
    rates->heap.n = 0;
    for (size_t i = 0; i < rates->touched.n; i++) {
        orr_rate_link *link = &rates->links[rates->touched.at[i]];
        link->rising = link->n_open;
        link->stopped = 0;
        link->settled = false;
        link->saturation = ORR_RATE_NEVER;
        if (link->rising > 0)
            rates->heap.at[rates->heap.n++] =
                (orr_rate_key){saturation_of(rates, link), rates->touched.at[i]};
    }
    for (size_t i = rates->heap.n / 2; i-- > 0;)
        sift_down(rates->heap.at, rates->heap.n, i);
}

/* Collects in `full` the links with the least saturation, which is returned. Flows that stopped
 * have only raised saturations, so a link's key is recomputed when it comes up. */
static int64_t next_full(orr_flow_rates *rates)
{
    orr_rate_key *heap = rates->heap.at;
    int64_t level = ORR_RATE_NEVER;
    rates->full.n = 0;
    while (rates->heap.n > 0 && (rates->full.n == 0 || heap[0].level == level)) {
        const orr_rate_link *link = &rates->links[heap[0].link];
        const int64_t now = link->rising == 0 ? ORR_RATE_NEVER : saturation_of(rates, link);
        if (now != ORR_RATE_NEVER && now != heap[0].level) {
            heap[0].level = now;
        } else {
            if (now != ORR_RATE_NEVER) {
                level = now;
                rates->full.at[rates->full.n++] = heap[0].link;
            }
            heap[0] = heap[--rates->heap.n];
        }
        sift_down(heap, rates->heap.n, 0);
    }
    return level;
}

static void stop_flow(orr_flow_rates *rates, uint32_t f, int64_t level)
{
    rates->flows.at[f].level = level;
    for (int32_t h = rates->flows.at[f].first_hop; h >= 0; h = rates->hops.at[h].further) {
        orr_rate_link *link = &rates->links[rates->hops.at[h].link];
        link->stopped += rates->hops.at[h].weight * level;
        link->rising -= rates->hops.at[h].weight;
    }
}

/* Progressive filling of the open flows, with the others fixed. */
static void fill(orr_flow_rates *rates)
{
    begin_fill(rates);
    for (int64_t level; (level = next_full(rates)) != ORR_RATE_NEVER;) {
        for (size_t i = 0; i < rates->full.n; i++) {
            orr_rate_link *link = &rates->links[rates->full.at[i]];
            link->saturation = level;
            link->settled = true;
            for (int32_t h = link->first_hop; h >= 0; h = rates->hops.at[h].next)
                if (rates->flows.at[rates->hops.at[h].flow].level == ORR_RATE_NEVER)
                    stop_flow(rates, rates->hops.at[h].flow, level);
        }
    }
    for (size_t i = 0; i < rates->touched.n; i++) {
        orr_rate_link *link = &rates->links[rates->touched.at[i]];
        if (!link->settled && link->n_open < link->n_flows)
            link->saturation = saturation_of(rates, link);
    }
}

static int64_t least_saturation(const orr_flow_rates *rates, const orr_rate_flow *flow)
{
    int64_t least = ORR_RATE_NEVER;
    for (int32_t h = flow->first_hop; h >= 0; h = rates->hops.at[h].further)
        if (rates->links[rates->hops.at[h].link].saturation < least)
            least = rates->links[rates->hops.at[h].link].saturation;
    return least;
}

/* Opens the fixed flows that are no longer right, or (`all`) everything that is connected. */
static bool open_more(orr_flow_rates *rates, bool all)
{
    const size_t before = rates->open.n;
    for (size_t i = 0; i < rates->touched.n; i++) {
        const orr_rate_link *link = &rates->links[rates->touched.at[i]];
        if (link->n_open == link->n_flows || (!all && link->saturation == link->was_saturation))
            continue;
        for (int32_t h = link->first_hop; h >= 0; h = rates->hops.at[h].next) {
            const uint32_t f = rates->hops.at[h].flow;
            const orr_rate_flow *flow = &rates->flows.at[f];
            if (!flow->open && (all || least_saturation(rates, flow) != flow->rate))
                open_flow(rates, f);
        }
    }
    return rates->open.n > before;
}

static void commit(orr_flow_rates *rates)
{
    for (size_t i = 0; i < rates->open.n; i++) {
        orr_rate_flow *flow = &rates->flows.at[rates->open.at[i]];
        for (int32_t h = flow->first_hop; h >= 0; h = rates->hops.at[h].further)
            rates->links[rates->hops.at[h].link].load +=
                rates->hops.at[h].weight * (flow->level - flow->rate);
        flow->rate = flow->level;
        flow->open = false;
    }
    for (size_t i = 0; i < rates->touched.n; i++) {
        orr_rate_link *link = &rates->links[rates->touched.at[i]];
        link->touched = false;
        link->n_open = 0;
    }
}

void orr_flow_rates_solve(orr_flow_rates *rates)
{
    enum { LOCAL_ROUNDS = 4 };
    if (rates->solved)
        return;
    for (int round = 0;; round++) {
        fill(rates);
        if (!open_more(rates, round >= LOCAL_ROUNDS))
            break;
    }
    commit(rates);
    rates->solved = true;
}
