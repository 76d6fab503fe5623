/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "cost/host/recording_costs.h"

/* Costs of recording from pairs of bare and recorded steps. A pair is a row of a linear model:
 *
 *   recorded step - bare step = sum over kinds of (events of the kind in a step) x cost
 *
 * with noise in proportion to the recorded step, since what disturbs a machine does so for as long
 * as one measures. Ordinary least squares of rows divided by that, with backward elimination. */
enum { KINDS = ORR_RECORDING_COSTS };

typedef struct pair {
    double events[KINDS]; /* in a step, over the recorded step */
    double excess;        /* recorded minus bare step, over the recorded step */
} pair;

static bool is_step(const orr_graph *g, orr_node_id v)
{
    static const char prefix[] = "ProfilerStep";
    return (g->kind[v] == ORR_NODE_ANNOTATION || g->kind[v] == ORR_NODE_HOST_OP) &&
           g->lanes[g->lane[v]].kind == ORR_LANE_HOST && g->start_ns[v] != ORR_TIME_NONE &&
           strncmp(orr_graph_str(g, g->name[v]), prefix, sizeof prefix - 1) == 0;
}

static orr_status observe(const orr_graph *g, pair *ret, orr_error *err)
{
    const orr_recorder recorder = orr_recorder_of(g);
    const int64_t bare_ns = orr_recording_bare_step_ns(g);
    int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
    double steps = 0, sum_ns = 0;
    if (bare_ns <= 0)
        return orr_fail(err, ORR_INVALID,
                        "the recording does not say what its step takes without a recorder: "
                        "no \"bare_step_ns\"");
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        const int64_t start_ns = g->start_ns[v];
        if (!is_step(g, v))
            continue;
        begin_ns = start_ns < begin_ns ? start_ns : begin_ns;
        end_ns = start_ns + g->duration_ns[v] > end_ns ? start_ns + g->duration_ns[v] : end_ns;
        sum_ns += (double)g->duration_ns[v];
        steps++;
    }
    if (sum_ns <= 0)
        return orr_fail(err, ORR_INVALID, "the recording has no profiler steps");
    *ret = (pair){.excess = 1 - (double)bare_ns * steps / sum_ns};
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        const uint32_t kinds = orr_recording_cost_kinds(g, recorder, v);
        if (kinds != 0 && g->start_ns[v] >= begin_ns && g->start_ns[v] < end_ns)
            for (int k = 0; k < KINDS; k++)
                ret->events[k] += (kinds >> k & 1) / sum_ns;
    }
    return ORR_OK;
}

/* The fit of the kinds that are chosen, shape (n_chosen). */
typedef struct model {
    int chosen[KINDS], n_chosen;
    double cost[KINDS];           /* ns, by place among the chosen */
    double inverse[KINDS][KINDS]; /* of the normal matrix */
    double noise;                 /* standard deviation of a row */
} model;

/* Inverts a symmetric positive matrix by Gauss-Jordan elimination. The place of the first column
 * that those before it explain, or -1. */
static int invert(double a[KINDS][KINDS], int n, double ret[KINDS][KINDS])
{
    static const double told_apart_frac = 1e-8; /* of a column's square that must be its own */
    double whole[KINDS];
    for (int i = 0; i < n; i++) {
        whole[i] = a[i][i];
        for (int j = 0; j < n; j++)
            ret[i][j] = i == j;
    }
    for (int i = 0; i < n; i++) {
        const double pivot = a[i][i];
        if (!(pivot > told_apart_frac * whole[i]))
            return i;
        for (int j = 0; j < n; j++) {
            a[i][j] /= pivot;
            ret[i][j] /= pivot;
        }
        for (int r = 0; r < n; r++) {
            const double factor = r == i ? 0 : a[r][i];
            for (int j = 0; j < n; j++) {
                a[r][j] -= factor * a[i][j];
                ret[r][j] -= factor * ret[i][j];
            }
        }
    }
    return -1;
}

