/* SPDX-License-Identifier: Apache-2.0 */
#include "io/json_write.h"
#include "report/assets.h"
#include "report/explore_tell.h"
#include "report/explore_words.h"
#include "report/table.h"

static void put_text(orr_json_writer *w, const char *key, const char *text)
{
    orr_json_write_key(w, key);
    if (text != NULL)
        orr_json_write_cstr(w, text);
    else
        orr_json_write_null(w);
}

static void put_number(orr_json_writer *w, const char *key, double number)
{
    orr_json_write_key(w, key);
    orr_json_write_double(w, number);
}

static void put_count(orr_json_writer *w, const char *key, uint64_t count)
{
    orr_json_write_key(w, key);
    orr_json_write_uint(w, count);
}

static void put_bool(orr_json_writer *w, const char *key, bool truth)
{
    orr_json_write_key(w, key);
    orr_json_write_bool(w, truth);
}

static void put_question(orr_json_writer *w, const orr_explore_report *r)
{
    const orr_explore_options *o = r->options;
    orr_json_write_key(w, "question");
    orr_json_write_object(w);
    put_text(w, "model", r->model->name);
    put_text(w, "cluster", r->cluster->name);
    put_text(w, "task", orr_task_name((orr_task)o->workload.task));
    put_text(w, "objective", orr_objective_name((orr_objective)o->objective));
    put_text(w, "unit", orr_objective_unit((orr_objective)o->objective));
    put_text(w, "second",
             o->second < ORR_OBJECTIVES ? orr_objective_name((orr_objective)o->second) : NULL);
    put_text(w, "fix", o->fix);
    put_text(w, "limit", o->limit);
    put_text(w, "exclude", o->exclude);
    put_text(w, "allow", o->allow);
    put_text(w, "dimensions", o->dimensions);
    put_count(w, "max_sites", o->max_sites);
    put_count(w, "max_devices", o->max_devices);
    put_count(w, "min_devices", o->min_devices);
    put_number(w, "tokens", o->tokens);
    put_bool(w, "failures", o->fleet != NULL);
    put_bool(w, "exact", o->exact);
    put_number(w, "gap_frac", o->gap_frac);
    orr_json_write_object_end(w);
}

static orr_status put_sites(orr_json_writer *w, const orr_explore_report *r, orr_arena *arena,
                            orr_error *err)
{
    uint32_t n = 0;
    const orr_explore_site *sites = NULL;
    if (r->n_outcomes > 0) {
        sites = orr_explore_sites(r->cluster, &r->outcomes[0], arena, &n);
        if (sites == NULL)
            return orr_fail_memory(err);
    }
    orr_json_write_key(w, "sites");
    orr_json_write_array(w);
    for (uint32_t i = 0; i < n; i++) {
        const orr_explore_site *s = &sites[i];
        orr_json_write_newline(w);
        orr_json_write_object(w);
        put_text(w, "name", s->name);
        put_text(w, "region", s->region);
        put_text(w, "device", s->device);
        put_count(w, "devices", s->devices);
        put_count(w, "used", s->used);
        if (s->used > 0) {
            put_count(w, "first_stage", s->first_stage);
            put_count(w, "last_stage", s->last_stage);
        }
        put_count(w, "stages", s->stages);
        put_count(w, "replicas", s->replicas);
        orr_json_write_object_end(w);
    }
    orr_json_write_array_end(w);
    return ORR_OK;
}

static orr_status put_answer(orr_json_writer *w, const orr_explore_report *r, orr_arena *arena,
                             orr_error *err)
{
    const orr_exploration *x = r->exploration;
    const orr_explored *best = x->n > 0 ? &x->best[0] : NULL;
    const char *plan = best != NULL ? orr_plan_brief(&best->plan, arena) : NULL;
    if (best != NULL && plan == NULL)
        return orr_fail_memory(err);
    put_text(w, "status", orr_explore_status(r));
    put_bool(w, "complete", x->complete && !r->interrupted);
    put_bool(w, "interrupted", r->interrupted);
    put_text(w, "infeasible", x->n == 0 && x->complete ? x->infeasible : NULL);
    put_text(w, "plan", plan);
    if (best != NULL) {
        put_number(w, "value", best->value[r->options->objective]);
        put_number(w, "bound", x->bound);
        put_number(w, "gap_frac", x->gap_frac);
        put_count(w, "step_ns", (uint64_t)best->step_ns);
        put_count(w, "devices", best->n_devices);
    }
    put_number(w, "space", x->space);
    put_count(w, "wall_ns", (uint64_t)x->wall_ns);
    return put_sites(w, r, arena, err);
}

orr_status orr_explore_json(const orr_explore_report *report,
                            const orr_named_table tables[ORR_EXPLORE_TABLES], orr_arena *arena,
                            orr_output *out, orr_error *err)
{
    const orr_table_style style = {.format = ORR_TABLE_JSON};
    orr_json_writer w;
    orr_json_write_init(&w, out);
    orr_json_write_object(&w);
    put_text(&w, "schema", "orrery.explore/1");
    put_text(&w, "version", orr_assets_version);
    put_question(&w, report);
    ORR_TRY(put_answer(&w, report, arena, err));
    orr_json_write_key(&w, "tables");
    orr_output_text(out, "{");
    for (int i = 0; i < ORR_EXPLORE_TABLES; i++) {
        orr_output_printf(out, "%s\n\"%s\":", i > 0 ? "," : "", tables[i].name);
        orr_table_write(&tables[i].table, &style, out);
    }
    orr_output_text(out, "}}\n");
    return ORR_OK;
}
