/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

/* Processes of a replica, and the training loop in each. */

static void look_around(const scenario *d,
                        const oracle_part *parts[SCENARIO_REPLICAS * SCENARIO_RANKS],
                        oracle_now *ret)
{
    *ret = (oracle_now){.parts = parts,
                        .at = orr_simnet_events(d->world),
                        .decisions = d->decisions.at,
                        .n_decisions = d->decisions.n,
                        .abandoned = d->abandoned};
    for (uint32_t i = 0; i < SCENARIO_REPLICAS; i++)
        for (uint32_t k = 0; k < d->plan.ranks && d->replicas[i].lives && !d->replicas[i].drains;
             k++)
            parts[ret->n++] = &d->replicas[i].ranks[k].part;
}

static const char *name_of(const rank *k)
{
    static char name[32];
    if (k->of->of->plan.ranks == 1)
        return k->of->name;
    snprintf(name, sizeof name, "%s.%u", k->of->name, k->index);
    return name;
}

/* What is not true of a rank ends the run. */
static bool hold(rank *k, bool true_)
{
    if (!true_)
        scenario_fail(k->of->of, "%s: %s", name_of(k), k->of->of->oracle.why);
    return true_;
}

/* Holds against the oracle what a rank was told; finds which step of it this is. */
static bool check_commit(rank *k, const orr_team_outcome *outcome)
{
    scenario *d = k->of->of;
    const oracle_part *parts[SCENARIO_REPLICAS * SCENARIO_RANKS];
    oracle_now now;
    orr_team_data_cursor data;
    uint64_t at;
    orr_team_member_position(k->member, &at, &data);
    if (at != outcome->step) {
        scenario_fail(d, "%s commits step %" PRIu64 ", and is at step %" PRIu64, name_of(k),
                      outcome->step, at);
        return false;
    }
    look_around(d, parts, &now);
    return hold(k, oracle_commit(&d->oracle, &k->model, outcome, &data, &now, &k->which));
}

static int64_t draw_ns(scenario *d, double of_ns)
{
    return (int64_t)(of_ns * (0.5 + orr_random_unit(&d->random))) + 1;
}

static void wake_in(rank *k, double ns)
{
    k->net->wake_at(k->net, &k->user,
                    k->net->now_ns(k->net) + draw_ns(k->of->of, ns * k->of->compute_time_factor));
}

static void next_turn(rank *k)
{
    if (k->doing != RANK_IDLE || k->n_turns == 0 || k->index == 0)
        return;
    const orr_team_directive turn = k->turns[0];
    memmove(k->turns, k->turns + 1, --k->n_turns * sizeof *k->turns);
    orr_team_member_follow(k->member, &turn);
}

/* Of the oracle, which they have: on some rank it may be about to be overwritten by a later one. */
static void save_checkpoint(rank *k)
{
    replica *r = k->of;
    const scenario *d = r->of;
    const oracle_step *step = &d->oracle.steps.at[k->which];
    const size_t bytes = d->plan.ranks * d->plan.shape.words * sizeof *r->saved;
    for (uint32_t i = 0; i < d->plan.ranks; i++)
        if (r->ranks[i].step != k->step || r->ranks[i].which != k->which)
            return;
    r->saved_step = k->step;
    r->saved_which = k->which;
    r->saved_data = step->data;
    if (r->saved == NULL)
        r->saved = malloc(bytes);
    memcpy(r->saved, step->state, bytes);
}

static void begin_update(rank *k)
{
    k->doing = RANK_UPDATES;
    k->step = ORR_TEAM_NONE;
    if (!k->moot) {
        k->part.committed = k->which;
        if (!hold(k, oracle_state_before(&k->of->of->oracle, &k->model, k->which)))
            return;
    }
    model_update(&k->model, k->turn.step, k->turn.contributors, 0);
    wake_in(k, (double)k->of->of->plan.update_ns);
}

static void end_update(rank *k)
{
    scenario *d = k->of->of;
    const uint64_t step = k->turn.step;
    model_update(&k->model, step, k->turn.contributors, 1);
    if (!k->moot && !hold(k, oracle_state(&d->oracle, &k->model, k->which)))
        return;
    k->doing = RANK_IDLE;
    k->step = k->moot ? ORR_TEAM_NONE : step;
    if (d->plan.back == BACK_CHECKPOINT && step % 3 == 0 && !k->moot)
        save_checkpoint(k);
    orr_team_member_updated(k->member, step);
    next_turn(k);
}

