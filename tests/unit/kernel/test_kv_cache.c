/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "kernel/format/row.h"

/* What a run tells kernels beside the tape: where samples stand, and weights that are rows of a
 * file. And what they refuse. */
static orr_backend *cpu;

static orr_operand operand(orr_dtype dtype, void *data, uint32_t rank, const int64_t *dim)
{
    orr_operand o = {.type = {.dtype = (uint8_t)dtype, .rank = (uint8_t)rank}, .data = data};
    memcpy(o.type.dim, dim, rank * sizeof *dim);
    orr_operand_contiguous(&o.type, o.stride);
    return o;
}
#define DIMS(...)                                                                                  \
    sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), ((const int64_t[]){__VA_ARGS__})
#define FLOATS(data, ...) operand(ORR_DTYPE_FP32, (data), DIMS(__VA_ARGS__))
#define IDS(data, ...)    operand(ORR_DTYPE_INT32, (data), DIMS(__VA_ARGS__))

static orr_status run(orr_op op, const orr_op_args *args, const orr_operand *in, uint32_t n_in,
                      const orr_operand *out, const int64_t *first, orr_error *err)
{
    const orr_kernel_entry *entry = &cpu->entries[op];
    orr_kernel_call call = {.op = (uint8_t)op,
                            .args = args,
                            .n_in = n_in,
                            .n_out = 1,
                            .in = in,
                            .out = out,
                            .first = first};
    assert_non_null(entry->run);
    call.workspace =
        orr_malloc_aligned(entry->workspace != NULL ? entry->workspace(&call) + 64 : 64);
    assert_non_null(call.workspace);
    const orr_status status = entry->run(&call, err);
    orr_free(call.workspace);
    return status;
}

/* Two samples that begin at 3 and 40, as one call and as two. */
static void hold_first(orr_op op, orr_op_args args)
{
    enum { TOKENS = 3, HEADS = 2, COLUMNS = 8, SAMPLE = TOKENS * HEADS * COLUMNS };
    const int64_t first[2] = {3, 40};
    float x[2 * SAMPLE], together[2 * SAMPLE], alone[2 * SAMPLE];
    orr_error err;
    for (int i = 0; i < 2 * SAMPLE; i++)
        x[i] = (float)(i % 13) - 6;
    const orr_operand in = FLOATS(x, 2, TOKENS, HEADS, COLUMNS),
                      out = FLOATS(together, 2, TOKENS, HEADS, COLUMNS);
    assert_int_equal(run(op, &args, &in, 1, &out, first, &err), ORR_OK);
    for (int b = 0; b < 2; b++) {
        const orr_operand one = FLOATS(x + b * SAMPLE, 1, TOKENS, HEADS, COLUMNS),
                          to = FLOATS(alone + b * SAMPLE, 1, TOKENS, HEADS, COLUMNS);
        args.offset = first[b];
        assert_int_equal(run(op, &args, &one, 1, &to, NULL, &err), ORR_OK);
    }
    assert_memory_equal(together, alone, sizeof alone);
}

static void test_samples_stand_where_they_are_said_to(void **state)
{
    (void)state;
    hold_first(ORR_OP_ROTARY, (orr_op_args){.value = 100});
    hold_first(ORR_OP_ROTARY, (orr_op_args){.value = 100, .interleaved = true});
    hold_first(ORR_OP_ATTENTION_TEMPERATURE, (orr_op_args){.value = 0.1, .window = 4});
    hold_first(ORR_OP_SOFTMAX, (orr_op_args){.mask = ORR_MASK_CAUSAL});
}

static void test_cache_rows_go_behind(void **state)
{
    (void)state;
    float cache[2 * 5 * 2] = {0}, x[2 * 2 * 2] = {1, 2, 3, 4, 5, 6, 7, 8};
    const orr_operand in[2] = {FLOATS(cache, 2, 5, 1, 2), FLOATS(x, 2, 2, 1, 2)};
    const orr_op_args args = {.offset = 0};
    const int64_t first[2] = {0, 3}, beyond[2] = {0, 4};
    orr_error err;
    assert_int_equal(run(ORR_OP_CACHE, &args, in, 2, in, first, &err), ORR_OK);
    const float want[20] = {1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 6, 7, 8};
    assert_memory_equal(cache, want, sizeof want);
    assert_int_equal(run(ORR_OP_CACHE, &args, in, 2, in, beyond, &err), ORR_INVALID);
    assert_string_equal(err.text, "cache: 2 tokens from 4 on do not fit into 5, sample 1");
    assert_memory_equal(cache, want, sizeof want);
}

