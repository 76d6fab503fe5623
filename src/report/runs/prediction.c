/* SPDX-License-Identifier: Apache-2.0 */
#include "report/analyses/registry.h"

#include <stdlib.h>
#include <string.h>

#include "graph/pollers.h"

static double change(int64_t before_ns, int64_t after_ns)
{
    return before_ns > 0 ? (double)after_ns / (double)before_ns - 1 : 0;
}

static uint32_t graph_of_rank(const orr_job *job, uint32_t rank)
{
    return rank < job->n_ranks ? job->graph_of_rank[rank] : ORR_NONE;
}

typedef struct rank_row {
    uint32_t rank, ranks;
    int64_t recorded_ns, predicted_ns;
    double change_frac;
    double energy_j;
} rank_row;

static const orr_column rank_columns[] = {
    ORR_COL_(rank_row, rank, U32),         ORR_COL_(rank_row, ranks, U32),
    ORR_COL_(rank_row, recorded_ns, NS),   ORR_COL_(rank_row, predicted_ns, NS),
    ORR_COL_(rank_row, change_frac, FRAC), ORR_COL_(rank_row, energy_j, NUMBER),
};

int64_t orr_recorded_span_ns(const orr_job *job, uint32_t graph)
{
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (uint32_t d = 0; d < job->n_graphs; d++) {
        const orr_graph *g = job->graphs[d];
        bool polls = false;
        if (graph != ORR_NONE && graph != d)
            continue;
        for (uint32_t i = 0; i < g->n_nodes; i++) {
            const orr_node_id v = g->lane_node[i];
            const int64_t start_ns = orr_job_start_ns(job, d, v);
            if (i == 0 || g->lane[v] != g->lane[g->lane_node[i - 1]])
                polls = orr_lane_only_polls(g, g->lane[v]);
            if (polls || start_ns == ORR_TIME_NONE || !orr_sim_executes(g, v))
                continue;
            if (start_ns < first)
                first = start_ns;
            if (start_ns + g->duration_ns[v] > last)
                last = start_ns + g->duration_ns[v];
        }
    }
    return last > first ? last - first : 0;
}

static orr_status rank_table(const orr_prediction *p, orr_arena *arena, orr_table *ret,
                             orr_error *err)
{
    const orr_simulation *s = p->simulation;
    rank_row *rows = orr_arena_array(arena, rank_row, s->n_classes);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t c = 0; c < s->n_classes; c++) {
        const orr_timeline *t = &s->timelines[c];
        const uint32_t d = graph_of_rank(p->recorded, t->rank);
        const bool same = d != ORR_NONE && p->recorded->graphs[d] == s->ensemble->graphs[t->graph];
        const int64_t was_ns = same ? orr_recorded_span_ns(p->recorded, d) : 0;
        const int64_t is_ns = t->end_ns - t->begin_ns;
        rows[c] =
            (rank_row){t->rank, t->n_ranks, was_ns, is_ns, change(was_ns, is_ns), t->energy_j};
    }
    *ret = ORR_TABLE_("orrery.predicted_ranks/1",
                      "ranks that behave alike, from first start to last end", rank_columns, rows,
                      s->n_classes);
    return ORR_OK;
}

typedef struct step_row {
    uint32_t rank;
    const char *name;
    int64_t recorded_ns, predicted_ns;
    double change_frac;
} step_row;

static const orr_column step_columns[] = {
    ORR_COL_(step_row, rank, U32),         ORR_COL_(step_row, name, TEXT),
    ORR_COL_(step_row, recorded_ns, NS),   ORR_COL_(step_row, predicted_ns, NS),
    ORR_COL_(step_row, change_frac, FRAC),
};

