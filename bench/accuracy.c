/* SPDX-License-Identifier: Apache-2.0 */

/* The table of docs/accuracy.md on replay, as Markdown on stdout.
 *
 * Usage: accuracy replay        the table
 *        accuracy explain NAME  what differs most in one recording, with its own constants
 *
 * Reads the traces below $ORRERY_SHARED/data/traces, and the examples below $ORRERY_SOURCE. */
#include <string.h>

#include "../tests/reference/replay_cases.h"

static void print_percent(double frac)
{
    printf(" %.2f %% |", 100 * frac);
}

static void print_row(const replay_case *c, const replay_score *own, const replay_score *held_out)
{
    printf("| %s | %s | %u | %.1f |", c->name, c->generation, own->n_ranks, own->span_ms);
    print_percent(own->mean);
    print_percent(held_out->mean);
    print_percent(held_out->worst);
    printf(" %.1f %% |", 100 * held_out->read_frac);
    if (held_out->n_steps > 0) {
        printf(" %zu |", held_out->n_steps);
        print_percent(held_out->mean_step);
        print_percent(held_out->worst_step);
    } else {
        printf(" | | |");
    }
    printf(" %.1f | %.1f |\n", own->mean_start_us, held_out->mean_start_us);
}

static int print_table(const replay_jobs jobs, orr_arena *arena)
{
    orr_error err;
    printf(
        "| recording | device | ranks | span, ms | error, own constants | held out | worst rank | read "
        "| steps | mean | worst | starts off, µs, own | held out |\n"
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for (size_t i = 0; i < REPLAY_CASES_N; i++) {
        replay_score own, held_out;
        if (jobs[i] == NULL)
            continue;
        if (replay_judge(jobs, i, false, arena, &own, &err) != ORR_OK ||
            replay_judge(jobs, i, true, arena, &held_out, &err) != ORR_OK) {
            fprintf(stderr, "%s: %s\n", REPLAY_CASES[i].path, err.text);
            return 1;
        }
        print_row(&REPLAY_CASES[i], &own, &held_out);
    }
    return 0;
}

static int print_explanation(const orr_job *job, orr_arena *arena)
{
    orr_error err;
    orr_simulation simulation;
    orr_validation error;
    orr_deviations why;
    if (replay_run(job, NULL, arena, &simulation, &error, &err) != ORR_OK ||
        orr_simulation_explain(job, &simulation, 1024, 40, arena, &why, &err) != ORR_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("| cause | moments | sum of differences, µs |\n|---|--:|--:|\n");
    for (int cause = 0; cause < ORR_CAUSES; cause++)
        printf("| %s | %llu | %.1f |\n", orr_deviation_cause_name((orr_deviation_cause)cause),
               (unsigned long long)why.count[cause], (double)why.difference_ns[cause] / 1000);
    printf("\n| rank | lane | node | | recorded, µs | simulated, µs | cause | name |\n"
           "|--:|--:|--:|---|--:|--:|---|---|\n");
    for (size_t i = 0; i < why.n; i++) {
        const orr_deviation *row = &why.rows[i];
        printf("| %u | %u | %u | %s | %.1f | %.1f | %s | %.60s |\n", row->rank, row->lane,
               row->node, row->end ? "end" : "start", (double)row->recorded_gap_ns / 1000,
               (double)row->simulated_gap_ns / 1000,
               orr_deviation_cause_name((orr_deviation_cause)row->cause), row->name);
    }
    return 0;
}

static void read_all(replay_jobs jobs, orr_arena *arena, const char *only)
{
    for (size_t i = 0; i < REPLAY_CASES_N; i++) {
        orr_error err;
        jobs[i] = NULL;
        if (only != NULL && strcmp(only, REPLAY_CASES[i].path) != 0 &&
            strcmp(only, REPLAY_CASES[i].name) != 0)
            continue;
        if (replay_read(&REPLAY_CASES[i], arena, &jobs[i], &err) != ORR_OK) {
            fprintf(stderr, "%s is left out: %s\n", REPLAY_CASES[i].path, err.text);
            jobs[i] = NULL;
        }
    }
}

int main(int argc, char **argv)
{
    replay_jobs jobs;
    int status = 2;
    orr_arena *arena = orr_arena_new(0, 0);
    if (arena == NULL)
        return 1;
    const bool explain = argc == 3 && strcmp(argv[1], "explain") == 0;
    if (!explain && (argc != 2 || strcmp(argv[1], "replay") != 0)) {
        fprintf(stderr, "usage: accuracy replay | explain NAME\n");
        goto out;
    }
    read_all(jobs, arena, explain ? argv[2] : NULL);
    status = 1;
    if (!explain) {
        status = print_table(jobs, arena);
    } else {
        for (size_t i = 0; i < REPLAY_CASES_N; i++)
            if (jobs[i] != NULL)
                status = print_explanation(jobs[i], arena);
    }
    for (size_t i = 0; i < REPLAY_CASES_N; i++)
        orr_job_free(jobs[i]);
out:
    orr_arena_free(arena);
    return status;
}
