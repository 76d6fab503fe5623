/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <math.h>

#include "report/table/table.h"

static const orr_level levels[] = {{.name = "host", .size = 8, .devices = 8},
                                   {.name = "pod", .size = 4, .devices = 32}};
static const orr_device device = {.name = "gpu"};
static const orr_cluster cluster = {
    .name = "small", .device = &device, .n_levels = 2, .levels = levels};

typedef struct sample {
    orr_stage_memory stages[2];
    orr_axis_use axes[1];
    orr_memory_plan_option options[1];
    orr_outcome outcome;
} sample;

static orr_outcome *make(sample *s, int64_t step_ns, int64_t bubble_ns)
{
    *s = (sample){.stages = {{.peak_bytes = 100}, {.peak_bytes = 300, .in_flight = 2}},
                  .axes = {{.axis = ORR_AXIS_DP, .members = 4, .level = 1, .bytes = 4096}},
                  .options = {{.change = "recompute=full", .freed_bytes = 50, .peak_bytes = 250}}};
    s->stages[1].bytes[ORR_MEMORY_WEIGHTS] = 200;
    s->stages[1].bytes[ORR_MEMORY_ACTIVATIONS] = 100;
    s->outcome = (orr_outcome){
        .cluster = &cluster,
        .n_ranks = 32,
        .step_ns = step_ns,
        .low_ns = -1,
        .high_ns = -1,
        .mfu_frac = 0.5,
        .hfu_frac = NAN,
        .energy_j = NAN,
        .memory = {.n_stages = 2,
                   .worst = 1,
                   .stages = s->stages,
                   .capacity_bytes = 250,
                   .missing_bytes = 50,
                   .options = s->options,
                   .n_options = 1},
        .axes = s->axes,
        .n_axes = 1,
    };
    s->outcome.waterfall_ns[ORR_WATERFALL_IDEAL] = step_ns - bubble_ns;
    s->outcome.waterfall_ns[ORR_WATERFALL_BUBBLE] = bubble_ns;
    s->outcome.basis_ns[ORR_BASIS_FITTED] = 30;
    s->outcome.basis_ns[ORR_BASIS_ASSUMED] = 10;
    return &s->outcome;
}

static const orr_table *find(const orr_named_table *tables, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(tables[i].name, name) == 0)
            return &tables[i].table;
    fail_msg("no table %s", name);
    return NULL;
}

static char *as_csv(const orr_table *table)
{
    const orr_table_style style = {.format = ORR_TABLE_CSV};
    return WRITTEN(out, orr_table_write(table, &style, out));
}

static void an_outcome_is_told_in_tables(void **state)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_named_table tables[ORR_OUTCOME_TABLES];
    sample s;
    (void)state;
    assert_int_equal(orr_outcome_tables(make(&s, 1000, 250), arena, tables, NULL), ORR_OK);
    char *text = as_csv(find(tables, ORR_OUTCOME_TABLES, "waterfall"));
    assert_non_null(strstr(text, "model FLOPs at peak,750,0.75"));
    assert_non_null(strstr(text, "pipeline bubble,250,0.25"));
    assert_null(strstr(text, "optimizer")); /* takes no time: left out */
    free(text);
    text = as_csv(find(tables, ORR_OUTCOME_TABLES, "memory"));
    assert_non_null(strstr(text, "1,2,300,200,0,0,100,"));
    free(text);
    text = as_csv(find(tables, ORR_OUTCOME_TABLES, "axes"));
    assert_non_null(strstr(text, "dp,4,pod,4096,"));
    free(text);
    text = as_csv(find(tables, ORR_OUTCOME_TABLES, "memory_options"));
    assert_non_null(strstr(text, "recompute=full,50,250"));
    free(text);
    text = as_csv(find(tables, ORR_OUTCOME_TABLES, "basis"));
    assert_non_null(strstr(text, "fitted,0.75"));
    free(text);
    orr_arena_free(arena);
}

static void what_is_not_known_is_no_figure(void **state)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_named_table tables[ORR_OUTCOME_TABLES];
    sample s;
    (void)state;
    assert_int_equal(orr_outcome_tables(make(&s, 1000, 0), arena, tables, NULL), ORR_OK);
    char *text = as_csv(find(tables, ORR_OUTCOME_TABLES, "figures"));
    assert_non_null(strstr(text, "step,1000,ns"));
    assert_non_null(strstr(text, "mfu,0.5,"));
    assert_non_null(strstr(text, "memory_missing,50,bytes"));
    assert_null(strstr(text, "hfu"));
    assert_null(strstr(text, "energy"));
    assert_null(strstr(text, "step_low"));
    free(text);
    orr_arena_free(arena);
}

static void two_outcomes_show_what_moved(void **state)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_named_table tables[ORR_COMPARISON_TABLES];
    sample a, b;
    (void)state;
    assert_int_equal(
        orr_comparison_tables(make(&a, 1000, 400), make(&b, 800, 200), arena, tables, NULL),
        ORR_OK);
    char *text = as_csv(find(tables, ORR_COMPARISON_TABLES, "waterfall_change"));
    assert_non_null(strstr(text, "pipeline bubble,400,200,-200,-0.2"));
    assert_non_null(strstr(text, "model FLOPs at peak,600,600,0,0"));
    free(text);
    text = as_csv(find(tables, ORR_COMPARISON_TABLES, "figures"));
    assert_non_null(strstr(text, "step (ns),1000,800,-0.2"));
    free(text);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_outcome_is_told_in_tables),
        cmocka_unit_test(what_is_not_known_is_no_figure),
        cmocka_unit_test(two_outcomes_show_what_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
