/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <orrery/calibration.h>

#include "base/philox.h"
#include "cost/network/rdma_transport.h"

/* A cluster of hosts, racks and buildings; the transport is that of the buildings. */
typedef struct site_lab {
    orr_level levels[3];
    orr_device device;
    orr_cluster cluster;
} site_lab;

static orr_fact fact(double value)
{
    return (orr_fact){.value = value, .basis = ORR_FACT_ASSUMED, .source = "test"};
}

static orr_level a_level(uint32_t size, uint32_t devices, double bytes_per_s, double latency_ns,
                         double oversubscription)
{
    return (orr_level){.size = size,
                       .devices = devices,
                       .bytes_per_s = fact(bytes_per_s),
                       .latency_ns = fact(latency_ns),
                       .technology = "",
                       .oversubscription = fact(oversubscription)};
}

static void set_up(site_lab *lab, const orr_rdma_transport *transport)
{
    memset(lab, 0, sizeof *lab);
    lab->levels[0] = a_level(8, 8, 450e9, 1e3, 1);
    lab->levels[1] = a_level(16, 128, 50e9, 10e3, 1);
    lab->levels[2] = a_level(4, 512, 50e9, 500e3, 2.8);
    lab->levels[2].transport = transport;
    lab->device.memory_bytes_per_s = lab->device.achievable_memory_bytes_per_s = fact(3e12);
    lab->cluster = (orr_cluster){.name = "lab",
                                 .device = &lab->device,
                                 .n_devices = 512,
                                 .n_levels = 3,
                                 .levels = lab->levels};
}

static const orr_span ACROSS = {
    .n_ranks = 4, .n_levels = 3, .width = {1, 1, 4}, .top = 2, .even = true};
static const orr_span INSIDE = {
    .n_ranks = 16, .n_levels = 3, .width = {1, 16, 1}, .top = 1, .even = true};

static int64_t price(const orr_network *network, const orr_span *span, int64_t bytes)
{
    return orr_collective_price(network, span, ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_AUTO, bytes).ns;
}

static bool same_protocols(const orr_alpha_beta *a, const orr_alpha_beta *b)
{
    return memcmp(a->base_ns, b->base_ns, sizeof a->base_ns) == 0 &&
           memcmp(a->alpha_ns, b->alpha_ns, sizeof a->alpha_ns) == 0 &&
           memcmp(a->bytes_per_s, b->bytes_per_s, sizeof a->bytes_per_s) == 0 &&
           memcmp(&a->error_frac, &b->error_frac, sizeof a->error_frac) == 0 &&
           a->basis == b->basis;
}

static bool same_constants(const orr_network *a, const orr_network *b)
{
    bool same = true;
    for (int k = 0; k < ORR_LEVELS_MAX; k++)
        same &= same_protocols(&a->levels[k], &b->levels[k]) &&
                same_protocols(&a->reduction[k], &b->reduction[k]);
    return same && memcmp(a->queue_ns, b->queue_ns, sizeof a->queue_ns) == 0 &&
           memcmp(a->window_bytes_per_s, b->window_bytes_per_s, sizeof a->window_bytes_per_s) == 0;
}

static void unknown_without_a_wire_is_identity(void **state)
{
    (void)state;
    site_lab lab;
    orr_network before, after;
    set_up(&lab, NULL);
    orr_network_of_cluster(&lab.cluster, &before);
    after = before;
    orr_network_apply_transport(&after, &lab.cluster, ORR_RDMA_UNKNOWN);
    assert_true(same_constants(&before, &after));
    assert_true(before.levels[2].bytes_per_s[ORR_PROTOCOL_BANDWIDTH] == 50e9);
}

static void a_levels_own_wire_counts(void **state)
{
    (void)state;
    const orr_rdma_transport transport = {.balance = ORR_BALANCE_ECMP, .paths = 16, .failed = 1};
    site_lab with, without;
    orr_network a, b;
    set_up(&with, &transport);
    set_up(&without, NULL);
    orr_network_of_cluster(&with.cluster, &a);
    orr_network_of_cluster(&without.cluster, &b);
    assert_true(price(&a, &ACROSS, 1 << 30) > price(&b, &ACROSS, 1 << 30));
    assert_int_equal(price(&a, &INSIDE, 1 << 30), price(&b, &INSIDE, 1 << 30));
    assert_int_equal(a.levels[2].basis, ORR_BASIS_ASSUMED);
}

