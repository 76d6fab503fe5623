/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/traces/predict.h"
#include "report/humanize/human.h"

/* --unprofiled: which costs of recording are taken away, what they come to, and how far off the
 * steps are that are left, where the recording says what they take without a recorder. */

/* Reads pairs, one recording each, and fits. */
static orr_status fit_costs(orr_predict *p, const char *paths)
{
    orr_session *session = &p->session;
    const char *const *files;
    const orr_graph **graphs;
    size_t n_files;
    uint32_t n = 0;
    orr_read_options options;
    orr_status status;
    ORR_TRY(orr_trace_find(&paths, 1, session->arena, &files, &n_files, &session->err));
    graphs = orr_arena_array(session->arena, const orr_graph *, n_files);
    if (graphs == NULL)
        return orr_fail_memory(&session->err);
    orr_session_read_options(session, &options);
    for (; n < n_files; n++)
        ORR_TRY_OUT(status, orr_trace_read(files[n], &options, &graphs[n], NULL, &session->err));
    status = orr_recording_costs_fit(graphs, n, &p->recording_costs, &session->err);
out:
    while (n > 0)
        orr_graph_free(graphs[--n]);
    return status;
}

orr_status orr_predict_unprofiled(orr_predict *p)
{
    const char *text = p->session.settings->unprofiled;
    if (text == NULL)
        return ORR_OK;
    if (strcmp(text, "auto") == 0)
        p->recording_costs = *orr_recording_costs_default();
    else
        ORR_TRY(fit_costs(p, text));
    p->sim.recording_costs = &p->recording_costs;
    return ORR_OK;
}

typedef struct cost_row {
    const char *cost;
    uint64_t events;
    int64_t each_ns, each_error_ns, all_ns;
    const char *basis;
} cost_row;

static const orr_column cost_columns[] = {
    {"cost", ORR_COLUMN_TEXT, offsetof(cost_row, cost)},
    {"events", ORR_COLUMN_U64, offsetof(cost_row, events)},
    {"each_ns", ORR_COLUMN_NS, offsetof(cost_row, each_ns)},
    {"each_error_ns", ORR_COLUMN_NS, offsetof(cost_row, each_error_ns)},
    {"all_ns", ORR_COLUMN_NS, offsetof(cost_row, all_ns)},
    {"basis", ORR_COLUMN_TEXT, offsetof(cost_row, basis)},
};

static double sum_ns(const orr_recording_costs *costs, const double events[ORR_RECORDING_COSTS])
{
    double ns = 0;
    for (int k = 0; k < ORR_RECORDING_COSTS; k++)
        ns += events[k] * costs->ns[k];
    return ns;
}

/* Events of the rank that recording cost most, and their rank's costs with their standard error. */
static double most_events(const orr_predict *p, double events[ORR_RECORDING_COSTS],
                          double *ret_error_ns)
{
    const orr_recording_costs *costs = &p->recording_costs;
    const orr_job *job = p->session.job;
    double most_ns = -1, variance = 0;
    for (uint32_t d = 0; d < job->n_graphs; d++) {
        double of_rank[ORR_RECORDING_COSTS];
        orr_recording_costs_count(job->graphs[d], of_rank);
        const double ns = sum_ns(costs, of_rank);
        if (ns > most_ns) {
            most_ns = ns;
            memcpy(events, of_rank, sizeof of_rank);
        }
    }
    for (int i = 0; i < ORR_RECORDING_COSTS; i++)
        for (int j = 0; j < ORR_RECORDING_COSTS; j++)
            variance += events[i] * events[j] * costs->covariance[i][j];
    *ret_error_ns = sqrt(fmax(variance, 0));
    return most_ns;
}

