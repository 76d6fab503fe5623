/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/network/rdma_transport.h"

#include <math.h>

static const double PACKET_BYTES = 4096;
static const double SEGMENT_BYTES = 1 << 20, LEAST_SEGMENT_BYTES = 1 << 16;
static const double SHALLOW_NS = 40e3, DEEP_NS = 4e6, MARK_NS = 10e3;
static const double STRICT_MARK_FRAC = 0.95, STALE_FRAC = 0.95, PAUSED_FRAC = 0.9;
static const double LEAST_FRAC = 1e-6; /* lower limit, so that there always is a price */
enum { ASSUMED_PATHS = 16, ASSUMED_OUTSTANDING = 128, ASSUMED_QUEUE_PAIRS = 16 };

static double at_least_one(double x)
{
    return x > 1 ? x : 1;
}

/* Above this mean the maximum is taken as that many standard deviations of a normal variable
 * above it. */
static const double MANY = 256;

double orr_max_bin_load(double balls, double bins)
{
    if (!(bins > 1) || !(balls > 1))
        return at_least_one(balls);
    const double all = balls / bins, mean = fmin(all, MANY);
    const double surely = pow(1e-12, 1 / bins); /* one bin exceeds it with this probability if
                                                 * each does with less */
    /* E max = sum over m of P(max > m), from where P is 1 to where it is 0 */
    double m = floor(fmax(0, mean - 12 * sqrt(mean))), most = m;
    int sign;
    double one = exp(m * log(mean) - mean - lgamma_r(m + 1, &sign)), upto = one;
    for (double above = 1; above > 1e-9 && (m < mean || one > 1e-17);
         m++, one *= mean / m, upto += one) {
        above = upto < surely ? 1 : 1 - pow(fmin(upto, 1), bins);
        most += above;
    }
    most = mean + (most - mean) * sqrt(all / mean) + (all - mean);
    return at_least_one(fmax(most, all));
}

double orr_go_back_n_goodput(double loss_frac, double packets_in_flight)
{
    const double loss = fmin(fmax(loss_frac, 0), 1);
    return (1 - loss) / (1 - loss + loss * at_least_one(packets_in_flight));
}

static double round_trip_bytes(const orr_rdma_path *place)
{
    return place->bytes_per_s * place->round_trip_ns * 1e-9;
}

static void bound(orr_rdma_transport *transport, const orr_rdma_path *place)
{
    const double share =
        round_trip_bytes(place) / at_least_one(place->oversubscription) / transport->queue_pairs;
    transport->outstanding = (uint32_t)fmin(at_least_one(ceil(share / SEGMENT_BYTES)), 1e9);
    transport->segment_bytes = fmax(LEAST_SEGMENT_BYTES, share / transport->outstanding);
}

orr_rdma_transport orr_rdma_transport_with(const orr_rdma_transport *level, uint8_t setting,
                                           const orr_rdma_path *place)
{
    orr_rdma_transport transport = level != NULL ? *level : (orr_rdma_transport){0};
    switch (setting) {
    case ORR_RDMA_SINGLE:
        transport.balance = ORR_BALANCE_ECMP;
        transport.queue_pairs = 1;
        break;
    case ORR_RDMA_QP4:
    case ORR_RDMA_QP16:
        transport.balance = ORR_BALANCE_QP;
        transport.queue_pairs = setting == ORR_RDMA_QP4 ? 4 : 16;
        break;
    case ORR_RDMA_SPRAY:
    case ORR_RDMA_BOUNDED:
        transport.balance = setting == ORR_RDMA_SPRAY ? ORR_BALANCE_SPRAY : ORR_BALANCE_ADAPTIVE;
        transport.queue_pairs = ASSUMED_QUEUE_PAIRS;
        transport.segment_bytes = SEGMENT_BYTES;
        transport.outstanding = ASSUMED_OUTSTANDING;
        if (setting == ORR_RDMA_BOUNDED)
            bound(&transport, place);
        break;
    case ORR_RDMA_CENTRAL:
        transport.balance = ORR_BALANCE_CENTRAL;
        break;
    case ORR_RDMA_CREDITS:
        transport.congestion = ORR_CONGESTION_CREDITS;
        break;
    case ORR_RDMA_DCQCN:
        transport.congestion = ORR_CONGESTION_DCQCN;
        break;
    default:
        break;
    }
    if (transport.balance != ORR_BALANCE_UNKNOWN && transport.paths == 0)
        transport.paths = ASSUMED_PATHS;
    return transport;
}

static double paths_left(const orr_rdma_transport *transport)
{
    return transport->failed < transport->paths ? transport->paths - transport->failed : 1;
}

/* Connections on the busiest path, where a queue pair counts as its share of a connection. */
static double busiest_load(const orr_rdma_transport *transport, double devices)
{
    const double left = paths_left(transport), q = at_least_one(transport->queue_pairs);
    double pieces = q, parted;
    switch (transport->balance) {
    case ORR_BALANCE_ECMP:
        return orr_max_bin_load(devices, left);
    case ORR_BALANCE_SPRAY:
        pieces *= transport->outstanding > 0 ? transport->outstanding : ASSUMED_OUTSTANDING;
        return orr_max_bin_load(devices * pieces, left) / pieces;
    case ORR_BALANCE_CENTRAL:
        parted = devices * q * transport->failed / transport->paths;
        return (ceil(devices * q / transport->paths) +
                (parted > 0 ? orr_max_bin_load(parted, left) : 0)) /
               q;
    default:
        return orr_max_bin_load(devices * pieces, left) / pieces;
    }
}

