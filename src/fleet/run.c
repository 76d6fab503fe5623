/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/run.h"

#include <math.h>

#include "base/alloc.h"

static bool is_zero(const orr_fleet_options *o, orr_fleet_times which)
{
    return orr_fleet_time_mean_ns(&o->times[which].time) == 0;
}

static void begin(orr_fleet_trial *trial)
{
    const orr_fleet_options *o = trial->options;
    const uint32_t replicas = trial->policy.replicas;
    trial->saves_free = trial->policy.recovery != ORR_FLEET_FT && is_zero(o, ORR_FLEET_SAVE) &&
                        is_zero(o, ORR_FLEET_CHECKPOINT);
    trial->save_every_ns = orr_fleet_checkpoint_ns(o, &trial->policy);
    trial->next_save_ns = trial->save_every_ns;
    trial->init_ns = orr_fleet_init_ns(o, (o->gpus + replicas - 1) / replicas);
    trial->run.replicas = replicas;
    if (o->tokens > 0)
        trial->budget = (uint64_t)ceil(fmin(o->tokens / o->tokens_per_step * replicas, 0x1p62));
    for (uint32_t i = 0; i < replicas; i++)
        trial->replicas[i] = (orr_fleet_replica){
            .phase = ORR_PHASE_UP, .until_ns = INT64_MAX, .found_ns = INT64_MAX};
    orr_fleet_team_init(&trial->team, replicas);
    orr_fleet_resume_steps(trial);
}

/* --- events ---------------------------------------------------------------------------------- */

static int64_t state_until(const orr_fleet_trial *trial)
{
    return trial->state == ORR_FLEET_RUNNING ? orr_fleet_next_commit(trial) : trial->until_ns;
}

static int64_t next_event(const orr_fleet_trial *trial)
{
    int64_t at = trial->options->horizon_ns;
    const int64_t state = state_until(trial);
    at = trial->faults.next.at_ns < at ? trial->faults.next.at_ns : at;
    at = state < at ? state : at;
    for (uint32_t i = 0; i < trial->policy.replicas; i++) {
        const orr_fleet_replica *r = &trial->replicas[i];
        at = r->until_ns < at ? r->until_ns : at;
        at = r->found_ns < at ? r->found_ns : at;
    }
    return at;
}

static bool any_replica(const orr_fleet_trial *trial, bool joins)
{
    bool is = false;
    for (uint32_t i = 0; i < trial->policy.replicas; i++)
        is |= joins ? trial->replicas[i].phase == ORR_PHASE_JOINING : trial->replicas[i].leaving;
    return is;
}

/* The last replica with the state is about to leave: the state is saved first. */
static bool must_save_first(const orr_fleet_trial *trial)
{
    for (uint32_t i = 0; i < trial->policy.replicas; i++)
        if (trial->replicas[i].phase == ORR_PHASE_UP && !trial->replicas[i].leaving)
            return false;
    return trial->steps_since > 0;
}

static void save(orr_fleet_trial *trial)
{
    trial->state = ORR_FLEET_SAVING;
    trial->until_ns = trial->now_ns + orr_fleet_trial_draw(trial, ORR_FLEET_SAVE);
}

static void at_commit(orr_fleet_trial *trial)
{
    orr_fleet_commit_steps(trial);
    if (trial->budget > 0 && trial->run.replica_steps >= trial->budget) {
        trial->run.budget_met = trial->over = true;
        return;
    }
    const bool leaves = any_replica(trial, false);
    if (leaves && must_save_first(trial))
        save(trial);
    else if (leaves || any_replica(trial, true))
        orr_fleet_form(trial, false);
    else if (!trial->saves_free && trial->now_ns >= trial->next_save_ns)
        save(trial);
    else
        orr_fleet_resume_steps(trial);
}

static void state_ends(orr_fleet_trial *trial)
{
    switch ((orr_fleet_state)trial->state) {
    case ORR_FLEET_RUNNING:
        at_commit(trial);
        break;
    case ORR_FLEET_DETECTING:
        orr_fleet_form(trial, true);
        break;
    case ORR_FLEET_SAVING:
        orr_fleet_mark_checkpoint(trial);
        trial->next_save_ns = trial->now_ns + trial->save_every_ns;
        if (any_replica(trial, false))
            orr_fleet_form(trial, false);
        else
            orr_fleet_resume_steps(trial);
        break;
    default: /* REGROUPING or REJOINING is over */
        if (trial->state == ORR_FLEET_REGROUPING && trial->joined) {
            trial->state = ORR_FLEET_REJOINING;
            trial->until_ns = trial->now_ns + orr_fleet_trial_draw(trial, ORR_FLEET_REJOIN);
        } else {
            orr_fleet_resume_steps(trial);
        }
        trial->joined = false;
    }
}

/* Handles one of the events that are due, in a fixed order. */
static void handle_event(orr_fleet_trial *trial)
{
    for (uint32_t i = 0; i < trial->policy.replicas; i++) {
        if (trial->replicas[i].until_ns <= trial->now_ns) {
            orr_fleet_replica_due(trial, i);
            return;
        }
        if (trial->replicas[i].found_ns <= trial->now_ns) {
            orr_fleet_slow_found(trial, i);
            return;
        }
    }
    if (state_until(trial) <= trial->now_ns) {
        state_ends(trial);
    } else if (trial->faults.next.at_ns <= trial->now_ns) {
        orr_fleet_apply_fault(trial, &trial->faults.next);
        orr_fault_source_next(&trial->faults);
    }
}

/* Books the unfinished attempt at the horizon. */
static void end(orr_fleet_trial *trial)
{
    orr_fleet_commit_steps(trial);
    const int64_t attempt =
        trial->state == ORR_FLEET_RUNNING ? trial->now_ns - trial->begin_ns : trial->credit_ns;
    trial->run.lost[ORR_FLEET_LOSS_RETRY] += attempt * trial->policy.replicas;
    trial->run.wall_ns = trial->now_ns;
    trial->run.worst_node = trial->faults.worst;
}

orr_status orr_fleet_simulate(const orr_fleet_options *options, const orr_fleet_policy *policy,
                              uint32_t repetition, orr_fleet_timeline *timeline, orr_fleet_run *ret,
                              orr_error *err)
{
    orr_status status;
    ORR_TRY(orr_fleet_check(options, policy, err));
    orr_fleet_trial *trial = orr_calloc(1, sizeof *trial);
    if (trial == NULL)
        return orr_fail_memory(err);
    trial->options = options;
    trial->policy = *policy;
    trial->timeline = timeline;
    trial->nodes = orr_fleet_nodes(options);
    trial->random = orr_random_of(options->seed, 2 * (uint64_t)repetition + 1);
    trial->spare_at = orr_calloc((size_t)policy->spares + 1, sizeof *trial->spare_at);
    status = trial->spare_at != NULL ? ORR_OK : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, orr_fault_source_init(&trial->faults, options, repetition, err));
    begin(trial);
    while (!trial->over && trial->now_ns < options->horizon_ns) {
        orr_fleet_advance(trial, next_event(trial));
        if (trial->now_ns < options->horizon_ns)
            handle_event(trial);
    }
    end(trial);
    *ret = trial->run;
    orr_fault_source_done(&trial->faults);
out:
    orr_free(trial->spare_at);
    orr_free(trial);
    return status;
}
