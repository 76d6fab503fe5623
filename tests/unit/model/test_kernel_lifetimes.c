/* SPDX-License-Identifier: Apache-2.0 */
#include "small_module.h"

enum { WIDE = 4000, NARROW = 2000 };

/* hidden -> logits [-> fp32] -> loss, and back. */
typedef struct head {
    small_tape s;
    orr_value hidden, logits, wide, loss, dwide, dlogits, dhidden;
    orr_module module;
} head;

static void make_head(head *h, bool casts)
{
    small_tape *s = &h->s;
    small_init(s);
    h->hidden = small_value(s, ORR_VALUE_INPUT, 10);
    h->logits = h->wide = small_value(s, ORR_VALUE_ACTIVATION, NARROW);
    h->loss = small_value(s, ORR_VALUE_ACTIVATION, 1);
    h->dlogits = h->dwide = small_value(s, ORR_VALUE_GRADIENT, NARROW);
    h->dhidden = small_value(s, ORR_VALUE_GRADIENT, 10);
    if (casts) {
        h->wide = small_value(s, ORR_VALUE_ACTIVATION, WIDE);
        h->dwide = small_value(s, ORR_VALUE_GRADIENT, WIDE);
    }
    small_call(s, ORR_OP_MATMUL, ORR_PASS_FORWARD, h->hidden, ORR_NONE, ORR_NONE, h->logits);
    if (casts)
        small_call(s, ORR_OP_CAST, ORR_PASS_FORWARD, h->logits, ORR_NONE, ORR_NONE, h->wide);
    small_call(s, ORR_OP_CROSS_ENTROPY, ORR_PASS_FORWARD, h->wide, ORR_NONE, ORR_NONE, h->loss);
    small_call(s, ORR_OP_CROSS_ENTROPY_BACKWARD, ORR_PASS_INPUT, h->wide, ORR_NONE, ORR_NONE,
               h->dwide);
    if (casts)
        small_call(s, ORR_OP_CAST, ORR_PASS_INPUT, h->dwide, ORR_NONE, ORR_NONE, h->dlogits);
    small_call(s, ORR_OP_MATMUL, ORR_PASS_INPUT, h->dlogits, ORR_NONE, ORR_NONE, h->dhidden);
    h->module = (orr_module){.kind = ORR_MODULE_HEAD,
                             .name = "head",
                             .tape = &s->tape,
                             .in = h->hidden,
                             .out = h->loss,
                             .grad_in = h->dhidden,
                             .grad_out = ORR_NONE};
}

static orr_module_memory memory_of(const orr_module *module, bool fused)
{
    orr_module_memory m;
    assert_int_equal(
        orr_module_memory_of_plan(
            module, &(orr_plan){.fusion = fused ? ORR_SWITCH_ON : ORR_SWITCH_OFF}, &m, NULL),
        ORR_OK);
    return m;
}

static void the_gradient_of_logits_lies_over_them(void **state)
{
    (void)state;
    head h;
    make_head(&h, false);
    const orr_module_memory m = memory_of(&h.module, true);
    assert_int_equal(m.kept_bytes, NARROW);
    assert_int_equal(m.backward_peak_bytes, 10);
}

static void a_fused_loss_casts_within(void **state)
{
    (void)state;
    head h;
    make_head(&h, true);
    const orr_module_memory m = memory_of(&h.module, true);
    assert_int_equal(m.kept_bytes, NARROW);
    assert_int_equal(m.backward_peak_bytes, 10);
    assert_int_equal(m.forward_peak_bytes, 10);
}

static void one_of_kernels_does_not(void **state)
{
    (void)state;
    head h;
    make_head(&h, true);
    const orr_module_memory m = memory_of(&h.module, false);
    assert_int_equal(m.kept_bytes, WIDE);
    /* Logits, the gradient of their log-softmax, and their gradient. */
    assert_int_equal(m.backward_peak_bytes, 2 * WIDE);
}

static void a_gradient_that_does_not_fit_lies_elsewhere(void **state)
{
    (void)state;
    head h;
    make_head(&h, false);
    h.s.values[h.dlogits].type.dim[0] = 2 * NARROW;
    assert_int_equal(memory_of(&h.module, true).backward_peak_bytes, 2 * NARROW);
}

/* Two blocks: y = y1 + y2; the backward pass of each reads what it gave, but in truth the sum. */
static void blocks_of_a_ring_are_gone_once_added(void **state)
{
    (void)state;
    small_tape s;
    small_init(&s);
    const orr_value q = small_value(&s, ORR_VALUE_INPUT, 1);
    orr_value y[2], lse[2], dq[2];
    for (int i = 0; i < 2; i++) {
        y[i] = small_value(&s, ORR_VALUE_ACTIVATION, 100);
        lse[i] = small_value(&s, ORR_VALUE_ACTIVATION, 10);
        dq[i] = small_value(&s, ORR_VALUE_GRADIENT, 1);
    }
    const orr_value sum = small_value(&s, ORR_VALUE_ACTIVATION, 100),
                    dy = small_value(&s, ORR_VALUE_GRADIENT, 100);
    for (int i = 0; i < 2; i++) {
        small_call(&s, ORR_OP_ATTENTION, ORR_PASS_FORWARD, q, ORR_NONE, ORR_NONE, y[i]);
        s.calls[i].out[s.calls[i].n_out++] = lse[i];
        s.values[lse[i]].made_by = (uint32_t)i;
    }
    small_call(&s, ORR_OP_ADD, ORR_PASS_FORWARD, y[0], y[1], ORR_NONE, sum);
    for (int i = 0; i < 2; i++)
        small_call(&s, ORR_OP_ATTENTION_BACKWARD, ORR_PASS_INPUT, y[i], lse[i], dy, dq[i]);
    const orr_module module = {.kind = ORR_MODULE_LAYER,
                               .name = "layer",
                               .tape = &s.tape,
                               .in = q,
                               .out = sum,
                               .grad_in = dq[1],
                               .grad_out = dy};
    assert_int_equal(memory_of(&module, true).kept_bytes, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gradient_of_logits_lies_over_them),
        cmocka_unit_test(a_fused_loss_casts_within),
        cmocka_unit_test(one_of_kernels_does_not),
        cmocka_unit_test(a_gradient_that_does_not_fit_lies_elsewhere),
        cmocka_unit_test(blocks_of_a_ring_are_gone_once_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
