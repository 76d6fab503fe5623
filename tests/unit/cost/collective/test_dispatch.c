/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>

#include <cmocka.h>

#include "cost/collective/collective.h"
#include "cost/collective/dispatch.h"

#define assert_near(a, b, most) assert_true(fabs((double)(a) - (double)(b)) <= (most))

static const orr_routing DEEPSEEK = {.experts = 256, .top_k = 8, .groups = 8, .top_groups = 4};

/* Mean number of units with a chosen expert over all choices of groups, and then of experts. */
static double counted(const orr_routing *r, uint32_t units)
{
    const uint32_t group = r->groups > 1 ? r->experts / r->groups : r->experts;
    const uint32_t groups = r->experts / group;
    const uint32_t most = r->groups > 1 ? r->top_groups : 1;
    double sum = 0, cases = 0;
    for (uint32_t g = 0; g < 1u << groups; g++)
        for (uint32_t e = 0; e < 1u << r->experts; e++) {
            bool eligible = (uint32_t)__builtin_popcount(g) == most &&
                            (uint32_t)__builtin_popcount(e) == r->top_k;
            uint32_t of_units = 0;
            for (uint32_t i = 0; i < r->experts && eligible; i++) {
                if (!(e >> i & 1))
                    continue;
                eligible = g >> (i / group) & 1;
                of_units |= 1u << (i * units / r->experts);
            }
            sum += eligible ? __builtin_popcount(of_units) : 0;
            cases += eligible;
        }
    return sum / cases;
}

static void expected_units_are_those_of_all_choices(void **state)
{
    (void)state;
    static const orr_routing CASES[] = {{12, 3, 0, 0}, {12, 1, 0, 0}, {12, 3, 4, 2},
                                        {12, 2, 6, 3}, {12, 4, 2, 1}, {12, 12, 0, 0}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        for (uint32_t units = 1; units <= 12; units++)
            if (12 % units == 0 && (CASES[i].groups < 2 || CASES[i].groups % units == 0 ||
                                    units % CASES[i].groups == 0))
                assert_near(orr_routing_units(&CASES[i], units), counted(&CASES[i], units), 1e-9);
}

static void a_limit_bounds_the_hosts_of_a_token(void **state)
{
    (void)state;
    double last = 0;
    for (uint32_t limit = 1; limit <= 8; limit++) {
        orr_routing r = DEEPSEEK;
        r.top_groups = limit;
        const double hosts = orr_routing_units(&r, 8);
        assert_true(hosts > last && hosts <= limit + 1e-9);
        last = hosts;
    }
    const orr_routing unlimited = {.experts = 256, .top_k = 8};
    assert_near(last, orr_routing_units(&unlimited, 8), 1e-12);
    assert_near(orr_routing_units(&DEEPSEEK, 8), 3.62, 0.01);
}

static void open_hosts(uint32_t hosts, orr_network *network, orr_span *span)
{
    *network = (orr_network){.n_levels = 2, .scale_up = {true}, .size = {8, 64}};
    network->levels[0].bytes_per_s[ORR_PROTOCOL_BANDWIDTH] = 200e9;
    network->levels[1].bytes_per_s[ORR_PROTOCOL_BANDWIDTH] = 50e9;
    *span = (orr_span){
        .n_ranks = 8 * hosts, .n_levels = 2, .width = {8, hosts}, .top = hosts > 1, .even = true};
}

/* Bytes of a rank on both levels, of 1000 bytes of copies. */
static void bytes_of(const orr_routing *r, uint32_t hosts, bool once, double ret[2])
{
    orr_network network;
    orr_span span;
    orr_coll_schedule schedule;
    open_hosts(hosts, &network, &span);
    const double share = once ? orr_dispatch_once_per_host(r, &span, &network) : 1;
    assert_true(share <= 1 + 1e-12);
    assert_true(orr_coll_schedule_of(&network, &span, ORR_COLL_ALL_TO_ALL, ORR_ALGORITHM_DIRECT,
                                     1000 * share, &schedule));
    assert_int_equal(schedule.n, 1);
    ret[0] = schedule.phases[0].bytes[0];
    ret[1] = schedule.phases[0].bytes[1];
}

static void a_token_crosses_the_network_once_for_each_host(void **state)
{
    (void)state;
    for (uint32_t hosts = 2; hosts <= 32; hosts *= 2) {
        double once[2], copies[2];
        const orr_routing unlimited = {.experts = 256, .top_k = 8};
        bytes_of(&unlimited, hosts, true, once);
        bytes_of(&unlimited, hosts, false, copies);
        assert_near(once[1], 125 * orr_routing_units(&unlimited, hosts) * (hosts - 1) / hosts,
                    1e-6);
        assert_true(once[1] < copies[1]);
        /* To each rank that has an expert, from one of its own host. */
        assert_near(once[0], 125 * orr_routing_units(&unlimited, 8 * hosts) * 7 / 8, 1e-6);
        double limited[2];
        bytes_of(&DEEPSEEK, hosts, true, limited);
        assert_true(limited[1] <= once[1] + 1e-6 && limited[0] <= once[0] + 1e-6);
    }
}

static void one_expert_a_token_leaves_nothing_to_save(void **state)
{
    (void)state;
    const orr_routing one = {.experts = 64, .top_k = 1};
    double once[2], copies[2];
    bytes_of(&one, 4, true, once);
    bytes_of(&one, 4, false, copies);
    assert_near(once[1], copies[1], 1e-9);
    bytes_of(&one, 1, true, once);
    bytes_of(&one, 1, false, copies);
    assert_near(once[0], copies[0], 1e-9);
}

static void one_host_sends_nothing_over_the_network(void **state)
{
    (void)state;
    double once[2];
    bytes_of(&DEEPSEEK, 1, true, once);
    assert_true(once[1] == 0);
    /* To each rank once: fewer than copies. */
    assert_near(once[0], 125 * orr_routing_units(&DEEPSEEK, 8) * 7 / 8, 1e-9);
    assert_true(once[0] < 1000.0 * 7 / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expected_units_are_those_of_all_choices),
        cmocka_unit_test(a_limit_bounds_the_hosts_of_a_token),
        cmocka_unit_test(a_token_crosses_the_network_once_for_each_host),
        cmocka_unit_test(one_expert_a_token_leaves_nothing_to_save),
        cmocka_unit_test(one_host_sends_nothing_over_the_network),
    };
    return cmocka_run_group_tests_name("dispatch", tests, NULL, NULL);
}