/* 128 devices in a unit, one of 16 paths down. */
static void the_share_is_that_of_the_formula(void **state)
{
    (void)state;
    const orr_rdma_transport transport = {
        .balance = ORR_BALANCE_QP, .queue_pairs = 4, .paths = 16, .failed = 1};
    const orr_rdma_path place = {
        .bytes_per_s = 50e9, .oversubscription = 2.8, .round_trip_ns = 1e6, .devices = 128};
    site_lab lab;
    orr_network network;
    set_up(&lab, &transport);
    orr_network_of_cluster(&lab.cluster, &network);
    assert_true(fabs(network.levels[2].bytes_per_s[ORR_PROTOCOL_MID] -
                     50e9 * orr_rdma_effect_of(&transport, &place).frac) < 1);
}

static void the_last_call_counts(void **state)
{
    (void)state;
    const orr_rdma_transport transport = {
        .balance = ORR_BALANCE_ECMP, .paths = 16, .buffers = ORR_BUFFERS_SHALLOW};
    site_lab lab;
    orr_network once, twice, own;
    set_up(&lab, &transport);
    orr_network_of_cluster(&lab.cluster, &own);
    once = twice = own;
    orr_network_apply_transport(&once, &lab.cluster, ORR_RDMA_QP16);
    for (uint8_t setting = 0; setting < ORR_RDMA_PRESETS; setting++)
        orr_network_apply_transport(&twice, &lab.cluster, setting);
    orr_network_apply_transport(&twice, &lab.cluster, ORR_RDMA_QP16);
    assert_true(same_constants(&once, &twice) && !same_constants(&once, &own));
    orr_network_apply_transport(&twice, &lab.cluster, ORR_RDMA_UNKNOWN);
    assert_true(same_constants(&twice, &own));
}

/* Without a transport a setting assumes one, but not for the links of a host; and takes it off
 * again. */
static void settings_without_a_wire(void **state)
{
    (void)state;
    site_lab lab;
    orr_network bare, set;
    set_up(&lab, NULL);
    orr_network_of_cluster(&lab.cluster, &bare);
    set = bare;
    orr_network_apply_transport(&set, &lab.cluster, ORR_RDMA_SINGLE);
    assert_true(same_protocols(&set.levels[0], &bare.levels[0]));
    assert_true(set.levels[1].bytes_per_s[0] < bare.levels[1].bytes_per_s[0]);
    assert_true(set.levels[2].bytes_per_s[0] < bare.levels[2].bytes_per_s[0]);
    assert_true(fabs(set.levels[2].bytes_per_s[0] / bare.levels[2].bytes_per_s[0] - 0.69) < 0.01);
    orr_network_apply_transport(&set, &lab.cluster, ORR_RDMA_UNKNOWN);
    assert_true(same_constants(&set, &bare));
    static const uint8_t AS_GOOD[] = {ORR_RDMA_QP16, ORR_RDMA_SPRAY, ORR_RDMA_BOUNDED,
                                      ORR_RDMA_CENTRAL, ORR_RDMA_CREDITS};
    for (size_t i = 0; i < sizeof AS_GOOD; i++) {
        orr_network_apply_transport(&set, &lab.cluster, AS_GOOD[i]);
        for (uint32_t k = 0; k < bare.n_levels; k++)
            assert_true(same_protocols(&set.levels[k], &bare.levels[k]));
        for (int64_t bytes = 1; bytes < (int64_t)1 << 36; bytes *= 64)
            assert_int_equal(price(&set, &ACROSS, bytes), price(&bare, &ACROSS, bytes));
    }
    orr_network_apply_transport(&set, &lab.cluster, ORR_RDMA_DCQCN);
    assert_true(set.levels[2].bytes_per_s[0] == 0.95 * bare.levels[2].bytes_per_s[0]);
}

/* 128 devices over 76 paths, of which the transport says no more: one queue pair loses what 16
 * gain. */
