/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "team/access.h"
#include "io/socket/address.h"
#include "team/member/coordinator_list.h"
#include "team/session_parts.h"
#include "team/protocol/timeouts.h"

/* What include/orrery/team.h promises to whoever trains. */

#define GIVE_UP_NS INT64_C(600000000000)

/* "10.0.0.5" or "10.0.0.5:7000" as where rings, state and ranks of the replica listen: any port, or
 * that one and the two after it. */
static orr_status settle_addresses(orr_team *t, orr_error *err)
{
    const orr_team_options *o = &t->options;
    char reached[ORR_NET_ADDRESS_BYTES / 2];
    orr_coordinator_list coordinators;
    const char *address = o->address;
    if (address == NULL && o->rank > 0 && o->proxy != NULL)
        ORR_TRY(orr_address_toward(o->proxy, reached, sizeof reached, err));
    else if (address == NULL) {
        ORR_TRY(orr_coordinator_list_read(o->coordinator, &coordinators, err));
        ORR_TRY(orr_address_toward(coordinators.addresses[0], reached, sizeof reached, err));
    }
    if (address == NULL)
        address = reached;
    const char *colon = strrchr(address, ':'), *bracket = strrchr(address, ']');
    const char *shm = o->no_shared_memory ? "" : "|shm", *mark = orr_team_access_mark(&o->access);
    unsigned port = 0;
    int host = (int)strlen(address);
    if (colon != NULL && (bracket == NULL ? strchr(address, ':') == colon : bracket < colon)) {
        host = (int)(colon - address);
        if (sscanf(colon + 1, "%5u", &port) != 1 || port == 0 || port > 65533)
            return orr_fail(err, ORR_INVALID, "\"%s\" is no address: HOST or HOST:PORT", address);
    }
    if (host >= ORR_NET_ADDRESS_BYTES / 2)
        return orr_fail(err, ORR_INVALID, "an address of %d characters", host);
    snprintf(t->where, sizeof t->where, "%.*s:%u%s%s", host, address, port, mark, shm);
    snprintf(t->state_where, sizeof t->state_where, "%.*s:%u%s", host, address,
             port > 0 ? port + 1 : 0, shm);
    snprintf(t->proxy_where, sizeof t->proxy_where, "%.*s:%u", host, address,
             port > 0 ? port + 2 : 0);
    return orr_team_access_check(&o->access, t->where, err);
}

static orr_status open_proxy(orr_team *t, orr_error *err)
{
    const orr_replica_proxy_settings settings = {.coordinator = t->options.coordinator,
                                                 .where = t->proxy_where,
                                                 .ranks = t->options.ranks,
                                                 .failure_timeout_ns =
                                                     t->options.failure_timeout_ns};
    if (t->options.ranks == 1)
        return ORR_OK;
    if (t->options.rank > 0) {
        if (t->options.proxy == NULL)
            return orr_fail(err, ORR_INVALID, "rank %u does not know where rank 0 is",
                            t->options.rank);
        return ORR_OK;
    }
    return orr_replica_proxy_new(t->net, &settings, &t->proxy, err);
}

static uint64_t incarnation_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static orr_status open_member(orr_team *t, orr_error *err)
{
    const orr_team_options *o = &t->options;
    const orr_team_member_settings settings = {
        .coordinator = o->ranks == 1      ? o->coordinator
                       : t->proxy != NULL ? orr_replica_proxy_address(t->proxy)
                                          : o->proxy,
        .name = o->name,
        .incarnation = incarnation_now(),
        .rank = o->rank,
        .ranks = o->ranks,
        .leads = o->rank == 0,
        .fingerprint = o->fingerprint,
        .where = t->where,
        .state_where = t->state_where,
        .failure_timeout_ns = o->failure_timeout_ns,
        .catch_up_steps = o->catch_up_steps,
        .ring = {.chunk_bytes = o->chunk_bytes, .window = o->window, .streams = o->streams},
        .step = o->step,
        .data = o->data,
        .spans = o->spans,
        .n_spans = o->n_spans,
        .state_net = t->state_net};
    t->user = orr_team_session_callbacks;
    t->user.ctx = t;
    return orr_team_member_new(t->net, &settings, &t->user, &t->member, err);
}

static orr_status start_threads(orr_team *t, orr_error *err)
{
    if (pthread_create(&t->serving, NULL, orr_team_session_serve, t) != 0)
        return orr_fail(err, ORR_IO, "no thread for the state of others");
    t->serves = true;
    if (pthread_create(&t->control, NULL, orr_team_session_control, t) != 0)
        return orr_fail(err, ORR_IO, "no thread for the team");
    t->running = true;
    return ORR_OK;
}

static orr_status check(const orr_team_options *o, orr_error *err)
{
    orr_team_timeouts times;
    ORR_TRY(orr_team_timeouts_of(o->failure_timeout_ns, &times, err));
    if (o->give_up_ns != 0 && o->give_up_ns < 2 * times.failure_ns)
        return orr_fail(err, ORR_INVALID,
                        "to give up after %lld ms leaves no time to find a failure in %lld ms",
                        (long long)(o->give_up_ns / 1000000),
                        (long long)(times.failure_ns / 1000000));
    return ORR_OK;
}

