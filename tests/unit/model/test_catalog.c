/* SPDX-License-Identifier: Apache-2.0 */
#include "model_text.h"

#include "../io/files.h"
#include "base/alloc.h"

static void the_catalogue_says_where_it_is_from(void **state)
{
    (void)state;
    orr_models all;
    assert_int_equal(orr_models_open(arena, &all, NULL), ORR_OK);
    assert_true(all.n > 70);
    for (uint32_t i = 0; i < all.n; i++) {
        const orr_model *m = all.models[i];
        assert_true(m->title[0] != '\0' && m->family[0] != '\0' && m->source[0] != '\0');
        for (uint32_t k = 0; k < m->n_notes; k++)
            assert_true(m->notes[k].what[0] != '\0' && m->notes[k].value[0] != '\0' &&
                        m->notes[k].source[0] != '\0');
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(all.models[k]->name, m->name);
    }
}

static void by_name_whatever_its_case(void **state)
{
    (void)state;
    assert_string_equal(load("llama3.1-405b")->title, "Llama 3.1 405B");
    assert_string_equal(load("LLAMA3.1_405B")->name, "llama3.1-405b");
    assert_string_equal(load("gpt3_175b")->name, "gpt3-175b");
}

static void a_name_that_is_not_there_has_a_neighbour(void **state)
{
    (void)state;
    const orr_model *model = NULL;
    orr_error err = {0};
    assert_int_equal(orr_model_load("lama3-8b", arena, &model, &err), ORR_NOT_FOUND);
    assert_string_equal(err.text, "no model 'lama3-8b'; did you mean 'llama3-8b'?");
    assert_int_equal(orr_model_load("zzzzzz", arena, &model, &err), ORR_NOT_FOUND);
    assert_string_equal(err.text,
                        "no model 'zzzzzz'; `orrery models` lists what there is, and a name with "
                        "a slash or ending in .yaml or .json is a file");
    assert_null(model);
}

static void a_file_may_be_like_the_catalogue(void **state)
{
    const char *path = in_folder(state, "mine.yaml");
    const char text[] = "models:\n  mine: {like: llama3-70b, layers: 8}\n";
    write_file(path, text, strlen(text));
    const orr_model *m = load(path);
    assert_string_equal(m->name, "mine");
    assert_string_equal(m->source, path);
    assert_int_equal(m->layers, 8);
    assert_int_equal(m->hidden, 8192);
    assert_int_equal(m->published_parameters, 0);
}

static void a_file_holds_one_model(void **state)
{
    const char *path = in_folder(state, "mine.yaml");
    const orr_model *model = NULL;
    orr_error err = {0};
    char want[5000];
    write_file(path, "models: {}\n", 11);
    (void)snprintf(want, sizeof want, "%s:1:1: has 0 models where one is needed", path);
    assert_int_equal(orr_model_load(path, arena, &model, &err), ORR_INVALID);
    assert_string_equal(err.text, want);
    const char text[] = "models:\n  a: {like: llama3-8b}\n  b: {like: a}\n";
    write_file(path, text, strlen(text));
    (void)snprintf(want, sizeof want, "%s:1:1: has 2 models where one is needed", path);
    assert_int_equal(orr_model_load(path, arena, &model, &err), ORR_INVALID);
    assert_string_equal(err.text, want);
    write_file(path, "models: [\n", 10);
    assert_int_equal(orr_model_load(path, arena, &model, &err), ORR_PARSE);
    assert_int_equal(orr_model_load("./none.yaml", arena, &model, &err), ORR_IO);
    assert_null(model);
}

static void a_folder_means_its_config(void **state)
{
    const char text[] = "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 64, "
                        "\"intermediate_size\": 256, \"num_hidden_layers\": 2, "
                        "\"num_attention_heads\": 4, \"vocab_size\": 100, "
                        "\"max_position_embeddings\": 128}";
    const char *path = in_folder(state, "config.json");
    write_file(path, text, strlen(text));
    assert_int_equal(load((const char *)*state)->hidden, 64);
    assert_string_equal(load((const char *)*state)->name, path);
}

static void layers_differ(void **state)
{
    (void)state;
    const orr_model *scout = load("llama4-scout"), *maverick = load("llama4-maverick");
    const orr_model *deepseek = load("deepseek-v3"), *vision = load("llama3.2-11b-vision");
    const orr_model *oss = load("gpt-oss-120b"), *plain = load("llama3-8b");
    assert_true(orr_model_layer_moe(scout, 0));
    assert_false(orr_model_layer_moe(maverick, 0));
    assert_true(orr_model_layer_moe(maverick, 47));
    assert_false(orr_model_layer_moe(deepseek, 2));
    assert_true(orr_model_layer_moe(deepseek, 3));
    assert_false(orr_model_layer_moe(plain, 3));
    assert_false(orr_model_layer_global(scout, 2));
    assert_true(orr_model_layer_global(scout, 3));
    assert_false(orr_model_layer_global(oss, 0));
    assert_true(orr_model_layer_global(oss, 1));
    assert_true(orr_model_layer_global(plain, 2));
    assert_true(orr_model_layer_cross(vision, 3) && orr_model_layer_cross(vision, 38));
    assert_false(orr_model_layer_cross(vision, 4));
    assert_int_equal(vision->cross_layers, 8);
    assert_int_equal(load("llama3.2-90b-vision")->cross_layers, 20);
}

