/* SPDX-License-Identifier: Apache-2.0 */
#include "built.h"
#include "model/module/local_shard.h"

/* The n-th parameter of the name, or what no call makes. */
static orr_value value_of(const orr_module *module, const char *name, uint32_t n)
{
    for (orr_value v = 0; v < module->tape->n_values; v++)
        if (module->tape->values[v].made_by == ORR_NONE &&
            strcmp(module->tape->values[v].name, name) == 0 && n-- == 0)
            return v;
    fail_msg("no such value: %s", name);
    return ORR_NONE;
}

static orr_local_shard owned(const built *b, const orr_module *module, uint32_t rank,
                             orr_value value)
{
    orr_local_shard o;
    orr_error err = {0};
    if (orr_module_local_shard(module, &b->plan, rank, value, &o, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return o;
}

static void is_piece(const orr_dim_pieces *share, uint32_t i, int64_t whole, int64_t own,
                     int64_t count, uint32_t copies)
{
    assert_true(i < share->n);
    assert_int_equal(share->piece[i].whole, whole);
    assert_int_equal(share->piece[i].own, own);
    assert_int_equal(share->piece[i].count, count);
    assert_int_equal(share->piece[i].copies, copies);
}

static built build_real(const char *name, const char *plan)
{
    const orr_workload training = {.task = ORR_TASK_PRETRAIN, .real = true};
    const built b = build_workload(name, plan, &training);
    if (b.status != ORR_OK)
        fail_msg("%s", b.err.text);
    return b;
}

static void gates_and_ups_are_sliced_each(void **state)
{
    (void)state;
    built b = build_real("llama3-8b", "tp=4,seq=64");
    const orr_module *layer = module_of(&b, ORR_MODULE_LAYER);
    const orr_local_shard o = owned(&b, layer, 3, value_of(layer, "gate_up", 0));
    assert_int_equal(o.whole.dim[0], 4096);
    assert_int_equal(o.whole.dim[1], 2 * 14336);
    assert_int_equal(o.slices, orr_axis_bit(ORR_AXIS_TP));
    is_piece(&o.by[0], 0, 0, 0, 4096, 1);
    assert_int_equal(o.by[1].n, 2);
    is_piece(&o.by[1], 0, 3 * 3584, 0, 3584, 1);
    is_piece(&o.by[1], 1, 14336 + 3 * 3584, 3584, 3584, 1);
    const orr_local_shard down = owned(&b, layer, 3, value_of(layer, "down", 0));
    is_piece(&down.by[0], 0, 3 * 3584, 0, 3584, 1);
    done(&b);
}

/* A layer's keys and values of 8 heads on 16 slices: two have the same. */
static void keys_and_values_are_copied(void **state)
{
    (void)state;
    built b = build_real("llama3-8b", "tp=16,seq=64");
    const orr_module *layer = module_of(&b, ORR_MODULE_LAYER);
    const orr_local_shard o = owned(&b, layer, 5, value_of(layer, "qkv", 0));
    assert_true(o.copied);
    assert_int_equal(o.whole.dim[1], (32 + 2 * 8) * 128);
    assert_int_equal(o.by[1].n, 2);
    is_piece(&o.by[1], 0, 2 * 6 * 128 + 2 * 128, 0, 2 * 128,
             1); /* second half of the third group's */
    is_piece(&o.by[1], 1, 2 * 6 * 128 + 4 * 128, 2 * 128, 2 * 128, 2);
    done(&b);
    b = build_real("llama3-8b", "tp=8,seq=64");
    layer = module_of(&b, ORR_MODULE_LAYER);
    const orr_local_shard plain = owned(&b, layer, 5, value_of(layer, "qkv", 0));
    assert_false(plain.copied);
    is_piece(&plain.by[1], 0, 5 * 6 * 128, 0, 6 * 128, 1);
    done(&b);
}

/* 50257 words on 4 slices: three words of padding at the end. */
static void a_vocabulary_is_padded(void **state)
{
    (void)state;
    built b = build_real("gpt3-small", "tp=4,seq=64,vocab=50257");
    const orr_module *embedding = module_of(&b, ORR_MODULE_EMBEDDING);
    const orr_value table = value_of(embedding, "embedding", 0);
    const orr_local_shard first = owned(&b, embedding, 0, table),
                          last = owned(&b, embedding, 3, table);
    assert_int_equal(embedding->tape->values[table].type.dim[0], 12565);
    assert_int_equal(last.whole.dim[0], 50257);
    is_piece(&first.by[0], 0, 0, 0, 12565, 1);
    is_piece(&last.by[0], 0, 37695, 0, 12562, 1);
    done(&b);
}

static void what_no_one_slices_is_whole(void **state)
{
    (void)state;
    built b = build_real("llama3-8b", "tp=2,cp=2,seq=64");
    const orr_module *layer = module_of(&b, ORR_MODULE_LAYER);
    const orr_local_shard norm = owned(&b, layer, 3, value_of(layer, "attention_norm", 0));
    assert_int_equal(norm.slices, 0);
    is_piece(&norm.by[0], 0, 0, 0, 4096, 1);
    /* The stream: slices of the context, and of these those of the sequence. */
    const orr_local_shard in = owned(&b, layer, 3, layer->in);
    assert_int_equal(in.whole.dim[1], 64);
    is_piece(&in.by[1], 0, 48, 0, 16, 1);
    const orr_local_shard grad = owned(&b, layer, 2, layer->grad_in);
    is_piece(&grad.by[1], 0, 32, 0, 16, 1);
    done(&b);
}

static void experts_are_where_they_are(void **state)
{
    (void)state;
    built b = build_real("mixtral-8x7b", "tp=2,dp=4,ep=4,etp=2,seq=64");
    const orr_module *layer = module_of(&b, ORR_MODULE_MOE_LAYER);
    const orr_local_shard o = owned(&b, layer, 5, value_of(layer, "expert_gate_up", 0));
    is_piece(&o.by[0], 0, 4, 0, 2, 1);
    is_piece(&o.by[2], 0, 7168, 0, 7168, 1);
    is_piece(&o.by[2], 1, 14336 + 7168, 7168, 7168, 1);
    done(&b);
}

static const orr_tape_call *call_of(const orr_module *module, orr_op op, uint32_t n)
{
    for (uint32_t c = 0; c < module->tape->n_calls; c++)
        if (module->tape->calls[c].op == op && n-- == 0)
            return &module->tape->calls[c];
    fail_msg("no such call");
    return NULL;
}

static orr_module own(built *b, orr_module_kind kind, uint32_t rank)
{
    orr_module module;
    orr_error err = {0};
    assert_int_equal(
        orr_module_specialize(module_of(b, kind), &b->plan, rank, b->arena, &module, &err), ORR_OK);
    return module;
}

static void a_rank_knows_its_place(void **state)
{
    (void)state;
    built b = build_real("gpt3-small", "tp=4,cp=2,seq=64,vocab=50257,cp_kind=all_gather");
    const orr_module embedding = own(&b, ORR_MODULE_EMBEDDING, 7),
                     head = own(&b, ORR_MODULE_HEAD, 7), layer = own(&b, ORR_MODULE_LAYER, 7);
    const orr_tape_call *lookup = call_of(&embedding, ORR_OP_EMBEDDING, 0);
    assert_int_equal(lookup->args.begin, 37695);
    assert_int_equal(lookup->args.count, 12565);
    const orr_tape_call *loss = call_of(&head, ORR_OP_CROSS_ENTROPY, 0);
    assert_int_equal(loss->args.begin, 37695);
    assert_int_equal(loss->args.count, 12562);
    assert_int_equal(call_of(&layer, ORR_OP_ATTENTION, 0)->args.offset, 32);
    assert_int_equal(call_of(&layer, ORR_OP_ATTENTION_BACKWARD, 0)->args.offset, 32);
    /* The tape of any rank is as it was. */
    assert_int_equal(call_of(module_of(&b, ORR_MODULE_EMBEDDING), ORR_OP_EMBEDDING, 0)->args.begin,
                     0);
    done(&b);
}

/* The second piece of a ring is that of the rank before; the first rank's comes from the last. */
static void a_ring_turns(void **state)
{
    (void)state;
    built b = build_real("llama3-8b", "cp=4,seq=64,cp_kind=ring");
    for (uint32_t rank = 0; rank < 4; rank++) {
        const orr_module layer = own(&b, ORR_MODULE_LAYER, rank);
        const orr_tape_call *second = call_of(&layer, ORR_OP_ATTENTION, 1);
        assert_int_equal(second->args.offset, 16 * rank);
        assert_int_equal(second->args.begin, 16 * ((rank + 3) % 4));
        const orr_tape_call *turn = call_of(&layer, ORR_OP_SEND, 0);
        assert_int_equal(turn->args.begin, (rank + 1) % 4);
        assert_int_equal(turn->args.count - 1, (rank + 3) % 4);
        assert_int_equal(call_of(&layer, ORR_OP_ROTARY, 0)->args.offset, 16 * rank);
    }
    done(&b);
}

static void what_is_not_held_is_not_known(void **state)
{
    (void)state;
    built b = build_real("llama3-8b", "tp=2,seq=64");
    const orr_module *layer = module_of(&b, ORR_MODULE_LAYER);
    orr_local_shard o;
    orr_error err = {0};
    const orr_value inside = layer->tape->calls[0].out[0];
    assert_int_equal(orr_module_local_shard(layer, &b.plan, 0, inside, &o, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "how value"));
    assert_int_equal(orr_module_local_shard(layer, &b.plan, 0, layer->tape->n_values, &o, &err),
                     ORR_INVALID);
    done(&b);
}

static void what_cannot_be_run_is_named(void **state)
{
    (void)state;
    const orr_workload training = {.task = ORR_TASK_PRETRAIN, .real = true},
                       cached = {.task = ORR_TASK_PREFILL, .prompt = 64, .cache = 32},
                       pictures = {.task = ORR_TASK_PREFILL, .prompt = 64, .cache = 128};
    built b = build_workload("gpt-oss-120b", "tp=1,seq=64", &training);
    assert_int_equal(b.status, ORR_UNSUPPORTED);
    assert_string_equal(b.err.text, "gpt-oss-120b: attention sinks cannot be run");
    done(&b);
    b = build_workload("llama3-8b", "tp=1", &cached);
    assert_int_equal(b.status, ORR_INVALID);
    assert_string_equal(b.err.text, "64 tokens do not fit into a cache of 32");
    done(&b);
    b = build_workload("llama3.2-11b-vision", "tp=1", &pictures);
    assert_int_equal(b.status, ORR_UNSUPPORTED);
    done(&b);
    b = build_workload("llama3-8b", "cp=2", &pictures);
    assert_int_equal(b.status, ORR_UNSUPPORTED);
    assert_string_equal(b.err.text, "a cache is not sliced by context (cp)");
    done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gates_and_ups_are_sliced_each),
        cmocka_unit_test(keys_and_values_are_copied),
        cmocka_unit_test(a_vocabulary_is_padded),
        cmocka_unit_test(what_no_one_slices_is_whole),
        cmocka_unit_test(experts_are_where_they_are),
        cmocka_unit_test(a_rank_knows_its_place),
        cmocka_unit_test(a_ring_turns),
        cmocka_unit_test(what_is_not_held_is_not_known),
        cmocka_unit_test(what_cannot_be_run_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
