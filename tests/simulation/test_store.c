/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "store/file/broken.h"
#include "store_scenario.h"

/* test_store                                     what `make test` runs
 * test_store --from N --count N [--jobs N]       runs seeds, names those that fail, and the rate
 * test_store --seed N                            runs one, with its log
 * test_store --broken                            how many seeds it takes to notice each broken rule
 * ORRERY_STORE_SEEDS: how many seeds instead of 2,000 */

static store_scenario scenario; /* large */

orr_row_broken_rule orr_row_broken;
uint64_t orr_row_drawn;

const char *orr_row_broken_name(orr_row_broken_rule rule)
{
#define TEXT_(name, text) text,
    static const char *const NAMES[] = {ORR_ROW_BROKEN_MAP(TEXT_)};
#undef TEXT_
    return NAMES[rule];
}

typedef struct tally {
    uint64_t seeds, failed, operations, commits, processes, full, told, cleaned;
} tally;

static void run_seed(uint64_t seed, tally *t)
{
    if (!store_scenario_run(&scenario, seed, false)) {
        t->failed++;
        printf("seed %" PRIu64 ": %s\n", seed, scenario.why);
        fflush(stdout);
    }
    t->seeds++;
    t->operations += scenario.operations;
    t->commits += scenario.n_finished;
    t->processes += scenario.n_crashes;
    t->full += scenario.n_full;
    t->told += scenario.n_told;
    t->cleaned += scenario.n_cleaned;
}

static void print_tally(const tally *t)
{
    printf("%" PRIu64 " seeds, %" PRIu64 " failed; %" PRIu64 " operations, %" PRIu64
           " commits, %" PRIu64 " processes, full %" PRIu64 " times, %" PRIu64
           " rows told damaged, %" PRIu64 " cleaned\n",
           t->seeds, t->failed, t->operations, t->commits, t->processes, t->full, t->told,
           t->cleaned);
}

static uint64_t run_seeds(uint64_t from, uint64_t count)
{
    tally t = {0};
    for (uint64_t i = 0; i < count; i++)
        run_seed(from + i, &t);
    print_tally(&t);
    return t.failed;
}

static int run_jobs(uint64_t from, uint64_t count, uint32_t jobs)
{
    int failed = 0, status;
    for (uint32_t i = 0; i < jobs; i++) {
        const uint64_t begin = count * i / jobs, end = count * (i + 1) / jobs;
        fflush(stdout);
        if (fork() == 0) {
            const bool wrong = run_seeds(from + begin, end - begin) > 0;
            fflush(stdout);
            _exit(wrong);
        }
    }
    while (wait(&status) > 0)
        failed += status != 0;
    return failed > 0;
}

/* The first seed that notices a broken rule, + 1; 0: none of `most`. In a process of its own, for
 * what is broken may crash. */
static uint64_t seeds_to_notice(orr_row_broken_rule rule, uint64_t most)
{
    for (uint64_t seed = 0; seed < most; seed++) {
        int status;
        fflush(stdout);
        const pid_t pid = fork();
        if (pid == 0) {
            orr_row_broken = rule;
            _exit(!store_scenario_run(&scenario, seed, false));
        }
        if (waitpid(pid, &status, 0) == pid && status != 0)
            return seed + 1;
    }
    return 0;
}

/* Rules that few seeds come to need: for --broken alone. */
static bool is_rare(uint32_t rule)
{
    return rule == ORR_ROW_BROKEN_LOG_HASH_IGNORED || rule == ORR_ROW_BROKEN_GENERATION_IGNORED ||
           rule == ORR_ROW_BROKEN_HEAD_BEFORE_SNAPSHOT;
}

static int run_broken(uint64_t most, bool rare)
{
    int missed = 0;
    for (uint32_t rule = 1; rule < ORR_ROW_BROKEN_RULES; rule++) {
        if (is_rare(rule) && !rare)
            continue;
        const uint64_t n = seeds_to_notice((orr_row_broken_rule)rule, most);
        printf("%-32s %s%" PRIu64 " seeds\n", orr_row_broken_name((orr_row_broken_rule)rule),
               n == 0 ? "not in " : "noticed after ", n == 0 ? most : n);
        fflush(stdout);
        missed += n == 0;
    }
    return missed;
}

static void test_seeds(void **state)
{
    const char *n = getenv("ORRERY_STORE_SEEDS");
    (void)state;
    assert_int_equal(run_seeds(0, n != NULL ? strtoull(n, NULL, 10) : 2000), 0);
}

static void test_broken_rules_are_noticed(void **state)
{
    (void)state;
    assert_int_equal(run_broken(2000, false), 0);
}

static int run_one(uint64_t seed)
{
    const bool right = store_scenario_run(&scenario, seed, true);
    printf("%s\n", right ? "right" : scenario.why);
    return !right;
}

int main(int argc, char **argv)
{
    static const struct option OPTIONS[] = {{"from", 1, NULL, 'f'},
                                            {"count", 1, NULL, 'c'},
                                            {"jobs", 1, NULL, 'j'},
                                            {"seed", 1, NULL, 's'},
                                            {"broken", 0, NULL, 'b'},
                                            {"rule", 1, NULL, 'r'},
                                            {0}};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_broken_rules_are_noticed),
    };
    uint64_t from = 0, count = 0, jobs = 1;
    for (int c; (c = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1;)
        switch (c) {
        case 'f':
            from = strtoull(optarg, NULL, 10);
            break;
        case 'c':
            count = strtoull(optarg, NULL, 10);
            break;
        case 'j':
            jobs = strtoull(optarg, NULL, 10);
            break;
        case 'r':
            orr_row_broken = (orr_row_broken_rule)strtoul(optarg, NULL, 10);
            break;
        case 's':
            return run_one(strtoull(optarg, NULL, 10));
        case 'b':
            return run_broken(20000, true) > 0;
        default:
            return 2;
        }
    if (count > 0)
        return run_jobs(from, count, (uint32_t)jobs);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