static double balance_frac(const orr_rdma_transport *transport, const orr_rdma_path *place)
{
    if (transport->balance == ORR_BALANCE_UNKNOWN || transport->balance == ORR_BALANCE_ADAPTIVE ||
        transport->paths == 0)
        return 1;
    const double over = at_least_one(place->oversubscription);
    const double devices = at_least_one(place->devices);
    const double path = at_least_one(devices / (over * transport->paths));
    const double all = fmin(1, over * path / busiest_load(transport, devices));
    /* the loss by failed paths is reported apart */
    const double frac = fmin(1, all * transport->paths / paths_left(transport));
    return transport->balance == ORR_BALANCE_CENTRAL ? STALE_FRAC * frac : frac;
}

static double buffer_ns(uint8_t buffers)
{
    return buffers == ORR_BUFFERS_DEEP ? DEEP_NS : buffers == ORR_BUFFERS_SHALLOW ? SHALLOW_NS : 0;
}

double orr_rdma_queue_room_ns(const orr_rdma_transport *transport)
{
    const double room_ns = buffer_ns(transport->buffers);
    return transport->congestion == ORR_CONGESTION_CREDITS ? 0
           : transport->congestion == ORR_CONGESTION_DCQCN ? fmin(room_ns, MARK_NS)
                                                           : room_ns;
}

/* Queueing: how long a message waits behind what its connection has sent before; `reached`:
 * bytes/s through the fabric, of a port's bandwidth. */
static void queue_up(const orr_rdma_transport *transport, const orr_rdma_path *place,
                     double reached, orr_rdma_effect *effect)
{
    const double room_ns = orr_rdma_queue_room_ns(transport);
    if (!(reached < place->bytes_per_s) || !(effect->window_bytes > 0) || !(room_ns > 0))
        return;
    const double stands_ns = effect->window_bytes * 1e9 / reached - place->round_trip_ns;
    if (stands_ns <= 0)
        return;
    effect->queue_ns = fmin(stands_ns, room_ns);
    if (transport->congestion == ORR_CONGESTION_NONE && transport->buffers == ORR_BUFFERS_SHALLOW &&
        stands_ns > room_ns)
        effect->congestion_frac *= PAUSED_FRAC;
}

void orr_rdma_effect_update(orr_rdma_effect *effect)
{
    effect->frac = fmax(LEAST_FRAC, effect->balance_frac * effect->failed_frac *
                                        effect->congestion_frac * effect->loss_frac);
}

orr_rdma_effect orr_rdma_effect_of(const orr_rdma_transport *transport, const orr_rdma_path *place)
{
    orr_rdma_effect effect = {.failed_frac = 1, .congestion_frac = 1, .loss_frac = 1};
    const double over = at_least_one(place->oversubscription);
    if (transport->paths > 0)
        effect.failed_frac = paths_left(transport) / transport->paths;
    effect.balance_frac = balance_frac(transport, place);
    effect.window_bytes = (double)(transport->queue_pairs > 0 ? transport->queue_pairs : 1) *
                          transport->outstanding * fmax(transport->segment_bytes, 0);
    if (effect.window_bytes > 0 && place->round_trip_ns > 0)
        effect.window_bytes_per_s = effect.window_bytes * 1e9 / place->round_trip_ns;
    if (transport->congestion == ORR_CONGESTION_DCQCN)
        effect.congestion_frac = STRICT_MARK_FRAC;
    queue_up(transport, place, place->bytes_per_s / over * effect.balance_frac * effect.failed_frac,
             &effect);
    if (transport->loss_frac > 0) {
        double in_flight = round_trip_bytes(place) / over;
        if (effect.window_bytes > 0)
            in_flight = fmin(in_flight, effect.window_bytes);
        effect.loss_frac =
            orr_go_back_n_goodput(transport->loss_frac, 1 + in_flight / PACKET_BYTES);
    }
    orr_rdma_effect_update(&effect);
    return effect;
}

double orr_rdma_message_frac(const orr_rdma_effect *effect, const orr_rdma_path *place,
                             double message_bytes)
{
    const double over = at_least_one(place->oversubscription);
    if (!(message_bytes > 0) || !(place->bytes_per_s > 0))
        return 0;
    const double alone_ns = message_bytes * 1e9 * over / place->bytes_per_s;
    const double bytes_ns = alone_ns / effect->frac;
    double ns = place->round_trip_ns / 2 + fmin(effect->queue_ns, bytes_ns) + bytes_ns;
    if (effect->window_bytes_per_s > 0)
        ns = fmax(ns, message_bytes * 1e9 / effect->window_bytes_per_s);
    return fmin(1, alone_ns / ns);
}