/* How many there are is what the layers say one by one. */
static void layers_are_counted(void **state)
{
    (void)state;
    orr_models all;
    assert_int_equal(orr_models_open(arena, &all, NULL), ORR_OK);
    for (uint32_t i = 0; i < all.n; i++) {
        const orr_model *m = all.models[i];
        uint32_t moe = 0, global = 0, cross = 0;
        for (uint32_t layer = 0; layer < m->layers; layer++) {
            moe += orr_model_layer_moe(m, layer);
            global += orr_model_layer_global(m, layer);
            cross += orr_model_layer_cross(m, layer);
        }
        assert_int_equal(orr_model_moe_layers(m), moe);
        assert_int_equal(orr_model_global_layers(m), global);
        assert_int_equal(orr_model_cross_layers(m), cross);
    }
}

static void tasks_have_names(void **state)
{
    (void)state;
    assert_string_equal(orr_task_name(ORR_TASK_PRETRAIN), "pretrain");
    assert_string_equal(orr_task_name(ORR_TASK_DECODE), "decode");
}

/* Each allocation fails in turn, and all behind it. */
static void assert_survives(orr_status (*work)(const char *path, orr_arena *a, orr_error *err),
                            const char *path)
{
    uint64_t nth = 0;
    orr_status status;
    do {
        orr_error err = {0};
        orr_alloc_fail_from(++nth);
        orr_arena *small = orr_arena_new(256, 0);
        status = small != NULL ? work(path, small, &err) : ORR_NO_MEMORY;
        orr_alloc_fail_from(0);
        orr_arena_free(small);
        if (status != ORR_OK && status != ORR_NO_MEMORY)
            fail_msg("allocation %llu: %s", (unsigned long long)nth, err.text);
    } while (status != ORR_OK);
    assert_true(nth > 10);
}

static orr_status load_into(const char *path, orr_arena *a, orr_error *err)
{
    const orr_model *model, *changed;
    orr_model_size size;
    ORR_TRY(orr_model_load(path, a, &model, err));
    ORR_TRY(orr_model_override(model, &(orr_plan){.layers = 4}, a, &changed, err));
    return orr_model_count_parameters(changed, a, &size, err);
}

static orr_status read_experts_into(const char *path, orr_arena *a, orr_error *err)
{
    orr_expert_load load;
    return orr_expert_load_read(path, NULL, a, &load, err);
}

static orr_status parse_into(const char *text, orr_arena *a, orr_error *err)
{
    const orr_yaml *root;
    orr_model_registry registry = {.arena = a};
    orr_status status;
    ORR_TRY_OUT(status, orr_yaml_parse(text, strlen(text), "t.yaml", a, &root, err));
    status = orr_spec_read_file(root, "a test", &registry, err);
out:
    orr_model_registry_done(&registry);
    return status;
}

static void memory_may_be_short(void **state)
{
    const char config[] = "{\"architectures\": [\"GPT2LMHeadModel\"], \"n_embd\": 64, "
                          "\"n_layer\": 2, \"n_head\": 4, \"n_positions\": 32, "
                          "\"vocab_size\": 100}";
    const char *json = in_folder(state, "c.json"), *csv = in_folder(state, "e.csv");
    write_file(json, config, strlen(config));
    write_file(csv, "L1,L3\n7;3,1;2\n", 14);
    assert_survives(load_into, json);
    assert_survives(read_experts_into, csv);
    assert_survives(parse_into,
                    "defaults: {vocab: 8, context: 8, notes: {x: [y]}}\n"
                    "models:\n  a: {layers: 2, hidden: 4, heads: 2, ffn: 8, notes: {z: [y]}}\n"
                    "  b: {like: a, kind: transformer}\n");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_catalogue_says_where_it_is_from),
        cmocka_unit_test(by_name_whatever_its_case),
        cmocka_unit_test(a_name_that_is_not_there_has_a_neighbour),
        IN_FOLDER(a_file_may_be_like_the_catalogue),
        IN_FOLDER(a_file_holds_one_model),
        IN_FOLDER(a_folder_means_its_config),
        cmocka_unit_test(layers_differ),
        cmocka_unit_test(layers_are_counted),
        cmocka_unit_test(tasks_have_names),
        IN_FOLDER(memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
