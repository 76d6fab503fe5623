/* SPDX-License-Identifier: Apache-2.0 */
#include "csv.h"

#include <ctype.h>
#include <math.h>

#include <orrery/model.h>

/* Parameters of the catalogue's models, counted from their shapes, against what is published of
 * them: exact counts to the last digit, labels to what their digits mean. */

static orr_arena *arena;

static int new_arena(void **state)
{
    (void)state;
    arena = orr_arena_new(0, 0);
    return arena == NULL;
}

static int free_arena(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

static orr_model_size size_of(const char *name)
{
    const orr_model *model;
    orr_model_size size = {0};
    orr_error err = {0};
    if (orr_model_load(name, arena, &model, &err) != ORR_OK ||
        orr_model_count_parameters(model, arena, &size, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return size;
}

static int64_t vision_of(const orr_model_size *size)
{
    for (uint32_t i = 0; i < size->n; i++)
        if (strcmp(size->parts[i].name, "vision") == 0)
            return size->parts[i].each;
    return 0;
}

/* Counts of checkpoints, as their pages and papers print them, or as the sum of the tensors that
 * are listed there. */
typedef struct count {
    const char *name;
    int64_t total, active; /* active 0: all */
    const char *source;
} count;
static const count COUNTS[] = {
    {"llama2-7b", 6738415616, 0, "meta-llama/Llama-2-7b-hf"},
    {"llama2-70b", 68976648192, 0, "meta-llama/Llama-2-70b-hf"},
    {"llama3-8b", 8030261248, 0, "meta-llama/Meta-Llama-3-8B"},
    {"llama3.1-405b", 405853388800, 0, "meta-llama/Llama-3.1-405B"},
    {"llama3.2-1b", 1235814400, 0, "meta-llama/Llama-3.2-1B"},
    {"llama3.2-3b", 3212749824, 0, "meta-llama/Llama-3.2-3B"},
    {"llama3.2-11b-vision", 10670220835, 0, "meta-llama/Llama-3.2-11B-Vision"},
    {"llama4-scout", 108641793536, 17172894720, "meta-llama/Llama-4-Scout-17B-16E"},
    {"llama4-maverick", 401583781376, 17184691200, "meta-llama/Llama-4-Maverick-17B-128E"},
    {"mixtral-8x7b", 46702792704, 12879925248, "mistralai/Mixtral-8x7B-v0.1"},
    {"mixtral-8x22b", 140620634112, 39152031744, "mistralai/Mixtral-8x22B-v0.1"},
    {"qwen3-30b-a3b", 30532122624, 3353032704, "Qwen/Qwen3-30B-A3B"},
    {"qwen3-235b-a22b", 235093634560, 22190763520, "Qwen/Qwen3-235B-A22B"},
    {"deepseek-v2", 235741434880, 21375800320, "deepseek-ai/DeepSeek-V2"},
    {"deepseek-v3", 671026419200, 37552297472, "deepseek-ai/DeepSeek-V3, main model"},
    {"gpt-oss-120b", 116829156672, 0, "openai/gpt-oss-120b"},
    {"mpt-70b", 64862437376, 0, "mosaicml/llm-foundry benchmarking/README.md"},
    {"resnet50", 25557032, 0, "torchvision ResNet50_Weights"},
};

static void exact_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++) {
        const count *want = &COUNTS[i];
        const orr_model_size size = size_of(want->name);
        if (size.total != want->total || (want->active != 0 && size.active != want->active))
            fail_msg("%s: %lld, %lld active; %s says %lld, %lld", want->name, (long long)size.total,
                     (long long)size.active, want->source, (long long)want->total,
                     (long long)want->active);
    }
}

/* What the catalogue itself calls the published count. */
static void the_catalogue_agrees_with_itself(void **state)
{
    (void)state;
    orr_models all;
    orr_model_size size;
    uint32_t checked = 0;
    assert_int_equal(orr_models_open(arena, &all, NULL), ORR_OK);
    for (uint32_t i = 0; i < all.n; i++) {
        const orr_model *m = all.models[i];
        if (m->published_parameters == 0)
            continue;
        assert_int_equal(orr_model_count_parameters(m, arena, &size, NULL), ORR_OK);
        if (size.total != m->published_parameters ||
            (m->published_active != 0 && size.active != m->published_active))
            fail_msg("%s: %lld, %lld active", m->name, (long long)size.total,
                     (long long)size.active);
        checked++;
    }
    assert_true(checked > 30);
}

/* Scout's text and vision weights by themselves (meta-llama/llama-models, models/llama4). */
static void text_and_vision(void **state)
{
    (void)state;
    const orr_model_size scout = size_of("llama4-scout"), maverick = size_of("llama4-maverick");
    assert_int_equal(vision_of(&scout), 871932416);
    assert_int_equal(scout.total - vision_of(&scout), 107769861120);
    assert_int_equal(vision_of(&maverick), 871932416);
    assert_int_equal(maverick.total - vision_of(&maverick), 400711848960);
}

/* Labels, in billions: GPT-3, table 2.1; Megatron-LM, arXiv 2104.04473, table 1, and its
 * readme; MaxText's powers of two, which it calls near. */
static void labels(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double billions, slack;
    } want[] = {
        {"gpt3-small", 0.125, 0.0005},     {"gpt3-medium", 0.350, 0.01},
        {"gpt3-large", 0.760, 0.001},      {"gpt3-xl", 1.3, 0.05},
        {"gpt3-2.7b", 2.7, 0.05},          {"gpt3-6.7b", 6.7, 0.05},
        {"gpt3-13b", 13.0, 0.1},           {"gpt3-175b", 175.0, 0.5},
        {"megatron-1.7b", 1.7, 0.05},      {"megatron-3.6b", 3.6, 0.05},
        {"megatron-7.5b", 7.5, 0.05},      {"megatron-18b", 18.4, 0.05},
        {"megatron-39b", 39.1, 0.05},      {"megatron-76b", 76.1, 0.05},
        {"megatron-146b", 145.6, 0.05},    {"megatron-310b", 310.1, 0.05},
        {"megatron-530b", 529.6, 0.05},    {"megatron-1t", 1008.0, 0.05},
        {"megatron-22b", 22, 0.5},         {"megatron-h100-1.7b", 1.7, 0.06},
        {"megatron-h100-7.1b", 7.1, 0.05}, {"megatron-h100-16b", 16, 0.5},
        {"megatron-h100-70b", 70, 0.5},    {"megatron-h100-119b", 119, 0.5},
        {"megatron-h100-314b", 314, 0.5},  {"maxtext-16b", 16, 0.5},
        {"maxtext-22b", 22, 0.5},          {"maxtext-32b", 32, 0.5},
        {"maxtext-52b", 52, 0.5},          {"maxtext-64b", 64, 1.6},
        {"maxtext-128b", 128, 3.2},        {"maxtext-256b", 256, 6.4},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const double got = (double)size_of(want[i].name).total / 1e9;
        if (fabs(got - want[i].billions) > want[i].slack)
            fail_msg("%s: %.4f billion, the label is %g", want[i].name, got, want[i].billions);
    }
}

