/* SPDX-License-Identifier: Apache-2.0 */
/* Opens an exchange: its memory, and the ranks of a placement's slots. */
#include "engine/experts/exchange_state.h"

#include "base/alloc.h"

static orr_status check(const orr_expert_exchange_options *o, orr_error *err)
{
    if (o->placement->ranks != o->transport->ranks)
        return orr_fail(err, ORR_INVALID, "%s: experts on %u ranks, but there are %u",
                        o->placement->source, o->placement->ranks, o->transport->ranks);
    if (o->tokens > ORR_EXPERT_TOKENS_MAX)
        return orr_fail(err, ORR_LIMIT, "%u tokens at once, of at most %d", o->tokens,
                        ORR_EXPERT_TOKENS_MAX);
    if (o->placement->experts > ORR_EXPERTS_MAX || o->top_k > ORR_ROUTE_CHOICES_MAX)
        return orr_fail(err, ORR_LIMIT, "%u of %u experts", o->top_k, o->placement->experts);
    return ORR_OK;
}

/* Zeroed bytes, of which the system gives those that are used. */
static orr_status take(size_t n, size_t bytes, void *ret, orr_error *err)
{
    void **room = ret;
    *room = orr_calloc(n + 1, bytes + 1);
    return *room != NULL ? ORR_OK : orr_fail_memory(err);
}

/* Most choices of this rank's slots: of the tokens of all ranks. */
static orr_status take_arrivals(orr_expert_exchange *x, orr_error *err)
{
    const orr_expert_exchange_options *o = &x->options;
    const size_t choices = (size_t)o->tokens * o->top_k,
                 bytes = orr_parcel_bytes(x, (orr_wire_count){o->tokens, (uint32_t)choices});
    size_t all;
    if (!orr_mul_size(choices, x->n_ranks, &all) || all > UINT32_MAX)
        return orr_fail(err, ORR_LIMIT, "%zu choices of %u ranks", choices, x->n_ranks);
    ORR_TRY(take(x->n_ranks, sizeof *x->arrived, &x->arrived, err));
    ORR_TRY(take(x->n_ranks + 1, sizeof *x->first, &x->first, err));
    ORR_TRY(take(all, sizeof *x->order, &x->order, err));
    ORR_TRY(take(ORR_EXPERTS_MAX + 1, sizeof *x->slot_first, &x->slot_first, err));
    ORR_TRY(take(all, (size_t)x->format.result_bytes, &x->results, err));
    for (uint32_t r = 0; r < x->n_ranks; r++)
        ORR_TRY(take(1, bytes, &x->arrived[r].bytes, err));
    ORR_TRY(take(choices, sizeof *x->slot, &x->slot, err));
    ORR_TRY(take(choices, sizeof *x->place, &x->place, err));
    ORR_TRY(take(x->n_ranks, sizeof *x->sent, &x->sent, err));
    ORR_TRY(take(1, bytes, &x->parcel, err));
    return take(choices, (size_t)x->format.result_bytes, &x->returned, err);
}

static orr_status join_ranks(orr_expert_exchange *x, orr_error *err)
{
    x->arena = orr_arena_new(0, 0);
    uint32_t *all = x->arena != NULL ? orr_arena_array(x->arena, uint32_t, x->n_ranks) : NULL;
    if (all == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < x->n_ranks; r++)
        all[r] = r;
    return orr_communicator_make(&x->counted.transport, all, x->n_ranks, x->options.channel, 0,
                                 x->arena, &x->ranks, err);
}

static orr_expert_wire_format format_of(const orr_expert_exchange_options *o)
{
    return (orr_expert_wire_format){
        .count_bytes = sizeof(orr_wire_count),
        .choice_bytes = (int64_t)(sizeof(orr_wire_choice) + (o->scored ? sizeof(float) : 0)),
        .row_bytes = o->columns * (int64_t)orr_dtype_bytes(o->dtype),
        .result_bytes = o->columns * (int64_t)orr_dtype_bytes(o->result_dtype)};
}

orr_status orr_expert_exchange_place(orr_expert_exchange *x, const orr_expert_placement *p,
                                     orr_error *err)
{
    const size_t slots = p->layers > 0 ? orr_expert_placement_slots(p) : 0;
    uint16_t *rank_of = orr_malloc((slots + 1) * sizeof *rank_of);
    if (rank_of == NULL)
        return orr_fail_memory(err);
    for (uint32_t layer = 0; layer < p->layers; layer++) {
        const uint32_t *first = p->first_slot + (size_t)layer * (p->ranks + 1);
        for (uint32_t r = 0; r < p->ranks; r++)
            for (uint32_t s = first[r]; s < first[r + 1]; s++)
                rank_of[s] = (uint16_t)r;
    }
    orr_free(x->rank_of);
    x->rank_of = rank_of;
    x->options.placement = p;
    return ORR_OK;
}

static orr_status open_all(orr_expert_exchange *x, orr_error *err)
{
    const orr_expert_placement *p = x->options.placement;
    orr_counted_transport_init(&x->counted, x->options.transport, p->host_ranks);
    x->me = x->counted.transport.rank;
    x->n_ranks = x->counted.transport.ranks;
    x->format = format_of(&x->options);
    ORR_TRY(join_ranks(x, err));
    ORR_TRY(take(p->layers, sizeof *x->bytes, &x->bytes, err));
    ORR_TRY(take_arrivals(x, err));
    return orr_expert_exchange_place(x, p, err);
}

orr_status orr_expert_exchange_new(const orr_expert_exchange_options *options,
                                   orr_expert_exchange **ret, orr_error *err)
{
    ORR_TRY(check(options, err));
    orr_expert_exchange *x = orr_calloc(1, sizeof *x);
    if (x == NULL)
        return orr_fail_memory(err);
    x->options = *options;
    const orr_status status = open_all(x, err);
    if (status != ORR_OK) {
        orr_expert_exchange_free(x);
        return status;
    }
    *ret = x;
    return ORR_OK;
}

void orr_expert_exchange_free(orr_expert_exchange *x)
{
    if (x == NULL)
        return;
    for (uint32_t r = 0; r < x->n_ranks && x->arrived != NULL; r++)
        orr_free(x->arrived[r].bytes);
    void *const all[] = {x->arrived, x->first, x->order,  x->slot_first, x->results, x->slot,
                         x->place,   x->sent,  x->parcel, x->returned,   x->bytes,   x->rank_of};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        orr_free(all[i]);
    orr_arena_free(x->arena);
    orr_free(x);
}

orr_communicator *orr_expert_exchange_ranks(orr_expert_exchange *x)
{
    return x->ranks;
}

orr_expert_wire_format orr_expert_exchange_format(const orr_expert_exchange *x)
{
    return x->format;
}

const orr_expert_wire_bytes *orr_expert_exchange_bytes(const orr_expert_exchange *x)
{
    return x->bytes;
}

const uint64_t *orr_expert_exchange_other_bytes(const orr_expert_exchange *x)
{
    return x->counted.other;
}

void orr_expert_exchange_count(orr_expert_exchange *x, uint64_t *sent)
{
    x->counted.sent = sent != NULL ? sent : x->counted.other;
}
