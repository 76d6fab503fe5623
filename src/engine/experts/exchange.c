/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/experts/exchange_state.h"

#include <string.h>

#include <orrery/graph.h>

#include "base/alloc.h"

/* Dispatch and combine by pairwise exchange: in round k each rank sends to the one k places after
 * it and receives from the one k places before it. */

static uint32_t after(const orr_expert_exchange *x, uint32_t k)
{
    return (x->me + k) % x->n_ranks;
}
static uint32_t before(const orr_expert_exchange *x, uint32_t k)
{
    return (x->me + x->n_ranks - k) % x->n_ranks;
}

static uint32_t first_slot(const orr_expert_exchange *x, uint32_t rank)
{
    const orr_expert_placement *p = x->options.placement;
    return p->first_slot[(size_t)x->layer * (p->ranks + 1) + rank];
}

/* Where each choice goes, and how many rows and choices each rank gets. */
static orr_status choose_slots(orr_expert_exchange *x, const orr_expert_tokens *t, orr_error *err)
{
    const orr_expert_placement *p = x->options.placement;
    const uint32_t top_k = x->options.top_k;
    uint16_t choice[ORR_ROUTE_CHOICES_MAX];
    memset(x->sent, 0, x->n_ranks * sizeof *x->sent);
    for (uint32_t i = 0; i < t->n; i++) {
        const orr_expert_token who = {t->request[i], t->position[i], x->me};
        uint32_t *slot = x->slot + (size_t)i * top_k;
        for (uint32_t k = 0; k < top_k; k++)
            choice[k] = (uint16_t)t->choice[(size_t)i * top_k + k];
        orr_experts_slots(p, x->layer, &who, choice, top_k, false, slot);
        for (uint32_t k = 0; k < top_k; k++) {
            if (slot[k] == UINT32_MAX)
                return orr_fail(err, ORR_INVALID, "layer %u: no rank has expert %u",
                                p->number[x->layer], choice[k]);
            const uint16_t to = x->rank_of[slot[k]];
            bool again = false;
            for (uint32_t j = 0; j < k; j++)
                again |= x->rank_of[slot[j]] == to;
            x->sent[to].choices++;
            x->sent[to].rows += !again;
        }
    }
    return ORR_OK;
}

/* The row of each choice when sorted by expert: a stable counting sort. */
static void sort_choices(orr_expert_exchange *x, const orr_expert_tokens *t)
{
    uint32_t next[ORR_EXPERTS_MAX + 1] = {0};
    for (uint32_t i = 0; i < x->n_choices; i++)
        next[t->choice[i] + 1]++;
    for (uint32_t e = 0; e < x->options.placement->experts; e++)
        next[e + 1] += next[e];
    for (uint32_t i = 0; i < x->n_choices; i++)
        x->place[i] = next[t->choice[i]]++;
}

/* Writes the tokens for a rank, each once, and their choices. */
static void pack(const orr_expert_exchange *x, const orr_expert_tokens *t, uint32_t to, char *bytes)
{
    const orr_wire_count n = x->sent[to];
    const uint32_t top_k = x->options.top_k, first = first_slot(x, to);
    orr_wire_choice *choices = orr_parcel_choices(bytes);
    float *scores = orr_parcel_scores(bytes, n);
    char *rows = orr_parcel_rows(x, bytes, n);
    uint32_t row = 0, c = 0;
    for (uint32_t i = 0; i < t->n && c < n.choices; i++) {
        const uint32_t begun = c;
        for (uint32_t k = 0; k < top_k; k++) {
            const size_t at = (size_t)i * top_k + k;
            if (x->rank_of[x->slot[at]] != to)
                continue;
            choices[c] = (orr_wire_choice){(uint16_t)row, (uint16_t)(x->slot[at] - first)};
            if (x->options.scored)
                scores[c] = t->score[at];
            c++;
        }
        if (c > begun)
            memcpy(rows + row++ * (size_t)x->format.row_bytes,
                   (const char *)t->rows + i * (size_t)x->format.row_bytes,
                   (size_t)x->format.row_bytes);
    }
}

static orr_status exchange_counts(orr_expert_exchange *x, orr_error *err)
{
    x->counted.sent = x->bytes[x->layer].counts;
    x->arrived[x->me].n = x->sent[x->me];
    for (uint32_t k = 1; k < x->n_ranks; k++)
        ORR_TRY(orr_send_receive(x->ranks, after(x, k), &x->sent[after(x, k)],
                                 sizeof(orr_wire_count), before(x, k), &x->arrived[before(x, k)].n,
                                 sizeof(orr_wire_count), err));
    for (uint32_t r = 0; r < x->n_ranks; r++)
        if (x->arrived[r].n.rows > x->options.tokens ||
            x->arrived[r].n.choices > x->options.tokens * x->options.top_k)
            return orr_fail(err, ORR_INVALID, "rank %u sends %u rows: %u were expected at most", r,
                            x->arrived[r].n.rows, x->options.tokens);
    return ORR_OK;
}

