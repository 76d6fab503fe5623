/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/sim.h>

#include "cli/search/explore.h"
#include "report/analyses/registry.h"

/* --published-effects: what was published of network technologies beside what is said of them here.
 */

typedef struct effect_row {
    const char *effect, *published;
    double low, high, ours, by_flows;
    const char *unit;
    bool direction, within;
    const char *how, *source;
} effect_row;

#define C(field, type)        ORR_COL_(effect_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(effect_row, field, type, name)
static const orr_column columns[] = {
    C(effect, TEXT),
    C(published, TEXT),
    C(low, NUMBER),
    C(high, NUMBER),
    AS(ours, NUMBER, "simulated"),
    C(by_flows, NUMBER),
    C(unit, TEXT),
    AS(direction, BOOL, "same_direction"),
    AS(within, BOOL, "in_published_range"),
    AS(how, TEXT, "method"),
    C(source, TEXT),
};
#undef C
#undef AS

static orr_status make_table(orr_arena *arena, orr_table *ret, orr_error *err)
{
    const orr_published_effect *effects;
    uint32_t n;
    ORR_TRY(orr_published_effects(arena, &effects, &n, err));
    effect_row *rows = orr_arena_array(arena, effect_row, n);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        const orr_published_effect *e = &effects[i];
        rows[i] = (effect_row){e->what,   e->published, e->published_low, e->published_high,
                               e->ours,   e->by_flows,  e->unit,          e->direction,
                               e->within, e->how,       e->source};
    }
    *ret = ORR_TABLE_("orrery.network_effects/1",
                      "published effects of network technologies, and what the models here say",
                      columns, rows, n);
    return ORR_OK;
}

orr_status orr_explore_print_effects(orr_session *session)
{
    orr_table table;
    orr_table_style style;
    ORR_TRY(make_table(session->arena, &table, &session->err));
    ORR_TRY(orr_session_output(session, &style));
    style.max_rows = 0;
    orr_table_write(&table, &style, session->out);
    return orr_output_finish(session->out, &session->err);
}
