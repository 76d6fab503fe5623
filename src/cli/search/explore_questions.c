/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/progress.h"
#include "cli/command/interrupt.h"
#include "cli/search/explore.h"

/* Questions are asked after the search, in the order of their dependence: clusters, deadline,
 * devices that would do, and then what is asked of the best machine. */

/* --- progress -------------------------------------------------------------------------------- */

typedef struct asker {
    orr_explore_request *r;
    orr_progress meter;
    const char *what; /* the probe in progress */
    uint32_t probes;
} asker;

static void show_probe(void *ctx, const char *what)
{
    asker *a = ctx;
    a->what = what;
    a->probes++;
}

static void show_progress(void *ctx, const orr_explore_progress *at)
{
    asker *a = ctx;
    int64_t elapsed_ns;
    char line[200], text[320];
    if (!orr_progress_due(&a->meter, &elapsed_ns))
        return;
    orr_explore_progress_line(at, (orr_objective)a->r->options.objective, elapsed_ns, line,
                              sizeof line);
    snprintf(text, sizeof text, "probe %u, %.100s: %s", a->probes, a->what, line);
    orr_progress_say(&a->meter, text);
}

static orr_inquiry inquiry_of(asker *a, const orr_cluster *cluster,
                              const orr_exploration *reference)
{
    return (orr_inquiry){.model = a->r->job.model,
                         .cluster = cluster,
                         .options = &a->r->options,
                         .reference = reference,
                         .told = show_probe,
                         .told_ctx = a};
}

/* --- answers --------------------------------------------------------------------------------- */

static orr_answer *next_answer(asker *a)
{
    return &a->r->questions.answers[a->r->questions.n_answers];
}

/* Takes the answer that was filled in; of one cluster of several by its name. */
static orr_status keep_answer(asker *a, const orr_cluster *cluster)
{
    orr_explore_questions *q = &a->r->questions;
    orr_answer *answer = next_answer(a);
    if (q->n_clusters > 1) {
        answer->title =
            orr_arena_printf(a->r->session.arena, "%s: %s", cluster->name, answer->title);
        if (answer->title == NULL)
            return orr_fail_memory(&a->r->session.err);
    }
    q->n_answers++;
    return ORR_OK;
}

static bool has_prices(const orr_explored *best)
{
    return isfinite(best->value[ORR_OBJECTIVE_COST]);
}

static orr_status ask_enough(asker *a, const orr_inquiry *inquiry, double limit)
{
    enum { SEARCH_S = 3 };
    orr_explore_options options = *inquiry->options;
    orr_inquiry shorter = *inquiry;
    const int64_t limit_ns = INT64_C(1000000000) * SEARCH_S;
    if (options.limit_ns == 0 || options.limit_ns > limit_ns)
        options.limit_ns = limit_ns;
    shorter.options = &options;
    ORR_TRY(orr_explore_enough(&shorter, limit, a->r->session.arena, next_answer(a),
                               &a->r->session.err));
    return keep_answer(a, inquiry->cluster);
}

/* The fewest devices, and the cheapest plan where prices are known. */
static orr_status ask_deadline(asker *a, const orr_cluster *cluster,
                               const orr_exploration *reference)
{
    const orr_inquiry inquiry = inquiry_of(a, cluster, reference);
    const orr_solve solve = {.question = ORR_QUESTION_DEVICES,
                             .limit = a->r->questions.deadline_ns};
    orr_arena *arena = a->r->session.arena;
    orr_error *err = &a->r->session.err;
    orr_answer *devices = next_answer(a);
    ORR_TRY(orr_explore_solve(&inquiry, &solve, arena, devices, err));
    ORR_TRY(keep_answer(a, cluster));
    if (devices->answer == ORR_NONE)
        return reference->complete || reference->bound > solve.limit
                   ? ask_enough(a, &inquiry, solve.limit)
                   : ORR_OK;
    if (!has_prices(&devices->probes[devices->answer].best))
        return ORR_OK;
    ORR_TRY(orr_explore_cheapest(&inquiry, devices, arena, next_answer(a), err));
    return keep_answer(a, cluster);
}

/* --- several clusters ------------------------------------------------------------------------ */

static orr_exploration exploration_of(const orr_probe *probe)
{
    return (orr_exploration){.n = probe->found,
                             .best = &probe->best,
                             .bound = probe->bound,
                             .gap_frac = probe->gap_frac,
                             .complete = probe->complete,
                             .infeasible = probe->note};
}

/* Which cluster meets the deadline for the least money, or with the fewest devices where no price
 * is known: the cluster of an answer is where its number stands in `of`. */
