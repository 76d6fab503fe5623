/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "experts/moves/changes.h"
#include "experts/placement/build.h"

/* An order of moves. Copies are given up as late as memory allows, so that those that are left
 * serve and are near.
 *
 * Why it never gets stuck with the room that is the default, one slot more than a rank has in
 * either placement: at most one rank at a time is full. It then has more copies than it is to keep,
 * so that it has one to give up. Either that expert is elsewhere already, or it is to be made on
 * another rank, which has room since it is not full: it is made there, and given up here. */

enum { NONE = UINT32_MAX };

typedef struct planner {
    const orr_expert_placement *from;
    const orr_expert_moves_options *options;
    orr_changes changes;
    uint32_t *used, *room, *keep; /* shape (R): slots; most slots; most of both placements */
    uint32_t *add_begin, *adds;   /* shape (R + 1) and (n_adds): changes by rank */
    uint32_t *drop_begin, *drops; /* shape (R + 1) and (n_drops) */
    double *sent, *received;      /* shape (R): bytes in this step */
    double expert_bytes;
    uint32_t full; /* the rank that has no room, and is to give up a copy first; NONE */
    orr_expert_move *moves;
    orr_expert_moves *result;
    uint32_t left; /* copies still to be made */
} planner;

/* --- what is possible ------------------------------------------------------------------------- */

static bool fits(const planner *p, double bytes)
{
    /* One expert a step always goes, however small the budget is. */
    return p->options->step_bytes <= 0 || bytes == 0 ||
           bytes + p->expert_bytes <= p->options->step_bytes;
}

/* The rank that a copy comes from: on the host of `to` if there is one; of those the one that has
 * sent least in this step, ties to the lowest. */
static uint32_t nearest_holder(const planner *p, const orr_changed_expert *e, uint32_t to)
{
    const uint32_t host_ranks = p->from->host_ranks;
    uint32_t ret = NONE;
    for (uint32_t i = e->first; i < e->first + e->n; i++) {
        const uint32_t r = p->changes.holder[i];
        const bool near = r / host_ranks == to / host_ranks,
                   is_near = ret != NONE && ret / host_ranks == to / host_ranks;
        if (ret == NONE || near > is_near ||
            (near == is_near &&
             (p->sent[r] < p->sent[ret] || (p->sent[r] == p->sent[ret] && r < ret))))
            ret = r;
    }
    return ret;
}

static bool is_droppable(const planner *p, const orr_copy_change *drop)
{
    const orr_changed_expert *e = &p->changes.expert[drop->expert];
    return drop->is_surplus || e->n > 1 || (e->is_left_out && e->n_adds == 0);
}

/* --- moves ------------------------------------------------------------------------------------ */

static orr_expert_move *push_move(planner *p, const orr_changed_expert *e, uint32_t from,
                                  uint32_t to)
{
    orr_expert_move *move = &p->moves[p->result->n++];
    *move = (orr_expert_move){.layer = e->layer,
                              .expert = e->expert,
                              .from = (uint16_t)from,
                              .to = (uint16_t)to,
                              .step = p->result->steps};
    return move;
}

static void give_up(planner *p, orr_copy_change *drop)
{
    orr_changed_expert *e = &p->changes.expert[drop->expert];
    uint16_t *holder = p->changes.holder + e->first;
    uint32_t i = 0;
    (void)push_move(p, e, drop->rank, drop->rank);
    drop->is_done = true;
    p->used[drop->rank]--;
    if (p->full == drop->rank)
        p->full = NONE;
    if (drop->is_surplus)
        return;
    while (holder[i] != drop->rank)
        i++;
    memmove(holder + i, holder + i + 1, (e->n - i - 1) * sizeof *holder);
    e->n--;
}

static void make_copy(planner *p, orr_copy_change *add)
{
    orr_changed_expert *e = &p->changes.expert[add->expert];
    const uint32_t from = nearest_holder(p, e, add->rank), to = add->rank;
    (void)push_move(p, e, from, to);
    add->is_done = true;
    p->changes.holder[e->first + e->n++] = (uint16_t)to;
    p->sent[from] += p->expert_bytes;
    p->received[to] += p->expert_bytes;
    p->result->bytes += p->expert_bytes;
    if (from / p->from->host_ranks != to / p->from->host_ranks)
        p->result->network_bytes += p->expert_bytes;
    p->left--;
    if (++p->used[to] >= p->room[to] && p->room[to] > p->keep[to])
        p->full = to;
}

