/* SPDX-License-Identifier: Apache-2.0 */
#include "model_text.h"

#include <math.h>

static void parts_add_up(void **state)
{
    (void)state;
    orr_models all;
    assert_int_equal(orr_models_open(arena, &all, NULL), ORR_OK);
    for (uint32_t i = 0; i < all.n; i++) {
        if (all.models[i]->incomplete)
            continue;
        const orr_model_size size = size_of(all.models[i]);
        int64_t total = 0, active = 0;
        for (uint32_t k = 0; k < size.n; k++) {
            const orr_model_part *part = &size.parts[k];
            total += (int64_t)part->count * part->each;
            active += part->active;
            assert_true(part->active <= (int64_t)part->count * part->each);
        }
        assert_int_equal(size.total, total);
        assert_int_equal(size.active, active);
        assert_true(size.matmul > 0 && size.n > 1);
    }
}

static void assert_part(const orr_model *model, const char *name, uint64_t count, int64_t each,
                        int64_t active)
{
    const orr_model_part part = part_of(model, name);
    if (part.count != count || part.each != each || part.active != active)
        fail_msg("%s of %s: %llu of %lld, %lld active", name, model->name,
                 (unsigned long long)part.count, (long long)part.each, (long long)part.active);
}

/* Products by hand, from the shapes of the papers. */
static void parts_of_llama(void **state)
{
    (void)state;
    const orr_model *m = load("llama3-8b");
    assert_part(m, "embedding", 1, 525336576, 525336576);
    assert_part(m, "attention", 32, 41943040, 32LL * 41943040);
    assert_part(m, "mlp", 32, 176160768, 32LL * 176160768);
    assert_part(m, "norms", 65, 4096, 65 * 4096);
    assert_part(m, "head", 1, 525336576, 525336576);
    assert_int_equal(size_of(m).matmul, 8030261248 - 525336576 - 65 * 4096);
    assert_int_equal(part_of(load("llama3.2-1b"), "head").count, 0);
}

static void parts_of_scout(void **state)
{
    (void)state;
    const orr_model *m = load("llama4-scout");
    assert_part(m, "experts", 48 * 16, 125829120, 48LL * 125829120);
    assert_part(m, "shared experts", 48, 125829120, 48LL * 125829120);
    assert_part(m, "router", 48, 81920, 48LL * 81920);
    assert_part(m, "vision", 1, 871932416, 0);
    assert_int_equal(part_of(m, "mlp").count, 0);
    assert_int_equal(part_of(load("llama4-maverick"), "mlp").count, 24);
}

static void parts_of_deepseek(void **state)
{
    (void)state;
    const orr_model *m = load("deepseek-v3");
    const int64_t attention = 7168 * 1536 + 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 +
                              512 * 128 * 256 + 128 * 128 * 7168;
    assert_part(m, "attention", 61, attention, 61 * attention);
    assert_part(m, "router", 58, 7168 * 256 + 256, 58LL * (7168 * 256 + 256));
    assert_part(m, "experts", 58 * 256, 3 * 7168 * 2048, 58LL * 8 * 3 * 7168 * 2048);
    assert_part(m, "mlp", 3, 3LL * 7168 * 18432, 9LL * 7168 * 18432);
    /* A layer, a projection of two streams into one, and three norms more. */
    assert_int_equal(size_of(m).mtp, attention + 257LL * 3 * 7168 * 2048 + 7168 * 256 + 256 +
                                         2LL * 7168 * 7168 + 5LL * 7168);
}

/* Narayanan et al., arXiv 2104.04473, equation 2, and the two vectors of the last norm. */
static void gpt_is_its_closed_form(void **state)
{
    (void)state;
    const char *const names[] = {"megatron-1.7b", "megatron-39b", "megatron-1t", "gpt3-175b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const orr_model *m = load(names[i]);
        const int64_t l = m->layers, h = m->hidden, v = m->vocab, s = m->positions;
        assert_int_equal(size_of(m).total, 12 * l * h * h + 13 * l * h + (v + s) * h + 2 * h);
    }
}

/* Its appendix: a quarter of 96 B s l h^2 with recomputation, the logits once. */
static void flops_are_their_closed_form(void **state)
{
    (void)state;
    const orr_model *m = load("megatron-39b");
    const double l = m->layers, h = m->hidden, v = m->vocab, s = 2048;
    const double products = 24 * s * l * h * h + 2 * s * h * v, pairs = 4 * s * s * l * h;
    const double full = orr_model_flops(m, 2048, true), causal = orr_model_flops(m, 2048, false);
    assert_true(fabs(full / (products + pairs) - 1) < 1e-12);
    assert_true(fabs(causal / (products + pairs / 2) - 1) < 1e-12);
}

