/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include <orrery/sim.h>

#include "cost/collective/collective.h"
#include "cost/network/rdma_transport.h"
#include "sim/effects/flow_effects.h"
#include "sim/effects/incast.h"
#include "sim/effects/multipath.h"

#define META  "Gangidi et al., SIGCOMM 2024"
#define NCCLX "Si et al., arXiv 2510.20171"

/* A port of 400 Gbit/s, and round-trip times: within a fabric ([M]: 22 us), between buildings
 * (digest of [N]: 150 us). */
static const double PORT = 50e9, FABRIC_NS = 22e3, BUILDINGS_NS = 150e3;
static const uint64_t SEED = 1;

/* Measures one row: its number, and whether the effect has the published direction. */
typedef orr_status measure(double *ret, bool *ret_direction, orr_error *err) ORR_MUST_CHECK;

static double balanced(uint8_t balance, uint32_t queue_pairs, uint32_t failed, double flows)
{
    const orr_rdma_transport transport = {
        .balance = balance, .queue_pairs = queue_pairs, .paths = 16, .failed = failed};
    const orr_rdma_path place = {
        .bytes_per_s = PORT, .oversubscription = 1, .round_trip_ns = FABRIC_NS, .devices = flows};
    return orr_rdma_effect_of(&transport, &place).frac;
}

static orr_status ecmp(double *ret, bool *ret_direction, orr_error *err)
{
    const orr_multipath_job job = {
        .balance = ORR_BALANCE_ECMP, .flows = 1000, .paths = 16, .draws = 200, .seed = SEED};
    orr_multipath_load load;
    ORR_TRY(orr_multipath_simulate(&job, &load, err));
    *ret = load.mean;
    *ret_direction = load.mean > 1.2;
    return ORR_OK;
}

static orr_status queue_pairs(double *ret, bool *ret_direction, orr_error *err)
{
    (void)err;
    *ret = 100 * (balanced(ORR_BALANCE_QP, 16, 0, 128) / balanced(ORR_BALANCE_ECMP, 1, 0, 128) - 1);
    *ret_direction = *ret > 0;
    return ORR_OK;
}

static orr_status central(double *ret, bool *ret_direction, orr_error *err)
{
    (void)err;
    *ret = 100 *
           (balanced(ORR_BALANCE_CENTRAL, 1, 0, 1000) / balanced(ORR_BALANCE_QP, 4, 0, 1000) - 1);
    *ret_direction = *ret > 0;
    return ORR_OK;
}

static orr_status central_under_failures(double *ret, bool *ret_direction, orr_error *err)
{
    (void)err;
    *ret = 100 *
           (balanced(ORR_BALANCE_CENTRAL, 1, 4, 1000) / balanced(ORR_BALANCE_QP, 4, 4, 1000) - 1);
    *ret_direction = *ret < 0;
    return ORR_OK;
}

/* Peak of a queue that three senders fill, each with a window. */
static orr_status peak_of_three(double window_bytes, double *ret, orr_error *err)
{
    const orr_incast_job job = {.senders = 3,
                                .sender_bytes = 64e6,
                                .window_bytes = window_bytes,
                                .buffer_bytes = 1e9,
                                .bytes_per_s = PORT,
                                .round_trip_ns = (int64_t)BUILDINGS_NS,
                                .hop_ns = 1000};
    orr_incast incast;
    ORR_TRY(orr_incast_simulate(&job, &incast, err));
    *ret = incast.peak_bytes;
    return ORR_OK;
}

static orr_status bounded(double *ret, bool *ret_direction, orr_error *err)
{
    const orr_rdma_path place = {
        .bytes_per_s = PORT, .oversubscription = 1, .round_trip_ns = BUILDINGS_NS, .devices = 1};
    const orr_rdma_transport free_wire = orr_rdma_transport_with(NULL, ORR_RDMA_SPRAY, &place),
                             held_wire = orr_rdma_transport_with(NULL, ORR_RDMA_BOUNDED, &place);
    double unbounded_bytes, bounded_bytes;
    ORR_TRY(
        peak_of_three(orr_rdma_effect_of(&free_wire, &place).window_bytes, &unbounded_bytes, err));
    ORR_TRY(
        peak_of_three(orr_rdma_effect_of(&held_wire, &place).window_bytes, &bounded_bytes, err));
    *ret = unbounded_bytes / bounded_bytes;
    *ret_direction = *ret > 1;
    return ORR_OK;
}

