/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/flow/max_min_rates.h"

/* Worked cases; tests/property/test_flows.c has the random ones. */

static uint32_t add(orr_flow_rates *rates, uint32_t a, uint32_t b)
{
    const uint32_t links[] = {a, b};
    const uint32_t n = a == b ? 1 : 2;
    assert_true(orr_flow_rates_reserve(rates, 1, n));
    return orr_flow_rates_add(rates, links, NULL, n);
}

/* Bertsekas & Gallager, "Data Networks", 6.5.2: who is held elsewhere leaves the rest to the
 * others. */
static void what_one_cannot_use_others_get(void **state)
{
    (void)state;
    const int64_t capacity[] = {100, 30};
    orr_flow_rates rates;
    assert_true(orr_flow_rates_init(&rates, capacity, 2));
    const uint32_t a = add(&rates, 0, 1), b = add(&rates, 1, 1), c = add(&rates, 0, 0);
    orr_flow_rates_solve(&rates);
    assert_int_equal(rates.flows.at[a].rate, 15);
    assert_int_equal(rates.flows.at[b].rate, 15);
    assert_int_equal(rates.flows.at[c].rate, 85);
    orr_flow_rates_remove(&rates, b);
    orr_flow_rates_solve(&rates);
    assert_int_equal(rates.flows.at[a].rate, 30);
    assert_int_equal(rates.flows.at[c].rate, 70);
    assert_int_equal(rates.links[0].load, 100);
    orr_flow_rates_done(&rates);
}

static void whole_units_and_never_none(void **state)
{
    (void)state;
    const int64_t capacity[] = {10, 2};
    orr_flow_rates rates;
    assert_true(orr_flow_rates_init(&rates, capacity, 2));
    uint32_t f[3], g[3];
    for (int i = 0; i < 3; i++) {
        f[i] = add(&rates, 0, 0);
        g[i] = add(&rates, 1, 1);
    }
    orr_flow_rates_solve(&rates);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rates.flows.at[f[i]].rate, 3); /* one unit is left over */
        assert_int_equal(rates.flows.at[g[i]].rate, 1); /* three flows, two units */
    }
    orr_flow_rates_done(&rates);
}

/* A hundred pairs of links: a change on one pair looks at no flow of another. */
static void far_away_nothing_is_computed(void **state)
{
    enum { PAIRS = 100 };
    (void)state;
    int64_t capacity[2 * PAIRS];
    orr_flow_rates rates;
    for (int l = 0; l < 2 * PAIRS; l++)
        capacity[l] = 1000;
    assert_true(orr_flow_rates_init(&rates, capacity, 2 * PAIRS));
    for (uint32_t p = 0; p < PAIRS; p++)
        for (int i = 0; i < 5; i++)
            (void)add(&rates, 2 * p, 2 * p + 1);
    orr_flow_rates_solve(&rates);
    const uint64_t before = rates.n_opened;
    (void)add(&rates, 2 * 7, 2 * 7 + 1);
    orr_flow_rates_solve(&rates);
    assert_int_equal(rates.n_opened - before, 6);
    assert_int_equal(rates.open.n, 6);
    assert_int_equal(rates.touched.n, 2);
    orr_flow_rates_done(&rates);
}

/* A chain of links, each with a flow to the next: connected, but a change that finds its own
 * bottleneck stays where it is. */
static void a_change_goes_no_further_than_its_effect(void **state)
{
    enum { LINKS = 200 };
    (void)state;
    int64_t capacity[LINKS];
    orr_flow_rates rates;
    for (int l = 0; l < LINKS; l++)
        capacity[l] = l % 2 == 0 ? 100 : 100000;
    assert_true(orr_flow_rates_init(&rates, capacity, LINKS));
    for (uint32_t l = 0; l + 1 < LINKS; l++)
        (void)add(&rates, l, l + 1);
    orr_flow_rates_solve(&rates);
    const uint64_t before = rates.n_opened;
    (void)add(&rates, 100, 100);
    orr_flow_rates_solve(&rates);
    assert_int_equal(rates.n_opened - before, 3); /* itself and the two that it meets */
    orr_flow_rates_done(&rates);
}

static void a_flow_may_leave_before_it_was_solved(void **state)
{
    (void)state;
    const int64_t capacity[] = {100};
    orr_flow_rates rates;
    assert_true(orr_flow_rates_init(&rates, capacity, 1));
    const uint32_t a = add(&rates, 0, 0), b = add(&rates, 0, 0);
    orr_flow_rates_remove(&rates, a);
    orr_flow_rates_solve(&rates);
    assert_int_equal(rates.flows.at[b].rate, 100);
    orr_flow_rates_remove(&rates, b);
    orr_flow_rates_solve(&rates);
    assert_int_equal(rates.links[0].load, 0);
    orr_flow_rates_done(&rates);
}

/* Five flows over one link, two of them over another as well, beside three more there: as one flow
 * for each class, with the number of its flows on each link. */
static void a_flow_stands_for_its_class(void **state)
{
    (void)state;
    const int64_t capacity[] = {101, 30};
    const uint32_t first[] = {0}, both[] = {0, 1}, second[] = {1};
    orr_flow_rates each, classes;
    assert_true(orr_flow_rates_init(&each, capacity, 2));
    assert_true(orr_flow_rates_init(&classes, capacity, 2));
    uint32_t f[8];
    for (int i = 0; i < 8; i++)
        f[i] = i < 3 ? add(&each, 0, 0) : i < 5 ? add(&each, 0, 1) : add(&each, 1, 1);
    assert_true(orr_flow_rates_reserve(&classes, 3, 4));
    const uint32_t a = orr_flow_rates_add(&classes, first, (const uint32_t[]){3}, 1);
    const uint32_t b = orr_flow_rates_add(&classes, both, (const uint32_t[]){2, 2}, 2);
    const uint32_t c = orr_flow_rates_add(&classes, second, (const uint32_t[]){3}, 1);
    orr_flow_rates_solve(&each);
    orr_flow_rates_solve(&classes);
    assert_int_equal(classes.flows.at[a].rate, 29); /* (101 - 2 * 6) / 3 */
    assert_int_equal(classes.flows.at[b].rate, 6);
    for (int i = 0; i < 8; i++)
        assert_int_equal(each.flows.at[f[i]].rate, classes.flows.at[i < 3   ? a
                                                                    : i < 5 ? b
                                                                            : c]
                                                       .rate);
    for (int l = 0; l < 2; l++)
        assert_int_equal(each.links[l].load, classes.links[l].load);
    orr_flow_rates_remove(&classes, c);
    for (int i = 5; i < 8; i++)
        orr_flow_rates_remove(&each, f[i]);
    orr_flow_rates_solve(&each);
    orr_flow_rates_solve(&classes);
    assert_int_equal(classes.flows.at[b].rate, 15);
    assert_int_equal(each.flows.at[f[3]].rate, 15);
    assert_int_equal(each.links[1].load, classes.links[1].load);
    orr_flow_rates_done(&each);
    orr_flow_rates_done(&classes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_cannot_use_others_get),
        cmocka_unit_test(whole_units_and_never_none),
        cmocka_unit_test(far_away_nothing_is_computed),
        cmocka_unit_test(a_change_goes_no_further_than_its_effect),
        cmocka_unit_test(a_flow_may_leave_before_it_was_solved),
        cmocka_unit_test(a_flow_stands_for_its_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
