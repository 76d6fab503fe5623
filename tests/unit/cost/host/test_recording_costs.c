/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

#include <stdio.h>
#include <stdlib.h>

#include <orrery/trace.h>

/* What a step of a made-up pair holds. */
typedef struct made_pair {
    int operators, python, memory;
    bool shapes, trace;
    int64_t bare_ns, recorded_ns;
} made_pair;

static void add_fact(small *s, const char *name, int64_t value, orr_attr *attrs, int64_t *values,
                     uint32_t *n)
{
    values[*n] = value;
    attrs[*n] = (orr_attr){
        .name = small_str(s, name), .kind = ORR_ATTR_INT64, .count = 1, .values = &values[*n]};
    (*n)++;
}

/* Two steps, one after the other, and an operator before them, which belongs to none. */
static void add_pair(small *s, const made_pair *p)
{
    const uint32_t cpu = small_thread(s, 1);
    orr_attr attrs[3];
    int64_t values[3];
    uint32_t n = 0;
    small_node(s, ORR_NODE_HOST_OP, "before", cpu, 0, 10, ORR_NONE);
    for (int step = 0; step < 2; step++) {
        const int64_t begin = 1000 + step * p->recorded_ns;
        const uint32_t up = small_node(s, ORR_NODE_ANNOTATION, "ProfilerStep#1", cpu, begin,
                                       p->recorded_ns, ORR_NONE);
        int64_t at = begin;
        for (int i = 0; i < p->operators; i++)
            small_node(s, ORR_NODE_HOST_OP, "aten::add", cpu, ++at, 1, up);
        for (int i = 0; i < p->python; i++)
            small_node(s, ORR_NODE_PYTHON, "f", cpu, ++at, 1, up);
        for (int i = 0; i < p->memory; i++)
            small_node(s, ORR_NODE_MEMORY, "[memory]", cpu, ++at, 0, up);
    }
    if (p->bare_ns > 0)
        add_fact(s, "bare_step_ns", p->bare_ns, attrs, values, &n);
    add_fact(s, "record_shapes", p->shapes, attrs, values, &n);
    add_fact(s, "execution_trace", p->trace, attrs, values, &n);
    assert_int_equal(orr_builder_attrs(s->builder, ORR_NONE, attrs, n, &s->err), ORR_OK);
    small_rank(s);
}

static orr_status fit(const made_pair *pairs, int n, orr_recording_costs *ret, orr_error *err)
{
    small s = small_begin();
    for (int i = 0; i < n; i++)
        add_pair(&s, &pairs[i]);
    const orr_status status = orr_recording_costs_fit(s.graphs, (uint32_t)n, ret, &s.err);
    *err = s.err;
    for (int i = 0; i < n; i++)
        orr_graph_free(s.graphs[i]);
    small_end(&s);
    return status;
}

static void near(double found, double meant)
{
    if (fabs(found - meant) > 1e-6 * (1 + fabs(meant)))
        fail_msg("%g instead of %g", found, meant);
}

/* 300 an operator or step, 200 its shapes, 5000 its execution trace, 100 a function. */
static void test_known_costs(void **state)
{
    (void)state;
    const made_pair pairs[] = {
        {99, 0, 0, false, false, 70000, 70000 + 100 * 300},
        {199, 40, 0, false, false, 50000, 50000 + 200 * 300 + 40 * 100},
        {49, 0, 0, true, false, 90000, 90000 + 50 * 300 + 49 * 200},
        {149, 10, 0, true, true, 80000, 80000 + 150 * 5300 + 149 * 200 + 10 * 100},
        {9, 0, 0, false, true, 60000, 60000 + 10 * 5300},
    };
    orr_recording_costs costs;
    orr_error err;
    assert_int_equal(fit(pairs, 5, &costs, &err), ORR_OK);
    near(costs.ns[ORR_RECORDING_COST_EVENT], 300);
    near(costs.ns[ORR_RECORDING_COST_SHAPES], 200);
    near(costs.ns[ORR_RECORDING_COST_TRACE], 5000);
    near(costs.ns[ORR_RECORDING_COST_PYTHON], 100);
    near(costs.covariance[ORR_RECORDING_COST_EVENT][ORR_RECORDING_COST_EVENT], 0);
    near(costs.noise_frac, 0);
    assert_int_equal(costs.n_pairs, 5);
    assert_false(costs.seen[ORR_RECORDING_COST_CALL]);
}