static orr_status chunk(double *ret, bool *ret_direction, orr_error *err)
{
    const orr_rdma_transport transport = {
        .queue_pairs = 1, .outstanding = 1, .segment_bytes = 128e3};
    const orr_rdma_path place = {
        .bytes_per_s = PORT, .oversubscription = 1, .round_trip_ns = BUILDINGS_NS, .devices = 1};
    const orr_rdma_effect effect = orr_rdma_effect_of(&transport, &place);
    (void)err;
    *ret = orr_rdma_message_frac(&effect, &place, 128e6) * PORT / 1e9;
    *ret_direction = *ret < PORT / 1e9;
    return ORR_OK;
}

static orr_status half_a_window(double *ret, bool *ret_direction, orr_error *err)
{
    const orr_rdma_transport transport = {
        .queue_pairs = 1, .outstanding = 25, .segment_bytes = 1e6};
    const orr_rdma_path place = {
        .bytes_per_s = PORT, .oversubscription = 1, .round_trip_ns = 1e6, .devices = 1};
    const orr_rdma_effect effect = orr_rdma_effect_of(&transport, &place);
    (void)err;
    *ret = 100 * orr_rdma_message_frac(&effect, &place, 100e9);
    *ret_direction = *ret < 99;
    return ORR_OK;
}

/* 8 racks of 16 ports in a zone; zones of 128 behind the oversubscription that both digests
 * name. */
static void zones(orr_network *network, orr_span *span)
{
    *network = (orr_network){.n_levels = 2, .size = {16, 8}, .oversubscription = {1, 2.8}};
    for (int k = 0; k < 2; k++)
        for (int p = 0; p < ORR_PROTOCOLS; p++) {
            network->levels[k].alpha_ns[p] = k == 0 ? 5e3 : 75e3;
            network->levels[k].bytes_per_s[p] = PORT;
        }
    *span = (orr_span){.n_ranks = 128, .n_levels = 2, .width = {16, 8}, .top = 1, .even = true};
}

static orr_status farthest_first(double *ret, bool *ret_direction, orr_error *err)
{
    orr_network network;
    orr_span span;
    orr_coll_schedule farthest;
    orr_coll_phase nearest;
    (void)err;
    zones(&network, &span);
    (void)orr_coll_schedule_of(&network, &span, ORR_COLL_ALL_GATHER,
                               ORR_ALGORITHM_RECURSIVE_DOUBLING, 256e6, &farthest);
    orr_coll_gather_nearest_first(&network, &span, 256e6, &nearest);
    *ret = orr_coll_phase_ns(&network, &nearest, NULL) / orr_coll_schedule_ns(&network, &farthest);
    *ret_direction = *ret > 1;
    return ORR_OK;
}

/* Number of pauses of a port with the buffer of a shallow switch, and the paused share of time. */
static orr_status sixteen_to_one(bool credits, double *ret, orr_error *err)
{
    const orr_incast_job job = {.senders = 16,
                                .sender_bytes = 4e6,
                                .buffer_bytes = 2e6,
                                .bytes_per_s = PORT,
                                .round_trip_ns = (int64_t)FABRIC_NS,
                                .hop_ns = 1000,
                                .pauses = true,
                                .credits = credits};
    orr_incast incast;
    ORR_TRY(orr_incast_simulate(&job, &incast, err));
    *ret = (double)incast.pauses;
    return ORR_OK;
}

static orr_status incast_without(double *ret, bool *ret_direction, orr_error *err)
{
    ORR_TRY(sixteen_to_one(false, ret, err));
    *ret_direction = *ret > 0;
    return ORR_OK;
}

static orr_status incast_with_credits(double *ret, bool *ret_direction, orr_error *err)
{
    double without;
    ORR_TRY(sixteen_to_one(false, &without, err));
    ORR_TRY(sixteen_to_one(true, ret, err));
    *ret_direction = *ret < without;
    return ORR_OK;
}

