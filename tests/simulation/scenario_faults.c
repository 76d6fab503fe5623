/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "scenario.h"

/* Faults happen, and pass. */

/* Of two coordinators every other fault befalls the second. */
static coordinator_process *coordinator_of(const fault *f)
{
    return &f->of->coordinators[(f - f->of->plan.faults) % f->of->plan.coordinators];
}

static uint32_t host_of(const fault *f, uint32_t who, uint32_t part)
{
    return who == UINT32_MAX ? coordinator_of(f)->host : f->of->replicas[who].ranks[part].host;
}

/* Ranks of a fault's victim: [first, last). */
static void ranks_of(const fault *f, uint32_t who, uint32_t *ret_first, uint32_t *ret_last)
{
    const bool all = f->rank == UINT32_MAX && who != UINT32_MAX;
    *ret_first = all || who == UINT32_MAX ? 0 : f->rank;
    *ret_last = all ? f->of->plan.ranks : *ret_first + 1;
}

typedef void each_host(scenario *d, const fault *f, uint32_t host);
static void for_each(const fault *f, each_host *what)
{
    uint32_t first, last;
    ranks_of(f, f->who, &first, &last);
    for (uint32_t i = first; i < last; i++)
        what(f->of, f, host_of(f, f->who, i));
}

static void cut_pair(const fault *f, uint32_t a, uint32_t b, bool cut)
{
    orr_simnet_cut(f->of->world, a, b, cut);
    if (f->both_ways)
        orr_simnet_cut(f->of->world, b, a, cut);
}

static void cut_between(const fault *f, uint32_t who, uint32_t other, bool cut)
{
    uint32_t a, a_end, b_first, b_end;
    ranks_of(f, who, &a, &a_end);
    ranks_of(f, other, &b_first, &b_end);
    for (; a < a_end; a++)
        for (uint32_t b = b_first; b < b_end; b++)
            if (host_of(f, who, a) != host_of(f, other, b))
                cut_pair(f, host_of(f, who, a), host_of(f, other, b), cut);
}

/* From everybody else. */
static void isolate(const fault *f, bool cut)
{
    const uint32_t n = f->of->plan.replicas + f->of->plan.joiners;
    for (uint32_t i = 0; i < n; i++)
        if (i != f->who)
            cut_between(f, f->who, i, cut);
    if (f->who != UINT32_MAX)
        cut_between(f, f->who, UINT32_MAX, cut);
}

static void stop(scenario *d, const fault *f, uint32_t host)
{
    (void)f;
    orr_simnet_stop(d->world, host);
}
static void resume(scenario *d, const fault *f, uint32_t host)
{
    (void)f;
    orr_simnet_continue(d->world, host);
}
static void slow_down(scenario *d, const fault *f, uint32_t host)
{
    orr_simnet_slow(d->world, host, f->factor);
}
static void speed_up(scenario *d, const fault *f, uint32_t host)
{
    (void)f;
    orr_simnet_slow(d->world, host, 1);
}

static void pass_kill(fault *f)
{
    scenario *d = f->of;
    if (f->who == UINT32_MAX)
        coordinator_process_start(coordinator_of(f));
    else if (!d->replicas[f->who].left || f->kind == FAULT_LEAVE)
        replica_start(&d->replicas[f->who]);
}

static void pass(void *ctx)
{
    fault *f = ctx;
    scenario *d = f->of;
    if (d->log != NULL) {
        scenario_log(d, "FAULT", "passes:");
        fault_print(f, d->log);
    }
    switch (f->kind) {
    case FAULT_KILL:
    case FAULT_VANISH:
    case FAULT_CRASH_SAVE:
    case FAULT_LEAVE:
        pass_kill(f);
        break;
    case FAULT_STOP:
        for_each(f, resume);
        break;
    case FAULT_CUT:
        cut_between(f, f->who, f->other, false);
        break;
    case FAULT_ISOLATE:
        isolate(f, false);
        break;
    case FAULT_SLOW:
        for_each(f, speed_up);
        break;
    default:
        break;
    }
}

static void kill_victim(fault *f)
{
    scenario *d = f->of;
    const bool silently = f->kind == FAULT_VANISH;
    if (f->who != UINT32_MAX) {
        replica_kill(&d->replicas[f->who], silently);
        return;
    }
    coordinator_process_kill(coordinator_of(f), silently);
    if (f->amnesia && d->plan.coordinators == 1) {
        orr_sim_disk_wipe(&d->coordinators[0].disk);
        d->coordinators[0].forgot = true;
    }
}

static void bury(void *ctx)
{
    fault *f = ctx;
    coordinator_process_kill(coordinator_of(f), false);
    if (f->of->calm)
        coordinator_process_start(coordinator_of(f));
    else
        scenario_at(f->of, orr_simnet_now_ns(f->of->world) + f->lasts_ns, pass, f);
}

