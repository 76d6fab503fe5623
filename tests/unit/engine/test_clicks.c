/* SPDX-License-Identifier: Apache-2.0 */
#include "small_training.h"

#include <math.h>

#include <orrery/engine.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "engine/data/clicks.h"

static void auc_is_the_share_of_pairs_in_order(void **state)
{
    (void)state;
    orr_random random = orr_random_of(5, 0);
    orr_scored s[60];
    for (int run = 0; run < 20; run++) {
        double right = 0, pairs = 0;
        for (int i = 0; i < 60; i++) /* few scores: many ties */
            s[i] = (orr_scored){(float)orr_random_below(&random, 12),
                                orr_random_below(&random, 3) == 0};
        for (int i = 0; i < 60; i++)
            for (int k = 0; k < 60; k++)
                if (s[i].label > 0 && s[k].label == 0) {
                    pairs++;
                    right += s[i].score > s[k].score ? 1 : s[i].score == s[k].score ? 0.5 : 0;
                }
        assert_true(fabs(orr_auc(s, 60) - right / pairs) < 1e-12);
    }
    for (int i = 0; i < 60; i++)
        s[i].label = 1;
    assert_true(isnan(orr_auc(s, 60)));
}

/* As many fields as Criteo's lines have; `first` and `last` of the values. */
static void put_line(FILE *to, int label, const char *number, const char *first, const char *last)
{
    (void)fprintf(to, "%d\t%s", label, number);
    for (int i = 1; i < 13; i++)
        (void)fprintf(to, "\t%d", i);
    (void)fprintf(to, "\t%s", first);
    for (int i = 1; i < 25; i++)
        (void)fprintf(to, "\t%x", 1000 + i);
    (void)fprintf(to, "\t%s\n", last);
}

static orr_dlrm criteo_shape(void)
{
    static orr_embedding tables[26];
    orr_dlrm d = {.dense_features = 13,
                  .tables = tables,
                  .dim = 4,
                  .n_tables = 26,
                  .n_bottom = 1,
                  .n_top = 1,
                  .bottom = {4},
                  .top = {1}};
    for (int i = 0; i < 26; i++)
        tables[i] = (orr_embedding){.rows = 50 + i, .columns = 4, .pooling = i == 25 ? 3 : 1};
    return d;
}

static void criteo_lines_are_read(void **state)
{
    char path[128];
    orr_click_data *clicks;
    orr_error err = {.text = ""};
    orr_click_batch click = {0};
    orr_dlrm d = criteo_shape();
    (void)snprintf(path, sizeof path, "%s/day_0", (const char *)*state);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 150; i++)
        put_line(file, i % 2, i == 140 ? "-3" : "", i == 140 ? "ff" : "", "0a");
    put_line(file, 1, "x", "1", "2");
    assert_int_equal(fclose(file), 0);
    assert_int_equal(orr_click_data_criteo(path, &d, &clicks, &err), ORR_OK);
    assert_int_equal(clicks->n, 151);
    assert_int_equal(orr_click_data_read(clicks, 140, 1, &click, &err), ORR_OK);
    assert_true(click.labels.at[0] == 0 && click.dense.at[0] == 0);
    assert_true(fabsf(click.dense.at[12] - logf(13)) < 1e-6F);
    const int64_t *ids = click.ids.at;
    assert_int_equal(ids[0], 0xff % 50);
    assert_int_equal(ids[1], 1001 % 51);
    assert_int_equal(ids[25], 10);
    assert_true(ids[26] != ids[25] || ids[27] != ids[25]);
    const int64_t rows[3] = {ids[25], ids[26], ids[27]};
    assert_int_equal(orr_click_data_read(clicks, 150, 1, &click, &err), ORR_PARSE);
    assert_non_null(strstr(err.text, "line 151"));
    clicks->n = 150; /* without the bad line: the data repeat */
    assert_int_equal(orr_click_data_read(clicks, 149, 3, &click, &err), ORR_OK);
    assert_int_equal(click.ids.n, 3 * 28);
    for (int i = 0; i < 3; i++) {
        assert_true(click.labels.at[i] == (float)(i != 1) && click.dense.at[13L * i] == 0);
        assert_int_equal(click.ids.at[i], 0);
        assert_int_equal(click.ids.at[3 + i], 1001 % 51);
        /* of a value always the same rows */
        assert_memory_equal(&click.ids.at[75 + 3 * i], rows, sizeof rows);
    }
    orr_click_batch_done(&click);
    orr_click_data_free(clicks);
    d.n_tables = 3;
    assert_int_equal(orr_click_data_criteo(path, &d, &clicks, &err), ORR_INVALID);
    assert_int_equal(orr_click_data_criteo("/nowhere",
                                           &(orr_dlrm){.dense_features = 13, .n_tables = 26},
                                           &clicks, &err),
                     ORR_IO);
}

