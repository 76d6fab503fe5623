/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/effects/flow_effects.h"

#include "cost/network/rdma_transport.h"
#include "sim/effects/path_flows.h"

static const double PORT = 50e9, BUILDINGS_NS = 150e3;
enum { DRAWS = 50, PATHS = 16 };

/* Mean time of one transfer over draws. */
static orr_status mean_ns(const orr_path_network *network, const orr_path_traffic *traffic,
                          double bytes, uint32_t draws, double *ret, orr_error *err)
{
    const orr_path_transfer one = {.bytes = bytes};
    const orr_path_job job = {.network = *network,
                              .traffic = traffic,
                              .transfers = &one,
                              .n_traffic = 1,
                              .n = 1,
                              .seed = 1};
    orr_path_room room = {0};
    orr_status status = ORR_OK;
    double sum_ns = 0;
    for (uint32_t draw = 0; draw < draws && status == ORR_OK; draw++) {
        int64_t ns = 0;
        status = orr_path_flows_simulate(&job, draw, &room, &ns, err);
        sum_ns += (double)ns;
    }
    orr_path_room_done(&room);
    *ret = sum_ns / draws;
    return status;
}

/* Mean time of flows that fill the paths, over that of an even load. */
static orr_status over_even(uint8_t balance, uint32_t queue_pairs, uint32_t failed, uint32_t flows,
                            double *ret, orr_error *err)
{
    const orr_path_network network = {
        .paths = PATHS, .failed = failed, .bytes_per_s = flows * PORT};
    const orr_path_traffic traffic = {.connections = flows,
                                      .queue_pairs = queue_pairs,
                                      .port_bytes_per_s = PORT,
                                      .balance = balance};
    ORR_TRY(mean_ns(&network, &traffic, 1e9, DRAWS, ret, err));
    *ret /= 1e9 * 1e9 / PORT;
    return ORR_OK;
}

orr_status orr_flow_effect_ecmp(double *ret, orr_error *err)
{
    return over_even(ORR_BALANCE_ECMP, 1, 0, 1000, ret, err);
}

static orr_status gain(double before, double after, double *ret)
{
    *ret = 100 * (before / after - 1);
    return ORR_OK;
}

orr_status orr_flow_effect_queue_pairs(double *ret, orr_error *err)
{
    double ecmp, pairs;
    ORR_TRY(over_even(ORR_BALANCE_ECMP, 1, 0, 128, &ecmp, err));
    ORR_TRY(over_even(ORR_BALANCE_QP, 16, 0, 128, &pairs, err));
    return gain(ecmp, pairs, ret);
}

static orr_status central_over_pairs(uint32_t failed, double *ret, orr_error *err)
{
    double pairs, central;
    ORR_TRY(over_even(ORR_BALANCE_QP, 4, failed, 1000, &pairs, err));
    ORR_TRY(over_even(ORR_BALANCE_CENTRAL, 1, failed, 1000, &central, err));
    return gain(pairs, central, ret);
}

orr_status orr_flow_effect_central(double *ret, orr_error *err)
{
    return central_over_pairs(0, ret, err);
}

orr_status orr_flow_effect_central_failed(double *ret, orr_error *err)
{
    return central_over_pairs(4, ret, err);
}

/* How long a packet waits behind three senders of 64 MB that hold so much under way. */
static orr_status wait_ns(double window_bytes, double *ret, orr_error *err)
{
    const orr_path_network network = {
        .paths = 1, .bytes_per_s = PORT, .round_trip_ns = BUILDINGS_NS, .room_ns = 1e12};
    const orr_path_traffic traffic[2] = {
        {.connections = 3, .port_bytes_per_s = PORT, .window_bytes = window_bytes},
        {.connections = 1, .port_bytes_per_s = PORT}};
    const orr_path_transfer sent[2] = {{.bytes = 64e6},
                                       {.start_ns = 100000, .bytes = 4096, .traffic = 1}};
    const orr_path_job job = {
        .network = network, .traffic = traffic, .transfers = sent, .n_traffic = 2, .n = 2};
    orr_path_room room = {0};
    int64_t ns[2] = {0};
    const orr_status status = orr_path_flows_simulate(&job, 0, &room, ns, err);
    orr_path_room_done(&room);
    *ret = (double)ns[1];
    return status;
}

orr_status orr_flow_effect_bounded(double *ret, orr_error *err)
{
    const orr_rdma_path place = {
        .bytes_per_s = PORT, .oversubscription = 1, .round_trip_ns = BUILDINGS_NS, .devices = 1};
    const orr_rdma_transport loose = orr_rdma_transport_with(NULL, ORR_RDMA_SPRAY, &place),
                             held = orr_rdma_transport_with(NULL, ORR_RDMA_BOUNDED, &place);
    double unbounded_ns, bounded_ns;
    ORR_TRY(wait_ns(orr_rdma_effect_of(&loose, &place).window_bytes, &unbounded_ns, err));
    ORR_TRY(wait_ns(orr_rdma_effect_of(&held, &place).window_bytes, &bounded_ns, err));
    *ret = unbounded_ns / bounded_ns;
    return ORR_OK;
}

/* Bytes/s of one connection with a window, over a path that is free. */
static orr_status windowed(double window_bytes, double round_trip_ns, double *ret, orr_error *err)
{
    const orr_path_network network = {
        .paths = 1, .bytes_per_s = PORT, .round_trip_ns = round_trip_ns};
    const orr_path_traffic traffic = {
        .connections = 1, .port_bytes_per_s = PORT, .window_bytes = window_bytes};
    ORR_TRY(mean_ns(&network, &traffic, 100e9, 1, ret, err));
    *ret = 100e9 * 1e9 / *ret;
    return ORR_OK;
}

orr_status orr_flow_effect_chunk(double *ret, orr_error *err)
{
    ORR_TRY(windowed(128e3, BUILDINGS_NS, ret, err));
    *ret /= 1e9;
    return ORR_OK;
}

orr_status orr_flow_effect_half_window(double *ret, orr_error *err)
{
    ORR_TRY(windowed(25e6, 1e6, ret, err));
    *ret *= 100 / PORT;
    return ORR_OK;
}

orr_status orr_flow_effect_plane(double *ret, orr_error *err)
{
    const orr_path_network network = {.paths = 76, .failed = 1, .bytes_per_s = 76 * PORT};
    const orr_path_traffic traffic = {
        .connections = 24576, .port_bytes_per_s = PORT, .balance = ORR_BALANCE_ADAPTIVE};
    double ns;
    ORR_TRY(mean_ns(&network, &traffic, 1e9, 1, &ns, err));
    *ret = 100 * (1 - 24576 * 1e9 / 76 / PORT * 1e9 / ns);
    return ORR_OK;
}

orr_status orr_flow_effect_collisions(uint32_t connections, double *ret, orr_error *err)
{
    const orr_path_network network = {.paths = PATHS, .bytes_per_s = connections * PORT};
    const orr_path_traffic traffic = {.connections = connections,
                                      .queue_pairs = 16,
                                      .port_bytes_per_s = PORT,
                                      .balance = ORR_BALANCE_QP};
    ORR_TRY(mean_ns(&network, &traffic, 1e9, 16, ret, err));
    *ret /= 1e9 * 1e9 / PORT;
    return ORR_OK;
}
