/* SPDX-License-Identifier: Apache-2.0 */
#include "built.h"

#include "base/alloc.h"

static void must_count(const orr_module *module, orr_op op, orr_pass pass, orr_axis axis,
                       uint32_t want)
{
    const uint32_t n = calls_of(module, op, pass, axis);
    if (n != want)
        fail_msg("%u x %s in the %s pass, not %u", n, orr_op_of(op)->name, orr_pass_name(pass),
                 want);
}

/* Bytes of what collectives of the axis leave on a rank that gathers, or take from one that does
 * not. */
static int64_t moved_bytes(const orr_module *module, orr_pass pass, orr_axis axis)
{
    int64_t bytes = 0;
    for (uint32_t c = 0; c < module->tape->n_calls; c++) {
        const orr_tape_call *call = &module->tape->calls[c];
        const orr_value whole = call->op == ORR_OP_ALL_GATHER ? call->out[0] : call->in[0];
        if (call->pass == pass && call->args.axis == axis && call->args.members > 1 &&
            orr_op_of((orr_op)call->op)->family == ORR_OP_FAMILY_COLLECTIVE)
            bytes += orr_type_bytes(&module->tape->values[whole].type);
    }
    return bytes;
}

/* Korthikanti et al., arXiv 2205.05198, section 4.2.2: 2 all-gathers and 2 reduce-scatters forward,
 * as many backward, and the inputs of the two column-parallel layers gathered once more; 2 s b h
 * bytes each. */
static void sequence_parallel_layers_speak_as_megatron(void **state)
{
    (void)state;
    built b = build("llama3.1-8b", "tp=8,seq=8k,micro_batch=2");
    const orr_module *layer = module_of(&b, ORR_MODULE_LAYER);
    const int64_t sbh = INT64_C(8192) * 2 * 4096;
    must_count(layer, ORR_OP_ALL_GATHER, ORR_PASS_FORWARD, ORR_AXIS_TP, 2);
    must_count(layer, ORR_OP_REDUCE_SCATTER, ORR_PASS_FORWARD, ORR_AXIS_TP, 2);
    must_count(layer, ORR_OP_ALL_GATHER, ORR_PASS_INPUT, ORR_AXIS_TP, 2);
    must_count(layer, ORR_OP_REDUCE_SCATTER, ORR_PASS_INPUT, ORR_AXIS_TP, 2);
    must_count(layer, ORR_OP_ALL_GATHER, ORR_PASS_RECOMPUTE, ORR_AXIS_TP, 2);
    assert_int_equal(moved_bytes(layer, ORR_PASS_FORWARD, ORR_AXIS_TP), 4 * 2 * sbh);
    assert_int_equal(moved_bytes(layer, ORR_PASS_INPUT, ORR_AXIS_TP), 4 * 2 * sbh);
    done(&b);
}

/* Shoeybi et al., arXiv 1909.08053, section 3: 2 all-reduces forward and 2 backward. */
static void tensor_parallel_layers_speak_as_megatron(void **state)
{
    (void)state;
    built b = build("llama3.1-8b", "tp=8,sp=off,seq=8k");
    const orr_module *layer = module_of(&b, ORR_MODULE_LAYER);
    must_count(layer, ORR_OP_ALL_REDUCE, ORR_PASS_FORWARD, ORR_AXIS_TP, 2);
    must_count(layer, ORR_OP_ALL_REDUCE, ORR_PASS_INPUT, ORR_AXIS_TP, 2);
    must_count(layer, ORR_OP_REPLICATE, ORR_PASS_FORWARD, ORR_AXIS_TP, 2);
    must_count(layer, ORR_OP_ALL_GATHER, ORR_PASS_RECOMPUTE, ORR_AXIS_TP, 0);
    must_count(layer, ORR_OP_ALL_GATHER, ORR_PASS_FORWARD, ORR_AXIS_TP, 0);
    /* Each slice sends its share of the stream. */
    assert_int_equal(b.row.boundary_bytes, INT64_C(2) * 8192 * 4096 / 8);
    done(&b);
}

/* The gradient of a layer's input is summed beside the product that makes the gradient of its
 * weights. */
