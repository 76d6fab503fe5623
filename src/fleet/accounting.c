/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fleet/run.h"

/* Accounting of a trial: each ns of wall time, of each replica, goes to exactly one of productive
 * time and the losses. In a stall it is booked when time advances. While the team runs it is booked
 * when steps are committed: productive, slowed (a slow node) or degraded (replicas that do not
 * contribute); or, when an attempt at a step is aborted, as retried, less what the next attempt can
 * keep. A roll-back to a checkpoint moves productive time since then to recomputation. Invariant:
 * productive + all losses = wall time x replicas. */

enum { SHORTEST_STEP_NS = 1000000 };

uint32_t orr_fleet_count(const orr_fleet_trial *trial, orr_fleet_phase phase)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < trial->policy.replicas; i++)
        n += trial->replicas[i].phase == phase;
    return n;
}

/* Without a team, the job waits for the replica that is furthest on its way back. */
static orr_fleet_loss loss_without_team(const orr_fleet_trial *trial)
{
    uint8_t nearest = ORR_PHASE_DETECTING;
    for (uint32_t i = 0; i < trial->policy.replicas; i++)
        nearest = trial->replicas[i].phase > nearest ? trial->replicas[i].phase : nearest;
    switch (nearest) {
    case ORR_PHASE_DETECTING:
        return ORR_FLEET_LOSS_DETECTION;
    case ORR_PHASE_SCHEDULING:
        return ORR_FLEET_LOSS_SCHEDULING;
    case ORR_PHASE_LOADING:
        return ORR_FLEET_LOSS_LOADING;
    default:
        return ORR_FLEET_LOSS_STARTING;
    }
}

static orr_fleet_loss loss_of_state(const orr_fleet_trial *trial)
{
    switch ((orr_fleet_state)trial->state) {
    case ORR_FLEET_DETECTING:
        return ORR_FLEET_LOSS_DETECTION;
    case ORR_FLEET_REGROUPING:
        return ORR_FLEET_LOSS_REGROUPING;
    case ORR_FLEET_REJOINING:
        return ORR_FLEET_LOSS_CATCH_UP;
    case ORR_FLEET_SAVING:
        return ORR_FLEET_LOSS_SAVING;
    case ORR_FLEET_NO_QUORUM:
        return ORR_FLEET_LOSS_HALTED;
    case ORR_FLEET_NO_TEAM:
        return loss_without_team(trial);
    default:
        return ORR_FLEET_LOSSES;
    }
}

static void record(orr_fleet_timeline *t, int64_t begin_ns, int64_t end_ns, orr_fleet_loss loss,
                   uint32_t up)
{
    const int64_t begin = begin_ns > t->begin_ns ? begin_ns : t->begin_ns;
    const int64_t end = end_ns < t->end_ns ? end_ns : t->end_ns;
    orr_fleet_piece *last = t->n > 0 ? &t->pieces[t->n - 1] : NULL;
    if (begin >= end)
        return;
    if (last != NULL && last->end_ns == begin && last->loss == loss && last->contributing == up)
        last->end_ns = end;
    else if (t->n < t->room)
        t->pieces[t->n++] = (orr_fleet_piece){begin, end, (uint8_t)loss, (uint8_t)up};
}

void orr_fleet_advance(orr_fleet_trial *trial, int64_t t_ns)
{
    const uint32_t up = orr_fleet_count(trial, ORR_PHASE_UP), replicas = trial->policy.replicas;
    const int64_t ns = t_ns - trial->now_ns;
    const orr_fleet_loss loss = loss_of_state(trial);
    if (ns <= 0)
        return;
    trial->run.down_ns[replicas - up] += ns;
    if (trial->state != ORR_FLEET_RUNNING)
        trial->run.lost[loss] += ns * replicas;
    if (trial->timeline != NULL)
        record(trial->timeline, trial->now_ns, t_ns, loss, up);
    trial->now_ns = t_ns;
}

void orr_fleet_commit_steps(orr_fleet_trial *trial)
{
    const uint32_t replicas = trial->policy.replicas;
    bool whole[ORR_FLEET_REPLICAS] = {0};
    if (trial->state != ORR_FLEET_RUNNING)
        return;
    const int64_t steps = (trial->now_ns - trial->begin_ns) / trial->step_ns;
    const int64_t up = orr_fleet_count(trial, ORR_PHASE_UP);
    if (steps <= 0)
        return;
    trial->run.productive += steps * trial->plain_ns * up;
    trial->run.lost[ORR_FLEET_LOSS_SLOWED] += steps * (trial->step_ns - trial->plain_ns) * up;
    trial->run.lost[ORR_FLEET_LOSS_DEGRADED] += steps * trial->step_ns * (replicas - up);
    trial->productive_since += steps * trial->plain_ns * up;
    trial->run.steps += (uint64_t)steps;
    trial->run.replica_steps += (uint64_t)(steps * up);
    trial->steps_since += (uint64_t)steps;
    trial->shares_since += (uint64_t)(steps * up);
    trial->begin_ns += steps * trial->step_ns;
    for (uint32_t i = 0; i < replicas; i++) {
        orr_fleet_replica *r = &trial->replicas[i];
        if (r->phase == ORR_PHASE_HEALING && r->fetched)
            r->phase = ORR_PHASE_UP;
        whole[i] = r->phase == ORR_PHASE_UP;
    }
    orr_fleet_team_commit(&trial->team, (uint64_t)steps, whole);
    if (trial->saves_free)
        orr_fleet_mark_checkpoint(trial);
}

