/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "model.h"
#include "support/simulated/network.h"
#include "team/coordinator/coordinator.h"
#include "team/member/proxy.h"
#include "team/member/member.h"

/* many_ranks [REPLICAS [RANKS]]: a team of many ranks, a proxy in each replica, through a few
 * steps, the death of a replica in the middle of one, and its coming back. 12 8192 are 98,304
 * ranks. Prints what it took; fails where states of replicas differ, or the team does not go on. */
enum { REPLICAS = 16, TURNS = 4, STEPS_BEFORE = 2, STEPS_WITHOUT = 2, STEPS_AFTER = 2 };
static const int64_t MS = 1000000;

typedef struct run run;
typedef struct rank {
    run *of;
    uint32_t replica, index, host;
    orr_net *net;
    orr_net_callbacks user;
    orr_team_member *member;
    model model;
    orr_team_directive turn, turns[TURNS];
    uint32_t n_turns;
    enum { IDLE, WORKS, WAITS, UPDATES } doing;
    bool fresh; /* its state is whole, after step model.state[0] */
} rank;
struct run {
    orr_simnet *world;
    orr_coordinator *coordinator;
    uint32_t coordinator_host;
    uint32_t replicas, ranks;
    model_shape shape;
    orr_replica_proxy *hubs[REPLICAS];
    rank *all; /* shape (replicas, ranks) */
    bool lives[REPLICAS], failed;
    uint64_t incarnations;
    uint64_t decided; /* last step that was committed */
    int64_t decided_ns;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fail(run *r, const char *what)
{
    if (!r->failed)
        printf("FAILED: %s\n", what);
    r->failed = true;
}

static void hand_on(rank *k)
{
    if (k->doing != IDLE || k->n_turns == 0)
        return;
    const orr_team_directive turn = k->turns[0];
    memmove(k->turns, k->turns + 1, --k->n_turns * sizeof *k->turns);
    orr_team_member_follow(k->member, &turn);
}

static void on_woken(void *ctx)
{
    rank *k = ctx;
    orr_error err;
    const bool zeros = k->turn.kind == ORR_DIRECTIVE_ZEROS;
    if (k->doing == IDLE) {
        hand_on(k);
    } else if (k->doing == WORKS) {
        if (!zeros)
            model_compute(&k->model, 0, k->turn.slot);
        k->doing = WAITS;
        if (orr_team_member_reduce(k->member, ORR_TEAM_FP32, zeros ? NULL : k->model.in[0],
                                   k->model.out[0], k->of->shape.n[0], &err) != ORR_OK)
            fail(k->of, err.text);
        orr_team_member_complete(k->member);
    } else if (k->doing == UPDATES) {
        model_update(&k->model, k->turn.step, k->turn.contributors, 0);
        model_update(&k->model, k->turn.step, k->turn.contributors, 1);
        k->doing = IDLE;
        k->fresh = true;
        orr_team_member_updated(k->member, k->turn.step);
        hand_on(k);
    }
}

static void on_turn(void *ctx, const orr_team_directive *turn)
{
    rank *k = ctx;
    k->turn = *turn;
    for (uint32_t i = 1; k->index == 0 && i < k->of->ranks; i++) {
        rank *other = k + i;
        if (other->n_turns == TURNS) {
            fail(k->of, "a rank is too many turns behind its leader");
            return;
        }
        other->turns[other->n_turns++] = *turn;
        other->net->wake_at(other->net, &other->user, 0);
    }
    k->doing = turn->kind == ORR_DIRECTIVE_APPLY ? UPDATES : WORKS;
    k->net->wake_at(k->net, &k->user, k->net->now_ns(k->net) + (k->doing == WORKS ? 20 * MS : MS));
}

static void on_outcome(void *ctx, const orr_team_outcome *outcome)
{
    rank *k = ctx;
    k->doing = outcome->kind == ORR_OUTCOME_COMMITTED ? UPDATES : IDLE;
    k->turn.contributors = outcome->contributors;
    k->fresh &= outcome->kind == ORR_OUTCOME_COMMITTED;
    k->net->wake_at(k->net, &k->user, k->net->now_ns(k->net) + (k->doing == UPDATES ? MS : 0));
}

static void on_refused(void *ctx, const char *why)
{
    fail(((rank *)ctx)->of, why);
}

static void on_told(void *ctx, const orr_team_event *event)
{
    run *r = ctx;
    printf("  %10.3f ms  %s: %s (epoch %" PRIu64 ", step %" PRIu64 ")\n",
           (double)orr_simnet_now_ns(r->world) / 1e6,
           orr_team_event_name((orr_team_event_kind)event->kind), event->text, event->epoch,
           event->step);
    if (event->kind == ORR_TEAM_COMMIT) {
        r->decided = event->step;
        r->decided_ns = orr_simnet_now_ns(r->world);
    }
}

static void start_rank(run *r, rank *k, const char *name, bool first)
{
    orr_error err;
    k->net = orr_simnet_host_net(r->world, k->host);
    k->user = (orr_net_callbacks){.ctx = k, .woken = on_woken};
    k->doing = IDLE;
    k->n_turns = 0;
    k->fresh = first;
    model_init(&k->model, &r->shape, k->index);
    const orr_team_member_settings settings = {
        .coordinator = orr_replica_proxy_address(r->hubs[k->replica]),
        .name = name,
        .incarnation = r->incarnations,
        .rank = k->index,
        .ranks = r->ranks,
        .leads = k->index == 0,
        .fingerprint = 7,
        .where = "here:0",
        .ring = {.chunk_bytes = 64, .window = 1, .streams = 1, .small_bytes = 64},
        .step = first ? 0 : ORR_TEAM_NONE,
        .spans = k->model.spans,
        .n_spans = MODEL_SPANS};
    const orr_team_member_callbacks user = {
        .ctx = k, .directive = on_turn, .outcome = on_outcome, .refused = on_refused};
    if (orr_team_member_new(k->net, &settings, &user, &k->member, &err) != ORR_OK)
        fail(r, err.text);
}

static void start_replica(run *r, uint32_t replica, bool first)
{
    orr_error err;
    char name[16];
    rank *ranks = r->all + (size_t)replica * r->ranks;
    r->lives[replica] = true;
    r->incarnations++;
    snprintf(name, sizeof name, "r%02u", replica);
    for (uint32_t i = 0; i < r->ranks; i++)
        orr_simnet_restart(r->world, ranks[i].host);
    const orr_replica_proxy_settings settings = {
        .coordinator = "h0:77", .where = "here:0", .ranks = r->ranks};
    if (orr_replica_proxy_new(orr_simnet_host_net(r->world, ranks[0].host), &settings,
                              &r->hubs[replica], &err) != ORR_OK)
        fail(r, err.text);
    for (uint32_t i = 0; i < r->ranks && !r->failed; i++)
        start_rank(r, &ranks[i], name, first);
}

static void kill_replica(run *r, uint32_t replica)
{
    rank *ranks = r->all + (size_t)replica * r->ranks;
    r->lives[replica] = false;
    for (uint32_t i = 0; i < r->ranks; i++)
        orr_simnet_kill(r->world, ranks[i].host, false);
    for (uint32_t i = 0; i < r->ranks; i++) {
        orr_team_member_free(ranks[i].member);
        model_done(&ranks[i].model);
    }
    orr_replica_proxy_free(r->hubs[replica]);
    r->hubs[replica] = NULL;
}

static bool start(run *r)
{
    orr_error err;
    const orr_simnet_options options = {.seed = 1};
    const orr_coordinator_settings settings = {.listen = "here:77",
                                               .replicas = r->replicas,
                                               .keep_running = true,
                                               .on_event = on_told,
                                               .ctx = r};
    r->shape = (model_shape){.n_ops = 1, .n = {12}, .words = 16};
    r->all = calloc((size_t)r->replicas * r->ranks, sizeof *r->all);
    if (r->all == NULL || orr_simnet_new(&options, &r->world, &err) != ORR_OK ||
        orr_simnet_add_host(r->world, &r->coordinator_host, &err) != ORR_OK ||
        orr_coordinator_new(orr_simnet_host_net(r->world, r->coordinator_host), &settings,
                            &r->coordinator, &err) != ORR_OK)
        return false;
    for (uint32_t i = 0; i < r->replicas * r->ranks; i++) {
        r->all[i] = (rank){.of = r, .replica = i / r->ranks, .index = i % r->ranks};
        if (orr_simnet_add_host(r->world, &r->all[i].host, &err) != ORR_OK)
            return false;
    }
    for (uint32_t i = 0; i < r->replicas; i++)
        start_replica(r, i, true);
    return !r->failed;
}

/* Until all living ranks have the state after this step. */
static void run_to(run *r, uint64_t step, const char *what)
{
    const double begin_s = now_s();
    const uint64_t events = orr_simnet_events(r->world);
    const int64_t begin_ns = orr_simnet_now_ns(r->world);
    struct rusage usage;
    for (bool all = false; !all && !r->failed;) {
        orr_simnet_run(r->world, orr_simnet_now_ns(r->world) + 5 * MS);
        all = r->decided >= step;
        for (uint32_t i = 0; i < r->replicas * r->ranks && all; i++)
            all = !r->lives[r->all[i].replica] ||
                  (r->all[i].fresh && r->all[i].model.state[0] >= step);
        if (orr_simnet_now_ns(r->world) - begin_ns > 600000 * MS)
            fail(r, "the team does not go on");
    }
    getrusage(RUSAGE_SELF, &usage);
    const double took_s = now_s() - begin_s;
    printf("%s: %.3f s of the team's time; %.1f s, %.2f M events, %.2f M events/s; %.2f GB\n", what,
           (double)(orr_simnet_now_ns(r->world) - begin_ns) / 1e9, took_s,
           (double)(orr_simnet_events(r->world) - events) / 1e6,
           (double)(orr_simnet_events(r->world) - events) / took_s / 1e6,
           (double)usage.ru_maxrss / 1e6);
    fflush(stdout);
}

/* Rank i of every replica has the same state, where they are after the same step. */
static void compare(run *r)
{
    for (uint32_t i = 0; i < r->ranks && !r->failed; i++) {
        const rank *first = NULL;
        for (uint32_t j = 0; j < r->replicas; j++) {
            const rank *k = &r->all[(size_t)j * r->ranks + i];
            if (!r->lives[j] || k->doing == UPDATES)
                continue;
            if (first == NULL)
                first = k;
            else if (k->model.state[0] == first->model.state[0] &&
                     model_digest(&k->model) != model_digest(&first->model))
                fail(r, "the states of two replicas differ");
        }
    }
}

static void finish(run *r)
{
    for (uint32_t i = 0; i < r->replicas; i++)
        if (r->lives[i])
            kill_replica(r, i);
    orr_simnet_kill(r->world, r->coordinator_host, true);
    orr_coordinator_free(r->coordinator);
    orr_simnet_free(r->world);
    free(r->all);
}

int main(int argc, char **argv)
{
    run r = {.replicas = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 4,
             .ranks = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 64};
    if (r.replicas < 2 || r.replicas > REPLICAS || r.ranks < 2 || !start(&r))
        return 2;
    printf("%u replicas of %u ranks\n", r.replicas, r.ranks);
    run_to(&r, STEPS_BEFORE, "meet, and the first steps");
    compare(&r);
    orr_simnet_run(r.world, orr_simnet_now_ns(r.world) + 10 * MS); /* into the next */
    const int64_t killed_ns = orr_simnet_now_ns(r.world);
    const uint64_t before = r.decided;
    kill_replica(&r, r.replicas / 2);
    run_to(&r, before + 1, "a replica dies");
    printf("from the death to the next commit: %.3f ms\n",
           (double)(r.decided_ns - killed_ns) / 1e6);
    run_to(&r, before + STEPS_WITHOUT, "steps without it");
    compare(&r);
    start_replica(&r, r.replicas / 2, false);
    run_to(&r, r.decided + STEPS_AFTER, "it comes back");
    compare(&r);
    const bool failed = r.failed;
    printf(failed ? "failed\n" : "all states are the same after step %" PRIu64 "\n", r.decided);
    finish(&r);
    return failed;
}
