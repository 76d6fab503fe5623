/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/cpu/free_memory.h"

static orr_backend *cpu(void)
{
    orr_backend *backend;
    orr_error err;
    assert_int_equal(orr_backend_cpu(&backend, &err), ORR_OK);
    return backend;
}

static void it_has_seats_and_says_what_it_is(void **state)
{
    (void)state;
    const orr_backend *backend = cpu();
    assert_string_equal(backend->name, "cpu");
    assert_non_null(strstr(backend->description, orr_cpu_level_name(orr_cpu_level())));
    assert_non_null(backend->entries[ORR_OP_MATMUL].run);
    assert_true(backend->entries[ORR_OP_MATMUL].accumulates);
    assert_null(backend->entries[ORR_OP_BARRIER].run);
    assert_true(backend->free_bytes(cpu()) != 0);
}

static void memory_is_aligned_and_given_back(void **state)
{
    (void)state;
    orr_backend *backend = cpu();
    static const size_t sizes[] = {0, 1, 4096, 5 << 20, 64 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *data;
        orr_error err;
        assert_int_equal(backend->allocate(backend, sizes[i], &data, &err), ORR_OK);
        assert_int_equal((uintptr_t)data % 64, 0);
        memset(data, 1, sizes[i]);
        backend->release(backend, data, sizes[i]);
    }
    backend->release(backend, NULL, 0);
    backend->release(backend, NULL, 64 << 20);
}

static void without_memory_it_says_so(void **state)
{
    (void)state;
    orr_backend *backend = cpu();
    void *data;
    orr_error err;
    orr_alloc_fail_from(1);
    const orr_status small = backend->allocate(backend, 100, &data, &err);
    orr_alloc_fail_from(0);
    assert_int_equal(small, ORR_NO_MEMORY);
    assert_int_equal(backend->allocate(backend, SIZE_MAX / 2, &data, &err), ORR_NO_MEMORY);
}

static void copies_are_copies(void **state)
{
    (void)state;
    orr_backend *backend = cpu();
    char from[] = "from", to[sizeof from] = "";
    orr_error err;
    assert_int_equal(backend->copy(backend, to, from, sizeof from, NULL, &err), ORR_OK);
    assert_string_equal(to, from);
    assert_int_equal(backend->synchronize(backend, NULL, &err), ORR_OK);
    backend->close(backend);
}

static void a_level_is_never_above_what_there_is(void **state)
{
    (void)state;
    const orr_cpu_level_id has = orr_cpu_level();
    for (int level = 0; level < ORR_CPU_LEVELS; level++) {
        orr_cpu_level_limit((orr_cpu_level_id)level);
        assert_true(orr_cpu_level() <= (orr_cpu_level_id)level || level > (int)has);
        assert_true(orr_cpu_level() <= has || getenv("ORRERY_CPU") != NULL);
    }
    orr_cpu_level_limit(ORR_CPU_LEVELS);
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[600];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* /proc and /sys/fs/cgroup of a process in group /job/step, made below a folder of its own. */
static void the_tightest_bound_counts(void **state)
{
    (void)state;
    char root[] = "/tmp/orrery-memory-XXXXXX", self[300], job[300], step[300];
    assert_non_null(mkdtemp(root));
    (void)snprintf(self, sizeof self, "%s/self", root);
    (void)snprintf(job, sizeof job, "%s/job", root);
    (void)snprintf(step, sizeof step, "%s/job/step", root);
    assert_int_equal(mkdir(self, 0700) | mkdir(job, 0700) | mkdir(step, 0700), 0);
    assert_int_equal(orr_memory_free_bytes(root, root), -1);
    put(root, "meminfo", "MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable:     1000 kB\n");
    assert_int_equal(orr_memory_free_bytes(root, root), 1024000);
    put(self, "cgroup", "3:cpu:/x\n0::/job/step\n");
    put(step, "memory.max", "max\n");
    put(step, "memory.current", "77\n");
    assert_int_equal(orr_memory_free_bytes(root, root), 1024000);
    put(job, "memory.max", "500000\n");
    put(job, "memory.current", "400000\n");
    assert_int_equal(orr_memory_free_bytes(root, root), 100000);
    put(job, "memory.stat", "anon 5\ninactive_file 300\n");
    assert_int_equal(orr_memory_free_bytes(root, root), 100300);
    put(job, "memory.current", "700000\n");
    assert_int_equal(orr_memory_free_bytes(root, root), 0);
    char command[400];
    (void)snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_has_seats_and_says_what_it_is),
        cmocka_unit_test(memory_is_aligned_and_given_back),
        cmocka_unit_test(without_memory_it_says_so),
        cmocka_unit_test(copies_are_copies),
        cmocka_unit_test(a_level_is_never_above_what_there_is),
        cmocka_unit_test(the_tightest_bound_counts),
    };
    return cmocka_run_group_tests_name("kernel/cpu", tests, NULL, NULL);
}
