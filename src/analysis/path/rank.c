/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/path/graph.h"

const char *orr_bound_name(orr_bound bound)
{
    static const char *const names[] = {
#define BOUND_TEXT(name, text) text,
        ORR_BOUND_MAP(BOUND_TEXT)
#undef BOUND_TEXT
    };
    return (unsigned)bound < ORR_BOUNDS ? names[bound] : "unknown";
}

static uint32_t lowest_recorded(const orr_job *job)
{
    for (uint32_t rank = 0; rank < job->n_ranks; rank++)
        if (job->graph_of_rank[rank] != ORR_NONE)
            return rank;
    return ORR_NONE;
}

static orr_status no_step(const orr_analysis_options *options, orr_error *err)
{
    return orr_fail(err, ORR_NOT_FOUND, "no step %d of annotation '%s' was recorded",
                    options->step_first >= 0 ? options->step_first : options->step_last,
                    options->annotation);
}

orr_status orr_analyze_critical_path(const orr_job *job, const orr_analysis_options *given,
                                     orr_arena *arena, orr_critical_path *ret, orr_error *err)
{
    orr_analysis_options options = orr_options_complete(given);
    if (options.rank == ORR_NONE)
        options.rank = lowest_recorded(job);
    if (options.rank >= job->n_ranks || job->graph_of_rank[options.rank] == ORR_NONE)
        return orr_fail(err, ORR_NOT_FOUND, "rank %d was not recorded", (int)options.rank);

    const orr_arena_mark mark = orr_arena_get_mark(arena);
    const orr_view *views;
    size_t n;
    orr_status status = orr_find_views(job, &options, arena, &views, &n, err);
    if (status == ORR_OK && n == 0)
        status = no_step(&options, err);
    if (status == ORR_OK)
        status = options.path_hta
                     ? orr_path_longest(&views[0], arena, ret, err)
                     : orr_path_walk(job, views, 1, options.kernel_wait_ns, arena, ret, err);
    if (status != ORR_OK)
        orr_arena_rewind(arena, mark);
    return status;
}
