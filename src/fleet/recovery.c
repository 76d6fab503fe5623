/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/run.h"

/* Recovery of replicas and forming of teams, from a fault to full strength.
 *
 *    replica  DETECTING -> SCHEDULING -> STARTING -> INIT -> REBUILDING -> JOINING
 *                                                    INIT -> LOADING -> FIRST_STEP -> JOINING
 *             JOINING -> HEALING (in the team, fetching the state) -> UP
 *    team     RUNNING -> DETECTING (a member died) -> REGROUPING -> RUNNING
 *             RUNNING -> REJOINING (members joined or left at a commit) -> RUNNING
 *             DETECTING -> NO_QUORUM (too few are left), NO_TEAM (nobody has the state)
 *
 * INIT goes to REBUILDING while there is a team, and to LOADING (the checkpoint) where there is
 * none. NO_QUORUM ends when enough replicas arrive, NO_TEAM with the first that has loaded the
 * checkpoint. */

int64_t orr_fleet_trial_draw(orr_fleet_trial *trial, orr_fleet_times which)
{
    return orr_fleet_draw(&trial->options->times[which].time, &trial->random);
}

static bool is_member(const orr_fleet_replica *r)
{
    return r->phase == ORR_PHASE_UP || r->phase == ORR_PHASE_HEALING;
}

static void enter(orr_fleet_trial *trial, uint32_t replica, orr_fleet_phase phase, int64_t ns)
{
    trial->replicas[replica].phase = (uint8_t)phase;
    trial->replicas[replica].until_ns = ns == INT64_MAX ? INT64_MAX : trial->now_ns + ns;
}

static void wait_in(orr_fleet_trial *trial, orr_fleet_state state, int64_t until_ns)
{
    trial->state = (uint8_t)state;
    trial->until_ns = until_ns;
}

/* --- a team, and its end ---------------------------------------------------------------------- */

/* The last replica with the state is gone: the job restarts from the checkpoint. */
static void dissolve(orr_fleet_trial *trial)
{
    orr_fleet_roll_back(trial);
    wait_in(trial, ORR_FLEET_NO_TEAM, INT64_MAX);
    trial->joined = false;
    orr_fleet_team_dissolve(&trial->team);
    for (uint32_t i = 0; i < trial->policy.replicas; i++) {
        orr_fleet_replica *r = &trial->replicas[i];
        r->slow = r->leaving = false;
        r->found_ns = INT64_MAX;
        if (r->phase == ORR_PHASE_JOINING || r->phase == ORR_PHASE_HEALING)
            enter(trial, i, ORR_PHASE_LOADING, orr_fleet_trial_draw(trial, ORR_FLEET_LOAD));
    }
}

static void begin_recovery(orr_fleet_trial *trial, uint32_t replica);

/* Replicas that leave begin their recovery; replicas that joined begin to fetch the state. */
static void update_members(orr_fleet_trial *trial)
{
    for (uint32_t i = 0; i < trial->policy.replicas; i++) {
        orr_fleet_replica *r = &trial->replicas[i];
        if (r->leaving && is_member(r)) {
            orr_fleet_team_left(&trial->team, i);
            begin_recovery(trial, i);
        } else if (r->phase == ORR_PHASE_JOINING) {
            enter(trial, i, ORR_PHASE_HEALING, orr_fleet_trial_draw(trial, ORR_FLEET_FETCH));
            r->fetched = false;
            trial->joined = true;
        }
    }
}

static bool loses_all_state(const orr_fleet_trial *trial)
{
    for (uint32_t i = 0; i < trial->policy.replicas; i++)
        if (trial->replicas[i].phase == ORR_PHASE_UP && !trial->replicas[i].leaving)
            return false;
    return true;
}

void orr_fleet_form(orr_fleet_trial *trial, bool lost)
{
    bool here[ORR_FLEET_REPLICAS] = {0}, leaving[ORR_FLEET_REPLICAS] = {0};
    if (loses_all_state(trial)) {
        for (uint32_t i = 0; i < trial->policy.replicas; i++)
            if (trial->replicas[i].leaving)
                begin_recovery(trial, i);
        dissolve(trial);
        return;
    }
    for (uint32_t i = 0; i < trial->policy.replicas; i++) {
        here[i] = trial->replicas[i].phase >= ORR_PHASE_JOINING;
        leaving[i] = trial->replicas[i].leaving;
    }
    if (orr_fleet_team_form(&trial->team, here, leaving) != ORR_FORMED) {
        trial->run.halts++;
        wait_in(trial, ORR_FLEET_NO_QUORUM, INT64_MAX);
        return;
    }
    trial->run.epochs++;
    update_members(trial);
    if (!lost && trial->joined) {
        trial->joined = false;
        wait_in(trial, ORR_FLEET_REJOINING,
                trial->now_ns + orr_fleet_trial_draw(trial, ORR_FLEET_REJOIN));
    } else {
        wait_in(trial, ORR_FLEET_REGROUPING,
                trial->now_ns + orr_fleet_trial_draw(trial, ORR_FLEET_REGROUP));
    }
}

