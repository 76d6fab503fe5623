/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/philox.h"
#include "cost/network/rdma_transport.h"

static bool near_to(double got, double want, double within)
{
    return fabs(got - want) <= within * fabs(want);
}

static orr_rdma_path a_place(double devices)
{
    return (orr_rdma_path){
        .bytes_per_s = 50e9, .oversubscription = 1, .round_trip_ns = 20e3, .devices = devices};
}

static double frac_of(const orr_rdma_transport *transport, double devices)
{
    const orr_rdma_path place = a_place(devices);
    return orr_rdma_effect_of(transport, &place).frac;
}

/* Exact by counting all ways to throw n balls into 2 bins: sum of max(k, n - k) C(n, k) / 2^n. */
static double busiest_of_two(uint32_t n)
{
    double sum = 0, ways = 1;
    for (uint32_t k = 0; k <= n; k++) {
        sum += ways * fmax(k, n - k);
        ways *= (n - k) / (k + 1.0);
    }
    return sum / pow(2, n);
}

static void busiest_bins(void **state)
{
    (void)state;
    for (uint32_t n = 8; n <= 512; n *= 2) /* independent bins are the worse the fewer they are */
        assert_true(near_to(orr_max_bin_load(n, 2), busiest_of_two(n), 0.13));
    assert_true(orr_max_bin_load(1000, 16) > 1.2 * 1000 / 16);
    assert_true(orr_max_bin_load(1, 16) == 1 && orr_max_bin_load(5, 1) == 5);
    assert_true(orr_max_bin_load(0, 16) == 1);
    for (double balls = 1; balls < 1e9; balls *= 1.1) /* of more, a smaller share too many */
        for (double bins = 2; bins < 300; bins *= 3) {
            const double now = orr_max_bin_load(balls, bins),
                         more = orr_max_bin_load(balls * 1.1, bins);
            assert_true(now >= balls / bins && now >= 1);
            assert_true(more >= now && more / 1.1 <= now * (1 + 1e-9));
        }
}

static void nothing_said_loses_nothing(void **state)
{
    (void)state;
    const orr_rdma_transport nothing = {0};
    const orr_rdma_path place = a_place(1024);
    const orr_rdma_effect effect = orr_rdma_effect_of(&nothing, &place);
    assert_true(effect.frac == 1 && effect.queue_ns == 0 && effect.window_bytes_per_s == 0);
}

static void balance_in_order(void **state)
{
    (void)state;
    static const uint8_t WORST_FIRST[] = {ORR_RDMA_SINGLE, ORR_RDMA_QP4, ORR_RDMA_QP16,
                                          ORR_RDMA_SPRAY, ORR_RDMA_BOUNDED};
    const orr_rdma_path place = a_place(1000);
    double last = 0;
    for (size_t i = 0; i < sizeof WORST_FIRST; i++) {
        const orr_rdma_transport transport = orr_rdma_transport_with(NULL, WORST_FIRST[i], &place);
        const double frac = orr_rdma_effect_of(&transport, &place).frac;
        assert_true(frac > last && frac <= 1);
        last = frac;
    }
    assert_true(last == 1);
}

static void central_engineering_loses_under_failures(void **state)
{
    (void)state;
    double gain[9];
    for (uint32_t failed = 0; failed < 9; failed++) {
        const orr_rdma_transport central = {
            .balance = ORR_BALANCE_CENTRAL, .paths = 16, .failed = failed};
        const orr_rdma_transport hashed = {
            .balance = ORR_BALANCE_QP, .queue_pairs = 4, .paths = 16, .failed = failed};
        gain[failed] = frac_of(&central, 1000) / frac_of(&hashed, 1000);
    }
    assert_true(gain[0] > 1.045 && gain[0] < 1.10);
    for (uint32_t failed = 2; failed < 9; failed++)
        assert_true(gain[failed] < 1);
}

static void failed_paths_are_gone(void **state)
{
    (void)state;
    orr_rdma_transport transport = {.paths = 76, .failed = 1};
    assert_true(near_to(frac_of(&transport, 1000), 75.0 / 76, 1e-12));
    transport.failed = 76;
    assert_true(near_to(frac_of(&transport, 1000), 1.0 / 76, 1e-12));
    transport.failed = 1000;
    assert_true(near_to(frac_of(&transport, 1000), 1.0 / 76, 1e-12));
}

