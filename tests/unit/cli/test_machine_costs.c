/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/arguments/machine_file.h"

/* A machine of 8 GB/s, among two and four ranks. */
static const orr_measured_collective transfers[] = {
    {ORR_COLL_ALL_TO_ALL, 2, 1000, 5000},      {ORR_COLL_ALL_TO_ALL, 2, 1001000, 255000},
    {ORR_COLL_ALL_TO_ALL, 4, 1000, 9000},      {ORR_COLL_ALL_TO_ALL, 4, 1001000, 1009000},
    {ORR_COLL_ALL_GATHER, 2, 1000, 4000},      {ORR_COLL_ALL_GATHER, 2, 51000, 29000},
    {ORR_COLL_ALL_GATHER, 2, 1001000, 504000}, {ORR_COLL_ALL_REDUCE, 2, 1000, 1},
};

static const orr_measured_kernel kernel = {
    .op = ORR_OP_ADD, .dtype = ORR_DTYPE_FP32, .threads = 1, .dim = {1, 1, 1}, .ns = 1};

static orr_table_costs costs_of(uint32_t ranks, const orr_measured *measured)
{
    char path[] = "/tmp/orrery-machine-XXXXXX";
    orr_settings settings = {.quiet = true, .machine = path};
    orr_session session;
    orr_table_costs costs;
    close(mkstemp(path));
    assert_int_equal(orr_session_init(&session, &settings), ORR_OK);
    assert_int_equal(orr_measured_save(measured, path, NULL), ORR_OK);
    assert_int_equal(orr_machine_table_costs(&session, ranks, &costs), ORR_OK);
    assert_string_equal(costs.source, path);
    unlink(path);
    orr_session_done(&session);
    return costs;
}

static void near(double is, double expected)
{
    assert_true(fabs(is / expected - 1) < 1e-6);
}

static void rates_are_those_of_the_nearest_number_of_ranks(void **state)
{
    const orr_measured measured = {.cpu = "test",
                                   .isa = "none",
                                   .cores = 4,
                                   .read_bytes_per_s = 8e9,
                                   .copy_bytes_per_s = 8e9,
                                   .flops_fp32 = 1e9,
                                   .flops_bf16 = 1e9,
                                   .cache_bytes = 1 << 20,
                                   .base_bytes = 1 << 20,
                                   .kernels = &kernel,
                                   .n_kernels = 1,
                                   .transfers = transfers,
                                   .n_transfers = sizeof transfers / sizeof *transfers,
                                   .when = "2026-01-01"};
    (void)state;
    const orr_table_costs two = costs_of(2, &measured), many = costs_of(16, &measured);
    near(two.memory_bytes_per_s, 4e9);
    near(two.exchange_ns, 5000);
    near(two.exchange_bytes_per_s, 4e9);
    near(two.gather_ns, 4000);
    near(two.gather_bytes_per_s, 2e9);
    near(many.memory_bytes_per_s, 5e8);
    near(many.exchange_ns, 9000);
    near(many.exchange_bytes_per_s, 1e9);
    near(many.gather_bytes_per_s, 2e9); /* was measured among two alone */
    assert_true(two.cache_bytes_per_s > two.memory_bytes_per_s);
}

/* 64 columns: rows from caches at 16 GB/s, from memory at 4; an updated row takes 50 ns beside. */
static void tables_say_what_memory_and_caches_give(void **state)
{
    enum { LOOKUPS = 1 << 15, SMALL = 1 << 10, LARGE = 1 << 22 };
    const double cached = LOOKUPS * 256 / 16.0, rows = -LARGE * expm1(-(double)LOOKUPS / LARGE);
    orr_measured_table t[] = {
        {.rows = SMALL, .ns = (int64_t)cached},
        {.rows = LARGE, .ns = (int64_t)(cached + rows * 256 / 4)},
        {.update = true, .rows = SMALL, .ns = 1},
        {.update = true, .rows = LARGE, .ns = (int64_t)(cached + rows * (2 * 260 / 4.0 + 50))}};
    for (int i = 0; i < 4; i++) {
        t[i].threads = 1;
        t[i].columns = 64;
        t[i].samples = 1024;
        t[i].lookups = LOOKUPS;
    }
    const orr_measured measured = {.cpu = "test",
                                   .isa = "none",
                                   .cores = 2,
                                   .read_bytes_per_s = 20e9,
                                   .kernels = &kernel,
                                   .n_kernels = 1,
                                   .transfers = transfers,
                                   .n_transfers = sizeof transfers / sizeof *transfers,
                                   .tables = t,
                                   .n_tables = 4,
                                   .when = "2026-01-01"};
    (void)state;
    const orr_table_costs costs = costs_of(2, &measured), shared = costs_of(10, &measured);
    assert_true(fabs(costs.cache_bytes_per_s / 16e9 - 1) < 1e-3);
    assert_true(fabs(costs.memory_bytes_per_s / 4e9 - 1) < 1e-3);
    assert_true(fabs(costs.row_ns / 50 - 1) < 1e-2);
    near(shared.memory_bytes_per_s, 2e9); /* memory gives no more to all ranks together */
}

static void nothing_measured_is_assumed(void **state)
{
    char folder[] = "/tmp/orrery-cache-XXXXXX";
    const orr_settings settings = {.quiet = true};
    orr_session session;
    orr_table_costs costs;
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(setenv("XDG_CACHE_HOME", folder, 1), 0);
    assert_int_equal(orr_session_init(&session, &settings), ORR_OK);
    assert_int_equal(orr_machine_table_costs(&session, 2, &costs), ORR_OK);
    assert_non_null(strstr(costs.source, "assumed"));
    assert_true(costs.memory_bytes_per_s > 0 && costs.exchange_bytes_per_s > 0 &&
                costs.gather_bytes_per_s > 0 && costs.cache_bytes_per_s > 0);
    orr_session_done(&session);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_those_of_the_nearest_number_of_ranks),
        cmocka_unit_test(tables_say_what_memory_and_caches_give),
        cmocka_unit_test(nothing_measured_is_assumed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
