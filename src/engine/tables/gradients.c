/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/tables/tables_state.h"

/* Gradients of bags go to every shard of their columns. */

/* Where the gradients of a rank's samples stand. */
static float *place_of(const orr_tables *t, uint32_t rank)
{
    const orr_tables_layout *l = &t->layout;
    return (float *)t->vectors.at + rank * l->samples * l->rank[l->me].gradient_numbers;
}

static void pack(orr_tables *t, uint32_t to, const float *gradient)
{
    const orr_tables_layout *l = &t->layout;
    const orr_tables_rank *theirs = &l->rank[to];
    const orr_tables_vector *vectors = l->gradients + theirs->first_entry;
    const uint32_t n = theirs[1].first_entry - theirs->first_entry;
    if (l->plan->backward != ORR_EMBEDDING_CODEC_FP32)
        orr_tables_encode(t, vectors, n, l->plan->backward, gradient, l->columns, t->out.at);
    else if (!orr_tables_gradients_in_place(l, to))
        orr_tables_copy_vectors(t, vectors, n, gradient, l->columns, t->out.at,
                                theirs->gradient_numbers);
}

static orr_status exchange_with(orr_tables *t, uint32_t to, uint32_t from, const float *gradient,
                                int64_t *sent, orr_error *err)
{
    const orr_tables_layout *l = &t->layout;
    const orr_tables_rank *mine = &l->rank[l->me];
    const bool plain = l->plan->backward == ORR_EMBEDDING_CODEC_FP32;
    float *place = place_of(t, from);
    const orr_tables_message m = {
        .to = to,
        .from = from,
        .out = orr_tables_gradients_in_place(l, to) ? (const void *)gradient : t->out.at,
        .in = plain ? (void *)place : t->in.at,
        .out_bytes = (size_t)(l->rank[to].gradient_bytes * l->samples),
        .in_bytes = (size_t)(mine->gradient_bytes * l->samples)};
    pack(t, to, gradient);
    ORR_TRY(orr_tables_send_receive(t, 1, &m, sent, err));
    if (!plain)
        orr_tables_decode(t, l->gradients + mine->first_entry, t->n_shards, l->plan->backward,
                          t->in.at, place, mine->gradient_numbers);
    return ORR_OK;
}

/* This rank's own gradients are rounded as those that it sends, so that copies of a table stay the
 * same on all ranks. */
static void keep_own(orr_tables *t, const float *gradient)
{
    const orr_tables_layout *l = &t->layout;
    const orr_tables_rank *mine = &l->rank[l->me];
    const orr_tables_vector *vectors = l->gradients + mine->first_entry;
    float *place = place_of(t, l->me);
    if (l->plan->backward == ORR_EMBEDDING_CODEC_FP32) {
        orr_tables_copy_vectors(t, vectors, t->n_shards, gradient, l->columns, place,
                                mine->gradient_numbers);
        return;
    }
    pack(t, l->me, gradient);
    orr_tables_decode(t, vectors, t->n_shards, l->plan->backward, t->out.at, place,
                      mine->gradient_numbers);
}

orr_status orr_tables_exchange_gradients(orr_tables *t, uint32_t slot, const float *gradient,
                                         orr_error *err)
{
    orr_tables_set *set = orr_tables_set_of(t, slot);
    set->gradient = gradient;
    if (t->layout.ranks == 1)
        return ORR_OK;
    keep_own(t, gradient);
    for (uint32_t k = 1; k < t->layout.ranks; k++)
        ORR_TRY(exchange_with(t, orr_tables_after(t, k), orr_tables_before(t, k), gradient,
                              &set->traffic.gradients, err));
    return ORR_OK;
}
