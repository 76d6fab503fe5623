/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/alloc.h"
#include "cost/network/rdma_transport.h"
#include "sim/effects/incast.h"

/* 16 senders of 4 MB into 400 Gbit/s, 22 us there and back. */
static const orr_incast_job SIXTEEN = {.senders = 16,
                                       .sender_bytes = 4e6,
                                       .buffer_bytes = 2e6,
                                       .bytes_per_s = 50e9,
                                       .round_trip_ns = 22000,
                                       .hop_ns = 1000};

static orr_incast run(const orr_incast_job *job)
{
    orr_incast incast;
    orr_error err;
    assert_int_equal(orr_incast_simulate(job, &incast, &err), ORR_OK);
    assert_true(incast.goodput_frac > 0 && incast.goodput_frac <= 1);
    assert_true(incast.mean_bytes <= incast.peak_bytes);
    assert_true(incast.peak_bytes <= job->buffer_bytes + 4096);
    return incast;
}

/* Nobody in the way: a round trip, and the bytes. */
static void one_sender(void **state)
{
    (void)state;
    orr_incast_job job = SIXTEEN;
    job.senders = 1;
    const orr_incast incast = run(&job);
    const double bare_ns = 4e6 / 50 + 22000;
    assert_true(fabs((double)incast.ns / bare_ns - 1) < 0.01);
    assert_true(incast.lost == 0 && incast.pauses == 0 && incast.peak_bytes <= 2 * 4096);
}

/* A window of a tenth of the round trip: a tenth of the port. */
static void one_sender_with_a_window(void **state)
{
    (void)state;
    orr_incast_job job = SIXTEEN;
    job.senders = 1;
    for (double part = 0.1; part < 1.5; part += 0.2) {
        job.window_bytes = part * 22e-6 * 50e9;
        const double reached = run(&job).goodput_frac;
        const orr_rdma_transport transport = {
            .queue_pairs = 1, .outstanding = 1, .segment_bytes = job.window_bytes};
        const orr_rdma_path place = {
            .bytes_per_s = 50e9, .oversubscription = 1, .round_trip_ns = 22e3, .devices = 1};
        const orr_rdma_effect effect = orr_rdma_effect_of(&transport, &place);
        const double said = fmin(1, effect.window_bytes_per_s / 50e9);
        assert_true(reached < said * 1.02 && reached > said * 0.78); /* the last one's way, too */
    }
}

/* The same senders: a shallow buffer pauses them or loses packets, with credits it does neither,
 * and a deep one takes it all. */
static void sixteen_to_one(void **state)
{
    (void)state;
    orr_incast_job job = SIXTEEN;
    job.pauses = true;
    const orr_incast paused = run(&job);
    assert_true(paused.pauses > 10 && paused.paused_frac > 0.5 && paused.lost == 0);
    job.credits = true;
    const orr_incast credited = run(&job);
    assert_true(credited.pauses == 0 && credited.lost == 0 && credited.resent == 0);
    assert_true(credited.peak_bytes < paused.peak_bytes / 10);
    assert_true(credited.goodput_frac > 0.95);
    job = SIXTEEN;
    const orr_incast lossy = run(&job);
    assert_true(lossy.lost > 0 && lossy.resent >= lossy.lost && lossy.goodput_frac < 0.5);
    job.buffer_bytes = 200e6;
    const orr_incast deep = run(&job);
    assert_true(deep.lost == 0 && deep.goodput_frac > 0.95);
    assert_true(fabs(deep.peak_bytes / (15 * 4e6) - 1) < 0.01); /* all but what the port let by */
}

/* What the closed form says stands in front of a port that n senders share: their windows, less
 * what is under way. */
static void windows_bound_the_queue(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 8; n *= 2)
        for (double window = 1e6; window <= 8e6; window *= 2) {
            const orr_incast_job job = {.senders = n,
                                        .sender_bytes = 24e6,
                                        .window_bytes = window,
                                        .buffer_bytes = 1e9,
                                        .bytes_per_s = 50e9,
                                        .round_trip_ns = 20000,
                                        .hop_ns = 1000};
            const orr_rdma_transport transport = {.queue_pairs = 1,
                                                  .outstanding = 1,
                                                  .segment_bytes = window,
                                                  .buffers = ORR_BUFFERS_DEEP};
            const orr_rdma_path place = {
                .bytes_per_s = 50e9, .oversubscription = n, .round_trip_ns = 20000, .devices = n};
            const double said = orr_rdma_effect_of(&transport, &place).queue_ns * 50;
            assert_true(fabs(run(&job).peak_bytes / said - 1) < 0.05);
        }
}

/* The buffer does not hold what is under way when the pause is heard: packets are lost and sent
 * again, and it ends. */
static void too_little_room_to_pause(void **state)
{
    (void)state;
    orr_incast_job job = SIXTEEN;
    job.pauses = true;
    job.hop_ns = 5000;
    const orr_incast incast = run(&job);
    assert_true(incast.lost > 0 && incast.pauses > 0);
}

static void what_cannot_be(void **state)
{
    (void)state;
    orr_incast incast;
    orr_error err;
    orr_incast_job job = SIXTEEN;
    job.senders = 0;
    assert_int_equal(orr_incast_simulate(&job, &incast, &err), ORR_INVALID);
    job = SIXTEEN;
    job.bytes_per_s = NAN;
    assert_int_equal(orr_incast_simulate(&job, &incast, &err), ORR_INVALID);
    job = SIXTEEN;
    job.sender_bytes = 1e15;
    assert_int_equal(orr_incast_simulate(&job, &incast, &err), ORR_LIMIT);
    job = SIXTEEN;
    job.round_trip_ns = INT64_MAX;
    assert_int_equal(orr_incast_simulate(&job, &incast, &err), ORR_LIMIT);
    for (uint64_t nth = 1; nth <= 5; nth++) {
        orr_alloc_fail_from(nth);
        assert_int_equal(orr_incast_simulate(&SIXTEEN, &incast, &err), ORR_NO_MEMORY);
        orr_alloc_fail_from(0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_sender),
        cmocka_unit_test(one_sender_with_a_window),
        cmocka_unit_test(sixteen_to_one),
        cmocka_unit_test(windows_bound_the_queue),
        cmocka_unit_test(too_little_room_to_pause),
        cmocka_unit_test(what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
