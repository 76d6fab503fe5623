/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "scenario.h"

/* test_team                                 seeds 0 to 9999, or as many as half a minute has time
 * for test_team --from N --count N [--jobs N]   runs seeds, prints those that fail, and the rate
 * test_team --seed N [--trace] [--frames]   runs one, with its log */

typedef struct tally { /* shared between jobs */
    _Atomic uint64_t at, done, failed, events, commits, undone, settled_ns;
} tally;
typedef struct job_slot {
    _Atomic uint64_t seed; /* under way, + 1 */
} job_slot;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run_seed(uint64_t seed, tally *t)
{
    static scenario d;
    if (!scenario_run(&d, seed, NULL, false)) {
        t->failed++;
        printf("seed %" PRIu64 ": %s\n", seed, d.why);
        fflush(stdout);
    }
    t->done++;
    t->events += orr_simnet_events(d.world);
    t->commits += d.commits;
    t->undone += d.oracle.undone;
    if (d.settled_ns > 0 && (uint64_t)d.settled_ns > t->settled_ns)
        t->settled_ns = (uint64_t)d.settled_ns;
    scenario_done(&d);
}

static void run_job(tally *t, job_slot *slot, uint64_t end, double until_s)
{
    for (;;) {
        const uint64_t seed = t->at++;
        if (seed >= end || now_s() > until_s)
            return;
        slot->seed = seed + 1;
        run_seed(seed, t);
        slot->seed = 0;
    }
}

static pid_t start_job(tally *t, job_slot *slot, uint64_t end, double until_s)
{
    const pid_t pid = fork();
    if (pid == 0) {
        run_job(t, slot, end, until_s);
        _exit(0);
    }
    return pid;
}

/* Each job is a process: one that crashes has its seed named, and another goes on. */
static int run_many(uint64_t from, uint64_t count, int jobs, double seconds)
{
    enum { JOBS = 64 };
    pid_t pids[JOBS];
    tally *t = mmap(NULL, sizeof *t + JOBS * sizeof(job_slot), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t == MAP_FAILED)
        return 2;
    job_slot *slots = (job_slot *)(t + 1);
    const double begin_s = now_s(), until_s = begin_s + seconds;
    t->at = from;
    for (int i = 0; i < jobs && i < JOBS; i++)
        pids[i] = start_job(t, &slots[i], from + count, until_s);
    for (int left = jobs; left > 0;) {
        int status;
        const pid_t pid = wait(&status);
        for (int i = 0; i < jobs; i++) {
            if (pids[i] != pid)
                continue;
            left--;
            if (slots[i].seed == 0)
                continue;
            printf("seed %" PRIu64 ": crashed, status %#x\n", slots[i].seed - 1, (unsigned)status);
            fflush(stdout);
            t->failed++;
            slots[i].seed = 0;
            pids[i] = start_job(t, &slots[i], from + count, until_s);
            left++;
        }
    }
    const double took_s = now_s() - begin_s;
    printf("%" PRIu64 " seeds, %" PRIu64
           " failed; %.1f s, %.0f seeds/s, %.2f M events/s, %.0f events and %.1f commits a seed, "
           "%" PRIu64 " steps undone, slowest recovery %.1f s\n",
           t->done, t->failed, took_s, (double)t->done / took_s, (double)t->events / took_s / 1e6,
           (double)t->events / (double)t->done, (double)t->commits / (double)t->done, t->undone,
           (double)t->settled_ns / 1e9);
    return t->failed > 0;
}

static int run_one(uint64_t seed, bool trace, bool frames)
{
    static scenario d;
    const bool ok = scenario_run(&d, seed, trace ? stdout : NULL, frames);
    printf("seed %" PRIu64 ": %s; %" PRIu64 " events, digest %016" PRIx64
           ", recovered after %.3f s\n",
           seed, ok ? "holds" : d.why, orr_simnet_events(d.world), orr_simnet_digest(d.world),
           (double)d.settled_ns / 1e9);
    scenario_done(&d);
    return !ok;
}

static void seeds_hold(void **state)
{
    enum { SEEDS = 10000 };
    static scenario d;
    uint64_t seed = 0, events = 0;
    (void)state;
    for (; seed < SEEDS; seed++) {
        const bool ok = scenario_run(&d, seed, NULL, false);
        events += orr_simnet_events(d.world);
        scenario_done(&d);
        if (!ok)
            fail_msg("seed %" PRIu64 ": %s (--seed %" PRIu64 " --trace)", seed, d.why, seed);
    }
    print_message("%" PRIu64 " seeds, %" PRIu64 " events\n", seed, events);
}

