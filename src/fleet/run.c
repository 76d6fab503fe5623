/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/run.h"

#include <math.h>

#include "base/alloc.h"

static bool is_zero(const orr_fleet_options *o, orr_fleet_times which)
{
    return orr_fleet_time_mean_ns(&o->times[which].time) == 0;
}

static void begin(orr_fleet_life *life)
{
    const orr_fleet_options *o = life->options;
    const uint32_t replicas = life->policy.replicas;
    life->saves_free = life->policy.way != ORR_FLEET_FT && is_zero(o, ORR_FLEET_SAVE) &&
                       is_zero(o, ORR_FLEET_CHECKPOINT);
    life->save_every_ns = orr_fleet_checkpoint_ns(o, &life->policy);
    life->next_save_ns = life->save_every_ns;
    life->init_ns = orr_fleet_init_ns(o, (o->gpus + replicas - 1) / replicas);
    life->run.replicas = replicas;
    if (o->tokens > 0)
        life->budget = (uint64_t)ceil(fmin(o->tokens / o->tokens_per_step * replicas, 0x1p62));
    for (uint32_t i = 0; i < replicas; i++)
        life->replicas[i] = (orr_fleet_replica){
            .phase = ORR_PHASE_UP, .until_ns = INT64_MAX, .found_ns = INT64_MAX};
    orr_fleet_team_init(&life->team, replicas);
    orr_fleet_begin_stretch(life);
}

/* --- what is next, and what it does ----------------------------------------------------------- */

static int64_t state_until(const orr_fleet_life *life)
{
    return life->state == ORR_FLEET_RUNNING ? orr_fleet_next_commit(life) : life->until_ns;
}

static int64_t next_event(const orr_fleet_life *life)
{
    int64_t at = life->options->horizon_ns;
    const int64_t state = state_until(life);
    at = life->faults.next.at_ns < at ? life->faults.next.at_ns : at;
    at = state < at ? state : at;
    for (uint32_t i = 0; i < life->policy.replicas; i++) {
        const orr_fleet_replica *r = &life->replicas[i];
        at = r->until_ns < at ? r->until_ns : at;
        at = r->found_ns < at ? r->found_ns : at;
    }
    return at;
}

static bool somebody(const orr_fleet_life *life, bool joins)
{
    bool is = false;
    for (uint32_t i = 0; i < life->policy.replicas; i++)
        is |= joins ? life->replicas[i].phase == ORR_PHASE_JOINING : life->replicas[i].leaving;
    return is;
}

/* The last with the state is to leave: what it has is written first. */
static bool must_save_first(const orr_fleet_life *life)
{
    for (uint32_t i = 0; i < life->policy.replicas; i++)
        if (life->replicas[i].phase == ORR_PHASE_UP && !life->replicas[i].leaving)
            return false;
    return life->steps_since > 0;
}

static void save(orr_fleet_life *life)
{
    life->state = ORR_FLEET_SAVING;
    life->until_ns = life->now_ns + orr_fleet_life_draw(life, ORR_FLEET_SAVE);
}

static void at_commit(orr_fleet_life *life)
{
    orr_fleet_settle(life);
    if (life->budget > 0 && life->run.replica_steps >= life->budget) {
        life->run.budget_met = life->over = true;
        return;
    }
    const bool leaves = somebody(life, false);
    if (leaves && must_save_first(life))
        save(life);
    else if (leaves || somebody(life, true))
        orr_fleet_form(life, false);
    else if (!life->saves_free && life->now_ns >= life->next_save_ns)
        save(life);
    else
        orr_fleet_begin_stretch(life);
}

static void state_ends(orr_fleet_life *life)
{
    switch ((orr_fleet_state)life->state) {
    case ORR_FLEET_RUNNING:
        at_commit(life);
        break;
    case ORR_FLEET_DETECTING:
        orr_fleet_form(life, true);
        break;
    case ORR_FLEET_SAVING:
        orr_fleet_saved(life);
        life->next_save_ns = life->now_ns + life->save_every_ns;
        if (somebody(life, false))
            orr_fleet_form(life, false);
        else
            orr_fleet_begin_stretch(life);
        break;
    default: /* regrouped, or rejoined */
        if (life->state == ORR_FLEET_REGROUPING && life->joined) {
            life->state = ORR_FLEET_REJOINING;
            life->until_ns = life->now_ns + orr_fleet_life_draw(life, ORR_FLEET_REJOIN);
        } else {
            orr_fleet_begin_stretch(life);
        }
        life->joined = false;
    }
}

/* One of the things that are due now, in a fixed order. */
static void handle(orr_fleet_life *life)
{
    for (uint32_t i = 0; i < life->policy.replicas; i++) {
        if (life->replicas[i].until_ns <= life->now_ns) {
            orr_fleet_replica_due(life, i);
            return;
        }
        if (life->replicas[i].found_ns <= life->now_ns) {
            orr_fleet_slow_found(life, i);
            return;
        }
    }
    if (state_until(life) <= life->now_ns) {
        state_ends(life);
    } else if (life->faults.next.at_ns <= life->now_ns) {
        orr_fleet_strike(life, &life->faults.next);
        orr_fault_source_step(&life->faults);
    }
}

/* What was under way does not count. */
static void end(orr_fleet_life *life)
{
    orr_fleet_settle(life);
    const int64_t attempt =
        life->state == ORR_FLEET_RUNNING ? life->now_ns - life->begin_ns : life->credit_ns;
    life->run.lost[ORR_FLEET_LOSS_RETRY] += attempt * life->policy.replicas;
    life->run.wall_ns = life->now_ns;
    life->run.worst_node = life->faults.worst;
}

orr_status orr_fleet_simulate(const orr_fleet_options *options, const orr_fleet_policy *policy,
                              uint32_t repetition, orr_fleet_timeline *timeline, orr_fleet_run *ret,
                              orr_error *err)
{
    orr_status status;
    ORR_TRY(orr_fleet_check(options, policy, err));
    orr_fleet_life *life = orr_calloc(1, sizeof *life);
    if (life == NULL)
        return orr_fail_memory(err);
    life->options = options;
    life->policy = *policy;
    life->timeline = timeline;
    life->nodes = orr_fleet_nodes(options);
    life->random = orr_random_of(options->seed, 2 * (uint64_t)repetition + 1);
    life->spare_at = orr_calloc((size_t)policy->spares + 1, sizeof *life->spare_at);
    status = life->spare_at != NULL ? ORR_OK : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, orr_fault_source_init(&life->faults, options, repetition, err));
    begin(life);
    while (!life->over && life->now_ns < options->horizon_ns) {
        orr_fleet_pass(life, next_event(life));
        if (life->now_ns < options->horizon_ns)
            handle(life);
    }
    end(life);
    *ret = life->run;
    orr_fault_source_done(&life->faults);
out:
    orr_free(life->spare_at);
    orr_free(life);
    return status;
}
