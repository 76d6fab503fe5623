/* SPDX-License-Identifier: Apache-2.0 */
#include "report/analyses/registry.h"

#include "graph/pollers.h"
#include "sim/validation/validation.h"

/* What a replayed span rests on, and the threads that take no part in it, as tables. */

typedef struct basis_row {
    uint32_t rank;
    const char *basis;
    int64_t time_ns, read_ns;
    double frac;
} basis_row;

static const orr_column basis_columns[] = {
    ORR_COL_(basis_row, rank, U32),   ORR_COL_AS_(basis_row, basis, TEXT, "rests_on"),
    ORR_COL_(basis_row, time_ns, NS), ORR_COL_(basis_row, read_ns, NS),
    ORR_COL_(basis_row, frac, FRAC),
};

orr_status orr_read_time_table(const orr_job *job, const orr_simulation *simulation,
                               uint32_t queue_depth, orr_arena *arena, orr_table *ret,
                               double *ret_read_frac, orr_error *err)
{
    const orr_span_shares *shares;
    ORR_TRY(orr_simulation_read_time(job, simulation, queue_depth, arena, &shares, err));
    basis_row *rows = orr_arena_array(arena, basis_row, (size_t)job->n_graphs * ORR_SPANS);
    size_t n = 0;
    double worst = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t d = 0; d < job->n_graphs; d++) {
        const orr_span_shares *s = &shares[d];
        worst = s->read_frac > worst ? s->read_frac : worst;
        for (int b = 0; b < ORR_SPANS; b++)
            if (s->ns[b] > 0)
                rows[n++] = (basis_row){s->rank, orr_span_basis_name((orr_span_basis)b), s->ns[b],
                                        orr_span_basis_is_read((orr_span_basis)b) ? s->ns[b] : 0,
                                        s->span_ns > 0 ? (double)s->ns[b] / (double)s->span_ns : 0};
    }
    *ret = ORR_TABLE_("orrery.read_time/1",
                      "what the replayed span rests on, and what of it was read as recorded",
                      basis_columns, rows, n);
    *ret_read_frac = worst;
    return ORR_OK;
}

typedef struct poller_row {
    uint32_t rank;
    int64_t thread;
    const char *call; /* its first query */
    uint32_t calls;
    int64_t time_ns;
    const char *note;
} poller_row;

static const orr_column poller_columns[] = {
    ORR_COL_(poller_row, rank, U32),   ORR_COL_(poller_row, thread, I64),
    ORR_COL_(poller_row, call, TEXT),  ORR_COL_(poller_row, calls, U32),
    ORR_COL_(poller_row, time_ns, NS), ORR_COL_(poller_row, note, TEXT),
};

static poller_row row_of(const orr_job *job, uint32_t d, orr_lane_id lane)
{
    const orr_graph *g = job->graphs[d];
    const uint32_t first = g->lane_first[lane], end = g->lane_first[lane + 1];
    poller_row row = {job->rank_of_graph[d],
                      g->lanes[lane].tid,
                      NULL,
                      end - first,
                      0,
                      "takes no part in path, span or what-ifs"};
    for (uint32_t i = first; i < end; i++) {
        const char *name = orr_graph_str(g, g->name[g->lane_node[i]]);
        row.time_ns += g->duration_ns[g->lane_node[i]];
        if (row.call == NULL && orr_is_query(name))
            row.call = name;
    }
    return row;
}

orr_status orr_pollers_table(const orr_job *job, orr_arena *arena, orr_table *ret, orr_error *err)
{
    size_t n = 0;
    for (uint32_t d = 0; d < job->n_graphs; d++)
        for (orr_lane_id lane = 0; lane < job->graphs[d]->n_lanes; lane++)
            n += orr_lane_only_polls(job->graphs[d], lane);
    poller_row *rows = orr_arena_array(arena, poller_row, n);
    if (rows == NULL)
        return orr_fail_memory(err);
    n = 0;
    for (uint32_t d = 0; d < job->n_graphs; d++)
        for (orr_lane_id lane = 0; lane < job->graphs[d]->n_lanes; lane++)
            if (orr_lane_only_polls(job->graphs[d], lane))
                rows[n++] = row_of(job, d, lane);
    *ret = ORR_TABLE_("orrery.pollers/1", "threads that only poll", poller_columns, rows, n);
    return ORR_OK;
}
