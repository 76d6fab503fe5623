/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include <orrery/memory_plan.h>

#include "csv.h"

/* Memory against measurements.
 *
 * 1. MooreThreads/SimuMax, docs/b200/b200_release_v1.2_summary.md: Megatron-LM with
 * TransformerEngine on eight B200, most bytes that PyTorch's allocator handed out on any rank. How
 * the rows are read, from the repository's configurations (configs/models, configs/strategy,
 * simumax/core): sequence 4096, one sample a micro-batch, bf16 weights, fp32 gradients,
 * distributed optimizer (zero=1), sequence parallelism, no recomputation, experts not sliced,
 * "cef" is TransformerEngine's fused cross entropy. Its llama3-405b has 16 key-value heads
 * (configs/models/llama3-405b.json), as the model was first described; deepseek-v2 is of
 * configs/models/deepseekv2.json, its first layer dense.
 *
 * Nothing is fitted. But how software behaves was learnt while looking at one group, llama3-70B:
 * that values are copied out of the product for q, k and v, and that the gradient of the logits
 * lies over them. The other groups are judged.
 *
 * 2. pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md: FSDP2 on H100, fp32
 * weights and gradients of bf16 or fp8 products; the table gives what the allocator reserved,
 * which is more than what it hands out. Only rows with full recomputation can be read as a
 * plan: the others keep every second product's output. The loss is not compiled (fusion=off),
 * shards are over data- and context-parallel ranks. */
enum { GIB = 1 << 30 };

typedef struct fixture {
    orr_arena *arena;
    const char *shared;
} fixture;

static bool open_table(fixture *f, const char *name, csv *ret)
{
    f->shared = getenv("ORRERY_SHARED");
    f->arena = orr_arena_new(0, 0);
    if (f->shared == NULL)
        return false;
    return csv_open(orr_arena_printf(f->arena, "%s/facts/tables/%s", f->shared, name), f->arena,
                    ret);
}

static const orr_model *load(fixture *f, const char *name)
{
    const orr_model *model;
    orr_error err;
    if (orr_model_load(name, f->arena, &model, &err) != ORR_OK)
        fail_msg("%s: %s", name, err.text);
    return model;
}

static const orr_model *first_405b(fixture *f)
{
    orr_model *model = orr_arena_one(f->arena, orr_model);
    *model = *load(f, "llama3.1-405b");
    model->kv_heads = 16;
    return model;
}

static const orr_model *deepseek_v2(fixture *f)
{
    orr_model *model = orr_arena_one(f->arena, orr_model);
    *model = *load(f, "deepseek-v3");
    model->name = "deepseek-v2";
    model->layers = 60;
    model->hidden = 5120;
    model->ffn = 12288;
    model->vocab = 102400;
    model->mtp = 0;
    model->moe.experts = 160;
    model->moe.top_k = 6;
    model->moe.expert_ffn = model->moe.shared_ffn = 1536;
    model->moe.shared = 2;
    model->moe.first_dense = 1;
    model->moe.router = ORR_ROUTER_SOFTMAX;
    model->moe.router_bias = false;
    model->moe.groups = model->moe.top_groups = 0;
    return model;
}

static const orr_model *model_of(fixture *f, const char *text)
{
    if (strncmp(text, "llama3-70B", 10) == 0)
        return load(f, "llama3-70b");
    return strncmp(text, "llama3-405B", 11) == 0 ? first_405b(f) : deepseek_v2(f);
}

static uint32_t number(const csv *table, size_t row, const char *column)
{
    return (uint32_t)csv_number(table, row, column);
}