/* A copy that a rank may give up at once; NULL: none. */
static orr_copy_change *find_droppable(const planner *p, uint32_t rank)
{
    for (uint32_t i = p->drop_begin[rank]; i < p->drop_begin[rank + 1]; i++) {
        orr_copy_change *drop = &p->changes.drop[p->drops[i]];
        if (!drop->is_done && is_droppable(p, drop))
            return drop;
    }
    return NULL;
}

/* Whether a copy can be made now: there is room for it, or for another that is given up. */
static bool has_room(planner *p, uint32_t rank)
{
    /* With no rank full, one may become so; but only one. */
    const bool may_fill = p->full == NONE || p->full == rank || p->room[rank] <= p->keep[rank];
    const uint32_t most = p->room[rank] - !may_fill;
    if (p->used[rank] < most)
        return true;
    orr_copy_change *drop = find_droppable(p, rank);
    if (drop == NULL)
        return false;
    give_up(p, drop);
    return p->used[rank] < most;
}

/* Makes a copy if it fits the step and the memory. */
static bool try_copy(planner *p, orr_copy_change *add)
{
    const orr_changed_expert *e = &p->changes.expert[add->expert];
    if (add->is_done || !fits(p, p->received[add->rank]) ||
        !fits(p, p->sent[nearest_holder(p, e, add->rank)]) || !has_room(p, add->rank))
        return false;
    make_copy(p, add);
    return true;
}

/* Gives up a copy of the full rank, if need be one that is made elsewhere first, on what may be the
 * next full rank. */
static bool relieve(planner *p)
{
    const uint32_t rank = p->full;
    orr_copy_change *drop = find_droppable(p, rank);
    p->full = NONE;
    for (uint32_t i = p->drop_begin[rank]; drop == NULL && i < p->drop_begin[rank + 1]; i++) {
        orr_copy_change *other = &p->changes.drop[p->drops[i]];
        const orr_changed_expert *e = &p->changes.expert[other->expert];
        for (uint32_t a = e->adds; !other->is_done && drop == NULL && a < e->adds + e->n_adds; a++)
            if (try_copy(p, &p->changes.add[a]))
                drop = other;
    }
    if (drop == NULL)
        p->full = rank;
    else
        give_up(p, drop);
    return drop != NULL;
}

/* Makes some copy, of the ranks in turn. */
static bool copy_any(planner *p, uint32_t *turn)
{
    for (uint32_t i = 0; i < p->from->ranks; i++) {
        const uint32_t rank = (*turn + i) % p->from->ranks;
        if (!fits(p, p->received[rank]))
            continue;
        for (uint32_t a = p->add_begin[rank]; a < p->add_begin[rank + 1]; a++)
            if (try_copy(p, &p->changes.add[p->adds[a]])) {
                *turn = rank + 1;
                return true;
            }
    }
    return false;
}

static orr_status order_moves(planner *p, orr_error *err)
{
    const size_t bytes = p->from->ranks * sizeof(double);
    uint32_t turn = 0, step_begin = 0; /* moves before this step */
    while (p->left > 0) {
        if (p->full != NONE ? relieve(p) : copy_any(p, &turn))
            continue;
        if (p->result->n == step_begin)
            return orr_fail(
                err, ORR_INVALID,
                "the memory of the ranks leaves no order for the moves: %u of %u copies "
                "could not be made",
                p->left, p->changes.n_adds);
        step_begin = p->result->n;
        p->result->steps++;
        memset(p->sent, 0, bytes);
        memset(p->received, 0, bytes);
    }
    for (uint32_t i = 0; i < p->changes.n_drops; i++)
        if (!p->changes.drop[i].is_done)
            give_up(p, &p->changes.drop[i]);
    p->result->steps += p->result->n > 0;
    return ORR_OK;
}

/* --- the plan --------------------------------------------------------------------------------- */

/* Changes by rank. begin: shape (R + 1); ret: shape (n). */
static void list_by_rank(const orr_copy_change *change, uint32_t n, uint32_t ranks, uint32_t *begin,
                         uint32_t *ret)
{
    memset(begin, 0, ((size_t)ranks + 1) * sizeof *begin);
    for (uint32_t i = 0; i < n; i++)
        begin[change[i].rank + 1]++;
    for (uint32_t r = 0; r < ranks; r++)
        begin[r + 1] += begin[r];
    for (uint32_t i = n; i-- > 0;)
        ret[--begin[change[i].rank + 1]] = i;
    /* Each begin is now that of its rank, one place too far. */
    for (uint32_t r = 0; r < ranks; r++)
        begin[r] = begin[r + 1];
    begin[ranks] = n;
}

