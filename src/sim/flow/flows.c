/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/flow/flows.h"

#include <string.h>

#include "base/alloc.h"
#include "sim/flow/state.h"

/* The network of flows. Events are ends of flows (a heap by row) and ends of transfers, which
 * come a latency after the last of their flows. Whenever flows start or end, max-min fair rates
 * are solved again (max_min_rates.c), and only flows whose rate changed get a new end. Between
 * events every flow moves at a constant rate, so nothing is computed. */

/* Rates and loads of links with these capacities, shape (n). */
static bool init_links(orr_flows *flows, const int64_t *capacity, uint32_t n)
{
    flows->uses = orr_calloc(n > 0 ? n : 1, sizeof *flows->uses);
    flows->n_uses = n;
    return flows->uses != NULL && orr_flow_rates_init(&flows->rates, capacity, n);
}

static bool init_each_link(orr_flows *flows)
{
    const uint32_t n = flows->fabric.n_links;
    int64_t *capacity = orr_calloc(n > 0 ? n : 1, sizeof *capacity);
    for (uint32_t l = 0; capacity != NULL && l < n; l++)
        capacity[l] = flows->fabric.links[l].capacity;
    const bool ok = capacity != NULL && init_links(flows, capacity, n);
    orr_free(capacity);
    return ok;
}

static void done_links(orr_flows *flows)
{
    for (uint32_t l = 0; flows->uses != NULL && l < flows->n_uses; l++)
        orr_link_load_done(&flows->uses[l]);
    orr_free(flows->uses);
    orr_flow_rates_done(&flows->rates);
}

orr_status orr_flows_fold(orr_flows *flows, const orr_link_classes *classes, orr_error *err)
{
    done_links(flows);
    flows->classes = classes;
    return init_links(flows, classes->capacity, classes->n_classes) ? ORR_OK : orr_fail_memory(err);
}

const struct orr_fabric *orr_flows_fabric(const orr_flows *flows)
{
    return &flows->fabric;
}

orr_status orr_flows_new(const orr_cluster *cluster, const orr_network *network, orr_flows **ret,
                         orr_error *err)
{
    orr_flows *flows = orr_calloc(1, sizeof *flows);
    if (flows == NULL)
        return orr_fail_memory(err);
    orr_status status = orr_fabric_init(&flows->fabric, cluster, network, err);
    if (status == ORR_OK && !init_each_link(flows))
        status = orr_fail_memory(err);
    if (status != ORR_OK) {
        orr_flows_free(flows);
        return status;
    }
    memcpy(flows->levels, cluster->levels, cluster->n_levels * sizeof *flows->levels);
    flows->cluster = (orr_cluster){.name = "of the flows",
                                   .n_devices = cluster->n_devices,
                                   .n_levels = cluster->n_levels,
                                   .levels = flows->levels};
    flows->network = *network;
    flows->free_transfer = ORR_NONE;
    *ret = flows;
    return ORR_OK;
}

void orr_flows_free(orr_flows *flows)
{
    if (flows == NULL)
        return;
    done_links(flows);
    orr_fabric_done(&flows->fabric);
    orr_array_done(&flows->rows);
    orr_array_done(&flows->transfers);
    orr_flow_heap_done(&flows->ends);
    orr_flow_heap_done(&flows->dones);
    orr_array_done(&flows->done);
    orr_array_done(&flows->route);
    orr_array_done(&flows->route_end);
    orr_array_done(&flows->weights);
    orr_array_done(&flows->bytes);
    orr_free(flows);
}

static int64_t later(int64_t at_ns, int64_t by_ns)
{
    return by_ns > INT64_MAX - at_ns ? INT64_MAX : at_ns + by_ns;
}

/* Changes the rate of a flow: subtracts what was sent at the old rate and moves its end. */
static void change_rate(orr_flows *flows, uint32_t f)
{
    orr_flow_row *row = &flows->rows.at[f];
    const int64_t rate = flows->rates.flows.at[f].rate;
    if (row->rate == rate)
        return;
    const int64_t passed = row->rate * (flows->now_ns - row->since_ns);
    row->left = passed < row->left ? row->left - passed : 0; /* it ends now, and its event is
                                                              * still to come */
    row->rate = rate;
    row->since_ns = flows->now_ns;
    const int64_t end_ns = later(flows->now_ns, row->left / rate + (row->left % rate > 0));
    orr_flow_heap_put(&flows->ends, (orr_flow_event){end_ns, f, f});
}

/* Solves rates again if any flow started or ended. */
static void settle(orr_flows *flows)
{
    orr_flow_rates *rates = &flows->rates;
    if (rates->solved)
        return;
    orr_flow_rates_solve(rates);
    for (size_t i = 0; i < rates->open.n; i++)
        change_rate(flows, rates->open.at[i]);
    for (size_t i = 0; i < rates->touched.n; i++) {
        const uint32_t l = rates->touched.at[i];
        orr_link_load_set(&flows->uses[l], flows->now_ns, rates->links[l].load);
    }
}