orr_status orr_team_join(const orr_team_options *options, orr_team **ret, orr_error *err)
{
    orr_status status;
    ORR_TRY(check(options, err));
    orr_team *t = orr_calloc(1, sizeof *t);
    if (t == NULL)
        return orr_fail_memory(err);
    pthread_condattr_t monotonic;
    t->options = *options;
    if (t->options.ranks == 0)
        t->options.ranks = 1;
    if (t->options.give_up_ns == 0)
        t->options.give_up_ns = GIVE_UP_NS;
    t->step = options->step;
    t->data = options->data;
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&t->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    const orr_net_system_options net = orr_team_access_net(&options->access);
    ORR_TRY_OUT(status, settle_addresses(t, err));
    ORR_TRY_OUT(status, orr_net_system_new(&net, &t->net, err));
    ORR_TRY_OUT(status, orr_net_system_new(&net, &t->state_net, err));
    ORR_TRY_OUT(status, open_proxy(t, err));
    ORR_TRY_OUT(status, open_member(t, err));
    ORR_TRY_OUT(status, start_threads(t, err));
    *ret = t;
out:
    if (status != ORR_OK)
        orr_team_leave(t);
    return status;
}

const char *orr_team_proxy_address(const orr_team *t)
{
    return t->proxy != NULL ? orr_replica_proxy_address(t->proxy) : NULL;
}

void orr_team_leave(orr_team *t)
{
    if (t == NULL)
        return;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_mutex_unlock(&t->lock);
    if (t->running) {
        t->net->interrupt(t->net);
        pthread_join(t->control, NULL);
    }
    if (t->serves) {
        t->state_net->interrupt(t->state_net);
        pthread_join(t->serving, NULL);
    }
    orr_team_member_free(t->member);
    orr_replica_proxy_free(t->proxy);
    orr_net_free(t->net);
    orr_net_free(t->state_net);
    orr_array_done(&t->commands);
    orr_array_done(&t->early);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    orr_free(t);
}

static orr_status command(orr_team *t, const orr_team_command *c, orr_error *err)
{
    pthread_mutex_lock(&t->lock);
    const bool pushed = orr_array_push(&t->commands, *c);
    pthread_mutex_unlock(&t->lock);
    if (!pushed)
        return orr_fail_memory(err);
    t->net->interrupt(t->net);
    return ORR_OK;
}

/* Until `flag`, which is taken back; with the lock held. */
static orr_status wait_for(orr_team *t, bool *flag, orr_error *err)
{
    while (!*flag) {
        struct timespec until;
        if (t->failed != ORR_OK) {
            *err = t->err;
            return t->failed;
        }
        if (t->alone_ns > t->options.give_up_ns)
            return orr_fail(err, ORR_LIMIT, "no team for %lld s: %s",
                            (long long)(t->alone_ns / 1000000000), t->why);
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&t->changed, &t->lock, &until);
    }
    *flag = false;
    return ORR_OK;
}

static orr_status wait_directive(orr_team *t, orr_team_directive *ret, orr_error *err)
{
    pthread_mutex_lock(&t->lock);
    const orr_status status = wait_for(t, &t->has_directive, err);
    if (status == ORR_OK)
        *ret = t->directive;
    pthread_mutex_unlock(&t->lock);
    return status;
}

orr_status orr_team_next_directive(orr_team *t, orr_team_directive *ret, orr_error *err)
{
    return wait_directive(t, ret, err);
}

orr_status orr_team_follow(orr_team *t, const orr_team_directive *directive, orr_error *err)
{
    orr_team_directive taken;
    ORR_TRY(
        command(t, &(orr_team_command){.kind = ORR_COMMAND_FOLLOW, .directive = *directive}, err));
    return wait_directive(t, &taken, err);
}

orr_status orr_team_reduce(orr_team *t, uint32_t op, orr_team_dtype dtype, const void *in,
                           void *out, size_t n, orr_error *err)
{
    const orr_team_command c = {
        .kind = ORR_COMMAND_REDUCE, .op = op, .dtype = dtype, .in = in, .out = out, .n = n};
    return command(t, &c, err);
}

orr_status orr_team_vote(orr_team *t, uint32_t ops, orr_team_outcome *ret, orr_error *err)
{
    ORR_TRY(command(t, &(orr_team_command){.kind = ORR_COMMAND_VOTE, .op = ops}, err));
    pthread_mutex_lock(&t->lock);
    const orr_status status = wait_for(t, &t->has_outcome, err);
    if (status == ORR_OK)
        *ret = t->outcome;
    pthread_mutex_unlock(&t->lock);
    return status;
}

void orr_team_updated(orr_team *t, uint64_t step)
{
    orr_error err;
    const orr_team_command c = {.kind = ORR_COMMAND_UPDATED, .step = step};
    if (command(t, &c, &err) == ORR_OK)
        return;
    pthread_mutex_lock(&t->lock);
    t->failed = err.status;
    t->err = err;
    pthread_mutex_unlock(&t->lock);
}

void orr_team_drain(orr_team *t, bool done)
{
    orr_error err;
    const orr_team_command c = {.kind = ORR_COMMAND_DRAIN, .op = done};
    if (command(t, &c, &err) != ORR_OK) { /* it is asked again */
    }
}

void orr_team_position(orr_team *t, uint64_t *ret_step, orr_team_data_cursor *ret)
{
    pthread_mutex_lock(&t->lock);
    *ret_step = t->step;
    *ret = t->data;
    pthread_mutex_unlock(&t->lock);
}
