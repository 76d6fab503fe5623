/* SPDX-License-Identifier: Apache-2.0 */
#include "model/arch/dlrm.h"

#include <string.h>

/* Embedding tables of a recommendation model as they are simulated. */

static orr_status check_plan(const orr_job_shape *job, const orr_embedding_plan *plan,
                             orr_error *err)
{
    const orr_dlrm *d = &job->model->dlrm;
    const uint32_t groups = plan->groups > 0 ? plan->groups : 1,
                   replicas = job->how.members[ORR_AXIS_DP];
    if ((uint64_t)plan->ranks * groups != replicas)
        return orr_fail(err, ORR_INVALID,
                        "the plan of tables is for %u groups of %u ranks, the job has %u replicas",
                        groups, plan->ranks, replicas);
    if (plan->n_tables != d->n_tables)
        return orr_fail(err, ORR_INVALID, "the plan is of %u tables, %s has %u", plan->n_tables,
                        job->model->name, d->n_tables);
    for (uint32_t t = 0; t < plan->n_tables; t++)
        if (plan->tables[t].rows != d->tables[t].rows ||
            plan->tables[t].columns != d->tables[t].columns)
            return orr_fail(err, ORR_INVALID, "table '%s' of the plan has another size than in %s",
                            plan->tables[t].name, job->model->name);
    return ORR_OK;
}

orr_status orr_dlrm_tables_work(const orr_job_shape *job, orr_arena *arena,
                                const orr_tables_work **ret, orr_error *err)
{
    const orr_dlrm *d = &job->model->dlrm;
    const orr_tables_demand demand = {.samples = job->samples,
                                      .popularity = job->workload->popularity,
                                      .padded = job->workload->padded};
    const orr_embedding_plan *plan = job->workload->tables;
    orr_embedding_plan by_rule;
    orr_tables_work *work = orr_arena_one(arena, orr_tables_work);
    if (work == NULL)
        return orr_fail_memory(err);
    if (plan == NULL) {
        ORR_TRY(orr_embedding_plan_rule(d->tables, d->n_tables, job->how.members[ORR_AXIS_DP],
                                        arena, &by_rule, err));
        plan = &by_rule;
    }
    ORR_TRY(check_plan(job, plan, err));
    ORR_TRY(orr_tables_work_of(plan, &demand, work, err));
    *ret = work;
    return ORR_OK;
}
