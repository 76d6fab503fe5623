/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "explore/evaluate/evaluator.h"
#include "explore/questions/questions.h"

enum { STARTS = 8 }; /* plans that a search begins with */

static const char *const QUESTIONS[] = {
#define NAME_(name, word) word,
    ORR_QUESTION_MAP(NAME_)
#undef NAME_
};
const char *orr_question_name(orr_question question)
{
    return question < ORR_QUESTIONS ? QUESTIONS[question] : "?";
}

const char *orr_verdict_name(orr_verdict verdict)
{
    static const char *const names[] = {
#define NAME_(name, text) text,
        ORR_VERDICT_MAP(NAME_)
#undef NAME_
    };
    return verdict < sizeof names / sizeof *names ? names[verdict] : "?";
}

void orr_asking_done(orr_asking *a)
{
    orr_array_done(&a->probes);
    orr_array_done(&a->trials);
    orr_array_done(&a->starts);
}

bool orr_asking_stopped(const orr_asking *a)
{
    return a->inquiry->options->stop != NULL && *a->inquiry->options->stop;
}

orr_explore_options orr_asking_options(const orr_asking *a)
{
    orr_explore_options o = *a->inquiry->options;
    o.keep = 1;
    o.second = ORR_OBJECTIVES;
    o.store = NULL;
    o.resume = false;
    o.relaxed = true; /* why there is no plan is asked of the question alone */
    return o;
}

/* --- what a probe says ----------------------------------------------------------------------- */

void orr_asking_judge(const orr_asking *a, orr_probe *p)
{
    p->verdict = isnan(a->limit)                                     ? ORR_VERDICT_NONE
                 : p->found && p->value <= a->limit                  ? ORR_VERDICT_MEETS
                 : (!p->found && p->complete) || p->bound > a->limit ? ORR_VERDICT_FAILS
                                                                     : ORR_VERDICT_OPEN;
}

orr_status orr_asking_add(orr_asking *a, const orr_trial *trial, const orr_probe *probe)
{
    if (!orr_array_push(&a->probes, *probe) || !orr_array_push(&a->trials, *trial))
        return orr_fail_memory(a->err);
    if (probe->found && !orr_array_push(&a->starts, probe->best.plan))
        return orr_fail_memory(a->err);
    return ORR_OK;
}

static orr_probe probe_of(const orr_trial *trial, const orr_exploration *x)
{
    const bool found = x->n > 0;
    return (orr_probe){
        .what = trial->what,
        .at = trial->at,
        .found = found,
        .complete = x->complete,
        .best = found ? x->best[0] : (orr_explored){.n_devices = 0},
        .value = found ? x->best[0].value[trial->options.objective] : NAN,
        .kept_value = NAN,
        .bound = isfinite(x->bound) && x->bound > 0 ? x->bound : NAN,
        .gap_frac = found ? x->gap_frac : NAN,
        .note = found                   ? ""
                : x->infeasible != NULL ? x->infeasible
                : x->complete           ? "no plan is feasible"
                                        : "stopped before a plan was found",
    };
}

orr_status orr_asking_add_reference(orr_asking *a, const char *what, double at)
{
    const orr_inquiry *q = a->inquiry;
    const orr_trial trial = {what, at, q->cluster, *q->options};
    orr_probe probe = probe_of(&trial, q->reference);
    probe.kept_value = probe.value;
    orr_asking_judge(a, &probe);
    return orr_asking_add(a, &trial, &probe);
}

/* --- plans on other machines ----------------------------------------------------------------- */

/* Whether a search with these options could have given the plan. */
static bool may_use(const orr_explore_options *o, const orr_explored *e)
{
    return (o->max_devices == 0 || e->n_devices <= o->max_devices) &&
           e->n_devices >= o->min_devices &&
           (e->usable_bytes < 0 || e->peak_bytes <= e->usable_bytes);
}

/* NULL: no plan can run on the machine. NO_MEMORY is the only error. */
static orr_status open_evaluator(const orr_asking *a, const orr_trial *trial, orr_evaluator **ret)
{
    *ret = NULL;
    return orr_evaluator_new(a->inquiry->model, trial->cluster, &trial->options, ret, NULL) ==
                   ORR_NO_MEMORY
               ? orr_fail_memory(a->err)
               : ORR_OK;
}

/* A plan as it is, on the machine of a trial. False in *ret_valid: it cannot run there. NO_MEMORY
 * is the only error. */