/* 50 MB fill 400 Gbit/s for 1 ms; a chunk of 128 KB alone on its way for 150 us. */
static void windows(void **state)
{
    (void)state;
    orr_rdma_path place = {
        .bytes_per_s = 50e9, .oversubscription = 1, .round_trip_ns = 1e6, .devices = 1};
    orr_rdma_transport transport = {.queue_pairs = 1, .outstanding = 50, .segment_bytes = 1e6};
    orr_rdma_effect effect = orr_rdma_effect_of(&transport, &place);
    assert_true(near_to(effect.window_bytes_per_s, 50e9, 1e-12));
    assert_true(orr_rdma_message_frac(&effect, &place, 1e12) > 0.999);
    transport.outstanding = 5;
    effect = orr_rdma_effect_of(&transport, &place);
    assert_true(near_to(orr_rdma_message_frac(&effect, &place, 1e12), 0.1, 1e-9));
    /* what is in one window does not wait for its acknowledgement, but for its way */
    assert_true(near_to(orr_rdma_message_frac(&effect, &place, 2.5e6), 50e3 / 550e3, 1e-9));
    place.round_trip_ns = 150e3;
    transport = (orr_rdma_transport){.queue_pairs = 1, .outstanding = 1, .segment_bytes = 128e3};
    effect = orr_rdma_effect_of(&transport, &place);
    assert_true(near_to(effect.window_bytes_per_s, 0.853e9, 1e-3));
}

static void a_bounded_window_holds_the_round_trip(void **state)
{
    (void)state;
    for (double round_trip_ns = 1e3; round_trip_ns < 1e9; round_trip_ns *= 3) {
        const orr_rdma_path place = {.bytes_per_s = 50e9,
                                     .oversubscription = 2.8,
                                     .round_trip_ns = round_trip_ns,
                                     .devices = 100};
        const orr_rdma_transport deep = {.buffers = ORR_BUFFERS_DEEP};
        const orr_rdma_transport transport =
            orr_rdma_transport_with(&deep, ORR_RDMA_BOUNDED, &place);
        const orr_rdma_effect effect = orr_rdma_effect_of(&transport, &place);
        assert_true(transport.segment_bytes >= 1 << 16 && transport.segment_bytes <= 1 << 20);
        assert_true(effect.window_bytes_per_s >= 50e9 / 2.8 * (1 - 1e-9));
        assert_true(effect.queue_ns <= (round_trip_ns > 6e4 ? 1 : 59e3)); /* 1 MiB of it */
        assert_true(effect.window_bytes <= fmax(1 << 20, 18 * round_trip_ns));
    }
}

static void queues_stand_where_the_fabric_is_slower(void **state)
{
    (void)state;
    orr_rdma_path place = a_place(128);
    orr_rdma_transport transport = {.queue_pairs = 16,
                                    .outstanding = 128,
                                    .segment_bytes = 1 << 20,
                                    .buffers = ORR_BUFFERS_DEEP};
    assert_true(orr_rdma_effect_of(&transport, &place).queue_ns == 0);
    place.oversubscription = 2.8;
    assert_true(orr_rdma_effect_of(&transport, &place).queue_ns == 4e6);
    transport.buffers = ORR_BUFFERS_SHALLOW;
    assert_true(orr_rdma_effect_of(&transport, &place).queue_ns == 40e3);
    assert_true(orr_rdma_effect_of(&transport, &place).frac == 1); /* who pauses is not said */
    transport.congestion = ORR_CONGESTION_NONE;
    assert_true(orr_rdma_effect_of(&transport, &place).frac == 0.9);
    transport.congestion = ORR_CONGESTION_DCQCN;
    assert_true(orr_rdma_effect_of(&transport, &place).queue_ns == 10e3);
    assert_true(orr_rdma_effect_of(&transport, &place).frac == 0.95);
    transport.congestion = ORR_CONGESTION_CREDITS;
    assert_true(orr_rdma_effect_of(&transport, &place).queue_ns == 0);
    assert_true(orr_rdma_effect_of(&transport, &place).frac == 1);
    transport = (orr_rdma_transport){.buffers = ORR_BUFFERS_DEEP};
    transport = orr_rdma_transport_with(&transport, ORR_RDMA_BOUNDED, &place);
    assert_true(orr_rdma_effect_of(&transport, &place).queue_ns < 100e3);
}

