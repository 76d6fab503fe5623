/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "measure/price.h"

/* A machine whose products take a ns a kFLOP, whose rows take a ns a byte warm and 4 cold. */
enum { SIDES = 3, ROWS = 3, KERNELS = SIDES * SIDES * SIDES + 2 * ROWS };
static const int64_t side[SIDES] = {16, 64, 256};
static orr_measured_kernel kernels[KERNELS];
static const orr_measured_collective transfers[] = {{ORR_COLL_ALL_REDUCE, 2, 1000, 1000},
                                                    {ORR_COLL_ALL_REDUCE, 2, 1000000, 1000000}};
static orr_measured machine(void)
{
    uint32_t n = 0;
    for (int a = 0; a < SIDES; a++)
        for (int b = 0; b < SIDES; b++)
            for (int c = 0; c < SIDES; c++) {
                const double flops = 2.0 * (double)side[a] * (double)side[b] * (double)side[c];
                kernels[n++] = (orr_measured_kernel){.op = ORR_OP_MATMUL,
                                                     .dtype = ORR_DTYPE_FP32,
                                                     .threads = 1,
                                                     .dim = {side[a], side[b], side[c]},
                                                     .flops = flops,
                                                     .ns = (int64_t)(flops / 1000 * 1000)};
            }
    for (int i = 0; i < ROWS; i++)
        for (int cold = 0; cold < 2; cold++) {
            const int64_t bytes = 1000 * side[i];
            kernels[n++] = (orr_measured_kernel){.op = ORR_OP_ADD,
                                                 .dtype = ORR_DTYPE_FP32,
                                                 .cold = cold,
                                                 .threads = 1,
                                                 .bytes = (double)bytes,
                                                 .ns = bytes * (cold ? 4 : 1)};
        }
    return (orr_measured){
        .kernels = kernels, .n_kernels = n, .transfers = transfers, .n_transfers = 2};
}

typedef struct bench {
    orr_arena *arena;
    orr_tape tape;
    orr_measured machine;
    orr_kernel_pricer pricer;
} bench;

static void begin(bench *b)
{
    *b = (bench){.arena = orr_arena_new(0, 0), .machine = machine()};
    assert_non_null(b->arena);
    orr_tape_init(&b->tape, b->arena);
    b->pricer = (orr_kernel_pricer){.measured = &b->machine, .threads = 1};
}

static void call(bench *b, orr_op op, int64_t rows, int64_t inner, int64_t columns)
{
    const orr_type x = {.dtype = ORR_DTYPE_FP32, .rank = 2, .dim = {rows, inner}};
    const orr_type w = {
        .dtype = ORR_DTYPE_FP32, .rank = 2, .dim = {op == ORR_OP_MATMUL ? inner : rows, columns}};
    orr_value in[2], out[ORR_CALL_OUT];
    assert_int_equal(orr_tape_value_new(&b->tape, ORR_VALUE_INPUT, &x, "", &in[0], NULL), ORR_OK);
    assert_int_equal(orr_tape_value_new(&b->tape, ORR_VALUE_INPUT, &w, "", &in[1], NULL), ORR_OK);
    assert_int_equal(orr_tape_call_op(&b->tape, op, NULL, in, 2, "", out, NULL), ORR_OK);
}

static void near(int64_t ns, double expected)
{
    if (fabs((double)ns / expected - 1) > 0.01)
        fail_msg("%lld ns where %.0f are due", (long long)ns, expected);
}

/* On the grid, between its points, beyond it. */
static void products_go_by_flops(void **state)
{
    static const int64_t sizes[][3] = {
        {64, 64, 64}, {64, 100, 30}, {17, 200, 256}, {1000, 512, 300}, {2, 3, 4}};
    (void)state;
    for (size_t i = 0; i < 5; i++) {
        bench b;
        begin(&b);
        call(&b, ORR_OP_MATMUL, sizes[i][0], sizes[i][2], sizes[i][1]);
        const orr_price p = orr_measured_price(&b.pricer, &b.tape, 0, 0, false);
        assert_int_equal(p.basis, ORR_BASIS_TABLE);
        near(p.ns, 2.0 * (double)(sizes[i][0] * sizes[i][1] * sizes[i][2]));
        orr_arena_free(b.arena);
    }
}

static void rows_go_by_bytes_and_by_where_they_lie(void **state)
{
    bench b;
    (void)state;
    begin(&b);
    call(&b, ORR_OP_ADD, 100, 50, 50); /* 3 x 20,000 bytes */
    near(orr_measured_price(&b.pricer, &b.tape, 0, 0, false).ns, 60000);
    near(orr_measured_price(&b.pricer, &b.tape, 0, 60000, false).ns, 240000);
    near(orr_measured_price(&b.pricer, &b.tape, 0, 30000, false).ns, 150000);
    near(orr_measured_price(&b.pricer, &b.tape, 0, 1e12, false).ns, 240000);
    orr_arena_free(b.arena);
}

static void what_was_not_measured_is_assumed(void **state)
{
    bench b;
    (void)state;
    begin(&b);
    call(&b, ORR_OP_MUL, 10, 10, 10);
    const orr_price p = orr_measured_price(&b.pricer, &b.tape, 0, 0, false);
    assert_int_equal(p.basis, ORR_BASIS_ASSUMED);
    orr_arena_free(b.arena);
}

static void transfers_go_by_bytes(void **state)
{
    const orr_measured m = machine();
    (void)state;
    near(orr_measured_collective_ns(&m, ORR_COLL_ALL_REDUCE, 2, 30000), 30000);
    near(orr_measured_collective_ns(&m, ORR_COLL_ALL_REDUCE, 2, 4000000), 4000000);
    assert_int_equal(orr_measured_collective_ns(&m, ORR_COLL_ALL_TO_ALL, 2, 1000), 0);
}

/* 1000 ns and a ns a byte: beyond the points the same, whatever the slope between the last two. */
static void sizes_beyond_go_on_as_all_points_did(void **state)
{
    static const int64_t bytes[] = {100, 1000, 10000};
    orr_measured_collective some[3];
    orr_measured m = machine();
    (void)state;
    for (int i = 0; i < 3; i++)
        some[i] = (orr_measured_collective){ORR_COLL_ALL_GATHER, 2, bytes[i], 1000 + bytes[i]};
    m.transfers = some;
    m.n_transfers = 3;
    near(orr_measured_collective_ns(&m, ORR_COLL_ALL_GATHER, 2, 1000000), 1001000);
    near(orr_measured_collective_ns(&m, ORR_COLL_ALL_GATHER, 2, 10), 1010);
    some[2].ns = 100 * some[2].ns; /* never faster than linear, from the nearest point on */
    assert_true(orr_measured_collective_ns(&m, ORR_COLL_ALL_GATHER, 2, 1000000) <=
                100 * some[2].ns);
    m.n_transfers = 1;
    near(orr_measured_collective_ns(&m, ORR_COLL_ALL_GATHER, 2, 200), 2200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_go_by_flops),
        cmocka_unit_test(rows_go_by_bytes_and_by_where_they_lie),
        cmocka_unit_test(what_was_not_measured_is_assumed),
        cmocka_unit_test(transfers_go_by_bytes),
        cmocka_unit_test(sizes_beyond_go_on_as_all_points_did),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
