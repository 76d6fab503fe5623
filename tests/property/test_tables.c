/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/format/row.h"
#include "support/table_loops.h"
#include "support/table_ranks.h"

/* Embedding tables that are sharded any way have, step by step, the bags and the rows of one rank,
 * bit for bit; and those of plain loops in double. */

static void random_run(table_run *run, uint32_t ranks, orr_random *r, orr_embedding_plan *plan,
                       orr_arena *arena)
{
    *plan = random_table_plan(run->c, ranks, r, arena);
    run->plan = plan;
    run->threads = (int)draw(r, 1, 2);
    run->ahead = (uint32_t)orr_random_below(r, (plan->pipeline < 2 ? plan->pipeline : 2) + 1);
    run->ids_in_thread = orr_random_below(r, 2) == 0;
    run->steps = STEPS;
}

static void describe(const orr_embedding_plan *plan, char *ret, size_t room)
{
    size_t at = 0;
    for (uint32_t t = 0; t < plan->n_tables && at < room; t++)
        at += (size_t)snprintf(ret + at, room - at, " %s",
                               orr_embedding_sharding_name(plan->placements[t].sharding));
}

static void hold_bits(const table_run *a, const table_run *b)
{
    const table_case *c = a->c;
    char kinds[300];
    describe(b->plan, kinds, sizeof kinds);
    for (int64_t i = 0; i < (int64_t)a->steps * c->batch * c->columns; i++)
        if (memcmp(&a->bags[i], &b->bags[i], sizeof(float)) != 0 || isnan(a->bags[i]))
            seed_fail(c->seed, "%u ranks,%s: step %lld, sample %lld, column %lld: %a, not %a",
                      b->plan->ranks, kinds, (long long)(i / c->columns / c->batch),
                      (long long)(i / c->columns % c->batch), (long long)(i % c->columns),
                      (double)b->bags[i], (double)a->bags[i]);
    for (uint32_t t = 0; t < c->n_tables * a->plan->groups; t++) {
        const orr_embedding *table = &c->tables[t % c->n_tables];
        const whole_table *x = &a->tables[t], *y = &b->tables[t];
        const size_t rows = (size_t)table->rows, numbers = rows * table->columns;
        const bool same = memcmp(x->numbers, y->numbers, rows * (size_t)x->row_bytes) == 0 &&
                          memcmp(x->of_number, y->of_number, numbers * sizeof(float)) == 0 &&
                          memcmp(x->of_row, y->of_row, rows * sizeof(float)) == 0;
        if (!same)
            seed_fail(c->seed, "%u ranks,%s: rows or state of %s differ", b->plan->ranks, kinds,
                      table->name);
    }
}

static table_run one_rank(const table_case *c, orr_embedding_plan *plan, orr_arena *arena)
{
    table_run run = {.c = c, .plan = plan, .threads = 1, .steps = STEPS};
    orr_error err = {0};
    assert_int_equal(orr_embedding_plan_default(c->tables, c->n_tables, 1, arena, plan, &err),
                     ORR_OK);
    run_tables(&run, arena);
    return run;
}

static void every_sharding_has_the_bits_of_one_rank(void **state)
{
    (void)state;
    static const uint32_t RANKS[] = {1, 2, 3, 4, 6};
    const seed_range range = seeds(60);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_arena *arena = orr_arena_new(0, 0);
        const table_case c = table_case_of(seed);
        orr_random r = orr_random_of(seed, 3);
        orr_embedding_plan alone, plan;
        const table_run one = one_rank(&c, &alone, arena);
        for (uint32_t i = 0; i < (seed % 6 == 0 ? 5 : 4); i++) {
            table_run many = {.c = &c};
            random_run(&many, RANKS[i], &r, &plan, arena);
            run_tables(&many, arena);
            hold_bits(&one, &many);
        }
        orr_arena_free(arena);
    }
}

/* Largest error of a number of a row: rounding in 16 bits moves it by up to a unit in the last
 * place, each step. */
