/* SPDX-License-Identifier: Apache-2.0 */
#include "report/explore/summary.h"

#include <math.h>

#include "report/explore/describe.h"
#include "report/explore/questions.h"

typedef struct teller {
    const orr_explore_report *r;
    orr_arena *arena;
    orr_output *out;
} teller;

/* A name of the user's, which must not drive the terminal. */
enum { NAME_MAX = 1200 };
static const char *safe(const char *name, char buf[NAME_MAX])
{
    orr_text_elide(name, NAME_MAX, buf, NAME_MAX);
    return buf;
}

static orr_objective objective_of(const teller *t)
{
    return (orr_objective)t->r->options->objective;
}

static bool has_one_device(const orr_cluster *c)
{
    bool one = true;
    for (uint32_t s = 0; s < c->n_sites; s++)
        one &= c->sites[s].device == c->device;
    return one;
}

static void tell_question(const teller *t)
{
    const orr_explore_options *o = t->r->options;
    const orr_cluster *c = t->r->cluster;
    char title[100], cluster[100], many[ORR_HUMAN_MAX];
    orr_text_elide(t->r->model->title, 100, title, sizeof title);
    orr_text_elide(c->name, 100, cluster, sizeof cluster);
    orr_output_printf(t->out, "%s, %s, on %s (%s %s", title,
                      orr_task_name((orr_task)o->workload.task), cluster,
                      orr_human_count(many, c->n_devices),
                      has_one_device(c) ? c->device->name : "devices of several kinds");
    if (c->n_sites > 0)
        orr_output_printf(t->out, " on %u sites", c->n_sites);
    orr_output_printf(t->out, "); least %s%s%s\n", orr_objective_name(objective_of(t)),
                      o->second < ORR_OBJECTIVES ? " and " : "",
                      o->second < ORR_OBJECTIVES ? orr_objective_name((orr_objective)o->second)
                                                 : "");
}

static void tell_step(const teller *t, const orr_explored *best)
{
    char step[ORR_HUMAN_MAX], mfu[ORR_HUMAN_MAX], tokens[ORR_HUMAN_MAX], devices[ORR_HUMAN_MAX];
    orr_output_printf(t->out, "step: %s on %s device%s", orr_human_ns(step, (double)best->step_ns),
                      orr_human_count(devices, best->n_devices), best->n_devices == 1 ? "" : "s");
    if (isfinite(best->tokens_per_s))
        orr_output_printf(t->out, ", %s tokens/s",
                          orr_human_count(tokens, (uint64_t)llround(best->tokens_per_s)));
    if (isfinite(best->mfu_frac))
        orr_output_printf(t->out, ", MFU %s", orr_human_frac(mfu, best->mfu_frac));
    orr_output_text(t->out, best->other_numerics ? "; other numerics than the default\n" : "\n");
}

static void tell_means(const teller *t, const orr_explored *best)
{
    const double *value = best->value;
    char text[ORR_HUMAN_MAX], many[ORR_HUMAN_MAX];
    const double tokens = t->r->options->tokens;
    if (tokens > 0 && isfinite(value[ORR_OBJECTIVE_BUDGET])) {
        orr_output_printf(
            t->out, "budget: %s to %s tokens",
            orr_objective_human(ORR_OBJECTIVE_BUDGET, value[ORR_OBJECTIVE_BUDGET], text),
            orr_human_si(many, tokens));
        if (isfinite(best->effective_frac))
            orr_output_printf(t->out, ", with failures: %s of the time is progress",
                              orr_human_frac(text, best->effective_frac));
        orr_output_text(t->out, "\n");
    }
    for (int k = ORR_OBJECTIVE_COST; k <= ORR_OBJECTIVE_ENERGY; k++)
        if (isfinite(value[k]))
            orr_output_printf(t->out, "%s: %s%s%s\n", orr_objective_name((orr_objective)k),
                              orr_objective_human((orr_objective)k, value[k], text),
                              tokens > 0 ? " of the budget" : " of a step",
                              k == ORR_OBJECTIVE_ENERGY ? ", of devices, an upper bound" : "");
}

static void tell_memory(const teller *t, const orr_explored *best)
{
    char peak[ORR_HUMAN_MAX], room[ORR_HUMAN_MAX];
    orr_output_printf(t->out, "memory: %s at the peak",
                      orr_human_bytes(peak, (double)best->peak_bytes));
    if (best->usable_bytes > 0)
        orr_output_printf(t->out, " of %s", orr_human_bytes(room, (double)best->usable_bytes));
    orr_output_text(t->out, "\n");
}

static void tell_proof(const teller *t)
{
    const orr_exploration *x = t->r->exploration;
    char bound[ORR_HUMAN_MAX], gap[ORR_HUMAN_MAX];
    if (x->gap_frac <= 0) {
        orr_output_text(t->out, "proof: no plan of the space is better\n");
        return;
    }
    if (!(x->bound > 0)) {
        orr_output_printf(t->out, "proof: none (%s)\n", orr_explore_status(t->r));
        return;
    }
    orr_output_printf(t->out, "proof: no plan of the space is better than %s: the gap is %s (%s)\n",
                      orr_objective_human(objective_of(t), x->bound, bound),
                      orr_human_frac(gap, x->gap_frac), orr_explore_status(t->r));
}

