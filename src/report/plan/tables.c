/* SPDX-License-Identifier: Apache-2.0 */
#include "report/analyses/registry.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <orrery/report.h>

static double share(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

typedef struct summary_row {
    const char *figure, *unit;
    double value;
} summary_row;

static const orr_column summary_columns[] = {
    ORR_COL_(summary_row, figure, TEXT),
    ORR_COL_(summary_row, value, NUMBER),
    ORR_COL_(summary_row, unit, TEXT),
};

/* Figures as numbers, in the order in which people ask for them; what is not known is left out. */
typedef struct figure {
    const char *name, *unit;
    double value;
} figure;

enum { FIGURES_MAX = 26 };
static uint32_t list_figures(const orr_outcome *o, figure *ret)
{
    const orr_stage_memory *worst = &o->memory.stages[o->memory.worst];
    const figure all[FIGURES_MAX] = {
        {"ranks", "", o->n_ranks},
        {"step", "ns", (double)o->step_ns},
        {"step_low", "ns", o->low_ns >= 0 ? (double)o->low_ns : NAN},
        {"step_high", "ns", o->high_ns >= 0 ? (double)o->high_ns : NAN},
        {"mfu", "", o->mfu_frac},
        {"hfu", "", o->hfu_frac},
        {"model_flops_per_device", "FLOP/s", o->flops_per_s_per_device},
        {"tokens_per_s", "1/s", o->tokens_per_s},
        {"tokens_per_s_per_device", "1/s", o->tokens_per_s_per_device},
        {"samples_per_s", "1/s", o->samples_per_s},
        {"samples_per_s_per_device", "1/s", o->samples_per_s / o->n_ranks},
        {"bubble", "", o->bubble_frac},
        {"peak_memory", "bytes", (double)worst->peak_bytes},
        {"allocated_memory", "bytes", (double)worst->allocated_bytes},
        {"reserved_memory", "bytes", (double)worst->reserved_bytes},
        {"most_samples", "", o->memory.most_samples > 0 ? (double)o->memory.most_samples : NAN},
        {"most_tokens", "", o->memory.most_tokens > 0 ? (double)o->memory.most_tokens : NAN},
        {"memory_missing", "bytes", o->memory.fits ? NAN : (double)o->memory.missing_bytes},
        {"expert_imbalance", "", o->expert_slots > 0 ? o->expert_imbalance[0] : NAN},
        {"expert_imbalance_worst", "", o->expert_slots > 0 ? o->expert_imbalance[1] : NAN},
        {"expert_slots", "", o->expert_slots > 0 ? (double)o->expert_slots : NAN},
        {"document_seen", "", o->document_seen_frac > 0 ? o->document_seen_frac : NAN},
        {"document_imbalance", "", o->document_seen_frac > 0 ? o->document_imbalance : NAN},
        {"energy_of_step", "J", o->energy_j},
        {"model_flops", "FLOP", o->model_flops},
        {"hardware_flops", "FLOP", o->hardware_flops},
    };
    uint32_t n = 0;
    for (uint32_t i = 0; i < FIGURES_MAX; i++)
        if (all[i].name != NULL && isfinite(all[i].value))
            ret[n++] = all[i];
    return n;
}

/* Bytes and nanoseconds are exact; of what is computed ten digits, since those that follow depend
 * on the compiler. */
static double rounded(double value)
{
    char text[32];
    if (value == rint(value) && fabs(value) < 1e12)
        return value;
    snprintf(text, sizeof text, "%.10g", value);
    return strtod(text, NULL);
}

static orr_status summary_table(const orr_outcome *o, orr_arena *arena, orr_table *ret,
                                orr_error *err)
{
    figure figures[FIGURES_MAX];
    const uint32_t n = list_figures(o, figures);
    summary_row *rows = orr_arena_array(arena, summary_row, n);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++)
        rows[i] = (summary_row){figures[i].name, figures[i].unit, rounded(figures[i].value)};
    *ret = ORR_TABLE_("orrery.outcome_figures/2", "figures of the step", summary_columns, rows, n);
    return ORR_OK;
}

typedef struct waterfall_row {
    const char *part;
    int64_t mean_ns;
    double share_frac;
} waterfall_row;

static const orr_column waterfall_columns[] = {
    ORR_COL_(waterfall_row, part, TEXT),
    ORR_COL_(waterfall_row, mean_ns, NS),
    ORR_COL_(waterfall_row, share_frac, FRAC),
};

