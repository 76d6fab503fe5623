/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/message/messages.h"

/* doubleBinaryTree: a chunk goes whole up to the root of a tree and down again. Chunks alternate
 * between two trees, over collectives; the root of one is the last rank, of the other the first,
 * and the remaining ranks are numbered in order below it. */

enum {
    FROM_LEFT,
    FROM_RIGHT,
    FROM_PARENT
};                                                 /* index of a message, as its receiver counts
                                                    * it */
enum { PACK_UP, PACK_CHILD, PACK_DOWN, PACK_END }; /* index of a bundle */

/* State bits: which receives were posted (known once the chunk has begun), and progress. */
enum { BEGUN = 1, ASKED_CHILDREN = 2, ASKED_PARENT = 4, ONE_REDUCED = 8, SENT_UP = 16 };

typedef struct tree_place {
    int64_t parent, left, right; /* places; -1: none */
} tree_place;

/* Place i of 1..n-1 in an in-order tree: its height is its lowest set bit. */
static tree_place place_in_tree(uint32_t n, uint32_t place, bool root_last)
{
    tree_place at = {-1, -1, -1};
    if (place == (root_last ? n - 1 : 0)) {
        *(root_last ? &at.left : &at.right) = root_last ? (int64_t)n / 2 - 1 : (int64_t)n / 2;
        return at;
    }
    const uint32_t i = root_last ? place + 1 : place, low = i & -i;
    const int64_t shift = root_last ? 1 : 0;
    if (low == n / 2)
        at.parent = root_last ? n - 1 : 0;
    else
        at.parent = (int64_t)((i & ~(low | low << 1)) | low << 1) - shift;
    if (low > 1) {
        at.left = (int64_t)(i - low / 2) - shift;
        at.right = (int64_t)(i + low / 2) - shift;
    }
    return at;
}

static bool root_is_last(const orr_collective_task *task, const orr_collective_phase *phase,
                         uint32_t member, uint32_t chunk)
{
    const uint32_t turn = orr_collective_task_turns(task, member, phase->line)->tree;
    switch ((orr_tree)phase->tree) {
    case ORR_TREE_ALTERNATE:
        return (turn + chunk) % 2 == 0;
    case ORR_TREE_ROOT_LAST:
        return turn == 0;
    case ORR_TREE_ROOT_FIRST:
        return turn == 1;
    }
    return true;
}

static tree_place place_of(const orr_collective_task *task, uint32_t member, uint32_t chunk)
{
    const orr_collective_phase *phase =
        &task->plan->phases[orr_collective_task_chunk(task, member, chunk)->phase];
    const orr_line *line = &task->plan->lines[phase->line];
    return place_in_tree(phase->n, orr_line_place(line, member),
                         root_is_last(task, phase, member, chunk));
}

static bool is_leaf(const tree_place *at)
{
    return at->parent >= 0 && at->left < 0 && at->right < 0;
}

bool orr_tree_has_posted(const orr_chunk *chunk, uint32_t index)
{
    return chunk->state & (index == FROM_PARENT ? ASKED_PARENT : ASKED_CHILDREN);
}

bool orr_tree_reduces(uint32_t index)
{
    return index == PACK_CHILD || index == PACK_DOWN;
}

void orr_tree_begin(orr_messages *m, orr_collective_task *task, uint32_t member, uint32_t chunk)
{
    orr_chunk *c = orr_collective_task_chunk(task, member, chunk);
    const tree_place at = place_of(task, member, chunk);
    c->state = BEGUN;
    if (is_leaf(&at)) {
        orr_packets_pack(m, task, member, chunk, PACK_UP);
        return;
    }
    c->state |= ASKED_CHILDREN;
    if (at.left >= 0)
        orr_packets_post_receive(m, task, member, chunk, FROM_LEFT);
    if (at.right >= 0)
        orr_packets_post_receive(m, task, member, chunk, FROM_RIGHT);
}

void orr_tree_received(orr_messages *m, orr_collective_task *task, uint32_t member, uint32_t chunk,
                       uint32_t index)
{
    const tree_place at = place_of(task, member, chunk);
    if (index != FROM_PARENT)
        orr_packets_pack(m, task, member, chunk, PACK_CHILD);
    else
        orr_packets_pack(m, task, member, chunk, is_leaf(&at) ? PACK_END : PACK_DOWN);
}

static void send(orr_messages *m, orr_collective_task *task, uint32_t member, uint32_t chunk,
                 int64_t to, uint32_t index)
{
    const orr_collective_phase *phase =
        &task->plan->phases[orr_collective_task_chunk(task, member, chunk)->phase];
    orr_packets_send(m, task, member, chunk, (uint32_t)to, index, phase->bytes);
}

static void send_up(orr_messages *m, orr_collective_task *task, uint32_t member, uint32_t chunk,
                    const tree_place *at)
{
    orr_chunk *c = orr_collective_task_chunk(task, member, chunk);
    const orr_collective_phase *phase = &task->plan->phases[c->phase];
    const orr_line *line = &task->plan->lines[phase->line];
    const tree_place parent =
        place_in_tree(phase->n, (uint32_t)at->parent, root_is_last(task, phase, member, chunk));
    const bool left = parent.left == (int64_t)orr_line_place(line, member);
    c->state |= SENT_UP | ASKED_PARENT;
    send(m, task, member, chunk, at->parent, left ? FROM_LEFT : FROM_RIGHT);
    orr_packets_post_receive(m, task, member, chunk, FROM_PARENT);
}

void orr_tree_packed(orr_messages *m, orr_collective_task *task, uint32_t member, uint32_t chunk)
{
    orr_chunk *c = orr_collective_task_chunk(task, member, chunk);
    const tree_place at = place_of(task, member, chunk);
    const bool root = at.parent < 0;
    if (!root && !(c->state & SENT_UP)) {
        /* The data of both children is now reduced. */
        if (!is_leaf(&at) && !(c->state & ONE_REDUCED))
            c->state |= ONE_REDUCED;
        else
            send_up(m, task, member, chunk, &at);
        return;
    }
    if (at.left >= 0)
        send(m, task, member, chunk, at.left, FROM_PARENT);
    if (at.right >= 0)
        send(m, task, member, chunk, at.right, FROM_PARENT);
    orr_chunk_phase_end(m, task, member, chunk);
}
