/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cli/models/hw.h"

/* The comparison: facts turned, entries become columns. A row is an array of texts: the fact, one
 * of each entry, the ratio. */
typedef struct comparison {
    const char **cells; /* shape (n_rows, width) */
    double *values;     /* shape (n_rows, n): NAN where there is none */
    size_t n_rows, n, width;
    orr_arena *arena;
} comparison;

static size_t row_of(comparison *c, const char *fact)
{
    for (size_t r = 0; r < c->n_rows; r++)
        if (strcmp(c->cells[r * c->width], fact) == 0)
            return r;
    const size_t r = c->n_rows++;
    c->cells[r * c->width] = fact;
    for (size_t e = 0; e < c->n; e++)
        c->values[r * c->n + e] = NAN;
    return r;
}

/* Published is what one expects; what else it rests on is said. */
static const char *cell_of(orr_arena *arena, const orr_hw_fact *fact)
{
    const bool plain = fact->basis == NULL || strcmp(fact->basis, "published") == 0 ||
                       strcmp(fact->basis, "unknown") == 0;
    return plain ? fact->text : orr_arena_printf(arena, "%s (%s)", fact->text, fact->basis);
}

static bool place(comparison *c, const orr_hw_fact *fact, size_t entry)
{
    const size_t r = row_of(c, fact->fact);
    const char **cell = &c->cells[r * c->width + 1 + entry];
    const char *text = cell_of(c->arena, fact);
    if (text != NULL && fact->conflict)
        text = orr_arena_printf(c->arena, "%s, or %s", *cell, text);
    else
        c->values[r * c->n + entry] = fact->value;
    *cell = text;
    return text != NULL;
}

static bool set_ratios(comparison *c)
{
    for (size_t r = 0; r < c->n_rows; r++) {
        const double ratio = c->values[2 * r + 1] / c->values[2 * r];
        if (!isfinite(ratio))
            continue;
        const char *text = orr_arena_printf(c->arena, "%.4g x", ratio);
        if (text == NULL)
            return false;
        c->cells[r * c->width + 3] = text;
    }
    return true;
}

static bool turn(comparison *c, const orr_hw_entry *entries, const orr_hw_fact *facts,
                 size_t n_facts)
{
    size_t entry = 0;
    for (size_t i = 0; i < n_facts; i++) {
        if (facts[i].text == NULL)
            continue; /* remarks are long: they stand below */
        while (facts[i].name != entries[entry].name)
            entry++;
        if (!place(c, &facts[i], entry))
            return false;
    }
    return c->n != 2 || set_ratios(c);
}

/* Where a fact stands among those of an entry: by field, then by dtype; -1: nowhere. */
static int place_of(const orr_hw_entry *entry, const char *fact)
{
    for (size_t f = 0; f < entry->n_fields; f++) {
        const orr_field *field = &entry->fields[f];
        const size_t len = strlen(field->key);
        if (strncmp(fact, field->key, len) != 0)
            continue;
        if (fact[len] == '\0')
            return (int)f * ORR_DTYPES;
        for (int t = 0; t < ORR_DTYPES && fact[len] == '_'; t++)
            if (strcmp(fact + len + 1, orr_dtype_name((orr_dtype)t)) == 0)
                return (int)f * ORR_DTYPES + t;
    }
    return -1;
}

/* Rows in the order of the fields, whichever entry said them first; few, so by insertion. */
static void sort_rows(comparison *c, const orr_hw_entry *entry, const char **spare)
{
    const size_t bytes = c->width * sizeof *spare;
    for (size_t i = 1; i < c->n_rows; i++) {
        const int order = place_of(entry, c->cells[i * c->width]);
        size_t j = i;
        while (j > 0 && place_of(entry, c->cells[(j - 1) * c->width]) > order)
            j--;
        memcpy(spare, &c->cells[i * c->width], bytes);
        memmove(&c->cells[(j + 1) * c->width], &c->cells[j * c->width], (i - j) * bytes);
        memcpy(&c->cells[j * c->width], spare, bytes);
    }
}

orr_status orr_hw_comparison(const orr_hw_entry *entries, size_t n, orr_arena *arena,
                             orr_table *ret, orr_error *err)
{
    orr_table facts;
    ORR_TRY(orr_hw_facts(entries, n, false, arena, &facts, err));
    comparison c = {.n = n, .width = n + 1 + (n == 2), .arena = arena};
    orr_column *columns = orr_arena_array(arena, orr_column, c.width);
    const char **spare = orr_arena_array(arena, const char *, c.width);
    c.cells = orr_arena_array(arena, const char *, facts.n_rows *c.width);
    c.values = orr_arena_array(arena, double, facts.n_rows *n);
    if (columns == NULL || spare == NULL || c.cells == NULL || c.values == NULL ||
        !turn(&c, entries, facts.rows, facts.n_rows))
        return orr_fail_memory(err);
    sort_rows(&c, &entries[0], spare);
    columns[0] = (orr_column){"fact", ORR_COLUMN_TEXT, 0};
    for (size_t e = 0; e < n; e++)
        columns[e + 1] = (orr_column){entries[e].name, ORR_COLUMN_TEXT, (e + 1) * sizeof *c.cells};
    if (n == 2)
        columns[3] = (orr_column){"second_to_first", ORR_COLUMN_TEXT, 3 * sizeof *c.cells};
    *ret = (orr_table){"orrery.hw_comparison/1",
                       "side by side; published unless said otherwise",
                       columns,
                       c.width,
                       c.cells,
                       c.width * sizeof *c.cells,
                       c.n_rows};
    return ORR_OK;
}
