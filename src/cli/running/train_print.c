/* SPDX-License-Identifier: Apache-2.0 */
/* What a run of training prints: before it, at every step, and afterwards. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/arguments/sharding.h"
#include "cli/running/child_report.h"
#include "cli/running/train.h"
#include "io/json/writer.h"
#include "model/tables/tables.h"
#include "report/analyses/registry.h"

static bool for_people(const orr_training *t)
{
    return t->style.format == ORR_TABLE_TEXT;
}

/* "tiers     23 dram, 3 block; rows of 4 batches ahead" */
static void put_tiers_of_plan(const orr_training *t)
{
    const orr_embedding_plan *plan = t->options.tables;
    uint32_t n[ORR_TIERS] = {0};
    for (uint32_t i = 0; plan != NULL && i < plan->n_tables; i++)
        n[plan->placements[i].tier]++;
    if (n[ORR_TIER_BYTE] == 0 && n[ORR_TIER_BLOCK] == 0)
        return;
    orr_output_text(t->session.out, "tiers     ");
    for (int tier = 0, any = 0; tier < ORR_TIERS; tier++)
        if (n[tier] > 0)
            orr_output_printf(t->session.out, "%s%u %s", any++ ? ", " : "", n[tier],
                              orr_tier_name((orr_tier)tier));
    orr_output_printf(t->session.out, "; rows of %u batches ahead\n", plan->lookahead);
}

void orr_training_print_setup(orr_training *t)
{
    orr_output *out = t->session.out;
    const orr_plan plan = orr_train_plan(t->model, &t->plan);
    char bytes[ORR_UNIT_CHARS];
    if (!for_people(t) || t->session.settings->quiet)
        return;
    orr_output_printf(out, "%s, %lld steps on %llu %s\n",
                      orr_session_printable(&t->session, t->model->title),
                      (long long)t->options.steps, (unsigned long long)orr_plan_ranks(&plan),
                      orr_plan_ranks(&plan) == 1 ? "rank" : "ranks");
    const char *text = orr_sharding_join(&plan, t->tables, t->session.arena);
    if (text != NULL)
        orr_output_printf(out, "plan      %s\n", text);
    if (t->options.tables != NULL)
        orr_output_printf(out, "tables    %s\n",
                          orr_embedding_plan_kinds(t->options.tables, t->session.arena));
    put_tiers_of_plan(t);
    if (t->options.team != NULL)
        orr_output_printf(out, "team      replica %s of %u, coordinator at %s\n", t->team.name,
                          t->team.replicas, t->team.coordinator);
    else if (t->in_team)
        orr_output_printf(out, "team      %u replicas of this, each a process\n", t->team.replicas);
    if (t->session.settings->predict)
        orr_output_printf(
            out, "expected  %.1f ms a step, %s at the peak, from measurements of %s\n",
            (double)t->expected.step_ns / 1e6,
            orr_format_bytes(bytes, (uint64_t)t->expected.peak_bytes), t->measured.when);
}

static void put_heading(orr_training *t, const orr_train_step *step)
{
    orr_output *out = t->session.out;
    t->heading = true;
    orr_output_printf(out, "\n%8s  %10s  %10s  %13s  %12s  %10s", "step", "loss", "grad norm",
                      "learning rate", t->model->kind == ORR_MODEL_DLRM ? "samples/s" : "tokens/s",
                      "time");
    if (t->in_team)
        orr_output_printf(out, "  %8s  %7s", "replicas", "retries");
    if (!isnan(step->reward))
        orr_output_printf(out, "  %8s", "reward");
    if (!isnan(step->kl))
        orr_output_printf(out, "  %8s", "KL");
    if (!isnan(step->auc))
        orr_output_printf(out, "  %8s", "AUC");
    orr_output_text(out, "\n");
}

/* Many steps are not all worth a line; in a team those that went otherwise are. */
static bool is_shown(const orr_training *t, const orr_train_step *step)
{
    const int64_t every = t->options.steps / 100 + 1;
    return step->step <= 3 || step->step % every == 0 || step->step == t->options.steps ||
           t->session.settings->verbose || (t->in_team && step->retries > 0);
}

