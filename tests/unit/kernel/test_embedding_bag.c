/* SPDX-License-Identifier: Apache-2.0 */
#include "tensors.h"
#include "kernel/cpu/simd/cpu_level.h"

/* Bags over tables in rows of every format and in segments; ids that repeat a million times; what
 * is not in the table. */
enum { ROWS = 300 };

static const int64_t WIDTHS[] = {1, 15, 64, 100, 224};

typedef struct table {
    orr_weight_rows rows;
    orr_row_segment segments[3];
    char *data;
    float *values; /* what stands in the rows, (ROWS, columns) */
} table;

/* In three segments, the second of one row. */
static void make_table(table *t, orr_row_format format, int64_t columns)
{
    const int64_t bytes = orr_row_format_bytes(format, columns);
    t->data = orr_malloc((size_t)(bytes * ROWS));
    t->values = orr_calloc((size_t)(columns * ROWS), sizeof(float));
    assert_non_null(t->data);
    assert_non_null(t->values);
    for (int64_t i = 0; i < ROWS * columns; i++)
        t->values[i] = (float)draw();
    for (int64_t i = 0; i < ROWS; i++) {
        orr_row_from_fp32(format, t->values + i * columns, columns, t->data + i * bytes);
        orr_row_to_fp32(format, t->data + i * bytes, columns, t->values + i * columns);
    }
    const int64_t first[] = {0, 120, 121, ROWS};
    for (int i = 0; i < 3; i++)
        t->segments[i] = (orr_row_segment){.data = t->data + first[i] * bytes,
                                           .first = first[i],
                                           .count = first[i + 1] - first[i]};
    t->rows = (orr_weight_rows){.format = (uint8_t)format,
                                .columns = columns,
                                .row_bytes = bytes,
                                .segments = t->segments,
                                .n_segments = 3};
}

static tensor ids_of(int64_t bags, int64_t each, bool wide)
{
    tensor ids =
        tensor_of(wide ? ORR_DTYPE_INT64 : ORR_DTYPE_INT32, 2, (const int64_t[]){bags, each}, 0);
    for (int64_t i = 0; i < ids.n; i++)
        put(&ids, i, (double)(int64_t)((draw() + 1) / 2 * (ROWS - 1) + 0.5));
    return ids;
}

static void one_table(orr_row_format format, int64_t columns, bool whole)
{
    enum { BAGS = 37, EACH = 29 };
    table t;
    make_table(&t, format, columns);
    if (whole) {
        t.segments[0].count = ROWS;
        t.rows.n_segments = 1;
    }
    tensor ids = ids_of(BAGS, EACH, columns % 2 == 0),
           y = tensor_of(ORR_DTYPE_FP32, 2, (const int64_t[]){BAGS, columns}, 0);
    for (int64_t i = 0; i < ids.n; i++)
        for (int64_t j = 0; j < columns; j++)
            y.value[i / EACH * columns + j] +=
                (double)t.values[(int64_t)ids.value[i] * columns + j];
    const orr_operand in[] = {
        {.type = {.dtype = ORR_DTYPE_FP32, .rank = 2, .dim = {ROWS, columns}}, .rows = &t.rows},
        ids.operand};
    const orr_op_args args = {0};
    orr_kernel_call call = {.op = ORR_OP_EMBEDDING_BAG,
                            .args = &args,
                            .n_in = 2,
                            .n_out = 1,
                            .in = in,
                            .out = &y.operand};
    assert_int_equal(run_call(&call, NULL), ORR_OK);
    assert_near(&y, 2e-6 * EACH, orr_row_format_name(format));
    tensor_free(&ids);
    tensor_free(&y);
    orr_free(t.data);
    orr_free(t.values);
}