static orr_memory_plan plan_of(fixture *f, const orr_model *model, const orr_plan *asked)
{
    const orr_plan plan = orr_plan_with_defaults(asked);
    const orr_workload workload = {.task = ORR_TASK_PRETRAIN};
    orr_memory_plan made = {0};
    orr_error err;
    if (orr_plan_check(&plan, &err) != ORR_OK ||
        orr_memory_plan_make(model, &plan, &workload, NULL, f->arena, &made, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return made;
}

static double most_allocated_gib(const orr_memory_plan *plan)
{
    int64_t most = 0;
    for (uint32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].allocated_bytes > most)
            most = plan->stages[s].allocated_bytes;
    return (double)most / GIB;
}

static double simumax_row(fixture *f, const csv *table, size_t row)
{
    const orr_plan plan = {
        .tp = number(table, row, "tp"),
        .cp = number(table, row, "cp"),
        .ep = number(table, row, "ep"),
        .pp = number(table, row, "pp"),
        .dp = number(table, row, "dp"),
        .etp = 1,
        .layers = number(table, row, "layers"),
        .seq = number(table, row, "seq"),
        .micro_batches = number(table, row, "microbatches"),
        .micro_batch = number(table, row, "mbs"),
        .zero = 1,
    };
    const orr_memory_plan made = plan_of(f, model_of(f, csv_text(table, row, "model")), &plan);
    return most_allocated_gib(&made) / csv_number(table, row, "real_alloc_gib") - 1;
}

/* Rows of the same page that are in no table here: two of DeepSeek-V3 (four layers, the first
 * dense, no second token predicted), and long contexts (context parallelism by all-to-all, here
 * by ring). */
static const struct further {
    const char *model;
    uint32_t tp, cp, ep, pp, dp, layers, seq;
    double real_gib;
} FURTHER[] = {
    {"deepseek-v3", 1, 1, 8, 1, 8, 4, 4096, 104.30},
    {"deepseek-v3", 1, 1, 4, 2, 4, 4, 4096, 114.00},
    {"llama3-70B", 2, 4, 1, 1, 1, 12, 32768, 68.43},
    {"llama3-70B", 1, 8, 1, 1, 1, 12, 32768, 104.51},
    {"llama3-405B", 2, 4, 1, 1, 1, 4, 32768, 87.03},
    {"llama3-405B", 1, 8, 1, 1, 1, 4, 32768, 139.22},
    {"llama3-70B", 2, 4, 1, 1, 1, 12, 131072, 112.67},
    {"llama3-70B", 1, 8, 1, 1, 1, 12, 131072, 147.99},
    {"llama3-405B", 2, 4, 1, 1, 1, 4, 131072, 118.13},
};

static void megatron_on_b200_further(void **state)
{
    (void)state;
    fixture f = {.arena = orr_arena_new(0, 0)};
    double sum = 0;
    const size_t n = sizeof FURTHER / sizeof *FURTHER;
    for (size_t i = 0; i < n; i++) {
        const struct further *r = &FURTHER[i];
        const orr_plan plan = {.tp = r->tp,
                               .cp = r->cp,
                               .ep = r->ep,
                               .etp = 1,
                               .pp = r->pp,
                               .dp = r->dp,
                               .layers = r->layers,
                               .seq = r->seq,
                               .micro_batches = 4,
                               .micro_batch = 1,
                               .zero = 1};
        orr_model model =
            *(strcmp(r->model, "deepseek-v3") == 0 ? load(&f, r->model) : model_of(&f, r->model));
        model.mtp = 0;
        model.moe.first_dense = model.moe.experts > 0 ? 1 : 0;
        const orr_memory_plan made = plan_of(&f, &model, &plan);
        const double error = most_allocated_gib(&made) / r->real_gib - 1;
        print_message("%-12s tp%u cp%u ep%u pp%u seq %-6u %6.2f GiB  %+.2f %%\n", r->model, r->tp,
                      r->cp, r->ep, r->pp, r->seq, r->real_gib, 100 * error);
        sum += fabs(error);
    }
    print_message("%zu further rows: mean %.2f %%\n", n, 100 * sum / (double)n);
    assert_true(sum / (double)n < 0.02);
    orr_arena_free(f.arena);
}

static void megatron_on_b200(void **state)
{
    (void)state;
    fixture f;
    csv table;
    if (!open_table(&f, "simumax_b200_real.csv", &table)) {
        print_message("simumax_b200_real.csv is not here\n");
        skip();
    }
    double sum = 0, worst = 0, learnt = 0;
    size_t n = 0, n_learnt = 0;
    for (size_t row = 0; row < table.n_rows; row++) {
        const double error = simumax_row(&f, &table, row);
        const char *name = csv_text(&table, row, "case");
        assert_non_null(name);
        print_message("%-46s %6.2f GiB  %+.2f %%\n", name,
                      csv_number(&table, row, "real_alloc_gib"), 100 * error);
        if (strncmp(csv_text(&table, row, "model"), "llama3-70B", 10) == 0) {
            learnt += fabs(error);
            n_learnt++;
            continue;
        }
        sum += fabs(error);
        worst = fmax(worst, fabs(error));
        n++;
    }
    print_message(
        "looked at: %zu rows, mean %.2f %%; judged: %zu rows, mean %.2f %%, worst %.2f %%\n",
        n_learnt, 100 * learnt / (double)n_learnt, n, 100 * sum / (double)n, 100 * worst);
    assert_int_equal(n + n_learnt, 30);
    assert_true(sum / (double)n < 0.02);
    orr_arena_free(f.arena);
}

static double torchtitan_row(fixture *f, const csv *table, size_t row, orr_recompute recompute)
{
    const bool fp8 = strcmp(csv_text(table, row, "precision"), "float8") == 0;
    const bool small = strcmp(csv_text(table, row, "model"), "llama3.1-8B") == 0;
    const orr_plan plan = {
        .dp = number(table, row, "fsdp"),
        .tp = number(table, row, "tp"),
        .cp = number(table, row, "cp"),
        .seq = number(table, row, "seq"),
        .micro_batch = number(table, row, "local_batch"),
        .zero = 3,
        .precision = fp8 ? ORR_PRECISION_FP8 : ORR_PRECISION_BF16,
        .gradients = ORR_PRECISION_FP32,
        .recompute = (uint8_t)recompute,
        .fusion = ORR_SWITCH_OFF,
    };
    const orr_memory_plan made = plan_of(f, load(f, small ? "llama3.1-8b" : "llama3.1-70b"), &plan);
    return most_allocated_gib(&made);
}

static bool is_measured(const csv *table, size_t row)
{
    return csv_text(table, row, "measured_mem_gib")[0] != '\0';
}

static void tell(const csv *table, size_t row, double least, double most)
{
    print_message("%s on %s, tp %s cp %s seq %-6s %-7s compile %s: reserved %.1f GiB; here ",
                  csv_text(table, row, "model"), csv_text(table, row, "gpus"),
                  csv_text(table, row, "tp"), csv_text(table, row, "cp"),
                  csv_text(table, row, "seq"), csv_text(table, row, "precision"),
                  csv_text(table, row, "compile"), csv_number(table, row, "measured_mem_gib"));
    if (most > least)
        print_message("%.1f to %.1f\n", least, most);
    else
        print_message("%.1f\n", least);
}

/* What is reserved is above what is handed out, by no more than half; where every second product is
 * kept, it lies between keeping none and all. */
static void fsdp_on_h100(void **state)
{
    (void)state;
    fixture f;
    csv table;
    if (!open_table(&f, "torchtitan.csv", &table)) {
        print_message("torchtitan.csv is not here\n");
        skip();
    }
    size_t n = 0, n_between = 0;
    for (size_t row = 0; row < table.n_rows; row++) {
        if (!is_measured(&table, row))
            continue;
        const bool full = strcmp(csv_text(&table, row, "act_ckpt"), "full") == 0;
        const double reserved = csv_number(&table, row, "measured_mem_gib");
        const double least = torchtitan_row(&f, &table, row, ORR_RECOMPUTE_FULL);
        const double most = full ? least : torchtitan_row(&f, &table, row, ORR_RECOMPUTE_NONE);
        tell(&table, row, least, most);
        assert_true(least < reserved);
        assert_true(full ? reserved < 1.5 * least : reserved < most);
        *(full ? &n : &n_between) += 1;
    }
    assert_int_equal(n, 6);
    assert_int_equal(n_between, 6);
    orr_arena_free(f.arena);
}

/* The first three rows are of 8 devices, the next three the same on 128: what the smaller shards
 * free. */
static void smaller_shards_on_h100(void **state)
{
    (void)state;
    fixture f;
    csv table;
    if (!open_table(&f, "torchtitan.csv", &table)) {
        print_message("torchtitan.csv is not here\n");
        skip();
    }
    for (size_t row = 0; row < 3; row++) {
        assert_int_equal(number(&table, row, "gpus"), 8);
        assert_int_equal(number(&table, row + 3, "gpus"), 128);
        const double measured = csv_number(&table, row, "measured_mem_gib") -
                                csv_number(&table, row + 3, "measured_mem_gib");
        const double here = torchtitan_row(&f, &table, row, ORR_RECOMPUTE_FULL) -
                            torchtitan_row(&f, &table, row + 3, ORR_RECOMPUTE_FULL);
        print_message("from 8 to 128 devices: reserved %.1f GiB less, here %.1f\n", measured, here);
        assert_true(fabs(here / measured - 1) < 0.1);
    }
    orr_arena_free(f.arena);
}

/* Korthikanti et al., arXiv 2205.05198, equations 2 and 4 and section 5: bytes that a layer
 * keeps, of tokens of `s` x `b` and hidden size h, in 16 bits with dropout: s b h (34 + 5 a s /
 * h) / t with sequence parallelism, without the second term where the core of attention is
 * computed again, and 2 s b h where the whole layer is. */
static int64_t layer_keeps(fixture *f, const orr_model *model, const orr_plan *plan)
{
    orr_plan two = *plan;
    two.layers = 2 * plan->layers;
    const orr_memory_plan one = plan_of(f, model, plan), other = plan_of(f, model, &two);
    return (other.stages[0].activations[0] - one.stages[0].activations[0]) / plan->layers;
}

static void published_formulas(void **state)
{
    (void)state;
    fixture f = {.arena = orr_arena_new(0, 0)};
    const orr_model *model = load(&f, "megatron-22b");
    const double s = 2048, b = 4, h = model->hidden, a = model->heads;
    for (uint32_t t = 1; t <= 8; t *= 8) {
        orr_plan plan = {.tp = t,
                         .layers = 2,
                         .seq = 2048,
                         .micro_batch = 4,
                         .flash = ORR_SWITCH_OFF,
                         .precision = ORR_PRECISION_FP16};
        const double none = (double)layer_keeps(&f, model, &plan);
        plan.recompute = ORR_RECOMPUTE_SELECTIVE;
        const double selective = (double)layer_keeps(&f, model, &plan);
        plan.recompute = ORR_RECOMPUTE_FULL;
        const double full = (double)layer_keeps(&f, model, &plan);
        print_message("tp %u: none %.3f, selective %.3f, full %.3f of the formulas\n", t,
                      none / (s * b * h / t * (34 + 5 * a * s / h)),
                      selective / (s * b * h * 34 / t), full / (s * b * h * 2 / t));
        assert_true(fabs(none / (s * b * h / t * (34 + 5 * a * s / h)) - 1) < 0.02);
        assert_true(fabs(selective / (s * b * h * 34 / t) - 1) < 0.02);
        assert_true(fabs(full / (s * b * h * 2 / t) - 1) < 1e-6);
    }
    orr_arena_free(f.arena);
}

/* What a layer of Llama keeps of tokens s x b in bf16, with hidden size h, v the width of keys, f
 * of the feed-forward part and a heads: its input, two norms, q, k and v, the
 * output of attention and its logsumexp, the sum after it; gate, up and their product. Each part of
 * `recompute_modules` takes its own away; torchtitan's selective_ac_option=op saves q, k, v, the
 * output of attention, gate and down. */
static void parts_are_computed_again(void **state)
{
    (void)state;
    fixture f = {.arena = orr_arena_new(0, 0)};
    const orr_model *m = load(&f, "llama3.1-8b");
    const double s = 2048, b = 2, h = m->hidden, v = 1024, w = m->ffn, a = m->heads;
    const double core = 4 * s * b * a, norms = 2 * s * b * 2 * h, act = 2 * s * b * w,
                 gate_up = 2 * act, all = 2 * s * b * (5 * h + h + 2 * v) + core + act + gate_up;
    const struct {
        const char *plan;
        double bytes;
    } cases[] = {
        {"recompute=none", all},
        {"recompute_modules=core_attn", all - core},
        {"recompute_modules=layernorm", all - norms},
        {"recompute_modules=mlp_act", all - act},
        {"recompute_modules=mlp-layernorm", all - act - gate_up - norms},
        {"recompute_modules=mlp_act,activation_func_fp8_input_store=on", all - act - gate_up / 2},
        {"recompute=op", 2 * s * b * (4 * h + 2 * v + w) + core},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_plan plan;
        orr_error err;
        if (orr_plan_parse(cases[i].plan, &plan, &err) != ORR_OK)
            fail_msg("%s", err.text);
        plan.layers = 2;
        plan.seq = 2048;
        plan.micro_batch = 2;
        const double kept = (double)layer_keeps(&f, m, &plan);
        print_message("%s: %.4f of the formula\n", cases[i].plan, kept / cases[i].bytes);
        assert_true(fabs(kept / cases[i].bytes - 1) < 0.001);
    }
    orr_arena_free(f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(megatron_on_b200),   cmocka_unit_test(megatron_on_b200_further),
        cmocka_unit_test(fsdp_on_h100),       cmocka_unit_test(smaller_shards_on_h100),
        cmocka_unit_test(published_formulas), cmocka_unit_test(parts_are_computed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