orr_status orr_predict_recording_costs_table(orr_predict *p, orr_table *ret)
{
    const orr_recording_costs *costs = &p->recording_costs;
    double events[ORR_RECORDING_COSTS] = {0}, error_ns;
    size_t n = 0;
    cost_row *rows = orr_arena_array(p->session.arena, cost_row, ORR_RECORDING_COSTS);
    if (rows == NULL)
        return orr_fail_memory(&p->session.err);
    most_events(p, events, &error_ns);
    for (int k = 0; k < ORR_RECORDING_COSTS; k++)
        if (events[k] > 0)
            rows[n++] = (cost_row){
                orr_recording_cost_name((orr_recording_cost_kind)k),
                (uint64_t)events[k],
                llround(costs->ns[k]),
                llround(sqrt(costs->covariance[k][k])),
                llround(events[k] * costs->ns[k]),
                costs->ns[k] > 0 ? "fitted to pairs"
                : costs->seen[k] ? "not told from none"
                                 : "in no pair: not taken away",
            };
    *ret = (orr_table){.schema = "orrery.recording_costs/1",
                       .title = "what recording cost, of the rank with most",
                       .columns = cost_columns,
                       .n_columns = sizeof cost_columns / sizeof *cost_columns,
                       .rows = rows,
                       .row_bytes = sizeof *rows,
                       .n_rows = n};
    return ORR_OK;
}

/* The mean step of a rank as predicted; 0: there is none. */
static orr_status mean_step_ns(orr_predict *p, uint32_t rank, double *ret)
{
    orr_session *session = &p->session;
    const orr_step_summary *steps;
    size_t n, of_rank = 0;
    double ns = 0;
    ORR_TRY(orr_analyze_steps(p->simulated, &session->analysis, session->arena, &steps, &n,
                              &session->err));
    for (size_t i = 0; i < n; i++)
        if (steps[i].rank == rank) {
            ns += (double)steps[i].duration_ns;
            of_rank++;
        }
    *ret = of_rank > 0 ? ns / (double)of_rank : 0;
    return ORR_OK;
}

orr_status orr_predict_bare_step(orr_predict *p, int64_t *ret_bare_ns, int64_t *ret_predicted_ns)
{
    const orr_job *job = p->session.job;
    double predicted_ns = 0;
    *ret_bare_ns = orr_recording_bare_step_ns(job->graphs[0]);
    if (*ret_bare_ns > 0)
        ORR_TRY(mean_step_ns(p, job->rank_of_graph[0], &predicted_ns));
    *ret_predicted_ns = llround(predicted_ns);
    return ORR_OK;
}

void orr_predict_print_unprofiled(const orr_predict *p, int64_t bare_ns, int64_t predicted_ns,
                                  orr_output *out)
{
    char taken[ORR_HUMAN_MAX], error[ORR_HUMAN_MAX], bare[ORR_HUMAN_MAX], left[ORR_HUMAN_MAX];
    char all[ORR_HUMAN_MAX];
    double events[ORR_RECORDING_COSTS] = {0}, error_ns;
    if (p->sim.recording_costs == NULL)
        return;
    const double ns = most_events(p, events, &error_ns);
    const double noise_ns = p->recording_costs.noise_frac * (double)p->replayed_ns;
    orr_output_printf(
        out,
        "recording cost the threads of a rank %s; standard error: %s of the costs, %s "
        "with what pairs differ by\n"
        "costs: by %u pairs of bare and recorded steps%s\n",
        orr_human_ns(taken, ns), orr_human_ns(error, error_ns),
        orr_human_ns(all, hypot(error_ns, noise_ns)), p->recording_costs.n_pairs,
        strcmp(p->session.settings->unprofiled, "auto") == 0
            ? " of PyTorch 2.15 on an AMD EPYC; other machines differ"
            : "");
    if (bare_ns > 0 && predicted_ns > 0)
        orr_output_printf(out, "bare step: %s measured, %s predicted (%+.1f %%)\n",
                          orr_human_ns(bare, (double)bare_ns),
                          orr_human_ns(left, (double)predicted_ns),
                          100 * ((double)predicted_ns / (double)bare_ns - 1));
}
