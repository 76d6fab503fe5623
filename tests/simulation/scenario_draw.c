/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "scenario.h"

/* What a seed stands for. */

static const int64_t MS = 1000000;

static uint64_t below(orr_random *r, uint64_t n)
{
    return orr_random_below(r, n);
}
static bool chance(orr_random *r, double p)
{
    return orr_random_unit(r) < p;
}
static int64_t between(orr_random *r, int64_t low, int64_t high)
{
    return low + (int64_t)below(r, (uint64_t)(high - low) + 1);
}

static void draw_network(plan *p, orr_random *r, uint64_t seed)
{
    static const int64_t latencies_ns[] = {20000, 20000, 200000, 2000000};
    const int64_t latency_ns = latencies_ns[below(r, 4)];
    p->world = (orr_simnet_options){.seed = seed,
                                    .latency_ns = latency_ns,
                                    .jitter_ns = chance(r, 0.3) ? 5 * latency_ns : latency_ns / 2,
                                    .bytes_per_s = chance(r, 0.2) ? 1e6 : 1e9};
}

static void draw_model(plan *p, orr_random *r)
{
    p->shape.n_ops = 1 + (uint32_t)below(r, 3);
    for (uint32_t op = 0; op < p->shape.n_ops; op++) {
        p->shape.n[op] =
            op > 0 && chance(r, 0.05) ? 0 : 1 + (uint32_t)below(r, chance(r, 0.1) ? 60 : 8);
        p->shape.dtype[op] = chance(r, 0.2) ? ORR_TEAM_FP64 : ORR_TEAM_FP32;
    }
    p->shape.words = 2 + (uint32_t)below(r, 30);
    if (p->ranks == 1 && chance(r, 0.004)) /* of several chunks */
    {
        p->shape.words = (3 << 20) / 8 + (uint32_t)below(r, 1000);
        p->world.bytes_per_s = p->world.bytes_per_s < 1e7
                                   ? 1e7
                                   : p->world.bytes_per_s; /* a chunk within the timeout */
    }
    p->ring = (orr_ring_options){.chunk_bytes = 8 << below(r, 6),
                                 .window = 1 + (uint32_t)below(r, 3),
                                 .streams = chance(r, 0.2) ? 2 : 1,
                                 .small_bytes = chance(r, 0.5) ? 8 : 1024};
}

static fault_kind draw_kind(orr_random *r)
{
    static const fault_kind kinds[] = {
        FAULT_KILL,  FAULT_KILL,    FAULT_KILL,  FAULT_VANISH,  FAULT_STOP,      FAULT_STOP,
        FAULT_CUT,   FAULT_CUT,     FAULT_CUT,   FAULT_ISOLATE, FAULT_SLOW,      FAULT_RESET,
        FAULT_RESET, FAULT_CORRUPT, FAULT_LEAVE, FAULT_JOIN,    FAULT_CRASH_SAVE};
    return kinds[below(r, sizeof kinds / sizeof *kinds)];
}

static uint32_t draw_victim(const plan *p, orr_random *r, double coordinator)
{
    return chance(r, coordinator) ? UINT32_MAX : (uint32_t)below(r, p->replicas + p->joiners);
}

/* When: at a time, or when something is told for the n-th time; the moments of an epoch are the
 * best. */
static void draw_time(fault *f, const plan *p, orr_random *r)
{
    static const int events[] = {ORR_TEAM_EPOCH,  ORR_TEAM_EPOCH,  ORR_TEAM_COMMIT,
                                 ORR_TEAM_COMMIT, ORR_TEAM_LOST,   ORR_TEAM_RETRY,
                                 ORR_TEAM_HALT,   ORR_TEAM_FETCH,  ORR_TEAM_CAUGHT_UP,
                                 ORR_TEAM_SERVE,  ORR_TEAM_JOINED, ORR_TEAM_COORDINATOR_LOST};
    f->event = -1;
    if (chance(r, 0.5)) {
        f->at_ns = between(r, 0, p->faults_end_ns * 3 / 4);
        return;
    }
    f->event = events[below(r, sizeof events / sizeof *events)];
    f->nth = (uint32_t)below(r, f->event == ORR_TEAM_COMMIT ? 40 : 8);
    f->at_ns =
        chance(r, 0.7) ? between(r, 0, 3 * p->world.latency_ns) : between(r, 0, p->compute_ns);
}

