/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/path/graph.h"

/* All recorded ranks that have the step; options->rank does not narrow the search, since
 * the cause of a wait may be on any of them. */
orr_status orr_analyze_critical_path_job(const orr_job *job, const orr_analysis_options *given,
                                         orr_arena *arena, orr_critical_path *ret, orr_error *err)
{
    orr_analysis_options options = orr_options_complete(given);
    options.rank = ORR_NONE;
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    const orr_view *views;
    size_t n;
    orr_status status = orr_find_views(job, &options, arena, &views, &n, err);
    if (status == ORR_OK && n == 0)
        status = orr_fail(err, ORR_NOT_FOUND, "no rank recorded such a step of annotation '%s'",
                          options.annotation);
    if (status == ORR_OK)
        status = orr_path_walk(job, views, n, options.kernel_wait_ns, arena, ret, err);
    if (status != ORR_OK)
        orr_arena_rewind(arena, mark);
    return status;
}
