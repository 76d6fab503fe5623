/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the experts of one rank of several: which layers have them, its slots, and the exchange. */
#include "engine/generate/rebalance.h"

#include "base/alloc.h"
#include "base/clock.h"

uint32_t orr_generator_expert_layer(const orr_generator *g, uint32_t place)
{
    for (uint32_t layer = 0; layer < g->parallel->placement->layers; layer++)
        if (g->parallel->place[layer] == place)
            return layer;
    return ORR_NONE;
}

const uint16_t *orr_generator_experts_of(const orr_expert_parallel *x, uint32_t layer,
                                         uint32_t *ret_n)
{
    const orr_expert_placement *p = x->placement;
    const uint32_t *first = p->first_slot + (size_t)layer * (p->ranks + 1) + x->rank;
    *ret_n = first[1] - first[0];
    return p->expert + first[0];
}

/* The places with experts are those of the placement's layers, in order. */
static orr_status find_places(orr_generator *g, orr_error *err)
{
    orr_expert_parallel *x = g->parallel;
    const orr_expert_placement *p = x->placement;
    uint32_t layer = 0, n = 0;
    x->place = orr_arena_array(g->arena, uint32_t, p->layers);
    if (x->place == NULL)
        return orr_fail_memory(err);
    for (uint32_t place = 0; place < x->row.n; place++) {
        if (!orr_module_is_layer(x->row.modules[x->row.module_of[place]].kind))
            continue;
        if (orr_model_layer_moe(&g->model, layer++)) {
            if (n == p->layers || p->number[n] != layer - 1)
                return orr_fail(err, ORR_INVALID,
                                "%s: places no experts of layer %u of %s: is it of another model?",
                                p->source, layer - 1, g->model.name);
            x->place[n++] = place;
        }
    }
    if (n < p->layers)
        return orr_fail(err, ORR_INVALID, "%s: places experts of layer %u, %s has none there",
                        p->source, p->number[n], g->model.name);
    return ORR_OK;
}

static orr_status count_slots(orr_generator *g, orr_error *err)
{
    orr_expert_parallel *x = g->parallel;
    uint32_t most = 0;
    for (uint32_t layer = 0; layer < x->placement->layers; layer++) {
        uint32_t n;
        (void)orr_generator_experts_of(x, layer, &n);
        most = n > most ? n : most;
    }
    if (most <= x->slots && x->counts != NULL)
        return ORR_OK;
    x->slots = most;
    x->counts = orr_generator_allocate(g, most + 1, sizeof *x->counts);
    return x->counts != NULL ? ORR_OK : orr_fail_memory(err);
}

orr_status orr_generator_count_slots(orr_generator *g, orr_error *err)
{
    ORR_TRY(count_slots(g, err));
    return orr_expert_weights_list(g, err);
}

/* Of rows that are sent, and of what comes back: as on the tape of a layer. */
static orr_status find_dtypes(const orr_generator *g, orr_expert_exchange_options *o,
                              orr_error *err)
{
    const orr_expert_parallel *x = g->parallel;
    const orr_tape *tape = x->row.modules[x->row.module_of[x->place[0]]].tape;
    orr_expert_part part;
    ORR_TRY(orr_expert_part_of(tape, g->arena, &part, err));
    if (part.dispatch == ORR_NONE)
        return orr_fail(err, ORR_UNSUPPORTED, "%s: a layer whose experts are not dispatched to",
                        g->model.name);
    const orr_tape_call *dispatch = &tape->calls[part.dispatch],
                        *combine = &tape->calls[part.combine];
    const orr_type *rows = &tape->values[dispatch->in[0]].type;
    o->dtype = (orr_dtype)rows->dtype;
    o->columns = rows->dim[rows->rank - 1];
    o->result_dtype = (orr_dtype)tape->values[combine->in[0]].type.dtype;
    o->scored = dispatch->n_in > 2;
    return ORR_OK;
}

