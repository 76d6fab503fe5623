/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/engine.h>

#include "../support/seeds.h"
#include "base/array.h"
#include "kernel/cpu/simd/cpu_level.h"

/* A sequence's tokens, and their log-probabilities to the last bit, depend on the sequence alone:
 * not on those that are decoded beside it, nor on threads, nor on where its prompt is cut. */
enum { PROMPTS = 9, TOKENS_MOST = 530, MOST = 6, CONTEXT = 540, VOCAB = 52 };

/* Sums over more than one block of K (1056 numbers). Attention of some layers is cut to chunks. */
static orr_model mixture_of_experts(uint64_t seed)
{
    return (orr_model){
        .name = "mixture",
        .family = "llama",
        .kind = ORR_MODEL_TRANSFORMER,
        .layers = 3,
        .hidden = 64,
        .ffn = 1056,
        .heads = 4,
        .kv_heads = seed % 2 == 0 ? 4 : 2,
        .head_dim = 16,
        .vocab = VOCAB,
        .context = CONTEXT,
        .rope_theta = 1e4,
        .position = ORR_POSITION_ROTARY,
        .norm_epsilon = 1e-5,
        .final_norm = true,
        .tied = seed % 3 == 0,
        .chunk = seed % 2 == 0 ? 0 : 300,
        .global_every = seed % 2 == 0 ? 0 : 2,
        .moe = {.experts = 8, .top_k = seed % 3 == 1 ? 1 : 2, .expert_ffn = 1056, .every = 1},
        .source = "small"};
}

typedef struct way {
    bool fp32;
    orr_row_format format; /* ORR_ROW_FORMATS: bf16 */
} way;

typedef struct world {
    uint64_t seed;
    way way;
    orr_model model;
    orr_arena *arena;
    int32_t tokens[PROMPTS][TOKENS_MOST + MOST];
    orr_prompt prompts[PROMPTS];
} world;

static orr_generator *opened(const world *w, uint32_t batch, int threads)
{
    const orr_generator_options options = {.model = &w->model,
                                           .format = w->way.format,
                                           .fp32 = w->way.fp32,
                                           .context = CONTEXT,
                                           .batch = batch,
                                           .threads = threads,
                                           .seed = w->seed};
    orr_generator *g = NULL;
    orr_error err = {0};
    if (orr_generator_open(&options, &g, &err) != ORR_OK)
        seed_fail(w->seed, "%s", err.text);
    return g;
}

static void generate(const world *w, orr_generator *g, const orr_prompt *prompts, uint32_t n,
                     int64_t most, orr_generated *ret)
{
    const orr_sampling greedy = {.most = most};
    orr_error err = {0};
    if (orr_generate(g, prompts, n, &greedy, NULL, NULL, w->arena, ret, NULL, &err) != ORR_OK)
        seed_fail(w->seed, "%s", err.text);
}

static void hold_same(const world *w, uint32_t prompt, const orr_generated *alone,
                      const orr_generated *beside, uint32_t batch, int threads)
{
    if (alone->n != beside->n ||
        memcmp(alone->tokens, beside->tokens, alone->n * sizeof *alone->tokens) != 0 ||
        memcmp(&alone->log_probability, &beside->log_probability, sizeof(double)) != 0)
        seed_fail(w->seed,
                  "%s, %s, %s: prompt %u of %zu tokens, %u at once, %d threads: log-probability "
                  "%.17g, alone %.17g",
                  orr_cpu_level_name(orr_cpu_level()), w->way.fp32 ? "fp32" : "bf16",
                  w->way.format < ORR_ROW_FORMATS ? orr_row_format_name(w->way.format) : "as is",
                  prompt, w->prompts[prompt].n, batch, threads, beside->log_probability,
                  alone->log_probability);
}

static void prompts_beside_others(const world *w, const orr_generated *alone)
{
    static const struct {
        uint32_t batch;
        int threads;
    } runs[] = {{2, 1}, {3, 4}, {5, 2}, {9, 3}};
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
        orr_generator *g = opened(w, runs[r].batch, runs[r].threads);
        orr_generated beside[PROMPTS];
        generate(w, g, w->prompts, PROMPTS, MOST, beside);
        for (uint32_t p = 0; p < PROMPTS; p++)
            hold_same(w, p, &alone[p], &beside[p], runs[r].batch, runs[r].threads);
        orr_generator_close(g);
    }
}

/* A prompt with what was generated: the logits of its first tokens alone. The longest has two
 * chunks of prefill. */