static void sums_of_gradients_run_beside_products(void **state)
{
    (void)state;
    built b = build("llama3.1-8b", "tp=8,seq=8k");
    const orr_tape *tape = module_of(&b, ORR_MODULE_LAYER)->tape;
    uint32_t beside = 0;
    for (uint32_t c = 0; c + 1 < tape->n_calls; c++) {
        const orr_tape_call *call = &tape->calls[c];
        if (call->op == ORR_OP_REDUCE_SCATTER && call->pass == ORR_PASS_INPUT) {
            assert_true(call->args.overlap);
            assert_int_equal(tape->calls[c + 1].op, ORR_OP_MATMUL);
            assert_int_equal(tape->calls[c + 1].pass, ORR_PASS_WEIGHT);
            beside++;
        }
        assert_false(call->pass == ORR_PASS_FORWARD && call->args.overlap);
    }
    assert_int_equal(beside, 2);
    done(&b);
}

/* s b h (34 + 5 a s / h) / t, and without the core of attention 34 s b h / t: Korthikanti et al.,
 * equations 2 and 6, for 16 bits; beside them two norms' means and deviations in fp32, 16 s b / t,
 * which they leave out. Selective recomputation keeps attention's output as they do. */
static void kept_activations_are_as_published(void **state)
{
    (void)state;
    static const struct {
        const char *plan;
        int64_t t, b;
        bool selective;
    } cases[] = {{"tp=8,flash=off", 8, 1, false},
                 {"tp=8,flash=off,recompute=selective,micro_batch=4", 8, 4, true},
                 {"tp=1,flash=off,micro_batch=2", 1, 2, false},
                 {"tp=4,flash=off,recompute=selective", 4, 1, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        built b = build("gpt3-175b", cases[i].plan);
        const int64_t s = 2048, h = 12288, a = 96, sb = s * cases[i].b;
        const int64_t core = cases[i].selective ? 0 : 5 * a * s * sb;
        assert_int_equal(kept_bytes(module_of(&b, ORR_MODULE_LAYER)),
                         (34 * sb * h + core + 16 * sb) / cases[i].t);
        done(&b);
    }
}

/* Full recomputation keeps the layer's input, and runs the forward pass once more. */
static void full_recomputation_keeps_the_input(void **state)
{
    (void)state;
    built b = build("gpt3-175b", "tp=8,recompute=full");
    const orr_module *layer = module_of(&b, ORR_MODULE_LAYER);
    assert_true(layer->recomputed);
    assert_int_equal(kept_bytes(layer), INT64_C(2) * 2048 * 12288 / 8);
    assert_true(flops_of(layer, ORR_PASS_RECOMPUTE) == flops_of(layer, ORR_PASS_FORWARD));
    must_count(layer, ORR_OP_REDUCE_SCATTER, ORR_PASS_RECOMPUTE, ORR_AXIS_TP, 2);
    must_count(layer, ORR_OP_ALL_GATHER, ORR_PASS_RECOMPUTE, ORR_AXIS_TP, 4);
    assert_false(module_of(&b, ORR_MODULE_HEAD)->recomputed);
    for (uint32_t i = 0; i < b.row.n; i++)
        assert_int_equal(b.row.module_of[i], b.row.recomputed_of[i]);
    done(&b);
}

/* Dropout went when flash attention came. */
static void dropout_is_of_its_time(void **state)
{
    (void)state;
    static const char *const plans[] = {"tp=8", "tp=8,flash=off"};
    for (uint32_t i = 0; i < 2; i++) {
        built b = build("gpt3-175b", plans[i]);
        must_count(module_of(&b, ORR_MODULE_LAYER), ORR_OP_DROPOUT, ORR_PASS_FORWARD, ORR_AXIS_NONE,
                   2 * i);
        done(&b);
    }
}

static void blocks_have_modules_of_both_kinds(void **state)
{
    (void)state;
    built b = build("llama3.1-8b", "recompute=block,recompute_layers=2");
    assert_false(b.row.modules[b.row.module_of[1]].recomputed);
    assert_true(b.row.modules[b.row.recomputed_of[1]].recomputed);
    assert_int_equal(b.row.module_of[0], b.row.recomputed_of[0]);
    assert_int_equal(b.row.n_modules, 4);
    assert_int_equal(b.row.n, 34);
    done(&b);
}

/* With flash attention the core runs once more, as the scores' recomputation has it without. */
static void selective_recomputation_repeats_the_core(void **state)
{
    (void)state;
    for (int flash = 0; flash < 2; flash++) {
        built b =
            build("llama3.1-8b", flash ? "recompute=selective" : "recompute=selective,flash=off");
        const orr_module *layer = module_of(&b, ORR_MODULE_LAYER);
        must_count(layer, ORR_OP_ATTENTION, ORR_PASS_RECOMPUTE, ORR_AXIS_NONE, 1);
        must_count(layer, ORR_OP_MATMUL, ORR_PASS_RECOMPUTE, ORR_AXIS_NONE, 0);
        done(&b);
    }
}

/* 8 bits: products of linear layers, not of attention, router or head; what comes out is bf16. */
static void products_are_in_eight_bits(void **state)
{
    (void)state;
    built b = build("llama3.1-8b", "tp=2,precision=fp8");
    const orr_tape *tape = module_of(&b, ORR_MODULE_LAYER)->tape;
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        const orr_tape_call *call = &tape->calls[c];
        if (call->op != ORR_OP_MATMUL)
            continue;
        assert_int_equal(tape->values[call->in[0]].type.dtype, ORR_DTYPE_FP8);
        assert_int_equal(tape->values[call->in[1]].type.dtype, ORR_DTYPE_FP8);
        assert_int_equal(tape->values[call->out[0]].type.dtype, ORR_DTYPE_BF16);
    }
    must_count(module_of(&b, ORR_MODULE_LAYER), ORR_OP_QUANTIZE, ORR_PASS_FORWARD, ORR_AXIS_NONE,
               4);
    must_count(module_of(&b, ORR_MODULE_HEAD), ORR_OP_QUANTIZE, ORR_PASS_FORWARD, ORR_AXIS_NONE, 0);
    done(&b);
}