static void settings_on_paths_without_a_balance(void **state)
{
    (void)state;
    const orr_rdma_transport transport = {.paths = 76, .failed = 2};
    const orr_rdma_path place = {
        .bytes_per_s = 50e9, .oversubscription = 2.8, .round_trip_ns = 1e6, .devices = 128};
    const orr_rdma_transport single = orr_rdma_transport_with(&transport, ORR_RDMA_SINGLE, &place),
                             many = orr_rdma_transport_with(&transport, ORR_RDMA_QP16, &place);
    site_lab lab;
    orr_network own, set;
    set_up(&lab, &transport);
    orr_network_of_cluster(&lab.cluster, &own);
    assert_true(fabs(own.levels[2].bytes_per_s[0] - 50e9 * 74 / 76) < 1);
    set = own;
    orr_network_apply_transport(&set, &lab.cluster, ORR_RDMA_SPRAY);
    assert_true(set.levels[2].bytes_per_s[0] == own.levels[2].bytes_per_s[0]);
    orr_network_apply_transport(&set, &lab.cluster, ORR_RDMA_SINGLE);
    const double less = orr_rdma_effect_of(&single, &place).balance_frac /
                        orr_rdma_effect_of(&many, &place).balance_frac;
    assert_true(less < 0.9);
    assert_true(fabs(set.levels[2].bytes_per_s[0] / own.levels[2].bytes_per_s[0] - less) < 1e-9);
}

/* The reduction of gradients of 1 GB over 500 us: 50 MB under way are needed. */
static void a_window_starves_a_long_level(void **state)
{
    (void)state;
    orr_rdma_transport transport = {.queue_pairs = 1, .outstanding = 5, .segment_bytes = 1e6};
    site_lab lab;
    orr_network starved, filled;
    set_up(&lab, &transport);
    orr_network_of_cluster(&lab.cluster, &starved);
    transport.outstanding = 50;
    orr_network_of_cluster(&lab.cluster, &filled);
    const orr_span two = {.n_ranks = 2, .n_levels = 3, .width = {1, 1, 2}, .top = 2, .even = true};
    const int64_t bytes = 1000 * 1000 * 1000;
    const orr_price slow =
        orr_collective_price(&starved, &two, ORR_COLL_SEND, ORR_ALGORITHM_DIRECT, bytes);
    const orr_price fast =
        orr_collective_price(&filled, &two, ORR_COLL_SEND, ORR_ALGORITHM_DIRECT, bytes);
    assert_int_equal(slow.ns, 200 * 1000 * 1000);             /* 5 GB/s */
    assert_int_equal(fast.ns, 500 * 1000 + 56 * 1000 * 1000); /* 50 GB/s at 1:2.8 */
    /* a message that fits is as fast as without */
    const int64_t little = 2000 * 1000;
    assert_int_equal(
        orr_collective_price(&starved, &two, ORR_COLL_SEND, ORR_ALGORITHM_DIRECT, little).ns,
        orr_collective_price(&filled, &two, ORR_COLL_SEND, ORR_ALGORITHM_DIRECT, little).ns);
    /* connections to all others at once have a window each */
    const int64_t ring = orr_collective_price(&starved, &ACROSS, ORR_COLL_ALL_GATHER,
                                              ORR_ALGORITHM_RING, bytes)
                             .ns,
                  pairs = orr_collective_price(&starved, &ACROSS, ORR_COLL_ALL_GATHER,
                                               ORR_ALGORITHM_DIRECT, bytes)
                              .ns;
    assert_true(ring == 150 * 1000 * 1000 && pairs == 50 * 1000 * 1000);
}

/* 2 GiB under way over a thin level with deep buffers: 4 ms to wait for, or as long as the bytes
 * take, where that is less. Bounded: nearly nothing. */
static void queues_are_waited_for_once(void **state)
{
    (void)state;
    const orr_rdma_transport transport = {.buffers = ORR_BUFFERS_DEEP};
    const orr_span two = {.n_ranks = 2, .n_levels = 3, .width = {1, 1, 2}, .top = 2, .even = true};
    site_lab lab;
    orr_network plain, sprayed, bounded;
    set_up(&lab, &transport);
    orr_network_of_cluster(&lab.cluster, &plain);
    sprayed = bounded = plain;
    orr_network_apply_transport(&sprayed, &lab.cluster, ORR_RDMA_SPRAY);
    orr_network_apply_transport(&bounded, &lab.cluster, ORR_RDMA_BOUNDED);
    for (int64_t bytes = 1000; bytes < (int64_t)1 << 32; bytes *= 10) {
        const int64_t
            bare =
                orr_collective_price(&plain, &two, ORR_COLL_SEND, ORR_ALGORITHM_DIRECT, bytes).ns,
            queued =
                orr_collective_price(&sprayed, &two, ORR_COLL_SEND, ORR_ALGORITHM_DIRECT, bytes).ns,
            held =
                orr_collective_price(&bounded, &two, ORR_COLL_SEND, ORR_ALGORITHM_DIRECT, bytes).ns;
        const double own_ns = (double)bytes * 2.8 / 50;
        assert_true(fabs((double)(queued - bare) - fmin(4e6, own_ns)) < 2 + 0.03 * own_ns);
        assert_true(held >= bare && held <= queued);
    }
    assert_true(bounded.queue_ns[2] < sprayed.queue_ns[2]);
}

