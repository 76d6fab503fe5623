/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit/model/built.h"

#include <math.h>
#include <stdio.h>

#include <orrery/calibration.h>

/* What whole models have to do, added up over the calls of their modules' tapes, against closed
 * forms that know nothing of tapes. Nothing is fitted: sums are equal but for the rounding of
 * doubles. */
#define ROUNDING 1e-12

static bool equal(double a, double b)
{
    return fabs(a - b) <= ROUNDING * fmax(fabs(a), fabs(b));
}
#define HOLD(got, want, ...)                                                                       \
    do {                                                                                           \
        const double got_ = (got), want_ = (want);                                                 \
        if (!equal(got_, want_)) {                                                                 \
            char what_[200];                                                                       \
            snprintf(what_, sizeof what_, __VA_ARGS__);                                            \
            fail_msg("%s: %.17g, not %.17g", what_, got_, want_);                                  \
        }                                                                                          \
    } while (0)

/* Which calls of a tape are added up. */
typedef bool (*choice)(const orr_tape_call *call);

static bool is_product(const orr_tape_call *call)
{
    return orr_op_of((orr_op)call->op)->family == ORR_OP_FAMILY_MATMUL;
}
static bool is_attention(const orr_tape_call *call)
{
    return call->op == ORR_OP_ATTENTION || call->op == ORR_OP_ATTENTION_BACKWARD;
}
static bool is_either(const orr_tape_call *call)
{
    return is_product(call) || is_attention(call);
}
static bool is_forward(const orr_tape_call *call)
{
    return call->pass == ORR_PASS_FORWARD;
}
static bool is_forward_product(const orr_tape_call *call)
{
    return is_forward(call) && is_product(call);
}

static orr_op_work work_of_tape(const orr_tape *tape, choice chosen)
{
    orr_op_work sum = {0};
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        orr_op_work work;
        if (!chosen(&tape->calls[c]))
            continue;
        orr_tape_work(tape, c, &work);
        sum.flops += work.flops;
        sum.read_bytes += work.read_bytes;
        sum.write_bytes += work.write_bytes;
    }
    return sum;
}

/* One micro-batch of the places whose kind is among `kinds`: a bit for each. */
#define KIND(name)  (1u << ORR_MODULE_##name)
#define ALL_BUT_MTP (~KIND(MTP)) /* which is no part of what is published of a model */
static orr_op_work work_of(const built *b, uint32_t kinds, choice chosen)
{
    orr_op_work sum = {0};
    for (uint32_t p = 0; p < b->row.n; p++) {
        const orr_module *m = &b->row.modules[b->row.module_of[p]];
        if (!(kinds >> m->kind & 1))
            continue;
        const orr_op_work one = work_of_tape(m->tape, chosen);
        sum.flops += one.flops;
        sum.read_bytes += one.read_bytes;
        sum.write_bytes += one.write_bytes;
    }
    return sum;
}

static orr_model_size size_of(const built *b)
{
    orr_model_size size;
    assert_int_equal(orr_model_count_parameters(b->model, b->arena, &size, NULL), ORR_OK);
    return size;
}

/* Parameters that tapes hold: a tied head shares the embedding's. */
static int64_t parameters_of(const orr_tape *tape, bool tied_head)
{
    int64_t sum = 0;
    for (orr_value v = 0; v < tape->n_values; v++)
        if (tape->values[v].role == ORR_VALUE_PARAMETER &&
            !(tied_head && tape->values[v].tag == ORR_WEIGHT_TIED))
            sum += orr_type_elements(&tape->values[v].type);
    return sum;
}

static const char *const TEXT_MODELS[] = {
    "llama2-7b",     "llama2-70b",      "llama3-8b",    "llama3.1-405b",   "llama3.2-1b",
    "gpt3-175b",     "megatron-1t",     "mpt-7b",       "mixtral-8x7b",    "mixtral-8x22b",
    "qwen3-30b-a3b", "qwen3-235b-a22b", "llama4-scout", "llama4-maverick", "deepseek-v3",
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The parameters of all tapes are those of the model, to the last one: without the vision encoder
 * where no pictures come, and layers that predict further tokens beside it. */
static void test_parameters(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(TEXT_MODELS); i++) {
        built b = build(TEXT_MODELS[i], "micro_batch=1");
        const orr_model_size size = size_of(&b);
        int64_t held = 0, mtp = 0, vision = 0;
        for (uint32_t p = 0; p < b.row.n; p++) {
            const orr_module *m = &b.row.modules[b.row.module_of[p]];
            const bool tied = b.model->tied && m->kind == ORR_MODULE_HEAD;
            *(m->kind == ORR_MODULE_MTP ? &mtp : &held) += parameters_of(m->tape, tied);
        }
        for (uint32_t k = 0; k < size.n; k++)
            if (strstr(size.parts[k].name, "vision") != NULL)
                vision += (int64_t)size.parts[k].count * size.parts[k].each;
        if (held != size.total - vision || mtp != size.mtp)
            fail_msg("%s: tapes hold %lld and %lld parameters, the model has %lld and %lld",
                     TEXT_MODELS[i], (long long)held, (long long)mtp,
                     (long long)(size.total - vision), (long long)size.mtp);
        done(&b);
    }
}