static void rows_of_all_formats(void **state)
{
    (void)state;
    for (int level = 0; level < ORR_CPU_LEVELS; level++) {
        orr_cpu_level_limit((orr_cpu_level_id)level);
        for (int format = 0; format < ORR_ROW_FORMATS; format++)
            for (size_t w = 0; w < sizeof WIDTHS / sizeof *WIDTHS; w++)
                if (orr_row_format_bytes((orr_row_format)format, WIDTHS[w]) > 0) {
                    one_table((orr_row_format)format, WIDTHS[w], false);
                    one_table((orr_row_format)format, WIDTHS[w], true);
                }
    }
    orr_cpu_level_limit(ORR_CPU_LEVELS);
}

static void a_bag_longer_than_the_window_is_summed(void **state)
{
    (void)state;
    enum { EACH = 3000 };
    tensor whole = tensor_of(ORR_DTYPE_FP32, 2, (const int64_t[]){ROWS, 8}, 0),
           ids = tensor_of(ORR_DTYPE_INT64, 1, (const int64_t[]){EACH}, 0),
           offsets = tensor_of(ORR_DTYPE_INT32, 1, (const int64_t[]){4}, 0),
           y = tensor_of(ORR_DTYPE_FP32, 2, (const int64_t[]){4, 8}, 0);
    const int64_t begins[] = {0, 2900, 2900, 2950, EACH};
    draw_all(&whole);
    for (int64_t i = 0; i < EACH; i++)
        put(&ids, i, (double)(i * 7 % ROWS));
    for (int b = 0; b < 4; b++) {
        put(&offsets, b, (double)begins[b]);
        for (int64_t i = begins[b]; i < begins[b + 1]; i++)
            for (int j = 0; j < 8; j++)
                y.value[b * 8 + j] += whole.value[(int64_t)ids.value[i] * 8 + j];
    }
    const orr_operand in[] = {whole.operand, ids.operand, offsets.operand};
    const orr_op_args args = {0};
    orr_kernel_call call = {.op = ORR_OP_EMBEDDING_BAG,
                            .args = &args,
                            .n_in = 3,
                            .n_out = 1,
                            .in = in,
                            .out = &y.operand};
    assert_int_equal(run_call(&call, NULL), ORR_OK);
    assert_near(&y, 1e-4, "y");
    orr_error err;
    put(&offsets, 2, 2899);
    assert_int_equal(run_call(&call, &err), ORR_INVALID);
    assert_string_equal(err.text, "embedding_bag: bag 2 begins at id 2899 of 3000, behind 2900");
    put(&offsets, 2, 2900);
    put(&ids, 2901, ROWS);
    assert_int_equal(run_call(&call, &err), ORR_INVALID);
    assert_string_equal(err.text,
                        "embedding_bag: id 300, number 2901 of 3000: the table has 300 rows");
    tensor *all[] = {&whole, &ids, &offsets, &y};
    for (int i = 0; i < 4; i++)
        tensor_free(all[i]);
}

/* A step of Adagrad on `rows` rows of 20 columns; `each` lookups share a row of the gradient. */
typedef struct update {
    tensor table, state, gradient, ids;
    int64_t each;
} update;

static void begin_update(update *u, int64_t lookups, int64_t each, int64_t rows, int64_t repeat)
{
    u->each = each;
    u->table = tensor_of(ORR_DTYPE_FP32, 2, (const int64_t[]){rows, 20}, 0);
    u->state = tensor_of(ORR_DTYPE_FP32, 1, (const int64_t[]){rows}, 0);
    u->gradient = tensor_of(ORR_DTYPE_FP32, 2, (const int64_t[]){lookups / each, 20}, 0);
    u->ids = tensor_of(ORR_DTYPE_INT32, 1, (const int64_t[]){lookups}, 0);
    draw_all(&u->table);
    draw_all(&u->gradient);
    for (int64_t i = 0; i < rows; i++)
        put(&u->state, i, 1);
    for (int64_t i = 0; i < lookups; i++)
        put(&u->ids, i, i < repeat ? 7 : (double)((uint64_t)i * 2654435761u % (uint64_t)rows));
}

