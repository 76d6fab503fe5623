/* SPDX-License-Identifier: Apache-2.0 */
#include "small_training.h"

#include <math.h>

#include <orrery/engine.h>

#include "base/alloc.h"

/* Recommendation models trained on synthetic clicks, saved, resumed and exported. */

typedef struct run {
    orr_arena *arena;
    orr_model model;
    orr_plan plan;
    orr_workload workload;
    orr_train_options options;
    orr_train_result result;
    orr_error err;
} run;

static void open_run(run *r, const char *plan, int64_t steps)
{
    static const orr_embedding tables[] = {{.name = "t0", .rows = 40, .columns = 8, .pooling = 1},
                                           {.name = "t1", .rows = 300, .columns = 8, .pooling = 3},
                                           {.name = "t2", .rows = 7, .columns = 8, .pooling = 1},
                                           {.name = "t3",
                                            .rows = 90,
                                            .columns = 8,
                                            .pooling = 1,
                                            .optimizer = ORR_ROW_OPTIMIZER_ROWWISE_ADAM},
                                           {.name = "t4",
                                            .rows = 20,
                                            .columns = 8,
                                            .pooling = 2,
                                            .optimizer = ORR_ROW_OPTIMIZER_ADAGRAD}};
    *r = (run){.arena = orr_arena_new(0, 0)};
    r->model = (orr_model){.name = "small", .title = "Small", .kind = ORR_MODEL_DLRM};
    r->model.dlrm = (orr_dlrm){.dense_features = 4,
                               .dim = 8,
                               .n_tables = 5,
                               .tables = tables,
                               .n_bottom = 2,
                               .bottom = {16, 8},
                               .n_top = 2,
                               .top = {16, 1}};
    if (orr_plan_parse(plan, &r->plan, &r->err) != ORR_OK)
        fail_msg("%s", r->err.text);
    r->options = (orr_train_options){.model = &r->model,
                                     .plan = &r->plan,
                                     .workload = &r->workload,
                                     .steps = steps,
                                     .rate = 2e-2,
                                     .seed = 3,
                                     .threads = 1,
                                     .rate_schedule = ORR_LEARNING_RATE_CONSTANT};
}

static void make_run(run *r)
{
    if (orr_train(&r->options, r->arena, &r->result, &r->err) != ORR_OK)
        fail_msg("%s", r->err.text);
}

static double mean_auc(const run *r, int64_t from)
{
    double sum = 0;
    for (int64_t i = from; i < r->result.steps; i++)
        sum += r->result.history[i].auc;
    return sum / (double)(r->result.steps - from);
}

static void clicks_are_learned(void **state)
{
    (void)state;
    run r;
    open_run(&r, "micro_batch=128", 200);
    make_run(&r);
    if (!(mean_auc(&r, 160) > 0.75))
        fail_msg("AUC %.3f", mean_auc(&r, 160));
    assert_int_equal(r.result.history[0].tokens, 128);
    orr_arena_free(r.arena);
}

/* Ranks up to 10 that divide the batch have the same blocks of samples. */
static void blocks_of_samples_do_not_depend_on_ranks(void **state)
{
    (void)state;
    static const uint32_t batches[][2] = {{7, 1},    {96, 2},      {1000, 25},    {2048, 128},
                                          {5040, 1}, {65536, 128}, {1 << 20, 128}};
    const orr_model model = {.kind = ORR_MODEL_DLRM}, text = {.kind = ORR_MODEL_TRANSFORMER};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        for (uint32_t dp = 1; dp <= 10; dp++) {
            const orr_plan asked = {.dp = dp, .batch = batches[i][0]};
            if (asked.batch % dp != 0)
                continue;
            const orr_plan plan = orr_train_plan(&model, &asked);
            assert_int_equal(plan.micro_batch, batches[i][1]);
            assert_int_equal(plan.micro_batch * plan.micro_batches * dp, asked.batch);
            assert_int_equal(plan.precision, ORR_PRECISION_FP32);
            assert_int_equal(orr_train_plan(&text, &asked).micro_batch, 1);
        }
    const orr_plan many = {.dp = 25, .batch = 1000}, own = {.dp = 2, .batch = 96, .micro_batch = 3};
    assert_int_equal(orr_train_plan(&model, &many).micro_batch, 5);
    assert_int_equal(orr_train_plan(&model, &own).micro_batch, 3);
}