static int64_t next_ns(const orr_flows *flows)
{
    const int64_t end_ns = orr_flow_heap_next(&flows->ends);
    const int64_t done_ns = orr_flow_heap_next(&flows->dones);
    return end_ns < done_ns ? end_ns : done_ns;
}

bool orr_flows_next(orr_flows *flows, int64_t *ret_at_ns)
{
    settle(flows);
    if (flows->n_transfers == 0)
        return false;
    *ret_at_ns = next_ns(flows);
    return true;
}

static void finish(orr_flows *flows, uint32_t t)
{
    const orr_flow_transfer *transfer = &flows->transfers.at[t];
    orr_flow_heap_put(&flows->dones, (orr_flow_event){later(flows->now_ns, transfer->latency_ns),
                                                      transfer->order, t});
}

static void end_flow(orr_flows *flows, uint32_t f)
{
    const orr_rate_hop *hops = flows->rates.hops.at;
    orr_flow_row *row = &flows->rows.at[f];
    for (int32_t h = flows->rates.flows.at[f].first_hop; h >= 0; h = hops[h].further)
        flows->uses[hops[h].link].bytes += hops[h].weight * row->bytes;
    orr_flow_rates_remove(&flows->rates, f);
    row->rate = 0;
    if (--flows->transfers.at[row->transfer].n_left == 0)
        finish(flows, row->transfer);
}

void orr_flows_advance(orr_flows *flows, int64_t at_ns, const uint64_t **ret_done, size_t *ret_n)
{
    orr_flow_event event;
    settle(flows);
    flows->now_ns = at_ns;
    flows->done.n = 0;
    while (orr_flow_heap_take(&flows->ends, at_ns, &event))
        end_flow(flows, event.row);
    while (orr_flow_heap_take(&flows->dones, at_ns, &event)) {
        orr_flow_transfer *transfer = &flows->transfers.at[event.row];
        flows->done.at[flows->done.n++] = transfer->tag;
        transfer->next_free = flows->free_transfer;
        flows->free_transfer = event.row;
        flows->n_transfers--;
    }
    *ret_done = flows->done.at;
    *ret_n = flows->done.n;
}

/* Advances time to the start of a transfer. */
static orr_status move_to(orr_flows *flows, int64_t now_ns, orr_error *err)
{
    settle(flows);
    if (now_ns < flows->now_ns)
        return orr_fail(err, ORR_INVALID, "flows at %lld ns, before %lld ns", (long long)now_ns,
                        (long long)flows->now_ns);
    if (now_ns > next_ns(flows))
        return orr_fail(err, ORR_INVALID, "flows at %lld ns, past what happens at %lld ns",
                        (long long)now_ns, (long long)next_ns(flows));
    flows->now_ns = now_ns;
    return ORR_OK;
}

static orr_status check_bytes(int64_t bytes, orr_error *err)
{
    if (bytes < 0)
        return orr_fail(err, ORR_INVALID, "a flow of %lld bytes", (long long)bytes);
    if (bytes > ORR_FLOW_BYTES_MAX)
        return orr_fail(err, ORR_LIMIT, "a flow of %lld bytes: more than 2^42", (long long)bytes);
    return ORR_OK;
}

static orr_status check(const orr_flows *flows, const orr_flow_demand *demand, orr_error *err)
{
    const uint32_t n = flows->fabric.n_devices;
    if (demand->src >= n || demand->dst >= n)
        return orr_fail(err, ORR_INVALID, "a flow from device %u to %u: there are %u", demand->src,
                        demand->dst, n);
    return check_bytes(demand->bytes, err);
}

/* Begins a list of `n` demands with their routes. */
static orr_status begin_list(orr_flows *flows, size_t n, orr_error *err)
{
    flows->route.n = flows->weights.n = flows->route_end.n = flows->bytes.n = 0;
    return orr_array_reserve(&flows->route_end, n) && orr_array_reserve(&flows->bytes, n)
               ? ORR_OK
               : orr_fail_memory(err);
}

/* Ends the route of a demand of the list. */
static orr_status end_route(orr_flows *flows, int64_t bytes, orr_error *err)
{
    if (flows->route.n > INT32_MAX)
        return orr_fail(err, ORR_LIMIT, "flows over more than 2^31 links");
    flows->route_end.at[flows->route_end.n++] = (uint32_t)flows->route.n;
    flows->bytes.at[flows->bytes.n++] = bytes;
    return ORR_OK;
}

/* Routes of all demands, one after another. */
static orr_status find_routes(orr_flows *flows, const orr_flow_demand *demands, size_t n,
                              orr_error *err)
{
    ORR_TRY(begin_list(flows, n, err));
    for (size_t i = 0; i < n; i++) {
        ORR_TRY(check(flows, &demands[i], err));
        if (demands[i].bytes > 0 &&
            !orr_fabric_route(&flows->fabric, demands[i].src, demands[i].dst, &flows->route, NULL))
            return orr_fail_memory(err);
        ORR_TRY(end_route(flows, demands[i].bytes, err));
    }
    return ORR_OK;
}