/* Packets of a window, one lost now and then: what is sent from then on is sent again. */
static double gone_back(double loss, uint32_t in_flight)
{
    orr_random random = orr_random_of(3, in_flight);
    uint64_t sent = 0, passed = 0;
    while (passed < 400000) {
        sent++;
        if (orr_random_unit(&random) >= loss)
            passed++;
        else
            sent += in_flight - 1; /* behind it, for nothing */
    }
    return (double)passed / (double)sent;
}

static void lost_packets_go_back_n(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 1024; n *= 8)
        for (double loss = 1e-4; loss < 0.1; loss *= 10)
            assert_true(near_to(orr_go_back_n_goodput(loss, n), gone_back(loss, n), 0.06));
    assert_true(orr_go_back_n_goodput(0, 1e6) == 1 && orr_go_back_n_goodput(1, 1e6) == 0);
    orr_rdma_transport transport = {.loss_frac = 1};
    assert_true(frac_of(&transport, 1) > 0);
    transport.loss_frac = 1e-5;
    const double short_way = frac_of(&transport, 1);
    orr_rdma_path place = a_place(1);
    place.round_trip_ns = 10e6;
    assert_true(orr_rdma_effect_of(&transport, &place).frac < 0.5 * short_way);
}

static orr_rdma_transport random_wire(orr_random *random)
{
    return (orr_rdma_transport){
        .balance = (uint8_t)orr_random_below(random, ORR_BALANCE_CENTRAL + 1),
        .congestion = (uint8_t)orr_random_below(random, ORR_CONGESTION_CREDITS + 1),
        .buffers = (uint8_t)orr_random_below(random, ORR_BUFFERS_DEEP + 1),
        .queue_pairs = (uint32_t)orr_random_below(random, 33),
        .outstanding = (uint32_t)orr_random_below(random, 257),
        .paths = (uint32_t)orr_random_below(random, 100),
        .failed = (uint32_t)orr_random_below(random, 5),
        .segment_bytes = (double)orr_random_below(random, 1 << 22),
        .loss_frac = fmax(0, 2e-3 * orr_random_unit(random) - 1e-3)};
}

/* Of anything: above 0, at most all of it; worse with loss and with one more path down; a message's
 * share never falls as it grows, and the time that it takes never either. */
static void never_above_and_monotone(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20000; seed++) {
        orr_random random = orr_random_of(11, seed);
        const orr_rdma_transport level = random_wire(&random);
        const orr_rdma_path place = {.bytes_per_s = pow(10, 9 + 2 * orr_random_unit(&random)),
                                     .oversubscription = 1 + 7 * orr_random_unit(&random),
                                     .round_trip_ns = pow(10, 7.5 * orr_random_unit(&random)),
                                     .devices = pow(10, 5 * orr_random_unit(&random))};
        orr_rdma_transport transport =
            orr_rdma_transport_with(&level, (uint8_t)(seed % ORR_RDMA_PRESETS), &place);
        const orr_rdma_effect effect = orr_rdma_effect_of(&transport, &place);
        assert_true(effect.frac > 0 && effect.frac <= 1 && effect.queue_ns >= 0);
        double took_ns = 0, reached = 0;
        for (double bytes = 1; bytes < 1e12; bytes *= 7) {
            const double frac = orr_rdma_message_frac(&effect, &place, bytes);
            assert_true(frac > 0 && frac <= 1 && frac >= reached * (1 - 1e-9));
            assert_true(bytes / frac >= took_ns);
            reached = frac;
            took_ns = bytes / frac;
        }
        transport.loss_frac += 1e-4;
        assert_true(orr_rdma_effect_of(&transport, &place).frac <= effect.frac);
        transport.loss_frac -= 1e-4;
        transport.failed++;
        const orr_rdma_effect worse = orr_rdma_effect_of(&transport, &place);
        assert_true(worse.balance_frac * worse.failed_frac <=
                    effect.balance_frac * effect.failed_frac * (1 + 1e-6));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(busiest_bins),
        cmocka_unit_test(nothing_said_loses_nothing),
        cmocka_unit_test(balance_in_order),
        cmocka_unit_test(central_engineering_loses_under_failures),
        cmocka_unit_test(failed_paths_are_gone),
        cmocka_unit_test(windows),
        cmocka_unit_test(a_bounded_window_holds_the_round_trip),
        cmocka_unit_test(queues_stand_where_the_fabric_is_slower),
        cmocka_unit_test(lost_packets_go_back_n),
        cmocka_unit_test(never_above_and_monotone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
