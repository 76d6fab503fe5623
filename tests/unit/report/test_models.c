/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/report.h>

#include "report/table/cell.h"

static orr_arena *arena;

static int new_arena(void **state)
{
    (void)state;
    arena = orr_arena_new(0, 0);
    return arena == NULL;
}

static int free_arena(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

static orr_cell cell(const orr_table *table, size_t row, const char *column)
{
    for (size_t c = 0; c < table->n_columns; c++)
        if (strcmp(table->columns[c].name, column) == 0)
            return orr_table_cell(table, row, &table->columns[c]);
    fail_msg("no column %s", column);
    return (orr_cell){0};
}

/* The row whose first column is this. */
static size_t row_of(const orr_table *table, const char *first)
{
    for (size_t row = 0; row < table->n_rows; row++)
        if (strcmp(orr_table_cell(table, row, &table->columns[0]).as.text, first) == 0)
            return row;
    fail_msg("%s has no %s", table->title, first);
    return 0;
}

static void all_models(void **state)
{
    (void)state;
    orr_models models;
    orr_table table;
    assert_int_equal(orr_models_open(arena, &models, NULL), ORR_OK);
    assert_int_equal(orr_models_table(&models, arena, &table, NULL), ORR_OK);
    assert_int_equal(table.n_rows, models.n);
    const size_t scout = row_of(&table, "llama4-scout"), llama = row_of(&table, "llama3-8b");
    assert_int_equal(cell(&table, scout, "parameters").as.i64, 108641793536);
    assert_int_equal(cell(&table, scout, "active_parameters").as.i64, 17172894720);
    assert_int_equal(cell(&table, scout, "bf16_bytes").as.i64, 2 * 108641793536);
    assert_int_equal(cell(&table, llama, "experts").kind, ORR_CELL_NONE);
    assert_string_equal(cell(&table, llama, "shape").as.text, "published");
    assert_string_equal(cell(&table, row_of(&table, "llama2-34b"), "shape").as.text,
                        "not verified");
    const size_t behemoth = row_of(&table, "llama4-behemoth");
    assert_string_equal(cell(&table, behemoth, "shape").as.text, "not published");
    assert_int_equal(cell(&table, behemoth, "layers").kind, ORR_CELL_NONE);
    assert_int_equal(cell(&table, row_of(&table, "dlrm-dcnv2"), "context").kind, ORR_CELL_NONE);
}

static void card_of(const char *name, orr_named_table ret[ORR_MODEL_TABLES])
{
    const orr_model *model;
    orr_error err = {0};
    if (orr_model_load(name, arena, &model, &err) != ORR_OK ||
        orr_model_tables(model, arena, ret, &err) != ORR_OK)
        fail_msg("%s", err.text);
}

static void assert_line(const orr_table *table, const char *what, const char *value)
{
    const size_t row = row_of(table, what);
    assert_string_equal(cell(table, row, "value").as.text, value);
    assert_true(strlen(cell(table, row, "source").as.text) > 0);
}

static void card_of_a_mixture(void **state)
{
    (void)state;
    orr_named_table card[ORR_MODEL_TABLES];
    card_of("llama4-maverick", card);
    assert_line(&card[0].table, "experts",
                "128 of 8192 columns, SwiGLU, 1 for a token; layers: 24 of 48");
    assert_line(&card[0].table, "feed-forward", "16384 columns, SwiGLU; layers: 24 of 48");
    assert_line(&card[0].table, "attention span", "chunks of 8192 tokens; 12 of 48 layers see all");
    assert_line(&card[0].table, "parameters", "401,583,781,376, as published");
    assert_line(&card[0].table, "active", "17,184,691,200 for a token, with embedding and head");
    assert_line(&card[3].table, "training time", "2.38M GPU hours on H100 80 GB");
    assert_line(&card[3].table, "licence", "Llama 4 Community License");
}

static void parts_and_memory(void **state)
{
    (void)state;
    orr_named_table card[ORR_MODEL_TABLES];
    card_of("llama3-8b", card);
    const orr_table *parts = &card[1].table, *memory = &card[2].table;
    assert_string_equal(card[1].name, "parameters");
    assert_int_equal(cell(parts, row_of(parts, "mlp"), "parameters_each").as.i64, 176160768);
    assert_int_equal(cell(parts, row_of(parts, "all"), "parameters").as.i64, 8030261248);
    const size_t bf16 = row_of(memory, "bf16"), fp4 = row_of(memory, "fp4");
    assert_int_equal(cell(memory, bf16, "weights_bytes").as.i64, 16060522496);
    assert_int_equal(cell(memory, bf16, "cache_token_bytes").as.i64, 131072);
    assert_int_equal(cell(memory, bf16, "cache_context_bytes").as.i64, 131072LL * 8192);
    assert_int_equal(cell(memory, fp4, "weights_bytes").as.i64, 4015130624);
    /* Three of four layers keep a chunk: 12 x 1 Mi + 36 x 8 Ki tokens. */
    card_of("llama4-maverick", card);
    assert_int_equal(cell(&card[2].table, bf16, "cache_context_bytes").as.i64,
                     4096LL * (12 * 1048576 + 36 * 8192));
}

static void others(void **state)
{
    (void)state;
    orr_named_table card[ORR_MODEL_TABLES];
    card_of("dlrm-dcnv2", card);
    assert_line(&card[0].table, "top layers", "1024-1024-512-256-1");
    assert_line(&card[0].table, "interaction", "3 cross layers of rank 512");
    assert_int_equal(cell(&card[2].table, 0, "cache_token_bytes").kind, ORR_CELL_NONE);
    card_of("resnet50", card);
    assert_line(&card[0].table, "forward pass", "8.178 GFLOP for a sample");
    card_of("gpt-oss-120b", card);
    assert_line(&card[0].table, "attention span",
                "a sliding window of 128 tokens; 18 of 36 layers see all");
}

static void a_preview_says_so(void **state)
{
    (void)state;
    orr_named_table card[ORR_MODEL_TABLES];
    card_of("llama4-behemoth", card);
    assert_line(&card[0].table, "shape", "not published: cannot be simulated");
    assert_int_equal(card[1].table.n_rows, 0);
    assert_int_equal(card[2].table.n_rows, 0);
    assert_line(&card[3].table, "published label", "288B active, nearly 2T, 16 experts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_models),        cmocka_unit_test(card_of_a_mixture),
        cmocka_unit_test(parts_and_memory),  cmocka_unit_test(others),
        cmocka_unit_test(a_preview_says_so),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
