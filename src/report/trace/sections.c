/* SPDX-License-Identifier: Apache-2.0 */
#include "report/trace/sections.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/page/page.h"
#include "report/table/cell.h"

enum { TABLES_MAX = 8, ROWS_SHOWN = 400 };

/* Tables are named after their analysis; "gpu_kernels:sum_ns" is sorted by that column. */
static const struct plan {
    const char *id, *title;
    const char *tables[TABLES_MAX];
} plans[] = {
    {"path", "Critical path", {"critical_path", "critical_path_across_ranks"}},
    {"kernels", "Kernels", {"gpu_kernels:sum_ns", "gpu_kernel_breakdown", "kernel_durations"}},
    {"operators",
     "Operators and launches",
     {"aten_op_kernels_and_delay:kernel_ns", "launch_summary",
      "frequent_cuda_kernel_sequences:kernel_ns", "user_annotations:sum_ns", "operator_tree"}},
    {"communication",
     "Communication",
     {"collective_summary", "exposed_communication", "comm_comp_overlap", "potential_stragglers"}},
    {"idle",
     "Idle time",
     {"phase_bounds", "idle_time_breakdown:idle_ns", "queue_length_summary", "queue_blocked"}},
    {"memory", "Memory", {"memory_summary", "memory_bw_summary"}},
    {"steps", "Steps and ranks", {"profiler_steps", "temporal_breakdown"}},
};
enum { SECTIONS = sizeof plans / sizeof plans[0] };

typedef struct entry {
    const orr_analysis *analysis;
    orr_table table;
    const uint32_t *order; /* of rows, or NULL  */
    const char *failure;   /* or NULL           */
} entry;

typedef struct section {
    entry entries[TABLES_MAX];
    size_t n;
} section;

struct orr_trace_sections {
    section sections[SECTIONS];
};

typedef struct ranked {
    double value;
    uint32_t row;
} ranked;

static int largest_first(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static orr_status sort_entry(entry *e, const char *column_name, orr_arena *arena, orr_error *err)
{
    const orr_table *table = &e->table;
    ranked *rows = orr_arena_array(arena, ranked, table->n_rows);
    uint32_t *order = orr_arena_array(arena, uint32_t, table->n_rows);
    if (!rows || !order)
        return orr_fail_memory(err);
    for (size_t c = 0; c < table->n_columns; c++)
        for (uint32_t r = 0; r < table->n_rows && strcmp(table->columns[c].name, column_name) == 0;
             r++)
            rows[r] = (ranked){orr_cell_number(orr_table_cell(table, r, &table->columns[c])), r};
    if (table->n_rows > 0)
        qsort(rows, table->n_rows, sizeof *rows, largest_first);
    for (uint32_t r = 0; r < table->n_rows; r++)
        order[r] = rows[r].row;
    e->order = order;
    return ORR_OK;
}

static orr_status run_entry(const orr_job *job, const orr_analysis_options *options,
                            orr_arena *arena, const char *plan, section *s, orr_error *err)
{
    orr_error why = {0};
    entry *e = &s->entries[s->n];
    const char *column = strchr(plan, ':');
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(plan, ":"), plan);
    e->analysis = orr_analysis_find(name);
    if (!e->analysis)
        return orr_fail(err, ORR_NOT_FOUND, "no analysis is called %s", name);
    const orr_status status = e->analysis->run(job, options, arena, &e->table, &why);
    if (status == ORR_NO_MEMORY)
        return orr_fail_memory(err);
    if (status != ORR_OK) {
        e->failure = orr_arena_strndup(arena, why.text, strlen(why.text));
        if (!e->failure)
            return orr_fail_memory(err);
    }
    if (!e->failure && column)
        ORR_TRY(sort_entry(e, column + 1, arena, err));
    if (e->failure || e->table.n_rows > 0)
        s->n++;
    else
        *e = (entry){0};
    return ORR_OK;
}

orr_status orr_trace_sections_run(const orr_job *job, const orr_analysis_options *options,
                                  orr_arena *arena, const orr_trace_sections **ret, orr_error *err)
{
    orr_trace_sections *all = orr_arena_one(arena, orr_trace_sections);
    if (!all)
        return orr_fail_memory(err);
    for (size_t i = 0; i < SECTIONS; i++)
        for (size_t t = 0; t < TABLES_MAX && plans[i].tables[t]; t++)
            ORR_TRY(run_entry(job, options, arena, plans[i].tables[t], &all->sections[i], err));
    *ret = all;
    return ORR_OK;
}

static void put_entry(orr_output *out, const entry *e)
{
    if (e->failure != NULL) {
        orr_output_printf(out, "<p class=\"note\">%s: ", e->analysis->name);
        orr_html_text(out, e->failure);
        orr_output_text(out, "</p>\n");
        return;
    }
    orr_html_table(out, &e->table,
                   &(orr_html_table_options){.id = e->analysis->name,
                                             .about = e->analysis->about,
                                             .analysis = e->analysis->name,
                                             .order = e->order,
                                             .max_rows = ROWS_SHOWN});
}

void orr_trace_sections_write(const orr_trace_sections *all, orr_output *out)
{
    for (size_t i = 0; i < SECTIONS; i++) {
        const section *s = &all->sections[i];
        if (s->n == 0)
            continue;
        orr_html_section_open(out, plans[i].id, plans[i].title);
        orr_output_text(out, "<div class=\"cards\">\n");
        for (size_t t = 0; t < s->n; t++)
            put_entry(out, &s->entries[t]);
        orr_output_text(out, "</div>");
        orr_html_section_close(out);
    }
}

void orr_trace_sections_write_nav(const orr_trace_sections *all, orr_output *out)
{
    for (size_t i = 0; i < SECTIONS; i++)
        if (all->sections[i].n > 0)
            orr_html_link(out, plans[i].id, plans[i].title);
}
