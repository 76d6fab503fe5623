/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "synthesis/durations.h"
#include "toy.h"

enum { JOBS = 2 };

typedef struct pool {
    orr_arena *arena;
    const orr_job *jobs[JOBS];
    orr_source sources[JOBS];
    orr_samples samples;
} pool;

/* The second job takes nine times as long. */
static pool open_pool(bool blur)
{
    pool p = {.arena = orr_arena_new(0, 0)};
    orr_error err = {0};
    for (uint32_t i = 0; i < JOBS; i++) {
        p.jobs[i] = toy_job((toy){.ranks = 2,
                                  .steps = 3,
                                  .operators = 60,
                                  .seed = i,
                                  .unit_ns = i == 0 ? 20000 : 180000});
        toy_must(orr_source_learn(p.jobs[i], "ProfilerStep", p.arena, &p.sources[i], &err), &err);
    }
    toy_must(orr_samples_learn(p.sources, JOBS, blur, p.arena, &p.samples, &err), &err);
    return p;
}

static void close_pool(pool *p)
{
    for (uint32_t i = 0; i < JOBS; i++)
        orr_job_free(p->jobs[i]);
    orr_arena_free(p->arena);
}

static void a_drawn_duration_stays_in_its_class(void **state)
{
    (void)state;
    pool p = open_pool(false);
    orr_random random = orr_random_of(1, 1);
    const orr_graph *g = p.jobs[0]->graphs[0];
    uint32_t differ = 0, n = 0;
    double was_sum = 0, sum = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        if (g->kind[v] != ORR_NODE_COMPUTE)
            continue;
        const int64_t was = g->duration_ns[v];
        const int64_t drawn = orr_samples_draw(&p.samples, 0, g, v, was, orr_random_unit(&random),
                                               orr_random_unit(&random));
        assert_true(fabs(log2((double)drawn / (double)was)) <= 0.26);
        differ += drawn != was;
        was_sum += (double)was;
        sum += (double)drawn;
        n++;
    }
    assert_true(n > 100 && differ > n * 9 / 10);
    assert_true(fabs(sum / was_sum - 1) < 0.01);
    close_pool(&p);
}

/* Whichever source it comes from, a value has the same distribution: that between them all. */
static void obfuscated_durations_are_those_of_no_source(void **state)
{
    (void)state;
    pool p = open_pool(true);
    double mean[JOBS] = {0}, was_mean[JOBS] = {0};
    orr_random random = orr_random_of(1, 1);
    for (uint32_t i = 0; i < JOBS; i++) {
        const orr_graph *g = p.jobs[i]->graphs[0];
        uint32_t n = 0;
        for (orr_node_id v = 0; v < g->n_nodes; v++) {
            if (g->kind[v] != ORR_NODE_COMPUTE)
                continue;
            mean[i] +=
                log((double)orr_samples_draw(&p.samples, i, g, v, g->duration_ns[v],
                                             orr_random_unit(&random), orr_random_unit(&random)));
            was_mean[i] += log((double)g->duration_ns[v]);
            n++;
        }
        mean[i] /= n;
        was_mean[i] /= n;
    }
    assert_true(fabs(was_mean[1] - was_mean[0] - log(9)) < 0.05);
    assert_true(fabs(mean[0] - mean[1]) < 0.03);
    assert_true(fabs(mean[0] - (was_mean[0] + was_mean[1]) / 2) < 0.03);
    close_pool(&p);
}

/* The longer of two is as a rule the longer afterwards: the order of lengths is kept. */
static void obfuscated_durations_keep_their_order(void **state)
{
    (void)state;
    pool p = open_pool(true);
    const orr_graph *g = p.jobs[0]->graphs[0];
    orr_random random = orr_random_of(2, 1);
    uint32_t kept = 0, n = 0;
    for (orr_node_id v = 0, last = ORR_NONE; v < g->n_nodes; v++) {
        if (g->kind[v] != ORR_NODE_COMPUTE)
            continue;
        if (last != ORR_NONE && g->duration_ns[v] != g->duration_ns[last]) {
            const int64_t a = orr_samples_draw(&p.samples, 0, g, last, g->duration_ns[last],
                                               orr_random_unit(&random), 0);
            const int64_t b = orr_samples_draw(&p.samples, 0, g, v, g->duration_ns[v],
                                               orr_random_unit(&random), 0);
            kept += (g->duration_ns[v] > g->duration_ns[last]) == (b > a);
            n++;
        }
        last = v;
    }
    assert_true(n > 50 && kept > n * 8 / 10);
    close_pool(&p);
}

static void sizes_are_kept_or_become_powers_of_two(void **state)
{
    (void)state;
    for (int blur = 0; blur < 2; blur++) {
        pool p = open_pool(blur);
        const orr_comm comm = {.collective = ORR_COLL_ALL_REDUCE};
        const int64_t bytes = orr_samples_draw_bytes(&p.samples, 0, &comm, 3000000, 0.5, 0.5);
        assert_int_equal(bytes, blur ? 1 << 20 : 3000000);
        close_pool(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_drawn_duration_stays_in_its_class),
        cmocka_unit_test(obfuscated_durations_are_those_of_no_source),
        cmocka_unit_test(obfuscated_durations_keep_their_order),
        cmocka_unit_test(sizes_are_kept_or_become_powers_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