/* 2 N T forward and 4 N T backward: Kaplan et al., arXiv 2001.08361, section 2.1, with N the
 * parameters that a token is multiplied with; of a mixture those of the experts that it meets. */
static void test_six_n_d(void **state)
{
    (void)state;
    const double tokens = 4096;
    for (size_t i = 0; i < COUNT(TEXT_MODELS); i++) {
        built b = build(TEXT_MODELS[i], "seq=2k,micro_batch=2");
        const double n = (double)size_of(&b).matmul;
        HOLD(work_of(&b, ALL_BUT_MTP, is_forward_product).flops, 2 * n * tokens, "%s, forward",
             TEXT_MODELS[i]);
        HOLD(work_of(&b, ALL_BUT_MTP, is_product).flops, 6 * n * tokens, "%s", TEXT_MODELS[i]);
        done(&b);
    }
}

/* Attention in one kernel passes over what a causal mask hides: of s tokens s (s + 1) / 2 pairs,
 * each with 4 FLOPs a column of the heads forward, and 10 backward (Dao, arXiv 2307.08691: 2.5
 * times). */
static void test_attention_of_llama(void **state)
{
    (void)state;
    static const char *const names[] = {"llama2-7b", "llama2-70b", "llama3-8b", "llama3.1-405b"};
    for (size_t i = 0; i < COUNT(names); i++) {
        built b = build(names[i], "seq=4k,micro_batch=3");
        const double columns = (double)b.model->layers * b.model->heads * b.model->head_dim,
                     pairs = 3 * 4096.0 * 4097 / 2;
        HOLD(work_of(&b, ~0u, is_attention).flops, 14 * columns * pairs, "%s", names[i]);
        done(&b);
    }
}

/* The field's convention counts all pairs, and the backward pass as twice the forward: the tape of
 * attention in several kernels has exactly that. */
static void test_model_flops(void **state)
{
    (void)state;
    static const char *const names[] = {"llama3-8b", "gpt3-175b", "mixtral-8x7b", "qwen3-30b-a3b"};
    for (size_t i = 0; i < COUNT(names); i++) {
        built b = build(names[i], "seq=2k,flash=off");
        HOLD(work_of(&b, ~0u, is_either).flops, 3 * orr_model_flops(b.model, 2048, true), "%s",
             names[i]);
        done(&b);
    }
}

/* 96 B s l h^2 (1 + s / (6 h) + V / (16 l h)): Narayanan et al., arXiv 2104.04473, equation 3, of
 * a step that computes all layers again. */
static void test_megatron_with_recomputation(void **state)
{
    (void)state;
    static const char *const names[] = {"megatron-1.7b", "megatron-18b", "megatron-146b",
                                        "megatron-530b", "megatron-1t"};
    for (size_t i = 0; i < COUNT(names); i++) {
        built b = build(names[i], "recompute=full,flash=off,micro_batch=4");
        const double s = b.model->context, l = b.model->layers, h = b.model->hidden,
                     v = b.model->vocab;
        HOLD(work_of(&b, ~0u, is_either).flops,
             96 * 4 * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h)), "%s", names[i]);
        done(&b);
    }
}

/* Of t tensor-parallel slices with sequence parallelism each does a t-th of everything: products,
 * attention, and what is done to elements (Korthikanti et al., arXiv 2205.05198, section 4.2.2).
 * The loss of a sliced vocabulary, alone, costs a little more. */
static bool is_any(const orr_tape_call *call)
{
    (void)call;
    return true;
}

static void test_slices_add_up(void **state)
{
    (void)state;
    static const char *const names[] = {"llama2-7b", "llama3.1-405b", "gpt3-175b", "mixtral-8x7b",
                                        "deepseek-v3"};
    for (size_t i = 0; i < COUNT(names); i++) {
        built whole = build(names[i], "seq=2k,micro_batch=1");
        for (uint32_t t = 2; t <= 8; t *= 2) {
            char plan[64];
            snprintf(plan, sizeof plan, "tp=%u,seq=2k,micro_batch=1", t);
            built part = build(names[i], plan);
            HOLD(t * work_of(&part, KIND(LAYER), is_any).flops,
                 work_of(&whole, KIND(LAYER), is_any).flops, "layers of %s, %u slices", names[i],
                 t);
            if (whole.model->vocab % t == 0) /* else it is padded */
                HOLD(t * work_of(&part, ~0u, is_either).flops,
                     work_of(&whole, ~0u, is_either).flops, "%s, %u slices", names[i], t);
            done(&part);
        }
        done(&whole);
    }
}

