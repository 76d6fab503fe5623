/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_MEMBER_LAB_H
#define TESTS_MEMBER_LAB_H

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "support/simulated/network.h"
#include "team/coordinator/coordinator.h"
#include "team/member/proxy.h"
#include "team/member/member.h"

/* Members of one coordinator in a simulated world, each with an owner that trains: gradients are a
 * function of the slot, the state adds them up. Whoever has the state after a step must have the
 * same one. The failure timeout is 100 ms, a step takes about 1. */
enum { LAB_OWNERS = 6, LAB_STEPS = 1 << 14, LAB_GRADIENTS = 48, LAB_LOG = 1 << 14, LAB_TURNS = 64 };
#define LAB_MS      INT64_C(1000000)
#define LAB_TIMEOUT (100 * LAB_MS)

typedef enum lab_doing { LAB_IDLE, LAB_WORKS, LAB_WAITS, LAB_UPDATES } lab_doing;
typedef struct lab_note { /* a turn or an outcome */
    bool outcome;
    uint64_t kind, step, contributors;
} lab_note;

typedef struct lab lab;
typedef struct lab_owner {
    lab *of;
    char name[8];
    uint32_t host, rank;
    uint64_t life;
    orr_net *net;
    orr_net_callbacks user;
    orr_replica_proxy *hub;
    orr_team_member *member; /* NULL: dead */
    float *state;            /* shape (lab.words) */
    uint64_t step;           /* that it has the state after; NEVER: it is not whole */
    float in[2][LAB_GRADIENTS], out[2][LAB_GRADIENTS];
    orr_team_directive turn, turns[LAB_TURNS]; /* of a follower: what is to be followed */
    uint32_t n_turns;
    lab_doing doing;
    bool hold; /* works until it is false */
    bool left;
    char refused[160];
    lab_note *log; /* shape (LAB_LOG) */
    uint32_t n_log;
    uint32_t counts[2][4]; /* of turns, outcomes: by kind */
    uint64_t fingerprint;
    uint32_t catch_up_steps;
    uint32_t coordinator_losses; /* reported events */
} lab_owner;

struct lab {
    orr_simnet *world;
    uint32_t host, ranks;
    size_t words;
    orr_coordinator *coordinator;
    char address[ORR_NET_ADDRESS_BYTES];
    lab_owner owners[LAB_OWNERS];
    uint32_t n;
    uint64_t hashes[LAB_STEPS][2]; /* of the state after a step, by rank; 0: nobody has it yet */
    char wrong[640];               /* the first thing that must not be */
};

#define LAB_WRONG(lab_, ...)                                                                       \
    do {                                                                                           \
        if ((lab_)->wrong[0] == '\0')                                                              \
            snprintf((lab_)->wrong, sizeof(lab_)->wrong, __VA_ARGS__);                             \
    } while (0)

static inline void lab_wake(lab_owner *o, int64_t after_ns)
{
    o->net->wake_at(o->net, &o->user, o->net->now_ns(o->net) + after_ns);
}

static inline void lab_begin(lab_owner *o, const orr_team_directive *turn)
{
    lab *l = o->of;
    if (o->doing != LAB_IDLE)
        LAB_WRONG(l, "%s: a turn in the middle of another", o->name);
    if (o->n_log < LAB_LOG)
        o->log[o->n_log++] = (lab_note){false, turn->kind, turn->step, turn->contributors};
    o->counts[0][turn->kind % 4]++;
    o->turn = *turn;
    o->doing = turn->kind == ORR_DIRECTIVE_APPLY ? LAB_UPDATES : LAB_WORKS;
    o->left = turn->kind == ORR_DIRECTIVE_LEAVE;
    if (turn->kind == ORR_DIRECTIVE_COMPUTE && o->step + 1 != turn->step)
        LAB_WRONG(l, "%s: computes step %u with the state after %d", o->name, (unsigned)turn->step,
                  (int)o->step);
    lab_wake(o, LAB_MS / 2);
}

static inline void lab_next(lab_owner *o)
{
    if (o->doing != LAB_IDLE || o->n_turns == 0)
        return;
    const orr_team_directive turn = o->turns[0];
    memmove(o->turns, o->turns + 1, --o->n_turns * sizeof turn);
    orr_team_member_follow(o->member, &turn);
}

