/* SPDX-License-Identifier: Apache-2.0 */
#include "op/families/attention.h"
#include "../tape_text.h"

static bool sees(const orr_op_args *args, int64_t query, int64_t key)
{
    const int64_t at = args->offset + query;
    if (args->mask == ORR_MASK_NONE)
        return true;
    return key <= at && (args->mask == ORR_MASK_CAUSAL || key / args->window == at / args->window);
}

/* The closed form against counting, over small shapes and all masks. */
static void pairs_are_counted_exactly(void **state)
{
    (void)state;
    for (int64_t queries = 1; queries < 9; queries++)
        for (int64_t keys = 1; keys < 12; keys++)
            for (int64_t offset = -4; offset < 15; offset++)
                for (int64_t window = 0; window < 6; window++) {
                    const orr_op_args args = {.mask =
                                                  window == 0 ? ORR_MASK_CAUSAL : ORR_MASK_CHUNKED,
                                              .window = window,
                                              .offset = offset};
                    int64_t want = 0;
                    for (int64_t q = 0; q < queries; q++)
                        for (int64_t k = 0; k < keys; k++)
                            want += q + offset >= 0 && sees(&args, q, k);
                    const double got = orr_attention_pairs(&args, queries, keys);
                    if (got != (double)want)
                        fail_msg("%d queries, %d keys, offset %d, window %d: %g, not %d",
                                 (int)queries, (int)keys, (int)offset, (int)window, got, (int)want);
                }
    const orr_op_args causal = {.mask = ORR_MASK_CAUSAL};
    assert_true(orr_attention_pairs(&causal, 131072, 131072) == 131072.0 * 131073 / 2);
    const orr_op_args chunked = {.mask = ORR_MASK_CHUNKED, .window = 8192};
    assert_true(orr_attention_pairs(&chunked, 131072, 131072) == 16 * 8192.0 * 8193 / 2);
    const orr_op_args none = {0};
    assert_true(orr_attention_pairs(&none, 4, 100) == 400);
}

static void in_one_kernel(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value q = NAMED(&t, INPUT, BF16, "q", 2, 64, 8, 16),
                    k = NAMED(&t, INPUT, BF16, "k", 2, 64, 4, 16);
    const orr_value v = NAMED(&t, INPUT, BF16, "v", 2, 64, 4, 32);
    TRY_OP(&t, ATTENTION, TRY_ARGS(.flash = true, .mask = ORR_MASK_CAUSAL), q, k, v);
    TRY_OUT(&t, 0, BF16, 2, 64, 8, 32);
    TRY_OUT(&t, 1, FP32, 2, 8, 64);
    assert_int_equal(t.out[2], ORR_NONE);
    const double pairs = 2 * 8 * 64 * 65 / 2, one = 2 * 64 * 2;
    const double q_bytes = one * 8 * 16, k_bytes = one * 4 * 16, v_bytes = one * 4 * 32;
    const double y_bytes = one * 8 * 32, lse_bytes = 2 * 8 * 64 * 4;
    try_work(&t, 2 * pairs * (16 + 32), q_bytes + k_bytes + v_bytes, y_bytes + lse_bytes);
    orr_value wanted[3] = {q, k, v}, grads[3];
    name_value(&t, t.out[0], "y");
    name_value(&t, t.out[1], "lse");
    try_backward(&t, t.out[0], wanted, 3, grads);
    TAPE_IS(&t, 1, "attention_backward(d, q, k, v, y, lse):6,7,8 input\n");
    for (int i = 0; i < 3; i++)
        SAME_TYPE(&t, grads[i], wanted[i]);
    try_work(&t, 2 * pairs * (3 * 16 + 2 * 32),
             q_bytes + k_bytes + v_bytes + 2 * y_bytes + lse_bytes, q_bytes + k_bytes + v_bytes);
    try_end(&t);
}

/* 2 B S^2 H bytes of probabilities, a mask of half of that, and what it leaves: 5 a s^2 b of
 * arXiv 2205.05198, table 2. All pairs are multiplied; backward twice the products. */