static orr_status list_classes(orr_flows *flows, const orr_flow_class *classes, size_t n,
                               orr_error *err)
{
    ORR_TRY(begin_list(flows, n, err));
    for (size_t i = 0; i < n; i++) {
        const uint32_t links = classes[i].bytes > 0 ? classes[i].n_links : 0;
        ORR_TRY(check_bytes(classes[i].bytes, err));
        if (!orr_array_reserve(&flows->route, links) || !orr_array_reserve(&flows->weights, links))
            return orr_fail_memory(err);
        for (uint32_t k = 0; k < links; k++) {
            flows->route.at[flows->route.n++] = classes[i].links[k];
            flows->weights.at[flows->weights.n++] = classes[i].weights[k];
        }
        ORR_TRY(end_route(flows, classes[i].bytes, err));
    }
    return ORR_OK;
}

/* Reserves memory for everything that could fail later. */
static bool reserve(orr_flows *flows, size_t n)
{
    if (!orr_flow_rates_reserve(&flows->rates, n, flows->route.n))
        return false;
    const size_t rows = flows->rates.flows.room, transfers = flows->n_transfers + 1;
    if (flows->rows.n < rows) {
        if (!orr_array_reserve(&flows->rows, rows - flows->rows.n))
            return false;
        while (flows->rows.n < rows)
            flows->rows.at[flows->rows.n++] = (orr_flow_row){0};
    }
    if (!orr_flow_heap_reserve(&flows->ends, rows))
        return false;
    if (flows->free_transfer == ORR_NONE && !orr_array_reserve(&flows->transfers, 1))
        return false;
    flows->done.n = 0;
    if (!orr_flow_heap_reserve(&flows->dones, flows->transfers.room) ||
        !orr_array_reserve(&flows->done, transfers))
        return false;
    for (size_t i = 0; i < flows->route.n; i++)
        if (!orr_link_load_reserve(&flows->uses[flows->route.at[i]], ORR_FLOW_SAMPLES))
            return false;
    return true;
}

static uint32_t take_transfer(orr_flows *flows, int64_t latency_ns, uint64_t tag)
{
    uint32_t t = flows->free_transfer;
    if (t == ORR_NONE)
        t = (uint32_t)flows->transfers.n++;
    else
        flows->free_transfer = flows->transfers.at[t].next_free;
    flows->transfers.at[t] = (orr_flow_transfer){
        .tag = tag, .order = flows->n_begun++, .latency_ns = latency_ns > 0 ? latency_ns : 0};
    flows->n_transfers++;
    return t;
}

/* Starts the flows of the list as one transfer. */
static orr_status begin_transfer(orr_flows *flows, int64_t now_ns, int64_t latency_ns, uint64_t tag,
                                 orr_error *err)
{
    const size_t n = flows->route_end.n;
    ORR_TRY(move_to(flows, now_ns, err));
    if (!reserve(flows, n))
        return orr_fail_memory(err);
    const uint32_t t = take_transfer(flows, latency_ns, tag);
    for (size_t i = 0, begin = 0; i < n; begin = flows->route_end.at[i++]) {
        const uint32_t n_links = flows->route_end.at[i] - (uint32_t)begin;
        const int64_t bytes = flows->bytes.at[i];
        if (n_links == 0)
            continue;
        const uint32_t f =
            orr_flow_rates_add(&flows->rates, flows->route.at + begin,
                               flows->weights.n > 0 ? flows->weights.at + begin : NULL, n_links);
        flows->rows.at[f] = (orr_flow_row){.bytes = bytes,
                                           .left = bytes << ORR_FLOW_UNIT_SHIFT,
                                           .since_ns = now_ns,
                                           .transfer = t};
        flows->transfers.at[t].n_left++;
    }
    if (flows->transfers.at[t].n_left == 0)
        finish(flows, t);
    return ORR_OK;
}

orr_status orr_flows_begin(orr_flows *flows, int64_t now_ns, const orr_flow_demand *demands,
                           size_t n, int64_t latency_ns, uint64_t tag, orr_error *err)
{
    ORR_TRY(find_routes(flows, demands, n, err));
    return begin_transfer(flows, now_ns, latency_ns, tag, err);
}

orr_status orr_flows_begin_classes(orr_flows *flows, int64_t now_ns, const orr_flow_class *classes,
                                   size_t n, int64_t latency_ns, uint64_t tag, orr_error *err)
{
    ORR_TRY(list_classes(flows, classes, n, err));
    return begin_transfer(flows, now_ns, latency_ns, tag, err);
}

orr_status orr_flows_add(orr_flows *flows, int64_t now_ns, uint32_t src, uint32_t dst,
                         int64_t bytes, uint64_t tag, orr_error *err)
{
    const orr_flow_demand demand = {src, dst, bytes};
    int64_t latency_ns = 0;
    ORR_TRY(check(flows, &demand, err));
    flows->route.n = 0;
    if (!orr_fabric_route(&flows->fabric, src, dst, &flows->route, &latency_ns))
        return orr_fail_memory(err);
    return orr_flows_begin(flows, now_ns, &demand, 1, latency_ns, tag, err);
}