static orr_span random_span(orr_random *random)
{
    orr_span span = {.n_ranks = 1, .n_levels = 3, .even = true};
    static const uint32_t SIZE[] = {8, 16, 4};
    for (uint32_t k = 0; k < 3; k++) {
        span.width[k] = 1 + (uint32_t)orr_random_below(random, SIZE[k]);
        span.n_ranks *= span.width[k];
        span.top = span.width[k] > 1 ? k : span.top;
    }
    return span;
}

/* Every setting, collective and algorithm: never cheaper than with nothing lost, never cheaper for
 * more bytes. */
static void prices_with_wires(void **state)
{
    (void)state;
    const orr_rdma_transport transport = {.balance = ORR_BALANCE_ECMP,
                                          .buffers = ORR_BUFFERS_DEEP,
                                          .paths = 16,
                                          .failed = 1,
                                          .queue_pairs = 2,
                                          .outstanding = 8,
                                          .segment_bytes = 1 << 19,
                                          .loss_frac = 1e-6};
    site_lab with, without;
    orr_network bare, own;
    set_up(&with, &transport);
    set_up(&without, NULL);
    orr_network_of_cluster(&without.cluster, &bare);
    orr_network_of_cluster(&with.cluster, &own);
    for (uint64_t seed = 0; seed < 3000; seed++) {
        orr_random random = orr_random_of(5, seed);
        const orr_span span = random_span(&random);
        const orr_algorithm algorithm = (orr_algorithm)orr_random_below(&random, ORR_ALGORITHMS);
        const orr_collective collective =
            (orr_collective)(1 + orr_random_below(&random, ORR_COLL_BARRIER));
        orr_network network = own, other = bare;
        orr_network_apply_transport(&network, &with.cluster, (uint8_t)(seed % ORR_RDMA_PRESETS));
        network.chunks = other.chunks = (uint32_t)orr_random_below(&random, 20);
        network.bytes_frac[2] = other.bytes_frac[2] = (double)orr_random_below(&random, 3) / 2;
        int64_t last_ns = 0;
        for (int64_t bytes = 1; bytes < (int64_t)1 << 38; bytes *= 3) {
            const int64_t ns =
                orr_collective_price(&network, &span, collective, algorithm, bytes).ns;
            assert_true(ns >= last_ns);
            assert_true(ns >= orr_collective_price(&other, &span, collective, algorithm, bytes).ns);
            last_ns = ns;
        }
    }
}

/* With a calibration, too: what a level reaches is what the transport leaves of it. */
static void rates_know_the_wire(void **state)
{
    (void)state;
    const orr_rdma_transport transport = {.balance = ORR_BALANCE_ECMP, .paths = 16};
    const orr_calibration calibration = {
        .name = "x", .memory = 0.5, .scale_up = 0.8, .scale_out = 0.8};
    site_lab with, without;
    orr_job_rates a, b;
    set_up(&with, &transport);
    set_up(&without, NULL);
    orr_job_rates_init(&with.cluster, &calibration, ORR_ALGORITHM_AUTO, &a);
    orr_job_rates_init(&without.cluster, &calibration, ORR_ALGORITHM_AUTO, &b);
    assert_true(b.network.levels[2].bytes_per_s[ORR_PROTOCOL_BANDWIDTH] == 40e9);
    assert_true(a.network.levels[2].bytes_per_s[ORR_PROTOCOL_BANDWIDTH] < 40e9);
    assert_true(a.network.levels[1].bytes_per_s[ORR_PROTOCOL_BANDWIDTH] == 40e9);
    assert_true(a.network.memory_bytes_per_s == 1.5e12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_without_a_wire_is_identity),
        cmocka_unit_test(a_levels_own_wire_counts),
        cmocka_unit_test(the_share_is_that_of_the_formula),
        cmocka_unit_test(the_last_call_counts),
        cmocka_unit_test(settings_without_a_wire),
        cmocka_unit_test(settings_on_paths_without_a_balance),
        cmocka_unit_test(a_window_starves_a_long_level),
        cmocka_unit_test(queues_are_waited_for_once),
        cmocka_unit_test(prices_with_wires),
        cmocka_unit_test(rates_know_the_wire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
