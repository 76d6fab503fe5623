/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "sim/astra/run.h"

enum { FIRST_TABLE = 64 };

static uint32_t slot_of(const orr_astra_run *run, const orr_astra_channel *pair)
{
    uint64_t h = ((uint64_t)pair->from << 32 | pair->to) * UINT64_C(0x9E3779B97F4A7C15);
    h = (h ^ h >> 29 ^ (uint64_t)pair->tag << 32 ^ (uint64_t)pair->bytes) *
        UINT64_C(0xBF58476D1CE4E5B9);
    return (uint32_t)(h >> 32) & run->pair_mask;
}

static bool same(const orr_astra_channel *a, const orr_astra_channel *b)
{
    return a->from == b->from && a->to == b->to && a->tag == b->tag && a->bytes == b->bytes;
}

static bool table_grow(orr_astra_run *run)
{
    const uint32_t n = run->pair_table != NULL ? 2 * (run->pair_mask + 1) : FIRST_TABLE;
    uint32_t *table = orr_calloc(n, sizeof *table);
    if (table == NULL)
        return false;
    orr_free(run->pair_table);
    run->pair_table = table;
    run->pair_mask = n - 1;
    for (size_t i = 0; i < run->pairs.n; i++) {
        uint32_t slot = slot_of(run, &run->pairs.at[i]);
        while (table[slot] != 0)
            slot = (slot + 1) & run->pair_mask;
        table[slot] = (uint32_t)i + 1;
    }
    return true;
}

/* Number of a channel, made if it is new; ORR_NONE: out of memory. */
static uint32_t pair_of(orr_astra_run *run, uint32_t from, uint32_t to, const orr_astra_node *v)
{
    const orr_astra_channel key = {from, to, v->tag, v->bytes, 0, ORR_NONE, ORR_NONE};
    if ((run->pair_table == NULL || 2 * (run->pairs.n + 1) > run->pair_mask) && !table_grow(run))
        goto fail;
    uint32_t slot = slot_of(run, &key);
    for (; run->pair_table[slot] != 0; slot = (slot + 1) & run->pair_mask)
        if (same(&run->pairs.at[run->pair_table[slot] - 1], &key))
            return run->pair_table[slot] - 1;
    if (!orr_array_push(&run->pairs, key))
        goto fail;
    run->pair_table[slot] = (uint32_t)run->pairs.n;
    return (uint32_t)run->pairs.n - 1;
fail:
    orr_astra_fail(run, orr_fail_memory(run->err));
    return ORR_NONE;
}

static int64_t model_ns(const orr_astra_run *run, uint32_t from, uint32_t to, int64_t bytes)
{
    const orr_astra_network *network = run->job->network;
    orr_span span = {.n_ranks = 2, .n_levels = network->n_dims, .even = true};
    for (uint32_t d = 0; d < network->n_dims; d++) {
        const bool differs = from / network->stride[d] % network->size[d] !=
                             to / network->stride[d] % network->size[d];
        span.width[d] = differs ? 2 : 1;
        if (differs)
            span.top = d;
    }
    return orr_collective_price(&run->model, &span, ORR_COLL_SEND, ORR_ALGORITHM_AUTO, bytes).ns;
}

void orr_astra_send(orr_astra_run *run, uint32_t rank, uint32_t node)
{
    orr_messages *m = &run->messages;
    const orr_astra_node *v = &run->ranks[rank].program->nodes[node];
    const uint32_t pair = pair_of(run, rank, v->peer, v);
    const orr_message_event passed = {ORR_MESSAGE_PASSED, pair, node};
    if (pair == ORR_NONE)
        return;
    run->n_messages++;
    if (run->mode == ORR_ASTRA_AWARE)
        orr_links_send(&m->links, m->now_ns, ORR_MESSAGE_HOP, ORR_MESSAGE_LINK, rank, v->peer,
                       v->bytes, passed);
    else
        orr_bucket_queue_push(
            &m->queue,
            m->now_ns + (run->mode == ORR_ASTRA_MODEL
                             ? model_ns(run, rank, v->peer, v->bytes)
                             : orr_message_ns_between(run->job->network, rank, v->peer, v->bytes)),
            passed);
}

void orr_astra_post_receive(orr_astra_run *run, uint32_t rank, uint32_t node)
{
    const orr_astra_node *v = &run->ranks[rank].program->nodes[node];
    const uint32_t number = pair_of(run, v->peer, rank, v);
    if (number == ORR_NONE)
        return;
    orr_astra_channel *pair = &run->pairs.at[number];
    if (pair->arrived > 0) {
        pair->arrived--;
        orr_bucket_queue_push(&run->messages.queue, run->messages.now_ns,
                              (orr_message_event){ORR_MESSAGE_RECV, rank, node});
        return;
    }
    if (run->receives.n >= ORR_NONE ||
        !orr_array_push(&run->receives, ((orr_astra_receive){node, ORR_NONE}))) {
        orr_astra_fail(run, orr_fail_memory(run->err));
        return;
    }
    const uint32_t receive = (uint32_t)run->receives.n - 1;
    if (pair->tail == ORR_NONE)
        pair->head = receive;
    else
        run->receives.at[pair->tail].next = receive;
    pair->tail = receive;
}

void orr_astra_message_delivered(orr_astra_run *run, uint32_t number, uint32_t sender_node)
{
    const uint32_t to = run->pairs.at[number].to;
    const uint32_t receive = run->pairs.at[number].head;
    uint32_t node = ORR_NONE;
    if (receive == ORR_NONE) {
        run->pairs.at[number].arrived++;
    } else {
        orr_astra_channel *pair = &run->pairs.at[number];
        node = run->receives.at[receive].node;
        pair->head = run->receives.at[receive].next;
        if (pair->head == ORR_NONE)
            pair->tail = ORR_NONE;
    }
    orr_astra_node_done(run, run->pairs.at[number].from, sender_node);
    if (node != ORR_NONE)
        orr_astra_node_done(run, to, node);
}
