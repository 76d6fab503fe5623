/* SPDX-License-Identifier: Apache-2.0 */
/* Placements by loads alone: every layer balanced, its copies of unequal shares. Where layers may
 * have different numbers of slots, slots go from layers that lose least without them to those that
 * gain most, as arXiv 2603.28768 (CRAFT) does for a memory of copies. */
#include "experts/policy/balance.h"

#include <math.h>
#include <string.h>

/* Shares of the mean load: what layers must lack together for slots to move, and most rows more
 * than the other layers that one gets. */
#define WORTH 1e-3
enum { MOST_ROWS = 8 };

/* Slots move from layer to layer by rows: one on each rank that takes part. So no rank has more
 * slots over all layers than without. */
typedef struct allotment {
    orr_load_balancer balancer;
    const orr_policy_problem *problem;
    bool *takes_part;  /* shape (R) */
    uint32_t *first;   /* shape (R + 1): of the layer that is balanced */
    int32_t *rows;     /* shape (L): more or fewer than rank_slots */
    double *most;      /* shape (L): load of the fullest rank */
    double *gain;      /* shape (L): of it, by a row more */
    double *loss;      /* shape (L): of it, by a row less; INFINITY: there must be no less */
    double mean, lack; /* of all layers: loads of the mean rank; those of the fullest ranks over
                        * their bounds */
    double bound;      /* on the imbalance of the worst layer */
} allotment;

/* Slots of a rank in a layer with so many rows more. */
static uint32_t slots_of(const allotment *s, uint32_t rank, int32_t rows)
{
    const int32_t slots = (int32_t)s->problem->rank_slots[rank] + s->takes_part[rank] * rows;
    return slots > 0 ? (uint32_t)slots : 0;
}

/* Lays out the slots of a layer; false: some expert would have none, or a rank more than experts.
 */
static bool lay_out(allotment *s, int32_t rows)
{
    const orr_policy_problem *p = s->problem;
    const uint32_t hosts = p->grouped ? p->hosts : 1, most = p->experts / hosts;
    uint32_t at = 0, host_at = 0;
    for (uint32_t r = 0; r < p->ranks; r++) {
        const uint32_t slots = slots_of(s, r, rows);
        if (rows != 0 && (slots > most || (slots == 0) != (p->rank_slots[r] == 0)))
            return false;
        s->first[r] = at;
        at += slots;
        const bool last = r + 1 == p->ranks || (p->grouped && (r + 1) % p->host_ranks == 0);
        if (last && at - host_at < p->kept / hosts)
            return false;
        host_at = last ? at : host_at;
    }
    s->first[p->ranks] = at;
    return true;
}

static orr_status init(allotment *s, const orr_policy_problem *p, orr_arena *arena, orr_error *err)
{
    *s = (allotment){
        .problem = p,
        .takes_part = orr_arena_array(arena, bool, p->ranks),
        .first = orr_arena_array(arena, uint32_t, (size_t)p->ranks + 1),
        .rows = orr_arena_array(arena, int32_t, p->layers),
        .most = orr_arena_array(arena, double, p->layers),
        .gain = orr_arena_array(arena, double, p->layers),
        .loss = orr_arena_array(arena, double, p->layers),
        .bound = 1,
    };
    if (s->takes_part == NULL || s->first == NULL || s->rows == NULL || s->most == NULL ||
        s->gain == NULL || s->loss == NULL)
        return orr_fail_memory(err);
    uint32_t live = 0, slots = 0, most = 0;
    for (uint32_t r = 0; r < p->ranks; r++) {
        live += p->rank_slots[r] > 0;
        most = p->rank_slots[r] > most ? p->rank_slots[r] : most;
    }
    for (uint32_t r = 0; r < p->ranks; r++) {
        /* With fewer copies than ranks, those on the ranks that have one. */
        s->takes_part[r] =
            p->slots - p->kept >= live ? p->rank_slots[r] > 0 : p->rank_slots[r] == most;
        slots += slots_of(s, r, p->options->even_layers ? 0 : MOST_ROWS);
    }
    memset(s->rows, 0, p->layers * sizeof *s->rows);
    return orr_load_balancer_init(&s->balancer, p, slots, arena, err);
}

