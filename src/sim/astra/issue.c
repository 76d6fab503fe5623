/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/astra/run.h"

/* Issue of nodes: a rank starts nodes without open dependencies, by id, as far as the resources
 * that they need are free. */

void orr_astra_fail(orr_astra_run *run, orr_status status)
{
    if (run->status == ORR_OK)
        run->status = status;
    run->messages.failed = true;
}

static void heap_push(orr_astra_run *run, orr_node_heap *heap, uint32_t node)
{
    if (!orr_array_push(heap, node)) {
        orr_astra_fail(run, orr_fail_memory(run->err));
        return;
    }
    size_t i = heap->n - 1;
    for (; i > 0 && heap->at[(i - 1) / 2] > node; i = (i - 1) / 2)
        heap->at[i] = heap->at[(i - 1) / 2];
    heap->at[i] = node;
}

static uint32_t heap_pop(orr_node_heap *heap)
{
    const uint32_t top = heap->at[0], last = heap->at[--heap->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < heap->n; i = child) {
        if (child + 1 < heap->n && heap->at[child + 1] < heap->at[child])
            child++;
        if (heap->at[child] >= last)
            break;
        heap->at[i] = heap->at[child];
    }
    if (heap->n > 0)
        heap->at[i] = last;
    return top;
}

static void make_ready(orr_astra_run *run, orr_astra_state *state, uint32_t node)
{
    /* Nodes that become ready during the loop are not considered by it. */
    if (!state->issuing)
        heap_push(run, &state->ready[state->program->nodes[node].slot], node);
    else if (!orr_array_push(&state->pending, node))
        orr_astra_fail(run, orr_fail_memory(run->err));
}

static void complete(orr_astra_run *run, orr_astra_state *state, uint32_t node)
{
    const orr_astra_program *p = state->program;
    state->end_ns[node] = run->messages.now_ns;
    state->busy[p->nodes[node].slot] = false;
    state->in_flight--;
    state->unfinished--;
    for (uint32_t i = p->first[node]; i < p->first[node + 1]; i++)
        if (--state->waits[p->next[i]] == 0)
            make_ready(run, state, p->next[i]);
}

static void start(orr_astra_run *run, uint32_t rank, uint32_t node)
{
    orr_astra_state *state = &run->ranks[rank];
    const orr_astra_node *v = &state->program->nodes[node];
    state->start_ns[node] = run->messages.now_ns;
    state->busy[v->slot] = v->slot != ORR_ASTRA_RECEIVE;
    state->in_flight++;
    if (v->skipped) {
        complete(run, state, node);
    } else if (v->collective == ORR_COLL_SEND) {
        state->comm_node = node;
        orr_astra_send(run, rank, node);
    } else if (v->collective == ORR_COLL_RECV) {
        orr_astra_post_receive(run, rank, node);
    } else if (v->collective != 0 && v->collective != ORR_COLL_BROADCAST) {
        state->comm_node = node;
        orr_astra_collective_begin(run, rank, node);
    } else {
        if (v->slot == ORR_ASTRA_COMPUTE ||
            (run->job->system->replay_only && v->slot != ORR_ASTRA_CPU))
            state->compute_ns += v->duration_ns;
        orr_messages_at(&run->messages, rank, run->messages.now_ns + v->duration_ns,
                        (orr_message_event){ORR_MESSAGE_NODE, rank, node});
    }
}

static void issue(orr_astra_run *run, uint32_t rank)
{
    orr_astra_state *state = &run->ranks[rank];
    do {
        state->issuing = true;
        for (;;) {
            int best = -1;
            for (int slot = 0; slot < ORR_ASTRA_RESOURCES; slot++)
                if (!state->busy[slot] && state->ready[slot].n > 0 &&
                    (best < 0 || state->ready[slot].at[0] < state->ready[best].at[0]))
                    best = slot;
            if (best < 0)
                break;
            start(run, rank, heap_pop(&state->ready[best]));
        }
        state->issuing = false;
        for (size_t i = 0; i < state->pending.n; i++)
            make_ready(run, state, state->pending.at[i]);
        state->pending.n = 0;
        /* In the original, successors of a skipped node wait for the rank's next event, and hang
         * if there is none. Here the rank goes on. */
    } while (state->in_flight == 0 && state->unfinished > 0 && run->status == ORR_OK &&
             (state->ready[ORR_ASTRA_CPU].n > 0 || state->ready[ORR_ASTRA_COMPUTE].n > 0 ||
              state->ready[ORR_ASTRA_COMM].n > 0 || state->ready[ORR_ASTRA_RECEIVE].n > 0));
    if (state->unfinished == 0 && !state->finished) {
        state->finished = true;
        state->finish_ns = run->messages.now_ns;
    }
}

void orr_astra_node_done(orr_astra_run *run, uint32_t rank, uint32_t node)
{
    orr_astra_state *state = &run->ranks[rank];
    complete(run, state, node);
    if (!state->issuing)
        issue(run, rank);
}

void orr_astra_start_rank(orr_astra_run *run, uint32_t rank)
{
    orr_astra_state *state = &run->ranks[rank];
    for (uint32_t i = 0; i < state->program->n; i++)
        if (state->waits[i] == 0)
            heap_push(run, &state->ready[state->program->nodes[i].slot], i);
    issue(run, rank);
}