/* With sums in another order, and tables somewhere else. */
static void tables_on_other_ranks_learn_the_same(void **state)
{
    (void)state;
    run one, two;
    open_run(&one, "micro_batch=32,batch=64", 6);
    open_run(&two, "micro_batch=16,batch=64,dp=2", 6);
    make_run(&one);
    make_run(&two);
    for (int i = 0; i < 6; i++) {
        const orr_train_step *a = &one.result.history[i], *b = &two.result.history[i];
        if (fabs(a->loss - b->loss) > 1e-4 || fabs(a->auc - b->auc) > 0.01)
            fail_msg("step %d: loss %g and %g, AUC %g and %g", i + 1, a->loss, b->loss, a->auc,
                     b->auc);
    }
    orr_arena_free(one.arena);
    orr_arena_free(two.arena);
}

/* Of three runs the last goes on where the second ended, to the bits of the first. */
static void go_on(run *whole, run *first, run *rest, const char *folder)
{
    make_run(whole);
    first->options.save = rest->options.save = folder;
    make_run(first);
    rest->options.resume = true;
    make_run(rest);
    assert_int_equal(rest->result.steps, 3);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(&whole->result.history[3 + i].loss, &rest->result.history[i].loss,
                            sizeof(double));
    assert_true(whole->result.state_digest == rest->result.state_digest);
    orr_arena_free(whole->arena);
    orr_arena_free(first->arena);
    orr_arena_free(rest->arena);
}

static void tables_go_on_to_the_same_bits(void **state)
{
    run whole, first, rest;
    open_run(&whole, "micro_batch=16,dp=2", 6);
    open_run(&first, "micro_batch=16,dp=2", 3);
    open_run(&rest, "micro_batch=16,dp=2", 6);
    go_on(&whole, &first, &rest, *state);
}

/* Two groups with all tables each: the first loss has the bits of one group, the next ones are
 * alike; the same again the second time. */
static void groups_learn_alike(void **state)
{
    (void)state;
    run one, groups[2];
    open_run(&one, "batch=256", 20);
    make_run(&one);
    for (int i = 0; i < 2; i++) {
        run *r = &groups[i];
        orr_embedding_plan tables;
        open_run(r, "batch=256,dp=2", 20);
        const orr_dlrm *d = &r->model.dlrm;
        assert_int_equal(
            orr_embedding_plan_default(d->tables, d->n_tables, 1, r->arena, &tables, NULL), ORR_OK);
        tables.groups = 2;
        tables.synchronize = 2;
        r->options.tables = &tables;
        make_run(r);
    }
    const orr_train_step *a = one.result.history, *b = groups[0].result.history;
    assert_true(a[0].loss == b[0].loss && a[19].loss != b[19].loss);
    for (int i = 0; i < 20; i++)
        if (fabs(a[i].loss - b[i].loss) > 0.02)
            fail_msg("step %d: loss %g and %g", i + 1, a[i].loss, b[i].loss);
    assert_true(groups[0].result.state_digest == groups[1].result.state_digest);
    assert_true(groups[0].result.state_digest != one.result.state_digest);
    orr_arena_free(one.arena);
    orr_arena_free(groups[0].arena);
    orr_arena_free(groups[1].arena);
}

static double calls_of(const run *r, orr_op op)
{
    double calls = 0;
    for (uint32_t i = 0; i < r->result.n_ops; i++)
        calls += r->result.ops[i].op == op ? r->result.ops[i].calls : 0;
    return calls;
}

/* What is done with tables is recorded like all other calls: here three all-to-alls a step, of ids,
 * bags and gradients, as communication. */
static void tables_are_recorded(void **state)
{
    (void)state;
    run r;
    orr_embedding_plan tables;
    uint32_t collectives = 0;
    open_run(&r, "batch=16,dp=2", 3);
    const orr_dlrm *d = &r.model.dlrm;
    assert_int_equal(orr_embedding_plan_default(d->tables, d->n_tables, 2, r.arena, &tables, NULL),
                     ORR_OK);
    tables.pipeline = 3;
    r.options.tables = &tables;
    r.options.record_steps = 2;
    make_run(&r);
    assert_true(calls_of(&r, ORR_OP_FILL) == 1 && calls_of(&r, ORR_OP_EMBEDDING_BAG) == 1 &&
                calls_of(&r, ORR_OP_ROWWISE_ADAGRAD) == 1 && calls_of(&r, ORR_OP_ALL_TO_ALL) == 3);
    for (orr_node_id n = 0; n < r.result.graph->n_nodes; n++)
        collectives += r.result.graph->kind[n] == ORR_NODE_COLLECTIVE;
    assert_int_equal(collectives, 2 * (3 + 1)); /* and gradients of the dense part */
    orr_graph_free((orr_graph *)r.result.graph);
    orr_arena_free(r.arena);
}

static bool after_three_steps(void *ctx)
{
    int *asked = ctx;
    return ++*asked > 3;
}

