/* SPDX-License-Identifier: Apache-2.0 */
#include "report/analyses/registry.h"

/* What sets the end: the critical path of a rank and of the job. */

typedef struct bound_row {
    uint32_t rank;
    const char *bound;
    int64_t sum_ns;
    double frac;
} bound_row;

#define C(field, type) ORR_COL_(bound_row, field, type)
static const orr_column columns_critical_path[] = {
    C(rank, U32),
    C(bound, TEXT),
    C(sum_ns, NS),
    C(frac, FRAC),
};
#undef C

orr_status orr_run_critical_path(const orr_job *job, const orr_analysis_options *options,
                                 orr_arena *arena, orr_table *ret, orr_error *err)
{
    orr_critical_path path;
    ORR_TRY(orr_analyze_critical_path(job, options, arena, &path, err));
    bound_row *rows = orr_arena_array(arena, bound_row, ORR_BOUNDS);
    size_t n = 0;
    if (!rows)
        return orr_fail_memory(err);
    const int64_t span = path.end_ns - path.start_ns;
    for (int b = 0; b < ORR_BOUNDS; b++)
        if (path.bound_ns[b] > 0)
            rows[n++] = (bound_row){path.pieces[0].rank, orr_bound_name((orr_bound)b),
                                    path.bound_ns[b], (double)path.bound_ns[b] / (double)span};
    *ret = ORR_TABLE_("orrery.critical_path/1", "Critical path of one rank", columns_critical_path,
                      rows, n);
    return ORR_OK;
}

#define C(field, type) ORR_COL_(orr_path_share, field, type)
static const orr_column columns_critical_path_across_ranks[] = {
    C(rank, U32), C(name, TEXT), C(bound, TEXT), C(count, U64), C(sum_ns, NS), C(frac, FRAC),
};
#undef C

orr_status orr_run_critical_path_across_ranks(const orr_job *job,
                                              const orr_analysis_options *options, orr_arena *arena,
                                              orr_table *ret, orr_error *err)
{
    orr_critical_path path;
    const orr_path_share *rows = NULL;
    size_t n = 0;
    ORR_TRY(orr_analyze_critical_path_job(job, options, arena, &path, err));
    ORR_TRY(orr_critical_path_shares(&path, arena, &rows, &n, err));
    *ret = ORR_TABLE_("orrery.critical_path_across_ranks/1", "Whom the critical path leads through",
                      columns_critical_path_across_ranks, rows, n);
    return ORR_OK;
}

typedef struct piece_row {
    uint32_t rank, node;
    const char *name, *bound;
    bool wait;
    int64_t from_ns, to_ns, duration_ns;
} piece_row;

#define C(field, type) ORR_COL_(piece_row, field, type)
static const orr_column columns_critical_path_pieces[] = {
    C(rank, U32),  C(node, U32),   C(name, TEXT), C(bound, TEXT),
    C(wait, BOOL), C(from_ns, NS), C(to_ns, NS),  C(duration_ns, NS),
};
#undef C

orr_status orr_run_critical_path_pieces(const orr_job *job, const orr_analysis_options *options,
                                        orr_arena *arena, orr_table *ret, orr_error *err)
{
    orr_critical_path path;
    ORR_TRY(orr_analyze_critical_path(job, options, arena, &path, err));
    piece_row *rows = orr_arena_array(arena, piece_row, path.n_pieces);
    if (!rows)
        return orr_fail_memory(err);
    for (size_t i = 0; i < path.n_pieces; i++) {
        const orr_path_piece *p = &path.pieces[i];
        rows[i] = (piece_row){p->rank, p->node,    p->name,  orr_bound_name((orr_bound)p->bound),
                              p->wait, p->from_ns, p->to_ns, p->to_ns - p->from_ns};
    }
    *ret = ORR_TABLE_("orrery.critical_path_pieces/1", "Critical path, piece by piece",
                      columns_critical_path_pieces, rows, path.n_pieces);
    return ORR_OK;
}
