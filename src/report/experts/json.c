/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "io/json/writer.h"
#include "report/experts/parts.h"
#include "report/page/assets.h"
#include "report/table/table.h"

static void put_question(orr_json_writer *w, const orr_experts_report *r)
{
    const orr_expert_options *o = r->options;
    const orr_expert_costs *c = o->costs;
    orr_json_write_key(w, "question");
    orr_json_write_object(w);
    orr_json_member_text(w, "cluster", r->cluster->name);
    orr_json_member_text(w, "model", r->model != NULL ? r->model->name : NULL);
    orr_json_member_uint(w, "ranks", o->ranks);
    orr_json_member_uint(w, "host_ranks", o->host_ranks);
    orr_json_member_uint(w, "spare_slots", r->spare);
    orr_json_member_uint(w, "request_groups", o->group_of_request != NULL ? o->request_groups : 0);
    orr_json_member_uint(w, "expert_groups", o->expert_groups);
    orr_json_member_double(w, "horizon_steps", o->horizon_steps);
    if (r->remote_first)
        orr_json_member_text(w, "objective", "remote");
    orr_json_member_uint(w, "held_out_requests", r->held_out.requests);
    orr_json_member_uint(w, "most_choices", o->most_choices);
    orr_json_member_text(w, "costs", c != NULL ? c->source : NULL);
    orr_json_member_double(w, "tokens", c != NULL ? c->tokens : NAN);
    orr_json_member_double(w, "host_bytes_per_s", c != NULL ? c->host_bytes_per_s : NAN);
    orr_json_member_double(w, "network_bytes_per_s", c != NULL ? c->network_bytes_per_s : NAN);
    orr_json_member_double(w, "row_ns", c != NULL ? c->row_ns : NAN);
    orr_json_member_double(w, "expert_bytes", c != NULL ? c->expert_bytes : NAN);
    orr_json_write_object_end(w);
}

static void put_missing(orr_json_writer *w, const orr_expert_result *result)
{
    orr_json_write_key(w, "missing");
    orr_json_write_array(w);
    for (uint32_t i = 0; i < result->n_missing; i++) {
        orr_json_write_object(w);
        orr_json_member_uint(w, "layer", result->placement.number[result->missing[i][0]]);
        orr_json_member_uint(w, "expert", result->missing[i][1]);
        orr_json_write_object_end(w);
    }
    orr_json_write_array_end(w);
}

static void put_moves(orr_json_writer *w, const orr_expert_moves *m)
{
    orr_json_write_key(w, "moved");
    orr_json_write_object(w);
    orr_json_member_uint(w, "moves", m->n);
    orr_json_member_uint(w, "steps", m->steps);
    orr_json_member_double(w, "bytes", m->bytes);
    orr_json_member_double(w, "network_bytes", m->network_bytes);
    orr_json_member_double(w, "fresh_bytes", m->fresh_bytes);
    orr_json_write_object_end(w);
}

void orr_experts_json(const orr_experts_report *report, const orr_named_table *tables, uint32_t n,
                      orr_output *out)
{
    orr_json_writer w;
    orr_json_write_init(&w, out);
    orr_json_write_object(&w);
    orr_json_member_text(&w, "schema", "orrery.experts/1");
    orr_json_member_text(&w, "version", orr_assets_version);
    orr_json_member_text(&w, "source",
                         report->routes != NULL ? report->routes->source : report->windows->source);
    orr_json_member_uint(&w, "ranks", report->ranks);
    if (report->n_plans > 0) {
        put_question(&w, report);
        if (report->plans[0].refused == NULL)
            put_missing(&w, &report->plans[0].result);
    }
    if (report->moves != NULL)
        put_moves(&w, report->moves);
    orr_json_write_key(&w, "tables");
    orr_output_text(out, "{");
    orr_named_tables_write_json(tables, n, out);
    orr_output_text(out, "}}\n");
}