void orr_training_print_step(void *ctx, const orr_train_step *step)
{
    orr_training *t = ctx;
    orr_output *out = t->session.out;
    if (t->reports >= 0)
        orr_child_report_send_step(t->reports, step);
    if (!for_people(t) || t->session.settings->quiet || !is_shown(t, step))
        return;
    if (!t->heading)
        put_heading(t, step);
    const double s = (double)step->step_ns / 1e9;
    orr_output_printf(out, "%8lld  %10.5f  %10.4f  %13.7f  %12.1f  %7.1f ms", (long long)step->step,
                      step->loss, step->gradient_norm, step->rate,
                      s > 0 ? (double)step->tokens / s : 0, s * 1e3);
    if (t->in_team)
        orr_output_printf(out, "  %8lld  %7lld", (long long)step->contributors,
                          (long long)step->retries);
    const double more[] = {step->reward, step->kl, step->auc};
    for (int i = 0; i < 3; i++)
        if (!isnan(more[i]))
            orr_output_printf(out, "  %8.4f", more[i]);
    orr_output_text(out, "\n");
    orr_output_flush(out);
}

static void put_summary(orr_training *t)
{
    const orr_train_result *r = &t->result;
    orr_output *out = t->session.out;
    char peak[ORR_UNIT_CHARS], planned[ORR_UNIT_CHARS];
    if (r->steps == 0 && !r->stopped) {
        orr_output_printf(out, "\nnothing left to do: the checkpoint has all %lld steps\n",
                          (long long)t->options.steps);
        return;
    }
    orr_output_printf(
        out, "\n%lld steps, %.1f ms each (median); loss %.5f to %.5f; memory %s, planned %s%s\n",
        (long long)r->steps, (double)r->step_ns / 1e6, r->first_loss, r->last_loss,
        orr_format_bytes(peak, (uint64_t)r->peak_bytes),
        orr_format_bytes(planned, (uint64_t)r->planned_bytes), r->stopped ? "; stopped" : "");
    if (t->in_team && t->replicas == NULL && r->state_digest != 0)
        orr_output_printf(out, "state %016llx\n", (unsigned long long)r->state_digest);
}

static bool has_tiers(const orr_training *t)
{
    return t->result.tiers[ORR_TIER_BYTE] || t->result.tiers[ORR_TIER_BLOCK];
}

/* What rows that do not live in memory took, a line a tier. */
static void put_tiers(orr_training *t)
{
    const orr_train_result *r = &t->result;
    char read[ORR_UNIT_CHARS], written[ORR_UNIT_CHARS];
    int64_t ns = 0;
    for (int64_t i = 0; i < r->steps; i++)
        ns += r->history[i].step_ns;
    for (int tier = ORR_TIER_DRAM + 1; tier < ORR_TIERS; tier++) {
        const orr_train_rows *rows = &r->rows[tier];
        const double s = (double)ns / 1e9;
        if (!r->tiers[tier] || rows->lookups == 0)
            continue;
        orr_output_printf(
            t->session.out,
            "%s: %.2f %% of lookups hit; %lld demand misses, %.1f ms waited for rows; %.0f reads/s, "
            "%s read, %s written\n",
            orr_tier_name((orr_tier)tier), 100 * (double)rows->hits / (double)rows->lookups,
            (long long)rows->demand_misses, (double)rows->stall_ns / 1e6,
            s > 0 ? (double)rows->reads / s : 0, orr_format_bytes(read, (uint64_t)rows->read_bytes),
            orr_format_bytes(written, (uint64_t)rows->written_bytes));
    }
}

static const orr_column replica_columns[] = {
    ORR_COL_(orr_replica_row, replica, TEXT),      ORR_COL_(orr_replica_row, state, TEXT),
    ORR_COL_(orr_replica_row, starts, I64),        ORR_COL_(orr_replica_row, step, I64),
    ORR_COL_(orr_replica_row, state_digest, TEXT),
};