static void prompt_cut_anywhere(world *w, orr_generator *g, uint32_t p, const orr_generated *alone)
{
    static const size_t cuts[] = {1, 7, 33};
    const size_t n = w->prompts[p].n, all = n + alone->n;
    memcpy(w->tokens[p] + n, alone->tokens, alone->n * sizeof *alone->tokens);
    float *whole = orr_arena_array(w->arena, float, all *VOCAB);
    float *part = orr_arena_array(w->arena, float, all *VOCAB);
    orr_error err = {0};
    assert_true(whole != NULL && part != NULL);
    const orr_prompt prompt = {.tokens = w->tokens[p], .n = all};
    assert_int_equal(orr_logits(g, &prompt, whole, &err), ORR_OK);
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        const orr_prompt cut = {.tokens = w->tokens[p], .n = all > cuts[c] ? all - cuts[c] : 1};
        assert_int_equal(orr_logits(g, &cut, part, &err), ORR_OK);
        if (memcmp(part, whole, cut.n * VOCAB * sizeof *part) != 0)
            seed_fail(w->seed, "prompt %u: logits of its first %zu of %zu tokens differ", p, cut.n,
                      all);
    }
}

/* A token decoded after others is as likely as after a prefill of the same, and as it is scored. */
static void prompt_scored(const world *w, orr_generator *g, uint32_t p, const orr_generated *alone)
{
    const size_t n = w->prompts[p].n, all = n + alone->n;
    float *score = orr_arena_array(w->arena, float, all);
    orr_error err = {0};
    double sum = 0;
    assert_non_null(score);
    const orr_prompt prompt = {.tokens = w->tokens[p], .n = all};
    assert_int_equal(orr_score(g, &prompt, score, &err), ORR_OK);
    for (size_t i = 0; i < alone->n; i++) {
        const orr_prompt before = {.tokens = w->tokens[p], .n = n + i};
        orr_generated next;
        generate(w, g, &before, 1, 1, &next);
        sum += next.log_probability;
        assert_int_equal(next.tokens[0], alone->tokens[i]);
        if ((float)next.log_probability != score[n + i - 1])
            seed_fail(w->seed, "prompt %u: token %zu is scored otherwise than it was generated", p,
                      i);
    }
    assert_memory_equal(&sum, &alone->log_probability, sizeof sum);
}

static void hold_way(uint64_t seed, way how)
{
    static world w;
    orr_generated alone[PROMPTS];
    orr_random random = orr_random_of(seed, 21);
    w = (world){
        .seed = seed, .way = how, .model = mixture_of_experts(seed), .arena = orr_arena_new(0, 0)};
    for (uint32_t p = 0; p < PROMPTS; p++) {
        const uint64_t below = p == 0 ? TOKENS_MOST : p == 1 ? 300 : 20;
        w.prompts[p] = (orr_prompt){.tokens = w.tokens[p],
                                    .n = p == 0 ? below : 1 + orr_random_below(&random, below)};
        for (size_t i = 0; i < w.prompts[p].n; i++)
            w.tokens[p][i] = (int32_t)orr_random_below(&random, VOCAB);
    }
    orr_generator *g = opened(&w, 1, 1);
    for (uint32_t p = 0; p < PROMPTS; p++)
        generate(&w, g, &w.prompts[p], 1, MOST, &alone[p]);
    prompts_beside_others(&w, alone);
    for (uint32_t p = 0; p < 3; p++) {
        prompt_cut_anywhere(&w, g, p, &alone[p]);
        if (p > 0)
            prompt_scored(&w, g, p, &alone[p]);
    }
    orr_generator_close(g);
    orr_arena_free(w.arena);
}

static void hold_ways(void **state)
{
    static const way ways[] = {{true, ORR_ROW_FORMATS},
                               {false, ORR_ROW_FORMATS},
                               {false, ORR_ROW_FORMAT_INT8},
                               {true, ORR_ROW_FORMAT_Q8_0},
                               {false, ORR_ROW_FORMAT_Q4_0}};
    const orr_cpu_level_id level = *(const orr_cpu_level_id *)*state;
    orr_cpu_level_limit(level);
    if (orr_cpu_level() != level) {
        orr_cpu_level_limit(ORR_CPU_LEVELS);
        print_message("this processor has no %s\n", orr_cpu_level_name(level));
        skip();
    }
    const uint64_t seed = seeds(level + 1).end - 1; /* another one at each level */
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        hold_way(seed, ways[i]);
    orr_cpu_level_limit(ORR_CPU_LEVELS);
}

int main(void)
{
    static orr_cpu_level_id levels[ORR_CPU_LEVELS];
    struct CMUnitTest tests[ORR_CPU_LEVELS];
    for (int i = 0; i < ORR_CPU_LEVELS; i++) {
        levels[i] = (orr_cpu_level_id)i;
        tests[i] =
            (struct CMUnitTest){orr_cpu_level_name(levels[i]), hold_ways, NULL, NULL, &levels[i]};
    }
    return cmocka_run_group_tests_name("property/generate_batches", tests, NULL, NULL);
}