/* A table in two segments of a file, in every format. */
static void test_tables_in_any_format(void **state)
{
    (void)state;
    enum { ROWS = 5, COLUMNS = 1056 };
    static float row[COLUMNS], want[COLUMNS], got[3][COLUMNS];
    unsigned char bytes[ROWS * 4 * COLUMNS];
    int32_t ids[3] = {4, 0, 2};
    orr_error err;
    for (int f = 0; f < ORR_ROW_FORMATS; f++) {
        const int64_t row_bytes = orr_row_format_bytes((orr_row_format)f, COLUMNS);
        unsigned char *at = bytes;
        for (int r = 0; r < ROWS; r++, at += row_bytes) {
            for (int j = 0; j < COLUMNS; j++)
                row[j] = (float)((j * 37 + r * 11) % 101 - 50) / 16;
            orr_row_from_fp32((orr_row_format)f, row, COLUMNS, at);
        }
        const orr_row_segment segments[2] = {{bytes, 0, 2}, {bytes + 2 * row_bytes, 2, 3}};
        const orr_weight_rows rows = {.format = (uint8_t)f,
                                      .columns = COLUMNS,
                                      .row_bytes = row_bytes,
                                      .segments = segments,
                                      .n_segments = 2};
        orr_operand in[2] = {FLOATS(NULL, ROWS, COLUMNS), IDS(ids, 3)};
        in[0].rows = &rows;
        const orr_operand out = FLOATS(got, 3, COLUMNS);
        const orr_op_args args = {.count = 0};
        assert_int_equal(run(ORR_OP_EMBEDDING, &args, in, 2, &out, NULL, &err), ORR_OK);
        for (int i = 0; i < 3; i++) {
            orr_row_to_fp32((orr_row_format)f, bytes + ids[i] * row_bytes, COLUMNS, want);
            assert_memory_equal(got[i], want, sizeof want);
        }
    }
}

static void test_strays_are_refused(void **state)
{
    (void)state;
    float table[8] = {0}, y[4], x[4] = {0}, sorted[8];
    int32_t beyond[2] = {1, 4}, below[2] = {-1, 0}, pictures_asked[2] = {9, 9};
    orr_error err;
    const orr_op_args none = {.count = 0}, slice = {.begin = 2, .count = 4}, six = {.experts = 4},
                      spliced = {.begin = 9};
    const orr_operand t = FLOATS(table, 4, 2), far = IDS(beyond, 2), low = IDS(below, 2),
                      out = FLOATS(y, 2, 2), tokens = FLOATS(x, 2, 2), rows = FLOATS(sorted, 2, 2),
                      chosen = IDS(beyond, 2, 1), asked = IDS(pictures_asked, 2),
                      pictures = FLOATS(table, 1, 2);
    assert_int_equal(run(ORR_OP_EMBEDDING, &none, (orr_operand[]){t, far}, 2, &out, NULL, &err),
                     ORR_INVALID);
    assert_string_equal(err.text, "embedding: id 4, at 1, of a table of 4 rows");
    assert_int_equal(run(ORR_OP_EMBEDDING, &slice, (orr_operand[]){t, far}, 2, &out, NULL, &err),
                     ORR_OK);
    assert_int_equal(
        run(ORR_OP_EMBEDDING_BACKWARD, &slice, (orr_operand[]){tokens, low}, 2, &t, NULL, &err),
        ORR_INVALID);
    assert_int_equal(
        run(ORR_OP_DISPATCH, &six, (orr_operand[]){tokens, chosen}, 2, &rows, NULL, &err),
        ORR_INVALID);
    assert_string_equal(err.text, "dispatch: expert 4 of 4, at 1");
    assert_int_equal(run(ORR_OP_MASKED_SCATTER, &spliced, (orr_operand[]){tokens, asked, pictures},
                         3, &out, NULL, &err),
                     ORR_INVALID);
    assert_string_equal(err.text, "masked_scatter: more than 1 tokens ask for a picture's row");
    assert_int_equal(run(ORR_OP_ADAMW, &none, (orr_operand[]){t, t, t, t}, 4, NULL, NULL, &err),
                     ORR_INVALID);
}

static int open_backend(void **state)
{
    orr_error err;
    (void)state;
    return orr_backend_cpu(&cpu, &err) != ORR_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_stand_where_they_are_said_to),
        cmocka_unit_test(test_cache_rows_go_behind),
        cmocka_unit_test(test_tables_in_any_format),
        cmocka_unit_test(test_strays_are_refused),
    };
    return cmocka_run_group_tests(tests, open_backend, NULL);
}
