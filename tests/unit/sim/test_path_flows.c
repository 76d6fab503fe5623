/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "cost/network/rdma_transport.h"
#include "sim/effects/path_flows.h"

enum { MOST = 64 };
static const double PORT = 50e9;
static orr_path_room room; /* of all tests, one after another */

/* A job of one kind of traffic, all transfers at once unless changed. */
typedef struct trial {
    orr_path_job job;
    orr_path_traffic traffic[MOST];
    orr_path_transfer transfers[MOST];
    int64_t ns[MOST];
} trial;

static trial trial_of(uint32_t paths, double paths_bytes_per_s, uint32_t connections,
                      uint8_t balance)
{
    trial t = {.job = {.network = {.paths = paths, .bytes_per_s = paths_bytes_per_s},
                       .n_traffic = 1,
                       .n = 1,
                       .seed = 7},
               .traffic[0] = {.connections = connections,
                              .queue_pairs = 1,
                              .port_bytes_per_s = PORT,
                              .balance = balance},
               .transfers[0] = {.bytes = 1e9}};
    return t;
}

/* The longest transfer, in seconds. */
static double run(trial *t, uint64_t draw)
{
    double longest = 0;
    orr_error err;
    t->job.traffic = t->traffic;
    t->job.transfers = t->transfers;
    assert_int_equal(orr_path_flows_simulate(&t->job, draw, &room, t->ns, &err), ORR_OK);
    for (uint32_t i = 0; i < t->job.n; i++)
        longest = fmax(longest, 1e-9 * (double)t->ns[i]);
    return longest;
}

static double mean_of(trial *t, uint32_t draws)
{
    double sum = 0;
    for (uint32_t draw = 0; draw < draws; draw++)
        sum += run(t, draw);
    return sum / draws;
}

static void about(double got, double want, double within)
{
    if (!(fabs(got / want - 1) <= within))
        print_message("%g, expected %g\n", got, want);
    assert_true(fabs(got / want - 1) <= within);
}

static void one_flow_alone_has_its_port(void **state)
{
    (void)state;
    trial t = trial_of(1, PORT, 1, ORR_BALANCE_ECMP);
    about(run(&t, 0), 1e9 / PORT, 1e-6);
    t.job.network.bytes_per_s = 100 * PORT; /* the path is wider than the port */
    about(run(&t, 0), 1e9 / PORT, 1e-6);
    t.job.network.bytes_per_s = PORT / 8;
    about(run(&t, 0), 8e9 / PORT, 1e-6);
}

static void flows_of_a_path_have_equal_parts(void **state)
{
    (void)state;
    for (uint32_t k = 1; k <= 64; k *= 4) {
        trial t = trial_of(1, PORT, k, ORR_BALANCE_QP);
        about(run(&t, 0), k * 1e9 / PORT, 1e-6);
    }
    trial two = trial_of(1, PORT, 1, ORR_BALANCE_ECMP); /* two transfers, not together */
    two.job.n = 2;
    two.transfers[1] = (orr_path_transfer){.start_ns = 10000000, .bytes = 1e9};
    run(&two, 0);
    about((double)two.ns[0], 30e6, 1e-6); /* 10 ms alone, the other half in 20 ms */
    about((double)two.ns[1], 30e6, 1e-6);
}

static void window_bounds_a_connection(void **state)
{
    (void)state;
    for (uint32_t queue_pairs = 1; queue_pairs <= 16; queue_pairs *= 4) {
        trial t = trial_of(16, 16 * PORT, 1, ORR_BALANCE_QP);
        t.job.network.round_trip_ns = 1e6;
        t.traffic[0].queue_pairs = queue_pairs;
        t.traffic[0].window_bytes = 25e6; /* half of 50 GB/s over 1 ms */
        about(run(&t, 0), 1e9 / 25e9, 1e-3);
    }
}

/* The closed form of the busiest of hashed paths, and the fluid of the same flows. */
static void collisions_are_those_of_balls_into_bins(void **state)
{
    (void)state;
    for (uint32_t flows = 64; flows <= 4096; flows *= 8) {
        trial t = trial_of(16, flows * PORT, flows, ORR_BALANCE_ECMP);
        about(mean_of(&t, 100) / (1e9 / PORT), orr_max_bin_load(flows, 16) / (flows / 16.0), 0.03);
        t.traffic[0].balance = ORR_BALANCE_ADAPTIVE;
        about(run(&t, 0), 1e9 / PORT, 1e-6);
    }
}

