/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fleet/run.h"

/* Where time goes. Every ns of wall time is counted once, for all replicas: when it passes, in a
 * stall; when its step is committed, while the team runs; or as lost, when an attempt breaks. */

enum { SHORTEST_STEP_NS = 1000000 };

uint32_t orr_fleet_count(const orr_fleet_life *life, orr_fleet_phase phase)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < life->policy.replicas; i++)
        n += life->replicas[i].phase == phase;
    return n;
}

/* Without a team the wait is for the replica that is nearest to being back. */
static orr_fleet_loss loss_without_team(const orr_fleet_life *life)
{
    uint8_t nearest = ORR_PHASE_DETECTING;
    for (uint32_t i = 0; i < life->policy.replicas; i++)
        nearest = life->replicas[i].phase > nearest ? life->replicas[i].phase : nearest;
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

static orr_fleet_loss loss_of_state(const orr_fleet_life *life)
{
    switch ((orr_fleet_state)life->state) {
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
        return loss_without_team(life);
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

void orr_fleet_pass(orr_fleet_life *life, int64_t t_ns)
{
    const uint32_t up = orr_fleet_count(life, ORR_PHASE_UP), replicas = life->policy.replicas;
    const int64_t ns = t_ns - life->now_ns;
    const orr_fleet_loss loss = loss_of_state(life);
    if (ns <= 0)
        return;
    life->run.down_ns[replicas - up] += ns;
    if (life->state != ORR_FLEET_RUNNING)
        life->run.lost[loss] += ns * replicas;
    if (life->timeline != NULL)
        record(life->timeline, life->now_ns, t_ns, loss, up);
    life->now_ns = t_ns;
}

void orr_fleet_settle(orr_fleet_life *life)
{
    const uint32_t replicas = life->policy.replicas;
    bool whole[ORR_FLEET_REPLICAS] = {0};
    if (life->state != ORR_FLEET_RUNNING)
        return;
    const int64_t steps = (life->now_ns - life->begin_ns) / life->step_ns;
    const int64_t up = orr_fleet_count(life, ORR_PHASE_UP);
    if (steps <= 0)
        return;
    life->run.productive += steps * life->plain_ns * up;
    life->run.lost[ORR_FLEET_LOSS_SLOWED] += steps * (life->step_ns - life->plain_ns) * up;
    life->run.lost[ORR_FLEET_LOSS_DEGRADED] += steps * life->step_ns * (replicas - up);
    life->productive_since += steps * life->plain_ns * up;
    life->run.steps += (uint64_t)steps;
    life->run.replica_steps += (uint64_t)(steps * up);
    life->steps_since += (uint64_t)steps;
    life->shares_since += (uint64_t)(steps * up);
    life->begin_ns += steps * life->step_ns;
    for (uint32_t i = 0; i < replicas; i++) {
        orr_fleet_replica *r = &life->replicas[i];
        if (r->phase == ORR_PHASE_HEALING && r->fetched)
            r->phase = ORR_PHASE_UP;
        whole[i] = r->phase == ORR_PHASE_UP;
    }
    orr_fleet_team_commit(&life->team, (uint64_t)steps, whole);
    if (life->saves_free)
        orr_fleet_saved(life);
}

void orr_fleet_break(orr_fleet_life *life)
{
    orr_fleet_settle(life);
    if (life->state != ORR_FLEET_RUNNING)
        return;
    const int64_t attempt = life->now_ns - life->begin_ns;
    const int64_t again =
        llround((double)attempt * orr_fleet_number(life->options, ORR_FLEET_RETRIED));
    life->run.lost[ORR_FLEET_LOSS_RETRY] += again * life->policy.replicas;
    life->credit_ns = attempt - again;
}

void orr_fleet_roll_back(orr_fleet_life *life)
{
    life->run.lost[ORR_FLEET_LOSS_RETRY] += life->credit_ns * life->policy.replicas;
    life->credit_ns = 0;
    life->run.lost[ORR_FLEET_LOSS_RECOMPUTE] += life->productive_since;
    life->run.productive -= life->productive_since;
    life->run.steps -= life->steps_since;
    life->run.replica_steps -= life->shares_since;
    life->productive_since = 0;
    life->steps_since = life->shares_since = 0;
}

void orr_fleet_saved(orr_fleet_life *life)
{
    orr_fleet_team_save(&life->team);
    life->productive_since = 0;
    life->steps_since = life->shares_since = 0;
}

void orr_fleet_begin_stretch(orr_fleet_life *life)
{
    bool slow = false;
    for (uint32_t i = 0; i < life->policy.replicas; i++)
        slow |= life->replicas[i].slow;
    life->state = ORR_FLEET_RUNNING;
    life->until_ns = INT64_MAX;
    life->changed = false;
    life->plain_ns = orr_fleet_life_draw(life, ORR_FLEET_STEP);
    if (life->plain_ns < SHORTEST_STEP_NS)
        life->plain_ns = SHORTEST_STEP_NS;
    const double more = slow ? orr_fleet_number(life->options, ORR_FLEET_SLOWDOWN) : 0;
    life->step_ns = life->plain_ns + llround((double)life->plain_ns * more);
    life->begin_ns = life->now_ns - life->credit_ns;
    life->credit_ns = 0;
}

/* The end of the attempt under way at `t_ns`. */
static int64_t commit_after(const orr_fleet_life *life, int64_t t_ns)
{
    const int64_t from = t_ns > life->now_ns ? t_ns : life->now_ns;
    const int64_t steps = (from - life->begin_ns + life->step_ns - 1) / life->step_ns;
    return life->begin_ns + (steps > 1 ? steps : 1) * life->step_ns;
}

static bool waits_for_a_commit(const orr_fleet_life *life)
{
    bool waits = life->changed;
    for (uint32_t i = 0; i < life->policy.replicas; i++) {
        const orr_fleet_replica *r = &life->replicas[i];
        waits |= r->leaving || r->phase == ORR_PHASE_JOINING ||
                 (r->phase == ORR_PHASE_HEALING && r->fetched);
    }
    return waits;
}

int64_t orr_fleet_next_commit(const orr_fleet_life *life)
{
    int64_t at = INT64_MAX;
    if (waits_for_a_commit(life))
        return commit_after(life, life->now_ns);
    if (!life->saves_free && life->next_save_ns < life->options->horizon_ns)
        at = commit_after(life, life->next_save_ns);
    if (life->budget > 0) {
        const int64_t up = orr_fleet_count(life, ORR_PHASE_UP);
        const int64_t steps = ((int64_t)(life->budget - life->run.replica_steps) + up - 1) / up;
        const bool far = steps > (life->options->horizon_ns - life->begin_ns) / life->step_ns;
        const int64_t met = far ? INT64_MAX : life->begin_ns + steps * life->step_ns;
        at = met < at ? met : at;
    }
    return at;
}
