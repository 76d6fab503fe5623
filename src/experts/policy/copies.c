/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/policy/copies.h"

#include <math.h>

/* The best further copy for a rank of a layer, and by how much it lowers the smooth measure. */
typedef struct further {
    double gain;
    uint32_t layer, rank, expert;
    uint32_t seen; /* copies that its layer had when all experts were looked at */
} further;

static further best_copy(orr_layer *layer, uint32_t index, uint32_t rank, uint32_t taken)
{
    further ret = {
        .gain = -INFINITY, .layer = index, .rank = rank, .expert = UINT32_MAX, .seen = taken};
    for (uint32_t e = 0; e < layer->experts; e++) {
        if (layer->copies[e] == 0 || !orr_layer_may(layer, e, rank))
            continue;
        const double gain = orr_layer_gain(layer, e, rank);
        if (gain > ret.gain) {
            ret.gain = gain;
            ret.expert = e;
        }
    }
    return ret;
}

/* --- a heap, the largest gain first ----------------------------------------------------------- */

static bool before(const further *a, const further *b)
{
    if (a->gain != b->gain)
        return a->gain > b->gain;
    return a->layer != b->layer ? a->layer < b->layer : a->rank < b->rank;
}

static void sift_down(further *heap, size_t n, size_t at)
{
    const further moved = heap[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &moved))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* --- allotment -------------------------------------------------------------------------------- */

/* Slots that a rank has left: in this layer, or over all. */
static bool has_room(const orr_layer *layer, const uint32_t *room, const uint64_t *left, bool even,
                     const further *f)
{
    return even ? layer[f->layer].used[f->rank] < room[f->rank] : left[f->rank] > 0;
}

static size_t fill_heap(orr_layer *layer, uint32_t layers, const uint32_t *room,
                        const uint64_t *left, bool even, further *heap)
{
    size_t n = 0;
    for (uint32_t l = 0; l < layers; l++)
        for (uint32_t r = 0; r < layer->ranks; r++) {
            heap[n] = (further){.layer = l, .rank = r};
            if (has_room(layer, room, left, even, &heap[n]))
                heap[n++] = best_copy(&layer[l], l, r, 0);
        }
    for (size_t i = n / 2; i-- > 0;)
        sift_down(heap, n, i);
    return n;
}

orr_status orr_copies_allot(orr_layer *layer, uint32_t layers, const uint32_t *room, bool even,
                            const volatile bool *stop, orr_arena *arena, orr_error *err)
{
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    further *heap = orr_arena_array(arena, further, (size_t)layers * layer->ranks);
    uint64_t *left = orr_arena_array(arena, uint64_t, layer->ranks);
    uint32_t *taken = orr_arena_array(arena, uint32_t, layers); /* copies of each layer */
    if (heap == NULL || left == NULL || taken == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < layer->ranks; r++) {
        left[r] = (uint64_t)room[r] * layers;
        for (uint32_t l = 0; l < layers; l++)
            left[r] -= layer[l].used[r];
    }
    size_t n = fill_heap(layer, layers, room, left, even, heap);
    while (n > 0 && !(stop != NULL && *stop)) {
        const further top = heap[0];
        orr_layer *at = &layer[top.layer];
        if (top.expert == UINT32_MAX || !has_room(layer, room, left, even, &top)) {
            heap[0] = heap[--n];
        } else {
            /* Gains change as other copies come; a stale one is counted anew and sorted in. */
            const bool seen = top.seen == taken[top.layer];
            const further now = seen ? top : best_copy(at, top.layer, top.rank, taken[top.layer]);
            if (now.gain >= top.gain - 1e-9 * fabs(top.gain) && now.expert == top.expert) {
                orr_layer_take_out(at, now.expert);
                orr_layer_add(at, now.expert, now.rank);
                orr_layer_put_in(at, now.expert);
                left[now.rank]--;
                heap[0] = best_copy(at, top.layer, top.rank, ++taken[top.layer]);
            } else {
                heap[0] = now;
            }
        }
        sift_down(heap, n, 0);
    }
    orr_arena_rewind(arena, mark);
    return ORR_OK;
}
