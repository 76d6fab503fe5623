/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_ROBUST_FAILING_H
#define ORR_TESTS_ROBUST_FAILING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <orrery/status.h>

enum { PATH_ROOM = 4096 };

/* Some work; where it can fail it returns its status. */
typedef orr_status (*work)(orr_error *err);

/* Each allocation of the work fails in turn, with all that follow it: the work ends with NO_MEMORY
 * or is done all the same, nothing leaks and nothing half-written stays. ORRERY_SLOW=1 fails every
 * one; otherwise long work is sampled after its first thousand. */
void fail_each_allocation(work body);

/* The path of a file in the folder that is looked at. Two of them can be held at once. */
const char *inside(const char *name);

/* A whole command, its standard error caught: status 3 comes with one line that says why. */
orr_status run_command(const char *name, const char *const *argv, int argc, orr_error *err);
#define COMMAND(name, ...)                                                                         \
    const char *const words[] = {"-q", "-j1", __VA_ARGS__};                                        \
    return run_command(name, words, sizeof words / sizeof *words, err)

#define TEST_OF(name)                                                                              \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        fail_each_allocation(name);                                                                \
    }
#define TEST(name)                                                                                 \
    {                                                                                              \
#name, test_##name, NULL, NULL, NULL                                                       \
    }

/* Of a group of tests. */
int make_folder(void **state);
int remove_folder(void **state);

#endif /* ORR_TESTS_ROBUST_FAILING_H */