static uint32_t slots_of_rank(const orr_expert_placement *p, uint32_t rank)
{
    uint32_t ret = 0;
    for (uint32_t l = 0; l < p->layers; l++)
        ret += orr_placement_first(p, l, rank + 1) - orr_placement_first(p, l, rank);
    return ret;
}

static orr_status set_rooms(planner *p, const orr_expert_placement *to, orr_error *err)
{
    for (uint32_t r = 0; r < p->from->ranks; r++) {
        const uint32_t wanted = slots_of_rank(to, r);
        p->used[r] = slots_of_rank(p->from, r);
        p->keep[r] = p->used[r] > wanted ? p->used[r] : wanted;
        p->room[r] = p->options->room != NULL ? p->options->room[r] : p->keep[r] + 1;
        if (p->used[r] > p->room[r])
            return orr_fail(err, ORR_INVALID, "rank %u has %u slots, and room for %u", r,
                            p->used[r], p->room[r]);
    }
    return ORR_OK;
}

static orr_status planner_init(planner *p, orr_arena *arena, orr_error *err)
{
    const uint32_t ranks = p->from->ranks;
    const orr_changes *c = &p->changes;
    p->used = orr_arena_array(arena, uint32_t, ranks);
    p->room = orr_arena_array(arena, uint32_t, ranks);
    p->keep = orr_arena_array(arena, uint32_t, ranks);
    p->add_begin = orr_arena_array(arena, uint32_t, (size_t)ranks + 1);
    p->drop_begin = orr_arena_array(arena, uint32_t, (size_t)ranks + 1);
    p->adds = orr_arena_array(arena, uint32_t, c->n_adds);
    p->drops = orr_arena_array(arena, uint32_t, c->n_drops);
    p->sent = orr_arena_array(arena, double, ranks);
    p->received = orr_arena_array(arena, double, ranks);
    if (p->used == NULL || p->room == NULL || p->keep == NULL || p->add_begin == NULL ||
        p->drop_begin == NULL || p->adds == NULL || p->drops == NULL || p->sent == NULL ||
        p->received == NULL)
        return orr_fail_memory(err);
    list_by_rank(c->add, c->n_adds, ranks, p->add_begin, p->adds);
    list_by_rank(c->drop, c->n_drops, ranks, p->drop_begin, p->drops);
    p->left = c->n_adds;
    p->full = NONE;
    return ORR_OK;
}

void orr_expert_moves_options_init(orr_expert_moves_options *options)
{
    *options = (orr_expert_moves_options){.struct_bytes = sizeof *options};
}

static orr_status plan_moves(planner *p, const orr_expert_placement *to, orr_arena *scratch,
                             orr_arena *arena, orr_error *err)
{
    ORR_TRY(orr_changes_find(p->from, to, scratch, &p->changes, err));
    ORR_TRY(planner_init(p, scratch, err));
    ORR_TRY(set_rooms(p, to, err));
    p->moves =
        orr_arena_array(arena, orr_expert_move, (size_t)p->changes.n_adds + p->changes.n_drops);
    if (p->moves == NULL)
        return orr_fail_memory(err);
    p->result->moves = p->moves;
    return order_moves(p, err);
}

orr_status orr_expert_moves_plan(const orr_expert_placement *from, const orr_expert_placement *to,
                                 const orr_expert_moves_options *options, orr_arena *arena,
                                 orr_expert_moves *ret, orr_error *err)
{
    orr_expert_moves_options defaults;
    orr_expert_moves_options_init(&defaults);
    orr_expert_moves moves = {.n = 0};
    planner p = {.from = from,
                 .options = options != NULL ? options : &defaults,
                 .result = &moves,
                 .expert_bytes = 1};
    if (p.options->costs != NULL && p.options->costs->expert_bytes > 0)
        p.expert_bytes = p.options->costs->expert_bytes;
    orr_arena *scratch = orr_arena_new(0, 0);
    const orr_status status =
        scratch != NULL ? plan_moves(&p, to, scratch, arena, err) : orr_fail_memory(err);
    orr_arena_free(scratch);
    if (status != ORR_OK)
        return status;
    moves.fresh_bytes = p.expert_bytes * orr_expert_placement_slots(to);
    *ret = moves;
    return ORR_OK;
}