/* --- recovery of a replica ------------------------------------------------------------------- */

/* Takes spare nodes that are ready: as many as needed, or none. Each is ready again when the node
 * that it replaces is repaired. */
static bool use_spares(orr_fleet_trial *trial, uint32_t n)
{
    uint32_t ready = 0;
    for (uint32_t i = 0; i < trial->policy.spares && ready < n; i++)
        ready += trial->spare_at[i] <= trial->now_ns;
    if (ready < n)
        return false;
    for (uint32_t i = 0; i < trial->policy.spares && n > 0; i++) {
        if (trial->spare_at[i] > trial->now_ns)
            continue;
        trial->spare_at[i] = trial->now_ns + orr_fleet_trial_draw(trial, ORR_FLEET_REPAIR);
        n--;
    }
    return true;
}

static void begin_recovery(orr_fleet_trial *trial, uint32_t replica)
{
    orr_fleet_replica *r = &trial->replicas[replica];
    int64_t wait_ns = 0;
    if (r->broken > 0 && (trial->policy.spares == 0 || !use_spares(trial, r->broken))) {
        trial->run.spares_short += trial->policy.spares > 0;
        wait_ns = orr_fleet_trial_draw(trial, ORR_FLEET_SCHEDULE);
    }
    r->broken = 0;
    r->leaving = r->slow = r->fetched = false;
    r->found_ns = INT64_MAX;
    enter(trial, replica, ORR_PHASE_SCHEDULING, wait_ns);
}

/* The first replica that is back starts from the checkpoint; the others join it. */
static void restart(orr_fleet_trial *trial, uint32_t replica)
{
    bool here[ORR_FLEET_REPLICAS] = {0}, leaving[ORR_FLEET_REPLICAS] = {0};
    here[replica] = true;
    enter(trial, replica, ORR_PHASE_UP, INT64_MAX);
    orr_fleet_team_arrive(&trial->team, replica, true);
    trial->run.restarts++;
    trial->next_save_ns = trial->now_ns + trial->save_every_ns;
    if (orr_fleet_team_form(&trial->team, here, leaving) != ORR_FORMED) {
        wait_in(trial, ORR_FLEET_NO_QUORUM, INT64_MAX);
        return;
    }
    trial->run.epochs++;
    orr_fleet_resume_steps(trial);
}

static void replica_back(orr_fleet_trial *trial, uint32_t replica, bool with_checkpoint)
{
    if (trial->state == ORR_FLEET_NO_TEAM && with_checkpoint) {
        restart(trial, replica);
    } else if (trial->state == ORR_FLEET_NO_TEAM) {
        enter(trial, replica, ORR_PHASE_LOADING, orr_fleet_trial_draw(trial, ORR_FLEET_LOAD));
    } else {
        orr_fleet_team_arrive(&trial->team, replica, with_checkpoint);
        enter(trial, replica, ORR_PHASE_JOINING, INT64_MAX);
        if (trial->state == ORR_FLEET_NO_QUORUM)
            orr_fleet_form(trial, true);
    }
}

void orr_fleet_replica_due(orr_fleet_trial *trial, uint32_t replica)
{
    const bool team = trial->state != ORR_FLEET_NO_TEAM;
    switch ((orr_fleet_phase)trial->replicas[replica].phase) {
    case ORR_PHASE_DETECTING:
        begin_recovery(trial, replica);
        break;
    case ORR_PHASE_SCHEDULING:
        enter(trial, replica, ORR_PHASE_STARTING, orr_fleet_trial_draw(trial, ORR_FLEET_START));
        break;
    case ORR_PHASE_STARTING:
        enter(trial, replica, ORR_PHASE_INIT, trial->init_ns);
        break;
    case ORR_PHASE_INIT:
        if (team)
            enter(trial, replica, ORR_PHASE_REBUILDING,
                  orr_fleet_trial_draw(trial, ORR_FLEET_REBUILD));
        else
            enter(trial, replica, ORR_PHASE_LOADING, orr_fleet_trial_draw(trial, ORR_FLEET_LOAD));
        break;
    case ORR_PHASE_REBUILDING:
        replica_back(trial, replica, false);
        break;
    case ORR_PHASE_LOADING:
        enter(trial, replica, ORR_PHASE_FIRST_STEP,
              orr_fleet_trial_draw(trial, ORR_FLEET_FIRST_STEP));
        break;
    case ORR_PHASE_FIRST_STEP:
        replica_back(trial, replica, true);
        break;
    default: /* HEALING: the state has arrived, and the next commit makes the replica a contributor
              */
        trial->replicas[replica].fetched = true;
        trial->replicas[replica].until_ns = INT64_MAX;
    }
}

