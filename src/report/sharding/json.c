/* SPDX-License-Identifier: Apache-2.0 */
#include "io/json/writer.h"
#include "report/page/assets.h"
#include "report/sharding/parts.h"
#include "report/table/table.h"

static void put_question(orr_json_writer *w, const orr_sharding_report *r)
{
    const orr_table_planner_options *o = r->options;
    orr_json_write_key(w, "question");
    orr_json_write_object(w);
    orr_json_member_text(w, "model", r->model->name);
    orr_json_member_text(w, "cluster", r->cluster != NULL ? r->cluster->name : NULL);
    orr_json_member_uint(w, "ranks", o->ranks);
    orr_json_member_uint(w, "host_ranks", o->host_ranks);
    orr_json_member_uint(w, "groups", r->groups > 0 ? r->groups : 1);
    orr_json_member_uint(w, "tables", o->n_tables);
    orr_json_member_uint(w, "batch", (uint64_t)orr_sharding_batch(r));
    orr_json_member_uint(w, "memory_bytes", (uint64_t)o->memory_bytes);
    orr_json_member_text(w, "forward", orr_embedding_codec_name((orr_embedding_codec)o->forward));
    orr_json_member_text(w, "backward", orr_embedding_codec_name((orr_embedding_codec)o->backward));
    orr_json_member_uint(w, "pipeline", o->pipeline);
    orr_json_member_text(w, "cost", orr_table_pricing_name((orr_table_pricing)o->pricing));
    orr_json_member_text(w, "rates", o->costs.source);
    orr_json_write_object_end(w);
}

static void put_answer(orr_json_writer *w, const orr_sharding_report *r)
{
    const orr_table_planning *p = r->best;
    orr_json_member_text(w, "status", orr_sharding_status(r));
    orr_json_member_bool(w, "interrupted", r->interrupted);
    orr_json_member_text(w, "infeasible", p->infeasible);
    if (p->infeasible != NULL) {
        orr_json_member_uint(w, "infeasible_bytes", (uint64_t)p->infeasible_bytes);
    } else {
        orr_json_member_double(w, "ns", p->ns);
        orr_json_member_double(w, "shared_ns", p->shared_ns);
        orr_json_member_double(w, "synchronous_ns", p->synchronous_ns);
        orr_json_member_double(w, "bound_ns", p->bound_ns);
        orr_json_member_text(w, "bound_by", p->bound_by);
        orr_json_member_double(w, "gap_frac", p->gap_frac);
        orr_json_member_double(w, "memory_ns_per_gib", p->memory_ns_per_gib);
    }
    orr_json_member_uint(w, "nodes", p->nodes);
    orr_json_member_uint(w, "moves", p->moves);
    orr_json_member_uint(w, "wall_ns", (uint64_t)p->wall_ns);
}

void orr_sharding_json(const orr_sharding_report *report,
                       const orr_named_table tables[ORR_SHARDING_TABLES], orr_output *out)
{
    orr_json_writer w;
    orr_json_write_init(&w, out);
    orr_json_write_object(&w);
    orr_json_member_text(&w, "schema", "orrery.tables/1");
    orr_json_member_text(&w, "version", orr_assets_version);
    put_question(&w, report);
    put_answer(&w, report);
    orr_json_write_key(&w, "tables");
    orr_output_text(out, "{");
    orr_named_tables_write_json(tables, ORR_SHARDING_TABLES, out);
    orr_output_text(out, "}}\n");
}