static void goodput_is_that_of_the_formulas(void **state)
{
    (void)state;
    for (double loss = 1e-5; loss < 0.02; loss *= 10)
        for (double window = 16; window <= 4096; window *= 16) { /* packets */
            trial t = trial_of(1, PORT, 1, ORR_BALANCE_ECMP);
            t.job.network.loss_frac = loss;
            t.job.network.round_trip_ns = 1e6;
            t.traffic[0].window_bytes = window * 4096;
            t.transfers[0].bytes = 1e12;
            const double rate = fmin(PORT, t.traffic[0].window_bytes / 1e-3);
            const double alone_s = 1e12 / rate;
            about(alone_s / run(&t, 0), orr_go_back_n_goodput(loss, 1 + window), 0.02);
            t.job.network.selective = true;
            about(alone_s / run(&t, 0), 1 - loss, 1e-3);
        }
}

static void the_slowest_of_many_has_lost_more(void **state)
{
    (void)state;
    trial t = trial_of(1, 64 * PORT, 64, ORR_BALANCE_ECMP);
    t.job.network.round_trip_ns = 1e5;
    t.traffic[0].window_bytes = PORT * 1e-4;
    t.job.network.loss_frac = 1e-5; /* 2.4 of 244,000 packets of each flow */
    const double mean_s = 1e9 / PORT / orr_go_back_n_goodput(1e-5, 1 + PORT * 1e-4 / 4096);
    assert_true(mean_of(&t, 50) > mean_s + 3e-4);  /* at least three windows more */
    assert_true(mean_of(&t, 50) < mean_s + 12e-4); /* 64 variables of mean 2.4: at most 12 */
}

static void higher_priority_goes_first(void **state)
{
    (void)state;
    trial t = trial_of(1, PORT, 1, ORR_BALANCE_ECMP);
    t.job.n = t.job.n_traffic = 2;
    t.traffic[1] = t.traffic[0];
    t.traffic[0].priority = 1;
    t.transfers[1] = (orr_path_transfer){.start_ns = 5000000, .bytes = 1e8, .traffic = 1};
    run(&t, 0);
    about((double)t.ns[1], 2e6, 1e-6);  /* as if alone */
    about((double)t.ns[0], 22e6, 1e-6); /* its own 20 ms, and those 2 */
    t.traffic[0].priority = 0;
    run(&t, 0);
    about((double)t.ns[1], 4e6, 1e-6);
    about((double)t.ns[0], 22e6, 1e-6);
}

static void others_take_their_part(void **state)
{
    (void)state;
    trial t = trial_of(1, 100 * PORT, 100, ORR_BALANCE_ECMP);
    t.job.network.others_port = PORT;
    t.job.network.others_frac = 1; /* 100 flows beside 100 */
    about(run(&t, 0), 2e9 / PORT, 1e-6);
    t.job.network.others_class = 1; /* below ours */
    about(run(&t, 0), 1e9 / PORT, 1e-6);
    t.job.network.others_class = 0;
    t.traffic[0].priority = 1; /* nothing is left for ours */
    orr_error err;
    assert_int_equal(orr_path_flows_simulate(&t.job, 0, &room, t.ns, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "other jobs"));
}

/* A short message behind one that has more in flight than a round trip holds. */
static void messages_wait_in_queues(void **state)
{
    (void)state;
    trial t = trial_of(1, PORT, 1, ORR_BALANCE_ECMP);
    t.job.n = t.job.n_traffic = 2;
    t.traffic[1] = t.traffic[0];
    t.traffic[0].window_bytes = 100e6; /* 2 ms of the path */
    t.job.network.round_trip_ns = 1e5;
    t.transfers[1] = (orr_path_transfer){.start_ns = 1000000, .bytes = 1e5, .traffic = 1};
    run(&t, 0);
    const int64_t without_ns = t.ns[1];
    t.job.network.room_ns = 4e6;
    run(&t, 0);
    about((double)(t.ns[1] - without_ns), 1.9e6, 1e-3);
    t.job.network.room_ns = 40e3;
    run(&t, 0);
    about((double)(t.ns[1] - without_ns), 40e3, 1e-3);
    t.traffic[0].priority = 1; /* the elephant behind the message */
    run(&t, 0);
    about((double)t.ns[1], 2e3, 1e-2);
}

