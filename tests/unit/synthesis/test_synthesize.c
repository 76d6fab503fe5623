/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "toy.h"

static orr_synthesis made_of(const orr_job *const *jobs, uint32_t n, orr_synthesis_options options,
                             orr_arena *arena)
{
    orr_synthesis made;
    orr_error err = {0};
    toy_must(orr_synthesize(jobs, n, &options, arena, &made, &err), &err);
    return made;
}

static bool same_graph(const orr_graph *a, const orr_graph *b)
{
    return a->n_nodes == b->n_nodes && a->n_deps == b->n_deps &&
           memcmp(a->start_ns, b->start_ns, a->n_nodes * sizeof *a->start_ns) == 0 &&
           memcmp(a->duration_ns, b->duration_ns, a->n_nodes * sizeof *a->duration_ns) == 0 &&
           memcmp(a->kind, b->kind, a->n_nodes) == 0 &&
           memcmp(a->dep, b->dep, a->n_deps * sizeof *a->dep) == 0;
}

static void a_seed_gives_one_job_for_any_number_of_threads(void **state)
{
    (void)state;
    const orr_job *job = toy_job((toy){.ranks = 4, .steps = 2, .operators = 24});
    orr_arena *arena = orr_arena_new(0, 0);
    orr_synthesis_options options = toy_options(5, 8), threads = options;
    threads.threads = 4;
    orr_synthesis a = made_of(&job, 1, options, arena), b = made_of(&job, 1, threads, arena);
    orr_synthesis c = made_of(&job, 1, toy_options(6, 8), arena);
    for (uint32_t r = 0; r < 8; r++) {
        assert_true(same_graph(a.job->graphs[r], b.job->graphs[r]));
        assert_false(same_graph(a.job->graphs[r], c.job->graphs[r]));
    }
    assert_false(same_graph(a.job->graphs[0], a.job->graphs[4])); /* nor are copies of a rank */
    orr_synthesis_free(&a);
    orr_synthesis_free(&b);
    orr_synthesis_free(&c);
    orr_job_free(job);
    orr_arena_free(arena);
}

/* Every rank has every communication of its groups: matched, and the simulation came to its end. */
static void communications_meet_on_any_number_of_ranks(void **state)
{
    (void)state;
    static const toy kinds[] = {
        {.ranks = 4, .steps = 2, .operators = 16},
        {.ranks = 4, .steps = 2, .operators = 16, .stride = 2},
        {.ranks = 4, .steps = 2, .operators = 16, .row = 2},
        {.ranks = 4, .steps = 2, .operators = 16, .pairs = true},
        {.ranks = 4, .steps = 2, .operators = 16, .recorded = 1},
    };
    static const uint32_t step[] = {1, 4, 4, 4, 1};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const orr_job *job = toy_job(kinds[k]);
        for (uint32_t n = step[k]; n <= 64; n += step[k]) {
            orr_arena *arena = orr_arena_new(0, 0);
            orr_synthesis_options options = toy_options(n, n);
            options.obfuscate = n % 8 == 0;
            orr_synthesis made = made_of(&job, 1, options, arena);
            assert_int_equal(made.job->n_graphs, n);
            assert_true(n == 1 || made.job->unmatched == 0);
            /* Read anew, as from files: groups and numbers alone tell who belongs together. */
            assert_true(n == 1 || made.job->n_matches > 0);
            for (uint32_t m = 0; m < made.job->n_matches; m++) {
                const orr_match *match = &made.job->matches[m];
                const orr_member first = made.job->members[match->first];
                const orr_comm *comm = orr_graph_comm(made.job->graphs[first.graph], first.node);
                assert_int_equal(match->count,
                                 match->collective == ORR_COLL_SEND ? 2 : comm->group_size);
            }
            orr_synthesis_free(&made);
            orr_arena_free(arena);
        }
        orr_job_free(job);
    }
}

