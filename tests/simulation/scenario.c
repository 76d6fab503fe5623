/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Everybody goes on within so many failure timeouts after the last fault. Most of it is waiting:
 * ten for those who may come at the first formation, twenty until this test starts again who left.
 */
enum { MORE_STEPS = 3, MOST_EVENTS = 1000000, BOUND = 100 };

void scenario_fail(scenario *d, const char *format, ...)
{
    va_list args;
    if (d->failed)
        return;
    d->failed = true;
    va_start(args, format);
    vsnprintf(d->why, sizeof d->why, format, args);
    va_end(args);
    scenario_log(d, "FAILED", "%s", d->why);
}

void scenario_log(scenario *d, const char *who, const char *format, ...)
{
    va_list args;
    if (d->log == NULL)
        return;
    fprintf(d->log, "%12.6f ms %11s  ", (double)orr_simnet_now_ns(d->world) / 1e6, who);
    va_start(args, format);
    vfprintf(d->log, format, args);
    va_end(args);
    fputc('\n', d->log);
}

void scenario_at(scenario *d, int64_t at_ns, orr_simnet_call *what, void *ctx)
{
    if (orr_simnet_at(d->world, at_ns, what, ctx, NULL) != ORR_OK)
        abort();
}

static const char *host_name(const scenario *d, uint32_t host, char name[16])
{
    snprintf(name, 16, "?");
    for (uint32_t i = 0; i < d->plan.coordinators; i++)
        if (d->coordinators[i].host == host)
            snprintf(name, 16, i == 0 ? "C" : "C2");
    for (uint32_t i = 0; i < SCENARIO_REPLICAS; i++)
        for (uint32_t k = 0; k < d->plan.ranks; k++)
            if (d->replicas[i].of != NULL && d->replicas[i].ranks[k].host == host)
                snprintf(name, 16, d->plan.ranks == 1 ? "r%u" : "r%u.%u", i, k);
    return name;
}

static void on_event(void *ctx, int64_t at_ns, const char *what, uint32_t from, uint32_t to,
                     const orr_net_frame *frame)
{
    const scenario *d = ctx;
    char a[16], b[16];
    if (strcmp(what, "wake") == 0 || strcmp(what, "call") == 0 || strcmp(what, "drained") == 0)
        return;
    fprintf(d->log, "%12.6f ms %s -> %s %s", (double)at_ns / 1e6, host_name(d, from, a),
            host_name(d, to, b), what);
    if (frame != NULL)
        fprintf(d->log,
                " kind %u epoch %" PRIu64 " step %" PRId64
                " op %u part %u chunk %u round %u lane %u, %u bytes",
                frame->kind, frame->epoch, (int64_t)frame->step, frame->op, frame->partition,
                frame->chunk, frame->round, frame->lane, frame->bytes);
    fputc('\n', d->log);
}

static void make_world(scenario *d)
{
    orr_error err;
    if (orr_simnet_new(&d->plan.world, &d->world, &err) != ORR_OK)
        abort();
    for (uint32_t i = 0; i < d->plan.coordinators; i++) {
        d->coordinators[i].of = d;
        if (orr_simnet_add_host(d->world, &d->coordinators[i].host, &err) != ORR_OK)
            abort();
    }
    for (uint32_t i = 0; i < d->plan.replicas + d->plan.joiners; i++) {
        replica *r = &d->replicas[i];
        *r = (replica){.of = d,
                       .index = i,
                       .saved_step = ORR_TEAM_NONE,
                       .compute_time_factor = 0.7 + 0.6 * orr_random_unit(&d->random)};
        snprintf(r->name, sizeof r->name, "r%u", i);
        for (uint32_t k = 0; k < d->plan.ranks; k++) {
            r->ranks[k] = (rank){.of = r, .index = k};
            if (orr_simnet_add_host(d->world, &r->ranks[k].host, &err) != ORR_OK)
                abort();
        }
    }
    if (d->frames)
        orr_simnet_observe(d->world, on_event, d);
}

static bool all_go_on(const scenario *d)
{
    for (uint32_t i = 0; i < SCENARIO_REPLICAS; i++) {
        const replica *r = &d->replicas[i];
        if (r->lives && !replica_goes_on(r, d->calm_step + MORE_STEPS))
            return false;
        if (r->of != NULL && i < d->plan.replicas && !r->lives && !r->left)
            return false;
    }
    return true;
}