/* Random jobs: order relations that hold in each of them. */
static trial drawn(uint64_t seed)
{
    orr_random r = orr_random_of(3, seed);
    const uint32_t paths = 1 + (uint32_t)orr_random_below(&r, 16);
    trial t = trial_of(paths, PORT * (double)(1 + orr_random_below(&r, 64)), 1, ORR_BALANCE_QP);
    int64_t at_ns = 0;
    t.job.seed = seed;
    t.job.n_traffic = 1 + (uint32_t)orr_random_below(&r, 4);
    t.job.n = 1 + (uint32_t)orr_random_below(&r, 40);
    t.job.network.round_trip_ns = 1e3 * (double)orr_random_below(&r, 1000);
    for (uint32_t i = 0; i < t.job.n_traffic; i++)
        t.traffic[i] = (orr_path_traffic){.connections = 1 + (uint32_t)orr_random_below(&r, 200),
                                          .queue_pairs = 1 + (uint32_t)orr_random_below(&r, 16),
                                          .port_bytes_per_s = PORT,
                                          .window_bytes = 1e6 * (double)orr_random_below(&r, 50),
                                          .balance = (uint8_t)orr_random_below(&r, 6)};
    for (uint32_t i = 0; i < t.job.n; i++) {
        at_ns += (int64_t)orr_random_below(&r, 20000000);
        t.transfers[i] = (orr_path_transfer){at_ns, 1e4 * (double)orr_random_below(&r, 10000),
                                             (uint32_t)orr_random_below(&r, t.job.n_traffic)};
    }
    return t;
}

/* The sum of all bytes of a connection over what a port and the paths let through. */
static double least_s(const trial *t, uint32_t transfer)
{
    const orr_path_traffic *of = &t->traffic[t->transfers[transfer].traffic];
    const orr_path_network *net = &t->job.network;
    const double left = (double)(net->paths - net->failed) / net->paths;
    const double all = t->transfers[transfer].bytes * of->connections / (net->bytes_per_s * left);
    return fmax(t->transfers[transfer].bytes / PORT, all);
}

static void order_relations_hold(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        trial t = drawn(seed);
        int64_t base[MOST];
        run(&t, seed);
        memcpy(base, t.ns, sizeof base);
        for (uint32_t i = 0; i < t.job.n; i++)
            assert_true(1e-9 * (double)base[i] >= least_s(&t, i) * (1 - 1e-6));
        run(&t, seed); /* the same again */
        assert_memory_equal(base, t.ns, t.job.n * sizeof *base);
        trial wide = t; /* more of everything is never slower */
        wide.job.network.bytes_per_s *= 2;
        run(&wide, seed);
        trial lossy = t;
        lossy.job.network.loss_frac = 1e-4;
        run(&lossy, seed);
        for (uint32_t i = 0; i < t.job.n; i++) {
            assert_true(wide.ns[i] <= base[i] + 1 + base[i] / 1000000);
            assert_true(lossy.ns[i] + 1 + base[i] / 1000000 >= base[i]);
        }
    }
}

/* Paths that fail take their bandwidth with them, and more paths of the same bandwidth each are
 * never slower in the mean. */
static void fewer_paths_are_slower(void **state)
{
    (void)state;
    double last = INFINITY;
    for (uint32_t failed = 13; failed-- > 0;) {
        trial t = trial_of(16, 128 * PORT, 128, ORR_BALANCE_QP);
        t.traffic[0].queue_pairs = 16;
        t.job.network.failed = failed;
        const double s = mean_of(&t, 20);
        assert_true(s < last && s >= 1e9 / PORT * 16 / (16 - failed));
        last = s;
    }
}

static void wrong_jobs_are_refused(void **state)
{
    (void)state;
    orr_error err;
    trial t = trial_of(4, PORT, 1, ORR_BALANCE_ECMP);
    run(&t, 0);
    t.job.network.failed = 4;
    assert_int_equal(orr_path_flows_simulate(&t.job, 0, &room, t.ns, &err), ORR_INVALID);
    t.job.network.failed = 0;
    t.job.n = 2;
    t.transfers[0].start_ns = 1;
    assert_int_equal(orr_path_flows_simulate(&t.job, 0, &room, t.ns, &err), ORR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_flow_alone_has_its_port),
        cmocka_unit_test(flows_of_a_path_have_equal_parts),
        cmocka_unit_test(window_bounds_a_connection),
        cmocka_unit_test(collisions_are_those_of_balls_into_bins),
        cmocka_unit_test(goodput_is_that_of_the_formulas),
        cmocka_unit_test(the_slowest_of_many_has_lost_more),
        cmocka_unit_test(higher_priority_goes_first),
        cmocka_unit_test(others_take_their_part),
        cmocka_unit_test(messages_wait_in_queues),
        cmocka_unit_test(order_relations_hold),
        cmocka_unit_test(fewer_paths_are_slower),
        cmocka_unit_test(wrong_jobs_are_refused),
    };
    const int failed = cmocka_run_group_tests_name("path_flows", tests, NULL, NULL);
    orr_path_room_done(&room);
    return failed;
}