/* A message of no bytes is not sent: both ends know the counts. */
static orr_status exchange_bytes(orr_expert_exchange *x, uint32_t k, const char *out,
                                 size_t out_bytes, char *in, size_t in_bytes, orr_error *err)
{
    if (out_bytes == 0 && in_bytes == 0)
        return ORR_OK;
    return orr_send_receive(x->ranks, out_bytes > 0 ? after(x, k) : ORR_NONE, out, out_bytes,
                            in_bytes > 0 ? before(x, k) : ORR_NONE, in, in_bytes, err);
}

static orr_status exchange_parcels(orr_expert_exchange *x, const orr_expert_tokens *t,
                                   orr_error *err)
{
    x->counted.sent = x->bytes[x->layer].dispatch;
    pack(x, t, x->me, x->arrived[x->me].bytes);
    for (uint32_t k = 1; k < x->n_ranks; k++) {
        orr_parcel *from = &x->arrived[before(x, k)];
        pack(x, t, after(x, k), x->parcel);
        ORR_TRY(exchange_bytes(x, k, x->parcel, orr_parcel_bytes(x, x->sent[after(x, k)]),
                               from->bytes, orr_parcel_bytes(x, from->n), err));
    }
    return ORR_OK;
}

static orr_status dispatch(orr_expert_exchange *x, const orr_expert_tokens *t, orr_error *err)
{
    ORR_TRY(choose_slots(x, t, err));
    sort_choices(x, t);
    ORR_TRY(exchange_counts(x, err));
    ORR_TRY(exchange_parcels(x, t, err));
    return orr_expert_arrivals_sort(x, err);
}

static orr_status check_tokens(const orr_expert_exchange *x, const orr_expert_tokens *t,
                               orr_error *err)
{
    if (t->n > x->options.tokens)
        return orr_fail(err, ORR_INVALID, "%u tokens, of at most %u", t->n, x->options.tokens);
    for (size_t i = 0; i < (size_t)t->n * x->options.top_k; i++)
        if (t->choice[i] < 0 || (uint32_t)t->choice[i] >= x->options.placement->experts)
            return orr_fail(err, ORR_INVALID, "expert %d of %u", t->choice[i],
                            x->options.placement->experts);
    return ORR_OK;
}

orr_status orr_expert_exchange_dispatch(orr_expert_exchange *x, uint32_t layer,
                                        const orr_expert_tokens *tokens, uint32_t *ret_n,
                                        orr_error *err)
{
    ORR_TRY(check_tokens(x, tokens, err));
    x->layer = layer;
    x->n_choices = tokens->n * x->options.top_k;
    x->n_slots = first_slot(x, x->me + 1) - first_slot(x, x->me);
    const orr_status status = dispatch(x, tokens, err);
    x->counted.sent = x->counted.other;
    *ret_n = x->first[x->n_ranks];
    return status;
}

/* Puts the results of a rank, in the order in which the choices were packed. */
static void unpack(const orr_expert_exchange *x, uint32_t from, const char *results, char *sorted)
{
    const size_t bytes = (size_t)x->format.result_bytes;
    for (uint32_t i = 0; i < x->n_choices; i++)
        if (x->rank_of[x->slot[i]] == from) {
            memcpy(sorted + x->place[i] * bytes, results, bytes);
            results += bytes;
        }
}

orr_status orr_expert_exchange_combine(orr_expert_exchange *x, void *ret_sorted, orr_error *err)
{
    const size_t bytes = (size_t)x->format.result_bytes;
    orr_status status = ORR_OK;
    unpack(x, x->me, x->results + x->first[x->me] * bytes, ret_sorted);
    x->counted.sent = x->bytes[x->layer].combine;
    for (uint32_t k = 1; k < x->n_ranks; k++) {
        const uint32_t to = after(x, k), from = before(x, k);
        ORR_TRY_OUT(status, exchange_bytes(x, k, x->results + x->first[to] * bytes,
                                           x->arrived[to].n.choices * bytes, x->returned,
                                           x->sent[from].choices * bytes, err));
        unpack(x, from, x->returned, ret_sorted);
    }
out:
    x->counted.sent = x->counted.other;
    return status;
}

static orr_expert_exchanged sum(const orr_expert_exchange *x, bool back)
{
    const int64_t result = x->format.result_bytes;
    orr_expert_exchanged all = {0};
    for (uint32_t r = 0; r < x->n_ranks; r++) {
        const orr_wire_count out = x->sent[r], in = x->arrived[r].n;
        all.sent += back ? (int64_t)in.choices * result : (int64_t)orr_parcel_bytes(x, out);
        all.received += back ? (int64_t)out.choices * result : (int64_t)orr_parcel_bytes(x, in);
    }
    return all;
}

orr_expert_exchanged orr_expert_exchange_dispatched(const orr_expert_exchange *x)
{
    return sum(x, false);
}

orr_expert_exchanged orr_expert_exchange_combined(const orr_expert_exchange *x)
{
    return sum(x, true);
}
