/* SPDX-License-Identifier: Apache-2.0 */
#include "try_op.h"

static void rows_stand_where_the_list_says(void **state)
{
    (void)state;
#define SAME_(operator, text, its_family)                                                          \
    do {                                                                                           \
        const orr_op_row *row = orr_op_of(ORR_OP_##operator);                                      \
        assert_non_null(row);                                                                      \
        assert_int_equal(row->op, ORR_OP_##operator);                                              \
        assert_int_equal(row->family, ORR_OP_FAMILY_##its_family);                                 \
        assert_string_equal(row->name, text);                                                      \
        assert_ptr_equal(orr_op_find(text), row);                                                  \
    } while (0);
    ORR_OP_MAP(SAME_)
}

static void rows_are_complete(void **state)
{
    (void)state;
    for (int op = 0; op < ORR_OPS; op++) {
        const orr_op_row *row = orr_op_of((orr_op)op);
        if (row->shape == NULL || row->takes == NULL || row->gives == NULL || row->chakra == NULL)
            fail_msg("%s: a column is empty", row->name);
        if (row->min_in > row->max_in || row->max_in > ORR_CALL_IN || row->n_out > ORR_CALL_OUT)
            fail_msg("%s: numbers of inputs or outputs", row->name);
        const bool writes = row->op == ORR_OP_CACHE; /* into the bytes that it shares */
        if ((row->work == NULL) != ((row->shares && !writes) || row->op == ORR_OP_BARRIER))
            fail_msg("%s: who shares bytes has no work, all others do", row->name);
    }
}

/* A name in PyTorch means one operator. */
static void names_elsewhere_are_found(void **state)
{
    (void)state;
    for (int op = 0; op < ORR_OPS; op++) {
        const orr_op_row *row = orr_op_of((orr_op)op);
        for (uint32_t k = 0; row->pytorch != NULL && row->pytorch[k] != NULL; k++)
            if (orr_op_find_pytorch(row->pytorch[k]) != row)
                fail_msg("%s of %s is %s's too", row->pytorch[k], row->name,
                         orr_op_find_pytorch(row->pytorch[k])->name);
    }
    assert_string_equal(orr_op_find_pytorch("aten::mm")->name, "matmul");
    assert_null(orr_op_find_pytorch("aten::no_such_operator"));
    assert_null(orr_op_find("no_such_operator"));
}

static void families_and_passes_have_names(void **state)
{
    (void)state;
    assert_string_equal(orr_op_family_name(ORR_OP_FAMILY_EMBEDDING_BAG), "embedding bag");
    for (int f = 0; f < ORR_OP_FAMILIES; f++)
        assert_non_null(orr_op_family_name((orr_op_family)f));
    assert_string_equal(orr_pass_name(ORR_PASS_WEIGHT), "weight gradient");
    for (int p = 0; p < ORR_PASSES; p++)
        assert_non_null(orr_pass_name((orr_pass)p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_stand_where_the_list_says),
        cmocka_unit_test(rows_are_complete),
        cmocka_unit_test(names_elsewhere_are_found),
        cmocka_unit_test(families_and_passes_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
