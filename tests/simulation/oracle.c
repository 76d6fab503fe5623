/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE        UINT32_MAX
#define SAY(t, ...) (snprintf((t)->why, sizeof(t)->why, __VA_ARGS__), false)

static void *must(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

static size_t bytes_of(const oracle *t)
{
    return (size_t)t->shape->words * sizeof(uint64_t);
}

static const uint64_t *state_of(const oracle *t, uint32_t which, uint32_t rank)
{
    return t->steps.at[which].state + (size_t)rank * t->shape->words;
}

/* Takes the states of the scratch models along. */
static uint32_t push(oracle *t, oracle_step *s)
{
    s->state = must(malloc(t->ranks * bytes_of(t)));
    for (uint32_t r = 0; r < t->ranks; r++)
        memcpy(s->state + (size_t)r * t->shape->words, t->models[r].state, bytes_of(t));
    while (t->first.n <= s->step)
        if (!orr_array_push(&t->first, NONE))
            abort();
    s->next = t->first.at[s->step];
    t->first.at[s->step] = (uint32_t)t->steps.n;
    if (!orr_array_push(&t->steps, *s))
        abort();
    return (uint32_t)t->steps.n - 1;
}

void oracle_init(oracle *t, const model_shape *shape, uint32_t ranks)
{
    *t = (oracle){.shape = shape, .ranks = ranks};
    t->models = must(calloc(ranks, sizeof *t->models));
    for (uint32_t r = 0; r < ranks; r++)
        model_init(&t->models[r], shape, r);
    oracle_step begin = {.parent = NONE};
    push(t, &begin);
}

void oracle_done(oracle *t)
{
    for (size_t i = 0; i < t->steps.n; i++)
        free(t->steps.at[i].state);
    orr_array_done(&t->steps);
    orr_array_done(&t->first);
    for (uint32_t r = 0; r < t->ranks; r++)
        model_done(&t->models[r]);
    free(t->models);
}

uint64_t oracle_last(const oracle *t)
{
    return t->steps.at[t->tip].step;
}

static bool same_data(const orr_team_data_cursor *a, const orr_team_data_cursor *b)
{
    return a->next == b->next && a->n == b->n &&
           memcmp(a->returned, b->returned, a->n * sizeof *a->returned) == 0;
}

/* Slots that were open before a step and are not after it. */
static bool slots_between(oracle *t, const orr_team_data_cursor *before, oracle_step *s)
{
    const orr_team_data_cursor *after = &s->data;
    s->n_slots = 0;
    if (after->next < before->next)
        return SAY(t, "S3: data go back from slot %" PRIu64 " to %" PRIu64, before->next,
                   after->next);
    for (uint32_t i = 0; i < after->n; i++)
        if (!orr_team_data_cursor_is_open(before, after->returned[i]))
            return SAY(t, "S3: slot %" PRIu64 " was trained, and comes back", after->returned[i]);
    for (uint32_t i = 0; i < before->n + (after->next - before->next); i++) {
        const uint64_t slot = i < before->n ? before->returned[i] : before->next + i - before->n;
        if (orr_team_data_cursor_is_open(after, slot))
            continue;
        if (s->n_slots == ORR_TEAM_MAX_REPLICAS)
            return SAY(t, "S3: too many slots in step %" PRIu64, s->step);
        s->slots[s->n_slots++] = slot;
    }
    if (s->n_slots != s->contributors)
        return SAY(t, "S2: step %" PRIu64 " has %u slots of data, and %" PRIu64 " contributors",
                   s->step, s->n_slots, s->contributors);
    return true;
}

/* The sums of a step in the oracle's own model of a rank, as they follow from the state before. */
static void make_sums(oracle *t, uint32_t rank, const oracle_step *s)
{
    memcpy(t->models[rank].state, state_of(t, s->parent, rank), bytes_of(t));
    for (uint32_t op = 0; op < t->shape->n_ops; op++)
        model_sum(&t->models[rank], op, s->slots, s->n_slots);
}

static bool sums_match(oracle *t, const model *m, const oracle_step *s)
{
    make_sums(t, m->rank, s);
    for (uint32_t op = 0; op < t->shape->n_ops; op++)
        if (memcmp(m->out[op], t->models[m->rank].out[op], model_op_bytes(t->shape, op)) != 0)
            return SAY(t, "S1: sums of reduction %u of step %" PRIu64 " are wrong", op, s->step);
    return true;
}

/* One that is there already with these sums; NONE: there is none. */
static uint32_t find(oracle *t, const model *m, const oracle_step *s)
{
    for (uint32_t i = s->step < t->first.n ? t->first.at[s->step] : NONE; i != NONE;
         i = t->steps.at[i].next) {
        const oracle_step *other = &t->steps.at[i];
        if (other->contributors == s->contributors && same_data(&other->data, &s->data) &&
            sums_match(t, m, other))
            return i;
    }
    return NONE;
}

static uint32_t add(oracle *t, const model *m, oracle_step *s)
{
    for (uint32_t i = s->step - 1 < t->first.n ? t->first.at[s->step - 1] : NONE; i != NONE;
         i = t->steps.at[i].next) {
        s->parent = i;
        if (!slots_between(t, &t->steps.at[i].data, s) || !sums_match(t, m, s))
            continue;
        for (uint32_t r = 0; r < t->ranks; r++) {
            make_sums(t, r, s);
            model_update(&t->models[r], s->step, s->contributors, 0);
            model_update(&t->models[r], s->step, s->contributors, 1);
        }
        return push(t, s);
    }
    return NONE;
}

static bool is_after(const oracle *t, uint32_t which, uint32_t ancestor)
{
    while (which != NONE && t->steps.at[which].step > t->steps.at[ancestor].step)
        which = t->steps.at[which].parent;
    return which == ancestor;
}

static bool was_prepared(const oracle_part *p, uint64_t step, uint64_t epoch, uint64_t at)
{
    return p->step == step && p->epoch == epoch && p->at < at;
}

/* Nobody lives who has the tip, or was prepared for it, or for what the coordinator decided after
 * it. Members of an epoch before do not count: they were lost before. */
static bool may_undo(oracle *t, const oracle_step *by, const oracle_now *now)
{
    const oracle_step *tip = &t->steps.at[t->tip];
    const oracle_decision *last = &now->abandoned;
    const bool further = last->step > tip->step && last->at > tip->at;
    for (uint32_t i = 0; i < now->n; i++) {
        const oracle_part *p = now->parts[i];
        if (last->step == tip->step && last->at > tip->at && p->epoch < last->epoch)
            continue; /* the same step was committed again, without it, by those who are dead */
        if (further && was_prepared(p, last->step, last->epoch, last->at))
            return SAY(t,
                       "S4: step %" PRIu64
                       " is committed anew, and who was prepared for step %" PRIu64 " lives",
                       by->step, last->step);
        if (!further && p->committed == t->tip)
            return SAY(t,
                       "S4: step %" PRIu64 " is committed anew, and who committed step %" PRIu64
                       " lives",
                       by->step, tip->step);
        for (uint32_t j = 0;
             !further && was_prepared(p, tip->step, tip->epoch, tip->at) && j < tip->n_slots; j++)
            if (tip->slots[j] == p->slot)
                return SAY(t,
                           "S4: step %" PRIu64 " is committed anew, and whose slot %" PRIu64
                           " was in step %" PRIu64 " lives",
                           by->step, p->slot, tip->step);
    }
    return true;
}

/* Somebody who stood still hears only now of a commit that was made, and lost, before the tip. */
static bool is_late(const oracle *t, const orr_team_outcome *outcome, const oracle_now *now)
{
    for (size_t i = 0; i < now->n_decisions; i++) {
        const oracle_decision *d = &now->decisions[i];
        if (d->step == outcome->step && d->epoch == outcome->epoch)
            return d->epoch < t->steps.at[t->tip].epoch && d->at < t->steps.at[t->tip].at;
    }
    return false;
}

bool oracle_commit(oracle *t, const model *m, const orr_team_outcome *outcome,
                   const orr_team_data_cursor *data, const oracle_now *now, uint32_t *ret)
{
    const oracle_decision *last =
        now->n_decisions > 0 ? &now->decisions[now->n_decisions - 1] : NULL;
    const bool decided = last != NULL && last->step == outcome->step;
    oracle_step s = {.step = outcome->step,
                     .data = *data,
                     .contributors = outcome->contributors,
                     .at = now->at,
                     .epoch = decided ? last->epoch : outcome->epoch};
    if (s.step == 0 || s.step > t->first.n)
        return SAY(t, "S4: step %" PRIu64 " after step %" PRIu64, s.step, oracle_last(t));
    uint32_t which = find(t, m, &s);
    if (which == NONE)
        which = add(t, m, &s);
    if (which == NONE)
        return false;
    *ret = which;
    if (is_after(t, t->tip, which) || is_late(t, outcome, now))
        return true;
    if (!is_after(t, which, t->tip)) {
        if (!may_undo(t, &s, now))
            return false;
        t->undone++;
    }
    t->tip = which;
    return true;
}

bool oracle_again(oracle *t, const model *m, uint32_t which)
{
    return sums_match(t, m, &t->steps.at[which]);
}

bool oracle_state(oracle *t, const model *m, uint32_t which)
{
    if (memcmp(m->state, state_of(t, which, m->rank), bytes_of(t)) == 0)
        return true;
    return SAY(t, "S1: the state after step %" PRIu64 " is wrong (says step %" PRIu64 ")",
               t->steps.at[which].step, m->state[0]);
}

bool oracle_state_before(oracle *t, const model *m, uint32_t which)
{
    return oracle_state(t, m, t->steps.at[which].parent);
}

bool oracle_stands(const oracle *t, uint32_t which)
{
    return is_after(t, t->tip, which);
}

void oracle_forget(oracle *t)
{
    t->tip = 0;
}

oracle_part oracle_no_part(uint64_t epoch)
{
    return (oracle_part){
        .step = ORR_TEAM_NONE, .slot = ORR_TEAM_NONE, .epoch = epoch, .committed = NONE};
}
