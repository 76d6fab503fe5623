/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cli/arguments/job.h"
#include "cli/arguments/sharding.h"
#include "model/tables/tables.h"
#include "report/humanize/human.h"

enum { TITLE_MAX = 100 };

/* The plan as it was given, with what was chosen for it where it says nothing: the micro-batch, the
 * layers of the first and last stage, and the slices of experts. */
static orr_plan plan_with_choices(const orr_job_request *r)
{
    const orr_plan *used = &r->outcome.plan;
    orr_plan shown = r->plan;
    if (used->section_stages[0] > 0) { /* those of sections=balanced */
        memcpy(shown.section_stages, used->section_stages, sizeof shown.section_stages);
        memcpy(shown.section_layers, used->section_layers, sizeof shown.section_layers);
    }
    if (shown.batch > 0 && shown.micro_batches == 0)
        shown.micro_batch = used->micro_batch;
    shown.first_layers = used->first_layers;
    shown.last_layers = used->last_layers;
    if (used->etp != used->tp)
        shown.etp = used->etp;
    return shown;
}

static void tell_job(const orr_job_request *r, orr_output *out)
{
    const orr_outcome *o = &r->outcome;
    const orr_plan shown = plan_with_choices(r);
    const char *plan = orr_sharding_join(&shown, r->tables, r->session->arena);
    char ranks[ORR_HUMAN_MAX], title[TITLE_MAX], cluster[TITLE_MAX];
    orr_text_elide(o->model->title, TITLE_MAX, title, sizeof title);
    orr_text_elide(r->cluster->name, TITLE_MAX, cluster, sizeof cluster);
    orr_output_printf(out, "%s, %s, on %s of %s (%s)\nplan: %s\n", title,
                      orr_task_name((orr_task)o->workload.task), orr_human_count(ranks, o->n_ranks),
                      cluster, r->cluster->device->name, plan ? plan : "");
    if (r->tables != NULL)
        orr_output_printf(out, "tables: %s\n",
                          orr_embedding_plan_kinds(&r->table_plan, r->session->arena));
}

static void tell_step(const orr_outcome *o, orr_output *out)
{
    char step[ORR_HUMAN_MAX], low[ORR_HUMAN_MAX], high[ORR_HUMAN_MAX], mfu[ORR_HUMAN_MAX],
        tokens[ORR_HUMAN_MAX];
    orr_output_printf(out, "step: %s", orr_human_ns(step, (double)o->step_ns));
    if (o->low_ns >= 0)
        orr_output_printf(out, " (90 %% of jobs alike: %s to %s)",
                          orr_human_ns(low, (double)o->low_ns),
                          orr_human_ns(high, (double)o->high_ns));
    else
        orr_output_text(out, " (no error band is known)");
    orr_output_printf(out, "; %.0f TFLOP/s a device", o->flops_per_s_per_device / 1e12);
    if (isfinite(o->mfu_frac))
        orr_output_printf(out, ", MFU %s", orr_human_frac(mfu, o->mfu_frac));
    const bool has_tokens = isfinite(o->tokens_per_s);
    const double rate = has_tokens ? o->tokens_per_s : o->samples_per_s;
    orr_output_printf(out, "; %s %s/s\n", orr_human_count(tokens, (uint64_t)llround(rate)),
                      has_tokens ? "tokens" : "samples");
}

static void tell_memory(const orr_outcome *o, orr_output *out)
{
    const orr_memory_plan *m = &o->memory;
    const orr_stage_memory *worst = &m->stages[m->worst];
    char peak[ORR_HUMAN_MAX], room[ORR_HUMAN_MAX], missing[ORR_HUMAN_MAX];
    char allocated[ORR_HUMAN_MAX], reserved[ORR_HUMAN_MAX];
    orr_output_printf(out, "memory: %s at the peak, on stage %u",
                      orr_human_bytes(peak, (double)worst->peak_bytes), m->worst);
    if (m->capacity_bytes >= 0)
        orr_output_printf(out, " of %s", orr_human_bytes(room, (double)m->capacity_bytes));
    if (!m->fits)
        orr_output_printf(out, ": does not fit, %s too much",
                          orr_human_bytes(missing, (double)m->missing_bytes));
    orr_output_printf(out, "; %s allocated, %s reserved\n",
                      orr_human_bytes(allocated, (double)worst->allocated_bytes),
                      orr_human_bytes(reserved, (double)worst->reserved_bytes));
    if (m->most_samples > 0)
        orr_output_printf(out, "room: a batch of %lld at this context, or a context of %lld\n",
                          (long long)m->most_samples, (long long)m->most_tokens);
}

void orr_job_request_summary(const orr_job_request *request, orr_output *out)
{
    const orr_outcome *o = &request->outcome;
    char bubble[ORR_HUMAN_MAX];
    tell_job(request, out);
    tell_step(o, out);
    tell_memory(o, out);
    orr_output_printf(out, "bubble: %s of a stage's work", orr_human_frac(bubble, o->bubble_frac));
    if (isfinite(o->energy_j))
        orr_output_printf(out, "; energy: %.4g kWh a step (an upper bound)", o->energy_j / 3.6e6);
    if (o->expert_slots > 0)
        orr_output_printf(out,
                          "\nexperts: the fullest rank has %.3f of the mean, %.3f in the worst "
                          "layer; at most %u slots a rank and layer",
                          o->expert_imbalance[0], o->expert_imbalance[1], o->expert_slots);
    if (o->document_seen_frac > 0)
        orr_output_printf(out,
                          "\ndocuments: %.0f tokens in the mean; attention sees %.4f of the pairs "
                          "of one document, the slowest slice of the context %.3f of the mean",
                          o->workload.documents->mean_tokens, o->document_seen_frac,
                          o->document_imbalance);
    orr_output_printf(out, "\n%u kind%s of ranks, %llu nodes simulated\n", o->simulation->n_classes,
                      o->simulation->n_classes == 1 ? "" : "s", (unsigned long long)o->n_nodes);
}