static const orr_embedding BAGS[] = {
    {.name = "fixed", .rows = 50000, .columns = 4, .pooling = 8},
    {.name = "geometric",
     .rows = 3000,
     .columns = 4,
     .pooling = 2.5,
     .length = ORR_BAG_LENGTH_GEOMETRIC},
    {.name = "uniform",
     .rows = 200,
     .columns = 4,
     .pooling = 3.25,
     .length = ORR_BAG_LENGTH_UNIFORM},
};
enum { BAG_TABLES = sizeof BAGS / sizeof *BAGS };
static const orr_dlrm BAG_MODEL = {
    .dense_features = 6, .dim = 4, .n_tables = BAG_TABLES, .tables = BAGS};

static void read_synthetic(const char *text, uint64_t first, int64_t n, orr_click_batch *ret)
{
    orr_click_data *clicks;
    orr_error err = {.text = ""};
    if (orr_click_data_open(text, &BAG_MODEL, 11, &clicks, &err) != ORR_OK ||
        orr_click_data_read(clicks, first, n, ret, &err) != ORR_OK)
        fail_msg("%s", err.text);
    orr_click_data_free(clicks);
}

/* Samples are the same, whichever range they are read in. */
static void any_range_has_the_same_samples(void **state)
{
    (void)state;
    static const char *const kinds[] = {NULL, "synthetic:zipf,locality=0.6,window=9"};
    for (int kind = 0; kind < 2; kind++) {
        orr_click_batch all = {0}, part = {0};
        read_synthetic(kinds[kind], 100, 40, &all);
        for (int64_t first = 0, n = 1; first < 40; first += n, n = 1 + (n + 2) % 11) {
            n = n < 40 - first ? n : 40 - first;
            read_synthetic(kinds[kind], 100 + (uint64_t)first, n, &part);
            assert_memory_equal(part.dense.at, all.dense.at + 6 * first, (size_t)n * 6 * 4);
            assert_memory_equal(part.labels.at, all.labels.at + first, (size_t)n * 4);
            for (int t = 0; t < BAG_TABLES; t++) {
                int64_t at = all.first.at[t], ids = 0;
                for (int64_t i = 0; i < first; i++)
                    at += all.lengths.at[40 * t + i];
                for (int64_t i = 0; i < n; i++)
                    ids += all.lengths.at[40 * t + first + i];
                assert_memory_equal(part.lengths.at + t * n, all.lengths.at + 40 * t + first,
                                    (size_t)n * 4);
                assert_int_equal(part.first.at[t + 1] - part.first.at[t], ids);
                assert_memory_equal(part.ids.at + part.first.at[t], all.ids.at + at,
                                    (size_t)ids * 8);
            }
        }
        orr_click_batch_done(&all);
        orr_click_batch_done(&part);
    }
}

/* Means and variances of lengths are those of their distributions, distinct rows as expected, a
 * quarter of the labels 1. */
