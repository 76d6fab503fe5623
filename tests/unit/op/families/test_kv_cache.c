/* SPDX-License-Identifier: Apache-2.0 */
#include "../tape_text.h"

static void the_cache_goes_on_with_its_bytes(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value cache = TRY_VALUE(&t, INPUT, BF16, 2, 64, 4, 8),
                    x = TRY_VALUE(&t, INPUT, BF16, 2, 3, 4, 8);
    TRY_OP(&t, CACHE, TRY_ARGS(.offset = 7), cache, x);
    TRY_OUT(&t, 0, BF16, 2, 64, 4, 8);
    assert_int_equal(t.tape.values[t.out[0]].view_of, cache);
    try_work(&t, 0, 2 * 3 * 4 * 8 * 2, 2 * 3 * 4 * 8 * 2);
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value cache = TRY_VALUE(&t, INPUT, BF16, 2, 64, 4, 8),
                    wide = TRY_VALUE(&t, INPUT, FP32, 2, 3, 4, 8),
                    heads = TRY_VALUE(&t, INPUT, BF16, 2, 3, 5, 8),
                    many = TRY_VALUE(&t, INPUT, BF16, 2, 65, 4, 8),
                    flat = TRY_VALUE(&t, INPUT, BF16, 2, 3, 32);
    TRY_FAIL(&t, CACHE, NULL, "cache: cache (2, 64, 4, 8) and x (2, 3, 4, 8): the dtypes differ",
             cache, wide);
    TRY_FAIL(&t, CACHE, NULL,
             "cache: cache (2, 64, 4, 8) and x (2, 3, 5, 8): all dims but dim 1 are to be alike",
             cache, heads);
    TRY_FAIL(&t, CACHE, NULL,
             "cache: cache (2, 64, 4, 8) and x (2, 65, 4, 8): 65 tokens do not fit into 64", cache,
             many);
    TRY_FAIL(&t, CACHE, NULL,
             "cache: cache (2, 64, 4, 8) and x (2, 3, 32): four dims are needed: batch, tokens, "
             "heads, columns",
             cache, flat);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cache_goes_on_with_its_bytes),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
