/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <orrery/measure.h>

#include "engine/step/step.h"

/* A recommendation model on a machine of which each price is made up. Kernels take a ns a byte, be
 * it in caches or not, products 2 ns a FLOP. */
enum { TABLES = 3, ROWS = 1000, COLUMNS = 16, POOLING = 4, BATCH = 64, SIZES = 2 };
static const orr_embedding tables[TABLES] = {
    {.name = "a", .rows = ROWS, .columns = COLUMNS, .pooling = POOLING},
    {.name = "b", .rows = ROWS, .columns = COLUMNS, .pooling = POOLING},
    {.name = "c", .rows = ROWS, .columns = COLUMNS, .pooling = POOLING}};
static const orr_model model = {.name = "made-up",
                                .kind = ORR_MODEL_DLRM,
                                .dlrm = {.dense_features = 13,
                                         .dim = COLUMNS,
                                         .n_tables = TABLES,
                                         .tables = tables,
                                         .n_bottom = 2,
                                         .n_top = 2,
                                         .bottom = {32, COLUMNS},
                                         .top = {32, 1}}};
static const orr_workload workload = {.task = ORR_TASK_PRETRAIN};

typedef struct bench {
    orr_arena *arena;
    orr_plan plan;
    orr_embedding_plan sharding;
    orr_train_options job;
    orr_measured_kernel kernels[4 * SIZES];
    orr_measured_collective transfers[2 * SIZES];
    orr_measured_table rates[2];
    int64_t table_ns[2][ORR_TABLE_WORKS];
    orr_measured machine;
    orr_predicted_step predicted;
} bench;

static void add_prices(bench *b)
{
    static const orr_collective kinds[] = {ORR_COLL_ALL_REDUCE, ORR_COLL_ALL_TO_ALL};
    static const int64_t bytes[SIZES] = {1000, 1000000};
    uint32_t n = 0, t = 0;
    for (int i = 0; i < SIZES; i++) {
        for (int cold = 0; cold <= 1; cold++)
            b->kernels[n++] = (orr_measured_kernel){.op = ORR_OP_COPY,
                                                    .dtype = ORR_DTYPE_FP32,
                                                    .cold = cold,
                                                    .threads = 1,
                                                    .bytes = (double)bytes[i],
                                                    .ns = bytes[i]};
        for (int k = 0; k < 2; k++)
            b->transfers[t++] = (orr_measured_collective){(uint8_t)kinds[k], 2, bytes[i], bytes[i]};
    }
    for (uint8_t form = 0; form < 3; form++)
        b->kernels[n++] = (orr_measured_kernel){.op = ORR_OP_MATMUL,
                                                .dtype = ORR_DTYPE_FP32,
                                                .form = form,
                                                .threads = 1,
                                                .dim = {64, 64, 64},
                                                .flops = 1000,
                                                .ns = 2000};
    b->machine =
        (orr_measured){.cores = 16,
                       .cache_bytes = 1 << 20,
                       .kernels = b->kernels,
                       .n_kernels = n,
                       .transfers = b->transfers,
                       .n_transfers = t,
                       .step = {.table_ns = (const int64_t(*)[ORR_TABLE_WORKS])b->table_ns}};
}

static void begin(bench *b, uint32_t ranks, uint8_t pipeline)
{
    orr_error err;
    *b = (bench){.arena = orr_arena_new(0, 0), .plan = {.dp = ranks, .batch = BATCH}};
    assert_int_equal(
        orr_embedding_plan_default(tables, TABLES, ranks, b->arena, &b->sharding, &err), ORR_OK);
    b->sharding.pipeline = pipeline;
    b->job = (orr_train_options){.model = &model,
                                 .plan = &b->plan,
                                 .workload = &workload,
                                 .tables = &b->sharding,
                                 .steps = 10,
                                 .threads = 1};
    add_prices(b);
    b->machine.step.ranks = ranks;
    for (uint32_t r = 0; r < ranks; r++)
        for (int w = 0; w < ORR_TABLE_WORKS; w++)
            b->table_ns[r][w] = 10000 * (w + 1);
}

