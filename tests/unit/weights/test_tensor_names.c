/* SPDX-License-Identifier: Apache-2.0 */
/* Architectures of which no golden checkpoint is at hand: what is written from numbers is read
 * again, under the names that transformers has. */
#include "files.h"

#include "model/module/module.h"

static const char DEEPSEEK[] =
    "{\"architectures\":[\"DeepseekV3ForCausalLM\"],\"hidden_size\":32,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":2,\"vocab_size\":48,\"max_position_embeddings\":64,"
    "\"intermediate_size\":40,\"moe_intermediate_size\":24,\"n_routed_experts\":4,"
    "\"num_experts_per_tok\":2,\"n_shared_experts\":1,\"first_k_dense_replace\":1,\"n_group\":2,"
    "\"topk_group\":1,\"q_lora_rank\":16,\"kv_lora_rank\":8,\"qk_nope_head_dim\":8,"
    "\"qk_rope_head_dim\":4,\"v_head_dim\":8}";
static const char MISTRAL[] =
    "{\"architectures\":[\"MistralForCausalLM\"],\"hidden_size\":32,\"num_hidden_layers\":1,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":48,"
    "\"max_position_embeddings\":64,\"intermediate_size\":40,\"sliding_window\":16}";

/* A number that says where it is from, small enough to be exact. */
static float number_of(const orr_weight_key *key, int64_t i)
{
    uint32_t hash = key->layer * 31 + key->nth * 7 + key->module;
    for (const char *c = key->name; *c != '\0'; c++)
        hash = hash * 131 + (uint8_t)*c;
    return (float)((hash + (uint64_t)i * 2654435761u) % 1048573);
}

static float numbers[1 << 16];

static orr_status make_parameter(void *ctx, const orr_weight_key *key, const orr_type *type,
                                 const float **ret, orr_error *err)
{
    (void)ctx, (void)err;
    const int64_t n = orr_type_elements(type);
    assert_true(n <= (int64_t)(sizeof numbers / sizeof *numbers));
    for (int64_t i = 0; i < n; i++)
        numbers[i] = number_of(key, i);
    *ret = numbers;
    return ORR_OK;
}

static void must_be_what_was_made(const opened *o, const orr_weight_key *key, const orr_type *type)
{
    const int64_t n = orr_type_elements(type);
    orr_error err = {.text = ""};
    if (orr_weights_read(o->weights, o->model, key, type, numbers, &err) != ORR_OK)
        fail_msg("%s: %s", key->name, err.text);
    for (int64_t i = 0; i < n; i++)
        if (numbers[i] != number_of(key, i))
            fail_msg("%s of layer %u: number %lld", key->name, key->layer, (long long)i);
}

static void must_be_whole(const opened *o)
{
    const orr_workload workload = {.task = ORR_TASK_PREFILL};
    const orr_plan given = {.seq = 4, .precision = ORR_PRECISION_FP32};
    const orr_plan plan = orr_plan_with_defaults(&given);
    orr_module_sequence row;
    uint32_t layers = 0;
    assert_int_equal(orr_modules_build(o->model, &plan, &workload, o->arena, &row, NULL), ORR_OK);
    for (uint32_t p = 0; p < row.n; p++) {
        const orr_module *m = &row.modules[row.module_of[p]];
        orr_weight_key key = {.module = m->kind};
        if (m->kind == ORR_MODULE_LAYER || m->kind == ORR_MODULE_MOE_LAYER)
            key.layer = layers++;
        for (orr_value v = 0; v < m->tape->n_values; v++) {
            const orr_tape_value *value = &m->tape->values[v];
            if (value->role != ORR_VALUE_PARAMETER)
                continue;
            key.name = value->name;
            key.nth = 0;
            for (orr_value u = 0; u < v; u++)
                key.nth += m->tape->values[u].role == ORR_VALUE_PARAMETER &&
                           strcmp(m->tape->values[u].name, key.name) == 0;
            must_be_what_was_made(o, &key, &value->type);
        }
    }
}

/* The model of a config.json, with `interleaved` pairs; written, and read again. */
static opened written(const char *config, bool interleaved, const char *folder)
{
    const orr_parameter_reader reader = {make_parameter, NULL};
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_model *model;
    orr_error err = {.text = ""};
    write_bytes(in_scratch("given.json"), config, strlen(config));
    if (orr_model_load(in_scratch("given.json"), arena, &model, &err) != ORR_OK)
        fail_msg("%s", err.text);
    orr_model turned = *model;
    turned.rope_interleaved = interleaved;
    if (orr_weights_save(&turned, &reader, ORR_ROW_FORMAT_FP32, in_scratch(folder), 0, &err) !=
        ORR_OK)
        fail_msg("%s", err.text);
    opened o = open_at(in_scratch(folder));
    orr_model *again = orr_arena_one(o.arena, orr_model);
    *again = *o.model;
    again->rope_interleaved = interleaved;
    o.model = again;
    orr_arena_free(arena);
    return o;
}

static void latent_attention_is_written_and_read(void **state)
{
    (void)state;
    static const char *const names[] = {"model.layers.0.self_attn.q_a_proj.weight",
                                        "model.layers.1.self_attn.kv_a_proj_with_mqa.weight",
                                        "model.layers.1.mlp.gate.e_score_correction_bias",
                                        "model.layers.1.mlp.experts.3.down_proj.weight",
                                        "model.layers.1.mlp.shared_experts.up_proj.weight",
                                        "model.layers.0.mlp.gate_proj.weight"};
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        opened o = written(DEEPSEEK, interleaved == 1, "deepseek");
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (orr_weights_find(o.weights, names[i]) == NULL)
                fail_msg("%s is missing", names[i]);
        must_be_whole(&o);
        close_it(&o);
    }
}

static void windows_that_slide_are_mistral(void **state)
{
    (void)state;
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        opened o = written(MISTRAL, interleaved == 1, "mistral");
        assert_string_equal(o.model->family, "MistralForCausalLM");
        must_be_whole(&o);
        close_it(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latent_attention_is_written_and_read),
        cmocka_unit_test(windows_that_slide_are_mistral),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