/* What is gathered for a product in 8 bits is gathered in 8 bits: forward, backward, and again. */
static void eight_bits_move(void **state)
{
    (void)state;
    built b = build("llama3.1-8b", "tp=2,precision=fp8");
    const orr_tape *tape = module_of(&b, ORR_MODULE_LAYER)->tape;
    uint32_t gathers = 0;
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        const orr_tape_call *call = &tape->calls[c];
        if (call->op != ORR_OP_ALL_GATHER)
            continue;
        assert_int_equal(tape->values[call->out[0]].type.dtype, ORR_DTYPE_FP8);
        gathers++;
    }
    assert_int_equal(gathers, 6);
    done(&b);
}

/* Frozen weights have no gradients: only adapters do. */
static void adapters_alone_are_trained(void **state)
{
    (void)state;
    const orr_workload lora = {.task = ORR_TASK_LORA, .lora_rank = 8};
    built b = build_workload("llama3.1-8b", "tp=2", &lora);
    assert_int_equal(b.status, ORR_OK);
    const orr_tape *tape = module_of(&b, ORR_MODULE_LAYER)->tape;
    int64_t trained = 0;
    for (orr_value v = 0; v < tape->n_values; v++) {
        if (tape->values[v].role != ORR_VALUE_PARAMETER_GRADIENT)
            continue;
        assert_int_equal(strncmp(tape->values[tape->values[v].of].name, "lora", 4), 0);
        trained += orr_type_elements(&tape->values[v].type);
    }
    /* qkv: (4096, 8), and a slice of (8, 6144); out: a slice of (4096, 8), and (8, 4096). */
    assert_int_equal(trained, 8 * (4096 + 6144 / 2 + 4096 / 2 + 4096));
    done(&b);
}