static void with_scores_and_dropout(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value q = NAMED(&t, INPUT, BF16, "q", 1, 32, 4, 8),
                    k = NAMED(&t, INPUT, BF16, "k", 1, 32, 4, 8);
    const orr_value v = NAMED(&t, INPUT, BF16, "v", 1, 32, 4, 8);
    TRY_OP(&t, ATTENTION, TRY_ARGS(.mask = ORR_MASK_CAUSAL, .value = 0.1), q, k, v);
    TRY_OUT(&t, 1, BF16, 1, 4, 32, 32);
    TRY_OUT(&t, 2, INT8, 1, 4, 32, 32);
    TRY_OUT(&t, 3, BF16, 1, 4, 32, 32);
    const double pairs = 4 * 32 * 32, each = 32 * 4 * 8 * 2;
    try_work(&t, 2 * pairs * 16, 3 * each + 3 * 2 * pairs, each + (2 + 1 + 2 + 2) * pairs);
    orr_value dq;
    orr_value out[4];
    memcpy(out, t.out, sizeof out);
    try_backward(&t, t.out[0], &q, 1, &dq);
    TAPE_IS(&t, 1, "attention_backward(d, q, k, v, 4, 5, 6):8,9,10 input\n");
    int64_t kept = 0;
    for (int i = 0; i < 4; i++)
        kept +=
            orr_tape_is_saved(&t.tape, out[i]) ? orr_type_bytes(&t.tape.values[out[i]].type) : 0;
    assert_int_equal(kept, 5 * 4 * 32 * 32);
    try_work(&t, 2 * pairs * 32, 4 * each + 5 * pairs + 6 * pairs, 3 * each + 4 * pairs);
    try_end(&t);
}

static void without_dropout_only_probabilities_are_kept(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value q = TRY_VALUE(&t, INPUT, BF16, 1, 32, 4, 8);
    TRY_OP(&t, ATTENTION, TRY_ARGS(.mask = ORR_MASK_CAUSAL), q, q, q);
    assert_int_equal(t.tape.calls[0].n_out, 2);
    const double pairs = 4 * 32 * 32, each = 32 * 4 * 8 * 2;
    try_work(&t, 2 * pairs * 16, 3 * each + 2 * 2 * pairs, each + 2 * 2 * pairs);
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value q = TRY_VALUE(&t, INPUT, BF16, 2, 64, 8, 16),
                    k = TRY_VALUE(&t, INPUT, BF16, 2, 64, 3, 16);
    const orr_value few = TRY_VALUE(&t, INPUT, BF16, 2, 32, 3, 16),
                    wide = TRY_VALUE(&t, INPUT, BF16, 2, 64, 3, 32);
    const orr_value flat = TRY_VALUE(&t, INPUT, BF16, 2, 64, 128),
                    one = TRY_VALUE(&t, INPUT, BF16, 1, 64, 8, 16);
    TRY_FAIL(
        &t, ATTENTION, NULL,
        "attention: q (2, 64, 8, 16), k (2, 64, 3, 16) and v (2, 64, 3, 16): 8 heads cannot share 3 "
        "heads of keys",
        q, k, k);
    TRY_FAIL(
        &t, ATTENTION, NULL,
        "attention: q (2, 64, 8, 16), k (2, 64, 3, 16) and v (2, 32, 3, 16): there are not as many "
        "keys as values",
        q, k, few);
    TRY_FAIL(
        &t, ATTENTION, NULL,
        "attention: q (2, 64, 8, 16), k (2, 64, 3, 32) and v (2, 64, 3, 16): queries of 16 columns "
        "meet keys of 32",
        q, wide, k);
    TRY_FAIL(
        &t, ATTENTION, NULL,
        "attention: q (2, 64, 128), k (2, 64, 3, 16) and v (2, 64, 3, 16): four dims are needed: "
        "batch, tokens, heads, columns",
        flat, k, k);
    TRY_FAIL(
        &t, ATTENTION, NULL,
        "attention: q (1, 64, 8, 16), k (2, 64, 3, 16) and v (2, 64, 3, 16): the batches differ",
        one, k, k);
    TRY_FAIL(
        &t, ATTENTION, TRY_ARGS(.mask = ORR_MASK_CHUNKED),
        "attention: q (2, 64, 8, 16), k (2, 64, 8, 16) and v (2, 64, 8, 16): chunks of 0 tokens", q,
        q, q);
    TRY_FAIL(
        &t, ATTENTION_BACKWARD, TRY_ARGS(.flash = true),
        "attention_backward: dy (2, 64, 8, 16), q (2, 64, 8, 16), k (2, 64, 8, 16), v (2, 64, 8, 16) "
        "and kept (2, 64, 8, 16): 6 inputs are needed",
        q, q, q, q, q);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_counted_exactly),
        cmocka_unit_test(in_one_kernel),
        cmocka_unit_test(with_scores_and_dropout),
        cmocka_unit_test(without_dropout_only_probabilities_are_kept),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
