/* SPDX-License-Identifier: Apache-2.0 */
/* What a run of training prints: before it, at every step, and afterwards. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "cli/train.h"

static bool for_people(const orr_training *t)
{
    return t->style.format == ORR_TABLE_TEXT;
}

void orr_training_announce(orr_training *t)
{
    orr_output *out = t->session.out;
    const orr_plan plan = orr_plan_completed(&t->plan);
    char bytes[ORR_UNIT_CHARS];
    if (!for_people(t))
        return;
    orr_output_printf(out, "%s, %lld steps on %llu %s\n", t->model->title,
                      (long long)t->options.steps, (unsigned long long)orr_plan_ranks(&plan),
                      orr_plan_ranks(&plan) == 1 ? "rank" : "ranks");
    const char *text = orr_plan_text(&plan, t->session.arena);
    if (text != NULL)
        orr_output_printf(out, "plan      %s\n", text);
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
    orr_output_printf(out, "\n%8s  %10s  %10s  %10s  %12s  %10s", "step", "loss", "grad norm",
                      "rate", t->model->kind == ORR_MODEL_DLRM ? "samples/s" : "tokens/s", "time");
    if (!isnan(step->reward))
        orr_output_printf(out, "  %8s", "reward");
    if (!isnan(step->kl))
        orr_output_printf(out, "  %8s", "KL");
    if (!isnan(step->auc))
        orr_output_printf(out, "  %8s", "AUC");
    orr_output_text(out, "\n");
}

/* Many steps are not all worth a line. */
static bool is_shown(const orr_training *t, int64_t step)
{
    const int64_t every = t->options.steps / 100 + 1;
    return step <= 3 || step % every == 0 || step == t->options.steps ||
           t->session.settings->verbose;
}

void orr_training_step(void *ctx, const orr_train_step *step)
{
    orr_training *t = ctx;
    orr_output *out = t->session.out;
    if (!for_people(t) || !is_shown(t, step->step))
        return;
    if (!t->heading)
        put_heading(t, step);
    const double s = (double)step->step_ns / 1e9;
    orr_output_printf(out, "%8lld  %10.5f  %10.4f  %10.3e  %12.1f  %7.1f ms", (long long)step->step,
                      step->loss, step->gradient_norm, step->rate,
                      s > 0 ? (double)step->tokens / s : 0, s * 1e3);
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
}

orr_status orr_training_print(orr_training *t)
{
    orr_session *session = &t->session;
    orr_named_table tables[ORR_TRAINING_TABLES];
    ORR_TRY(orr_training_tables(&t->result, session->settings->predict ? &t->expected : NULL,
                                session->arena, tables, &session->err));
    orr_output *out = session->out;
    if (t->style.format == ORR_TABLE_JSON)
        orr_output_printf(out,
                          "{\"schema\":\"orrery.train/1\",\"version\":\"%s\",\"step_ns\":%lld,"
                          "\"peak_bytes\":%lld,\"planned_bytes\":%lld,\"tables\":{",
                          orr_version(), (long long)t->result.step_ns,
                          (long long)t->result.peak_bytes, (long long)t->result.planned_bytes);
    else if (for_people(t))
        put_summary(t);
    if (for_people(t) && (t->result.n_ops > 0 || session->settings->predict))
        orr_output_text(out, "\n");
    /* People have seen the steps go by. */
    orr_session_tables(session, &t->style, tables, ORR_TRAINING_TABLES, for_people(t) ? 1 : 0);
    if (t->style.format == ORR_TABLE_JSON)
        orr_output_text(out, "}}\n");
    return orr_output_finish(out, &session->err);
}