static orr_status run_plan(const orr_asking *a, const orr_trial *trial, orr_evaluator *evaluator,
                           const orr_plan *plan, orr_explored *ret, bool *ret_valid)
{
    *ret_valid = false;
    if (evaluator == NULL)
        return ORR_OK;
    const orr_status status = orr_evaluator_simulate(evaluator, plan, ret, NULL);
    if (status == ORR_NO_MEMORY)
        return orr_fail_memory(a->err);
    *ret_valid = status == ORR_OK && may_use(&trial->options, ret);
    ret->plan = *plan; /* as it was given, without the defaults that it has there */
    return ORR_OK;
}

static void take(const orr_asking *a, const orr_trial *trial, const orr_explored *e, orr_probe *p)
{
    const double value = e->value[trial->options.objective];
    if (p->found && !(value < p->value))
        return;
    p->best = *e;
    p->found = true;
    p->value = value;
    p->bound = p->bound > value ? value : p->bound;
    p->gap_frac = (value - p->bound) / value;
    p->note = "";
    orr_asking_judge(a, p);
}

/* The plan of the reference on another machine, which is what it costs not to plan anew, and those
 * that the probes found: with a limit until one meets it. */
static orr_status run_known(const orr_asking *a, const orr_trial *trial, orr_probe *p)
{
    const orr_exploration *x = a->inquiry->reference;
    orr_evaluator *evaluator;
    orr_explored e;
    bool valid = false;
    orr_status status = open_evaluator(a, trial, &evaluator);
    if (status == ORR_OK && x != NULL && x->n > 0)
        status = run_plan(a, trial, evaluator, &x->best[0].plan, &e, &valid);
    if (status == ORR_OK && valid) {
        p->kept_value = e.value[trial->options.objective];
        take(a, trial, &e, p);
    }
    for (size_t i = 0; status == ORR_OK && i < STARTS && i < a->starts.n; i++) {
        if (p->verdict == ORR_VERDICT_MEETS)
            break;
        status = run_plan(a, trial, evaluator, &a->starts.at[a->starts.n - 1 - i], &e, &valid);
        if (status == ORR_OK && valid)
            take(a, trial, &e, p);
    }
    orr_evaluator_free(evaluator);
    return status;
}

/* --- the search ------------------------------------------------------------------------------ */

/* The user's plans, then those of the latest probes. */
static orr_status warm_start(const orr_asking *a, orr_explore_options *options)
{
    const uint32_t given = options->n_starts;
    const uint32_t own = (uint32_t)(a->starts.n < STARTS ? a->starts.n : STARTS);
    orr_plan *starts = orr_arena_array(a->arena, orr_plan, given + own);
    if (starts == NULL)
        return orr_fail_memory(a->err);
    for (uint32_t i = 0; i < given; i++)
        starts[i] = options->starts[i];
    for (uint32_t i = 0; i < own; i++)
        starts[given + i] = a->starts.at[a->starts.n - 1 - i];
    options->starts = starts;
    options->n_starts = given + own;
    return ORR_OK;
}

static orr_status search(orr_asking *a, const orr_trial *trial, const orr_probe *known,
                         orr_probe *ret)
{
    orr_explore_options options = trial->options;
    orr_exploration made = {0};
    orr_error why = {0};
    ORR_TRY(warm_start(a, &options));
    const orr_status status =
        orr_explore(a->inquiry->model, trial->cluster, &options, a->arena, &made, &why);
    if (status != ORR_OK && status != ORR_INVALID) {
        if (a->err != NULL)
            *a->err = why;
        return status;
    }
    *ret = probe_of(trial, &made);
    if (status == ORR_INVALID) {
        ret->complete = true;
        ret->note = orr_arena_strndup(a->arena, why.text, strlen(why.text));
        return ret->note != NULL ? ORR_OK : orr_fail_memory(a->err);
    }
    ret->kept_value = known->kept_value;
    if (known->found)
        take(a, trial, &known->best, ret);
    return ORR_OK;
}

/* Where a known plan meets the limit no search is needed. */
orr_status orr_asking_search(orr_asking *a, const orr_trial *trial)
{
    const orr_inquiry *q = a->inquiry;
    orr_probe known = {.what = trial->what,
                       .at = trial->at,
                       .value = NAN,
                       .kept_value = NAN,
                       .bound = NAN,
                       .gap_frac = NAN,
                       .note = ""};
    orr_probe found;
    if (q->told != NULL)
        q->told(q->told_ctx, trial->what);
    ORR_TRY(run_known(a, trial, &known));
    if (known.verdict == ORR_VERDICT_MEETS)
        return orr_asking_add(a, trial, &known);
    ORR_TRY(search(a, trial, &known, &found));
    orr_asking_judge(a, &found);
    return orr_asking_add(a, trial, &found);
}

