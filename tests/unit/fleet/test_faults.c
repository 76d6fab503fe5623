/* SPDX-License-Identifier: Apache-2.0 */
#include "small_fleet.h"

typedef struct seen {
    uint64_t n, lemons, scopes[3], planned, replaced, kinds[4], categories[8];
    uint32_t nodes[64];
    double square; /* of distances, over the square of their mean: 2 of exponential ones */
    uint32_t worst;
} seen;

/* All failures of a life. */
static seen watch(fleet_world *w, uint32_t repetition)
{
    orr_fault_source source;
    seen s = {0};
    int64_t before = 0;
    double sum = 0, squares = 0;
    assert_int_equal(orr_fault_source_init(&source, &w->options, repetition, &w->err), ORR_OK);
    for (; source.next.at_ns < w->options.horizon_ns; orr_fault_source_next(&source)) {
        const orr_node_fault *f = &source.next;
        const double distance = (double)(f->at_ns - before);
        assert_true(f->at_ns >= before && f->first + f->n <= 64 && f->n > 0);
        before = f->at_ns;
        sum += distance;
        squares += distance * distance;
        s.n++;
        s.lemons += f->lemon;
        s.scopes[f->scope]++;
        s.planned += f->kind == ORR_FAILURE_PLANNED;
        s.replaced += f->replace;
        s.kinds[f->kind]++;
        s.categories[f->category]++;
        s.nodes[f->first] += f->scope == ORR_FAULT_NODE;
        if (f->scope == ORR_FAULT_RACK)
            assert_true(f->first % 4 == 0 && f->n == 4);
        if (f->scope == ORR_FAULT_BUILDING)
            assert_true(f->first % 40 == 0 && f->n == (f->first == 0 ? 40 : 24));
    }
    s.worst = source.worst;
    s.square = s.n > 0 ? squares / (double)s.n / (sum / (double)s.n) / (sum / (double)s.n) : 0;
    orr_fault_source_done(&source);
    return s;
}

/* A count of independent events: within five standard deviations. */
#define assert_count(n, expected) assert_near(n, expected, 5 * sqrt(expected))

static void failures_come_at_the_rate_and_at_exponential_distances(void **state)
{
    fleet_world w;
    (void)state;
    world_open(&w);
    world_set(&w, "rate=1000");
    w.options.horizon_ns = 300 * DAY_NS;
    const seen s = watch(&w, 0);
    assert_count((double)s.n, 64.0 * 300);
    assert_near(s.square, 2, 0.15);
    for (int i = 0; i < 64; i++)
        assert_count(s.nodes[i], 300.0);
    world_close(&w);
}

static void categories_come_by_their_shares(void **state)
{
    fleet_world w;
    (void)state;
    world_open(&w);
    w.failures.n_categories = 3;
    w.categories[0].count.value = 5;
    w.categories[1].count.value = 0;
    w.categories[2].count.value = 15;
    w.categories[2].kind = ORR_FAILURE_HANG;
    w.categories[2].replace = false;
    world_set(&w, "rate=1000");
    w.options.horizon_ns = 100 * DAY_NS;
    const seen s = watch(&w, 0);
    assert_count((double)s.categories[0], 1600.0);
    assert_int_equal(s.categories[1], 0);
    assert_count((double)s.categories[2], 4800.0);
    assert_int_equal(s.kinds[ORR_FAILURE_HANG], s.categories[2]);
    assert_int_equal(s.replaced, s.categories[0]);
    world_close(&w);
}

static void lemons_fail_as_often_as_said_and_the_mean_stays(void **state)
{
    fleet_world w;
    (void)state;
    world_open(&w);
    world_set(&w, "rate=1000,lemons=0.125,lemon_factor=10");
    w.options.horizon_ns = 300 * DAY_NS;
    const seen s = watch(&w, 0);
    const double plain = 300 / (1 - 0.125 + 1.25); /* of a node that is none */
    int lemons = 0;
    assert_count((double)s.n, 64.0 * 300);
    assert_count((double)s.lemons, 8 * 10 * plain);
    for (int i = 0; i < 64; i++)
        lemons += s.nodes[i] > 5 * plain;
    assert_int_equal(lemons, 8);
    world_close(&w);
}

