/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include <orrery/orrery.h>

#include "golden.h"

/* Models of each family as they serve, held against transformers: logits of every token of a
 * prompt, greedy continuations through the cache, alone and side by side. */
#define TOLERANCE 1e-4

typedef struct served {
    orr_arena *arena;
    orr_weights *weights, *golden;
    const orr_model *model;
    orr_generator *generator;
    golden_prompt prompts[GOLDEN_PROMPTS];
    size_t n;
} served;

static void open_family(served *s, const char *family, uint32_t batch)
{
    orr_error err;
    *s = (served){.arena = orr_arena_new(0, 0)};
    assert_non_null(s->arena);
    if (orr_weights_open(golden_path(family, ""), &s->weights, &err) != ORR_OK ||
        orr_weights_open(golden_path(family, "golden.safetensors"), &s->golden, &err) != ORR_OK ||
        orr_model_of_weights(s->weights, s->arena, &s->model, &err) != ORR_OK)
        fail_msg("%s: %s", family, err.text);
    s->n = golden_prompts(family, s->prompts);
    assert_true(s->n > 0);
    const orr_generator_options options = {.model = s->model,
                                           .weights = s->weights,
                                           .format = ORR_ROW_FORMATS,
                                           .fp32 = true,
                                           .context = 64,
                                           .batch = batch,
                                           .threads = 2};
    if (orr_generator_open(&options, &s->generator, &err) != ORR_OK)
        fail_msg("%s: %s", family, err.text);
}

static void close_family(served *s)
{
    orr_generator_close(s->generator);
    orr_weights_close(s->weights);
    orr_weights_close(s->golden);
    orr_arena_free(s->arena);
}

static orr_prompt prompt_of(const served *s, size_t i)
{
    return (orr_prompt){.tokens = s->prompts[i].tokens, .n = s->prompts[i].n};
}

static void check_logits(served *s, const char *family)
{
    for (size_t i = 0; i < s->n; i++) {
        const orr_prompt prompt = prompt_of(s, i);
        char name[32];
        orr_error err;
        snprintf(name, sizeof name, "logits.%zu", i);
        const orr_weight *want = orr_weights_find(s->golden, name);
        assert_non_null(want);
        const int64_t n = want->dim[0] * want->dim[1];
        assert_int_equal(want->dim[0], prompt.n);
        float *logits = orr_arena_array(s->arena, float, (size_t)n);
        if (orr_logits(s->generator, &prompt, logits, &err) != ORR_OK)
            fail_msg("%s: %s", family, err.text);
        double most = 0;
        for (int64_t k = 0; k < n; k++) {
            const double off = fabs((double)(logits[k] - ((const float *)want->data)[k]));
            if (isnan(off) || off > most) /* A NaN stays the largest, where fmax() would drop it. */
                most = off;
        }
        print_message("# %s, prompt %zu: logits within %.2g\n", family, i, most);
        assert_true(most <= TOLERANCE);
    }
}

static void check_scores(served *s)
{
    const orr_prompt prompt = prompt_of(s, 1);
    const orr_weight *want = orr_weights_find(s->golden, "logits.1");
    float scores[GOLDEN_TOKENS];
    assert_int_equal(orr_score(s->generator, &prompt, scores, NULL), ORR_OK);
    for (size_t t = 0; t + 1 < prompt.n; t++) {
        const float *row = (const float *)want->data + t * (size_t)want->dim[1];
        double sum = 0;
        for (int64_t v = 0; v < want->dim[1]; v++)
            sum += exp((double)row[v]);
        assert_true(fabs(row[prompt.tokens[t + 1]] - log(sum) - (double)scores[t]) < 2 * TOLERANCE);
    }
}

/* All prompts at once; `batch` of them side by side. */
static void check_greedy(served *s)
{
    orr_prompt prompts[GOLDEN_PROMPTS];
    orr_generated results[GOLDEN_PROMPTS];
    orr_error err;
    for (size_t i = 0; i < s->n; i++)
        prompts[i] = prompt_of(s, i);
    const orr_sampling sampling = {.most = (int64_t)s->prompts[0].n_greedy};
    if (orr_generate(s->generator, prompts, (uint32_t)s->n, &sampling, NULL, NULL, s->arena,
                     results, NULL, &err) != ORR_OK)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < s->n; i++) {
        assert_int_equal(results[i].n, s->prompts[i].n_greedy);
        assert_memory_equal(results[i].tokens, s->prompts[i].greedy,
                            results[i].n * sizeof(int32_t));
        assert_true(results[i].log_probability < 0);
    }
}

static void check_family(const char *family)
{
    for (uint32_t batch = 1; batch <= 3; batch++) {
        served s;
        open_family(&s, family, batch);
        if (batch == 1) {
            check_logits(&s, family);
            check_scores(&s);
        }
        check_greedy(&s);
        close_family(&s);
    }
}

#define FAMILY(name)                                                                               \
    static void name##_agrees(void **state)                                                        \
    {                                                                                              \
        (void)state;                                                                               \
        check_family(#name);                                                                       \
    }
FAMILY(llama2)
FAMILY(llama3)
FAMILY(llama4)
FAMILY(mixtral)
FAMILY(qwen2)
FAMILY(qwen3)
FAMILY(qwen3_moe)
FAMILY(gpt2)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama2_agrees),    cmocka_unit_test(llama3_agrees),
        cmocka_unit_test(llama4_agrees),    cmocka_unit_test(mixtral_agrees),
        cmocka_unit_test(qwen2_agrees),     cmocka_unit_test(qwen3_agrees),
        cmocka_unit_test(qwen3_moe_agrees), cmocka_unit_test(gpt2_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