static csv table_of(const char *name)
{
    char path[4096];
    csv table = {0};
    const char *shared = getenv("ORRERY_SHARED");
    if (shared == NULL) {
        print_message("ORRERY_SHARED is not set: %s is not compared\n", name);
        skip();
    }
    (void)snprintf(path, sizeof path, "%s/facts/%s", shared, name);
    if (!csv_open(path, arena, &table))
        fail_msg("%s is not there", path);
    return table;
}

/* "Llama-3.2-11B-Vision" -> "llama3.2-11b-vision", "Lumos GPT-3 15B" -> "lumos-15b". */
static const char *catalogue_name(const char *name)
{
    static const char *const renamed[][2] = {
        {"Llama-4-Scout-17B-16E", "llama4-scout"},
        {"Llama-4-Maverick-17B-128E", "llama4-maverick"},
        {"Llama-4-Behemoth (preview)", "llama4-behemoth"},
    };
    static char buffer[80];
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        if (strcmp(name, renamed[i][0]) == 0)
            return renamed[i][1];
    const bool lumos = strncmp(name, "Lumos GPT-3 ", 12) == 0;
    const bool gpt3 = strncmp(name, "GPT-3 ", 6) == 0, llama = strncmp(name, "Llama-", 6) == 0;
    name += lumos ? 12 : gpt3 || llama ? 6 : 0;
    int n = snprintf(buffer, sizeof buffer, "%s%s",
                     lumos   ? "lumos-"
                     : gpt3  ? "gpt3-"
                     : llama ? "llama"
                             : "",
                     name);
    for (int i = 0; i < n; i++)
        buffer[i] = (char)tolower((unsigned char)buffer[i]);
    return buffer;
}

