/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/results/schema.h"

#include <string.h>

#include "io/stream/output.h"

/* Schema of the results database: columns as lists, and the SQL generated from them. */

static const orr_results_column FIGURES[] = {
    {"devices", "INTEGER"},        {"bound_ns", "INTEGER"},   {"estimate_ns", "INTEGER"},
    {"step_ns", "INTEGER"},        {"peak_bytes", "INTEGER"}, {"usable_bytes", "INTEGER"},
    {"tokens_per_s", "REAL"},      {"mfu_frac", "REAL"},      {"effective_frac", "REAL"},
    {"other_numerics", "INTEGER"},
};
static const orr_results_column OBJECTIVES[] = {
    {"objective_step_ns", "REAL"},  {"objective_budget_ns", "REAL"}, {"objective_cost_usd", "REAL"},
    {"objective_energy_j", "REAL"}, {"objective_devices", "REAL"},
};
static const orr_results_column COUNTS[] = {
    {"plans", "INTEGER"}, {"bounded", "INTEGER"}, {"estimated", "INTEGER"}, {"bound", "REAL"}};
static const orr_results_column PRUNED[] = {{"pruned_invalid", "REAL"},
                                            {"pruned_excluded", "REAL"},
                                            {"pruned_memory", "REAL"},
                                            {"pruned_bound", "REAL"},
                                            {"pruned_dominated", "REAL"}};
enum {
    N_FIGURES = sizeof FIGURES / sizeof *FIGURES,
    N_COUNTS = sizeof COUNTS / sizeof *COUNTS,
};
_Static_assert(sizeof OBJECTIVES / sizeof *OBJECTIVES == ORR_OBJECTIVES, "one an objective");
_Static_assert(sizeof PRUNED / sizeof *PRUNED == ORR_PRUNES, "one a reason");

static void add(orr_results_table *t, const orr_results_column *columns, size_t n)
{
    for (size_t i = 0; i < n; i++)
        t->columns[t->n++] = columns[i];
}

orr_results_table orr_results_plan_table(void)
{
    static const orr_results_column keys[] = {
        {"search", "INTEGER"}, {"plan", "TEXT"}, {"family", "TEXT"}};
    static const orr_results_column others[] = {
        {"order", "TEXT"}, {"sites", "TEXT"}, {"sections", "TEXT"}};
    orr_results_table t = {.name = "plan"};
    add(&t, keys, 3);
    add(&t, FIGURES, N_FIGURES);
    add(&t, OBJECTIVES, ORR_OBJECTIVES);
    t.fields = t.n;
    for (uint32_t i = 0; i < ORR_PLAN_NUMBERS; i++)
        t.columns[t.n++] = (orr_results_column){orr_plan_number_at(i)->name, "INTEGER"};
    for (uint32_t i = 0; i < ORR_PLAN_CHOICES; i++)
        t.columns[t.n++] = (orr_results_column){orr_plan_choice_at(i)->name, "TEXT"};
    add(&t, others, 3);
    return t;
}

orr_results_table orr_results_family_table(void)
{
    static const orr_results_column keys[] = {{"search", "INTEGER"}, {"family", "TEXT"}};
    orr_results_table t = {.name = "family"};
    add(&t, keys, 2);
    add(&t, COUNTS, N_COUNTS);
    add(&t, PRUNED, ORR_PRUNES);
    t.fields = t.n;
    return t;
}

orr_results_table orr_results_note_table(void)
{
    static const orr_results_column columns[] = {
        {"search", "INTEGER"}, {"name", "TEXT"}, {"value", "TEXT"}};
    orr_results_table t = {.name = "note"};
    add(&t, columns, 3);
    t.fields = t.n;
    return t;
}

/* --- SQL ------------------------------------------------------------------------------------- */

/* Text of the output, in the arena; NULL: out of memory. */
static const char *output_text(orr_output *out, orr_arena *arena)
{
    size_t n = 0;
    const bool whole = orr_output_finish(out, NULL) == ORR_OK;
    const char *text = whole ? orr_output_memory(out, &n) : NULL;
    const char *copy = text != NULL ? orr_arena_strndup(arena, text, n) : NULL;
    orr_output_close(out);
    return copy;
}

static bool begun(orr_output **ret)
{
    return orr_output_open_memory(ret, NULL) == ORR_OK;
}

/* "search","plan",... */
static void put_names(orr_output *out, const orr_results_table *t)
{
    for (size_t i = 0; i < t->n; i++)
        orr_output_printf(out, "%s\"%s\"", i > 0 ? "," : "", t->columns[i].name);
}