/* A run that is stopped has prepared batches that it does not compute. */
static void stopped_runs_lose_no_batch(void **state)
{
    run whole, first, rest;
    orr_embedding_plan tables;
    int asked = 0;
    open_run(&whole, "batch=48", 6);
    open_run(&first, "batch=48,dp=2", 6);
    open_run(&rest, "batch=48,dp=2", 6);
    const orr_dlrm *d = &first.model.dlrm;
    assert_int_equal(
        orr_embedding_plan_default(d->tables, d->n_tables, 2, first.arena, &tables, NULL), ORR_OK);
    tables.pipeline = 3;
    first.options.tables = &tables;
    first.options.stopped = after_three_steps;
    first.options.ctx = &asked;
    go_on(&whole, &first, &rest, *state);
}

/* Five tables over three ranks: by rows, whole, on all ranks, by rows in another order. */
static const orr_embedding_plan *other_shards(const run *r)
{
    static const uint32_t ranks[] = {2, 0, 1};
    static const orr_embedding_placement placements[] = {
        {.sharding = ORR_SHARDING_TABLE, .columns = 1, .ranks = ranks, .n_ranks = 1},
        {.sharding = ORR_SHARDING_ROW, .columns = 1, .ranks = ranks, .n_ranks = 3},
        {.sharding = ORR_SHARDING_DATA, .columns = 1},
        {.sharding = ORR_SHARDING_ROW, .columns = 1, .ranks = ranks + 1, .n_ranks = 2},
        {.sharding = ORR_SHARDING_TABLE, .columns = 1, .ranks = ranks + 2, .n_ranks = 1}};
    orr_embedding_plan *plan = orr_arena_one(r->arena, orr_embedding_plan);
    assert_non_null(plan);
    *plan = (orr_embedding_plan){.ranks = 3,
                                 .groups = 1,
                                 .synchronize = 1,
                                 .pipeline = 3,
                                 .tables = r->model.dlrm.tables,
                                 .n_tables = r->model.dlrm.n_tables,
                                 .placements = placements};
    assert_int_equal(orr_embedding_plan_shard(plan, r->arena, NULL), ORR_OK);
    return plan;
}

/* Three ranks go on with what one rank has saved, then two with what three have. */
static void other_ranks_go_on_to_the_same_bits(void **state)
{
    static const char *const plans[] = {"batch=24", "dp=3,batch=24", "dp=2,batch=24"};
    run whole;
    open_run(&whole, plans[0], 9);
    make_run(&whole);
    for (int i = 0; i < 3; i++) {
        run part;
        open_run(&part, plans[i], 3 * (i + 1));
        part.options.save = *state;
        part.options.resume = i > 0;
        part.options.tables = i == 1 ? other_shards(&part) : NULL;
        make_run(&part);
        assert_int_equal(part.result.steps, 3);
        for (int k = 0; k < 3; k++)
            assert_memory_equal(&whole.result.history[3 * i + k].loss, &part.result.history[k].loss,
                                sizeof(double));
        if (i == 2)
            assert_int_equal(part.result.state_digest, whole.result.state_digest);
        orr_arena_free(part.arena);
    }
    orr_arena_free(whole.arena);
}

/* Groups of ranks, whose copies differ between averages, go on with their own. */
static void groups_go_on_to_the_same_bits(void **state)
{
    run whole;
    orr_embedding_plan plan;
    open_run(&whole, "dp=4,batch=24", 7);
    assert_int_equal(
        orr_embedding_plan_default(whole.model.dlrm.tables, 5, 2, whole.arena, &plan, &whole.err),
        ORR_OK);
    plan.groups = 2;
    plan.synchronize = 3;
    whole.options.tables = &plan;
    make_run(&whole);
    for (int i = 0; i < 2; i++) {
        run part;
        open_run(&part, "dp=4,batch=24", i == 0 ? 4 : 7);
        part.options.save = *state;
        part.options.resume = i > 0;
        part.options.tables = &plan;
        make_run(&part);
        if (i == 1)
            assert_int_equal(part.result.state_digest, whole.result.state_digest);
        orr_arena_free(part.arena);
    }
    orr_arena_free(whole.arena);
}

/* From `skip` on. */
static void assert_same_file(const char *folders[2], const char *name, long skip)
{
    char bytes[2][65536];
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        char path[256];
        (void)snprintf(path, sizeof path, "%s/%s", folders[i], name);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        assert_int_equal(fseek(file, skip, SEEK_SET), 0);
        n[i] = fread(bytes[i], 1, sizeof bytes[i], file);
        assert_int_equal(fclose(file), 0);
    }
    assert_true(n[0] == n[1] && n[0] > 100 && n[0] < sizeof bytes[0]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
}