static void serving_goes_forward_alone(void **state)
{
    (void)state;
    const orr_workload decode = {.task = ORR_TASK_DECODE, .prompt = 1000};
    built b = build_workload("llama3.1-8b", "tp=8,micro_batch=16", &decode);
    assert_int_equal(b.status, ORR_OK);
    const orr_module *layer = module_of(&b, ORR_MODULE_LAYER);
    assert_true(flops_of(layer, ORR_PASS_INPUT) == 0 && kept_bytes(layer) == 0);
    for (uint32_t c = 0; c < layer->tape->n_calls; c++)
        if (layer->tape->calls[c].op == ORR_OP_ATTENTION) {
            const orr_type *k = &layer->tape->values[layer->tape->calls[c].in[1]].type;
            assert_int_equal(k->dim[0], 16);
            assert_int_equal(k->dim[1], 1001);
            assert_int_equal(k->dim[2], 1);
        }
    must_count(layer, ORR_OP_ALL_REDUCE, ORR_PASS_FORWARD, ORR_AXIS_TP, 2);
    done(&b);

    const orr_workload prefill = {.task = ORR_TASK_PREFILL, .prompt = 512};
    b = build_workload("llama3.1-8b", "tp=8", &prefill);
    assert_int_equal(b.status, ORR_OK);
    const orr_module *head = module_of(&b, ORR_MODULE_HEAD);
    assert_int_equal(head->tape->values[head->out].type.dim[1], 1);
    done(&b);
}

/* 2 D F E / ep etp weights; T K rows go out and come back; gates of the tokens. */
static void tokens_go_to_their_experts(void **state)
{
    (void)state;
    built b = build("mixtral-8x7b", "tp=2,dp=4,ep=4,seq=4k");
    const orr_module *layer = module_of(&b, ORR_MODULE_MOE_LAYER);
    /* Tokens and their scores, and results. */
    must_count(layer, ORR_OP_ALL_TO_ALL, ORR_PASS_FORWARD, ORR_AXIS_EP, 3);
    must_count(layer, ORR_OP_ALL_TO_ALL, ORR_PASS_INPUT, ORR_AXIS_EP, 3);
    must_count(layer, ORR_OP_ALL_GATHER, ORR_PASS_FORWARD, ORR_AXIS_ETP, 2);
    must_count(layer, ORR_OP_REDUCE_SCATTER, ORR_PASS_FORWARD, ORR_AXIS_ETP, 1);
    const int64_t rows = 4096 / 2 * 2;
    assert_int_equal(moved_bytes(layer, ORR_PASS_FORWARD, ORR_AXIS_EP), (2 * 4096 + 1) * rows * 2);
    for (orr_value v = 0; v < layer->tape->n_values; v++) {
        const orr_tape_value *value = &layer->tape->values[v];
        if (value->role == ORR_VALUE_PARAMETER && strcmp(value->name, "expert_gate_up") == 0) {
            assert_int_equal(value->tag, ORR_WEIGHT_EXPERT);
            assert_int_equal(orr_type_elements(&value->type), INT64_C(2) * 4096 * 14336);
        }
    }
    done(&b);
}

static void the_fullest_rank_sets_the_rows(void **state)
{
    (void)state;
    static const double share[] = {0.5, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05};
    const orr_expert_load load = {.layers = 1, .experts = 8, .share = share, .tokens = 1};
    const orr_workload even = {0}, uneven = {.load = &load};
    built a = build_workload("mixtral-8x7b", "dp=4,ep=4,seq=4k", &even);
    built b = build_workload("mixtral-8x7b", "dp=4,ep=4,seq=4k", &uneven);
    assert_true(b.row.imbalance > 2.39 && b.row.imbalance < 2.41);
    const orr_tape *before = module_of(&a, ORR_MODULE_MOE_LAYER)->tape,
                   *after = module_of(&b, ORR_MODULE_MOE_LAYER)->tape;
    uint32_t products = 0, dispatches = 0;
    assert_int_equal(before->n_calls, after->n_calls);
    for (uint32_t c = 0; c < after->n_calls; c++) {
        const orr_tape_call *call = &after->calls[c];
        if (call->op != ORR_OP_GROUPED_MATMUL && call->op != ORR_OP_DISPATCH)
            continue;
        /* Rows that have arrived are more; those that are sent are as many. */
        const bool product = call->op == ORR_OP_GROUPED_MATMUL;
        const orr_value rows = product ? call->in[0] : call->out[0];
        const int64_t was = before->values[rows].type.dim[0],
                      now = after->values[rows].type.dim[0];
        assert_int_equal(now, product ? (int64_t)(2.4 * (double)was + 0.999) : was);
        *(product ? &products : &dispatches) += 1;
    }
    assert_int_equal(products, 6);
    assert_true(dispatches >= 2);
    done(&a);
    done(&b);
}