static void bags_and_rows_follow_their_distributions(void **state)
{
    (void)state;
    enum { N = 20000 };
    static const double variance[] = {0, 2.5 * 3.5, 6.5 * 6.5 / 12 + 1.0 / 6};
    orr_click_batch b = {0};
    double labels = 0;
    read_synthetic("synthetic:2022", 0, N, &b);
    for (int t = 0; t < BAG_TABLES; t++) {
        const orr_popularity p = orr_popularity_of(ORR_POPULARITY_META_2022, BAGS[t].rows);
        const int64_t lookups = b.first.at[t + 1] - b.first.at[t];
        const double mean = (double)lookups / N;
        double squares = 0, distinct = 0;
        char *seen = calloc((size_t)BAGS[t].rows, 1);
        assert_non_null(seen);
        for (int i = 0; i < N; i++) {
            const double off = b.lengths.at[N * t + i] - mean;
            squares += off * off / N;
        }
        assert_true(fabs(mean - BAGS[t].pooling) <= 5 * sqrt(variance[t] / N));
        assert_true(fabs(squares - variance[t]) <= 0.06 * variance[t]);
        for (int64_t i = b.first.at[t]; i < b.first.at[t + 1]; i++) {
            assert_true(b.ids.at[i] >= 0 && b.ids.at[i] < BAGS[t].rows);
            distinct += seen[b.ids.at[i]]++ == 0;
            seen[b.ids.at[i]] = 1;
        }
        const double want = orr_popularity_distinct(&p, lookups);
        if (fabs(distinct - want) > 5 * sqrt(want))
            fail_msg("%s: %g distinct rows, expected %g", BAGS[t].name, distinct, want);
        free(seen);
    }
    for (int i = 0; i < N; i++)
        labels += (double)b.labels.at[i] / N;
    assert_true(labels > 0.2 && labels < 0.35);
    orr_click_batch_done(&b);
}

/* Share of lookups in the first table that some sample of the last 16 makes too. */
static double repeated(const char *text)
{
    enum { N = 3000, WINDOW = 16, BAG = 8 };
    orr_click_batch b = {0};
    int64_t hits = 0;
    read_synthetic(text, 0, N, &b);
    for (int64_t i = BAG * WINDOW; i < BAG * N; i++)
        for (int64_t k = i - i % BAG - BAG * WINDOW, found = 0; k < i - i % BAG && !found; k++)
            hits += found = b.ids.at[k] == b.ids.at[i];
    orr_click_batch_done(&b);
    return (double)hits / (BAG * (N - WINDOW));
}

static void locality_repeats_lookups(void **state)
{
    (void)state;
    const double none = repeated("synthetic:uniform"),
                 some = repeated("synthetic:uniform,locality=0.4,window=16");
    assert_true(none < 0.01);
    assert_true(fabs(some - 0.4) < 0.02);
}

static void other_words_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"synthetic:2023", "synthetic:locality=1",
                                        "synthetic:zipf,window=0", "synthetic:locality=0.1x"};
    for (int i = 0; i < 4; i++) {
        orr_click_data *clicks;
        orr_error err = {.text = ""};
        assert_int_equal(orr_click_data_open(texts[i], &BAG_MODEL, 1, &clicks, &err), ORR_INVALID);
        assert_non_null(strstr(err.text, "locality=0 to 0.99"));
    }
}

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

static void tables_go_on_on_other_ranks(void **state)
{
    run whole, first, rest;
    open_run(&whole, "batch=48", 6);
    open_run(&first, "batch=48,dp=2", 3);
    open_run(&rest, "batch=48,dp=3", 6);
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

/* A step of training with the n-th allocation failing, for as many as there are. */
static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    run r;
    orr_status status = ORR_NO_MEMORY;
    uint64_t nth = 1;
    for (; status != ORR_OK && nth < 100000; nth += nth < 30 ? 1 : 1 + nth / 12) {
        open_run(&r, "micro_batch=4", 1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auc_is_the_share_of_pairs_in_order),
        cmocka_unit_test_setup_teardown(criteo_lines_are_read, make_folder, remove_folder),
        cmocka_unit_test(any_range_has_the_same_samples),
        cmocka_unit_test(bags_and_rows_follow_their_distributions),
        cmocka_unit_test(locality_repeats_lookups),
        cmocka_unit_test(other_words_are_refused),
        cmocka_unit_test(clicks_are_learned),
        cmocka_unit_test(blocks_of_samples_do_not_depend_on_ranks),
        cmocka_unit_test(tables_on_other_ranks_learn_the_same),
        cmocka_unit_test_setup_teardown(tables_go_on_to_the_same_bits, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(tables_go_on_on_other_ranks, make_folder, remove_folder),
        cmocka_unit_test(groups_learn_alike),
        cmocka_unit_test(tables_are_recorded),
        cmocka_unit_test_setup_teardown(stopped_runs_lose_no_batch, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(other_ranks_go_on_to_the_same_bits, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(exported_models_are_begun_from, make_folder, remove_folder),
        cmocka_unit_test(what_cannot_be_learned_says_so),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
