/* SPDX-License-Identifier: Apache-2.0 */
/* What a simulation of a fleet rests on. */
#include <math.h>
#include <stdio.h>

#include "report/analyses/registry.h"
#include "report/fleet/parts.h"

typedef struct rate_row {
    const char *failures, *about;
    double per_1000_node_days;
    const char *basis;
    double mtbf_min;
    bool used;
    const char *source, *note;
} rate_row;

#define C(field, type) ORR_COL_(rate_row, field, type)
static const orr_column rate_columns[] = {
    C(failures, TEXT),   C(per_1000_node_days, NUMBER),
    C(mtbf_min, NUMBER), C(used, BOOL),
    C(basis, TEXT),      C(about, TEXT),
    C(source, TEXT),     C(note, TEXT),
};
#undef C

static rate_row rate_of(const orr_fleet_options *o, const orr_fact *rate)
{
    return (rate_row){.per_1000_node_days = rate->value,
                      .basis = orr_fact_basis_name((orr_fact_basis)rate->basis),
                      .mtbf_min = orr_fleet_mtbf_ns(rate->value, orr_fleet_nodes(o)) / 60e9,
                      .source = rate->source,
                      .note = rate->note};
}

static bool is_same(const orr_fact *a, const orr_fact *b)
{
    return a->value == b->value && a->source == b->source;
}

orr_status orr_fleet_rate_table(const orr_fleet *fleet, const orr_failure_catalog *catalog,
                                orr_arena *arena, orr_table *ret, orr_error *err)
{
    const orr_fleet_options *o = &fleet->options;
    const orr_fact *used = &o->numbers[ORR_FLEET_RATE];
    rate_row *rows = orr_arena_array(arena, rate_row, (size_t)catalog->n_failures + 1);
    bool shown = o->interval_ns > 0;
    size_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < catalog->n_failures; i++) {
        const orr_failures *f = catalog->failures[i];
        if (f->rate.basis == ORR_FACT_UNKNOWN)
            continue;
        rows[n] = rate_of(o, &f->rate);
        rows[n].failures = f->name;
        rows[n].about = f->title;
        rows[n].used = f == o->failures && is_same(&f->rate, used) && o->interval_ns == 0;
        shown |= rows[n++].used;
    }
    if (!shown) {
        rows[n] = rate_of(o, used);
        rows[n].failures = "of this run";
        rows[n++].used = true;
    }
    *ret = ORR_TABLE_("orrery.fleet_rates/1", "published rates, and what they mean at this size",
                      rate_columns, rows, n);
    return ORR_OK;
}

/* --- settings --------------------------------------------------------------------------------- */

typedef struct setting_row {
    const char *setting, *value, *meaning, *basis, *source, *note;
} setting_row;

#define C(field, type) ORR_COL_(setting_row, field, type)
static const orr_column setting_columns[] = {C(setting, TEXT), C(value, TEXT),  C(basis, TEXT),
                                             C(meaning, TEXT), C(source, TEXT), C(note, TEXT)};
#undef C

typedef struct list {
    orr_arena *arena;
    setting_row *rows;
    size_t n;
    bool full; /* of memory */
} list;

static void put(list *l, const char *setting, const char *value, const char *meaning,
                const char *basis, const char *source, const char *note)
{
    l->full |= value == NULL;
    l->rows[l->n++] = (setting_row){setting, value, meaning, basis, source, note};
}

static void put_cluster(list *l, const orr_fleet_options *o)
{
    put(l, "gpus", orr_arena_printf(l->arena, "%u", o->gpus), "of the job", "", "", "");
    put(l, "gpus_per_node", orr_arena_printf(l->arena, "%u", o->gpus_per_node), "", "", "", "");
    put(l, "nodes_per_rack", orr_arena_printf(l->arena, "%u", o->nodes_per_rack), "", "", "", "");
    put(l, "racks_per_building", orr_arena_printf(l->arena, "%u", o->racks_per_building), "", "",
        "", "");
    if (o->interval_ns > 0) {
        const orr_fleet_time time = {.a_ns = o->interval_ns};
        char text[64];
        orr_fleet_time_text(&time, text, sizeof text);
        put(l, "interval", orr_arena_printf(l->arena, "%s", text),
            "failures come at this distance exactly; nothing else fails", "assumed",
            "said for this run", "");
    }
}

static void put_times(list *l, const orr_fleet_options *o)
{
    static const char *const words[][2] = {
#define NAME_(name, word, about) {word, about},
        ORR_FLEET_TIME_MAP(NAME_)
#undef NAME_
    };
    for (int i = 0; i < ORR_FLEET_TIMES; i++) {
        const orr_fleet_duration *d = &o->times[i];
        char text[96];
        orr_fleet_time_text(&d->time, text, sizeof text);
        put(l, words[i][0], orr_arena_printf(l->arena, "%s", text), words[i][1],
            orr_fact_basis_name((orr_fact_basis)d->basis), d->source, d->note);
    }
}

static void put_numbers(list *l, const orr_fleet_options *o)
{
    static const char *const words[][2] = {
#define NAME_(name, word, about) {word, about},
        ORR_FLEET_NUMBER_MAP(NAME_)
#undef NAME_
    };
    for (int i = 0; i < ORR_FLEET_NUMBERS; i++) {
        const orr_fact *f = &o->numbers[i];
        const bool known = f->basis != ORR_FACT_UNKNOWN;
        put(l, words[i][0], known ? orr_arena_printf(l->arena, "%.6g", f->value) : "none",
            words[i][1], orr_fact_basis_name((orr_fact_basis)f->basis), f->source, f->note);
    }
}

orr_status orr_fleet_setting_table(const orr_fleet *fleet, orr_arena *arena, orr_table *ret,
                                   orr_error *err)
{
    list l = {.arena = arena,
              .rows = orr_arena_array(arena, setting_row, ORR_FLEET_TIMES + ORR_FLEET_NUMBERS + 5)};
    if (l.rows == NULL)
        return orr_fail_memory(err);
    put_cluster(&l, &fleet->options);
    put_numbers(&l, &fleet->options);
    put_times(&l, &fleet->options);
    if (l.full)
        return orr_fail_memory(err);
    *ret = ORR_TABLE_("orrery.fleet_settings/1", "what it rests on", setting_columns, l.rows, l.n);
    return ORR_OK;
}