static double tolerance_of(const orr_embedding *table, double value)
{
    if (table->format == ORR_ROW_FORMAT_FP32)
        return 2e-5 * (1 + fabs(value));
    return STEPS * (table->format == ORR_ROW_FORMAT_BF16 ? 0x1p-7 : 0x1p-10) * (0.5 + fabs(value));
}

static void hold_near(const table_case *c, const table_run *run, const naive_table *naive)
{
    for (uint32_t t = 0; t < c->n_tables; t++) {
        const orr_embedding *table = &c->tables[t];
        const uint32_t columns = table->columns;
        float numbers[100];
        for (int64_t row = 0; row < table->rows; row++) {
            orr_row_to_fp32(table->format, run->tables[t].numbers + row * run->tables[t].row_bytes,
                            columns, numbers);
            for (uint32_t j = 0; j < columns; j++) {
                const double want = naive[t].numbers[row * columns + j];
                if (!(fabs((double)numbers[j] - want) <= tolerance_of(table, want)))
                    seed_fail(c->seed, "%s (%s, %s), row %lld, column %u: %.9g, not %.9g",
                              table->name, orr_row_format_name(table->format),
                              orr_row_optimizer_name(table->optimizer), (long long)row, j,
                              (double)numbers[j], want);
            }
        }
    }
}

static void one_rank_does_what_plain_loops_do(void **state)
{
    (void)state;
    const seed_range range = seeds(40);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_arena *arena = orr_arena_new(0, 0);
        const table_case c = table_case_of(seed);
        orr_embedding_plan plan;
        const table_run one = one_rank(&c, &plan, arena);
        naive_table *naive = naive_tables_new(&c, arena);
        const size_t numbers = (size_t)(c.batch * c.columns);
        double *bags = orr_arena_array(arena, double, numbers),
               *magnitudes = orr_arena_array(arena, double, numbers);
        float *gradient = orr_arena_array(arena, float, numbers);
        for (uint64_t step = 0; step < STEPS; step++) {
            const orr_tables_batch batch = lookups_of_samples(&c, step, 0, c.batch, arena);
            const float *got = one.bags + step * numbers;
            const orr_update by = update_of_step(step);
            naive_bags(&c, naive, &batch, bags, magnitudes);
            for (size_t i = 0; i < numbers; i++)
                if (!(fabs((double)got[i] - bags[i]) <= 0.05 * (0.5 + magnitudes[i])))
                    seed_fail(seed, "step %d, bag %zu: %.9g, not %.9g", (int)step, i,
                              (double)got[i], bags[i]);
            for (int64_t s = 0; s < c.batch; s++)
                gradient_of_sample(&c, step, s, got + s * c.columns, gradient + s * c.columns);
            naive_update(&c, naive, &batch, gradient, &by);
        }
        hold_near(&c, &one, naive);
        orr_arena_free(arena);
    }
}

static void served_tables_have_the_bits_of_one_rank(void **state)
{
    (void)state;
    const seed_range range = seeds(20);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_arena *arena = orr_arena_new(0, 0);
        table_case c = table_case_of(seed);
        orr_random r = orr_random_of(seed, 6);
        orr_embedding_plan plan;
        table_run one = {.c = &c, .served = true}, many = one;
        for (uint32_t t = 0; t < c.n_tables; t++)
            c.tables[t].format = (uint8_t)draw(&r, ORR_ROW_FORMAT_INT8, ORR_ROW_FORMAT_INT4);
        random_run(&one, 1, &r, &plan, arena);
        run_tables(&one, arena);
        random_run(&many, (uint32_t)draw(&r, 2, 4), &r, &plan, arena);
        run_tables(&many, arena);
        hold_bits(&one, &many);
        orr_arena_free(arena);
    }
}

/* Averages a number of each group, in the order of groups. */
static void average(float *const *at, uint32_t groups, int64_t i)
{
    float sum = at[0][i];
    for (uint32_t g = 1; g < groups; g++)
        sum += at[g][i];
    for (uint32_t g = 0; g < groups; g++)
        at[g][i] = sum / (float)groups;
}