static orr_status waterfall_table(const orr_outcome *o, orr_arena *arena, orr_table *ret,
                                  orr_error *err)
{
    waterfall_row *rows = orr_arena_array(arena, waterfall_row, ORR_WATERFALLS);
    uint32_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (int i = 0; i < ORR_WATERFALLS; i++)
        if (o->waterfall_ns[i] != 0)
            rows[n++] = (waterfall_row){orr_waterfall_name((orr_waterfall)i), o->waterfall_ns[i],
                                        share(o->waterfall_ns[i], o->step_ns)};
    *ret = ORR_TABLE_("orrery.waterfall/1", "where the step goes, mean of all ranks",
                      waterfall_columns, rows, n);
    return ORR_OK;
}

typedef struct stage_row {
    uint32_t stage, in_flight;
    int64_t peak_bytes, weights_bytes, gradients_bytes, optimizer_bytes, activations_bytes,
        transient_bytes, cache_bytes, buffers_bytes, fragmentation_bytes, host_bytes,
        allocated_bytes, reserved_bytes;
} stage_row;

static const orr_column stage_columns[] = {
    ORR_COL_(stage_row, stage, U32),
    ORR_COL_(stage_row, in_flight, U32),
    ORR_COL_(stage_row, peak_bytes, BYTES),
    ORR_COL_(stage_row, weights_bytes, BYTES),
    ORR_COL_(stage_row, gradients_bytes, BYTES),
    ORR_COL_(stage_row, optimizer_bytes, BYTES),
    ORR_COL_(stage_row, activations_bytes, BYTES),
    ORR_COL_(stage_row, transient_bytes, BYTES),
    ORR_COL_(stage_row, cache_bytes, BYTES),
    ORR_COL_(stage_row, buffers_bytes, BYTES),
    ORR_COL_(stage_row, fragmentation_bytes, BYTES),
    ORR_COL_(stage_row, host_bytes, BYTES),
    ORR_COL_(stage_row, allocated_bytes, BYTES),
    ORR_COL_(stage_row, reserved_bytes, BYTES),
};

static orr_status memory_table(const orr_outcome *o, orr_arena *arena, orr_table *ret,
                               orr_error *err)
{
    stage_row *rows = orr_arena_array(arena, stage_row, o->memory.n_stages);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t s = 0; s < o->memory.n_stages; s++) {
        const orr_stage_memory *m = &o->memory.stages[s];
        rows[s] = (stage_row){.stage = s,
                              .in_flight = m->in_flight,
                              .peak_bytes = m->peak_bytes,
                              .weights_bytes = m->bytes[ORR_MEMORY_WEIGHTS],
                              .gradients_bytes = m->bytes[ORR_MEMORY_GRADIENTS],
                              .optimizer_bytes = m->bytes[ORR_MEMORY_OPTIMIZER],
                              .activations_bytes = m->bytes[ORR_MEMORY_ACTIVATIONS],
                              .transient_bytes = m->bytes[ORR_MEMORY_TRANSIENT],
                              .cache_bytes = m->bytes[ORR_MEMORY_CACHE],
                              .buffers_bytes = m->bytes[ORR_MEMORY_BUFFERS],
                              .fragmentation_bytes = m->bytes[ORR_MEMORY_FRAGMENTATION],
                              .host_bytes = m->host_bytes,
                              .allocated_bytes = m->allocated_bytes,
                              .reserved_bytes = m->reserved_bytes};
    }
    *ret = ORR_TABLE_("orrery.stage_memory/1", "memory of a rank at its peak, by stage",
                      stage_columns, rows, o->memory.n_stages);
    return ORR_OK;
}

typedef struct relief_row {
    const char *change;
    int64_t freed_bytes, peak_bytes;
} relief_row;

static const orr_column relief_columns[] = {
    ORR_COL_(relief_row, change, TEXT),
    ORR_COL_(relief_row, freed_bytes, BYTES),
    ORR_COL_(relief_row, peak_bytes, BYTES),
};

static orr_status relief_table(const orr_outcome *o, orr_arena *arena, orr_table *ret,
                               orr_error *err)
{
    relief_row *rows = orr_arena_array(arena, relief_row, o->memory.n_options);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < o->memory.n_options; i++)
        rows[i] = (relief_row){o->memory.options[i].change, o->memory.options[i].freed_bytes,
                               o->memory.options[i].peak_bytes};
    *ret = ORR_TABLE_("orrery.relief/1", "what would make room, each change alone", relief_columns,
                      rows, o->memory.n_options);
    return ORR_OK;
}

