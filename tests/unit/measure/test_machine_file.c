/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <orrery/measure.h>

static char path[64];

static int begin(void **state)
{
    (void)state;
    strcpy(path, "/tmp/orrery-machine-XXXXXX");
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}
static int end(void **state)
{
    (void)state;
    return unlink(path);
}

static void what_is_saved_is_loaded(void **state)
{
    const orr_measured_kernel kernels[] = {{.op = ORR_OP_MATMUL,
                                            .dtype = ORR_DTYPE_BF16,
                                            .form = 2,
                                            .threads = 3,
                                            .dim = {5, 6, 7},
                                            .flops = 420,
                                            .bytes = 214,
                                            .ns = 99,
                                            .spread = 0.25},
                                           {.op = ORR_OP_RMS_NORM,
                                            .dtype = ORR_DTYPE_FP32,
                                            .cold = true,
                                            .threads = 1,
                                            .dim = {8, 9, 0},
                                            .flops = 288,
                                            .bytes = 612,
                                            .ns = 1000}};
    const orr_measured_collective transfers[] = {{ORR_COLL_ALL_REDUCE, 4, 1024, 777}};
    const orr_measured_table tables[] = {{.update = true,
                                          .format = ORR_ROW_FORMAT_BF16,
                                          .optimizer = ORR_ROW_OPTIMIZER_SGD,
                                          .threads = 2,
                                          .columns = 48,
                                          .rows = 1 << 20,
                                          .samples = 64,
                                          .lookups = 640,
                                          .ns = 5000,
                                          .spread = 0.5},
                                         {.threads = 1, .columns = 16, .rows = 7, .ns = 3}};
    const orr_measured_access accesses[] = {{.access = ORR_STORAGE_RANDOM_READ,
                                             .bytes = 512,
                                             .depth = 128,
                                             .per_s = 88000.5,
                                             .p50_ns = 1400000,
                                             .p99_ns = 2500000,
                                             .cpu_ns = 3100},
                                            {.access = ORR_STORAGE_SYNC, .bytes = 512, .depth = 1}};
    const orr_measured_storage storage[] = {{.path = "/it's: a folder",
                                             .engine = "io_uring",
                                             .sector = 512,
                                             .bytes = 1 << 30,
                                             .accesses = accesses,
                                             .n_accesses = 2},
                                            {.path = "/b", .engine = "pread", .sector = 4096}};
    const orr_measured m = {.storage = storage,
                            .n_storage = 2,
                            .cpu = "a CPU: fast",
                            .isa = "plain",
                            .when = "some day",
                            .cores = 12,
                            .read_bytes_per_s = 25e9,
                            .copy_bytes_per_s = 11e9,
                            .flops_fp32 = 1e11,
                            .flops_bf16 = 2e11,
                            .cache_bytes = 1 << 25,
                            .base_bytes = 4096,
                            .kernels = kernels,
                            .n_kernels = 2,
                            .transfers = transfers,
                            .n_transfers = 1,
                            .tables = tables,
                            .n_tables = 2};
    orr_arena *arena = orr_arena_new(0, 0);
    orr_measured back;
    orr_error err;
    (void)state;
    assert_non_null(arena);
    assert_int_equal(orr_measured_save(&m, path, &err), ORR_OK);
    if (orr_measured_load(path, arena, &back, &err) != ORR_OK)
        fail_msg("%s", err.text);
    assert_string_equal(back.cpu, m.cpu);
    assert_string_equal(back.when, m.when);
    assert_int_equal(back.cores, 12);
    assert_int_equal(back.cache_bytes, m.cache_bytes);
    assert_true(back.read_bytes_per_s == 25e9 && back.flops_bf16 == 2e11);
    assert_int_equal(back.n_kernels, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(back.kernels[i].op, kernels[i].op);
        assert_int_equal(back.kernels[i].dtype, kernels[i].dtype);
        assert_int_equal(back.kernels[i].form, kernels[i].form);
        assert_int_equal(back.kernels[i].cold, kernels[i].cold);
        assert_int_equal(back.kernels[i].threads, kernels[i].threads);
        assert_memory_equal(back.kernels[i].dim, kernels[i].dim, sizeof kernels[i].dim);
        assert_int_equal(back.kernels[i].ns, kernels[i].ns);
    }
    assert_int_equal(back.n_transfers, 1);
    assert_int_equal(back.transfers[0].ns, 777);
    assert_int_equal(back.n_tables, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(back.tables[i].update, tables[i].update);
        assert_int_equal(back.tables[i].format, tables[i].format);
        assert_int_equal(back.tables[i].optimizer, tables[i].optimizer);
        assert_int_equal(back.tables[i].threads, tables[i].threads);
        assert_int_equal(back.tables[i].columns, tables[i].columns);
        assert_int_equal(back.tables[i].rows, tables[i].rows);
        assert_int_equal(back.tables[i].samples, tables[i].samples);
        assert_int_equal(back.tables[i].lookups, tables[i].lookups);
        assert_int_equal(back.tables[i].ns, tables[i].ns);
    }
    assert_int_equal(back.n_storage, 2);
    assert_string_equal(back.storage[0].path, "/it's: a folder");
    assert_string_equal(back.storage[1].engine, "pread");
    assert_int_equal(back.storage[1].sector, 4096);
    assert_int_equal(back.storage[0].bytes, 1 << 30);
    assert_int_equal(back.storage[0].n_accesses + back.storage[1].n_accesses, 2);
    for (int i = 0; i < 2; i++) {
        const orr_measured_access *a = &back.storage[0].accesses[i];
        assert_int_equal(a->access, accesses[i].access);
        assert_int_equal(a->bytes, accesses[i].bytes);
        assert_int_equal(a->depth, accesses[i].depth);
        assert_true(a->per_s == accesses[i].per_s && a->cpu_ns == accesses[i].cpu_ns);
        assert_int_equal(a->p50_ns, accesses[i].p50_ns);
        assert_int_equal(a->p99_ns, accesses[i].p99_ns);
    }
    orr_arena_free(arena);
}