/* In the middle of a save: the coordinator's objects are under way, and freed a moment later. */
static void crash(void *ctx)
{
    fault *f = ctx;
    scenario_log(f->of, "FAULT", "the coordinator dies while it saves");
    orr_simnet_kill(f->of->world, coordinator_of(f)->host, false);
    scenario_at(f->of, orr_simnet_now_ns(f->of->world), bury, f);
}

static bool may_leave(const scenario *d, const fault *f)
{
    uint32_t others = 0;
    for (uint32_t i = 0; i < SCENARIO_REPLICAS; i++)
        others += i != f->who && !d->replicas[i].left && d->replicas[i].of != NULL;
    return others > 0 && d->replicas[f->who].lives && oracle_last(&d->oracle) > 0;
}

static void leave(fault *f)
{
    scenario *d = f->of;
    if (!may_leave(d, f))
        return;
    d->replicas[f->who].drains = true;
    for (uint32_t i = 0; i < d->plan.ranks; i++)
        orr_team_member_drain(d->replicas[f->who].ranks[i].member, false);
}

static void begin(void *ctx)
{
    fault *f = ctx;
    scenario *d = f->of;
    uint32_t a, a_end, b, b_end;
    if (d->calm || d->failed)
        return;
    if (d->log != NULL) {
        scenario_log(d, "FAULT", "begins:");
        fault_print(f, d->log);
    }
    ranks_of(f, f->who, &a, &a_end);
    ranks_of(f, f->other, &b, &b_end);
    switch (f->kind) {
    case FAULT_KILL:
    case FAULT_VANISH:
        kill_victim(f);
        break;
    case FAULT_STOP:
        for_each(f, stop);
        break;
    case FAULT_CUT:
        cut_between(f, f->who, f->other, true);
        break;
    case FAULT_ISOLATE:
        isolate(f, true);
        break;
    case FAULT_SLOW:
        for_each(f, slow_down);
        break;
    case FAULT_RESET:
        for (; a < a_end; a++)
            for (uint32_t i = b; i < b_end; i++)
                orr_simnet_reset(d->world, host_of(f, f->who, a), host_of(f, f->other, i));
        return;
    case FAULT_CORRUPT:
        orr_simnet_corrupt(d->world, host_of(f, f->who, a), host_of(f, f->other, b));
        return;
    case FAULT_LEAVE:
        leave(f);
        if (!f->both_ways) /* for good */
            return;
        break;
    case FAULT_JOIN:
        replica_start(&d->replicas[f->who]);
        return;
    case FAULT_CRASH_SAVE:
        d->coordinators[0].disk.crash_save = 1;
        d->coordinators[0].disk.crash_kept = f->both_ways;
        d->coordinators[0].disk.crash = crash;
        d->coordinators[0].disk.ctx = f;
        return;
    case FAULT_KINDS:
        return;
    }
    scenario_at(d, orr_simnet_now_ns(d->world) + f->lasts_ns, pass, f);
}

void faults_arm(scenario *d)
{
    for (uint32_t i = 0; i < d->plan.n_faults; i++) {
        fault *f = &d->plan.faults[i];
        f->of = d;
        if (f->event < 0) {
            f->begun = true;
            scenario_at(d, f->at_ns, begin, f);
        }
    }
    scenario_at(d, d->plan.faults_end_ns, faults_end, d);
}

void faults_notice(scenario *d, int event)
{
    for (uint32_t i = 0; i < d->plan.n_faults; i++) {
        fault *f = &d->plan.faults[i];
        if (f->begun || f->event != event || f->seen++ < f->nth)
            continue;
        f->begun = true;
        scenario_at(d, orr_simnet_now_ns(d->world) + f->at_ns, begin, f);
    }
}

/* Everything that was done is undone, and who died comes back. */
void faults_end(void *ctx)
{
    scenario *d = ctx;
    scenario_log(d, "FAULT", "faults are over");
    for (uint32_t i = 0; i < d->plan.n_faults; i++) {
        fault *f = &d->plan.faults[i];
        if (f->kind == FAULT_CUT)
            cut_between(f, f->who, f->other, false);
        else if (f->kind == FAULT_ISOLATE)
            isolate(f, false);
        else if (f->kind == FAULT_STOP)
            for_each(f, resume);
        else if (f->kind == FAULT_SLOW)
            for_each(f, speed_up);
    }
    d->calm = true;
    d->coordinators[0].disk.crash_save = 0;
    for (uint32_t i = 0; i < d->plan.coordinators; i++)
        coordinator_process_start(&d->coordinators[i]);
    for (uint32_t i = 0; i < d->plan.replicas; i++)
        if (!d->replicas[i].left)
            replica_start(&d->replicas[i]);
    d->calm_step = oracle_last(&d->oracle);
}