typedef struct axis_row {
    const char *axis, *level;
    uint32_t members;
    int64_t sent_bytes, busy_ns, exposed_ns;
    double utilisation_frac;
} axis_row;

static const orr_column axis_columns[] = {
    ORR_COL_(axis_row, axis, TEXT),
    ORR_COL_(axis_row, members, U32),
    ORR_COL_(axis_row, level, TEXT),
    ORR_COL_(axis_row, sent_bytes, BYTES),
    ORR_COL_(axis_row, busy_ns, NS),
    ORR_COL_(axis_row, exposed_ns, NS),
    ORR_COL_(axis_row, utilisation_frac, FRAC),
};

static orr_status axis_table(const orr_outcome *o, orr_arena *arena, orr_table *ret, orr_error *err)
{
    axis_row *rows = orr_arena_array(arena, axis_row, o->n_axes);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < o->n_axes; i++) {
        const orr_axis_use *use = &o->axes[i];
        const bool known = use->level < o->cluster->n_levels;
        rows[i] = (axis_row){.axis = orr_axis_name((orr_axis)use->axis),
                             .level = known ? o->cluster->levels[use->level].name : "",
                             .members = use->members,
                             .sent_bytes = (int64_t)use->bytes,
                             .busy_ns = use->busy_ns,
                             .exposed_ns = use->exposed_ns,
                             .utilisation_frac = use->utilisation_frac};
    }
    *ret = ORR_TABLE_("orrery.axes/1", "who speaks with whom, mean of all ranks", axis_columns,
                      rows, o->n_axes);
    return ORR_OK;
}

typedef struct table_row {
    const char *what;
    int64_t most_bytes, mean_bytes;
    double above_frac;
} table_row;

static const orr_column table_columns[] = {
    ORR_COL_(table_row, what, TEXT),
    ORR_COL_(table_row, most_bytes, BYTES),
    ORR_COL_(table_row, mean_bytes, BYTES),
    ORR_COL_AS_(table_row, above_frac, FRAC, "above_mean_frac"),
};

static orr_status tables_table(const orr_outcome *o, orr_arena *arena, orr_table *ret,
                               orr_error *err)
{
    table_row *rows = orr_arena_array(arena, table_row, o->n_tables);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < o->n_tables; i++) {
        const orr_table_use *use = &o->tables[i];
        rows[i] = (table_row){use->what, (int64_t)use->most_bytes, (int64_t)use->mean_bytes,
                              use->most_bytes / use->mean_bytes - 1};
    }
    *ret = ORR_TABLE_("orrery.tables/1", "embedding tables, of the fullest rank in a micro-batch",
                      table_columns, rows, o->n_tables);
    return ORR_OK;
}

typedef struct basis_row {
    const char *basis;
    double share_frac;
} basis_row;

static const orr_column basis_columns[] = {
    ORR_COL_(basis_row, basis, TEXT),
    ORR_COL_(basis_row, share_frac, FRAC),
};

static orr_status basis_table(const orr_outcome *o, orr_arena *arena, orr_table *ret,
                              orr_error *err)
{
    basis_row *rows = orr_arena_array(arena, basis_row, ORR_BASES);
    double sum = 0;
    uint32_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (int b = 0; b < ORR_BASES; b++)
        sum += (double)o->basis_ns[b];
    for (int b = 0; b < ORR_BASES; b++)
        if (o->basis_ns[b] > 0)
            rows[n++] = (basis_row){orr_basis_name((orr_basis)b), (double)o->basis_ns[b] / sum};
    *ret =
        ORR_TABLE_("orrery.outcome_basis/1", "what device work rests on", basis_columns, rows, n);
    return ORR_OK;
}

typedef struct phase_row {
    const char *phase;
    int64_t ns;
    double share_frac;
} phase_row;

static const orr_column phase_columns[] = {
    ORR_COL_(phase_row, phase, TEXT),
    ORR_COL_(phase_row, ns, NS),
    ORR_COL_(phase_row, share_frac, FRAC),
};