static uint32_t best_in_time(const orr_explore_questions *q, const uint32_t *of)
{
    uint32_t best = ORR_NONE;
    double least = INFINITY;
    bool costs = true;
    for (uint32_t i = 0; i < q->n_answers; i++)
        if (q->answers[i].question == ORR_QUESTION_DEVICES && q->answers[i].answer != ORR_NONE)
            costs &= has_prices(&q->answers[i].probes[q->answers[i].answer].best);
    const uint8_t question = costs ? ORR_QUESTION_COST : ORR_QUESTION_DEVICES;
    for (uint32_t i = 0; i < q->n_answers; i++) {
        const orr_answer *answer = &q->answers[i];
        if (answer->question != question || answer->answer == ORR_NONE)
            continue;
        const double value =
            costs ? answer->probes[answer->answer].value : answer->probes[answer->answer].at;
        if (value < least) {
            least = value;
            best = of[i];
        }
    }
    return best;
}

/* The first cluster's search is done; those of the others are probes. What the best one found is
 * then what the command answers. */
static orr_status ask_clusters(asker *a)
{
    orr_explore_request *r = a->r;
    orr_explore_questions *q = &r->questions;
    const orr_inquiry inquiry = inquiry_of(a, r->job.cluster, &r->exploration);
    uint32_t of[ORR_EXPLORE_ANSWERS] = {0};
    ORR_TRY(orr_explore_clusters(&inquiry, q->clusters, q->n_clusters, r->session.arena,
                                 next_answer(a), &r->session.err));
    const orr_answer *all = &q->answers[q->n_answers++];
    uint32_t best = all->answer;
    for (uint32_t i = 0; i < all->n && q->deadline_ns > 0; i++) {
        const orr_exploration reference = exploration_of(&all->probes[i]);
        const uint32_t before = q->n_answers;
        if (all->probes[i].found)
            ORR_TRY(ask_deadline(a, q->clusters[i], &reference));
        for (uint32_t k = before; k < q->n_answers; k++)
            of[k] = i;
    }
    if (q->deadline_ns > 0 && best_in_time(q, of) != ORR_NONE)
        best = best_in_time(q, of);
    if (best != ORR_NONE && best > 0) {
        r->job.cluster = q->clusters[best];
        r->exploration = exploration_of(&all->probes[best]);
    }
    return ORR_OK;
}

/* --- of the best machine --------------------------------------------------------------------- */

static orr_status ask_of_machine(asker *a)
{
    orr_explore_request *r = a->r;
    const orr_explore_questions *q = &r->questions;
    orr_arena *arena = r->session.arena;
    orr_error *err = &r->session.err;
    const orr_inquiry inquiry = inquiry_of(a, r->job.cluster, &r->exploration);
    for (uint32_t i = 0; i < q->n_solves; i++) {
        const bool said = q->solves[i].question == ORR_QUESTION_DEVICES && q->deadline_ns > 0;
        if (said || orr_interrupt_requested(NULL)) /* the deadline's own question is that */
            continue;
        ORR_TRY(orr_explore_solve(&inquiry, &q->solves[i], arena, next_answer(a), err));
        ORR_TRY(keep_answer(a, r->job.cluster));
    }
    if (q->against && !orr_interrupt_requested(NULL)) {
        ORR_TRY(orr_explore_against(&inquiry, q->other, arena, next_answer(a), err));
        ORR_TRY(keep_answer(a, r->job.cluster));
    }
    if (q->changes == 0 || orr_interrupt_requested(NULL))
        return ORR_OK;
    ORR_TRY(orr_explore_what_if(&inquiry, q->changes, q->devices, q->n_devices, arena,
                                next_answer(a), err));
    return keep_answer(a, r->job.cluster);
}

static orr_status ask_all(asker *a)
{
    orr_explore_request *r = a->r;
    const orr_explore_questions *q = &r->questions;
    if (orr_interrupt_requested(NULL))
        return ORR_OK;
    if (q->n_clusters > 1)
        ORR_TRY(ask_clusters(a));
    else if (q->deadline_ns > 0 && r->exploration.n > 0)
        ORR_TRY(ask_deadline(a, r->job.cluster, &r->exploration));
    if (r->exploration.n > 0)
        return ask_of_machine(a);
    const orr_inquiry inquiry = inquiry_of(a, r->job.cluster, &r->exploration);
    return r->exploration.complete && !orr_interrupt_requested(NULL) ? ask_enough(a, &inquiry, 0)
                                                                     : ORR_OK;
}

orr_status orr_explore_ask(orr_explore_request *r)
{
    asker a = {.r = r, .what = ""};
    orr_progress_init(&a.meter, "asking", false, STDERR_FILENO, r->session.settings->quiet, NULL);
    r->options.progress = show_progress;
    r->options.progress_ctx = &a;
    r->options.stop = orr_interrupt_flag();
    const orr_status status = ask_all(&a);
    orr_progress_done(&a.meter);
    r->options.progress = NULL;
    r->options.progress_ctx = NULL;
    return status;
}
