/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/train/trainer.h"

/* The training loop of one replica of a team. Rank 0 receives the team's directives and broadcasts
 * them to the replica's other ranks. A step goes: directive -> (adopt the state of another replica)
 * -> compute and contribute gradients, or contribute zeros -> vote -> all ranks agree on the
 * outcome -> apply the reduced gradients, or try again. See orrery/team.h for the directives. */

enum { PROXY_TEXT = 128 };

static orr_status submit_reduction(void *ctx, uint32_t op, orr_team_dtype dtype, const void *in,
                                   void *out, size_t n, orr_error *err)
{
    const orr_trainer *t = ctx;
    return orr_team_reduce(t->team, op, dtype, in, out, n, err);
}

const orr_step_replica_reducer *orr_train_replica_reducer(orr_trainer *t)
{
    t->reducer = (orr_step_replica_reducer){submit_reduction, t};
    return t->training->options->team != NULL ? &t->reducer : NULL;
}

static bool leads(const orr_trainer *t)
{
    return t->transport->rank == 0;
}

/* Broadcasts from rank 0 to all ranks of the replica. */
static orr_status broadcast_from_leader(const orr_trainer *t, void *data, size_t bytes,
                                        orr_error *err)
{
    return t->transport->ranks > 1
               ? orr_broadcast(orr_engine_step_world(t->step), data, bytes, 0, err)
               : ORR_OK;
}

static orr_team_options options_of(orr_trainer *t)
{
    const orr_train_team *asked = t->training->options->team;
    orr_team_options o = {.coordinator = asked->coordinator,
                          .access = asked->access,
                          .name = asked->name,
                          .rank = t->transport->rank,
                          .ranks = t->transport->ranks,
                          .address = asked->address,
                          .no_shared_memory = asked->no_shared_memory,
                          .fingerprint = orr_train_fingerprint(t),
                          .replicas = asked->replicas,
                          .failure_timeout_ns = asked->failure_timeout_ns,
                          .give_up_ns = asked->give_up_ns,
                          .chunk_bytes = asked->chunk_bytes,
                          .window = asked->window,
                          .streams = asked->streams,
                          .catch_up_steps = asked->catch_up_steps,
                          .step = (uint64_t)t->last_step,
                          .data = t->data,
                          .on_event = orr_train_annotate_event,
                          .ctx = t};
    o.spans = orr_engine_step_state(t->step, &o.n_spans);
    return o;
}

static orr_status join(orr_trainer *t, orr_error *err)
{
    orr_team_options o = options_of(t);
    char proxy[PROXY_TEXT] = "";
    if (leads(t)) {
        ORR_TRY(orr_team_join(&o, &t->team, err));
        const char *at = t->transport->ranks > 1 ? orr_team_proxy_address(t->team) : "";
        strncpy(proxy, at, sizeof proxy - 1);
    }
    ORR_TRY(broadcast_from_leader(t, proxy, sizeof proxy, err));
    o.proxy = proxy;
    return leads(t) ? ORR_OK : orr_team_join(&o, &t->team, err);
}

static orr_status next_directive(orr_trainer *t, orr_team_directive *ret, orr_error *err)
{
    *ret = (orr_team_directive){0};
    if (leads(t))
        ORR_TRY(orr_team_next_directive(t->team, ret, err));
    ORR_TRY(broadcast_from_leader(t, ret, sizeof *ret, err));
    return leads(t) ? ORR_OK : orr_team_follow(t->team, ret, err);
}

/* Contributes the gradients of a batch, or zeros. */
static orr_status contribute(orr_trainer *t, const orr_team_directive *directive, orr_error *err)
{
    t->slot = directive->kind == ORR_DIRECTIVE_COMPUTE ? (int64_t)directive->slot : -1;
    if (directive->kind == ORR_DIRECTIVE_ZEROS)
        return orr_engine_step_contribute_zeros(t->step, err);
    const bool records = orr_train_records(t, (int64_t)directive->step);
    ORR_TRY(t->training->task->feed(t, directive->slot, err));
    if (records)
        orr_recorder_step(t->recorder, (int64_t)directive->step);
    else if (t->recorder != NULL)
        orr_recorder_drop_annotations(t->recorder);
    return orr_engine_step_compute(t->step, t->inputs, records ? t->recorder : NULL, err);
}

/* Restores the data position: reductions that were kept may be applied when the team is already
 * further, and then the position is unknown. */
static void update_position(orr_trainer *t)
{
    uint64_t committed;
    orr_team_position(t->team, &committed, &t->data);
    t->data_positioned = (int64_t)committed == t->last_step;
}