static orr_status phase_table(const orr_outcome *o, orr_arena *arena, orr_table *ret,
                              orr_error *err)
{
    phase_row *rows = orr_arena_array(arena, phase_row, o->n_phases);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < o->n_phases; i++)
        rows[i] =
            (phase_row){o->phases[i].name, o->phases[i].ns, share(o->phases[i].ns, o->step_ns)};
    *ret = ORR_TABLE_("orrery.phases/1", "phases", phase_columns, rows, o->n_phases);
    return ORR_OK;
}

orr_status orr_outcome_tables(const orr_outcome *outcome, orr_arena *arena,
                              orr_named_table ret[ORR_OUTCOME_TABLES], orr_error *err)
{
    static const struct {
        const char *name;
        orr_status (*make)(const orr_outcome *, orr_arena *, orr_table *, orr_error *);
    } tables[ORR_OUTCOME_TABLES] = {
        {"figures", summary_table}, {"phases", phase_table},  {"waterfall", waterfall_table},
        {"axes", axis_table},       {"memory", memory_table}, {"memory_options", relief_table},
        {"tables", tables_table},   {"basis", basis_table},
    };
    for (int i = 0; i < ORR_OUTCOME_TABLES; i++) {
        ret[i].name = tables[i].name;
        ORR_TRY(tables[i].make(outcome, arena, &ret[i].table, err));
    }
    return ORR_OK;
}

typedef struct change_row {
    const char *figure;
    double a, b, change_frac;
} change_row;

static const orr_column change_columns[] = {
    ORR_COL_(change_row, figure, TEXT),
    ORR_COL_(change_row, a, NUMBER),
    ORR_COL_(change_row, b, NUMBER),
    ORR_COL_(change_row, change_frac, FRAC),
};

typedef struct moved_row {
    const char *part;
    int64_t a_ns, b_ns, moved_ns;
    double of_step_frac;
} moved_row;

static const orr_column moved_columns[] = {
    ORR_COL_(moved_row, part, TEXT),
    ORR_COL_(moved_row, a_ns, NS),
    ORR_COL_(moved_row, b_ns, NS),
    ORR_COL_AS_(moved_row, moved_ns, NS, "change_ns"),
    ORR_COL_AS_(moved_row, of_step_frac, FRAC, "step_frac"),
};

static orr_status change_table(const orr_outcome *a, const orr_outcome *b, orr_arena *arena,
                               orr_table *ret, orr_error *err)
{
    figure of_a[FIGURES_MAX], of_b[FIGURES_MAX];
    const uint32_t n_a = list_figures(a, of_a), n_b = list_figures(b, of_b);
    change_row *rows = orr_arena_array(arena, change_row, n_a);
    uint32_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n_a; i++)
        for (uint32_t k = 0; k < n_b; k++)
            if (strcmp(of_a[i].name, of_b[k].name) == 0)
                rows[n++] = (change_row){
                    *of_a[i].unit ? orr_arena_printf(arena, "%s (%s)", of_a[i].name, of_a[i].unit)
                                  : of_a[i].name,
                    of_a[i].value, of_b[k].value,
                    of_a[i].value != 0 ? (of_b[k].value - of_a[i].value) / of_a[i].value : 0};
    *ret = ORR_TABLE_("orrery.compared_figures/1", "figures", change_columns, rows, n);
    return ORR_OK;
}

static orr_status moved_table(const orr_outcome *a, const orr_outcome *b, orr_arena *arena,
                              orr_table *ret, orr_error *err)
{
    moved_row *rows = orr_arena_array(arena, moved_row, ORR_WATERFALLS);
    uint32_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (int i = 0; i < ORR_WATERFALLS; i++) {
        const int64_t in_a = a->waterfall_ns[i], in_b = b->waterfall_ns[i];
        if (in_a != 0 || in_b != 0)
            rows[n++] =
                (moved_row){orr_waterfall_name((orr_waterfall)i), in_a, in_b, in_b - in_a,
                            a->step_ns > 0 ? (double)(in_b - in_a) / (double)a->step_ns : 0};
    }
    *ret = ORR_TABLE_("orrery.moved/1", "what moved", moved_columns, rows, n);
    return ORR_OK;
}

orr_status orr_comparison_tables(const orr_outcome *a, const orr_outcome *b, orr_arena *arena,
                                 orr_named_table ret[ORR_COMPARISON_TABLES], orr_error *err)
{
    ret[0].name = "figures";
    ret[1].name = "waterfall_change";
    ORR_TRY(change_table(a, b, arena, &ret[0].table, err));
    return moved_table(a, b, arena, &ret[1].table, err);
}