/* --- faults ----------------------------------------------------------------------------------- */

/* The attempt ends at once; the remaining members stall until `known_ns`, when the failure is
 * detected. */
static void interrupt(orr_fleet_trial *trial, int64_t known_ns)
{
    if (orr_fleet_count(trial, ORR_PHASE_UP) == 0) {
        dissolve(trial);
        return;
    }
    if (trial->state == ORR_FLEET_DETECTING && trial->until_ns > known_ns)
        known_ns = trial->until_ns;
    wait_in(trial, ORR_FLEET_DETECTING, known_ns);
}

/* Whether the failure proves that the process is gone: an error was reported, or its connections
 * were closed. A host or more that vanishes closes nothing, and a process that hangs may come back.
 */
static bool is_known_gone(const orr_node_fault *fault)
{
    return fault->kind == ORR_FAILURE_EXPLICIT && fault->scope == ORR_FAULT_NODE;
}

static void kill_replica(orr_fleet_trial *trial, uint32_t replica, const orr_node_fault *fault,
                         uint32_t nodes)
{
    orr_fleet_replica *r = &trial->replicas[replica];
    const bool hangs = fault->kind == ORR_FAILURE_HANG;
    const int64_t ns =
        orr_fleet_trial_draw(trial, hangs ? ORR_FLEET_DETECT_HANG : ORR_FLEET_DETECT);
    const bool was_member = is_member(r);
    r->broken += fault->replace ? nodes : 0;
    r->slow = r->leaving = r->fetched = false;
    r->found_ns = INT64_MAX;
    if (is_known_gone(fault))
        orr_fleet_team_gone(&trial->team, replica);
    enter(trial, replica, ORR_PHASE_DETECTING, ns);
    if (was_member)
        interrupt(trial, trial->now_ns + ns);
}

static void apply_to_replica(orr_fleet_trial *trial, uint32_t replica, const orr_node_fault *fault,
                             uint32_t nodes)
{
    orr_fleet_replica *r = &trial->replicas[replica];
    switch ((orr_failure_kind)fault->kind) {
    case ORR_FAILURE_PLANNED:
        r->leaving = is_member(r);
        r->broken += r->leaving;
        break;
    case ORR_FAILURE_SLOW:
        if (!is_member(r) || r->slow)
            break;
        r->slow = trial->changed = true;
        r->found_ns = trial->now_ns + orr_fleet_trial_draw(trial, ORR_FLEET_DETECT_SLOW);
        break;
    default:
        kill_replica(trial, replica, fault, nodes);
    }
}

static bool hits_a_member(const orr_fleet_trial *trial, uint32_t first, uint32_t last)
{
    bool hits = false;
    for (uint32_t i = first; i <= last; i++)
        hits |= is_member(&trial->replicas[i]);
    return hits;
}

/* Replicas are contiguous: node n belongs to replica n x R / N. */
void orr_fleet_apply_fault(orr_fleet_trial *trial, const orr_node_fault *fault)
{
    const uint64_t replicas = trial->policy.replicas, nodes = trial->nodes;
    const uint32_t first = (uint32_t)(fault->first * replicas / nodes);
    const uint32_t last = (uint32_t)((fault->first + fault->n - 1) * replicas / nodes);
    const bool stops = fault->kind == ORR_FAILURE_EXPLICIT || fault->kind == ORR_FAILURE_HANG;
    trial->run.categories[fault->category]++;
    trial->run.planned += fault->kind == ORR_FAILURE_PLANNED;
    trial->run.failures += fault->kind != ORR_FAILURE_PLANNED;
    trial->run.lemon_failures += fault->lemon;
    if (stops && hits_a_member(trial, first, last))
        orr_fleet_abort_attempt(trial);
    for (uint32_t i = first; i <= last; i++) {
        const uint64_t begin = (i * nodes + replicas - 1) / replicas;
        const uint64_t end = ((i + 1) * nodes + replicas - 1) / replicas;
        const uint64_t from = begin > fault->first ? begin : fault->first;
        const uint64_t to =
            end < (uint64_t)fault->first + fault->n ? end : (uint64_t)fault->first + fault->n;
        apply_to_replica(trial, i, fault, (uint32_t)(to - from));
    }
}

void orr_fleet_slow_found(orr_fleet_trial *trial, uint32_t replica)
{
    orr_fleet_abort_attempt(trial);
    trial->replicas[replica].broken++;
    begin_recovery(trial, replica);
    interrupt(trial, trial->now_ns);
}
