/* SPDX-License-Identifier: Apache-2.0 */
#include "report/analyses/registry.h"

#include <string.h>

static const orr_analysis analyses[] = {
#define ENTRY(name, series, about) {#name, about, series, orr_run_##name},
    ORR_ANALYSIS_MAP(ENTRY)
#undef ENTRY
};
static const size_t n_analyses = sizeof analyses / sizeof analyses[0];

const orr_analysis *orr_analyses(size_t *ret_n)
{
    *ret_n = n_analyses;
    return analyses;
}

const orr_analysis *orr_analysis_find(const char *name)
{
    for (size_t i = 0; i < n_analyses; i++)
        if (strcmp(analyses[i].name, name) == 0)
            return &analyses[i];
    return NULL;
}

#define C(field, type) ORR_COL_(orr_diff_row, field, type)
static const orr_column columns_diff[] = {
    C(name, TEXT),   C(on_device, BOOL), C(change, TEXT), C(count_a, U64),
    C(count_b, U64), C(sum_a_ns, NS),    C(sum_b_ns, NS), C(delta_ns, NS),
};
#undef C

orr_status orr_diff_table(const orr_job *a, const orr_job *b, const orr_analysis_options *options,
                          bool normalise, orr_arena *arena, orr_table *ret, orr_error *err)
{
    const orr_diff_row *rows = NULL;
    size_t n = 0;
    ORR_TRY(orr_analyze_diff(a, b, options, normalise, arena, &rows, &n, err));
    *ret = ORR_TABLE_("orrery.diff/1", normalise ? "Difference, per rank and step" : "Difference",
                      columns_diff, rows, n);
    return ORR_OK;
}