/* Both lists are by rank, then by start; steps of a rank keep their order. */
static orr_status step_table(const orr_prediction *p, orr_arena *arena, orr_table *ret,
                             orr_error *err)
{
    const orr_step_summary *was, *is;
    size_t n_was, n_is, n = 0;
    ORR_TRY(orr_analyze_steps(p->recorded, p->analysis, arena, &was, &n_was, err));
    ORR_TRY(orr_analyze_steps(p->simulated, p->analysis, arena, &is, &n_is, err));
    step_row *rows = orr_arena_array(arena, step_row, n_is);
    if (rows == NULL)
        return orr_fail_memory(err);
    size_t before = 0;
    for (size_t i = 0; i < n_is; i++) {
        while (before < n_was &&
               (was[before].rank < is[i].rank ||
                (was[before].rank == is[i].rank && was[before].number < is[i].number)))
            before++;
        const bool known =
            before < n_was && was[before].rank == is[i].rank && was[before].number == is[i].number;
        const int64_t was_ns = known ? was[before].duration_ns : 0;
        rows[n++] = (step_row){is[i].rank, is[i].name, was_ns, is[i].duration_ns,
                               change(was_ns, is[i].duration_ns)};
    }
    *ret = ORR_TABLE_("orrery.predicted_steps/1", "steps", step_columns, rows, n);
    return ORR_OK;
}

typedef struct share_row {
    uint32_t rank;
    int64_t recorded_compute_ns, predicted_compute_ns;
    int64_t recorded_exposed_comm_ns, predicted_exposed_comm_ns;
    int64_t recorded_idle_ns, predicted_idle_ns;
} share_row;

static const orr_column share_columns[] = {
    ORR_COL_(share_row, rank, U32),
    ORR_COL_(share_row, recorded_compute_ns, NS),
    ORR_COL_(share_row, predicted_compute_ns, NS),
    ORR_COL_(share_row, recorded_exposed_comm_ns, NS),
    ORR_COL_(share_row, predicted_exposed_comm_ns, NS),
    ORR_COL_(share_row, recorded_idle_ns, NS),
    ORR_COL_(share_row, predicted_idle_ns, NS),
};

static orr_status share_table(const orr_prediction *p, orr_arena *arena, orr_table *ret,
                              orr_error *err)
{
    const orr_temporal *was, *is;
    size_t n_was, n_is, before = 0;
    ORR_TRY(orr_analyze_temporal(p->recorded, p->analysis, arena, &was, &n_was, err));
    ORR_TRY(orr_analyze_temporal(p->simulated, p->analysis, arena, &is, &n_is, err));
    share_row *rows = orr_arena_array(arena, share_row, n_is);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n_is; i++) {
        while (before < n_was && was[before].rank < is[i].rank)
            before++;
        rows[i] = (share_row){.rank = is[i].rank,
                              .predicted_compute_ns = is[i].compute_ns,
                              .predicted_exposed_comm_ns = is[i].exposed_comm_ns,
                              .predicted_idle_ns = is[i].idle_ns};
        if (before < n_was && was[before].rank == is[i].rank) {
            rows[i].recorded_compute_ns = was[before].compute_ns;
            rows[i].recorded_exposed_comm_ns = was[before].exposed_comm_ns;
            rows[i].recorded_idle_ns = was[before].idle_ns;
        }
    }
    *ret = ORR_TABLE_("orrery.predicted_breakdown/1", "where the time of a rank goes",
                      share_columns, rows, n_is);
    return ORR_OK;
}

typedef struct basis_row {
    const char *basis;
    int64_t time_ns;
    double frac;
} basis_row;

static const orr_column basis_columns[] = {
    ORR_COL_(basis_row, basis, TEXT),
    ORR_COL_(basis_row, time_ns, NS),
    ORR_COL_(basis_row, frac, FRAC),
};

static orr_status basis_table(const orr_prediction *p, orr_arena *arena, orr_table *ret,
                              orr_error *err)
{
    const int64_t *ns = p->simulation->basis_ns;
    basis_row *rows = orr_arena_array(arena, basis_row, ORR_BASES);
    double sum = 0;
    size_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (int b = 0; b < ORR_BASES; b++)
        sum += (double)ns[b];
    for (int b = 0; b < ORR_BASES; b++)
        if (ns[b] > 0)
            rows[n++] = (basis_row){orr_basis_name((orr_basis)b), ns[b], (double)ns[b] / sum};
    *ret = ORR_TABLE_("orrery.prediction_basis/1", "what the durations rest on", basis_columns,
                      rows, n);
    return ORR_OK;
}

typedef struct constant_row {
    const char *constant;
    int64_t value_ns, observations;
    const char *basis;
} constant_row;

