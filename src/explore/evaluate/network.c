/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include <orrery/explore.h>

/* The finalists of a search with the transfers over cuts as flows, and their order by that. */

static const double TOLD_FRAC = 0.03;

bool orr_explore_has_network(const orr_cluster *cluster)
{
    bool has = cluster->n_sites > 1;
    for (uint32_t k = 1; k < cluster->n_levels; k++)
        has |= cluster->levels[k].transport != NULL;
    return has;
}

static orr_status check_plan(const orr_model *model, const orr_plan *plan,
                             const orr_cluster *cluster, const orr_explore_options *options,
                             const orr_network_check_options *how, orr_network_check *ret,
                             orr_error *err)
{
    orr_job_options job;
    orr_outcome outcome = {0};
    orr_arena *arena = orr_arena_new(0, 0);
    if (arena == NULL)
        return orr_fail_memory(err);
    orr_job_options_init(&job);
    job.workload = options->workload;
    job.software_year = options->software_year;
    orr_status status = orr_outcome_of(model, plan, cluster, &job, arena, &outcome, err);
    if (status == ORR_OK)
        status = orr_outcome_network(&outcome, how, ret, err);
    orr_outcome_free(&outcome);
    orr_arena_free(arena);
    return status;
}

/* The objective with the mean step in place of the closed form's. */
static double value_of(const orr_explored *plan, const orr_network_check *check, uint8_t objective)
{
    const double frac = (double)check->mean_ns / (double)check->closed_ns;
    return plan->value[objective] * (objective == ORR_OBJECTIVE_DEVICES ? 1 : frac);
}

/* Insertion sort: few plans, and equal ones keep their order. */
static void rank_anew(const orr_explore_options *options, orr_explored *plans,
                      orr_explored_network *rows, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        const orr_explored plan = plans[i];
        const orr_explored_network row = rows[i];
        uint32_t at = i;
        for (; at > 0 && value_of(&plan, &row.check, options->objective) <
                             value_of(&plans[at - 1], &rows[at - 1].check, options->objective);
             at--) {
            plans[at] = plans[at - 1];
            rows[at] = rows[at - 1];
        }
        plans[at] = plan;
        rows[at] = row;
    }
}

orr_status orr_explore_network(const orr_model *model, const orr_cluster *cluster,
                               const orr_explore_options *options,
                               const orr_network_check_options *how, uint32_t most,
                               orr_exploration *exploration, orr_arena *arena,
                               const orr_explored_network **ret, uint32_t *ret_n, orr_error *err)
{
    const uint32_t n = most < exploration->n ? most : exploration->n;
    orr_explored_network *rows = orr_arena_array(arena, orr_explored_network, n);
    orr_explored *plans = orr_arena_array(arena, orr_explored, exploration->n);
    uint32_t done = 0;
    bool any = false;
    if (rows == NULL || plans == NULL)
        return orr_fail_memory(err);
    memcpy(plans, exploration->best, exploration->n * sizeof *plans);
    for (; done < n && (options->stop == NULL || !*options->stop); done++) {
        orr_network_check *check = &rows[done].check;
        ORR_TRY(check_plan(model, &plans[done].plan, cluster, options, how, check, err));
        rows[done].was = done;
        rows[done].told = fabs((double)check->mean_ns / (double)check->closed_ns - 1) > TOLD_FRAC;
        any |= rows[done].told;
    }
    if (any)
        rank_anew(options, plans, rows, done);
    exploration->best = plans;
    *ret = rows;
    *ret_n = done;
    return ORR_OK;
}