static void a_number_of_ranks_that_leaves_groups_incomplete_is_refused(void **state)
{
    (void)state;
    const orr_job *job = toy_job((toy){.ranks = 4, .steps = 1, .operators = 8, .pairs = true});
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_synthesis_options options = toy_options(1, 6);
    orr_synthesis made;
    orr_error err = {0};
    assert_int_equal(orr_synthesize(&job, 1, &options, arena, &made, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "6 ranks are no multiple of 4"));
    orr_synthesis_free(&made);
    assert_int_equal(orr_synthesize(&job, 0, &options, arena, &made, &err), ORR_INVALID);
    orr_job_free(job);
    orr_arena_free(arena);
}

static orr_synthesis_comparison compared(const orr_synthesis *made, orr_arena *arena)
{
    static const char *const names[] = {"a", "b"};
    orr_synthesis_comparison c;
    orr_error err = {0};
    toy_must(orr_synthesis_compare(made, names, arena, &c, &err), &err);
    return c;
}

static void a_job_is_like_its_source(void **state)
{
    (void)state;
    const orr_job *job = toy_job((toy){.ranks = 4, .steps = 5, .operators = 64});
    for (uint64_t seed = 1; seed <= 5; seed++) {
        orr_arena *arena = orr_arena_new(0, 0);
        orr_synthesis made = made_of(&job, 1, toy_options(seed, 0), arena);
        const orr_synthesis_comparison c = compared(&made, arena);
        assert_int_equal(c.n_rows, 1);
        assert_true(fabs(c.rows[0].step_error_frac) < 0.06);
        assert_true(fabs(c.rows[0].exposed_difference_frac) < 0.03);
        for (size_t i = 0; i < c.n_distributions; i++) {
            const orr_distribution_row *row = &c.distributions[i];
            assert_true(fabs(row->synthetic_count / row->count - 1) < 0.05);
            if (strcmp(row->what, "kernel") == 0)
                assert_true(row->ks < 0.06 && row->quantile_error_frac < 0.06 &&
                            fabs(row->autocorrelation) > 0.1 &&
                            row->autocorrelation_difference < 0.05);
        }
        orr_synthesis_free(&made);
        orr_arena_free(arena);
    }
    orr_job_free(job);
}

static bool has_name(const orr_job *job, const char *part)
{
    for (uint32_t r = 0; r < job->n_graphs; r++)
        for (orr_node_id v = 0; v < job->graphs[r]->n_nodes; v++)
            if (strstr(orr_graph_str(job->graphs[r], job->graphs[r]->name[v]), part) != NULL)
                return true;
    return false;
}

static void obfuscated_jobs_have_names_devices_and_durations_of_none(void **state)
{
    (void)state;
    const orr_job *jobs[] = {
        toy_job((toy){.ranks = 2, .steps = 3, .operators = 40, .prefix = "mine::op"}),
        toy_job(
            (toy){.ranks = 4, .steps = 3, .operators = 48, .prefix = "mine::op", .unit_ns = 90000}),
    };
    orr_arena *arena = orr_arena_new(0, 0);
    orr_synthesis_options options = toy_options(3, 0);
    orr_synthesis plain = made_of(jobs, 2, options, arena);
    options.obfuscate = true;
    orr_synthesis made = made_of(jobs, 2, options, arena);
    assert_true(has_name(plain.job, "mine::op") && has_name(plain.job, "kernel_"));
    assert_false(has_name(made.job, "mine") || has_name(made.job, "kernel_") ||
                 has_name(made.job, "nccl"));
    assert_string_equal(orr_graph_str(made.job->graphs[0], made.job->graphs[0]->device_name), "");
    assert_int_equal(made.job->n_graphs, 4);
    const orr_synthesis_comparison c = compared(&made, arena);
    for (size_t i = 0; i < c.n_distributions; i++)
        if (strcmp(c.distributions[i].what, "kernel") == 0)
            assert_true(c.distributions[i].ks > 0.4); /* between both: like neither */
    orr_synthesis_free(&plain);
    orr_synthesis_free(&made);
    for (int i = 0; i < 2; i++)
        orr_job_free(jobs[i]);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seed_gives_one_job_for_any_number_of_threads),
        cmocka_unit_test(communications_meet_on_any_number_of_ranks),
        cmocka_unit_test(a_number_of_ranks_that_leaves_groups_incomplete_is_refused),
        cmocka_unit_test(a_job_is_like_its_source),
        cmocka_unit_test(obfuscated_jobs_have_names_devices_and_durations_of_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
