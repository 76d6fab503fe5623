/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_REPORT_REPLAY_FIXTURE_H
#define TESTS_REPORT_REPLAY_FIXTURE_H

#include "fixture.h"

#include "report/table/cell.h"

/* A recording and its simulation; `factor` is of device work. */
typedef struct replay {
    const orr_job *job, *simulated;
    orr_arena *arena;
    orr_simulation simulation;
} replay;

static inline replay replay_of(const orr_job *job, double factor)
{
    replay r = {.job = job, .arena = orr_arena_new(0, 0)};
    const orr_ensemble *ensemble;
    orr_whatif what;
    orr_whatif_report report;
    orr_sim_options options;
    orr_sim_options_init(&options);
    orr_whatif_init(&what);
    const orr_rank_factor slow = {0, factor};
    what.stragglers = &slow;
    what.n_stragglers = 1;
    assert_int_equal(orr_ensemble_of_job(job, r.arena, &ensemble, NULL), ORR_OK);
    if (factor != 1)
        assert_int_equal(orr_whatif_apply(ensemble, &what, r.arena, &ensemble, &report, NULL),
                         ORR_OK);
    assert_int_equal(orr_simulate(ensemble, &options, r.arena, &r.simulation, NULL), ORR_OK);
    assert_int_equal(orr_simulation_job(&r.simulation, job, &r.simulated, NULL), ORR_OK);
    return r;
}

static inline void replay_done(replay *r)
{
    orr_job_free(r->simulated);
    orr_job_free(r->job);
    orr_arena_free(r->arena);
}

static inline orr_cell replay_cell(const orr_table *table, size_t row, const char *name)
{
    for (size_t c = 0; c < table->n_columns; c++)
        if (strcmp(table->columns[c].name, name) == 0)
            return orr_table_cell(table, row, &table->columns[c]);
    fail_msg("%s has no column %s", table->schema, name);
    return (orr_cell){0};
}

static inline int64_t replay_int(const orr_table *table, size_t row, const char *name)
{
    return (int64_t)orr_cell_number(replay_cell(table, row, name));
}

#endif /* TESTS_REPORT_REPLAY_FIXTURE_H */
