/* SPDX-License-Identifier: Apache-2.0 */
#include "small_module.h"

static double cache(const orr_model *model, orr_plan plan, uint32_t layer, uint64_t tokens,
                    uint64_t samples)
{
    const orr_plan completed = orr_plan_with_defaults(&plan);
    return orr_kv_cache_bytes(model, &completed, layer, tokens, samples);
}

static void assert_cache(double bytes, int64_t expected)
{
    assert_true(bytes == (double)expected);
}

/* 2 (keys, values) x heads x head size x 2 bytes x tokens x samples. */
static void heads_are_dealt_to_slices(void **state)
{
    (void)state;
    const orr_model model = {.layers = 80, .heads = 64, .kv_heads = 8, .head_dim = 128};
    assert_cache(cache(&model, (orr_plan){.tp = 1}, 0, 1, 1), 2 * 8 * 128 * 2);
    assert_cache(cache(&model, (orr_plan){.tp = 8}, 0, 1000, 4), 2 * 1 * 128 * 2 * 4000);
    /* More slices than heads: each has a whole one. */
    assert_cache(cache(&model, (orr_plan){.tp = 16}, 0, 1000, 4), 2 * 1 * 128 * 2 * 4000);
    assert_cache(cache(&model, (orr_plan){.tp = 8, .cp = 2}, 0, 1000, 4), 2 * 1 * 128 * 2 * 2000);
    assert_cache(cache(&model, (orr_plan){.precision = ORR_PRECISION_FP32}, 0, 1, 1),
                 2 * 8 * 128 * 4);
}

static void latent_attention_keeps_the_latent(void **state)
{
    (void)state;
    const orr_model model = {.layers = 61,
                             .heads = 128,
                             .kv_heads = 128,
                             .head_dim = 128,
                             .mla = {.kv_rank = 512, .rope_dim = 64}};
    assert_cache(cache(&model, (orr_plan){.tp = 8}, 0, 10, 1), (512 + 64) * 2 * 10);
}

static void a_chunked_layer_keeps_a_chunk(void **state)
{
    (void)state;
    const orr_model model = {.layers = 48,
                             .heads = 40,
                             .kv_heads = 8,
                             .head_dim = 128,
                             .chunk = 8192,
                             .global_every = 4};
    const int64_t token = 2 * 8 * 128 * 2;
    assert_cache(cache(&model, (orr_plan){.tp = 1}, 0, 100000, 1), token * 8192);
    assert_cache(cache(&model, (orr_plan){.tp = 1}, 0, 5000, 1), token * 5000);
    assert_true(orr_model_layer_global(&model, 3));
    assert_cache(cache(&model, (orr_plan){.tp = 1}, 3, 100000, 1), token * 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_are_dealt_to_slices),
        cmocka_unit_test(latent_attention_keeps_the_latent),
        cmocka_unit_test(a_chunked_layer_keeps_a_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
