/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
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
        if (memcmp(&a->bags[i], &b->bags[i], sizeof(float)) != 0)
            seed_fail(c->seed, "%u ranks,%s: step %lld, sample %lld, column %lld: %a, not %a",
                      b->plan->ranks, kinds, (long long)(i / c->columns / c->batch),
                      (long long)(i / c->columns % c->batch), (long long)(i % c->columns),
                      (double)b->bags[i], (double)a->bags[i]);
    for (uint32_t t = 0; t < c->n_tables; t++) {
        const whole_table *x = &a->tables[t], *y = &b->tables[t];
        const size_t rows = (size_t)c->tables[t].rows, numbers = rows * c->tables[t].columns;
        const bool same = memcmp(x->numbers, y->numbers, rows * (size_t)x->row_bytes) == 0 &&
                          memcmp(x->of_number, y->of_number, numbers * sizeof(float)) == 0 &&
                          memcmp(x->of_row, y->of_row, rows * sizeof(float)) == 0;
        if (!same)
            seed_fail(c->seed, "%u ranks,%s: rows or state of %s differ", b->plan->ranks, kinds,
                      c->tables[t].name);
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
    const seed_range range = seeds(60);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_arena *arena = orr_arena_new(0, 0);
        const table_case c = table_case_of(seed);
        orr_random r = orr_random_of(seed, 3);
        orr_embedding_plan alone, plan;
        const table_run one = one_rank(&c, &alone, arena);
        for (uint32_t ranks = 1; ranks <= 4; ranks++) {
            table_run many = {.c = &c};
            random_run(&many, ranks, &r, &plan, arena);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_does_what_plain_loops_do),
        cmocka_unit_test(every_sharding_has_the_bits_of_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