static void chunks_see_less(void **state)
{
    (void)state;
    const orr_model *scout = load("llama4-scout"), *oss = load("gpt-oss-120b");
    const double seq = 20000, pair = 2 * 2.0 * 128 * 40;
    const double chunked = 2 * 8192.0 * 8192 + 3616.0 * 3616;
    const double scout_pairs = 12 * seq * seq + 36 * chunked;
    const double products = 2 * seq * (double)size_of(scout).matmul;
    const double got = orr_model_flops(scout, 20000, true);
    assert_true(fabs(got / (products + pair * scout_pairs) - 1) < 1e-12);
    /* A window that looks back sees 128 tokens, but for the first ones. */
    const double window = 1024 * 128.0 - 128 * 128 / 2.0;
    const double oss_pairs = 18 * 1024.0 * 1024 / 2 + 18 * window;
    const double oss_products = 2 * 1024 * (double)size_of(oss).matmul;
    const double oss_got = orr_model_flops(oss, 1024, false);
    assert_true(fabs(oss_got / (oss_products + 4.0 * 64 * 64 * oss_pairs) - 1) < 1e-12);
}

static void caches(void **state)
{
    (void)state;
    assert_true(orr_model_kv_cache_bytes(load("llama3-8b"), ORR_DTYPE_BF16) == 131072);
    assert_true(orr_model_kv_cache_bytes(load("deepseek-v3"), ORR_DTYPE_BF16) == 61 * 576 * 2);
    assert_true(orr_model_kv_cache_bytes(load("llama3-8b"), ORR_DTYPE_FP8) == 65536);
    assert_true(orr_model_kv_cache_bytes(load("llama3.2-11b-vision"), ORR_DTYPE_BF16) == 131072);
    assert_true(orr_model_kv_cache_bytes(load("resnet50"), ORR_DTYPE_BF16) == 0);
}

/* A tile of 576 patches and a class token through 34 layers, then 144 tokens through the adapter.
 */
static void pictures(void **state)
{
    (void)state;
    const double layer = 4.0 * 1408 * 1408 + 2.0 * 1408 * 5632;
    const double patch = 588.0 * 1408 + 34 * (layer + 2 * 577.0 * 1408);
    const double token = 5632.0 * 4096 + 4096.0 * 4096 + 4096.0 * 5120;
    const double want = 2 * 16 * (577 * patch + 144 * token);
    assert_true(fabs(orr_model_image_flops(load("llama4-scout")) / want - 1) < 1e-12);
    assert_true(orr_model_image_flops(load("llama3-8b")) == 0);
}

static void recommendation(void **state)
{
    (void)state;
    const orr_model *dcn = load("dlrm-dcnv2"), *dot = load("dlrm-criteo-kaggle");
    const int64_t columns = 27 * 128;
    assert_part(dcn, "tables", 204184588, 128, 214 * 128);
    assert_part(dcn, "bottom mlp", 1, 13 * 512 + 512 + 512 * 256 + 256 + 256 * 128 + 128,
                13 * 512 + 512 + 512 * 256 + 256 + 256 * 128 + 128);
    assert_part(dcn, "cross network", 1, 3 * (2 * columns * 512 + columns),
                3 * (2 * columns * 512 + columns));
    assert_part(dot, "tables", 33762577, 16, 26 * 16);
    /* 351 dot products of 16, and the products of the layers. */
    assert_true(orr_model_flops(dot, 0, true) == 2 * ((double)size_of(dot).matmul + 351.0 * 16));
}

/* Torchvision prints 25,557,032 parameters and 4.09 GFLOPS, of multiplications with their
 * additions. */
static void convolutions(void **state)
{
    (void)state;
    const orr_model *m = load("resnet50");
    assert_int_equal(size_of(m).total, 25557032);
    assert_true(fabs(orr_model_flops(m, 0, true) / 2e9 - 4.09) < 0.005);
}

static void what_is_not_published_is_not_measured(void **state)
{
    (void)state;
    orr_model_size size;
    orr_error err = {0};
    assert_int_equal(orr_model_count_parameters(load("llama4-behemoth"), arena, &size, &err),
                     ORR_UNSUPPORTED);
    assert_string_equal(err.text, "the shape of Llama 4 Behemoth (preview) is not published");
    assert_true(orr_model_flops(load("llama4-behemoth"), 8192, true) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(parts_of_llama),
        cmocka_unit_test(parts_of_scout),
        cmocka_unit_test(parts_of_deepseek),
        cmocka_unit_test(gpt_is_its_closed_form),
        cmocka_unit_test(flops_are_their_closed_form),
        cmocka_unit_test(chunks_see_less),
        cmocka_unit_test(caches),
        cmocka_unit_test(pictures),
        cmocka_unit_test(recommendation),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(what_is_not_published_is_not_measured),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