static orr_status one_plane(double *ret, bool *ret_direction, orr_error *err)
{
    const orr_rdma_transport transport = {
        .balance = ORR_BALANCE_ADAPTIVE, .paths = 76, .failed = 1};
    const orr_rdma_path place = {.bytes_per_s = PORT,
                                 .oversubscription = 2.8,
                                 .round_trip_ns = BUILDINGS_NS,
                                 .devices = 24576};
    (void)err;
    *ret = 100 * (1 - orr_rdma_effect_of(&transport, &place).frac);
    *ret_direction = *ret > 0;
    return ORR_OK;
}

static orr_status strict_marks(double *ret, bool *ret_direction, orr_error *err)
{
    const orr_rdma_transport transport = {.congestion = ORR_CONGESTION_DCQCN};
    const orr_rdma_path place = {
        .bytes_per_s = PORT, .oversubscription = 1, .round_trip_ns = FABRIC_NS, .devices = 1};
    (void)err;
    *ret = 100 * (1 - orr_rdma_effect_of(&transport, &place).frac);
    *ret_direction = *ret > 0;
    return ORR_OK;
}

/* Data centres of 1,536 GPUs, 21 ms round trip, with the oversubscription of a region's edge
 * between them. Gradients of 341 B parameters, tp 8, pp 12: 16 replicas in each. */
static void far_apart(orr_network *network, orr_span *span, uint32_t n_centres, double over)
{
    *network =
        (orr_network){.n_levels = 2, .size = {16, 2}, .oversubscription = {1, over}, .chunks = 16};
    for (int k = 0; k < 2; k++)
        for (int p = 0; p < ORR_PROTOCOLS; p++) {
            network->levels[k].alpha_ns[p] = k == 0 ? 15e3 : 10.5e6;
            network->levels[k].bytes_per_s[p] = PORT;
        }
    *span = (orr_span){.n_ranks = 16 * n_centres,
                       .n_levels = 2,
                       .width = {16, n_centres},
                       .top = n_centres - 1,
                       .even = true};
}

static const double EDGE = 4.5, FAR_STEP_NS = 10.3e9;
enum { CENTRE = 1536 };

/* `ret_bytes`, if not NULL: what the port of a device sends to the other centre. */
static double far_gradients_ns(uint32_t n_centres, orr_algorithm algorithm, double over,
                               double *ret_bytes)
{
    static const double BYTES = 341e9 / (8 * 12) * 4;
    orr_network network;
    orr_span span;
    orr_coll_schedule schedule;
    far_apart(&network, &span, n_centres, over);
    const double ns = orr_coll_choose(&network, &span, ORR_COLL_ALL_REDUCE, algorithm, BYTES,
                                      &algorithm, &schedule);
    for (uint32_t i = 0; ret_bytes != NULL && i < schedule.n; i++)
        *ret_bytes += schedule.phases[i].bytes[1] / over * schedule.pieces;
    return ns;
}

static double gradients_ns(uint32_t n_centres, orr_algorithm algorithm)
{
    return far_gradients_ns(n_centres, algorithm, EDGE, NULL);
}

/* Share of the step, in %, that meeting the other centre takes, if its link takes `longer` times as
 * long for its bytes. */
static double lost_far_apart(double over, double longer)
{
    double bytes = 0;
    const double more_ns = far_gradients_ns(2, ORR_ALGORITHM_HIERARCHICAL, over, &bytes) +
                           (longer - 1) * bytes * 1e9 * over / PORT -
                           gradients_ns(1, ORR_ALGORITHM_RING);
    return 100 * more_ns / (FAR_STEP_NS + more_ns);
}

/* Gbit/s between the centres for each device at which 4 % of the step are lost: by bisection, as
 * the loss grows with the oversubscription. */
static double rate_far_apart(double longer)
{
    double low = 1, high = 1000;
    for (int i = 0; i < 40; i++) {
        const double middle = sqrt(low * high);
        *(lost_far_apart(middle, longer) < 4 ? &low : &high) = middle;
    }
    return 8e-9 * PORT / low;
}

static orr_status rate_of_centres(double *ret, bool *ret_direction, orr_error *err)
{
    (void)err;
    *ret = rate_far_apart(1);
    *ret_direction = *ret < 8e-9 * PORT / EDGE;
    return ORR_OK;
}