/* The number that follows a text. */
static int64_t number_after(const char *text, const char *before)
{
    const char *at = strstr(text, before);
    return at != NULL ? strtoll(at + strlen(before), NULL, 10) : 0;
}

static void check_row(const csv *table, size_t row)
{
    const char *const name = csv_text(table, row, "model");
    const int64_t total = strtoll(csv_text(table, row, "params_total_exact"), NULL, 10);
    const int64_t active = strtoll(csv_text(table, row, "params_active_per_token"), NULL, 10);
    const int64_t products =
        number_after(csv_text(table, row, "params_note"), "matmul params computed ");
    const orr_model *model;
    orr_error err = {0};
    if (orr_model_load(catalogue_name(name), arena, &model, &err) != ORR_OK)
        fail_msg("%s: %s", name, err.text);
    if (model->incomplete)
        return;
    const orr_model_size size = size_of(model->name);
    const int64_t head = (int64_t)model->hidden * model->vocab;
    if ((total != 0 && size.total != total) || (active != 0 && size.active != active) ||
        (products != 0 && size.matmul - head != products))
        fail_msg("%s: %lld, %lld active, %lld in products", name, (long long)size.total,
                 (long long)size.active, (long long)(size.matmul - head));
    assert_true(total != 0 || products != 0 || strncmp(name, "GPT-3", 5) == 0 ||
                strstr(name, "Vision") != NULL);
}

static void every_row_of_the_facts(void **state)
{
    (void)state;
    const csv table = table_of("models/models.csv");
    assert_true(table.n_rows >= 38);
    for (size_t row = 0; row < table.n_rows; row++)
        check_row(&table, row);
}

/* NumParams of each measured MPT: positions are as many as the tokens of its row. */
static void every_measured_mpt(void **state)
{
    (void)state;
    const csv table = table_of("tables/llm_foundry_mpt.csv");
    size_t checked = 0;
    for (size_t row = 0; row < table.n_rows; row++) {
        char name[40];
        const orr_model *model;
        const int64_t seq = strtoll(csv_text(&table, row, "SeqLen (T)"), NULL, 10);
        const int64_t want = strtoll(csv_text(&table, row, "NumParams"), NULL, 10);
        (void)snprintf(name, sizeof name, "mpt-%s", csv_text(&table, row, "Model"));
        assert_int_equal(orr_model_load(name, arena, &model, NULL), ORR_OK);
        const int64_t got =
            size_of(name).total + (seq - (int64_t)model->positions) * (int64_t)model->hidden;
        if (want == 0)
            continue;
        if (got != want)
            fail_msg("%s, %lld tokens: %lld, the table has %lld", name, (long long)seq,
                     (long long)got, (long long)want);
        checked++;
    }
    assert_true(checked > 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_counts),
        cmocka_unit_test(the_catalogue_agrees_with_itself),
        cmocka_unit_test(text_and_vision),
        cmocka_unit_test(labels),
        cmocka_unit_test(every_row_of_the_facts),
        cmocka_unit_test(every_measured_mpt),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
