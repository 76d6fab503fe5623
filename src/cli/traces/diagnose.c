/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/traces/diagnose.h"

#include <stdlib.h>
#include <string.h>

/* `orrery diagnose`: candidates (diagnose_causes.c) are mended one at a time by what `orrery
 * predict` would do with the option that is printed beside them, so that the figure is the
 * command's. Those that would bring too little are left out. */
static const double least_frac = 0.01;

/* What the recording would take with these settings. NOT_FOUND: nothing is mended by them. */
static orr_status predict_span(orr_diagnosis *d, const orr_settings *settings, int64_t *ret_ns)
{
    orr_predict p = {.session = {.settings = settings, .job = d->session.job},
                     .replayed_ns = d->replayed_ns};
    p.session.arena = orr_arena_new(0, 0);
    orr_status status = p.session.arena ? ORR_OK : orr_fail_memory(&p.session.err);
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, orr_predict_options(&p));
    ORR_TRY_OUT(status, orr_predict_devices(&p));
    ORR_TRY_OUT(status, orr_predict_run(&p));
    *ret_ns = p.simulation.end_ns - p.simulation.begin_ns;
out:
    if (status != ORR_OK)
        d->session.err = p.session.err;
    orr_arena_free(p.session.arena);
    return status;
}

/* The recording as it was: its replay, and the device that it names. */
static orr_status replay(orr_diagnosis *d)
{
    d->unchanged.session = d->session;
    const orr_status status = orr_predict_options(&d->unchanged);
    if (status != ORR_OK || orr_predict_devices(&d->unchanged) != ORR_OK ||
        orr_predict_run(&d->unchanged) != ORR_OK) {
        d->session.err = d->unchanged.session.err;
        return d->session.err.status;
    }
    d->replayed_ns = d->unchanged.replayed_ns;
    d->read_frac = d->unchanged.read_frac;
    d->recorded_ns = orr_recorded_span_ns(d->session.job, ORR_NONE);
    return ORR_OK;
}

static const char *joined(orr_arena *arena, const char *list, const char *item)
{
    if (list == NULL || item == NULL)
        return item;
    const size_t n = strlen(list), m = strlen(item);
    char *both = orr_arena_array(arena, char, n + m + 2);
    if (both == NULL)
        return NULL;
    memcpy(both, list, n);
    both[n] = ',';
    memcpy(both + n + 1, item, m + 1);
    return both;
}

orr_status orr_diagnosis_mend(orr_diagnosis *d, const orr_lost *lost, orr_settings *settings)
{
    orr_arena *arena = d->session.arena;
    if (strcmp(lost->option, "cuda-graph") == 0) {
        settings->cuda_graph = true;
        return ORR_OK;
    }
    if (strcmp(lost->option, "without-stragglers") == 0) {
        /* of all ranks, whatever else: ranks alone are parts of that */
        const char *was = settings->without_stragglers;
        const bool all = strcmp(lost->value, "all") == 0 || (was && strcmp(was, "all") == 0);
        settings->without_stragglers = all ? "all" : joined(arena, was, lost->value);
        return settings->without_stragglers ? ORR_OK : orr_fail_memory(&d->session.err);
    }
    const char **list = strcmp(lost->option, "remove") == 0 ? &settings->remove : &settings->scale;
    *list = joined(arena, *list, lost->value);
    return *list != NULL ? ORR_OK : orr_fail_memory(&d->session.err);
}

static int most_gain_first(const void *a_, const void *b_)
{
    const orr_lost *a = a_, *b = b_;
    if (a->gain_ns != b->gain_ns)
        return a->gain_ns > b->gain_ns ? -1 : 1;
    const int by_cause = strcmp(a->cause, b->cause);
    return by_cause != 0 ? by_cause : strcmp(a->where, b->where);
}

/* One after the other, then all that are left together. */
static orr_status mend(orr_diagnosis *d)
{
    const double least_ns = least_frac * (double)d->replayed_ns;
    size_t kept = 0;
    d->all_mended = *d->session.settings;
    d->together_ns = d->replayed_ns;
    for (size_t i = 0; i < d->n_lost; i++) {
        orr_settings settings = *d->session.settings;
        int64_t ns = d->replayed_ns;
        ORR_TRY(orr_diagnosis_mend(d, &d->lost[i], &settings));
        const orr_status status = predict_span(d, &settings, &ns);
        if (status != ORR_OK && status != ORR_NOT_FOUND)
            return status;
        d->lost[i].gain_ns = d->replayed_ns - ns;
        if ((double)d->lost[i].gain_ns >= least_ns)
            d->lost[kept++] = d->lost[i];
    }
    d->n_lost = kept;
    if (kept == 0)
        return ORR_OK;
    qsort(d->lost, kept, sizeof *d->lost, most_gain_first);
    for (size_t i = 0; i < kept; i++)
        ORR_TRY(orr_diagnosis_mend(d, &d->lost[i], &d->all_mended));
    return predict_span(d, &d->all_mended, &d->together_ns);
}

static orr_status diagnose(orr_diagnosis *d)
{
    ORR_TRY(replay(d));
    const int64_t least_ns = (int64_t)(least_frac * (double)d->replayed_ns);
    ORR_TRY(orr_diagnose_candidates(&d->session, d->unchanged.what.from,
                                    least_ns > 0 ? least_ns : 1, &d->lost, &d->n_lost));
    ORR_TRY(mend(d));
    return orr_diagnosis_print(d);
}

int orr_command_diagnose(const orr_settings *settings)
{
    orr_diagnosis d = {0};
    int code = EXIT_DONE;
    if (orr_session_init(&d.session, settings) != ORR_OK ||
        orr_session_analysis(&d.session) != ORR_OK ||
        orr_session_load(&d.session, settings->args, settings->n_args) != ORR_OK ||
        diagnose(&d) != ORR_OK)
        code = orr_session_fail(&d.session);
    orr_session_done(&d.session);
    return code;
}
