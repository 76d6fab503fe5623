/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "team/session_parts.h"

/* The control thread of a session: polls the net, and passes between the training loop and the
 * member. Under the lock, commands (reduce, vote, updated, follow, drain) come in, and directives,
 * outcomes and failures go out. The member takes reductions in the order of their numbers, but the
 * loop may submit them in any order, as backward passes finish: early ones wait until their number
 * is next. */

#define LOOK_NS INT64_C(100000000)

static void on_directive(void *ctx, const orr_team_directive *directive)
{
    orr_team *t = ctx;
    t->early.n = 0;
    t->next_op = 0;
    t->voted = false;
    pthread_mutex_lock(&t->lock);
    t->directive = *directive;
    t->has_directive = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void on_outcome(void *ctx, const orr_team_outcome *outcome)
{
    orr_team *t = ctx;
    pthread_mutex_lock(&t->lock);
    orr_team_member_position(t->member, &t->step, &t->data);
    t->outcome = *outcome;
    t->has_outcome = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void fail(orr_team *t, orr_status status, const orr_error *err)
{
    pthread_mutex_lock(&t->lock);
    if (t->failed == ORR_OK) {
        t->failed = status;
        t->err = *err;
    }
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void on_refused(void *ctx, const char *why)
{
    orr_team *t = ctx;
    orr_error err;
    fail(t, orr_fail(&err, ORR_INVALID, "the coordinator refuses %s: %s", t->options.name, why),
         &err);
}

static void on_event(void *ctx, const orr_team_event *event)
{
    orr_team *t = ctx;
    if (event->kind == ORR_TEAM_HALT || event->kind == ORR_TEAM_COORDINATOR_LOST) {
        pthread_mutex_lock(&t->lock);
        snprintf(t->why, sizeof t->why, "%s", event->text);
        pthread_mutex_unlock(&t->lock);
    }
    if (t->options.on_event != NULL)
        t->options.on_event(t->options.ctx, event);
}

const orr_team_member_callbacks orr_team_session_callbacks = {
    .directive = on_directive, .outcome = on_outcome, .refused = on_refused, .on_event = on_event};

static void reduce(orr_team *t, const orr_team_command *c)
{
    orr_error err;
    const orr_status status =
        orr_team_member_reduce(t->member, c->dtype, c->in, c->out, c->n, &err);
    if (status != ORR_OK)
        fail(t, status, &err);
    t->next_op++;
}

/* Passes early reductions on, as far as their numbers follow. */
static void reduce_what_can_be(orr_team *t)
{
    for (size_t i = 0; i < t->early.n;) {
        if (t->early.at[i].op != t->next_op) {
            i++;
            continue;
        }
        const orr_team_command c = t->early.at[i];
        t->early.at[i] = t->early.at[--t->early.n];
        reduce(t, &c);
        i = 0;
    }
    if (t->voted && t->next_op >= t->ops) {
        t->voted = false;
        orr_team_member_complete(t->member);
    }
}

static void execute(orr_team *t, const orr_team_command *c)
{
    orr_error err;
    switch (c->kind) {
    case ORR_COMMAND_REDUCE:
        if (!orr_array_push(&t->early, *c))
            fail(t, orr_fail_memory(&err), &err);
        reduce_what_can_be(t);
        break;
    case ORR_COMMAND_VOTE:
        t->voted = true;
        t->ops = c->op;
        reduce_what_can_be(t);
        break;
    case ORR_COMMAND_UPDATED:
        orr_team_member_updated(t->member, c->step);
        break;
    case ORR_COMMAND_FOLLOW:
        orr_team_member_follow(t->member, &c->directive);
        break;
    case ORR_COMMAND_DRAIN:
        orr_team_member_drain(t->member, c->op != 0);
        break;
    }
}

static bool take_commands(orr_team *t, orr_team_commands *taken)
{
    uint64_t step;
    orr_team_data_cursor data;
    orr_team_member_position(t->member, &step, &data);
    pthread_mutex_lock(&t->lock);
    const orr_team_commands empty = *taken;
    *taken = t->commands;
    t->commands = empty;
    t->commands.n = 0;
    t->alone_ns = orr_team_member_isolated_ns(t->member);
    if (t->step != step) {
        t->step = step;
        t->data = data;
    }
    const bool stop = t->stop;
    pthread_mutex_unlock(&t->lock);
    return !stop;
}

/* What the proxy said last to its ranks is handed over before its connections go. */
static void flush_proxy(orr_team *t)
{
    const int64_t until = t->net->now_ns(t->net) + 2 * LOOK_NS;
    while (t->proxy != NULL && t->net->now_ns(t->net) < until)
        t->net->poll(t->net, until);
}

void *orr_team_session_control(void *team)
{
    orr_team *t = team;
    orr_team_commands taken = {0};
    while (take_commands(t, &taken)) {
        for (size_t i = 0; i < taken.n; i++)
            execute(t, &taken.at[i]);
        if (taken.n == 0)
            t->net->poll(t->net, t->net->now_ns(t->net) + LOOK_NS);
        taken.n = 0;
    }
    flush_proxy(t);
    orr_array_done(&taken);
    return NULL;
}

void *orr_team_session_serve(void *team)
{
    orr_team *t = team;
    bool stop = false;
    while (!stop) {
        t->state_net->poll(t->state_net, t->state_net->now_ns(t->state_net) + LOOK_NS);
        pthread_mutex_lock(&t->lock);
        stop = t->stop;
        pthread_mutex_unlock(&t->lock);
    }
    return NULL;
}