/* Each recording has an execution trace: what the event itself costs is not told apart from it. */
static void test_not_told_apart(void **state)
{
    (void)state;
    const made_pair pairs[] = {{99, 0, 0, false, true, 1000, 1000 + 100 * 700},
                               {199, 0, 0, false, true, 3000, 3000 + 200 * 700},
                               {299, 0, 0, false, true, 2000, 2000 + 300 * 700}};
    orr_recording_costs costs;
    orr_error err;
    assert_int_equal(fit(pairs, 3, &costs, &err), ORR_OK);
    near(costs.ns[ORR_RECORDING_COST_EVENT], 700);
    near(costs.ns[ORR_RECORDING_COST_TRACE], 0);
    assert_true(costs.seen[ORR_RECORDING_COST_TRACE]);
}

/* The excess goes up and down with noise, not with memory events; operators cost 300. */
static void test_not_told_from_none(void **state)
{
    (void)state;
    made_pair pairs[8];
    orr_recording_costs costs;
    orr_error err;
    for (int i = 0; i < 8; i++) {
        const int noise = i % 2 ? 400 : -400;
        pairs[i] = (made_pair){.operators = 99 + 20 * i,
                               .memory = i / 2 % 2 ? 30 : 0,
                               .bare_ns = 50000,
                               .recorded_ns = 50000 + 300 * (100 + 20 * i) + noise};
    }
    assert_int_equal(fit(pairs, 8, &costs, &err), ORR_OK);
    near(costs.ns[ORR_RECORDING_COST_MEMORY], 0);
    const double error = sqrt(costs.covariance[ORR_RECORDING_COST_EVENT][ORR_RECORDING_COST_EVENT]);
    assert_true(error > 0.1 && error < 5);
    assert_true(fabs(costs.ns[ORR_RECORDING_COST_EVENT] - 300) < 3 * error);
}

static void test_refused(void **state)
{
    (void)state;
    made_pair pairs[3] = {{9, 0, 0, false, false, 1000, 2000},
                          {19, 0, 0, false, false, 1000, 3000},
                          {29, 0, 0, false, false, 0, 3000}};
    orr_recording_costs costs;
    orr_error err;
    assert_int_equal(fit(pairs, 3, &costs, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "bare_step_ns"));
    assert_int_equal(fit(pairs, 2, &costs, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "too few"));
}

/* The default is the fit of the pairs that are in the repository. */
static void test_default(void **state)
{
    (void)state;
    const orr_recording_costs *known = orr_recording_costs_default();
    const orr_graph *graphs[32];
    const char *const *files;
    orr_recording_costs costs;
    char path[512], *text = path;
    size_t n;
    orr_error err;
    orr_arena *arena = orr_arena_new(0, 0);
    (void)snprintf(path, sizeof path, "%s/examples/pairs", getenv("ORRERY_SOURCE"));
    assert_int_equal(orr_trace_find((const char *const *)&text, 1, arena, &files, &n, &err),
                     ORR_OK);
    assert_true(n >= 3 && n <= 32);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(orr_trace_read(files[i], NULL, &graphs[i], NULL, &err), ORR_OK);
    assert_int_equal(orr_recording_costs_fit(graphs, (uint32_t)n, &costs, &err), ORR_OK);
    for (int k = 0; k < ORR_RECORDING_COSTS; k++) {
        assert_true(fabs(known->ns[k] - costs.ns[k]) < 0.06);
        assert_int_equal(known->seen[k], costs.seen[k]);
        for (int j = 0; j < ORR_RECORDING_COSTS; j++)
            assert_true(fabs(known->covariance[k][j] - costs.covariance[k][j]) < 0.6);
    }
    assert_int_equal(known->n_pairs, costs.n_pairs);
    if (fabs(known->noise_frac - costs.noise_frac) > 1e-4)
        fail_msg("noise %g instead of %g", known->noise_frac, costs.noise_frac);
    for (size_t i = 0; i < n; i++)
        orr_graph_free(graphs[i]);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_costs),
        cmocka_unit_test(test_not_told_apart),
        cmocka_unit_test(test_not_told_from_none),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