/* Experts dealt over ranks meet the tokens of all of them: with even load each rank multiplies as
 * much as if it had them all. Slices of the context multiply a share of the tokens. */
static void test_experts_and_contexts_over_ranks(void **state)
{
    (void)state;
    static const char *const names[] = {"mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3"};
    for (size_t i = 0; i < COUNT(names); i++) {
        built whole = build(names[i], "seq=4k,micro_batch=1");
        built spread = build(names[i], "seq=4k,micro_batch=1,ep=8,dp=8");
        built cut = build(names[i], "seq=4k,micro_batch=1,cp=4");
        const double flops = work_of(&whole, ~0u, is_product).flops;
        HOLD(work_of(&spread, ~0u, is_product).flops, flops, "%s, experts over 8 ranks", names[i]);
        HOLD(4 * work_of(&cut, ~0u, is_product).flops, flops, "%s, 4 slices of the context",
             names[i]);
        done(&cut);
        done(&spread);
        done(&whole);
    }
}

/* Bytes of the products of a layer of Llama forward, in 16 bits: weights once, in slices; of T
 * tokens what goes in and comes out. What a column-parallel layer reads has been gathered: every
 * slice reads all. */
static void test_bytes_of_products(void **state)
{
    (void)state;
    const double tokens = 2048;
    for (uint32_t t = 1; t <= 8; t *= 2) {
        char plan[64];
        snprintf(plan, sizeof plan, "tp=%u,seq=2k,micro_batch=1", t);
        built b = build("llama3-8b", plan);
        const double d = b.model->hidden, kv = (double)b.model->kv_heads * b.model->head_dim,
                     f = b.model->ffn, n = t;
        const double weights = d * (d + 2 * kv) + d * d + 3 * d * f;
        const double read = weights / n + tokens * (d + d / n + d + f / n);
        const double written = tokens * ((d + 2 * kv) / n + d + 2 * f / n + d);
        const orr_op_work work =
            work_of_tape(module_of(&b, ORR_MODULE_LAYER)->tape, is_forward_product);
        HOLD(work.read_bytes, 2 * read, "read, %u slices", t);
        HOLD(work.write_bytes, 2 * written, "written, %u slices", t);
        done(&b);
    }
}

/* Work as cost models see it: each call's adds up to the same, its dims are there, and the
 * roofline of a H100 has a price for it. Views and collectives are nothing to a kernel. */
static void hold_priced(const built *b, const orr_device *device, const orr_tape *tape, uint32_t c)
{
    const orr_cost_chain chain = orr_cost_default_chain();
    const char *name = orr_op_of((orr_op)tape->calls[c].op)->name;
    orr_work work;
    orr_op_work row;
    orr_work_of_call(tape, c, &work);
    orr_tape_work(tape, c, &row);
    for (int d = 0; d < work.n_dims; d++)
        assert_true(work.dims[d] >= 1);
    if (work.n_dims == 0) {
        if (work.flops + work.read_bytes + work.write_bytes != 0)
            fail_msg("%s: %s has work and no dims", b->model->name, name);
        return;
    }
    const orr_price price = orr_cost_price(&chain, device, &work);
    if (work.flops != row.flops || work.read_bytes != row.read_bytes ||
        work.write_bytes != row.write_bytes || price.basis != ORR_BASIS_ROOFLINE || price.ns <= 0)
        fail_msg("%s: %s: %g FLOPs for %g, %lld ns (%s)", b->model->name, name, work.flops,
                 row.flops, (long long)price.ns, price.model);
}

static void test_all_calls_have_a_price(void **state)
{
    (void)state;
    static const char *const others[] = {"dlrm-dcnv2", "dlrm-criteo-1tb", "resnet50"};
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_catalog *catalog;
    assert_int_equal(orr_catalog_open(arena, &catalog, NULL), ORR_OK);
    const orr_device *device = orr_catalog_device(catalog, "h100_sxm_80g");
    assert_non_null(device);
    for (size_t i = 0; i < COUNT(TEXT_MODELS) + COUNT(others); i++) {
        built b = build(i < COUNT(TEXT_MODELS) ? TEXT_MODELS[i] : others[i - COUNT(TEXT_MODELS)],
                        "micro_batch=1");
        for (uint32_t m = 0; m < b.row.n_modules; m++)
            for (uint32_t c = 0; c < b.row.modules[m].tape->n_calls; c++)
                hold_priced(&b, device, b.row.modules[m].tape, c);
        done(&b);
    }
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_six_n_d),
        cmocka_unit_test(test_attention_of_llama),
        cmocka_unit_test(test_model_flops),
        cmocka_unit_test(test_megatron_with_recomputation),
        cmocka_unit_test(test_slices_add_up),
        cmocka_unit_test(test_experts_and_contexts_over_ranks),
        cmocka_unit_test(test_bytes_of_products),
        cmocka_unit_test(test_all_calls_have_a_price),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
