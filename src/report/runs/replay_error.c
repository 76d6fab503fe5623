/* SPDX-License-Identifier: Apache-2.0 */
#include "report/analyses/registry.h"

#include "sim/validation/validation.h"

/* How far a replay is off its recording, and why, as tables. */

typedef struct lane_row {
    uint32_t rank;
    const char *lane;
    int64_t recorded_ns, replayed_ns;
    double error_frac;
    uint64_t starts;
    double mean_start_error_ns;
    int64_t p90_start_error_ns, worst_start_error_ns;
    const char *worst;
} lane_row;

static const orr_column lane_columns[] = {
    ORR_COL_(lane_row, rank, U32),
    ORR_COL_(lane_row, lane, TEXT),
    ORR_COL_(lane_row, recorded_ns, NS),
    ORR_COL_AS_(lane_row, replayed_ns, NS, "simulated_ns"),
    ORR_COL_(lane_row, error_frac, FRAC),
    ORR_COL_(lane_row, starts, U64),
    ORR_COL_(lane_row, mean_start_error_ns, NS_MEAN),
    ORR_COL_(lane_row, p90_start_error_ns, NS),
    ORR_COL_(lane_row, worst_start_error_ns, NS),
    ORR_COL_AS_(lane_row, worst, TEXT, "worst_event"),
};

static const char *lane_name(const orr_graph *g, orr_lane_id id, orr_arena *arena)
{
    const orr_lane *lane = &g->lanes[id];
    if (lane->tid == INT64_MIN)
        return orr_graph_str(g, lane->name);
    return orr_arena_printf(arena, "%s %lld", lane->kind == ORR_LANE_STREAM ? "stream" : "thread",
                            (long long)lane->tid);
}

static lane_row row_of(const orr_job *job, uint32_t rank, uint32_t graph, const char *lane,
                       const orr_validation_span *span)
{
    const orr_graph *g = job->graphs[graph];
    return (lane_row){.rank = rank,
                      .lane = lane,
                      .recorded_ns = span->recorded_ns,
                      .replayed_ns = span->simulated_ns,
                      .error_frac = span->error_frac,
                      .starts = span->n_starts,
                      .mean_start_error_ns = span->mean_start_ns,
                      .p90_start_error_ns = span->p90_start_ns,
                      .worst_start_error_ns = span->worst_start_ns,
                      .worst =
                          span->worst == ORR_NONE ? "" : orr_graph_str(g, g->name[span->worst])};
}

/* Each rank, then its lanes. */
static orr_status error_table(const orr_job *job, const orr_simulation *simulation,
                              orr_arena *arena, orr_table *ret, orr_error *err)
{
    orr_validation error;
    ORR_TRY(orr_simulation_validate(job, simulation, arena, &error, err));
    lane_row *rows = orr_arena_array(arena, lane_row, error.n_ranks + error.n_lanes);
    size_t n = 0, lane = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (size_t r = 0; r < error.n_ranks; r++) {
        const orr_validation_rank *of = &error.ranks[r];
        rows[n++] = row_of(job, of->rank, of->graph, "all", &of->span);
        for (; lane < error.n_lanes && error.lanes[lane].rank == of->rank; lane++) {
            const orr_validation_lane *at = &error.lanes[lane];
            const char *name = lane_name(job->graphs[at->graph], at->lane, arena);
            if (name == NULL)
                return orr_fail_memory(err);
            rows[n++] = row_of(job, at->rank, at->graph, name, &at->span);
        }
    }
    *ret = ORR_TABLE_("orrery.replay_error/1", "how far the replay is off, by rank and lane",
                      lane_columns, rows, n);
    return ORR_OK;
}

typedef struct cause_row {
    const char *cause;
    uint64_t moments;
    int64_t difference_ns;
} cause_row;

static const orr_column cause_columns[] = {
    ORR_COL_(cause_row, cause, TEXT),
    ORR_COL_AS_(cause_row, moments, U64, "events"),
    ORR_COL_(cause_row, difference_ns, NS),
};

static orr_status cause_table(const orr_deviations *explanation, orr_arena *arena, orr_table *ret,
                              orr_error *err)
{
    cause_row *rows = orr_arena_array(arena, cause_row, ORR_CAUSES);
    size_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (int c = 0; c < ORR_CAUSES; c++)
        if (explanation->count[c] > 0)
            rows[n++] = (cause_row){orr_deviation_cause_name((orr_deviation_cause)c),
                                    explanation->count[c], explanation->difference_ns[c]};
    *ret = ORR_TABLE_("orrery.replay_causes/1", "why it is off, over all moments that differ",
                      cause_columns, rows, n);
    return ORR_OK;
}

typedef struct moment_row {
    uint32_t rank;
    const char *lane, *name, *moment, *cause;
    int64_t recorded_gap_ns, replayed_gap_ns, difference_ns;
} moment_row;

static const orr_column moment_columns[] = {
    ORR_COL_(moment_row, rank, U32),
    ORR_COL_(moment_row, lane, TEXT),
    ORR_COL_(moment_row, name, TEXT),
    ORR_COL_AS_(moment_row, moment, TEXT, "edge"),
    ORR_COL_(moment_row, cause, TEXT),
    ORR_COL_(moment_row, recorded_gap_ns, NS),
    ORR_COL_AS_(moment_row, replayed_gap_ns, NS, "simulated_gap_ns"),
    ORR_COL_(moment_row, difference_ns, NS),
};

static orr_status moment_table(const orr_job *job, const orr_deviations *explanation,
                               orr_arena *arena, orr_table *ret, orr_error *err)
{
    moment_row *rows = orr_arena_array(arena, moment_row, explanation->n);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < explanation->n; i++) {
        const orr_deviation *of = &explanation->rows[i];
        const char *lane = lane_name(job->graphs[of->graph], of->lane, arena);
        if (lane == NULL)
            return orr_fail_memory(err);
        rows[i] = (moment_row){of->rank,
                               lane,
                               of->name,
                               of->end ? "end" : "start",
                               orr_deviation_cause_name((orr_deviation_cause)of->cause),
                               of->recorded_gap_ns,
                               of->simulated_gap_ns,
                               of->difference_ns};
    }
    *ret = ORR_TABLE_("orrery.replay_differences/1",
                      "where it is off most: gap after the latest of what led there",
                      moment_columns, rows, explanation->n);
    return ORR_OK;
}

orr_status orr_replay_error_tables(const orr_job *job, const orr_simulation *simulation,
                                   uint32_t queue_depth, size_t most, orr_arena *arena,
                                   orr_table ret[ORR_REPLAY_ERROR_TABLES], orr_error *err)
{
    orr_deviations explanation;
    ORR_TRY(orr_simulation_explain(job, simulation, queue_depth, most, arena, &explanation, err));
    ORR_TRY(error_table(job, simulation, arena, &ret[0], err));
    ORR_TRY(cause_table(&explanation, arena, &ret[1], err));
    return moment_table(job, &explanation, arena, &ret[2], err);
}