static int64_t predict(bench *b)
{
    orr_error err;
    if (orr_predict_step(&b->machine, &b->job, b->arena, &b->predicted, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return b->predicted.step_ns;
}

/* The program that is priced. */
static orr_engine_step *draft(bench *b)
{
    orr_plan *plan = orr_arena_one(b->arena, orr_plan);
    orr_transport *transport = orr_arena_one(b->arena, orr_transport);
    orr_backend *backend;
    orr_engine_step *step;
    orr_error err;
    *plan = orr_train_plan(&model, &b->plan);
    *transport = (orr_transport){.ranks = plan->dp};
    assert_int_equal(orr_backend_cpu(&backend, &err), ORR_OK);
    const orr_step_source source = {.model = &model,
                                    .plan = plan,
                                    .workload = &workload,
                                    .transport = transport,
                                    .backend = backend,
                                    .tables = &b->sharding};
    assert_int_equal(orr_engine_step_make_unallocated(&source, &step, &err), ORR_OK);
    return step;
}

static void a_rank_takes_the_sum_of_its_calls(void **state)
{
    bench b;
    double sum = 0;
    uint32_t hooks = 0;
    (void)state;
    begin(&b, 1, 0);
    orr_engine_step *step = draft(&b);
    const orr_program_source p = orr_engine_step_program(step);
    for (uint32_t c = 0; c < p.tape->n_calls; c++) {
        const orr_tape_call *call = &p.tape->calls[c];
        orr_op_work work;
        orr_tape_work(p.tape, c, &work);
        hooks += p.calls[c].instead != NULL;
        if (p.calls[c].instead == NULL && !orr_op_of((orr_op)call->op)->shares)
            sum += call->op == ORR_OP_MATMUL ? 2 * work.flops : work.read_bytes + work.write_bytes;
    }
    for (int w = 0; w < ORR_TABLE_WORKS; w++)
        if (w != ORR_TABLE_WORK_READ || hooks == ORR_TABLE_WORKS)
            sum += (double)b.table_ns[0][w];
    const double got = (double)predict(&b);
    if (fabs(got / sum - 1) > 1e-3)
        fail_msg("%.0f ns, the sum is %.0f", got, sum);
    orr_engine_step_free(step);
    orr_arena_free(b.arena);
}

static void every_call_has_a_price(void **state)
{
    (void)state;
    for (uint32_t ranks = 1; ranks <= 2; ranks++) {
        bench b;
        begin(&b, ranks, 0);
        predict(&b);
        assert_true(b.predicted.n_ops > 10);
        for (uint32_t i = 0; i < b.predicted.n_ops; i++)
            if (b.predicted.ops[i].ns <= 0 && !orr_op_of((orr_op)b.predicted.ops[i].op)->shares)
                fail_msg("%s is for nothing", b.predicted.ops[i].name);
        orr_arena_free(b.arena);
    }
}

enum { MORE = 1000000 };

/* What one rank does longer, all wait for at the next exchange; what both do longer at the same
 * place counts once. */
static void prices_add_up_along_the_critical_path(void **state)
{
    bench b;
    (void)state;
    begin(&b, 2, 0);
    const int64_t before = predict(&b);
    b.table_ns[1][ORR_TABLE_WORK_SUM] += MORE;
    assert_int_equal(predict(&b), before + MORE);
    b.table_ns[0][ORR_TABLE_WORK_SUM] += MORE;
    assert_int_equal(predict(&b), before + MORE);
    b.table_ns[0][ORR_TABLE_WORK_GRADIENTS] += MORE;
    assert_int_equal(predict(&b), before + 2 * MORE);
    b.table_ns[1][ORR_TABLE_WORK_UPDATE] += MORE;
    assert_int_equal(predict(&b), before + 3 * MORE);
    b.machine.step.meeting_ns = MORE; /* ids, bags, gradients of bags and of weights */
    const int64_t met = predict(&b) - before;
    assert_true(met >= 6 * MORE && met <= 7 * MORE);
    orr_arena_free(b.arena);
}

static int64_t ns_of(const bench *b, orr_op op)
{
    for (uint32_t i = 0; i < b->predicted.n_ops; i++)
        if (b->predicted.ops[i].op == op)
            return b->predicted.ops[i].ns;
    fail_msg("no %s", orr_op_of(op)->name);
    return 0;
}

/* The update waits for sums of gradients, which another lane exchanges. */
static void updates_wait_for_gradients(void **state)
{
    bench b;
    (void)state;
    begin(&b, 2, 0);
    const int64_t before = predict(&b), reduced = ns_of(&b, ORR_OP_ALL_REDUCE);
    assert_true(reduced > 0);
    for (uint32_t i = 0; i < b.machine.n_transfers; i++)
        if (b.transfers[i].collective == ORR_COLL_ALL_REDUCE)
            b.transfers[i].ns *= 1000;
    b.table_ns[0][ORR_TABLE_WORK_UPDATE] = b.table_ns[1][ORR_TABLE_WORK_UPDATE] = MORE;
    const int64_t update = MORE - 10000 * (ORR_TABLE_WORK_UPDATE + 1);
    assert_true(predict(&b) >= before + 990 * reduced + update);
    orr_arena_free(b.arena);
}

/* What is done ahead of the computation is hidden behind it, as far as it is shorter. */
static void what_is_done_ahead_is_hidden(void **state)
{
    bench b;
    (void)state;
    begin(&b, 1, 3);
    const int64_t before = predict(&b);
    b.table_ns[0][ORR_TABLE_WORK_READ] += before / 2;
    assert_int_equal(predict(&b), before);
    b.table_ns[0][ORR_TABLE_WORK_READ] = 2 * before;
    assert_int_equal(predict(&b), 2 * before);
    orr_arena_free(b.arena);
}

/* Without a measurement of the step itself: rates of the machine, here of the very sizes. */
static void rates_stand_in(void **state)
{
    enum { LOOKUPS = BATCH * POOLING, OF_LOOKUPS = 10 * LOOKUPS };
    bench b;
    (void)state;
    begin(&b, 1, 0);
    b.machine.step.ranks = 0;
    for (int update = 0; update <= 1; update++)
        b.rates[update] = (orr_measured_table){.update = update,
                                               .threads = 1,
                                               .columns = COLUMNS,
                                               .rows = ROWS,
                                               .samples = 10 * BATCH,
                                               .lookups = OF_LOOKUPS,
                                               .ns = 1000000 * (1 + update)};
    b.machine.tables = b.rates;
    b.machine.n_tables = 2;
    const int64_t before = predict(&b);
    assert_int_equal(ns_of(&b, ORR_OP_EMBEDDING_BAG), TABLES * 100000);
    assert_int_equal(ns_of(&b, ORR_OP_ROWWISE_ADAGRAD), TABLES * 200000);
    b.rates[1].ns *= 3;
    assert_int_equal(predict(&b), before + TABLES * 400000);
    /* Between two tables by how near they are. */
    b.rates[0].rows = ROWS / 10;
    b.rates[1] = b.rates[0];
    b.rates[1].rows = ROWS * 10;
    b.rates[1].ns *= 2;
    predict(&b);
    assert_int_equal(ns_of(&b, ORR_OP_EMBEDDING_BAG), TABLES * 150000);
    orr_arena_free(b.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_takes_the_sum_of_its_calls),
        cmocka_unit_test(every_call_has_a_price),
        cmocka_unit_test(prices_add_up_along_the_critical_path),
        cmocka_unit_test(updates_wait_for_gradients),
        cmocka_unit_test(what_is_done_ahead_is_hidden),
        cmocka_unit_test(rates_stand_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