static orr_status rate_by_flows(double *ret, orr_error *err)
{
    ORR_TRY(orr_flow_effect_collisions(CENTRE, ret, err));
    *ret = rate_far_apart(*ret);
    return ORR_OK;
}

static orr_status centres_by_flows(double *ret, orr_error *err)
{
    ORR_TRY(orr_flow_effect_collisions(CENTRE, ret, err));
    *ret = lost_far_apart(EDGE, *ret);
    return ORR_OK;
}

/* Slowdown of a step of 10.3 s by the reduction between two centres, on top of the one within
 * each, with nothing hidden. */
static orr_status two_centres(double *ret, bool *ret_direction, orr_error *err)
{
    (void)err;
    *ret = lost_far_apart(EDGE, 1);
    *ret_direction = *ret > 0 && *ret < 4;
    return ORR_OK;
}

static orr_status flat_over_two_centres(double *ret, bool *ret_direction, orr_error *err)
{
    const double alone_ns = gradients_ns(1, ORR_ALGORITHM_RING);
    (void)err;
    *ret = (gradients_ns(2, ORR_ALGORITHM_RING) - alone_ns) /
           (gradients_ns(2, ORR_ALGORITHM_HIERARCHICAL) - alone_ns);
    *ret_direction = *ret > 1;
    return ORR_OK;
}