static void lemons_that_are_let_go_fail_no_more(void **state)
{
    fleet_world w;
    (void)state;
    world_open(&w);
    world_set(&w, "rate=100,lemons=0.125,lemon_factor=40");
    w.options.horizon_ns = 300 * DAY_NS;
    const seen kept = watch(&w, 0);
    world_set(&w, "evict_after=3");
    const seen let_go = watch(&w, 0);
    assert_true(kept.worst > 20);
    assert_int_equal(let_go.worst, 3);
    /* Three failures of each of the eight, then none; others fail as before. */
    assert_int_equal(let_go.lemons, 24);
    assert_true(let_go.n < kept.n / 2);
    world_close(&w);
}

static void racks_buildings_and_plans_have_rates_of_their_own(void **state)
{
    fleet_world w;
    (void)state;
    world_open(&w);
    world_set(
        &w, "rate=0,racks=1000,buildings=1000,planned=1000,nodes_per_rack=4,racks_per_building=10");
    w.options.horizon_ns = 100 * DAY_NS;
    const seen s = watch(&w, 0);
    assert_count((double)s.scopes[ORR_FAULT_RACK], 16 * 100.0);
    assert_count((double)s.scopes[ORR_FAULT_BUILDING], 2 * 100.0);
    assert_count((double)s.planned, 64 * 100.0);
    assert_int_equal(s.categories[1], s.scopes[ORR_FAULT_RACK]);
    assert_int_equal(s.categories[2], s.scopes[ORR_FAULT_BUILDING]);
    assert_int_equal(s.categories[3], s.planned);
    world_close(&w);
}

static void equal_distances_are_equal(void **state)
{
    fleet_world w;
    orr_fault_source source;
    (void)state;
    world_open(&w);
    world_set(&w, "interval=18min,racks=1000,planned=1000");
    assert_int_equal(orr_fault_source_init(&source, &w.options, 0, &w.err), ORR_OK);
    for (int64_t i = 1; i <= 100; i++) {
        assert_int_equal(source.next.at_ns, i * 18 * MINUTE_NS);
        assert_int_equal(source.next.scope, ORR_FAULT_NODE);
        orr_fault_source_next(&source);
    }
    orr_fault_source_done(&source);
    world_close(&w);
}

static void lives_differ_and_repeat(void **state)
{
    fleet_world w;
    (void)state;
    world_open(&w);
    world_set(&w, "rate=1000");
    const seen a = watch(&w, 0), again = watch(&w, 0), b = watch(&w, 1);
    assert_memory_equal(&a, &again, sizeof a);
    assert_memory_not_equal(&a, &b, sizeof a);
    w.options.seed = 2;
    const seen other = watch(&w, 0);
    assert_memory_not_equal(&a, &other, sizeof a);
    world_close(&w);
}

static void nothing_fails_at_a_rate_of_nothing(void **state)
{
    fleet_world w;
    (void)state;
    world_open(&w);
    assert_int_equal(watch(&w, 0).n, 0);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_come_at_the_rate_and_at_exponential_distances),
        cmocka_unit_test(categories_come_by_their_shares),
        cmocka_unit_test(lemons_fail_as_often_as_said_and_the_mean_stays),
        cmocka_unit_test(lemons_that_are_let_go_fail_no_more),
        cmocka_unit_test(racks_buildings_and_plans_have_rates_of_their_own),
        cmocka_unit_test(equal_distances_are_equal),
        cmocka_unit_test(lives_differ_and_repeat),
        cmocka_unit_test(nothing_fails_at_a_rate_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
