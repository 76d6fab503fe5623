/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/engine.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/table_cases.h"

/* Recommendation models with random tables, trained in several processes: losses, gradient norms
 * and the final state have the bits of one rank, however tables are sharded and whatever is
 * prepared ahead of a step. */
enum { RANKS_MOST = 4, TRAINED_STEPS = 5 };

typedef struct training {
    orr_arena *arena;
    orr_train_result result;
} training;

static orr_model model_of(const table_case *c)
{
    orr_model m = {.name = "random", .title = "Random", .kind = ORR_MODEL_DLRM};
    m.dlrm = (orr_dlrm){.dense_features = 5,
                        .dim = 8,
                        .n_tables = c->n_tables,
                        .tables = c->tables,
                        .n_bottom = 2,
                        .bottom = {12, 8},
                        .n_top = 2,
                        .top = {9, 1},
                        .cross_layers = 1,
                        .cross_rank = 3};
    return m;
}

static training train_with(const table_case *c, const orr_embedding_plan *tables,
                           const orr_train_store *store, int threads)
{
    const orr_model model = model_of(c);
    const orr_workload workload = {.task = ORR_TASK_PRETRAIN};
    const orr_plan plan = {.dp = tables->ranks, .batch = (uint32_t)c->batch};
    const orr_train_options options = {.model = &model,
                                       .plan = &plan,
                                       .workload = &workload,
                                       .tables = tables,
                                       .store = store,
                                       .steps = TRAINED_STEPS,
                                       .rate = 0.05,
                                       .seed = c->seed,
                                       .clip = 0.1,
                                       .threads = threads,
                                       .rate_schedule = ORR_LEARNING_RATE_CONSTANT};
    training t = {.arena = orr_arena_new(0, 0)};
    orr_error err = {0};
    if (orr_train(&options, t.arena, &t.result, &err) != ORR_OK)
        seed_fail(c->seed, "%u ranks: %s", tables->ranks, err.text);
    assert_int_equal(t.result.steps, TRAINED_STEPS);
    return t;
}

static training train(const table_case *c, const orr_embedding_plan *tables, int threads)
{
    return train_with(c, tables, NULL, threads);
}

static void compare(const table_case *c, const orr_embedding_plan *tables, const training *one,
                    const training *many)
{
    for (int i = 0; i < TRAINED_STEPS; i++) {
        const orr_train_step *a = &one->result.history[i], *b = &many->result.history[i];
        if (memcmp(&a->loss, &b->loss, sizeof a->loss) != 0 ||
            memcmp(&a->gradient_norm, &b->gradient_norm, sizeof a->gradient_norm) != 0)
            seed_fail(c->seed, "%u ranks, pipeline %u, step %d: loss %a and norm %a, not %a and %a",
                      tables->ranks, tables->pipeline, i + 1, b->loss, b->gradient_norm, a->loss,
                      a->gradient_norm);
    }
    if (one->result.state_digest != many->result.state_digest)
        seed_fail(c->seed, "%u ranks, pipeline %u: another state", tables->ranks, tables->pipeline);
}

static void any_sharding_has_the_bits_of_one_rank(void **state)
{
    (void)state;
    const seed_range range = seeds(12);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        const table_case c = table_case_of(seed);
        orr_random r = orr_random_of(seed, 7);
        orr_arena *arena = orr_arena_new(0, 0);
        orr_embedding_plan plan;
        assert_int_equal(orr_embedding_plan_default(c.tables, c.n_tables, 1, arena, &plan, NULL),
                         ORR_OK);
        const training one = train(&c, &plan, 1);
        for (uint32_t ranks = 1; ranks <= RANKS_MOST; ranks++) {
            plan = random_table_plan(&c, ranks, &r, arena);
            training many = train(&c, &plan, 1 + (int)(seed + ranks) % 2);
            compare(&c, &plan, &one, &many);
            orr_arena_free(many.arena);
        }
        orr_arena_free(one.arena);
        orr_arena_free(arena);
    }
}

/* What travels in fewer bits is the same with other threads and another pipeline. */
static void any_codec_repeats_its_bits(void **state)
{
    (void)state;
    const seed_range range = seeds(6);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        const table_case c = table_case_of(seed);
        orr_random r = orr_random_of(seed, 8);
        orr_arena *arena = orr_arena_new(0, 0);
        orr_embedding_plan plan = random_table_plan(&c, 2 + (uint32_t)seed % 2, &r, arena);
        plan.forward = (uint8_t)orr_random_below(&r, ORR_EMBEDDING_CODECS);
        plan.backward = (uint8_t)orr_random_below(&r, ORR_EMBEDDING_CODECS);
        plan.pipeline = 0;
        const training first = train(&c, &plan, 1);
        plan.pipeline = 1 + (uint8_t)orr_random_below(&r, 3);
        const training second = train(&c, &plan, 2);
        compare(&c, &plan, &first, &second);
        orr_arena_free(first.arena);
        orr_arena_free(second.arena);
        orr_arena_free(arena);
    }
}

/* Rows that live on devices, known up to 8 batches ahead, are the same; their files are gone in the
 * end. */
static void any_tier_has_the_bits_of_memory(void **state)
{
    char folder[] = "/tmp/orrery-rows-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(folder));
    const seed_range range = seeds(8);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        const table_case c = table_case_of(seed);
        orr_random r = orr_random_of(seed, 11);
        orr_arena *arena = orr_arena_new(0, 0);
        orr_embedding_plan plan = random_table_plan(&c, 1 + (uint32_t)seed % RANKS_MOST, &r, arena);
        const training memory = train(&c, &plan, 1);
        int64_t bytes = 1 << 22;
        for (uint32_t t = 0; t < c.n_tables; t++) {
            ((orr_embedding_placement *)(uintptr_t)plan.placements)[t].tier =
                (uint8_t)orr_random_below(&r, ORR_TIERS);
            bytes += orr_embedding_bytes(&c.tables[t]) / 2 +
                     (plan.placements[t].tier == ORR_TIER_DRAM) * orr_embedding_bytes(&c.tables[t]);
        }
        plan.pipeline = (uint8_t)orr_random_below(&r, 4);
        plan.lookahead = (uint32_t)orr_random_below(&r, 9);
        const orr_train_store store = {.folder = folder,
                                       .byte_folder = orr_random_below(&r, 2) == 0 ? folder : NULL,
                                       .byte_node = -1,
                                       .memory_bytes = bytes,
                                       .policy = (uint8_t)orr_random_below(&r, 3)};
        const training tiers = train_with(&c, &plan, &store, 1 + (int)seed % 2);
        compare(&c, &plan, &memory, &tiers);
        orr_arena_free(memory.arena);
        orr_arena_free(tiers.arena);
        orr_arena_free(arena);
    }
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_sharding_has_the_bits_of_one_rank),
                                       cmocka_unit_test(any_tier_has_the_bits_of_memory),
                                       cmocka_unit_test(any_codec_repeats_its_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