/* In the order of the table in the documentation. */
static const struct {
    orr_published_effect row;
    measure *measure;
    orr_flow_effect *by_flows; /* or NULL */
} ROWS[] = {
    {{.what = "ECMP: flows on the busiest link",
      .published = "busiest over mean > 1.2, and worse in production",
      .published_low = 1.2,
      .published_high = NAN,
      .unit = "times the mean",
      .how = "simulation: 1,000 flows hashed onto 16 links, 200 draws",
      .source = META},
     ecmp,
     orr_flow_effect_ecmp},
    {{.what = "E-ECMP with queue-pair scaling against ECMP",
      .published = "up to 40 % more",
      .published_low = 40,
      .published_high = 40,
      .unit = "% more bandwidth",
      .how = "formula: 128 flows (assumed) on 16 links, 16 queue pairs each",
      .source = META},
     queue_pairs,
     orr_flow_effect_queue_pairs},
    {{.what = "central traffic engineering against E-ECMP",
      .published = "5 to 10 % more",
      .published_low = 5,
      .published_high = 10,
      .unit = "% more bandwidth",
      .how = "formula, 5 % of a cycle's demands out of date (assumed): 1,000 flows on 16 links, "
             "against 4 queue pairs",
      .source = META},
     central,
     orr_flow_effect_central},
    {{.what = "the same under several link failures",
      .published = "worse than E-ECMP",
      .published_low = NAN,
      .published_high = NAN,
      .unit = "% more bandwidth",
      .how = "formula: 4 of the 16 links down",
      .source = META},
     central_under_failures,
     orr_flow_effect_central_failed},
    {{.what = "bounded against unbounded segments under way",
      .published = "buffers build up less by an order of magnitude",
      .published_low = 10,
      .published_high = 10,
      .unit = "times the queue",
      .how = "simulation: 3 senders of 64 MB into a port of 400 Gbit/s, 150 us, 16 queue pairs of "
             "128 MiB each, or what a round trip holds",
      .source = NCCLX},
     bounded,
     orr_flow_effect_bounded},
    {{.what = "one chunk of 128 KB at a time over 150 us",
      .published = "0.85 of 50 GB/s",
      .published_low = 0.85,
      .published_high = 0.85,
      .unit = "GB/s",
      .how = "formula: window over round trip",
      .source = NCCLX},
     chunk,
     orr_flow_effect_chunk},
    {{.what = "a window of half the bandwidth-delay product",
      .published = "400 Gbit/s over 1 ms hold 50 MB; less starves the link",
      .published_low = 50,
      .published_high = 50,
      .unit = "% of the link",
      .how = "formula: 25 MB under way",
      .source = "arithmetic"},
     half_a_window,
     orr_flow_effect_half_window},
    {{.what = "recursive doubling: nearest-first against farthest-first",
      .published = "farthest-first won on oversubscribed links",
      .published_low = NAN,
      .published_high = NAN,
      .unit = "times as long",
      .how = "formula: all-gather of 256 MB, 8 racks of 16 joined at 1:2.8",
      .source = NCCLX},
     farthest_first,
     NULL},
    {{.what = "16:1 incast, no receiver credits",
      .published = "priority flow control has to pause senders",
      .published_low = NAN,
      .published_high = NAN,
      .unit = "pauses",
      .how = "simulation: 16 senders of 4 MB, a port of 400 Gbit/s with 2 MB of buffer",
      .source = META},
     incast_without,
     NULL},
    {{.what = "16:1 incast, receiver credits",
      .published = "not one pause in five minutes",
      .published_low = 0,
      .published_high = 0,
      .unit = "pauses",
      .how = "simulation: the same, a credit for each packet",
      .source = META},
     incast_with_credits,
     NULL},
    {{.what = "one plane of 76 lost",
      .published = "1.3 % of the bandwidth",
      .published_low = 1.3,
      .published_high = 1.3,
      .unit = "% less bandwidth",
      .how = "formula: what is left of 76 planes that share all alike",
      .source = NCCLX},
     one_plane,
     orr_flow_effect_plane},
    {{.what = "DCQCN with strict marking",
      .published = "5 % slower than with lax marking",
      .published_low = 5,
      .published_high = 5,
      .unit = "% less bandwidth",
      .how = "constant, taken from this publication",
      .source = META},
     strict_marks,
     NULL},
    {{.what = "Nemotron-4 340B over two centres 1,000 km apart",
      .published = "96 % of the speed in one: 4 % lost",
      .published_low = 4,
      .published_high = 4,
      .unit = "% of the step",
      .how =
          "formula: what meeting the other centre adds to the reduction in each, nothing "
          "hidden: hierarchical, 16 pieces, fp32, tp 8, pp 12, dp 32, 21 ms there and back, 4.5:1 "
          "(assumed), step 10.3 s",
      .source = "NVIDIA, NeMo 25.02 over long-haul networks, 2025; Nemotron-4 340B report, "
                "table 2"},
     two_centres,
     centres_by_flows},
    {{.what = "the rate between the centres at which it is 4 %",
      .published = "not published",
      .published_low = NAN,
      .published_high = NAN,
      .unit = "Gbit/s for each GPU",
      .how = "formula: the row above, solved for the oversubscription of 400 Gbit/s",
      .source = "derived from NVIDIA, NeMo 25.02 over long-haul networks, 2025"},
     rate_of_centres,
     rate_by_flows},
    {{.what = "the same reduction as one flat ring",
      .published = "hierarchical and in pieces, so that latency is hidden",
      .published_low = NAN,
      .published_high = NAN,
      .unit = "times as much",
      .how = "formula: what meeting the other centre adds, against the row above",
      .source = "NVIDIA, NeMo 25.02 over long-haul networks, 2025"},
     flat_over_two_centres,
     NULL},
};
enum { N_ROWS = sizeof ROWS / sizeof *ROWS };

static bool is_of_that_size(const orr_published_effect *row)
{
    const bool low = isnan(row->published_low) || row->ours >= row->published_low / 2;
    const bool high = isnan(row->published_high) || row->ours <= row->published_high * 2;
    return row->direction && low && high;
}

orr_status orr_published_effects(orr_arena *arena, const orr_published_effect **ret,
                                 uint32_t *ret_n, orr_error *err)
{
    orr_published_effect *rows = orr_arena_array(arena, orr_published_effect, N_ROWS);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < N_ROWS; i++) {
        rows[i] = ROWS[i].row;
        rows[i].by_flows = NAN;
        if (ROWS[i].by_flows != NULL)
            ORR_TRY(ROWS[i].by_flows(&rows[i].by_flows, err));
        ORR_TRY(ROWS[i].measure(&rows[i].ours, &rows[i].direction, err));
        rows[i].within = is_of_that_size(&rows[i]);
    }
    *ret = rows;
    *ret_n = N_ROWS;
    return ORR_OK;
}