static inline void lab_turn(void *ctx, const orr_team_directive *turn)
{
    lab_owner *o = ctx;
    for (uint32_t i = 0; i < o->of->n && o->rank == 0; i++) { /* to the other ranks */
        lab_owner *other = &o->of->owners[i];
        if (other != o && strcmp(other->name, o->name) == 0 && other->n_turns < LAB_TURNS) {
            other->turns[other->n_turns++] = *turn;
            if (other->doing == LAB_IDLE && other->member != NULL)
                lab_wake(other, LAB_MS / 20);
        }
    }
    lab_begin(o, turn);
}

static inline uint64_t lab_hash(const lab_owner *o)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    const uint8_t *bytes = (const uint8_t *)o->state;
    for (size_t i = 0; i < LAB_GRADIENTS * sizeof *o->state; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static inline void lab_update(lab_owner *o)
{
    lab *l = o->of;
    const uint64_t step = o->turn.step;
    for (uint32_t i = 0; i < LAB_GRADIENTS; i++)
        o->state[i] += (o->out[0][i] + o->out[1][i]) / (float)o->turn.contributors;
    for (size_t i = LAB_GRADIENTS; i < l->words; i += 997)
        o->state[i] += o->state[i % LAB_GRADIENTS];
    o->step = step;
    uint64_t *hash = &l->hashes[step % LAB_STEPS][o->rank];
    if (*hash != 0 && *hash != lab_hash(o))
        LAB_WRONG(l, "%s.%u: another state after step %u", o->name, o->rank, (unsigned)step);
    *hash = lab_hash(o);
    o->doing = LAB_IDLE;
    orr_team_member_updated(o->member, step);
}

static inline void lab_work(lab_owner *o)
{
    orr_error err;
    const bool zeros = o->turn.kind == ORR_DIRECTIVE_ZEROS;
    for (uint32_t op = 0; op < 2; op++) {
        for (uint32_t i = 0; i < LAB_GRADIENTS; i++)
            o->in[op][i] =
                (float)((o->turn.slot * 31 + i * 7 + op) % 101) / 64.0F + o->state[i] / 1024.0F;
        if (orr_team_member_reduce(o->member, ORR_TEAM_FP32, zeros ? NULL : o->in[op], o->out[op],
                                   LAB_GRADIENTS, &err) != ORR_OK)
            LAB_WRONG(o->of, "%s: %s", o->name, err.text);
    }
    o->doing = LAB_WAITS;
    orr_team_member_complete(o->member);
}

static inline void lab_outcome(void *ctx, const orr_team_outcome *outcome)
{
    lab_owner *o = ctx;
    if (o->doing != LAB_WAITS)
        LAB_WRONG(o->of, "%s: an outcome that nobody waits for", o->name);
    if (o->n_log < LAB_LOG)
        o->log[o->n_log++] = (lab_note){true, outcome->kind, outcome->step, outcome->contributors};
    o->counts[1][outcome->kind % 4]++;
    o->doing = LAB_IDLE;
    if (o->turn.kind == ORR_DIRECTIVE_ZEROS && outcome->kind != ORR_OUTCOME_COMMITTED)
        o->step = ORR_TEAM_NONE; /* what is in the spans is coming */
    if (outcome->kind != ORR_OUTCOME_COMMITTED) {
        lab_wake(o, LAB_MS / 20);
        return;
    }
    o->doing = LAB_UPDATES;
    o->turn.contributors = outcome->contributors;
    lab_wake(o, LAB_MS / 10);
}

static inline void lab_woken(void *ctx)
{
    lab_owner *o = ctx;
    if (o->doing == LAB_UPDATES)
        lab_update(o);
    else if (o->doing == LAB_WORKS && !o->left && o->hold)
        lab_wake(o, LAB_MS);
    else if (o->doing == LAB_WORKS && !o->left)
        lab_work(o);
    lab_next(o);
}

static inline void lab_refused(void *ctx, const char *why)
{
    lab_owner *o = ctx;
    snprintf(o->refused, sizeof o->refused, "%s", why);
}

/* What the state is worth is not known to the owner of a member that heals: it is fetched into the
 * spans. */
static inline void lab_told(void *ctx, const orr_team_event *event)
{
    lab_owner *o = ctx;
    if (event->kind == ORR_TEAM_CAUGHT_UP)
        o->step = event->step;
    o->coordinator_losses += event->kind == ORR_TEAM_COORDINATOR_LOST;
}

static inline orr_status lab_live(lab_owner *o, orr_error *err)
{
    lab *l = o->of;
    const lab_owner *first = &l->owners[(size_t)(o - l->owners) / l->ranks * l->ranks];
    const orr_team_span span = {o->state, l->words * sizeof *o->state};
    const orr_team_member_callbacks user = {.ctx = o,
                                            .directive = lab_turn,
                                            .outcome = lab_outcome,
                                            .refused = lab_refused,
                                            .on_event = lab_told};
    const orr_replica_proxy_settings hub = {.coordinator = l->address,
                                            .where = "any:9",
                                            .ranks = l->ranks,
                                            .failure_timeout_ns = LAB_TIMEOUT};
    if (l->ranks > 1 && o->rank == 0)
        ORR_TRY(orr_replica_proxy_new(o->net, &hub, &o->hub, err));
    memset(o->state, 0, span.bytes);
    o->step = 0;
    o->doing = LAB_IDLE;
    o->n_turns = 0;
    o->left = false;
    o->life++;
    const orr_team_member_settings settings = {
        .coordinator = l->ranks > 1 ? orr_replica_proxy_address(first->hub) : l->address,
        .name = o->name,
        .incarnation = o->life,
        .rank = o->rank,
        .ranks = l->ranks,
        .leads = o->rank == 0,
        .fingerprint = o->fingerprint,
        .where = "any:0",
        .failure_timeout_ns = LAB_TIMEOUT,
        .catch_up_steps = o->catch_up_steps,
        .spans = &span,
        .n_spans = 1};
    return orr_team_member_new(o->net, &settings, &user, &o->member, err);
}

static inline bool lab_open(lab *l, uint32_t replicas, uint32_t ranks, size_t words,
                            double bytes_per_s)
{
    orr_error err;
    memset(l, 0, sizeof *l);
    l->ranks = ranks;
    l->words = words;
    const orr_simnet_options options = {.seed = 5, .bytes_per_s = bytes_per_s};
    orr_coordinator_settings settings = {
        .listen = "any:1", .replicas = replicas, .failure_timeout_ns = LAB_TIMEOUT, .jump = 1000};
    if (orr_simnet_new(&options, &l->world, &err) != ORR_OK ||
        orr_simnet_add_host(l->world, &l->host, &err) != ORR_OK ||
        orr_coordinator_new(orr_simnet_host_net(l->world, l->host), &settings, &l->coordinator,
                            &err) != ORR_OK)
        return false;
    snprintf(l->address, sizeof l->address, "%s", orr_coordinator_address(l->coordinator));
    for (uint32_t i = 0; i < replicas * ranks; i++) {
        lab_owner *o = &l->owners[l->n++];
        o->of = l;
        o->rank = i % ranks;
        o->fingerprint = 5;
        snprintf(o->name, sizeof o->name, "%c", (char)('a' + i / ranks));
        o->state = orr_calloc(words, sizeof *o->state);
        o->log = orr_calloc(LAB_LOG, sizeof *o->log);
        if (o->state == NULL || o->log == NULL ||
            orr_simnet_add_host(l->world, &o->host, &err) != ORR_OK)
            return false;
        o->net = orr_simnet_host_net(l->world, o->host);
        o->user = (orr_net_callbacks){.ctx = o, .woken = lab_woken};
    }
    return true;
}

static inline bool lab_live_all(lab *l)
{
    orr_error err;
    bool ok = true;
    for (uint32_t i = 0; i < l->n && ok; i++)
        ok = lab_live(&l->owners[i], &err) == ORR_OK;
    return ok;
}

static inline void lab_die(lab_owner *o)
{
    orr_team_member_free(o->member);
    orr_replica_proxy_free(o->hub);
    o->member = NULL;
    o->hub = NULL;
}

/* Its machine stays, its process is gone. */
static inline void lab_kill(lab_owner *o)
{
    orr_simnet_kill(o->of->world, o->host, false);
    lab_die(o);
}

static inline bool lab_restart(lab_owner *o)
{
    orr_error err;
    orr_simnet_restart(o->of->world, o->host);
    return lab_live(o, &err) == ORR_OK;
}

static inline void lab_run(lab *l, int64_t ms)
{
    orr_simnet_run(l->world, orr_simnet_now_ns(l->world) + ms * LAB_MS);
}

static inline void lab_done(lab *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        lab_die(&l->owners[i]);
        orr_free(l->owners[i].state);
        orr_free(l->owners[i].log);
    }
    orr_coordinator_free(l->coordinator);
    orr_simnet_free(l->world);
}

static inline orr_team_status lab_status(const lab *l)
{
    orr_team_status status;
    orr_coordinator_status(l->coordinator, &status);
    return status;
}

static inline uint64_t lab_position(const lab_owner *o)
{
    uint64_t step;
    orr_team_data_cursor data;
    orr_team_member_position(o->member, &step, &data);
    return step;
}

#endif /* TESTS_MEMBER_LAB_H */