static void put_team(const orr_training *t, orr_json_writer *w)
{
    const orr_replicas_summary *all = t->replicas;
    orr_json_write_key(w, "team");
    orr_json_write_object(w);
    orr_json_member_int(w, "replicas", t->team.replicas);
    if (all == NULL) {
        orr_json_write_key(w, "replica");
        orr_json_write_cstr(w, t->team.name);
        orr_json_write_key(w, "coordinator");
        orr_json_write_cstr(w, t->team.coordinator);
    } else {
        orr_json_member_int(w, "restarts", all->restarts);
        orr_json_member_int(w, "coordinator_restarts", all->coordinator_restarts);
        orr_json_member_int(w, "retries", all->retries);
        orr_json_member_bool(w, "states_equal", all->equal);
        orr_json_member_bool(w, "equal", all->equal); /* the old name, for one release */
    }
    orr_json_write_object_end(w);
}

/* All but the tables: the object stays open. */
static void put_json_head(const orr_training *t)
{
    const orr_train_result *r = &t->result;
    char digest[20];
    orr_json_writer w;
    orr_json_write_init(&w, t->session.out);
    orr_json_write_object(&w);
    orr_json_write_key(&w, "schema");
    orr_json_write_cstr(&w, "orrery.train/1");
    orr_json_write_key(&w, "version");
    orr_json_write_cstr(&w, orr_version());
    orr_json_member_int(&w, "step_ns", r->step_ns);
    orr_json_member_int(&w, "peak_bytes", r->peak_bytes);
    orr_json_member_int(&w, "planned_bytes", r->planned_bytes);
    orr_json_write_key(&w, "state_digest");
    (void)snprintf(digest, sizeof digest, "%016llx", (unsigned long long)r->state_digest);
    if (r->state_digest != 0)
        orr_json_write_cstr(&w, digest);
    else
        orr_json_write_null(&w);
    if (t->in_team)
        put_team(t, &w);
    orr_json_write_key(&w, "tables");
    orr_output_text(t->session.out, "{");
}

static void put_equality(const orr_training *t)
{
    const orr_replicas_summary *all = t->replicas;
    orr_output_printf(t->session.out, "%s; %lld restart%s of replicas, %lld of the coordinator\n\n",
                      all->equal ? "all that have the last step have the same state"
                                 : "STATES DIFFER between replicas that have the last step",
                      (long long)all->restarts, all->restarts == 1 ? "" : "s",
                      (long long)all->coordinator_restarts);
}

orr_status orr_training_print_result(orr_training *t)
{
    orr_session *session = &t->session;
    orr_named_table tables[ORR_TRAINING_TABLES + ORR_TRAINING_ROW_TABLES + 1];
    ORR_TRY(orr_training_tables(&t->result, session->settings->predict ? &t->expected : NULL,
                                session->arena, tables, &session->err));
    size_t n = ORR_TRAINING_TABLES;
    if (t->replicas != NULL)
        tables[n++] = (orr_named_table){"replicas",
                                        ORR_TABLE_("orrery.replicas/1", "replicas", replica_columns,
                                                   t->replicas->rows, t->replicas->n)};
    if (has_tiers(t)) {
        ORR_TRY(orr_training_row_tables(&t->result, session->arena, &tables[n], &session->err));
        n += ORR_TRAINING_ROW_TABLES;
    }
    orr_output *out = session->out;
    if (t->style.format == ORR_TABLE_JSON)
        put_json_head(t);
    else if (for_people(t))
        put_summary(t);
    if (for_people(t) && has_tiers(t))
        put_tiers(t);
    if (t->result.remark != NULL)
        orr_session_remark(session, "%s", t->result.remark);
    if (for_people(t) && t->replicas != NULL)
        put_equality(t);
    else if (for_people(t) && (t->result.n_ops > 0 || session->settings->predict))
        orr_output_text(out, "\n");
    /* People have seen the steps go by. */
    orr_session_tables(session, &t->style, tables,
                       for_people(t) && has_tiers(t) ? n - ORR_TRAINING_ROW_TABLES : n,
                       for_people(t) ? 1 : 0);
    if (t->style.format == ORR_TABLE_JSON)
        orr_output_text(out, "}}\n");
    return orr_output_finish(out, &session->err);
}