static void work(rank *k)
{
    scenario *d = k->of->of;
    const uint32_t op = k->op++;
    const bool zeros = k->turn.kind == ORR_DIRECTIVE_ZEROS;
    orr_error err;
    if (!zeros)
        model_compute(&k->model, op, k->turn.slot);
    const orr_status status =
        orr_team_member_reduce(k->member, d->plan.shape.dtype[op], zeros ? NULL : k->model.in[op],
                               k->model.out[op], d->plan.shape.n[op], &err);
    if (status != ORR_OK)
        scenario_fail(d, "%s cannot hand in: %s", name_of(k), err.text);
    if (k->op < d->plan.shape.n_ops) {
        wake_in(k, (double)d->plan.compute_ns / d->plan.shape.n_ops * (zeros ? 0.1 : 1));
        return;
    }
    k->doing = RANK_WAITS;
    if (!zeros) {
        k->part.step = k->turn.step;
        k->part.slot = k->turn.slot;
        k->part.at = orr_simnet_events(d->world);
    }
    orr_team_member_complete(k->member);
}

static void on_woken(void *ctx)
{
    rank *k = ctx;
    if (k->of->of->failed)
        return;
    if (k->doing == RANK_WORKS)
        work(k);
    else if (k->doing == RANK_UPDATES)
        end_update(k);
}

/* Its leader has left, and the ranks of a replica end together. */
static void leave(void *ctx)
{
    replica *r = ctx;
    if (!r->lives || r->ranks[0].doing != RANK_LEFT)
        return;
    scenario_log(r->of, r->name, "ends");
    replica_kill(r, false);
    r->left = true;
}

/* The sums that it was told were put aside. */
static bool apply_deferred(rank *k, const orr_team_directive *turn)
{
    oracle *t = &k->of->of->oracle;
    /* A leader's turn of an epoch before: whatever comes of it, the state is fetched anew. */
    k->moot = k->index > 0 && (turn->epoch < k->part.epoch || k->of->drains);
    if (k->moot)
        return true;
    for (uint32_t i = 0; i < k->n_deferred; i++) {
        k->which = k->deferred[i];
        if (t->steps.at[k->which].step != turn->step)
            continue;
        k->n_deferred -= i + 1;
        memmove(k->deferred, k->deferred + i + 1, k->n_deferred * sizeof *k->deferred);
        return hold(k, oracle_again(t, &k->model, k->which));
    }
    scenario_fail(k->of->of, "%s applies step %" PRIu64 ", which was never put aside", name_of(k),
                  turn->step);
    return false;
}

static void put_aside(rank *k)
{
    if (k->n_deferred == SCENARIO_TURNS) { /* the older ones were forgotten long ago */
        memmove(k->deferred, k->deferred + 1, (SCENARIO_TURNS - 1) * sizeof *k->deferred);
        k->n_deferred--;
    }
    k->deferred[k->n_deferred++] = k->which;
}

static void take_turn(rank *k, const orr_team_directive *turn)
{
    static const char *const kinds[] = {"computes", "hands in zeros", "applies", "left"};
    scenario *d = k->of->of;
    k->turn = *turn;
    k->moot = false;
    k->op = 0;
    scenario_log(d, name_of(k), "turn: %s, step %" PRIu64 ", slot %" PRIu64 ", epoch %" PRIu64,
                 kinds[turn->kind], turn->step, turn->slot, turn->epoch);
    for (uint32_t i = 1; k->index == 0 && i < d->plan.ranks; i++) {
        rank *other = &k->of->ranks[i];
        if (other->n_turns == SCENARIO_TURNS) {
            scenario_fail(d, "%s is %d turns behind", name_of(other), SCENARIO_TURNS);
            return;
        }
        other->turns[other->n_turns++] = *turn;
        other->net->wake_at(other->net, &other->user, 0);
    }
    switch ((orr_team_directive_kind)turn->kind) {
    case ORR_DIRECTIVE_COMPUTE:
    case ORR_DIRECTIVE_ZEROS:
        k->doing = RANK_WORKS;
        wake_in(k, (double)d->plan.compute_ns / d->plan.shape.n_ops);
        break;
    case ORR_DIRECTIVE_APPLY:
        if (apply_deferred(k, turn))
            begin_update(k);
        break;
    case ORR_DIRECTIVE_LEAVE:
        k->doing = RANK_LEFT;
        scenario_at(d, orr_simnet_now_ns(d->world) + d->plan.world.latency_ns, leave, k->of);
        break;
    }
}

