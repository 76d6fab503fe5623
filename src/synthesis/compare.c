/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <orrery/analysis.h>

#include "base/array.h"
#include "synthesis/synthesis.h"

/* The generated job held against what it was learnt from. Both are simulated, so that the error of
 * a replay is no part of the difference; of a source, what the steps do not hold is left out. */
enum { LAGS = 16, LEAST = 4 * LAGS, QUANTILES = 19 };

typedef enum kind_of_work { OPERATORS, CALLS, KERNELS, COPIES, TRANSFERS, KINDS } kind_of_work;
static const char *const kind_names[KINDS] = {"host operator", "runtime call", "kernel",
                                              "copy and set", "communication"};

typedef orr_array(int64_t) series;

/* What is known of one job. */
typedef struct profile {
    const orr_job *job; /* simulated */
    series sorted[KINDS];
    series first[KINDS]; /* of the first rank, in order */
    uint32_t ranks, steps;
    int64_t step_ns;
    double exposed_frac;
} profile;

static int compare_ns(const void *a_, const void *b_)
{
    const int64_t a = *(const int64_t *)a_, b = *(const int64_t *)b_;
    return a < b ? -1 : a > b;
}

double orr_ks_distance(const int64_t *a, size_t n_a, const int64_t *b, size_t n_b)
{
    double largest = 0;
    if (n_a == 0 || n_b == 0)
        return NAN;
    for (size_t i = 0, k = 0; i < n_a && k < n_b;) {
        const int64_t at = a[i] < b[k] ? a[i] : b[k];
        while (i < n_a && a[i] == at)
            i++;
        while (k < n_b && b[k] == at)
            k++;
        const double distance = fabs((double)i / (double)n_a - (double)k / (double)n_b);
        largest = distance > largest ? distance : largest;
    }
    return largest;
}

static double log_ns(int64_t ns)
{
    return log((double)(ns > 0 ? ns : 0) + 1);
}

/* Autocorrelation of log durations; false: too short or constant. */
static bool autocorrelate(const int64_t *at, size_t n, double ret[LAGS + 1])
{
    double mean = 0;
    for (size_t i = 0; i < n; i++)
        mean += log_ns(at[i]) / (double)n;
    for (size_t lag = 0; lag <= LAGS; lag++) {
        ret[lag] = 0;
        for (size_t i = 0; i + lag < n; i++)
            ret[lag] += (log_ns(at[i]) - mean) * (log_ns(at[i + lag]) - mean);
    }
    if (n < LEAST || ret[0] <= 1e-9 * (double)n)
        return false;
    for (size_t lag = LAGS + 1; lag-- > 0;)
        ret[lag] /= ret[0];
    return true;
}

double orr_autocorrelation_difference(const int64_t *a, size_t n_a, const int64_t *b, size_t n_b,
                                      double *ret_a, double *ret_b)
{
    double of_a[LAGS + 1], of_b[LAGS + 1], largest = 0;
    const bool known_a = autocorrelate(a, n_a, of_a), known_b = autocorrelate(b, n_b, of_b);
    if (ret_a != NULL)
        *ret_a = known_a ? of_a[1] : NAN;
    if (ret_b != NULL)
        *ret_b = known_b ? of_b[1] : NAN;
    if (!known_a || !known_b)
        return NAN;
    for (int lag = 1; lag <= LAGS; lag++)
        largest = fmax(largest, fabs(of_a[lag] - of_b[lag]));
    return largest;
}

static int kind_of(const orr_graph *g, orr_node_id v)
{
    switch (g->kind[v]) {
    case ORR_NODE_HOST_OP:
        return OPERATORS;
    case ORR_NODE_RUNTIME:
        return CALLS;
    case ORR_NODE_COMPUTE:
        return KERNELS;
    case ORR_NODE_COPY:
    case ORR_NODE_SET:
        return COPIES;
    case ORR_NODE_COLLECTIVE:
    case ORR_NODE_SEND:
    case ORR_NODE_RECV:
        return TRANSFERS;
    default:
        return KINDS;
    }
}