static void average_table(orr_row_store *const *stores, uint32_t groups)
{
    const orr_row_store *s = stores[0];
    float numbers[RANKS_MOST][100], *row_of[RANKS_MOST], *state[RANKS_MOST];
    for (int64_t row = 0; row < s->rows; row++) {
        for (uint32_t g = 0; g < groups; g++) {
            row_of[g] = numbers[g];
            state[g] = (float *)(void *)orr_row_store_state(stores[g], row);
            orr_row_to_fp32(s->format, stores[g]->base + row * s->record_bytes, s->columns,
                            numbers[g]);
        }
        for (int64_t i = 0; i < s->columns; i++)
            average(row_of, groups, i);
        for (int64_t i = 0; i < s->state_bytes / 4; i++)
            average(state, groups, i);
        for (uint32_t g = 0; g < groups; g++)
            orr_row_from_fp32(s->format, numbers[g], s->columns,
                              stores[g]->base + row * s->record_bytes);
    }
}

/* Groups one after another in this thread, each on one rank. */
typedef struct lone_group {
    table_run run;
    table_rank rank;
    orr_tables_source source;
} lone_group;

static void open_group(lone_group *g, const table_run *run, const orr_embedding_plan *alone,
                       uint32_t groups)
{
    orr_error err = {0};
    g->run = *run;
    g->source = (orr_tables_source){.plan = alone,
                                    .transport = orr_transport_self(),
                                    .channels = {0, 1},
                                    .samples = run->c->batch / groups,
                                    .seed = run->c->seed,
                                    .trained = true};
    g->rank = (table_rank){
        .run = &g->run, .transport = orr_transport_self(), .samples = g->source.samples};
    assert_int_equal(orr_tables_open(&g->source, &g->rank.tables, &err), ORR_OK);
}

static void step_group(lone_group *g, uint32_t group, uint64_t step, orr_arena *arena)
{
    const table_case *c = g->run.c;
    const int64_t samples = g->source.samples, first = group * samples;
    const uint32_t slot = step % ORR_TABLES_AHEAD;
    const orr_update by = update_of_step(step);
    const orr_tables_batch batch = lookups_of_samples(c, step, first, samples, arena);
    float *bag = g->run.bags + ((int64_t)step * c->batch + first) * c->columns,
          *gradient = orr_arena_array(arena, float, (size_t)(samples * c->columns));
    orr_tables *t = g->rank.tables;
    orr_error err = {0};
    assert_int_equal(orr_tables_exchange_ids(t, slot, &batch, &err), ORR_OK);
    assert_int_equal(orr_tables_fetch(t, slot, &err), ORR_OK);
    assert_int_equal(orr_tables_sum(t, slot, bag, &err), ORR_OK);
    assert_int_equal(orr_tables_exchange_bags(t, slot, bag, &err), ORR_OK);
    for (int64_t s = 0; s < samples; s++)
        gradient_of_sample(c, step, first + s, bag + s * c->columns, gradient + s * c->columns);
    assert_int_equal(orr_tables_exchange_gradients(t, slot, gradient, &err), ORR_OK);
    assert_int_equal(orr_tables_update(t, slot, &by, &err), ORR_OK);
}

static void run_groups(table_run *run, orr_arena *arena)
{
    const table_case *c = run->c;
    const uint32_t groups = run->plan->groups;
    lone_group group[RANKS_MOST];
    orr_embedding_plan alone;
    orr_error err = {0};
    assert_int_equal(orr_embedding_plan_default(c->tables, c->n_tables, 1, arena, &alone, &err),
                     ORR_OK);
    new_wholes(run, groups, arena);
    for (uint32_t g = 0; g < groups; g++)
        open_group(&group[g], run, &alone, groups);
    for (uint64_t step = 0; step < STEPS; step++) {
        orr_row_store *stores[RANKS_MOST];
        for (uint32_t g = 0; g < groups; g++)
            step_group(&group[g], g, step, arena);
        for (uint32_t t = 0; t < c->n_tables && (step + 1) % run->plan->synchronize == 0; t++) {
            for (uint32_t g = 0; g < groups; g++)
                (void)orr_tables_shard(group[g].rank.tables, t, &stores[g]);
            average_table(stores, groups);
        }
    }
    for (uint32_t g = 0; g < groups; g++) {
        for (uint32_t t = 0; t < c->n_tables; t++) {
            orr_row_store *store;
            const orr_embedding_shard *shard = orr_tables_shard(group[g].rank.tables, t, &store);
            put_shard(c, shard, store, &run->tables[g * c->n_tables + t]);
        }
        orr_tables_close(group[g].rank.tables);
    }
}

