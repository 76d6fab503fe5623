/* SPDX-License-Identifier: Apache-2.0 */
#include "model_text.h"

static const orr_model *changed(const char *name, const orr_plan *plan)
{
    const orr_model *model = NULL;
    orr_error err = {0};
    if (orr_model_override(load(name), plan, arena, &model, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return model;
}

static void nothing_to_change(void **state)
{
    (void)state;
    const orr_model *m = load("llama3-8b"), *same = NULL;
    const orr_plan plan = {.layers = 32, .heads = 32, .tp = 8, .seq = 4096};
    assert_int_equal(orr_model_override(m, &plan, arena, &same, NULL), ORR_OK);
    assert_ptr_equal(same, m);
}

static void fewer_layers(void **state)
{
    (void)state;
    const orr_model *m = changed("llama3-70b", &(orr_plan){.layers = 12});
    assert_int_equal(m->layers, 12);
    assert_int_equal(m->hidden, 8192);
    assert_int_equal(m->published_parameters, 0);
    assert_int_equal(part_of(m, "attention").count, 12);
    assert_int_equal(changed("llama3.2-11b-vision", &(orr_plan){.layers = 10})->cross_layers, 2);
    assert_int_equal(orr_model_moe_layers(changed("deepseek-v2", &(orr_plan){.layers = 4})), 3);
}

/* A wider model has more heads of the same width, and a wider feed-forward part. */
static void hidden_takes_the_rest_along(void **state)
{
    (void)state;
    const orr_model *gpt = changed("gpt3-175b", &(orr_plan){.hidden = 6144});
    assert_int_equal(gpt->heads, 48);
    assert_int_equal(gpt->kv_heads, 48);
    assert_int_equal(gpt->head_dim, 128);
    assert_int_equal(gpt->ffn, 24576);
    const orr_model *llama = changed("llama3-8b", &(orr_plan){.hidden = 8192, .ffn = 28672});
    assert_int_equal(llama->heads, 64);
    assert_int_equal(llama->kv_heads, 8);
    assert_int_equal(llama->ffn, 28672);
    assert_int_equal(changed("mixtral-8x7b", &(orr_plan){.ffn = 1024})->moe.expert_ffn, 1024);
}

/* 1024 columns and 16 heads: heads of 64. */
static void heads_share_the_hidden_size(void **state)
{
    (void)state;
    const orr_plan plan = {.layers = 24, .hidden = 1024, .heads = 16, .vocab = 51200};
    const orr_model *m = changed("megatron-1.7b", &plan);
    assert_int_equal(m->head_dim, 64);
    assert_int_equal(m->kv_heads, 16);
    assert_int_equal(m->ffn, 4096);
    assert_int_equal(m->vocab, 51200);
}

static void assert_refused_change(const char *name, const orr_plan *plan, const char *message)
{
    const orr_model *model = NULL;
    orr_error err = {0};
    assert_int_equal(orr_model_override(load(name), plan, arena, &model, &err), ORR_INVALID);
    assert_string_equal(err.text, message);
    assert_null(model);
}

static void what_does_not_divide(void **state)
{
    (void)state;
    assert_refused_change("gpt3-175b", &(orr_plan){.heads = 7},
                          "a hidden size of 12288 does not divide into 7 heads");
    assert_refused_change("gpt3-175b", &(orr_plan){.hidden = 1000},
                          "a hidden size of 1000 instead of 12288 does not give a whole number of "
                          "heads from 96: say it too");
    assert_refused_change("llama3-8b", &(orr_plan){.heads = 4},
                          "4 heads cannot share 8 heads of keys and values evenly");
    assert_refused_change(
        "resnet50", &(orr_plan){.layers = 4},
        "layers, hidden, ffn, heads and vocab are of a transformer whose shape is "
        "known, which 'resnet50' is not");
    assert_refused_change("gpt3-175b", &(orr_plan){.layers = 1000000000},
                          "layers=1000000000 is more than 16384");
    assert_refused_change("gpt3-175b", &(orr_plan){.ffn = UINT32_MAX},
                          "ffn=4294967295 is more than 16777216");
    assert_refused_change("gpt3-175b",
                          &(orr_plan){.layers = 16384, .hidden = 12582912, .ffn = 16777216},
                          "model 'gpt3-175b' has more parameters than 63 bits count");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_to_change),
        cmocka_unit_test(fewer_layers),
        cmocka_unit_test(hidden_takes_the_rest_along),
        cmocka_unit_test(heads_share_the_hidden_size),
        cmocka_unit_test(what_does_not_divide),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
