/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/fit/table.h"

#include <math.h>
#include <string.h>

/* Fits the table. Only the kind of interpolation is chosen: for each family, on the validation
 * set with the train set in the table. Then both go in. The test set stays out, except in a
 * family with too few shapes for more than answering what was measured. */

typedef uint8_t sides; /* a set of 1 << orr_fit_subset */
enum {
    TRAIN = 1 << ORR_SUBSET_TRAIN,
    FITTED = TRAIN | 1 << ORR_SUBSET_VALIDATION,
    ALL = FITTED | 1 << ORR_SUBSET_TEST
};

static bool is_on(const orr_fit_cell *cell, const sides *wanted)
{
    return (wanted[cell->series.family] >> cell->side & 1) != 0;
}

static const char *keep(orr_arena *arena, const char *text)
{
    return orr_arena_strndup(arena, text, strlen(text));
}

/* Series of the cells on the wanted sides of each family. */
static orr_status build(const orr_fit_data *data, const sides *wanted, orr_arena *arena,
                        orr_cost_table *table, orr_error *err)
{
    orr_table_series *series = orr_arena_array(arena, orr_table_series, data->n);
    orr_table_point *points = orr_arena_array(arena, orr_table_point, data->n);
    uint32_t n = 0;
    size_t n_points = 0;

    if (series == NULL || points == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < data->n; i++) {
        const orr_fit_cell *cell = &data->cells[i];
        if (!is_on(cell, wanted))
            continue;
        if (n == 0 || orr_table_compare_series(&series[n - 1], &cell->series) != 0) {
            series[n] = cell->series;
            series[n].label = keep(arena, cell->series.label);
            series[n].device = keep(arena, cell->series.device);
            if (series[n].label == NULL || series[n].device == NULL)
                return orr_fail_memory(err);
            series[n++].points = &points[n_points];
        }
        points[n_points++] = cell->point;
        series[n - 1].n++;
    }
    for (uint32_t i = 0; i < n; i++)
        ORR_TRY(orr_table_index(&series[i], arena, err));
    table->series = series;
    table->n = n;
    return ORR_OK;
}

typedef struct choice {
    uint32_t neighbours;
    bool trend;
} choice;
static const choice CHOICES[] = {{4, true},  {2, true},  {8, true},  {1, true},
                                 {4, false}, {2, false}, {8, false}, {1, false}};

static orr_fit_comparison_result validate(const orr_cost_table *table, const orr_fit_data *data,
                                          int family, orr_fit_comparison *duel)
{
    orr_fit_comparison_reset(duel);
    for (size_t i = data->first[family]; i < data->first[family + 1]; i++) {
        const orr_fit_cell *cell = &data->cells[i];
        orr_price price;
        if (cell->side == ORR_SUBSET_VALIDATION && !isnan(cell->roofline_ns) &&
            orr_table_price(table, cell->sample->device, &cell->sample->work, &price))
            orr_fit_comparison_add(duel, cell, (double)price.ns);
    }
    return orr_fit_comparison_end(duel);
}

/* False: no interpolation is clearly better than the roofline, or too few shapes lie between
 * others. */
static bool choose(orr_cost_table *table, const orr_fit_data *data, int family,
                   orr_fit_comparison *duel, choice *ret)
{
    const uint32_t least = orr_fit_table_minimum.groups[ORR_SUBSET_VALIDATION];
    double best = INFINITY;

    for (size_t i = 0; i < sizeof CHOICES / sizeof *CHOICES; i++) {
        table->families[family] = (orr_table_family){
            .present = true, .trend = CHOICES[i].trend, .neighbours = CHOICES[i].neighbours};
        const orr_fit_comparison_result verdict = validate(table, data, family, duel);
        if (verdict.groups >= least && verdict.ahead && verdict.distance < best) {
            best = verdict.distance;
            *ret = CHOICES[i];
        }
    }
    return best < INFINITY;
}

/* Scatter of repeated measurements. The median of n measurements is closer to them than to the
 * next one; n / (n - 1) corrects for that, as for a variance. */
static double repeat_frac(const orr_fit_data *data, int family, const sides *wanted)
{
    double sum = 0;
    uint64_t rows = 0;

    for (size_t i = data->first[family]; i < data->first[family + 1]; i++) {
        const orr_fit_cell *cell = &data->cells[i];
        const uint64_t n = cell->point.count;
        if (n < 2 || !is_on(cell, wanted))
            continue;
        for (uint64_t row = 0; row < n; row++)
            sum += fabs(cell->point.ns / cell->ns[row] - 1) * (double)n / (double)(n - 1);
        rows += n;
    }
    return rows > 0 ? sum / (double)rows : NAN;
}

static const char *remark_on(const choice *chosen, orr_arena *arena)
{
    const char *what = chosen->trend ? "roofline efficiency" : "ns";
    return chosen->neighbours == 1
               ? orr_arena_printf(arena, "%s of the nearest shape", what)
               : orr_arena_printf(arena, "%s of the %u nearest shapes", what, chosen->neighbours);
}

/* Decides the family's entry in the table, and which sides go in. */
static orr_status fit_family(const orr_fit_data *data, int family, orr_arena *arena,
                             sides *ret_sides, orr_table_family *ret, const char **remark,
                             orr_error *err)
{
    const orr_fit_split *split = &data->splits[family];
    orr_table_family entry = {.present = true, .error_frac = NAN, .repeat_frac = NAN};
    sides wanted[ORR_FAMILIES] = {0};
    orr_cost_table table = {0};
    orr_fit_comparison duel;
    choice chosen;

    if (!orr_fit_enough(split, &orr_fit_table_minimum)) {
        const char *few = orr_fit_too_few(split, &orr_fit_table_minimum, arena);
        *ret_sides = ALL;
        *remark =
            few ? orr_arena_printf(arena, "measured shapes only: %s to interpolate", few) : NULL;
    } else {
        const orr_arena_mark mark = orr_arena_get_mark(arena);
        *ret_sides = FITTED;
        wanted[family] = TRAIN;
        ORR_TRY(build(data, wanted, arena, &table, err));
        ORR_TRY(orr_fit_comparison_new(data->groups[family], arena, &duel, err));
        const bool is = choose(&table, data, family, &duel, &chosen);
        orr_arena_rewind(arena, mark);
        if (is) {
            entry.neighbours = chosen.neighbours;
            entry.trend = chosen.trend;
        }
        *remark = is ? remark_on(&chosen, arena)
                     : "measured shapes only: in between not clearly better than roofline";
    }
    wanted[family] = *ret_sides;
    entry.repeat_frac = repeat_frac(data, family, wanted);
    *ret = entry;
    return *remark != NULL ? ORR_OK : orr_fail_memory(err);
}

orr_status orr_fit_table(const orr_fit_data *data, orr_arena *arena, orr_cost_table **ret,
                         const char *remarks[ORR_FAMILIES], orr_error *err)
{
    orr_cost_table *table = orr_arena_one(arena, orr_cost_table);
    sides wanted[ORR_FAMILIES] = {0};

    if (table == NULL)
        return orr_fail_memory(err);
    for (int family = 0; family < ORR_FAMILIES; family++) {
        remarks[family] = NULL;
        if (data->first[family + 1] > data->first[family])
            ORR_TRY(fit_family(data, family, arena, &wanted[family], &table->families[family],
                               &remarks[family], err));
    }
    ORR_TRY(build(data, wanted, arena, table, err));
    *ret = table->n > 0 ? table : NULL;
    return ORR_OK;
}