static void end_update(update *u)
{
    tensor_free(&u->table);
    tensor_free(&u->state);
    tensor_free(&u->gradient);
    tensor_free(&u->ids);
}

static orr_status run_update(update *u, orr_workers *workers, orr_error *err)
{
    const orr_operand in[] = {u->table.operand, u->gradient.operand, u->state.operand,
                              u->ids.operand};
    const orr_op_args args = {0};
    const orr_update by = {.rate = 0.1, .epsilon = 1e-8, .gradient_scale = 0.5, .step = 1};
    orr_kernel_call call = {.op = ORR_OP_ROWWISE_ADAGRAD,
                            .args = &args,
                            .n_in = 4,
                            .in = in,
                            .update = &by,
                            .workers = workers};
    return run_call(&call, err);
}

static void reference_update(update *u)
{
    const int64_t rows = u->state.n;
    double *sum = orr_calloc((size_t)(rows * 20), sizeof *sum);
    for (int64_t i = 0; i < u->ids.n; i++)
        for (int j = 0; j < 20; j++)
            sum[(int64_t)u->ids.value[i] * 20 + j] += u->gradient.value[i / u->each * 20 + j] * 0.5;
    for (int64_t r = 0; r < rows; r++) {
        double square = 0;
        for (int j = 0; j < 20; j++)
            square += sum[r * 20 + j] * sum[r * 20 + j] / 20;
        u->state.value[r] += square;
        for (int j = 0; j < 20; j++)
            u->table.value[r * 20 + j] -= 0.1 * sum[r * 20 + j] / (sqrt(u->state.value[r]) + 1e-8);
    }
    orr_free(sum);
}

static void one_update(int64_t lookups, int64_t each, int64_t rows, int64_t repeat,
                       orr_workers *workers)
{
    update one, many;
    const uint64_t seed = drawn;
    begin_update(&one, lookups, each, rows, repeat);
    drawn = seed;
    begin_update(&many, lookups, each, rows, repeat);
    reference_update(&one);
    assert_int_equal(run_update(&one, NULL, NULL), ORR_OK);
    assert_near(&one.table, 1e-5, "table");
    assert_near(&one.state, 1e-5, "state");
    assert_int_equal(run_update(&many, workers, NULL), ORR_OK);
    assert_memory_equal(one.table.operand.data, many.table.operand.data, (size_t)rows * 80);
    assert_memory_equal(one.state.operand.data, many.state.operand.data, (size_t)rows * 4);
    end_update(&one);
    end_update(&many);
}

static void updates_sum_what_repeats(void **state)
{
    (void)state;
    orr_workers *workers;
    assert_int_equal(orr_workers_new(3, &workers, NULL), ORR_OK);
    one_update(1, 1, 1, 0, workers);
    one_update(50, 1, 9, 20, workers);
    one_update(5000, 10, 100000, 0, workers);
    one_update(100000, 1, 50000, 300, workers);
    one_update(1100000, 1, 3000, 1000000, workers);
    orr_workers_free(workers);
}

static void updates_refuse_strays(void **state)
{
    (void)state;
    update u;
    orr_error err;
    begin_update(&u, 50, 1, 9, 0);
    put(&u.ids, 31, -2);
    put(&u.ids, 40, 9);
    assert_int_equal(run_update(&u, NULL, &err), ORR_INVALID);
    assert_string_equal(err.text, "rowwise_adagrad: id -2, number 31 of 50: the table has 9 rows");
    for (int64_t i = 0; i < u.table.n; i++)
        assert_true(got(&u.table, i) == u.table.value[i]);
    end_update(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_all_formats),
        cmocka_unit_test(a_bag_longer_than_the_window_is_summed),
        cmocka_unit_test(updates_sum_what_repeats),
        cmocka_unit_test(updates_refuse_strays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