/* A turn that comes while ranks compare what they were told waits until they have. */
static void on_turn(void *ctx, const orr_team_directive *turn)
{
    rank *k = ctx;
    if (k->of->of->failed)
        return;
    k->waits = k->doing == RANK_AGREES;
    if (k->waits)
        k->waiting = *turn;
    else
        take_turn(k, turn);
}

static void act(rank *k)
{
    scenario *d = k->of->of;
    const orr_team_outcome *o = &k->outcome;
    k->doing = RANK_IDLE;
    if (o->kind == ORR_OUTCOME_DEFERRED)
        put_aside(k);
    model_scribble(&k->model);
    d->deferred += o->kind == ORR_OUTCOME_DEFERRED;
    d->retried += o->retries > 0;
    if (o->kind == ORR_OUTCOME_COMMITTED) {
        d->commits++;
        k->turn.contributors = o->contributors;
        begin_update(k);
    } else if (k->waits) {
        k->waits = false;
        take_turn(k, &k->waiting);
    } else {
        k->net->wake_at(k->net, &k->user, 0);
    }
}

static void come_back(void *ctx)
{
    replica *r = ctx;
    if (!r->left)
        replica_start(r);
}

static void end_quarrel(void *ctx)
{
    replica *r = ctx;
    if (!r->lives || !r->quarrels)
        return;
    r->of->quarrels++;
    replica_kill(r, false);
    scenario_at(r->of, orr_simnet_now_ns(r->of->world) + r->of->plan.failure_ns / 10, come_back, r);
}

/* The ranks of a replica act on an outcome when all have been told the same; if not, the replica
 * ends. */
static void agree(replica *r)
{
    const orr_team_outcome *first = &r->ranks[0].outcome;
    const uint32_t n = r->of->plan.ranks;
    for (uint32_t i = 0; i < n; i++)
        if (r->ranks[i].doing != RANK_AGREES)
            return;
    for (uint32_t i = 1; i < n; i++) {
        const orr_team_outcome *o = &r->ranks[i].outcome;
        r->quarrels |= o->kind != first->kind || o->step != first->step ||
                       o->contributors != first->contributors;
    }
    if (r->quarrels) {
        scenario_log(r->of, r->name, "was told different things");
        scenario_at(r->of, orr_simnet_now_ns(r->of->world), end_quarrel, r);
        return;
    }
    for (uint32_t i = 0; i < n && !r->of->failed; i++)
        act(&r->ranks[i]);
}

static void on_outcome(void *ctx, const orr_team_outcome *outcome)
{
    static const char *const kinds[] = {"commits", "defers", "drops"};
    rank *k = ctx;
    scenario *d = k->of->of;
    if (d->failed)
        return;
    scenario_log(d, name_of(k), "%s step %" PRIu64 ", %" PRIu64 " contributors, epoch %" PRIu64,
                 kinds[outcome->kind], outcome->step, outcome->contributors, outcome->epoch);
    if (outcome->kind == ORR_OUTCOME_DROPPED && outcome->contributors > 0 &&
        k->part.step == outcome->step)
        k->part.step = ORR_TEAM_NONE; /* it was committed of sums that others had: it has none */
    if (outcome->kind != ORR_OUTCOME_DROPPED && !check_commit(k, outcome))
        return;
    k->outcome = *outcome;
    k->doing = RANK_AGREES;
    agree(k->of);
}

static void on_refused(void *ctx, const char *why)
{
    rank *k = ctx;
    scenario_log(k->of->of, name_of(k), "is refused: %s", why);
    k->of->refused = true;
}

static void on_told(void *ctx, const orr_team_event *event)
{
    rank *k = ctx;
    scenario_log(k->of->of, name_of(k), "%s: %s (epoch %" PRIu64 ", step %" PRIu64 ")",
                 orr_team_event_name((orr_team_event_kind)event->kind), event->text, event->epoch,
                 event->step);
    if (event->kind == ORR_TEAM_EPOCH)
        k->part.epoch = event->epoch;
    faults_notice(k->of->of, event->kind);
}

/* Followers are handed turns from their owner's own time, not from within their leader's call. */
static void owner_woken(void *ctx)
{
    rank *k = ctx;
    if (k->doing == RANK_IDLE)
        next_turn(k);
    else
        on_woken(k);
}

