/* SPDX-License-Identifier: Apache-2.0 */
#include "job_judge.h"

#include <math.h>
#include <string.h>

size_t job_groups(const job_cases *cases, const char **ret, size_t most)
{
    size_t n = 0;
    for (size_t i = 0; i < cases->n; i++) {
        size_t k = 0;
        while (k < n && strcmp(ret[k], cases->at[i].group) != 0)
            k++;
        if (k == n && n < most)
            ret[n++] = cases->at[i].group;
    }
    return n;
}

static bool counts(const job_case *c, const char *group, bool fitted)
{
    return c->fitted == fitted &&
           (group == NULL ? c->measure == JOB_STEP : strcmp(c->group, group) == 0);
}

/* Two plans for one job: what somebody who chooses a plan compares. */
static bool same_job(const job_case *a, const job_case *b)
{
    const orr_model *m = a->model, *k = b->model;
    if (a->measure != JOB_STEP || b->measure != JOB_STEP || !(a->seconds > 0) || !(b->seconds > 0))
        return false;
    return strcmp(a->table, b->table) == 0 && m->layers == k->layers && m->hidden == k->hidden &&
           m->vocab == k->vocab && m->moe.experts == k->moe.experts &&
           a->workload.seq == b->workload.seq && a->workload.task == b->workload.task &&
           a->plan.batch == b->plan.batch && orr_plan_ranks(&a->plan) == orr_plan_ranks(&b->plan) &&
           a->plan.precision == b->plan.precision && strcmp(a->cluster, b->cluster) == 0 &&
           a->configuration != b->configuration;
}

static double sign(double x)
{
    return (x > 0) - (x < 0);
}

static void rank_plans(const job_cases *cases, const job_prediction *p, const char *group,
                       bool fitted, job_score *score)
{
    double sum = 0;
    for (size_t i = 0; i < cases->n; i++) {
        const job_case *a = &cases->at[i];
        if (!counts(a, group, fitted) || !(p[i].seconds > 0))
            continue;
        for (size_t k = i + 1; k < cases->n; k++) {
            const job_case *b = &cases->at[k];
            if (!counts(b, group, fitted) || !(p[k].seconds > 0) || !same_job(a, b))
                continue;
            sum += sign(p[i].seconds - p[k].seconds) * sign(a->seconds - b->seconds);
            score->n_plans++;
        }
    }
    score->tau = score->n_plans > 0 ? sum / (double)score->n_plans : NAN;
}

static void add_memory(const job_case *c, const job_prediction *p, job_score *score)
{
    if (isnan(c->memory_gib) || isnan(p->memory_gib))
        return;
    const double error = fabs(p->memory_gib / c->memory_gib - 1);
    score->memory_worst = fmax(score->memory_worst, error);
    score->memory_mean += error;
    score->n_memory++;
}

void job_score_of(const job_cases *cases, const job_prediction *predictions, const char *group,
                  bool fitted, job_score *ret)
{
    job_score score = {.group = group};
    size_t n_covered = 0, n_interval = 0;
    for (size_t i = 0; i < cases->n; i++) {
        const job_case *c = &cases->at[i];
        const job_prediction *p = &predictions[i];
        if (!counts(c, group, fitted))
            continue;
        if (!(p->seconds > 0) && (c->seconds > 0 || !(p->memory_gib > 0))) {
            score.n_unpredicted++;
            continue;
        }
        add_memory(c, p, &score);
        if (!(c->seconds > 0))
            continue;
        const double error = p->seconds / c->seconds - 1;
        score.n++;
        score.mean += fabs(error);
        score.bias += error;
        score.worst = fmax(score.worst, fabs(error));
        if (p->low_s > 0) {
            n_interval++;
            n_covered += c->seconds >= p->low_s && c->seconds <= p->high_s;
        }
    }
    const double n = score.n > 0 ? (double)score.n : NAN;
    score.mean /= n;
    score.bias /= n;
    score.memory_mean /= score.n_memory > 0 ? (double)score.n_memory : NAN;
    score.covered = n_interval > 0 ? (double)n_covered / (double)n_interval : NAN;
    rank_plans(cases, predictions, group, fitted, &score);
    *ret = score;
}