static void tell_search(const teller *t)
{
    const orr_exploration *x = t->r->exploration;
    char space[ORR_HUMAN_MAX], plans[ORR_HUMAN_MAX], many[ORR_HUMAN_MAX], wall[ORR_HUMAN_MAX];
    orr_output_printf(t->out, "searched: %s plans, of them %s looked at, %s simulated",
                      orr_human_si(space, x->space), orr_human_si(plans, (double)x->plans),
                      orr_human_count(many, x->simulated));
    if (x->resumed > 0)
        orr_output_printf(t->out, " and %s by an earlier run", orr_human_count(many, x->resumed));
    orr_output_printf(t->out, ", in %s\n", orr_human_ns(wall, (double)x->wall_ns));
    bool any = false;
    for (int i = 0; i < ORR_PRUNES; i++) {
        if (x->pruned[i] <= 0)
            continue;
        orr_output_printf(t->out, "%s%s %s",
                          any ? "; " : "not followed: ", orr_prune_name((orr_prune)i),
                          orr_human_si(many, x->pruned[i]));
        any = true;
    }
    if (any)
        orr_output_text(t->out, "\n");
}

static orr_status tell_limits(const teller *t, orr_error *err)
{
    enum { TOLD = 4 };
    orr_explore_bottleneck limits[ORR_EXPLORE_BOTTLENECKS];
    const uint32_t n = orr_explore_bottlenecks(&t->r->outcomes[0], t->arena, limits);
    char share[ORR_HUMAN_MAX], where[NAME_MAX];
    if (n == 0)
        return orr_fail_memory(err);
    orr_output_text(t->out, "limited by: ");
    for (uint32_t i = 0; i < n && i < TOLD && limits[i].ns > 0; i++)
        orr_output_printf(t->out, "%s%s%s%s%s %s", i > 0 ? ", " : "", limits[i].limit,
                          *limits[i].where != '\0' ? " (" : "", safe(limits[i].where, where),
                          *limits[i].where != '\0' ? ")" : "",
                          orr_human_frac(share, limits[i].share_frac));
    if (limits[n - 1].ns == 0)
        orr_output_printf(t->out, "; memory %s full",
                          orr_human_frac(share, limits[n - 1].share_frac));
    orr_output_text(t->out, "\n");
    return ORR_OK;
}

static orr_status tell_sites(const teller *t, orr_error *err)
{
    uint32_t n;
    char name[NAME_MAX], used[ORR_HUMAN_MAX], all[ORR_HUMAN_MAX];
    if (t->r->cluster->n_sites == 0)
        return ORR_OK;
    const orr_explore_site *sites =
        orr_explore_sites(t->r->cluster, &t->r->outcomes[0], t->arena, &n);
    if (sites == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        const orr_explore_site *s = &sites[i];
        orr_output_printf(t->out, "%s %s: ", i == 0 ? "sites:" : "      ", safe(s->name, name));
        if (s->used == 0)
            orr_output_text(t->out, "not used\n");
        else
            orr_output_printf(t->out, "%s of %s devices, stages %u to %u, %u replicas\n",
                              orr_human_count(used, s->used), orr_human_count(all, s->devices),
                              s->first_stage, s->last_stage, s->replicas);
    }
    return ORR_OK;
}

/* What the answer means: plans as good as this one, and what nobody has reported yet. */
static orr_status tell_answer(const teller *t, orr_error *err)
{
    const orr_explore_answer *a = t->r->answer;
    const char *set, *fp8, *warning;
    if (a == NULL)
        return ORR_OK;
    if ((set = orr_explore_set_text(t->r, t->arena)) == NULL ||
        (fp8 = orr_explore_fp8_text(t->r, t->arena)) == NULL ||
        (warning = orr_explore_record_warning(t->r, t->arena)) == NULL)
        return orr_fail_memory(err);
    if (*set != '\0' && t->r->exploration->n > 0)
        orr_output_printf(t->out, "answer: %s\n", set);
    for (uint32_t i = 0; i < a->n_published; i++) {
        const char *text = orr_explore_published_text(t->r, &a->published[i], t->arena);
        if (text == NULL)
            return orr_fail_memory(err);
        orr_output_printf(t->out, "published: %s\n", text);
    }
    if (*fp8 != '\0')
        orr_output_printf(t->out, "fp8: %s\n", fp8);
    if (*warning != '\0')
        orr_output_printf(t->out, "warning: %s\n", warning);
    return ORR_OK;
}

static orr_status tell_winner(const teller *t, orr_error *err)
{
    const orr_explored *best = &t->r->exploration->best[0];
    const char *plan = orr_plan_short_text(&best->plan, t->arena);
    if (plan == NULL)
        return orr_fail_memory(err);
    if (t->r->interrupted)
        orr_output_text(t->out, "interrupted: this is the best so far\n");
    orr_output_printf(t->out, "plan: %s\n", plan);
    tell_step(t, best);
    tell_means(t, best);
    tell_memory(t, best);
    if (t->r->n_outcomes > 0) {
        ORR_TRY(tell_sites(t, err));
        ORR_TRY(tell_limits(t, err));
    }
    tell_proof(t);
    return tell_answer(t, err);
}

orr_status orr_explore_summary(const orr_explore_report *report, orr_arena *arena, orr_output *out,
                               orr_error *err)
{
    const teller t = {report, arena, out};
    const orr_exploration *x = report->exploration;
    char why[NAME_MAX];
    tell_question(&t);
    if (x->n > 0)
        ORR_TRY(tell_winner(&t, err));
    else if (!x->complete)
        orr_output_printf(out, "%s before a plan was found: %s\n",
                          report->interrupted ? "interrupted" : "stopped",
                          x->infeasible != NULL ? safe(x->infeasible, why) : "none was looked at");
    else
        orr_output_printf(out, "no feasible plan: %s\n",
                          x->infeasible != NULL ? safe(x->infeasible, why) : "the space is empty");
    if (x->n == 0)
        ORR_TRY(tell_answer(&t, err));
    tell_search(&t);
    if (x->looked_at != NULL)
        orr_output_printf(out, "cut short: %s\n", x->looked_at);
    return orr_explore_tell_answers(report, arena, out, err);
}