static void groups_learn_apart_and_are_averaged(void **state)
{
    (void)state;
    static const struct {
        uint32_t groups, ranks;
    } SHAPES[] = {{2, 1}, {2, 2}, {3, 1}, {2, 3}, {3, 2}};
    const seed_range range = seeds(20);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_arena *arena = orr_arena_new(0, 0);
        const table_case c = table_case_of(seed);
        orr_random r = orr_random_of(seed, 4);
        orr_embedding_plan plan;
        table_run got = {.c = &c}, want = {.c = &c, .plan = &plan, .steps = STEPS};
        random_run(&got, SHAPES[seed % 5].ranks, &r, &plan, arena);
        plan.groups = SHAPES[seed % 5].groups;
        plan.synchronize = (uint32_t)draw(&r, 1, 3);
        run_groups(&want, arena);
        run_tables(&got, arena);
        hold_bits(&want, &got);
        orr_arena_free(arena);
    }
}

/* Half a unit in the last place, and what int8 has instead: half a step of the largest number. */
static double rounding_of(orr_embedding_codec codec)
{
    static const double ROUNDING[] = {[ORR_EMBEDDING_CODEC_FP32] = 0,
                                      [ORR_EMBEDDING_CODEC_FP16] = 0x1p-11,
                                      [ORR_EMBEDDING_CODEC_BF16] = 0x1p-8,
                                      [ORR_EMBEDDING_CODEC_INT8] = 1.0 / 254};
    return ROUNDING[codec];
}

/* The magnitude that bounds the error of number j of a vector. */
static double bounding(orr_embedding_codec codec, const float *vector, uint32_t columns, uint32_t j)
{
    double most = fabs((double)vector[j]);
    for (uint32_t i = 0; i < columns && codec == ORR_EMBEDDING_CODEC_INT8; i++)
        most = fmax(most, fabs((double)vector[i]));
    return most;
}

/* Errors of the bags of the first step against those of fp32. */
static void hold_bag_errors(const table_run *exact, const table_run *coded, orr_arena *arena)
{
    const table_case *c = exact->c;
    const orr_embedding_codec codec = coded->plan->forward;
    const orr_tables_batch batch = lookups_of_samples(c, 0, 0, c->batch, arena);
    const int64_t *id = batch.ids;
    for (uint32_t t = 0, column = 0; t < c->n_tables; column += c->tables[t++].columns) {
        const orr_embedding *table = &c->tables[t];
        for (int64_t s = 0; s < c->batch; s++) {
            double bound[100] = {0};
            for (int32_t k = batch.lengths[t * c->batch + s]; k > 0; k--, id++) {
                float row[100];
                for (uint32_t j = 0; j < table->columns; j++)
                    row[j] = naive_initial(c->seed, t, table, *id, j);
                for (uint32_t j = 0; j < table->columns; j++)
                    bound[j] += bounding(codec, row, table->columns, j) * rounding_of(codec);
            }
            for (uint32_t j = 0; j < table->columns; j++) {
                const int64_t at = s * c->columns + column + j;
                const double error = fabs((double)coded->bags[at] - (double)exact->bags[at]);
                if (!(error <= bound[j] * (1 + 1e-4) + 1e-7))
                    seed_fail(c->seed, "%s, sample %lld: bags are off by %g, more than %g",
                              orr_embedding_codec_name(codec), (long long)s, error, bound[j]);
            }
        }
    }
}