void orr_fleet_abort_attempt(orr_fleet_trial *trial)
{
    orr_fleet_commit_steps(trial);
    if (trial->state != ORR_FLEET_RUNNING)
        return;
    const int64_t attempt = trial->now_ns - trial->begin_ns;
    const int64_t again =
        llround((double)attempt * orr_fleet_number(trial->options, ORR_FLEET_RETRIED));
    trial->run.lost[ORR_FLEET_LOSS_RETRY] += again * trial->policy.replicas;
    trial->credit_ns = attempt - again;
}

void orr_fleet_roll_back(orr_fleet_trial *trial)
{
    trial->run.lost[ORR_FLEET_LOSS_RETRY] += trial->credit_ns * trial->policy.replicas;
    trial->credit_ns = 0;
    trial->run.lost[ORR_FLEET_LOSS_RECOMPUTE] += trial->productive_since;
    trial->run.productive -= trial->productive_since;
    trial->run.steps -= trial->steps_since;
    trial->run.replica_steps -= trial->shares_since;
    trial->productive_since = 0;
    trial->steps_since = trial->shares_since = 0;
}

void orr_fleet_mark_checkpoint(orr_fleet_trial *trial)
{
    orr_fleet_team_save(&trial->team);
    trial->productive_since = 0;
    trial->steps_since = trial->shares_since = 0;
}

void orr_fleet_resume_steps(orr_fleet_trial *trial)
{
    bool slow = false;
    for (uint32_t i = 0; i < trial->policy.replicas; i++)
        slow |= trial->replicas[i].slow;
    trial->state = ORR_FLEET_RUNNING;
    trial->until_ns = INT64_MAX;
    trial->changed = false;
    trial->plain_ns = orr_fleet_trial_draw(trial, ORR_FLEET_STEP);
    if (trial->plain_ns < SHORTEST_STEP_NS)
        trial->plain_ns = SHORTEST_STEP_NS;
    const double more = slow ? orr_fleet_number(trial->options, ORR_FLEET_SLOWDOWN) : 0;
    trial->step_ns = trial->plain_ns + llround((double)trial->plain_ns * more);
    trial->begin_ns = trial->now_ns - trial->credit_ns;
    trial->credit_ns = 0;
}

/* The first end of a step at or after `t_ns`. */
static int64_t commit_after(const orr_fleet_trial *trial, int64_t t_ns)
{
    const int64_t from = t_ns > trial->now_ns ? t_ns : trial->now_ns;
    const int64_t steps = (from - trial->begin_ns + trial->step_ns - 1) / trial->step_ns;
    return trial->begin_ns + (steps > 1 ? steps : 1) * trial->step_ns;
}

static bool waits_for_a_commit(const orr_fleet_trial *trial)
{
    bool waits = trial->changed;
    for (uint32_t i = 0; i < trial->policy.replicas; i++) {
        const orr_fleet_replica *r = &trial->replicas[i];
        waits |= r->leaving || r->phase == ORR_PHASE_JOINING ||
                 (r->phase == ORR_PHASE_HEALING && r->fetched);
    }
    return waits;
}

int64_t orr_fleet_next_commit(const orr_fleet_trial *trial)
{
    int64_t at = INT64_MAX;
    if (waits_for_a_commit(trial))
        return commit_after(trial, trial->now_ns);
    if (!trial->saves_free && trial->next_save_ns < trial->options->horizon_ns)
        at = commit_after(trial, trial->next_save_ns);
    if (trial->budget > 0) {
        const int64_t up = orr_fleet_count(trial, ORR_PHASE_UP);
        const int64_t steps = ((int64_t)(trial->budget - trial->run.replica_steps) + up - 1) / up;
        const bool far = steps > (trial->options->horizon_ns - trial->begin_ns) / trial->step_ns;
        const int64_t met = far ? INT64_MAX : trial->begin_ns + steps * trial->step_ns;
        at = met < at ? met : at;
    }
    return at;
}
