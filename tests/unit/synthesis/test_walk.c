/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "toy.h"

enum { JOBS = 2 };

typedef struct pool {
    orr_arena *arena;
    const orr_job *jobs[JOBS];
    orr_source sources[JOBS];
} pool;

static pool open_pool(const char *second)
{
    pool p = {.arena = orr_arena_new(0, 0)};
    orr_error err = {0};
    for (uint32_t i = 0; i < JOBS; i++) {
        p.jobs[i] = toy_job((toy){.ranks = 2,
                                  .steps = 3,
                                  .operators = 100,
                                  .seed = i,
                                  .prefix = i == 0 ? "aten::op" : second});
        toy_must(orr_source_learn(p.jobs[i], "ProfilerStep", p.arena, &p.sources[i], &err), &err);
    }
    return p;
}

static void close_pool(pool *p)
{
    for (uint32_t i = 0; i < JOBS; i++)
        orr_job_free(p->jobs[i]);
    orr_arena_free(p->arena);
}

static orr_walk draw(pool *p, uint32_t steps, uint64_t seed, bool obfuscate)
{
    orr_walk walk;
    orr_error err = {0};
    toy_must(orr_walk_draw(p->sources, JOBS, steps, seed, obfuscate, p->arena, &walk, &err), &err);
    return walk;
}

/* Share of a step that a run covers, by nodes. */
static double length_of(const pool *p, const orr_block_run *run)
{
    const orr_source *s = &p->sources[run->source];
    uint32_t step = 0;
    while (s->step_cut[step + 1] <= run->from_cut)
        step++;
    assert_true(run->to_cut <= s->step_cut[step + 1]);
    return (run->to_cut == s->step_cut[step + 1] ? 1 : orr_source_progress(s, run->to_cut)) -
           orr_source_progress(s, run->from_cut);
}

static void every_step_is_about_whole(void **state)
{
    (void)state;
    pool p = open_pool("aten::op");
    for (uint64_t seed = 1; seed <= 20; seed++)
        for (int obfuscate = 0; obfuscate < 2; obfuscate++) {
            const orr_walk walk = draw(&p, 6, seed, obfuscate);
            double length[6] = {0};
            for (uint32_t i = 0; i < walk.n_runs; i++)
                length[walk.runs[i].step] += length_of(&p, &walk.runs[i]);
            for (uint32_t i = 0; i < 6; i++)
                assert_true(fabs(length[i] - 1) <=
                            (obfuscate ? 1.5 * ORR_SYNTHESIS_NEAR_BY : 1.5 * ORR_SYNTHESIS_NEAR));
        }
    close_pool(&p);
}

static void blocks_come_from_many_steps_and_jobs_that_agree(void **state)
{
    (void)state;
    pool p = open_pool("aten::op");
    const orr_walk walk = draw(&p, 6, 1, false);
    double of_job[JOBS] = {0};
    assert_true(walk.n_runs >= 30);
    for (uint32_t i = 0; i < walk.n_runs; i++)
        of_job[walk.runs[i].source] += length_of(&p, &walk.runs[i]);
    assert_true(of_job[0] > 2 && of_job[1] > 2);
    close_pool(&p);
}

/* No operator of one is an operator of the other: there is no place to go over. */
static void jobs_that_do_not_agree_are_not_mixed(void **state)
{
    (void)state;
    pool p = open_pool("other::op");
    bool followed[JOBS] = {false, false};
    for (uint64_t seed = 1; seed <= 12; seed++) {
        const orr_walk walk = draw(&p, 3, seed, false);
        followed[walk.follows] = true;
        for (uint32_t i = 0; i < walk.n_runs; i++)
            assert_int_equal(walk.runs[i].source, walk.follows);
    }
    assert_true(followed[0] && followed[1]);
    close_pool(&p);
}

/* Obfuscated, they are: and how much of a job comes from one says little of where it began. */
static void obfuscated_each_job_gives_as_much(void **state)
{
    (void)state;
    pool p = open_pool("other::op");
    double of_followed = 0, all = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const orr_walk walk = draw(&p, 3, seed, true);
        for (uint32_t i = 0; i < walk.n_runs; i++) {
            all += length_of(&p, &walk.runs[i]);
            if (walk.runs[i].source == walk.follows)
                of_followed += length_of(&p, &walk.runs[i]);
        }
    }
    assert_true(of_followed / all > 0.42 && of_followed / all < 0.58);
    close_pool(&p);
}

static void a_seed_draws_the_same_again(void **state)
{
    (void)state;
    pool p = open_pool("aten::op");
    const orr_walk a = draw(&p, 4, 9, false), b = draw(&p, 4, 9, false), c = draw(&p, 4, 10, false);
    assert_int_equal(a.n_runs, b.n_runs);
    assert_memory_equal(a.runs, b.runs, a.n_runs * sizeof *a.runs);
    assert_true(a.n_runs != c.n_runs || memcmp(a.runs, c.runs, a.n_runs * sizeof *a.runs) != 0);
    close_pool(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_is_about_whole),
        cmocka_unit_test(blocks_come_from_many_steps_and_jobs_that_agree),
        cmocka_unit_test(jobs_that_do_not_agree_are_not_mixed),
        cmocka_unit_test(obfuscated_each_job_gives_as_much),
        cmocka_unit_test(a_seed_draws_the_same_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
