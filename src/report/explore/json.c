/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "io/json/writer.h"
#include "report/page/assets.h"
#include "report/explore/summary.h"
#include "report/explore/describe.h"
#include "report/table/table.h"

static void put_question(orr_json_writer *w, const orr_explore_report *r)
{
    const orr_explore_options *o = r->options;
    orr_json_write_key(w, "question");
    orr_json_write_object(w);
    orr_json_member_text(w, "model", r->model->name);
    orr_json_member_text(w, "cluster", r->cluster->name);
    orr_json_member_text(w, "task", orr_task_name((orr_task)o->workload.task));
    orr_json_member_text(w, "objective", orr_objective_name((orr_objective)o->objective));
    orr_json_member_text(w, "unit", orr_objective_unit((orr_objective)o->objective));
    orr_json_member_text(w, "second",
                         o->second < ORR_OBJECTIVES ? orr_objective_name((orr_objective)o->second)
                                                    : NULL);
    orr_json_member_text(w, "fix", o->fix);
    orr_json_member_text(w, "limit", o->limit);
    orr_json_member_text(w, "exclude", o->exclude);
    orr_json_member_text(w, "allow", o->allow);
    orr_json_member_text(w, "dimensions", o->dimensions);
    orr_json_member_uint(w, "max_sites", o->max_sites);
    orr_json_member_uint(w, "max_devices", o->max_devices);
    orr_json_member_uint(w, "min_devices", o->min_devices);
    orr_json_member_double(w, "tokens", o->tokens);
    orr_json_member_bool(w, "failures", o->fleet != NULL);
    orr_json_member_bool(w, "exact", o->exact);
    orr_json_member_double(w, "gap_frac", o->gap_frac);
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
        orr_json_member_text(w, "name", s->name);
        orr_json_member_text(w, "region", s->region);
        orr_json_member_text(w, "device", s->device);
        orr_json_member_uint(w, "devices", s->devices);
        orr_json_member_uint(w, "used", s->used);
        if (s->used > 0) {
            orr_json_member_uint(w, "first_stage", s->first_stage);
            orr_json_member_uint(w, "last_stage", s->last_stage);
        }
        orr_json_member_uint(w, "stages", s->stages);
        orr_json_member_uint(w, "replicas", s->replicas);
        orr_json_write_object_end(w);
    }
    orr_json_write_array_end(w);
    return ORR_OK;
}

/* What the answer means; the tables "decision" and "published" have the plans. */
static void put_meaning(orr_json_writer *w, const orr_explore_report *r, orr_arena *arena)
{
    const orr_explore_answer *a = r->answer;
    const bool decided = a != NULL && a->decision.n > 0;
    const orr_explored *take = decided ? &a->plans[a->decision.recommended] : NULL;
    orr_json_member_uint(w, "set_plans", a != NULL ? a->decision.n_set : 0);
    orr_json_member_uint(w, "draws", a != NULL ? a->decision.draws : 0);
    orr_json_member_text(w, "recommended_plan",
                         take != NULL ? orr_plan_short_text(&take->plan, arena) : NULL);
    orr_json_member_bool(w, "above_records",
                         decided && a->plans[0].mfu_frac > a->record_mfu_frac[0]);
    orr_json_member_text(w, "record", a != NULL && a->record != NULL ? a->record->source : NULL);
    orr_json_member_double(
        w, "fp8_value",
        a != NULL && a->has_fp8 && a->fp8_fits ? a->fp8.value[r->options->objective] : NAN);
}

static orr_status put_answer(orr_json_writer *w, const orr_explore_report *r, orr_arena *arena,
                             orr_error *err)
{
    const orr_exploration *x = r->exploration;
    const orr_explored *best = x->n > 0 ? &x->best[0] : NULL;
    const char *plan = best != NULL ? orr_plan_short_text(&best->plan, arena) : NULL;
    if (best != NULL && plan == NULL)
        return orr_fail_memory(err);
    orr_json_member_text(w, "status", orr_explore_status(r));
    orr_json_member_bool(w, "complete", x->complete && !r->interrupted);
    orr_json_member_bool(w, "interrupted", r->interrupted);
    orr_json_member_text(w, "infeasible", x->n == 0 && x->complete ? x->infeasible : NULL);
    orr_json_member_text(w, "plan", plan);
    if (best != NULL) {
        orr_json_member_double(w, "value", best->value[r->options->objective]);
        orr_json_member_double(w, "bound", x->bound);
        orr_json_member_double(w, "gap_frac", x->gap_frac);
        orr_json_member_uint(w, "step_ns", (uint64_t)best->step_ns);
        orr_json_member_uint(w, "devices", best->n_devices);
    }
    put_meaning(w, r, arena);
    orr_json_member_double(w, "space", x->space);
    orr_json_member_uint(w, "wall_ns", (uint64_t)x->wall_ns);
    return put_sites(w, r, arena, err);
}

orr_status orr_explore_json(const orr_explore_report *report,
                            const orr_named_table tables[ORR_EXPLORE_TABLES], orr_arena *arena,
                            orr_output *out, orr_error *err)
{
    orr_json_writer w;
    orr_json_write_init(&w, out);
    orr_json_write_object(&w);
    orr_json_member_text(&w, "schema", "orrery.explore/1");
    orr_json_member_text(&w, "version", orr_assets_version);
    put_question(&w, report);
    ORR_TRY(put_answer(&w, report, arena, err));
    orr_json_write_key(&w, "tables");
    orr_output_text(out, "{");
    orr_named_tables_write_json(tables, ORR_EXPLORE_TABLES, out);
    orr_output_text(out, "}}\n");
    return ORR_OK;
}