/* Writes CREATE TABLE. Generated columns (`derived`) follow the keys and the family. */
static void put_table(orr_output *out, const char *schema, const orr_results_table *t,
                      const char *derived)
{
    orr_output_printf(out, "CREATE TABLE %s.%s(", schema, t->name);
    for (size_t i = 0; i < t->n; i++)
        orr_output_printf(out, "%s\"%s\" %s%s,\n", i == 3 ? derived : "", t->columns[i].name,
                          t->columns[i].type, i < 2 ? " NOT NULL" : "");
    orr_output_printf(out, "PRIMARY KEY(\"%s\",\"%s\")) WITHOUT ROWID;\n", t->columns[0].name,
                      t->columns[1].name);
}

static void put_tables(orr_output *out, const char *schema, const char *of_plan)
{
    const orr_results_table plan = orr_results_plan_table(), family = orr_results_family_table(),
                            note = orr_results_note_table();
    put_table(out, schema, &plan, of_plan);
    put_table(out, schema, &family, "");
    put_table(out, schema, &note, "");
}

/* Generated columns for people: seconds and GiB, and views of the plans that one wants to see
 * first. */
static const char readable[] =
    "bound_s REAL AS (bound_ns / 1e9), estimate_s REAL AS (estimate_ns / 1e9),\n"
    "step_s REAL AS (step_ns / 1e9), peak_gib REAL AS (peak_bytes / 1073741824.0),\n"
    "usable_gib REAL AS (usable_bytes / 1073741824.0),\n"
    "fits INTEGER AS (peak_bytes <= usable_bytes),\n";
static const char searches[] =
    "CREATE TABLE search(search INTEGER PRIMARY KEY, question TEXT NOT NULL,\n"
    "started TEXT NOT NULL DEFAULT (datetime('now')));\n";
static const char views[] =
    "CREATE VIEW best AS SELECT search, row_number() OVER (PARTITION BY search\n"
    "  ORDER BY value, plan) AS place, value, step_s, bound_s, estimate_s, peak_gib, tokens_per_s,\n"
    "  mfu_frac, objective_cost_usd AS cost_usd, devices, plan\n"
    "FROM (SELECT *, CASE (SELECT value FROM note WHERE note.search = plan.search AND name = 'objective')\n"
    "  WHEN 'budget' THEN objective_budget_ns WHEN 'cost' THEN objective_cost_usd\n"
    "  WHEN 'energy' THEN objective_energy_j WHEN 'devices' THEN objective_devices\n"
    "  ELSE objective_step_ns END AS value FROM plan WHERE step_ns IS NOT NULL AND fits)\n"
    "ORDER BY search DESC, place;\n"
    "CREATE VIEW tp_pp AS SELECT search, tp, pp, plans, simulated, fitting,\n"
    "  CASE WHEN fits THEN step_s END AS step_s, CASE WHEN fits THEN bound_s END AS bound_s,\n"
    "  CASE WHEN fits THEN estimate_s END AS estimate_s, peak_gib, plan\n"
    "FROM (SELECT *, count(*) OVER everyone AS plans, count(step_ns) OVER everyone AS simulated,\n"
    "  sum(fits) OVER everyone AS fitting, row_number() OVER (PARTITION BY search, tp, pp\n"
    "    ORDER BY fits DESC, step_ns IS NULL, coalesce(step_ns, estimate_ns), plan) AS place\n"
    "  FROM plan WINDOW everyone AS (PARTITION BY search, tp, pp))\n"
    "WHERE place = 1 ORDER BY search DESC, tp, pp;\n"
    "CREATE VIEW progress AS SELECT search, started,\n"
    "  (SELECT count(*) FROM family WHERE family.search = search.search) AS families,\n"
    "  (SELECT count(*) FROM plan WHERE plan.search = search.search) AS plans,\n"
    "  (SELECT count(step_ns) FROM plan WHERE plan.search = search.search) AS simulated,\n"
    "  (SELECT min(step_s) FROM plan WHERE plan.search = search.search AND fits) AS best_step_s,\n"
    "  question FROM search ORDER BY search DESC;\n";

const char *orr_results_schema_sql(orr_arena *arena)
{
    orr_output *out = NULL;
    if (!begun(&out))
        return NULL;
    orr_output_text(out, searches);
    put_tables(out, "main", readable);
    orr_output_text(out, views);
    return output_text(out, arena);
}

const char *orr_results_pending_schema_sql(orr_arena *arena)
{
    orr_output *out = NULL;
    if (!begun(&out))
        return NULL;
    orr_output_text(out, "ATTACH ':memory:' AS pending;\n");
    put_tables(out, "pending", "");
    return output_text(out, arena);
}

static bool is_plan(const orr_results_table *t)
{
    return t->fields < t->n;
}

/* The ON CONFLICT clause. A family or a note is replaced. A plan is merged: it may become a
 * candidate of a family or get its simulation, and loses nothing when it is added again with less.
 * Its fields follow from its text. */
