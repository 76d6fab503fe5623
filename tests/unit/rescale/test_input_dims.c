/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "rescale/recognise/input_dims.h"

static const orr_plan small = {
    .tp = 1, .micro_batch = 2, .seq = 8, .hidden = 16, .ffn = 64, .heads = 4, .vocab = 100};
static const orr_plan large = {
    .tp = 2, .micro_batch = 4, .seq = 12, .hidden = 32, .ffn = 96, .heads = 4, .vocab = 200};

static void texts_are_parsed(void **state)
{
    (void)state;
    orr_input_dims d;
    assert_true(orr_dims_parse("[[2, 8, 16], [], [48, 16], [48]]", &d));
    assert_int_equal(d.n, 6);
    assert_int_equal(orr_dims_rank(&d, 0), 3);
    assert_int_equal(orr_dims_rank(&d, 1), 0);
    assert_int_equal(orr_dims_value(&d, 2, 0), 48);
    assert_int_equal(orr_dims_product(&d, 2), 768);
    assert_int_equal(orr_dims_product(&d, 1), 0);
    assert_int_equal(orr_dims_value(&d, 7, 0), -1);
    assert_true(orr_dims_parse("", &d));
    assert_int_equal(d.n, 0);
    assert_false(orr_dims_parse("[[99999999999999999999]]", &d));
    assert_int_equal(d.n, 0);
}

/* The shapes of an operator, carried from `small` to `large`. */
static void must_carry(const orr_step_piece *p, const char *op, uint32_t mm, const char *text,
                       const char *want)
{
    orr_input_dims d;
    orr_dim_meaning meaning[ORR_DIMS_MOST];
    orr_arena *arena = orr_arena_new(0, 0);
    assert_true(orr_dims_parse(text, &d));
    orr_dims_meaning(p, &small, op, mm, &d, meaning);
    for (uint32_t i = 0; i < d.n; i++)
        assert_true(orr_dim_translate(&small, &large, meaning[i], &d.at[i].value));
    assert_string_equal(orr_dims_text(text, &d, arena), want);
    orr_arena_free(arena);
}

static const orr_dim_meaning hidden = {ORR_SYMBOL_HIDDEN, false};
static const orr_dim_meaning cut_hidden = {ORR_SYMBOL_HIDDEN, true};
static const orr_dim_meaning cut_ffn = {ORR_SYMBOL_FFN, true};
static const orr_dim_meaning cut_vocab = {ORR_SYMBOL_VOCAB, true};

static void products_are_cut_by_columns_and_rows(void **state)
{
    (void)state;
    const orr_step_piece qkv = {
        .phase = ORR_PHASE_FORWARD, .kind = ORR_OP_COLUMN, .in = hidden, .out = cut_hidden};
    must_carry(&qkv, "aten::linear", 0, "[[2, 8, 16], [48, 16], [48]]",
               "[[4, 12, 32], [48, 32], [48]]");
    must_carry(&qkv, "aten::addmm", 0, "[[48], [16, 16], [16, 48], [], []]",
               "[[48], [48, 32], [32, 48], [], []]");
    const orr_step_piece down = {
        .phase = ORR_PHASE_FORWARD, .kind = ORR_OP_ROW, .in = cut_ffn, .out = hidden};
    must_carry(&down, "aten::linear", 0, "[[2, 8, 64], [16, 64], [16]]",
               "[[4, 12, 48], [32, 48], [32]]");
}

/* Tokens and hidden columns are the same number here; the order of the two products tells. */
static void gradients_of_products_are_told_apart(void **state)
{
    (void)state;
    const orr_step_piece up = {
        .phase = ORR_PHASE_BACKWARD, .kind = ORR_OP_COLUMN, .in = hidden, .out = cut_ffn};
    must_carry(&up, "aten::mm", 0, "[[16, 64], [64, 16]]", "[[48, 48], [48, 32]]");
    must_carry(&up, "aten::mm", 1, "[[16, 16], [16, 64]]", "[[32, 48], [48, 48]]");
}

static void other_operators(void **state)
{
    (void)state;
    const orr_step_piece attention = {
        .kind = ORR_OP_ATTENTION, .in = cut_hidden, .out = cut_hidden};
    must_carry(&attention, "aten::scaled_dot_product_attention", 0, "[[2, 4, 8, 4]]",
               "[[4, 2, 12, 8]]");
    must_carry(&attention, "aten::_flash_attention_forward", 0, "[[2, 8, 4, 4]]",
               "[[4, 12, 2, 8]]");
    const orr_step_piece norm = {.kind = ORR_OP_NORM, .in = hidden, .out = hidden};
    must_carry(&norm, "aten::native_layer_norm", 0, "[[2, 8, 16], [], [16], [16], []]",
               "[[4, 12, 32], [], [32], [32], []]");
    must_carry(&norm, "aten::native_layer_norm_backward", 0, "[[2, 8, 16], [2, 8, 1]]",
               "[[4, 12, 32], [4, 12, 1]]");
    const orr_step_piece table = {.kind = ORR_OP_EMBEDDING, .in = hidden, .out = hidden};
    must_carry(&table, "aten::embedding", 0, "[[100, 16], [2, 8]]", "[[100, 32], [4, 12]]");
    const orr_step_piece loss = {.kind = ORR_OP_SOFTMAX, .in = cut_vocab, .out = cut_vocab};
    must_carry(&loss, "aten::nll_loss_forward", 0, "[[16, 100], [16]]", "[[48, 100], [48]]");
}

static void numbers_that_are_not_what_they_seem_stay(void **state)
{
    (void)state;
    int64_t value = 7;
    assert_false(orr_dim_translate(&small, &large, hidden, &value)); /* no multiple of 16 */
    assert_int_equal(value, 7);
    assert_true(orr_dim_translate(&small, &small, hidden, &value));
    const orr_plan odd = {.tp = 3, .hidden = 16};
    value = 16;
    assert_false(orr_dim_translate(&small, &odd, cut_hidden, &value));
    value = INT64_MAX / 2;
    assert_false(orr_dim_translate(&small, &large, hidden, &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_parsed),
        cmocka_unit_test(products_are_cut_by_columns_and_rows),
        cmocka_unit_test(gradients_of_products_are_told_apart),
        cmocka_unit_test(other_operators),
        cmocka_unit_test(numbers_that_are_not_what_they_seem_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
