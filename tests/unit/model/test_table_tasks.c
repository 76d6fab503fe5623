/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "model/step/module_cost.h"
#include "model/tables/load.h"

/* Tasks of embedding tables between those of the dense layers of DLRM, on two hosts of eight. */
enum { RANKS = 16, HOST = 8, TABLES = 26 };

typedef struct scene {
    orr_arena *arena;
    const orr_model *model;
    orr_plan plan;
    orr_calibration calibration;
    orr_job_rates rates;
    orr_embedding_placement placements[TABLES];
    orr_embedding_plan tables;
    orr_workload workload;
    orr_module_cost cost;
} scene;

static const uint32_t IN_ORDER[RANKS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static void open_scene(scene *s)
{
    const orr_catalog *catalog;
    const orr_cluster *cluster;
    const orr_calibration *usual;
    orr_error err;
    *s = (scene){.arena = orr_arena_new(0, 0)};
    assert_int_equal(orr_catalog_open(s->arena, &catalog, &err), ORR_OK);
    assert_int_equal(orr_cluster_load(catalog, "h100_superpod", s->arena, &cluster, &err), ORR_OK);
    assert_int_equal(orr_calibration_of(cluster->device, 0, s->arena, &usual, &err), ORR_OK);
    assert_int_equal(orr_model_load("dlrm-dcnv2", s->arena, &s->model, &err), ORR_OK);
    s->calibration = *usual;
    orr_job_rates_init(cluster, &s->calibration, ORR_ALGORITHM_AUTO, &s->rates);
    assert_int_equal(
        orr_plan_parse("dp=16,micro_batch=1024,precision=fp32,graphs=on", &s->plan, &err), ORR_OK);
    s->plan = orr_plan_with_defaults(&s->plan);
    s->tables = (orr_embedding_plan){.ranks = RANKS,
                                     .groups = 1,
                                     .synchronize = 1,
                                     .n_tables = s->model->dlrm.n_tables,
                                     .tables = s->model->dlrm.tables,
                                     .placements = s->placements};
    assert_int_equal(s->tables.n_tables, TABLES);
}

/* Every table in the same way, from rank t on where it is on one. */
static void shard(scene *s, orr_embedding_sharding kind, uint32_t columns, uint32_t n_ranks)
{
    for (uint32_t t = 0; t < TABLES; t++)
        s->placements[t] =
            (orr_embedding_placement){.sharding = (uint8_t)kind,
                                      .columns = columns,
                                      .ranks = IN_ORDER + (n_ranks == 1 ? t % s->tables.ranks : 0),
                                      .n_ranks = n_ranks};
}

static void price(scene *s)
{
    orr_error err;
    orr_module_sequence row;
    orr_embedding_plan plan = s->tables;
    if (orr_embedding_plan_shard(&plan, s->arena, &err) != ORR_OK)
        fail_msg("%s", err.text);
    s->workload.tables = &plan;
    if (orr_modules_build(s->model, &s->plan, &s->workload, s->arena, &row, &err) != ORR_OK ||
        orr_module_cost_of(&row.modules[0], &s->plan, &s->rates, s->arena, &s->cost, &err) !=
            ORR_OK)
        fail_msg("%s", err.text);
}

static void close_scene(scene *s)
{
    orr_arena_free(s->arena);
}

static const orr_call_cost *task(const scene *s, orr_slot_phase phase, const char *name)
{
    const orr_phase_cost *p = &s->cost.phase[phase];
    for (uint32_t i = 0; i < p->n; i++)
        if (p->tasks[i].name != NULL && strcmp(p->tasks[i].name, name) == 0)
            return &p->tasks[i];
    return NULL;
}

static uint32_t place(const scene *s, orr_slot_phase phase, const char *name)
{
    const orr_call_cost *t = task(s, phase, name);
    if (t == NULL)
        fail_msg("no task %s", name);
    return (uint32_t)(t - s->cost.phase[phase].tasks);
}

#define FORWARD  ORR_SLOT_FORWARD
#define BACKWARD ORR_SLOT_BACKWARD

/* Bags are waited for after the bottom layers; gradients leave before these are differentiated, and
 * the update is last. */
static void stand_where_data_are(void **state)
{
    (void)state;
    scene s;
    open_scene(&s);
    shard(&s, ORR_SHARDING_TABLE, 1, 1);
    price(&s);
    assert_int_equal(place(&s, FORWARD, "exchange_ids"), 0);
    assert_int_equal(place(&s, FORWARD, "look_up"), 1);
    assert_int_equal(place(&s, FORWARD, "exchange_bags"), 2);
    const orr_call_cost *bags = task(&s, FORWARD, "exchange_bags"),
                        *gradients = task(&s, BACKWARD, "exchange_gradients");
    assert_true(bags->beside && bags->joins > 4 && bags->joins < s.cost.phase[FORWARD].n);
    assert_true(gradients->beside);
    assert_int_equal(gradients->joins, place(&s, BACKWARD, "sort_lookups"));
    assert_int_equal(place(&s, BACKWARD, "update_rows"), s.cost.phase[BACKWARD].n - 1);
    assert_true(place(&s, BACKWARD, "exchange_gradients") + 4 < gradients->joins);
    assert_null(task(&s, ORR_SLOT_WEIGHT, "update_rows"));
    /* Tables 0 and 16, of 128 columns, are on the fullest ranks. */
    assert_int_equal(bags->bytes, 2 * 128 * 4 * 1024 * RANKS);
    close_scene(&s);
}

static void each_kind_has_its_transfers(void **state)
{
    (void)state;
    scene s;
    open_scene(&s);
    shard(&s, ORR_SHARDING_DATA, 1, 0);
    price(&s);
    assert_null(task(&s, FORWARD, "exchange_bags"));
    assert_null(task(&s, BACKWARD, "exchange_gradients"));
    assert_non_null(task(&s, BACKWARD, "gather_gradients"));
    s.tables.host_ranks = HOST;
    shard(&s, ORR_SHARDING_TABLE_ROW, 1, HOST);
    price(&s);
    const orr_call_cost *host = task(&s, FORWARD, "sum_in_host");
    assert_int_equal(host->collective, ORR_COLL_REDUCE_SCATTER);
    assert_int_equal(host->bytes, HOST * task(&s, FORWARD, "exchange_bags")->bytes);
    assert_int_equal(task(&s, BACKWARD, "gather_in_host")->collective, ORR_COLL_ALL_GATHER);
    shard(&s, ORR_SHARDING_COLUMN, 4, 4);
    price(&s);
    assert_non_null(task(&s, BACKWARD, "exchange_squares"));
    assert_null(task(&s, FORWARD, "sum_in_host"));
    close_scene(&s);
}

/* Ids that are exchanged ahead are hidden by the dense layers; bags in 16 bits take half as long,
 * beyond latency, and are written again in fp32. */
static void pipeline_and_codecs(void **state)
{
    (void)state;
    scene s;
    open_scene(&s);
    shard(&s, ORR_SHARDING_TABLE, 1, 1);
    price(&s);
    const int64_t span_ns = s.cost.phase[FORWARD].span_ns,
                  ids_ns = task(&s, FORWARD, "exchange_ids")->ns,
                  bytes = task(&s, FORWARD, "exchange_bags")->bytes;
    assert_null(task(&s, FORWARD, "decode_bags"));
    s.tables.pipeline = 2;
    price(&s);
    assert_true(task(&s, FORWARD, "exchange_ids")->beside);
    assert_true(s.cost.phase[FORWARD].span_ns < span_ns - ids_ns / 2);
    s.tables.forward = ORR_EMBEDDING_CODEC_BF16;
    price(&s);
    assert_int_equal(task(&s, FORWARD, "exchange_bags")->bytes, bytes / 2);
    assert_int_equal(task(&s, FORWARD, "exchange_bags")->joins, place(&s, FORWARD, "decode_bags"));
    close_scene(&s);
}

/* Two groups of a host each: their all-to-all does not cross the network, and copies are averaged;
 * every tenth step costs a tenth. */
static void groups_stay_within_hosts(void **state)
{
    (void)state;
    scene s;
    open_scene(&s);
    shard(&s, ORR_SHARDING_TABLE, 1, 1);
    price(&s);
    const int64_t wide_ns = task(&s, FORWARD, "exchange_bags")->ns;
    assert_null(task(&s, BACKWARD, "average_tables"));
    s.tables.ranks = HOST;
    s.tables.groups = 2;
    shard(&s, ORR_SHARDING_TABLE, 1, 1);
    price(&s);
    assert_true(task(&s, FORWARD, "exchange_bags")->ns < wide_ns);
    const int64_t every_ns = task(&s, BACKWARD, "average_tables")->ns;
    s.tables.synchronize = 10;
    price(&s);
    assert_int_equal(task(&s, BACKWARD, "average_tables")->ns, every_ns / 10);
    close_scene(&s);
}

static void other_plans_are_refused(void **state)
{
    (void)state;
    scene s;
    orr_error err;
    orr_module_sequence row;
    open_scene(&s);
    shard(&s, ORR_SHARDING_TABLE, 1, 1);
    assert_int_equal(orr_embedding_plan_shard(&s.tables, s.arena, &err), ORR_OK);
    s.workload.tables = &s.tables;
    s.plan.dp = 8;
    assert_int_equal(orr_modules_build(s.model, &s.plan, &s.workload, s.arena, &row, &err),
                     ORR_INVALID);
    assert_string_equal(err.text,
                        "the plan of tables is for 1 groups of 16 ranks, the job has 8 replicas");
    s.plan.dp = 16;
    s.tables.n_tables--;
    assert_int_equal(orr_modules_build(s.model, &s.plan, &s.workload, s.arena, &row, &err),
                     ORR_INVALID);
    assert_string_equal(err.text, "the plan is of 25 tables, dlrm-dcnv2 has 26");
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stand_where_data_are),    cmocka_unit_test(each_kind_has_its_transfers),
        cmocka_unit_test(pipeline_and_codecs),     cmocka_unit_test(groups_stay_within_hosts),
        cmocka_unit_test(other_plans_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