/* Where all who had a state died and came back without one, somebody has to begin again. */
static void begin_anew_if_lost(scenario *d)
{
    const int64_t waited_ns = orr_simnet_now_ns(d->world) - d->plan.faults_end_ns;
    if (!d->stateless || d->anew || waited_ns < 3 * d->plan.failure_ns)
        return;
    scenario_log(d, "FAULT", "all state is lost: the job begins anew");
    d->anew = true;
    for (uint32_t i = 0; i < SCENARIO_REPLICAS; i++) {
        if (!d->replicas[i].lives)
            continue;
        replica_kill(&d->replicas[i], false);
        replica_start(&d->replicas[i]);
    }
    d->calm_step = 0;
}

/* A coordinator that died may have forgotten that a replica left for good, and waits for it: then
 * somebody has to start that again. */
static void call_back_who_left(scenario *d)
{
    const int64_t waited_ns = orr_simnet_now_ns(d->world) - d->plan.faults_end_ns;
    if (!(d->coordinators[0].died || d->coordinators[1].died) ||
        waited_ns < 20 * d->plan.failure_ns)
        return;
    for (uint32_t i = 0; i < SCENARIO_REPLICAS; i++)
        if (d->replicas[i].left)
            replica_start(&d->replicas[i]);
}

/* A protocol that talks to itself for ever makes no progress either. */
static void run_until(scenario *d, int64_t until_ns)
{
    const bool calm = d->calm;
    while (!d->failed && d->calm == calm && orr_simnet_step(d->world, until_ns))
        if (orr_simnet_events(d->world) > MOST_EVENTS)
            scenario_fail(d, "L1: %d events, and no end", MOST_EVENTS);
}

/* L1, L2: when nothing is wrong any more, everybody goes on. */
static void expect_progress(scenario *d)
{
    const int64_t calm_ns = d->plan.faults_end_ns;
    for (uint32_t i = 0; i < SCENARIO_REPLICAS; i++)
        if (d->replicas[i].refused)
            scenario_fail(d, "%s was refused", d->replicas[i].name);
    while (!d->failed && !all_go_on(d) &&
           orr_simnet_now_ns(d->world) < calm_ns + BOUND * d->plan.failure_ns) {
        begin_anew_if_lost(d);
        call_back_who_left(d);
        run_until(d, orr_simnet_now_ns(d->world) + d->plan.failure_ns / 4);
    }
    d->settled_ns = orr_simnet_now_ns(d->world) - calm_ns;
    for (uint32_t i = 0; i < SCENARIO_REPLICAS && !d->failed; i++)
        if (d->replicas[i].lives && !replica_goes_on(&d->replicas[i], d->calm_step + MORE_STEPS))
            scenario_fail(d, "L1: %s does not go on: at step %" PRId64 ", the team at %" PRIu64,
                          d->replicas[i].name, (int64_t)d->replicas[i].ranks[0].step,
                          oracle_last(&d->oracle));
}

bool scenario_run(scenario *d, uint64_t seed, FILE *log, bool frames)
{
    *d = (scenario){.seed = seed, .log = log, .frames = frames && log != NULL};
    plan_draw(&d->plan, seed & (SCENARIO_STANDBY - 1));
    d->plan.coordinators = seed < SCENARIO_STANDBY ? 1 : 2;
    if (log != NULL) {
        fprintf(log, "seed %" PRIu64 ": ", seed);
        plan_print(&d->plan, log);
    }
    d->random = orr_random_of(seed, 0x6472616d61);
    make_world(d);
    oracle_init(&d->oracle, &d->plan.shape, d->plan.ranks);
    faults_arm(d);
    for (uint32_t i = 0; i < d->plan.coordinators; i++)
        coordinator_process_start(&d->coordinators[i]);
    for (uint32_t i = 0; i < d->plan.replicas; i++)
        replica_start(&d->replicas[i]);
    run_until(d, INT64_MAX);
    expect_progress(d);
    if (!d->failed && orr_simnet_changed_payloads(d->world) > 0)
        scenario_fail(d, "kept memory was changed before it was handed over");
    return !d->failed;
}

void scenario_done(scenario *d)
{
    for (uint32_t i = 0; i < SCENARIO_REPLICAS; i++) {
        if (d->replicas[i].of == NULL)
            continue;
        replica_kill(&d->replicas[i], true);
        free(d->replicas[i].saved);
    }
    for (uint32_t i = 0; i < d->plan.coordinators; i++) {
        coordinator_process_kill(&d->coordinators[i], true);
        orr_sim_disk_done(&d->coordinators[i].disk);
    }
    oracle_done(&d->oracle);
    orr_array_done(&d->decisions);
    orr_simnet_free(d->world);
}