static orr_status take_room(orr_generator *g, const orr_expert_exchange_options *o, orr_error *err)
{
    orr_expert_parallel *x = g->parallel;
    const size_t columns = (size_t)o->columns * sizeof(float);
    x->rows = orr_generator_allocate(g, ORR_EXPERT_PIECE_ROWS, columns);
    x->results = orr_generator_allocate(g, ORR_EXPERT_PIECE_ROWS, columns);
    x->request = orr_generator_allocate(g, o->tokens, sizeof *x->request);
    x->position = orr_generator_allocate(g, o->tokens, sizeof *x->position);
    x->states = orr_generator_allocate(g, x->placement->ranks, sizeof *x->states);
    x->counts_of = orr_generator_allocate(
        g, (size_t)x->placement->layers * x->placement->experts + 1, sizeof *x->counts_of);
    return x->counts_of != NULL && x->rows != NULL && x->results != NULL && x->request != NULL &&
                   x->position != NULL && x->states != NULL
               ? ORR_OK
               : orr_fail_memory(err);
}

static orr_status open_all(orr_generator *g, orr_transport *transport, orr_error *err)
{
    orr_expert_parallel *x = g->parallel;
    orr_expert_exchange_options o = {.transport = transport,
                                     .placement = x->placement,
                                     .top_k = g->model.moe.top_k,
                                     .tokens = (uint32_t)orr_generator_rows(g)};
    if (x->placement->experts != g->model.moe.experts)
        return orr_fail(err, ORR_INVALID, "%s: places %u experts of a layer, %s has %u",
                        x->placement->source, x->placement->experts, g->model.name,
                        g->model.moe.experts);
    ORR_TRY(orr_generator_modules(g, 1, 1, g->model.vision.layers > 0 ? g->model.vision.tiles : 0,
                                  g->arena, &x->row, err));
    ORR_TRY(find_places(g, err));
    if (x->placement->layers > 0)
        ORR_TRY(find_dtypes(g, &o, err));
    x->dtype = o.dtype;
    ORR_TRY(count_slots(g, err));
    ORR_TRY(orr_expert_exchange_new(&o, &x->exchange, err));
    x->communicators[ORR_AXIS_EP] = orr_expert_exchange_ranks(x->exchange);
    return take_room(g, &o, err);
}

orr_status orr_generator_experts_open(orr_generator *g, const orr_generator_rank *rank,
                                      orr_error *err)
{
    g->parallel = orr_calloc(1, sizeof *g->parallel);
    if (g->parallel == NULL)
        return orr_fail_memory(err);
    g->parallel->placement = rank->placement;
    g->parallel->rank = rank->transport->rank;
    g->parallel->groups = rank->groups;
    g->parallel->n_groups = rank->n_groups;
    return open_all(g, rank->transport, err);
}

orr_status orr_generator_agree(orr_generator *g, const orr_rank_state *state, bool *ret_going,
                               orr_error *err)
{
    orr_communicator *c = g->parallel->communicators[ORR_AXIS_EP];
    orr_expert_parallel *x = g->parallel;
    const orr_rank_state *all = x->states;
    bool works = false, over = false, prefills = false;
    ORR_TRY(orr_all_gather(c, state, x->states, sizeof *state, ORR_DTYPE_INT8, err));
    for (uint32_t r = 0; r < c->n; r++) {
        works |= all[r].works;
        over |= all[r].over;
        prefills |= all[r].prefills;
    }
    const int64_t now_ns = orr_clock_now_ns(&orr_clock_monotonic);
    const orr_generated_round round = {now_ns - x->agreed_ns, x->prefills};
    if (x->rounds++ > 0 && !orr_array_push(&x->times, round))
        return orr_fail_memory(err);
    x->agreed_ns = now_ns;
    x->prefills = prefills;
    *ret_going = works && !over;
    return ORR_OK;
}

void orr_generator_experts_close(orr_generator *g)
{
    if (g->parallel == NULL)
        return;
    for (int i = 0; i < ORR_EXPERT_PROGRAMS; i++)
        orr_expert_program_free(&g->parallel->programs[i]);
    orr_expert_weights_free(g);
    orr_rebalancer_free(g->parallel->rebalancer); /* which may own the placement */
    orr_expert_exchange_free(g->parallel->exchange);
    orr_array_done(&g->parallel->times);
    orr_free(g->parallel);
    g->parallel = NULL;
}