/* Keys and values of all, gathered, or handed on c - 1 times beside attention. */
static void context_slices_see_one_another(void **state)
{
    (void)state;
    built b = build("llama3.1-8b", "cp=4,cp_kind=all_gather,seq=8k");
    const orr_module *layer = module_of(&b, ORR_MODULE_LAYER);
    must_count(layer, ORR_OP_ALL_GATHER, ORR_PASS_FORWARD, ORR_AXIS_CP, 2);
    must_count(layer, ORR_OP_REDUCE_SCATTER, ORR_PASS_INPUT, ORR_AXIS_CP, 2);
    assert_int_equal(moved_bytes(layer, ORR_PASS_FORWARD, ORR_AXIS_CP), 2 * 8192 * 1024 * 2);
    const double gathered = product_flops_of(layer, ORR_PASS_FORWARD);
    done(&b);
    b = build("llama3.1-8b", "cp=4,cp_kind=ring,seq=8k");
    layer = module_of(&b, ORR_MODULE_LAYER);
    must_count(layer, ORR_OP_SEND, ORR_PASS_FORWARD, ORR_AXIS_CP, 2 * 3);
    must_count(layer, ORR_OP_ATTENTION, ORR_PASS_FORWARD, ORR_AXIS_NONE, 4);
    for (uint32_t c = 0; c < layer->tape->n_calls; c++)
        assert_true(layer->tape->calls[c].op != ORR_OP_SEND || layer->tape->calls[c].args.overlap);
    const double ring = product_flops_of(layer, ORR_PASS_FORWARD);
    assert_true(ring / gathered > 0.999 && ring / gathered < 1.001);
    done(&b);
}

static void layers_that_differ_are_modules_of_their_own(void **state)
{
    (void)state;
    built b = build("llama4-maverick", "tp=8,dp=16,ep=128,etp=1");
    assert_int_equal(b.row.n, 50);
    const orr_module *at[4];
    for (uint32_t i = 0; i < 4; i++)
        at[i] = &b.row.modules[b.row.module_of[1 + i]];
    assert_string_equal(at[0]->name, "chunked layer");
    assert_string_equal(at[1]->name, "chunked expert layer");
    assert_ptr_equal(at[0], at[2]);
    assert_string_equal(at[3]->name, "expert layer");
    done(&b);
    b = build("deepseek-v3", "ep=64,dp=64");
    assert_int_equal(b.row.modules[b.row.module_of[3]].kind, ORR_MODULE_LAYER);
    assert_int_equal(b.row.modules[b.row.module_of[4]].kind, ORR_MODULE_MOE_LAYER);
    assert_int_equal(b.row.modules[b.row.module_of[62]].kind, ORR_MODULE_MTP);
    assert_int_equal(b.row.modules[b.row.module_of[63]].kind, ORR_MODULE_HEAD);
    done(&b);
}

static bool multiplies(const orr_tape_call *call)
{
    switch (orr_op_of((orr_op)call->op)->family) {
    case ORR_OP_FAMILY_MATMUL:
    case ORR_OP_FAMILY_ATTENTION:
    case ORR_OP_FAMILY_INTERACTION:
        return true;
    default:
        return call->op == ORR_OP_CONVOLUTION;
    }
}

/* Products of the forward pass are the closed form's: a causal mask has s (s + 1) / 2 pairs, which
 * it counts as s^2 / 2. */