static void draw_fault(fault *f, const plan *p, orr_random *r)
{
    const int64_t t = p->failure_ns;
    *f = (fault){.kind = draw_kind(r)};
    f->who = draw_victim(p, r, f->kind == FAULT_LEAVE || f->kind == FAULT_JOIN ? 0 : 0.2);
    f->other = draw_victim(p, r, 0.3);
    if (f->kind == FAULT_JOIN) {
        f->who = p->replicas; /* the extra one */
        if (p->joiners == 0)
            f->kind = FAULT_KILL, f->who = 0;
    }
    f->rank = chance(r, 0.6) ? UINT32_MAX : (uint32_t)below(r, p->ranks);
    f->amnesia = chance(r, 0.4);
    f->both_ways = chance(r, 0.5);
    f->factor = chance(r, 0.5) ? 3 : 300;
    draw_time(f, p, r);
    const double kind = orr_random_unit(r);
    f->lasts_ns = kind < 0.3   ? between(r, 0, t / 20) /* a moment */
                  : kind < 0.8 ? between(r, t / 10, 2 * t)
                               : between(r, t, 5 * t);
}

void plan_draw(plan *p, uint64_t seed)
{
    orr_random random = orr_random_of(seed, 0x706c616e), *r = &random;
    *p = (plan){.replicas = 2 + (uint32_t)below(r, 3) + chance(r, 0.1)};
    p->joiners = chance(r, 0.25);
    p->ranks = chance(r, 0.75) ? 1 : 2 + (uint32_t)below(r, 2);
    draw_network(p, r, seed);
    draw_model(p, r);
    p->failure_ns = chance(r, 0.5) ? 500 * MS : 2000 * MS;
    p->compute_ns = between(r, p->failure_ns / 50, p->failure_ns / (chance(r, 0.3) ? 2 : 6));
    p->update_ns = between(r, MS, p->failure_ns / 30);
    p->catch_up_steps = 1 + (uint32_t)below(r, 4);
    p->back = (int)below(r, 3);
    p->n_faults = 1 + (uint32_t)below(r, chance(r, 0.3) ? SCENARIO_FAULTS : 5);
    p->faults_end_ns = between(r, p->failure_ns, 4 * p->failure_ns);
    for (uint32_t i = 0; i < p->n_faults; i++)
        draw_fault(&p->faults[i], p, r);
}

static const char *const kind_names[] = {
    "kill",  "vanish",  "stop",  "cut",  "isolate",          "slow",
    "reset", "corrupt", "leave", "join", "crash in the save"};

static void print_victim(uint32_t who, uint32_t part, FILE *to)
{
    if (who == UINT32_MAX)
        fprintf(to, " coordinator");
    else if (part == UINT32_MAX)
        fprintf(to, " r%u", who);
    else
        fprintf(to, " r%u.%u", who, part);
}

void fault_print(const fault *f, FILE *to)
{
    fprintf(to, "    %s", kind_names[f->kind]);
    if (f->kind != FAULT_CRASH_SAVE)
        print_victim(f->who,
                     f->kind == FAULT_KILL || f->kind == FAULT_VANISH ? UINT32_MAX : f->rank, to);
    if (f->kind == FAULT_CUT || f->kind == FAULT_RESET || f->kind == FAULT_CORRUPT)
        print_victim(f->other, f->rank, to);
    if (f->kind == FAULT_CUT || f->kind == FAULT_ISOLATE)
        fprintf(to, f->both_ways ? " both ways" : " one way");
    if (f->who == UINT32_MAX && f->amnesia && (f->kind == FAULT_KILL || f->kind == FAULT_VANISH))
        fprintf(to, " with its disk");
    if (f->event >= 0)
        fprintf(to, ", %.3f ms after '%s' %u", (double)f->at_ns / 1e6,
                orr_team_event_name((orr_team_event_kind)f->event), f->nth);
    else
        fprintf(to, ", at %.3f ms", (double)f->at_ns / 1e6);
    fprintf(to, ", for %.3f ms\n", (double)f->lasts_ns / 1e6);
}

void plan_print(const plan *p, FILE *to)
{
    static const char *const backs[] = {"empty", "at the beginning", "from a checkpoint"};
    fprintf(
        to,
        "%u replicas of %u ranks, %u more; latency %.3f ms, jitter %.3f ms, %.0f MB/s; compute %.1f ms, "
        "update %.1f ms; restarted %s\n",
        p->replicas, p->ranks, p->joiners, (double)p->world.latency_ns / 1e6,
        (double)p->world.jitter_ns / 1e6, p->world.bytes_per_s / 1e6, (double)p->compute_ns / 1e6,
        (double)p->update_ns / 1e6, backs[p->back]);
    fprintf(to, "reductions:");
    for (uint32_t op = 0; op < p->shape.n_ops; op++)
        fprintf(to, " %u x %s", p->shape.n[op],
                p->shape.dtype[op] == ORR_TEAM_FP64 ? "fp64" : "fp32");
    fprintf(
        to,
        "; chunks of %u bytes, window %u, %u streams, small %u; state %u words, %u steps set aside\n",
        p->ring.chunk_bytes, p->ring.window, p->ring.streams, p->ring.small_bytes, p->shape.words,
        p->catch_up_steps);
    for (uint32_t i = 0; i < p->n_faults; i++)
        fault_print(&p->faults[i], to);
    fprintf(to, "    over at %.3f ms\n", (double)p->faults_end_ns / 1e6);
}