/* `source` NULL: all nodes of the graph count, else those of its steps. */
static orr_status read_rank(profile *p, const orr_source *source, uint32_t rank, int64_t *first_ns,
                            int64_t *last_ns, orr_error *err)
{
    const orr_graph *g = p->job->graphs[rank];
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const orr_node_id v = g->lane_node[i];
        const int kind = kind_of(g, v);
        const int64_t start_ns = orr_job_start_ns(p->job, rank, v);
        if (kind == KINDS || start_ns == ORR_TIME_NONE ||
            (source != NULL && !orr_source_has(source, rank, v)))
            continue;
        *first_ns = start_ns < *first_ns ? start_ns : *first_ns;
        *last_ns =
            start_ns + g->duration_ns[v] > *last_ns ? start_ns + g->duration_ns[v] : *last_ns;
        if (!orr_array_push(&p->sorted[kind], g->duration_ns[v]) ||
            (rank == 0 && !orr_array_push(&p->first[kind], g->duration_ns[v])))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

static orr_status read_exposed(profile *p, const orr_analysis_options *options, orr_arena *arena,
                               orr_error *err)
{
    const orr_temporal *rows;
    size_t n;
    double sum = 0;
    ORR_TRY(orr_analyze_temporal(p->job, options, arena, &rows, &n, err));
    for (size_t i = 0; i < n; i++)
        if (rows[i].span_ns > 0)
            sum += (double)rows[i].exposed_comm_ns / (double)rows[i].span_ns;
    p->exposed_frac = n == 0 || p->sorted[TRANSFERS].n == 0 ? NAN : sum / (double)n;
    return ORR_OK;
}

/* Within steps, where the recording has them. */
static orr_status read_profile(const orr_job *job, const orr_source *source, uint32_t steps,
                               const char *annotation, orr_arena *arena, profile *p, orr_error *err)
{
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
    p->job = job;
    p->ranks = job->n_graphs;
    p->steps = steps;
    for (uint32_t r = 0; r < job->n_graphs; r++)
        ORR_TRY(read_rank(p, source, r, &first_ns, &last_ns, err));
    for (int kind = 0; kind < KINDS; kind++)
        if (p->sorted[kind].n > 1)
            qsort(p->sorted[kind].at, p->sorted[kind].n, sizeof(int64_t), compare_ns);
    p->step_ns = last_ns > first_ns ? (last_ns - first_ns) / steps : 0;
    orr_analysis_options options;
    orr_analysis_options_init(&options);
    if (source != NULL && source->annotated) {
        options.annotation = annotation;
        options.step_first = 0;
        options.step_last = INT32_MAX;
    }
    return read_exposed(p, &options, arena, err);
}

static void drop(profile *p)
{
    for (int kind = 0; kind < KINDS; kind++) {
        orr_array_done(&p->sorted[kind]);
        orr_array_done(&p->first[kind]);
    }
}

static double quantile(const series *s, double u)
{
    return (double)s->at[(size_t)(u * (double)(s->n - 1))];
}

static double quantile_error(const series *a, const series *b)
{
    double sum = 0;
    if (a->n == 0 || b->n == 0)
        return NAN;
    for (int i = 1; i <= QUANTILES; i++) {
        const double u = (double)i / (QUANTILES + 1);
        sum += fabs(log(fmax(1, quantile(a, u)) / fmax(1, quantile(b, u))));
    }
    return expm1(sum / QUANTILES);
}

static orr_distribution_row distribution(const profile *of, const profile *made, uint32_t source,
                                         int kind)
{
    const series *a = &of->sorted[kind], *b = &made->sorted[kind];
    orr_distribution_row row = {
        .source = source + 1,
        .what = kind_names[kind],
        .count = (double)a->n / of->ranks / of->steps,
        .synthetic_count = (double)b->n / made->ranks / made->steps,
        .median_ns = a->n > 0 ? (int64_t)quantile(a, 0.5) : 0,
        .synthetic_median_ns = b->n > 0 ? (int64_t)quantile(b, 0.5) : 0,
        .ks = orr_ks_distance(a->at, a->n, b->at, b->n),
        .quantile_error_frac = quantile_error(a, b),
    };
    row.autocorrelation_difference = orr_autocorrelation_difference(
        of->first[kind].at, of->first[kind].n, made->first[kind].at, made->first[kind].n,
        &row.autocorrelation, &row.synthetic_autocorrelation);
    return row;
}

static double share_of(const orr_synthesis *s, uint32_t source)
{
    double own_ns = 0, all_ns = 0;
    for (uint32_t i = 0; i < s->walk.n_runs; i++) {
        const orr_block_run *run = &s->walk.runs[i];
        const orr_source *of = &s->sources[run->source];
        const double ns = (double)(orr_source_cut_ns(of, run->to_cut, 0) -
                                   orr_source_cut_ns(of, run->from_cut, 0));
        all_ns += ns;
        own_ns += run->source == source ? ns : 0;
    }
    return all_ns > 0 ? own_ns / all_ns : 0;
}

static double relative(double made, double of)
{
    return of > 0 ? made / of - 1 : NAN;
}

static orr_synthesis_row compare_one(const orr_synthesis *s, uint32_t source, const char *name,
                                     const profile *of, const profile *made)
{
    return (orr_synthesis_row){
        .source = source + 1,
        .name = name,
        .followed = source == s->walk.follows,
        .share_frac = share_of(s, source),
        .ranks = of->ranks,
        .synthetic_ranks = made->ranks,
        .steps = of->steps,
        .synthetic_steps = made->steps,
        .step_ns = of->step_ns,
        .synthetic_step_ns = made->step_ns,
        .step_error_frac = relative((double)made->step_ns, (double)of->step_ns),
        .exposed_frac = of->exposed_frac,
        .synthetic_exposed_frac = made->exposed_frac,
        .exposed_difference_frac = made->exposed_frac - of->exposed_frac,
    };
}

/* The source's own replay. */
static orr_status profile_source(const orr_synthesis *s, uint32_t source, profile *ret,
                                 const orr_job **ret_job, orr_arena *arena, orr_error *err)
{
    const orr_source *of = &s->sources[source];
    const orr_ensemble *ensemble;
    orr_sim_options options;
    orr_simulation simulation;
    orr_sim_options_init(&options);
    options.threads = s->threads;
    options.fold = false;
    ORR_TRY(orr_ensemble_of_job(of->job, arena, &ensemble, err));
    ORR_TRY(orr_simulate(ensemble, &options, arena, &simulation, err));
    ORR_TRY(orr_simulation_job(&simulation, of->job, ret_job, err));
    return read_profile(*ret_job, of, of->n_steps, s->annotation, arena, ret, err);
}

static orr_status compare_source(const orr_synthesis *s, uint32_t source, const char *name,
                                 const profile *made, orr_synthesis_row *row,
                                 orr_distribution_row *rows, size_t *n_rows, orr_error *err)
{
    profile of = {0};
    const orr_job *job = NULL;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_status status =
        arena == NULL ? orr_fail_memory(err) : profile_source(s, source, &of, &job, arena, err);
    if (status == ORR_OK) {
        *row = compare_one(s, source, name, &of, made);
        for (int kind = 0; kind < KINDS; kind++)
            if (of.sorted[kind].n > 0 || made->sorted[kind].n > 0)
                rows[(*n_rows)++] = distribution(&of, made, source, kind);
    }
    drop(&of);
    orr_job_free(job);
    orr_arena_free(arena);
    return status;
}

orr_status orr_synthesis_compare(const orr_synthesis *s, const char *const *names, orr_arena *arena,
                                 orr_synthesis_comparison *ret, orr_error *err)
{
    profile made = {0};
    size_t n_rows = 0;
    orr_synthesis_row *rows = orr_arena_array(arena, orr_synthesis_row, s->n_sources);
    orr_distribution_row *distributions =
        orr_arena_array(arena, orr_distribution_row, (size_t)s->n_sources * KINDS);
    if (rows == NULL || distributions == NULL)
        return orr_fail_memory(err);
    orr_status status =
        read_profile(s->job, NULL, s->walk.n_steps, s->annotation, arena, &made, err);
    for (uint32_t i = 0; i < s->n_sources && status == ORR_OK; i++)
        status = compare_source(s, i, names[i], &made, &rows[i], distributions, &n_rows, err);
    drop(&made);
    if (status == ORR_OK)
        *ret = (orr_synthesis_comparison){rows, s->n_sources, distributions, n_rows};
    return status;
}