/* Applies the reduced gradients of a step, with the number of contributors. */
static orr_status update(orr_trainer *t, const orr_team_outcome *sums, orr_error *err)
{
    const orr_train_team *asked = t->training->options->team;
    const int64_t step = (int64_t)sums->step;
    orr_update update = orr_train_update(t, step);
    orr_step_result r;
    update.rate *= orr_team_rate_factor((orr_team_rate_policy)asked->rate, sums->contributors,
                                        asked->replicas);
    ORR_TRY(
        orr_engine_step_apply(t->step, &update, t->training->clip, sums->contributors, &r, err));
    t->last_step = step;
    t->state_complete = true;
    atomic_store(&t->state_received, false);
    orr_team_updated(t->team, sums->step);
    if (t->recorder != NULL)
        orr_recorder_end(t->recorder);
    update_position(t);
    orr_train_step told = {.step = step,
                           .rate = update.rate,
                           .contributors = (int64_t)sums->contributors,
                           .retries = (int64_t)sums->retries,
                           .epoch = (int64_t)sums->epoch,
                           .slot = t->slot};
    return orr_train_report_step(t, &told, &r, err);
}

/* All ranks must have received the same outcome, which reaches them by separate messages: if
 * connections broke in between, they differ, and the replica ends before any rank acts, to come
 * back later. */
static orr_status agree(const orr_trainer *t, const orr_team_outcome *outcome, orr_error *err)
{
    enum { NUMBERS = 3 };
    const uint32_t n = t->transport->ranks;
    const int64_t mine[NUMBERS] = {(int64_t)outcome->kind, (int64_t)outcome->step,
                                   (int64_t)outcome->contributors};
    if (n == 1)
        return ORR_OK;
    int64_t *all = orr_malloc(n * sizeof mine);
    if (all == NULL)
        return orr_fail_memory(err);
    orr_status status =
        orr_all_gather(orr_engine_step_world(t->step), mine, all, NUMBERS, ORR_DTYPE_INT64, err);
    for (uint32_t r = 0; r < n && status == ORR_OK; r++)
        if (memcmp(all + (size_t)r * NUMBERS, mine, sizeof mine) != 0)
            status =
                orr_fail(err, ORR_IO, "ranks of this replica heard different outcomes of step %llu",
                         (unsigned long long)outcome->step);
    orr_free(all);
    return status;
}

/* Takes part in attempts of a step until it is decided, and applies the update. */
static orr_status make_step(orr_trainer *t, const orr_team_directive *directive, orr_error *err)
{
    orr_team_outcome outcome = {.step = directive->step,
                                .epoch = directive->epoch,
                                .contributors = directive->contributors};
    if (directive->kind == ORR_DIRECTIVE_APPLY) {
        t->slot = -1;
        return update(t, &outcome, err);
    }
    ORR_TRY(contribute(t, directive, err));
    const int64_t begin_ns = orr_clock_now_ns(&orr_clock_monotonic);
    ORR_TRY(orr_team_vote(t->team, orr_engine_step_reductions(t->step), &outcome, err));
    orr_train_annotate_wait(t, &outcome, begin_ns);
    ORR_TRY(agree(t, &outcome, err));
    if (outcome.kind == ORR_OUTCOME_COMMITTED)
        return update(t, &outcome, err);
    if (t->recorder != NULL)
        orr_recorder_end(t->recorder);
    return ORR_OK;
}

/* If another replica made the previous step, the weights have come from there: refreshes the copies
 * derived from them. */
static orr_status adopt_state(orr_trainer *t, const orr_team_directive *directive, orr_error *err)
{
    const bool own = t->state_complete && t->last_step + 1 == (int64_t)directive->step;
    t->state_complete = directive->kind != ORR_DIRECTIVE_ZEROS;
    if (!t->state_complete)
        return ORR_OK;
    atomic_store(&t->state_received, false);
    t->last_step = (int64_t)directive->step - 1;
    return own ? ORR_OK : orr_engine_step_weights_changed(t->step, err);
}

orr_status orr_train_run_replica(orr_trainer *t, orr_error *err)
{
    orr_train_job *training = t->training;
    const int64_t last = training->options->steps;
    ORR_TRY(join(t, err));
    for (orr_team_directive directive;;) {
        bool stop = false;
        ORR_TRY(orr_train_synchronize(t, &stop, err));
        if ((stop || t->last_step >= last) && leads(t))
            orr_team_drain(t->team, t->last_step >= last);
        ORR_TRY(next_directive(t, &directive, err));
        if (directive.kind == ORR_DIRECTIVE_LEAVE)
            break;
        if ((int64_t)directive.step >= last && directive.kind == ORR_DIRECTIVE_COMPUTE && leads(t))
            orr_team_drain(t->team, true); /* the training is complete after this step */
        ORR_TRY(adopt_state(t, &directive, err));
        ORR_TRY(make_step(t, &directive, err));
        ORR_TRY(orr_train_save(t, false, err));
    }
    training->result.stopped = t->last_step < last;
    update_position(t);
    ORR_TRY(orr_train_save(t, true, err));
    /* All ranks have received rank 0's last broadcast. */
    return t->transport->ranks > 1 ? orr_barrier(orr_engine_step_world(t->step), err) : ORR_OK;
}

void orr_train_leave_team(orr_trainer *t)
{
    orr_team_leave(t->team);
    t->team = NULL;
    orr_train_annotate_end(t);
}