/* Errors of rows after a step of SGD. */
static void hold_row_errors(const table_run *exact, const table_run *coded, orr_arena *arena)
{
    const table_case *c = exact->c;
    const orr_embedding_codec codec = coded->plan->backward;
    const orr_update by = update_of_step(0);
    const orr_tables_batch batch = lookups_of_samples(c, 0, 0, c->batch, arena);
    const int64_t *id = batch.ids;
    float *gradient = orr_arena_array(arena, float, (size_t)(c->batch * c->columns));
    for (int64_t s = 0; s < c->batch; s++)
        gradient_of_sample(c, 0, s, exact->bags + s * c->columns, gradient + s * c->columns);
    for (uint32_t t = 0, column = 0; t < c->n_tables; column += c->tables[t++].columns) {
        const uint32_t columns = c->tables[t].columns;
        const float *a = (const float *)(const void *)exact->tables[t].numbers,
                    *b = (const float *)(const void *)coded->tables[t].numbers;
        double *bound = orr_arena_array(arena, double, (size_t)(c->tables[t].rows * columns));
        for (int64_t s = 0; s < c->batch; s++)
            for (int32_t k = batch.lengths[t * c->batch + s]; k > 0; k--, id++)
                for (uint32_t j = 0; j < columns; j++)
                    bound[*id * columns + j] +=
                        bounding(codec, gradient + s * c->columns + column, columns, j) *
                        rounding_of(codec) * by.rate * by.gradient_scale;
        for (int64_t i = 0; i < c->tables[t].rows * columns; i++) {
            const double error = fabs((double)a[i] - (double)b[i]);
            if (!(error <= bound[i] * (1 + 1e-4) + 1e-6))
                seed_fail(c->seed, "%s: number %lld of %s is off by %g, more than %g",
                          orr_embedding_codec_name(codec), (long long)i, c->tables[t].name, error,
                          bound[i]);
        }
    }
}

static void coded_transfers_repeat_and_stay_within_their_bound(void **state)
{
    (void)state;
    const seed_range range = seeds(15);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_arena *arena = orr_arena_new(0, 0);
        table_case c = table_case_of(seed);
        orr_random r = orr_random_of(seed, 5);
        const uint8_t codec = (uint8_t)draw(&r, 1, ORR_EMBEDDING_CODECS - 1);
        orr_embedding_plan plan, forward, backward;
        table_run first = {.c = &c}, again, exact, coded;
        random_run(&first, (uint32_t)draw(&r, 2, 4), &r, &plan, arena);
        plan.forward = codec;
        plan.backward = (uint8_t)orr_random_below(&r, ORR_EMBEDDING_CODECS);
        again = first;
        again.threads = 3 - first.threads;
        again.ids_in_thread = !first.ids_in_thread;
        again.ahead = 0;
        run_tables(&first, arena);
        run_tables(&again, arena);
        hold_bits(&first, &again);
        for (uint32_t t = 0; t < c.n_tables; t++) {
            c.tables[t].format = ORR_ROW_FORMAT_FP32;
            c.tables[t].optimizer = ORR_ROW_OPTIMIZER_SGD;
        }
        forward = backward = plan;
        forward.forward = backward.backward = codec;
        forward.backward = backward.forward = plan.forward = plan.backward =
            ORR_EMBEDDING_CODEC_FP32;
        exact = first;
        exact.steps = 1;
        coded = exact;
        run_tables(&exact, arena);
        coded.plan = &forward;
        run_tables(&coded, arena);
        hold_bag_errors(&exact, &coded, arena);
        coded.plan = &backward;
        run_tables(&coded, arena);
        hold_row_errors(&exact, &coded, arena);
        orr_arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_does_what_plain_loops_do),
        cmocka_unit_test(every_sharding_has_the_bits_of_one_rank),
        cmocka_unit_test(served_tables_have_the_bits_of_one_rank),
        cmocka_unit_test(groups_learn_apart_and_are_averaged),
        cmocka_unit_test(coded_transfers_repeat_and_stay_within_their_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
