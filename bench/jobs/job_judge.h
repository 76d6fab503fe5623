/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JOB_JUDGE_H
#define JOB_JUDGE_H

#include "job_predict.h"

/* Predictions against measurements, by group of rows. */
typedef struct job_score {
    const char *group;
    size_t n, n_unpredicted, n_plans; /* n_plans: pairs of plans of one job that tau compares  */
    double mean, worst, bias;         /* of |p / m - 1|; bias: mean of p / m - 1                */
    double tau;                       /* Kendall; NAN: no two plans of one job                  */
    double covered;                   /* share of rows within their interval; NAN              */
    size_t n_memory;
    double memory_mean, memory_worst;
} job_score;

/* Judged rows, or the fitted ones; NULL: all of training. */
void job_score_of(const job_cases *cases, const job_prediction *predictions, const char *group,
                  bool fitted, job_score *ret);
/* Groups in the order in which they first come. `ret`: shape (most). */
size_t job_groups(const job_cases *cases, const char **ret, size_t most);

#endif /* JOB_JUDGE_H */