static const char *coordinators_of(const scenario *d)
{
    return d->plan.coordinators == 1 ? "h0:77" : "h0:77,h1:77";
}

static void start_rank(rank *k, const orr_team_data_cursor *data)
{
    replica *r = k->of;
    scenario *d = r->of;
    orr_error err;
    orr_simnet_restart(d->world, k->host);
    k->net = orr_simnet_host_net(d->world, k->host);
    k->user = (orr_net_callbacks){.ctx = k, .woken = owner_woken};
    k->n_turns = 0;
    k->doing = RANK_IDLE;
    k->part = oracle_no_part(0);
    k->n_deferred = 0;
    k->waits = false;
    model_init(&k->model, &d->plan.shape, k->index);
    if (k->step != 0 && k->step != ORR_TEAM_NONE)
        memcpy(k->model.state, r->saved + (size_t)k->index * d->plan.shape.words,
               d->plan.shape.words * sizeof(uint64_t));
    const orr_team_member_settings settings = {
        .coordinator = r->proxy != NULL ? orr_replica_proxy_address(r->proxy) : coordinators_of(d),
        .name = r->name,
        .incarnation = r->incarnation,
        .rank = k->index,
        .ranks = d->plan.ranks,
        .leads = k->index == 0,
        .fingerprint = 7,
        .where = "here:0",
        .failure_timeout_ns = d->plan.failure_ns,
        .catch_up_steps = d->plan.catch_up_steps,
        .ring = d->plan.ring,
        .step = k->step,
        .data = *data,
        .spans = k->model.spans,
        .n_spans = MODEL_SPANS};
    const orr_team_member_callbacks user = {.ctx = k,
                                            .directive = on_turn,
                                            .outcome = on_outcome,
                                            .refused = on_refused,
                                            .on_event = on_told};
    if (orr_team_member_new(k->net, &settings, &user, &k->member, &err) != ORR_OK)
        scenario_fail(d, "%s cannot start: %s", name_of(k), err.text);
}

void replica_start(replica *r)
{
    scenario *d = r->of;
    orr_team_data_cursor data = {0};
    orr_error err;
    uint64_t step = 0;
    if (r->lives)
        return;
    if (r->incarnation > 0 && d->plan.back == BACK_EMPTY && !d->anew)
        step = ORR_TEAM_NONE;
    else if (r->incarnation > 0 && d->plan.back == BACK_CHECKPOINT && r->saved != NULL &&
             oracle_stands(&d->oracle, r->saved_which)) {
        step = r->saved_step;
        data = r->saved_data;
    }
    r->lives = true;
    r->left = r->refused = r->drains = r->quarrels = false;
    r->incarnation = ++d->incarnations;
    scenario_log(d, r->name, "starts, step %" PRId64 ", incarnation %" PRIu64, (int64_t)step,
                 r->incarnation);
    if (d->plan.ranks > 1) {
        const orr_replica_proxy_settings settings = {.coordinator = coordinators_of(d),
                                                     .where = "here:0",
                                                     .ranks = d->plan.ranks,
                                                     .failure_timeout_ns = d->plan.failure_ns};
        orr_simnet_restart(d->world, r->ranks[0].host);
        if (orr_replica_proxy_new(orr_simnet_host_net(d->world, r->ranks[0].host), &settings,
                                  &r->proxy, &err) != ORR_OK)
            scenario_fail(d, "%s has no hub: %s", r->name, err.text);
    }
    for (uint32_t i = 0; i < d->plan.ranks && !d->failed; i++) {
        r->ranks[i].step = step;
        start_rank(&r->ranks[i], &data);
    }
}

void replica_kill(replica *r, bool silently)
{
    if (!r->lives)
        return;
    r->lives = false;
    for (uint32_t i = 0; i < r->of->plan.ranks; i++)
        orr_simnet_kill(r->of->world, r->ranks[i].host, silently);
    for (uint32_t i = 0; i < r->of->plan.ranks; i++) {
        orr_team_member_free(r->ranks[i].member);
        r->ranks[i].member = NULL;
        model_done(&r->ranks[i].model);
    }
    orr_replica_proxy_free(r->proxy);
    r->proxy = NULL;
}

bool replica_goes_on(const replica *r, uint64_t step)
{
    for (uint32_t i = 0; i < r->of->plan.ranks; i++) {
        const uint64_t has = r->ranks[i].step;
        if (has == ORR_TEAM_NONE || has < step)
            return false;
    }
    return true;
}
