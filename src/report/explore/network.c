/* SPDX-License-Identifier: Apache-2.0 */
/* The plans of a search with their transfers over cuts as flows, beside their closed forms. */
#include <math.h>

#include "report/analyses/registry.h"
#include "report/explore/describe.h"
#include "report/explore/tables.h"

typedef struct network_row {
    uint32_t rank, was;
    int64_t closed_ns, mean_ns, p95_ns;
    double mean_frac;
    bool told;
    const char *dominates, *axis, *level;
    double transfers_frac;
    const char *plan;
} network_row;

#define C(field, type)        ORR_COL_(network_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(network_row, field, type, name)
static const orr_column columns[] = {
    AS(rank, U32, "place"),
    AS(was, U32, "place_by_closed_forms"),
    AS(closed_ns, NS, "closed_form_ns"),
    AS(mean_ns, NS, "flows_mean_ns"),
    AS(p95_ns, NS, "flows_p95_ns"),
    AS(mean_frac, FRAC, "difference_frac"),
    AS(told, BOOL, "differs"),
    C(dominates, TEXT),
    C(axis, TEXT),
    C(level, TEXT),
    AS(transfers_frac, FRAC, "transfers_longer_frac"),
    C(plan, TEXT),
};
#undef C
#undef AS

static orr_status fill(const orr_explore_report *r, uint32_t i, orr_arena *arena, network_row *ret,
                       orr_error *err)
{
    const orr_explored_network *n = &r->network[i];
    const orr_network_check *check = &n->check;
    const bool differs = check->axis != ORR_AXIS_NONE;
    *ret = (network_row){
        .rank = i + 1,
        .was = n->was + 1,
        .closed_ns = check->closed_ns,
        .mean_ns = check->mean_ns,
        .p95_ns = check->p95_ns,
        .mean_frac = (double)check->mean_ns / (double)check->closed_ns - 1,
        .told = n->told,
        .dominates = orr_network_cause_name((orr_network_cause)check->cause),
        .axis = differs ? orr_axis_name((orr_axis)check->axis) : "",
        .level = differs ? r->cluster->levels[check->level].name : "",
        .transfers_frac = differs ? check->excess_frac : NAN,
        .plan = orr_plan_short_text(&r->exploration->best[i].plan, arena),
    };
    return ret->plan != NULL ? ORR_OK : orr_fail_memory(err);
}

orr_status orr_explore_table_network(const orr_explore_report *r, orr_arena *arena, orr_table *ret,
                                     orr_error *err)
{
    network_row *rows = orr_arena_array(arena, network_row, r->n_network);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < r->n_network; i++)
        ORR_TRY(fill(r, i, arena, &rows[i], err));
    *ret =
        ORR_TABLE_("orrery.explore_network/1", "the same steps with transfers over cuts as flows",
                   columns, rows, r->n_network);
    return ORR_OK;
}