static void refused(const char *text, const char *why)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_measured m;
    orr_error err;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_not_equal(orr_measured_load(path, arena, &m, &err), ORR_OK);
    if (strstr(err.text, why) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, why);
    orr_arena_free(arena);
}

#define HEAD                                                                                       \
    "schema: orrery.machine/1\ncpu: a\nisa: b\nwhen: c\ncores: 2\nread_bytes_per_s: 1\n"           \
    "copy_bytes_per_s: 1\nflops_fp32: 1\nflops_bf16: 1\ncache_bytes: 1\nbase_bytes: 1\n"

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    refused("", "empty");
    refused("- 1\n", "map");
    refused("schema: orrery.machine/9\n", "orrery.machine/1");
    refused("schema: orrery.machine/1\n", "cpu");
    refused(HEAD "kernels: 3\ntransfers: []\n", "kernels");
    refused(HEAD "kernels:\n  - [1, 2]\ntransfers: []\n", "12 values");
    refused(HEAD "kernels:\n  - [nothing, fp32, 0, true, 1, 1, 1, 1, 1, 1, 1, 0]\ntransfers: []\n",
            "operator");
    refused(HEAD "kernels:\n  - [add, fp32, 0, true, -1, 1, 1, 1, 1, 1, 1, 0]\ntransfers: []\n",
            "from 0");
    refused(HEAD "kernels: []\ntransfers:\n  - [shout, 2, 3, 4]\n", "collective");
#define LISTS HEAD "kernels: []\ntransfers: []\ntables:\n"
    refused(LISTS "  - [sum, fp32]\n", "10 values");
    refused(LISTS "  - [mean, fp32, sgd, 1, 9, 16, 1, 1, 1, 0]\n", "work on a table");
    refused(LISTS "  - [sum, fp5, sgd, 1, 9, 16, 1, 1, 1, 0]\n", "row format");
    refused(LISTS "  - [sum, fp32, lion, 1, 9, 16, 1, 1, 1, 0]\n", "optimizer");
    refused(LISTS "  - [sum, fp32, sgd, 1, 9, 70000, 1, 1, 1, 0]\n", "from 0");
#define STORAGE HEAD "kernels: []\ntransfers: []\nstorage:\n"
#define FOLDER                                                                                     \
    STORAGE "  - path: /a\n    engine: pread\n    sector: 512\n    bytes: 9\n    accesses:\n"
    refused(STORAGE "  - 3\n", "is a map");
    refused(STORAGE "  - path: /a\n", "engine");
    refused(FOLDER "      - [read, 1, 2]\n", "7 values");
    refused(FOLDER "      - [peek, 1, 2, 3, 4, 5, 6]\n", "access to storage");
    refused(FOLDER "      - [read, -1, 2, 3, 4, 5, 6]\n", "from 0");
    refused(FOLDER "      - [read, 1, 2, -3, 4, 5, 6]\n", "from 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_saved_is_loaded, begin, end),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_named, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