bool orr_asking_tighten(orr_asking *a)
{
    if (!(a->factor > 0) || a->probes.n == 0 || !a->probes.at[0].found)
        return false;
    const double limit = a->probes.at[0].value * a->factor;
    if (!(limit < a->limit))
        return false;
    a->limit = limit;
    for (size_t i = 0; i < a->probes.n; i++)
        orr_asking_judge(a, &a->probes.at[i]);
    return true;
}

/* --- order ----------------------------------------------------------------------------------- */

static bool is_easier(const orr_probe *a, const orr_probe *b, int direction)
{
    return direction > 0 ? a->at < b->at : a->at > b->at;
}

/* Whether the harder probe has the better plan, by more than rounding. */
static bool contradicts(const orr_probe *easier, const orr_probe *harder)
{
    return harder->found && (!easier->found || easier->value > harder->value * (1 + 1e-9));
}

static orr_status run_elsewhere(const orr_asking *a, const orr_trial *trial, const orr_plan *plan,
                                orr_explored *ret, bool *ret_valid)
{
    orr_evaluator *evaluator;
    *ret_valid = false;
    if (trial->cluster == NULL)
        return ORR_OK;
    ORR_TRY(open_evaluator(a, trial, &evaluator));
    const orr_status status = run_plan(a, trial, evaluator, plan, ret, ret_valid);
    orr_evaluator_free(evaluator);
    return status;
}

/* Every harder probe's plan where it is better than the easier one's own. */
static orr_status reconcile_once(orr_asking *a, int direction, uint32_t *ret_left, bool *ret_taken)
{
    *ret_left = 0;
    *ret_taken = false;
    for (size_t i = 0; i < a->probes.n; i++)
        for (size_t k = 0; k < a->probes.n; k++) {
            orr_probe *easier = &a->probes.at[i], *harder = &a->probes.at[k];
            orr_explored e;
            bool valid;
            if (!is_easier(easier, harder, direction) || !contradicts(easier, harder))
                continue;
            const bool had = easier->found;
            const double before = easier->value;
            ORR_TRY(run_elsewhere(a, &a->trials.at[i], &harder->best.plan, &e, &valid));
            if (valid)
                take(a, &a->trials.at[i], &e, easier);
            *ret_taken |= easier->found && (!had || easier->value < before);
            *ret_left += contradicts(easier, harder);
        }
    return ORR_OK;
}

/* Until nothing is taken any more: what one probe takes may make it better than an easier one that
 * was looked at before it. It ends, since each probe only gets better, by plans of which there are
 * no more than probes. */
orr_status orr_asking_reconcile(orr_asking *a, int direction, uint32_t *ret_contradictions)
{
    for (bool taken = true; taken;)
        ORR_TRY(reconcile_once(a, direction, ret_contradictions, &taken));
    return ORR_OK;
}

/* A plan of one probe on the machine of another, where it is better. */
static orr_status run_there(const orr_asking *a, size_t from, size_t to, double *ret_value)
{
    orr_probe *p = &a->probes.at[to];
    orr_explored e;
    bool valid;
    *ret_value = NAN;
    if (!a->probes.at[from].found)
        return ORR_OK;
    ORR_TRY(run_elsewhere(a, &a->trials.at[to], &a->probes.at[from].best.plan, &e, &valid));
    if (!valid)
        return ORR_OK;
    *ret_value = e.value[a->trials.at[to].options.objective];
    if (*ret_value < p->value || !p->found) {
        take(a, &a->trials.at[to], &e, p);
        p->note = "the plan that another probe found";
    }
    return ORR_OK;
}

orr_status orr_asking_share(orr_asking *a)
{
    double value;
    for (size_t i = 1; i < a->probes.n; i++)
        ORR_TRY(run_there(a, i, 0, &value));
    for (size_t i = 1; i < a->probes.n; i++)
        ORR_TRY(run_there(a, 0, i, &a->probes.at[i].kept_value));
    if (a->probes.n > 0)
        a->probes.at[0].kept_value = a->probes.at[0].value;
    return ORR_OK;
}

orr_status orr_asking_answer(orr_asking *a, const orr_answer *like, orr_answer *ret)
{
    orr_probe *probes = orr_arena_array(a->arena, orr_probe, a->probes.n);
    if (probes == NULL)
        return orr_fail_memory(a->err);
    for (size_t i = 0; i < a->probes.n; i++)
        probes[i] = a->probes.at[i];
    *ret = *like;
    ret->objective = a->inquiry->options->objective;
    ret->limit = a->limit;
    ret->n = (uint32_t)a->probes.n;
    ret->probes = probes;
    ret->interrupted = orr_asking_stopped(a);
    return ORR_OK;
}
