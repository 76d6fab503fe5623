/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that go on with others like them: prefilled on the rank where they arrive, then moved,
 * with their caches, to a rank of the group that their prefill is nearest to. All ranks know the
 * states of all, so that each finds the same moves. */
#include <string.h>

#include "engine/generate/answer.h"

void orr_generator_group_begin(orr_generator *g)
{
    const orr_expert_parallel *x = g->parallel;
    if (x != NULL && x->groups != NULL)
        memset(x->counts_of, 0,
               (size_t)x->placement->layers * x->placement->experts * sizeof *x->counts_of);
}

void orr_generator_group_count(orr_generator *g, const orr_backbone *backbone)
{
    const orr_expert_parallel *x = g->parallel;
    if (x == NULL || x->groups == NULL)
        return;
    for (size_t layer = 0; layer < backbone->choices.n; layer++) {
        const int32_t *choice = backbone->choices.at[layer].data;
        uint32_t *counts = x->counts_of + layer * x->placement->experts;
        for (size_t i = 0; i < (size_t)x->tokens * g->model.moe.top_k; i++)
            counts[choice[i]]++;
    }
}

static uint32_t group_of_rank(const orr_expert_parallel *x, uint32_t rank)
{
    return rank / (x->placement->ranks / x->n_groups);
}

uint32_t orr_generator_group(const orr_generator *g)
{
    enum { GROUPS_MAX = 1024 };
    const orr_expert_parallel *x = g->parallel;
    double outstanding[GROUPS_MAX] = {0};
    if (x == NULL || x->groups == NULL || x->n_groups > GROUPS_MAX)
        return ORR_NONE;
    for (uint32_t r = 0; r < x->placement->ranks; r++)
        outstanding[group_of_rank(x, r)] += (double)x->states[r].tokens;
    const uint32_t group = orr_experts_group(x->groups, x->counts_of, outstanding);
    return group != group_of_rank(x, x->rank) ? group : ORR_NONE;
}

/* What goes along with the caches of a sequence; its tokens so far follow. */
typedef struct moved_sequence {
    orr_sequence sequence;
    uint64_t n, logits_digest;
    double log_probability;
} moved_sequence;

/* Sends to a rank, or receives from it. */
typedef struct peer {
    orr_communicator *c;
    uint32_t rank;
    bool sends;
    orr_error *err;
} peer;

static orr_status pass(const peer *p, void *data, size_t bytes)
{
    if (bytes == 0)
        return ORR_OK;
    return p->sends ? orr_send_receive(p->c, p->rank, data, bytes, ORR_NONE, NULL, 0, p->err)
                    : orr_send_receive(p->c, ORR_NONE, NULL, 0, p->rank, data, bytes, p->err);
}

/* The tokens of a slot that are in its caches. */
static orr_status pass_caches(orr_generator *g, const peer *p, uint32_t slot, int64_t cached)
{
    for (uint32_t place = 0; place < g->n_places; place++) {
        const size_t all = g->cache_bytes[place],
                     bytes = all / (size_t)g->capacity * (size_t)cached;
        if (all == 0)
            continue;
        ORR_TRY(pass(p, g->keys[place] + slot * all, bytes));
        ORR_TRY(pass(p, g->values[place] + slot * all, bytes));
    }
    return ORR_OK;
}

static orr_status send_sequence(orr_answering *a, uint32_t slot, const peer *p)
{
    orr_sequence *s = &a->slots[slot];
    orr_generated *r = &a->job->ret[s->prompt];
    moved_sequence head;
    memset(&head, 0, sizeof head);
    head.sequence = *s;
    head.n = r->n;
    head.logits_digest = r->logits_digest;
    head.log_probability = r->log_probability;
    ORR_TRY(pass(p, &head, sizeof head));
    ORR_TRY(pass(p, r->tokens, r->n * sizeof *r->tokens));
    ORR_TRY(pass_caches(a->g, p, slot, s->cached));
    a->job->holds[s->prompt] = false;
    a->g->parallel->moved_requests++;
    orr_answering_release_slot(a, slot);
    return ORR_OK;
}

/* It goes on in slot n; a prompt that is being prefilled there gives way. */
static orr_status receive_sequence(orr_answering *a, const peer *p)
{
    const uint32_t slot = a->n;
    moved_sequence head;
    ORR_TRY(pass(p, &head, sizeof head));
    if (a->prefilling)
        orr_answering_copy_slot(a, slot + 1, slot);
    orr_generated *r = &a->job->ret[head.sequence.prompt];
    *r = (orr_generated){
        .tokens = orr_arena_array(a->job->arena, int32_t, (size_t)a->job->sampling->most),
        .n = head.n,
        .logits_digest = head.logits_digest,
        .log_probability = head.log_probability};
    if (r->tokens == NULL)
        return orr_fail_memory(a->err);
    ORR_TRY(pass(p, r->tokens, r->n * sizeof *r->tokens));
    a->slots[slot] = head.sequence;
    ORR_TRY(pass_caches(a->g, p, slot, head.sequence.cached));
    a->job->holds[head.sequence.prompt] = true;
    a->n++;
    return ORR_OK;
}

/* The rank of a group that has fewest tokens in flight, of those with a free slot; ORR_NONE: all
 * are full, and the sequence stays where it is. */
static uint32_t emptiest_rank(const orr_expert_parallel *x, uint32_t batch, uint32_t group)
{
    const uint32_t size = x->placement->ranks / x->n_groups;
    uint32_t ret = ORR_NONE;
    for (uint32_t r = group * size; r < (group + 1) * size; r++)
        if (x->states[r].active < batch &&
            (ret == ORR_NONE || x->states[r].tokens < x->states[ret].tokens))
            ret = r;
    return ret;
}

orr_status orr_answering_move(orr_answering *a)
{
    orr_expert_parallel *x = a->g->parallel;
    orr_communicator *c = x->communicators[ORR_AXIS_EP];
    const uint32_t slot = a->n - 1; /* of the one that leaves: others may come behind it first */
    orr_status status = ORR_OK;
    orr_expert_exchange_count(x->exchange, x->moved_bytes);
    for (uint32_t from = 0; from < c->n && status == ORR_OK; from++) {
        if (x->states[from].group == ORR_NONE)
            continue;
        const uint32_t to = emptiest_rank(x, a->g->options.batch, x->states[from].group);
        if (to == ORR_NONE)
            continue;
        x->states[from].active--;
        x->states[to].active++;
        if (from == x->rank)
            status = send_sequence(a, slot, &(peer){c, to, true, a->err});
        else if (to == x->rank)
            status = receive_sequence(a, &(peer){c, from, false, a->err});
    }
    a->group = ORR_NONE;
    orr_expert_exchange_count(x->exchange, NULL);
    return status;
}
