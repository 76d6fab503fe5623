/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/op.h>
#include <orrery/report.h>

static const char *text(const orr_table *table, size_t row, const char *column)
{
    for (size_t c = 0; c < table->n_columns; c++)
        if (strcmp(table->columns[c].name, column) == 0)
            return *(const char *const *)(const void *)((const char *)table->rows +
                                                        row * table->row_bytes +
                                                        table->columns[c].offset);
    fail_msg("there is no column %s", column);
    return NULL;
}

static orr_table table_of(orr_arena *arena)
{
    orr_table table;
    assert_int_equal(orr_operators_table(arena, &table, NULL), ORR_OK);
    assert_int_equal(table.n_rows, ORR_OPS);
    return table;
}

static void every_operator_has_a_row(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_table table = table_of(arena);
    for (size_t row = 0; row < table.n_rows; row++) {
        assert_string_equal(text(&table, row, "name"), orr_op_of((orr_op)row)->name);
        assert_true(*text(&table, row, "family") != '\0');
        const bool takes = orr_op_of((orr_op)row)->min_in > 0;
        assert_int_equal(*text(&table, row, "takes") != '\0', takes);
    }
    assert_string_equal(text(&table, ORR_OP_EMBEDDING_BACKWARD, "pytorch"),
                        "aten::embedding_dense_backward, EmbeddingBackward0");
    assert_string_equal(text(&table, ORR_OP_ALL_REDUCE, "chakra"), "COMM_COLL_NODE ALL_REDUCE");
    orr_arena_free(arena);
}

/* FLOPs of an operator on as many tensors (2, 3, 4) as it takes at least; -1: it does not take
 * these. */
static double flops_of(orr_op op, orr_arena *arena)
{
    orr_tape tape;
    orr_value in[ORR_CALL_IN], out[ORR_CALL_OUT];
    orr_op_work work;
    const orr_type type = {.dtype = ORR_DTYPE_FP32, .rank = 3, .dim = {2, 3, 4}};
    const orr_op_args args = {.dtype = ORR_DTYPE_FP32, .value = 0.5};
    orr_tape_init(&tape, arena);
    for (uint32_t k = 0; k < orr_op_of(op)->min_in; k++)
        assert_int_equal(orr_tape_value_new(&tape, ORR_VALUE_INPUT, &type, "", &in[k], NULL),
                         ORR_OK);
    if (orr_tape_call_op(&tape, op, &args, in, orr_op_of(op)->min_in, "", out, NULL) != ORR_OK)
        return -1;
    orr_tape_work(&tape, 0, &work);
    return work.flops;
}

/* "5 an element" is what the row computes. */
static void words_say_what_is_counted(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_table table = table_of(arena);
    uint32_t held = 0;
    for (size_t row = 0; row < table.n_rows; row++) {
        char *end;
        const char *words = text(&table, row, "flops");
        const double each = strtod(words, &end), flops = flops_of((orr_op)row, arena);
        if (strcmp(end, " an element") != 0 || flops < 0)
            continue;
        if (flops != each * 24)
            fail_msg("%s: %s, but 24 have %g", text(&table, row, "name"), words, flops);
        held++;
    }
    assert_true(held >= 14);
    orr_arena_free(arena);
}

/* No operator that computes is without words, and none that does not has any. */
static void who_computes_says_so(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_table table = table_of(arena);
    for (size_t row = 0; row < table.n_rows; row++) {
        const double flops = flops_of((orr_op)row, arena);
        const bool words = *text(&table, row, "flops") != '\0';
        if (flops > 0 ? !words : flops == 0 && words && row != ORR_OP_DISPATCH)
            fail_msg("%s: \"%s\" for %g FLOPs", text(&table, row, "name"),
                     text(&table, row, "flops"), flops);
    }
    orr_arena_free(arena);
}

static void without_memory_it_says_so(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(4096, 16384);
    orr_table table;
    assert_int_equal(orr_operators_table(arena, &table, NULL), ORR_NO_MEMORY);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_has_a_row),
        cmocka_unit_test(words_say_what_is_counted),
        cmocka_unit_test(who_computes_says_so),
        cmocka_unit_test(without_memory_it_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