static void work_is_that_of_the_model(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        double samples;
    } cases[] = {{"llama3.1-8b", 2},     {"gpt3-175b", 2},  {"mixtral-8x7b", 2},
                 {"deepseek-v3", 2},     {"mpt-7b", 2},     {"resnet50", 2},
                 {"dlrm-criteo-1tb", 2}, {"dlrm-dcnv2", 2}, {"qwen3-30b-a3b", 2},
                 {"llama4-scout", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        built b = build(cases[i].model, "seq=2k,micro_batch=2");
        const double want = cases[i].samples * orr_model_flops(b.model, 2048, false);
        double sum = 0;
        for (uint32_t p = 0; p < b.row.n; p++) {
            const orr_module *module = &b.row.modules[b.row.module_of[p]];
            for (uint32_t c = 0; c < module->tape->n_calls && module->kind != ORR_MODULE_MTP; c++) {
                const orr_tape_call *call = &module->tape->calls[c];
                orr_op_work work;
                orr_tape_work(module->tape, c, &work);
                if (call->pass == ORR_PASS_FORWARD && multiplies(call))
                    sum += work.flops;
            }
        }
        if (sum / want < 0.9999 || sum / want > 1.001)
            fail_msg("%s: %g FLOPs on the tapes, %g by formula", cases[i].model, sum, want);
        done(&b);
    }
}

static int64_t parameters_of(const built *b)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < b->row.n; i++) {
        const orr_tape *tape = b->row.modules[b->row.module_of[i]].tape;
        for (orr_value v = 0; v < tape->n_values; v++)
            if (tape->values[v].role == ORR_VALUE_PARAMETER)
                n += orr_type_elements(&tape->values[v].type);
    }
    return n;
}

/* All of the catalogue, on one device: what the tapes hold is what the shapes say. Tied heads stand
 * on two tapes. Embedding tables stand beside the tape. Left out are biases of
 * single experts and sinks of attention (GPT-OSS). */
static void tapes_hold_all_parameters(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_models all;
    orr_error err = {0};
    uint32_t checked = 0;
    assert_int_equal(orr_models_open(arena, &all, &err), ORR_OK);
    for (uint32_t i = 0; i < all.n; i++) {
        const orr_model *m = all.models[i];
        const orr_workload training = {.images = m->vision.layers > 0};
        orr_model_size size;
        if (m->incomplete)
            continue;
        built b = build_workload(m->name, "seq=1k", &training);
        if (b.status != ORR_OK)
            fail_msg("%s: %s", m->name, b.err.text);
        assert_int_equal(orr_model_count_parameters(m, arena, &size, &err), ORR_OK);
        int64_t want = size.total + size.mtp;
        want += m->tied ? (int64_t)m->vocab * m->hidden : 0;
        if (m->moe.biases)
            want -=
                (int64_t)m->layers * m->moe.experts * (2 * (int64_t)m->moe.expert_ffn + m->hidden);
        for (uint32_t t = 0; t < m->dlrm.n_tables; t++)
            want -= m->dlrm.tables[t].rows * m->dlrm.tables[t].columns;
        want -= m->sinks ? (int64_t)m->layers * m->heads : 0;
        if (parameters_of(&b) != want)
            fail_msg("%s: %lld parameters on the tapes, not %lld", m->name,
                     (long long)parameters_of(&b), (long long)want);
        checked++;
        done(&b);
    }
    assert_true(checked > 30);
    orr_arena_free(arena);
}

/* Bias, dropout and residual are one kernel: two inputs and the bias are read, the sum and the mask
 * written. A bias behind its product costs nothing. */
static void elementwise_work_is_fused(void **state)
{
    (void)state;
    built b = build("gpt3-175b", "tp=8,flash=off");
    const orr_module *layer = module_of(&b, ORR_MODULE_LAYER);
    const double rows = 2048.0 / 8 * 12288;
    uint32_t chains = 0, parts = 0;
    for (uint32_t c = 0; c < layer->tape->n_calls; c++) {
        const orr_tape_call *call = &layer->tape->calls[c];
        orr_work work;
        const bool runs = orr_module_work(layer, c, &work);
        parts += !runs;
        if (strcmp(call->name, "qkv") == 0 && call->op == ORR_OP_BIAS)
            assert_false(runs);
        if (strcmp(call->name, "attention_add") != 0 || call->op != ORR_OP_ADD)
            continue;
        assert_true(runs);
        assert_true(work.read_bytes == 2 * 2 * rows + 2 * 12288);
        assert_true(work.write_bytes == 3 * rows);
        chains++;
    }
    assert_int_equal(chains, 1);
    assert_int_equal(parts, 6);
    done(&b);
    b = build("gpt3-175b", "tp=8,fusion=off");
    assert_null(module_of(&b, ORR_MODULE_LAYER)->kernels);
    done(&b);
}