/* As invert(): -1, or the place of a kind that cannot be told apart from others. */
static int fit(const pair *pairs, uint32_t n, model *m)
{
    double normal[KINDS][KINDS] = {{0}}, right[KINDS] = {0}, squares = 0;
    for (uint32_t p = 0; p < n; p++)
        for (int i = 0; i < m->n_chosen; i++) {
            const double x = pairs[p].events[m->chosen[i]];
            right[i] += x * pairs[p].excess;
            for (int j = 0; j < m->n_chosen; j++)
                normal[i][j] += x * pairs[p].events[m->chosen[j]];
        }
    const int same = invert(normal, m->n_chosen, m->inverse);
    if (same >= 0)
        return same;
    for (int i = 0; i < m->n_chosen; i++) {
        m->cost[i] = 0;
        for (int j = 0; j < m->n_chosen; j++)
            m->cost[i] += m->inverse[i][j] * right[j];
    }
    for (uint32_t p = 0; p < n; p++) {
        double rest = pairs[p].excess;
        for (int i = 0; i < m->n_chosen; i++)
            rest -= pairs[p].events[m->chosen[i]] * m->cost[i];
        squares += rest * rest;
    }
    m->noise = sqrt(squares / (n - (uint32_t)m->n_chosen));
    return -1;
}

static void leave_out(model *m, int place)
{
    m->n_chosen--;
    for (int i = place; i < m->n_chosen; i++)
        m->chosen[i] = m->chosen[i + 1];
}

/* The place of the least certain kind if its cost is under two standard errors, or -1. */
static int least_certain(const model *m)
{
    enum { STANDARD_ERRORS = 2 };
    double least = STANDARD_ERRORS;
    int found = -1;
    for (int i = 0; i < m->n_chosen; i++) {
        const double error = m->noise * sqrt(m->inverse[i][i]);
        const double certainty = error > 0 ? m->cost[i] / error : m->cost[i] > 0 ? INFINITY : 0;
        if (certainty < least) {
            least = certainty;
            found = i;
        }
    }
    return found;
}

static void choose(const pair *pairs, uint32_t n, orr_recording_costs *ret)
{
    model m = {.n_chosen = 0};
    *ret = (orr_recording_costs){.n_pairs = n};
    for (int k = 0; k < KINDS; k++) {
        for (uint32_t p = 0; p < n; p++)
            ret->seen[k] |= pairs[p].events[k] > 0;
        if (ret->seen[k])
            m.chosen[m.n_chosen++] = k;
    }
    for (int out = 0; m.n_chosen > 0 && out >= 0;) {
        out = (uint32_t)m.n_chosen < n ? fit(pairs, n, &m) : m.n_chosen - 1;
        if (out < 0)
            out = least_certain(&m);
        if (out >= 0)
            leave_out(&m, out);
    }
    for (int i = 0; i < m.n_chosen; i++) {
        ret->ns[m.chosen[i]] = m.cost[i];
        for (int j = 0; j < m.n_chosen; j++)
            ret->covariance[m.chosen[i]][m.chosen[j]] = m.noise * m.noise * m.inverse[i][j];
        ret->noise_frac = m.noise;
    }
}

orr_status orr_recording_costs_fit(const orr_graph *const *graphs, uint32_t n,
                                   orr_recording_costs *ret, orr_error *err)
{
    enum { LEAST_PAIRS = 3 }; /* a cost, and two more to see how well it holds */
    orr_status status = ORR_OK;
    pair *pairs;
    if (n < LEAST_PAIRS)
        return orr_fail(err, ORR_INVALID,
                        "%u pairs of bare and recorded steps are too few: at least %d", n,
                        LEAST_PAIRS);
    pairs = orr_calloc(n, sizeof *pairs);
    if (pairs == NULL)
        return orr_fail_memory(err);
    for (uint32_t p = 0; p < n && status == ORR_OK; p++)
        status = observe(graphs[p], &pairs[p], err);
    if (status == ORR_OK)
        choose(pairs, n, ret);
    orr_free(pairs);
    return status;
}