static const orr_column constant_columns[] = {
    ORR_COL_(constant_row, constant, TEXT),
    ORR_COL_(constant_row, value_ns, NS),
    ORR_COL_(constant_row, observations, I64),
    ORR_COL_(constant_row, basis, TEXT),
};

static orr_status constant_table(const orr_prediction *p, orr_arena *arena, orr_table *ret,
                                 orr_error *err)
{
    static const struct {
        const char *name;
        size_t offset;
    } constants[] = {
        {"launch_latency", offsetof(orr_sim_latencies, launch_latency_ns)},
        {"kernel_gap", offsetof(orr_sim_latencies, kernel_gap_ns)},
        {"sync_return", offsetof(orr_sim_latencies, sync_return_ns)},
        {"handoff", offsetof(orr_sim_latencies, handoff_ns)},
        {"event_latency", offsetof(orr_sim_latencies, event_latency_ns)},
        {"resume", offsetof(orr_sim_latencies, resume_ns)},
        {"copy_launch", offsetof(orr_sim_latencies, copy_launch_ns)},
        {"copy_gap", offsetof(orr_sim_latencies, copy_gap_ns)},
    };
    const size_t n = sizeof constants / sizeof *constants;
    constant_row *rows = orr_arena_array(arena, constant_row, n);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        const char *used = (const char *)&p->simulation->constants + constants[i].offset;
        const char *at = p->seen ? (const char *)p->seen + constants[i].offset : NULL;
        const int64_t seen = at ? *(const int64_t *)at : 0;
        rows[i] = (constant_row){constants[i].name, *(const int64_t *)used, seen,
                                 orr_basis_name(seen ? ORR_BASIS_RECORDED : ORR_BASIS_ASSUMED)};
    }
    *ret = ORR_TABLE_("orrery.replay_constants/1", "what the recording does not say node by node",
                      constant_columns, rows, n);
    return ORR_OK;
}

typedef struct link_row {
    const char *level;
    uint32_t unit;
    const char *direction;
    int64_t bytes, busy_ns;
    double utilisation_frac;
} link_row;

static const orr_column link_columns[] = {
    ORR_COL_(link_row, level, TEXT),     ORR_COL_AS_(link_row, unit, U32, "instance"),
    ORR_COL_(link_row, direction, TEXT), ORR_COL_(link_row, bytes, BYTES),
    ORR_COL_(link_row, busy_ns, NS),     ORR_COL_(link_row, utilisation_frac, FRAC),
};

static int by_bytes(const void *a_, const void *b_)
{
    const link_row *a = a_, *b = b_;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    const int levels = strcmp(a->level, b->level), ways = strcmp(a->direction, b->direction);
    return levels ? levels : a->unit != b->unit ? (a->unit < b->unit ? -1 : 1) : ways;
}

static orr_status link_table(const orr_prediction *p, orr_arena *arena, orr_table *ret,
                             orr_error *err)
{
    const orr_simulation *s = p->simulation;
    link_row *rows = orr_arena_array(arena, link_row, s->n_links);
    size_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < s->n_links && p->cluster != NULL; i++) {
        const orr_link_use *use = &s->links[i];
        if (use->bytes > 0)
            rows[n++] = (link_row){p->cluster->levels[use->level].name,
                                   use->unit,
                                   use->up ? "up" : "down",
                                   (int64_t)use->bytes,
                                   (int64_t)use->busy_ns,
                                   use->utilisation_frac};
    }
    if (n > 0)
        qsort(rows, n, sizeof *rows, by_bytes);
    *ret = ORR_TABLE_("orrery.predicted_links/1", "links", link_columns, rows, n);
    return ORR_OK;
}

orr_status orr_prediction_tables(const orr_prediction *prediction, orr_arena *arena,
                                 orr_table ret[ORR_PREDICTION_TABLES], orr_error *err)
{
    ORR_TRY(rank_table(prediction, arena, &ret[0], err));
    ORR_TRY(step_table(prediction, arena, &ret[1], err));
    ORR_TRY(share_table(prediction, arena, &ret[2], err));
    ORR_TRY(basis_table(prediction, arena, &ret[3], err));
    ORR_TRY(constant_table(prediction, arena, &ret[4], err));
    return link_table(prediction, arena, &ret[5], err);
}