/* Each was a violation once: a sum that was committed in two epochs taken for two; a later life
 * that was thought to disprove a commit; what was fetched kept for the same step of another branch,
 * or thrown away a moment before it was whole, or said to be that of a carried epoch; ranks of a
 * replica that knew of different epochs, and of which one went on with what another dropped, or one
 * had committed what the team gave up; a hello over a connection given up, taken for the last one;
 * the only one with a state not counted, for it had heard of its commit late; numbers of epochs
 * begun below those of a team that nobody remembered; a majority, before a coordinator
 * without memory, of an epoch after which one had gone on alone. */
static void seeds_that_failed_hold(void **state)
{
    static const uint64_t seeds[] = {7000045813, 8000857335, 8001595477, 8000408482, 8000198803,
                                     8000164187, 8000257267, 8000642906, 9300010886, 9300032987,
                                     9400160942, 9500360815, 9501797100, 9502213018, 9701677905,
                                     9701918982, 9702439141};
    static scenario d;
    (void)state;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        const bool ok = scenario_run(&d, seeds[i], NULL, false);
        scenario_done(&d);
        if (!ok)
            fail_msg("seed %" PRIu64 ": %s", seeds[i], d.why);
    }
}

static void a_seed_is_one_run(void **state)
{
    static scenario d;
    (void)state;
    for (uint64_t seed = 100; seed < 130; seed++) {
        uint64_t digests[2];
        for (int i = 0; i < 2; i++) {
            scenario_run(&d, seed, NULL, false);
            digests[i] = orr_simnet_digest(d.world);
            scenario_done(&d);
        }
        assert_int_equal(digests[0], digests[1]);
    }
}

/* What the seeds are for happens in them: else they would hold of a team that nothing befalls. */
static void much_happens(void **state)
{
    static scenario d;
    uint64_t undone = 0, commits = 0, deferred = 0, retried = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        scenario_run(&d, seed, NULL, false);
        undone += d.oracle.undone;
        commits += d.commits;
        deferred += d.deferred;
        retried += d.retried;
        scenario_done(&d);
    }
    assert_true(undone > 0);
    assert_true(deferred > 0);
    assert_true(retried > 100);
    assert_true(commits > 10000);
}

/* Of two coordinators one leads, whatever befalls either. */
static void seeds_with_two_coordinators_hold(void **state)
{
    static scenario d;
    uint64_t takeovers = 0;
    (void)state;
    for (uint64_t seed = SCENARIO_STANDBY; seed < SCENARIO_STANDBY + 2000; seed++) {
        const bool ok = scenario_run(&d, seed, NULL, false);
        takeovers += d.takeovers;
        scenario_done(&d);
        if (!ok)
            fail_msg("seed %" PRIu64 ": %s (--seed %" PRIu64 " --trace)", seed, d.why, seed);
    }
    print_message("%" PRIu64 " takeovers\n", takeovers);
    assert_true(takeovers > 100);
}

static int run_seeds(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seed_is_one_run),
        cmocka_unit_test(seeds_that_failed_hold),
        cmocka_unit_test(much_happens),
        cmocka_unit_test(seeds_hold),
        cmocka_unit_test(seeds_with_two_coordinators_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"from", 1, NULL, 'f'},    {"count", 1, NULL, 'n'},
                                            {"jobs", 1, NULL, 'j'},    {"seed", 1, NULL, 's'},
                                            {"trace", 0, NULL, 't'},   {"frames", 0, NULL, 'v'},
                                            {"seconds", 1, NULL, 'l'}, {NULL, 0, NULL, 0}};
    uint64_t from = 0, count = 10000, seed = UINT64_MAX;
    int jobs = 1;
    bool trace = false, frames = false;
    double seconds = 1e9;
    if (argc == 1)
        return run_seeds();
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'f':
            from = strtoull(optarg, NULL, 10);
            break;
        case 'n':
            count = strtoull(optarg, NULL, 10);
            break;
        case 'j':
            jobs = (int)strtol(optarg, NULL, 10);
            break;
        case 's':
            seed = strtoull(optarg, NULL, 10);
            break;
        case 'l':
            seconds = strtod(optarg, NULL);
            break;
        case 't':
            trace = true;
            break;
        case 'v':
            trace = frames = true;
            break;
        default:
            return 2;
        }
    }
    return seed != UINT64_MAX ? run_one(seed, trace, frames) : run_many(from, count, jobs, seconds);
}