/* Weights that other ranks begin from, and whose one step changes nothing, are exported
 * to the same files but for the number of steps in headers of tables. */
static void exported_models_are_begun_from(void **state)
{
    enum { HEADER = 4096 };
    char first[128], again[128];
    const char *folders[] = {first, again};
    run r;
    (void)snprintf(first, sizeof first, "%s/first", (const char *)*state);
    (void)snprintf(again, sizeof again, "%s/again", (const char *)*state);
    open_run(&r, "dp=2,batch=24", 4);
    r.options.export_to = first;
    make_run(&r);
    orr_arena_free(r.arena);
    open_run(&r, "dp=3,batch=24", 1);
    r.options.init = first;
    r.options.export_to = again;
    r.options.rate = 1e-60; /* 0 in fp32 */
    r.options.tables = other_shards(&r);
    make_run(&r);
    assert_same_file(folders, "dense.safetensors", 0);
    assert_same_file(folders, "t1.table", HEADER);
    assert_same_file(folders, "t4.table", HEADER);
    static const orr_embedding other[] = {{.name = "t0", .rows = 41, .columns = 8, .pooling = 1}};
    r.options.tables = NULL;
    r.model.dlrm.tables = other;
    r.model.dlrm.n_tables = 1;
    assert_int_equal(orr_train(&r.options, r.arena, &r.result, &r.err), ORR_INVALID);
    assert_non_null(strstr(r.err.text, "another model"));
    orr_arena_free(r.arena);
}

static void what_cannot_be_learned_says_so(void **state)
{
    (void)state;
    run r;
    open_run(&r, "micro_batch=8,precision=bf16", 2);
    assert_int_equal(orr_train(&r.options, r.arena, &r.result, &r.err), ORR_UNSUPPORTED);
    orr_arena_free(r.arena);
    const char *const refused[][2] = {{"micro_batch=8,dp=2,zero=1", "dense part on every rank"},
                                      {"micro_batch=8,tp=2", "replicas (dp) alone"}};
    for (int i = 0; i < 2; i++) {
        int64_t bytes;
        open_run(&r, refused[i][0], 2);
        assert_int_equal(orr_train_measure(&r.options, &bytes, &r.err), ORR_UNSUPPORTED);
        assert_non_null(strstr(r.err.text, refused[i][1]));
        orr_arena_free(r.arena);
    }
    open_run(&r, "micro_batch=8", 2);
    r.workload.task = ORR_TASK_SFT;
    r.options.data = "talks.jsonl";
    assert_int_equal(orr_train(&r.options, r.arena, &r.result, &r.err), ORR_UNSUPPORTED);
    orr_arena_free(r.arena);
}

/* A step of training that is saved, or that another run begins after, with the n-th allocation
 * failing, for as many as there are. */
static void survive_failed_allocations(const char *folder, bool resume)
{
    run r;
    orr_status status = ORR_NO_MEMORY;
    uint64_t nth = 1;
    for (; status != ORR_OK && nth < 100000; nth += nth < 30 ? 1 : 1 + nth / 12) {
        open_run(&r, "micro_batch=4", 1);
        r.options.save = folder;
        r.options.resume = resume;
        orr_alloc_fail_from(nth);
        status = orr_train(&r.options, r.arena, &r.result, &r.err);
        orr_alloc_fail_from(0);
        if (status != ORR_OK && status != ORR_NO_MEMORY)
            fail_msg("allocation %llu: %s", (unsigned long long)nth, r.err.text);
        orr_arena_free(r.arena);
    }
    assert_int_equal(status, ORR_OK);
    assert_true(nth > 30);
}

static void every_failed_allocation_is_survived(void **state)
{
    survive_failed_allocations(*state, false);
    survive_failed_allocations(*state, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clicks_are_learned),
        cmocka_unit_test(blocks_of_samples_do_not_depend_on_ranks),
        cmocka_unit_test(tables_on_other_ranks_learn_the_same),
        cmocka_unit_test_setup_teardown(tables_go_on_to_the_same_bits, make_folder, remove_folder),
        cmocka_unit_test(groups_learn_alike),
        cmocka_unit_test(tables_are_recorded),
        cmocka_unit_test_setup_teardown(stopped_runs_lose_no_batch, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(other_ranks_go_on_to_the_same_bits, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(groups_go_on_to_the_same_bits, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(exported_models_are_begun_from, make_folder, remove_folder),
        cmocka_unit_test(what_cannot_be_learned_says_so),
        cmocka_unit_test_setup_teardown(every_failed_allocation_is_survived, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