static void put_conflict(orr_output *out, const orr_results_table *t)
{
    orr_output_printf(out, " ON CONFLICT(\"%s\",\"%s\") DO UPDATE SET ", t->columns[0].name,
                      t->columns[1].name);
    for (size_t i = 2; i < t->fields; i++) {
        const char *name = t->columns[i].name;
        if (!is_plan(t))
            orr_output_printf(out, "%s\"%s\"=excluded.\"%s\"", i > 2 ? "," : "", name, name);
        else if (i == 2)
            orr_output_printf(out, "\"%s\"=coalesce(excluded.\"%s\",\"%s\")", name, name, name);
        else
            orr_output_printf(out,
                              ",\"%s\"=CASE WHEN excluded.step_ns IS NULL THEN \"%s\" "
                              "ELSE excluded.\"%s\" END",
                              name, name, name);
    }
}

const char *orr_results_insert_sql(const orr_results_table *t, orr_arena *arena)
{
    orr_output *out = NULL;
    if (!begun(&out))
        return NULL;
    orr_output_printf(out, "INSERT INTO pending.%s(", t->name);
    put_names(out, t);
    orr_output_text(out, ") VALUES(");
    for (size_t i = 0; i < t->n; i++)
        orr_output_text(out, i > 0 ? ",?" : "?");
    orr_output_text(out, ")");
    put_conflict(out, t);
    return output_text(out, arena);
}

const char *orr_results_move_sql(const orr_results_table *t, orr_arena *arena)
{
    orr_output *out = NULL;
    if (!begun(&out))
        return NULL;
    orr_output_printf(out, "INSERT INTO main.%s(", t->name);
    put_names(out, t);
    orr_output_text(out, ") SELECT ");
    put_names(out, t);
    orr_output_printf(out, " FROM pending.%s WHERE true", t->name);
    put_conflict(out, t);
    orr_output_printf(out, ";\nDELETE FROM pending.%s", t->name);
    return output_text(out, arena);
}

const char *orr_results_find_sql(const orr_results_table *t, orr_arena *arena)
{
    orr_output *out = NULL;
    if (!begun(&out))
        return NULL;
    for (int i = 0; i < 2; i++) {
        orr_output_text(out, i > 0 ? " UNION ALL SELECT " : "SELECT ");
        put_names(out, t);
        orr_output_printf(out, " FROM %s.%s WHERE \"%s\"=?1 AND \"%s\"=?2%s",
                          i > 0 ? "main" : "pending", t->name, t->columns[0].name,
                          t->columns[1].name, is_plan(t) ? " AND step_ns IS NOT NULL" : "");
    }
    return output_text(out, arena);
}

const char *orr_results_candidates_sql(const orr_results_table *t, orr_arena *arena)
{
    orr_output *out = NULL;
    if (!begun(&out))
        return NULL;
    orr_output_text(out, "SELECT ");
    put_names(out, t);
    orr_output_printf(out,
                      " FROM main.%s WHERE search=?1 AND (family='" ORR_RESULTS_ALTERNATIVE
                      "' OR family IN (SELECT family FROM main.family WHERE search=?1)) "
                      "ORDER BY plan",
                      t->name);
    return output_text(out, arena);
}

/* --- migration from earlier builds ----------------------------------------------------------- */

static void mark_column(const orr_results_table *t, const char *name, bool seen[])
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->columns[i].name, name) == 0)
            seen[i] = true;
}

static orr_status complete(orr_database *db, const orr_results_table *t, orr_arena *arena,
                           orr_error *err)
{
    bool seen[ORR_RESULTS_COLUMNS] = {false};
    orr_query *query = NULL;
    const char *sql = orr_arena_printf(arena, "PRAGMA main.table_xinfo(%s)", t->name);
    if (sql == NULL)
        return orr_fail_memory(err);
    orr_status status = orr_query_new(db, sql, &query, err);
    for (bool row = true; status == ORR_OK && row;) {
        const char *name = NULL;
        status = orr_query_step(query, &row, err);
        if (status == ORR_OK && row)
            status = orr_query_text(query, 1, arena, &name, err);
        if (name != NULL)
            mark_column(t, name, seen);
    }
    orr_query_free(query);
    for (size_t i = 0; status == ORR_OK && i < t->n; i++) {
        if (seen[i])
            continue;
        sql = orr_arena_printf(arena, "ALTER TABLE main.%s ADD COLUMN \"%s\" %s", t->name,
                               t->columns[i].name, t->columns[i].type);
        status = sql != NULL ? orr_database_exec(db, sql, err) : orr_fail_memory(err);
    }
    return status;
}

orr_status orr_results_add_missing_columns(orr_database *db, orr_arena *arena, orr_error *err)
{
    const orr_results_table plan = orr_results_plan_table(), family = orr_results_family_table();
    ORR_TRY(orr_database_begin(db, err));
    orr_status status = complete(db, &plan, arena, err);
    if (status == ORR_OK)
        status = complete(db, &family, arena, err);
    if (status == ORR_OK)
        return orr_database_commit(db, err);
    orr_database_roll_back(db);
    return status;
}