/* Each allocation fails once. */
static void lack_of_memory_is_told(void **state)
{
    (void)state;
    static const char *const plans[] = {"tp=2,cp=2,recompute=block,recompute_layers=1",
                                        "tp=2,dp=2,ep=4"};
    for (size_t i = 0; i < 2; i++) {
        built b = build(i == 0 ? "llama3.1-8b" : "deepseek-v3", plans[i]);
        uint64_t failed = 0;
        orr_status status = ORR_NO_MEMORY;
        for (uint64_t nth = 1; status == ORR_NO_MEMORY; nth++) {
            const orr_workload training = {0};
            orr_module_sequence row;
            orr_error err = {0};
            orr_arena *arena = orr_arena_new(1024, 0);
            assert_non_null(arena);
            orr_alloc_fail_from(nth);
            status = orr_modules_build(b.model, &b.plan, &training, arena, &row, &err);
            orr_alloc_fail_from(0);
            failed += status == ORR_NO_MEMORY;
            orr_arena_free(arena);
        }
        assert_int_equal(status, ORR_OK);
        assert_true(failed > 10);
        done(&b);
    }
}

static void what_cannot_be_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *model, *plan;
        orr_status status;
        const char *why;
    } cases[] = {
        {"llama3.1-8b", "tp=64,seq=8k", ORR_INVALID, "32 attention heads do not divide into 64"},
        {"llama3.1-8b", "dp=2,ep=2,seq=8k", ORR_INVALID, "0 experts do not divide over 2"},
        {"mixtral-8x7b", "dp=3,ep=3,seq=8k", ORR_INVALID, "8 experts do not divide over 3"},
        {"llama3.1-8b", "tp=8,seq=1001", ORR_INVALID, "1001 tokens do not divide into 8"},
        {"llama4-behemoth", "tp=8", ORR_UNSUPPORTED, "not published"},
        {"resnet50", "tp=2", ORR_UNSUPPORTED, "only replicas"},
        {"qwen3-30b-a3b", "tp=4,dp=2,ep=8,etp=1,sp=off", ORR_UNSUPPORTED, "sp=on"},
    };
    const orr_workload training = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        built b = build_workload(cases[i].model, cases[i].plan, &training);
        if (b.status != cases[i].status || strstr(b.err.text, cases[i].why) == NULL)
            fail_msg("%s: %s: '%s'", cases[i].plan, orr_status_name(b.status), b.err.text);
        done(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequence_parallel_layers_speak_as_megatron),
        cmocka_unit_test(tensor_parallel_layers_speak_as_megatron),
        cmocka_unit_test(sums_of_gradients_run_beside_products),
        cmocka_unit_test(kept_activations_are_as_published),
        cmocka_unit_test(full_recomputation_keeps_the_input),
        cmocka_unit_test(dropout_is_of_its_time),
        cmocka_unit_test(blocks_have_modules_of_both_kinds),
        cmocka_unit_test(selective_recomputation_repeats_the_core),
        cmocka_unit_test(products_are_in_eight_bits),
        cmocka_unit_test(eight_bits_move),
        cmocka_unit_test(adapters_alone_are_trained),
        cmocka_unit_test(serving_goes_forward_alone),
        cmocka_unit_test(tokens_go_to_their_experts),
        cmocka_unit_test(the_fullest_rank_sets_the_rows),
        cmocka_unit_test(context_slices_see_one_another),
        cmocka_unit_test(layers_that_differ_are_modules_of_their_own),
        cmocka_unit_test(elementwise_work_is_fused),
        cmocka_unit_test(work_is_that_of_the_model),
        cmocka_unit_test(tapes_hold_all_parameters),
        cmocka_unit_test(lack_of_memory_is_told),
        cmocka_unit_test(what_cannot_be_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