/* Writes a balanced layer into a placement. */
static void write_layer(const orr_load_balancer *b, uint32_t layer, orr_placement_draft *draft)
{
    const orr_policy_problem *p = b->problem;
    const double *load = p->load + (size_t)layer * p->experts;
    const uint32_t first = orr_placement_first(&draft->placement, layer, 0);
    for (uint32_t s = 0; s < b->now.first[p->ranks]; s++) {
        const uint16_t e = b->now.expert[s];
        draft->expert[first + s] = e;
        draft->share[first + s] =
            (float)(load[e] > 0 ? b->now.part[s] / load[e] : 1.0 / b->copies[e]);
    }
}

/* Balances all layers, each with its rows, into a draft of that shape. */
static void place_layers(allotment *s, orr_placement_draft *draft)
{
    const orr_policy_problem *p = s->problem;
    for (uint32_t l = 0; l < p->layers; l++) {
        (void)lay_out(s, s->rows[l]);
        const orr_layer_balance got = orr_load_balance_layer(&s->balancer, l, s->first);
        s->most[l] = got.most;
        s->mean += got.mean;
        s->lack += got.most - got.bound;
        s->bound = got.mean > 0 ? fmax(s->bound, got.bound / got.mean) : s->bound;
        write_layer(&s->balancer, l, draft);
    }
}

/* Load of the fullest rank of a layer with so many rows. */
static double try_rows(allotment *s, uint32_t layer, int32_t rows)
{
    if (rows > MOST_ROWS || !lay_out(s, rows))
        return INFINITY;
    return orr_load_balance_layer(&s->balancer, layer, s->first).most;
}

static void weigh_layer(allotment *s, uint32_t layer)
{
    s->gain[layer] = s->most[layer] - try_rows(s, layer, s->rows[layer] + 1);
    s->loss[layer] = try_rows(s, layer, s->rows[layer] - 1) - s->most[layer];
}

/* Moves rows of slots between layers as long as that lowers the sum of their fullest ranks' loads.
 * Returns whether any was moved. */
static bool move_rows(allotment *s)
{
    const uint32_t layers = s->problem->layers;
    bool moved = false;
    for (uint32_t l = 0; l < layers; l++)
        weigh_layer(s, l);
    for (uint32_t moves = 0; moves < layers; moves++) {
        uint32_t to = 0, from = 0;
        for (uint32_t l = 1; l < layers; l++) {
            to = s->gain[l] > s->gain[to] ? l : to;
            from = s->loss[l] < s->loss[from] ? l : from;
        }
        if (to == from || !(s->gain[to] - s->loss[from] > WORTH * s->mean / layers))
            break;
        s->most[to] -= s->gain[to];
        s->most[from] += s->loss[from];
        s->rows[to]++;
        s->rows[from]--;
        weigh_layer(s, to);
        weigh_layer(s, from);
        moved = true;
    }
    return moved;
}

orr_status orr_place_balance(const orr_policy_problem *p, orr_arena *arena, orr_expert_result *ret,
                             orr_error *err)
{
    allotment s;
    orr_placement_draft draft;
    ORR_TRY(orr_policy_draft(p, NULL, arena, &draft, err));
    ORR_TRY(init(&s, p, arena, err));
    place_layers(&s, &draft);
    if (!p->options->even_layers && p->layers > 1 && s.lack > WORTH * s.mean && move_rows(&s)) {
        uint32_t *slots = orr_arena_array(arena, uint32_t, (size_t)p->layers * p->ranks);
        if (slots == NULL)
            return orr_fail_memory(err);
        for (uint32_t l = 0; l < p->layers; l++)
            for (uint32_t r = 0; r < p->ranks; r++)
                slots[(size_t)l * p->ranks + r] = slots_of(&s, r, s.rows[l]);
        ORR_TRY(orr_policy_draft(p, slots, arena, &draft, err));
        place_layers(&s, &draft);
    }
    ret->placement = draft.placement;
    ret->bound_imbalance = s.bound;
    /* Where links cost something, of all shares that are as even those that keep most rows. */
    return p->options->costs != NULL ? orr_placement_level(&ret->placement, p->load, arena, err)
                                     : ORR_OK;
}
