/* SPDX-License-Identifier: Apache-2.0 */
/* Predicts serving over ranks: each round from the routes of its tokens, the placement, and what
 * passes were measured to take. */
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "engine/experts/exchange.h"
#include "engine/generate/experts.h"
#include "measure/serving_rounds.h"

typedef struct serving_prediction {
    const orr_serving_job *job;
    const orr_measured_serving *measured;
    orr_expert_placement placement;
    orr_serving_rounds *rounds;
    uint32_t ranks;
    uint16_t *rank_of;        /* shape (slots) */
    uint64_t *sent, *choices; /* shape (R, R): rows and choices from a rank to another in a layer */
    uint32_t *rows;           /* shape (slots): of a layer's slots */
    uint32_t (
        *shape)[ORR_BACKBONES][2]; /* shape (R): sequences and tokens of passes, latest first */
    double *work, *left;           /* shape (R): ns */
    orr_predicted_serving *ret;
    orr_array(orr_predicted_round) done;
    orr_error *err;
} serving_prediction;

static double ns_at(const orr_serving_curve *c, double x)
{
    uint32_t i = 0;
    if (c->n == 0)
        return 0;
    if (c->n == 1 || x <= c->at[0])
        return c->ns[0];
    while (i + 2 < c->n && c->at[i + 1] < x)
        i++;
    const double slope = (c->ns[i + 1] - c->ns[i]) / (c->at[i + 1] - c->at[i]),
                 ns = c->ns[i] + slope * (x - c->at[i]);
    return ns > 0 ? ns : 0;
}

/* Between the curves of few and of many tokens in the caches. */
static double backbone_ns(const orr_measured_serving *m, const orr_serving_pass *pass)
{
    const orr_serving_curve *c = pass->prefills ? m->prefill : m->decode;
    const double x = pass->prefills ? pass->tokens : pass->samples,
                 most = pass->prefills ? m->prefill_cached : m->decode_cached;
    if (pass->samples == 0)
        return 0;
    const double few = ns_at(&c[0], x), many = c[1].n > 0 ? ns_at(&c[1], x) : few,
                 part = most > 0 ? fmin(pass->cached / most, 1) : 0;
    return few + part * (many - few);
}

/* The time in which all ranks have done their work, where cores are shared out evenly among those
 * that still have some (processor sharing). */
static double shared_ns(const serving_prediction *p)
{
    double ns = 0;
    uint32_t active = p->ranks;
    memcpy(p->left, p->work, p->ranks * sizeof *p->left);
    while (active > 0) {
        const double rate = active > p->measured->at_once ? p->measured->at_once / active : 1;
        double least = INFINITY;
        active = 0;
        for (uint32_t r = 0; r < p->ranks; r++)
            if (p->left[r] > 0)
                least = fmin(least, p->left[r]);
        for (uint32_t r = 0; r < p->ranks && least < INFINITY; r++) {
            p->left[r] = fmax(p->left[r] - least, 0);
            active += p->left[r] > 0;
        }
        ns += least < INFINITY ? least / rate : 0;
    }
    return ns;
}

/* --- one layer ----------------------------------------------------------------------------------
 */

/* Counts the choices of a token. */
static orr_status route(serving_prediction *p, uint32_t layer, uint32_t rank, uint64_t row)
{
    const orr_routes *routes = p->job->routes;
    uint16_t choice[ORR_ROUTE_CHOICES_MAX];
    uint32_t slot[ORR_ROUTE_CHOICES_MAX];
    const orr_expert_token who = {orr_serving_prompt(p->rounds, row), routes->position[row], rank};
    orr_routes_choices(routes, layer, row, 1, choice);
    orr_experts_slots(&p->placement, layer, &who, choice, routes->top_k, false, slot);
    for (uint32_t k = 0; k < routes->top_k; k++) {
        if (slot[k] == UINT32_MAX)
            return orr_fail(p->err, ORR_INVALID, "layer %u: no rank has expert %u",
                            p->placement.number[layer], choice[k]);
        const size_t pair = (size_t)rank * p->ranks + p->rank_of[slot[k]];
        bool again = false;
        for (uint32_t j = 0; j < k; j++)
            again |= p->rank_of[slot[j]] == p->rank_of[slot[k]];
        p->sent[pair] += !again;
        p->choices[pair]++;
        p->rows[slot[k] - p->placement.first_slot[(size_t)layer * (p->ranks + 1)]]++;
    }
    return ORR_OK;
}

static orr_status route_all(serving_prediction *p, uint32_t layer, const orr_serving_pass *pass)
{
    const uint32_t *first = p->placement.first_slot + (size_t)layer * (p->ranks + 1);
    const size_t pairs = (size_t)p->ranks * p->ranks;
    memset(p->sent, 0, pairs * sizeof *p->sent);
    memset(p->choices, 0, pairs * sizeof *p->choices);
    memset(p->rows, 0, (first[p->ranks] - first[0]) * sizeof *p->rows);
    for (uint32_t r = 0; r < p->ranks; r++)
        for (uint32_t i = 0; i < pass[r].samples * pass[r].tokens; i++)
            ORR_TRY(route(p, layer, r, pass[r].row[i]));
    return ORR_OK;
}

static uint64_t dispatched(const serving_prediction *p, uint32_t from, uint32_t to)
{
    const size_t pair = (size_t)from * p->ranks + to;
    return p->sent[pair] * (uint64_t)p->measured->row_bytes +
           p->choices[pair] * (uint64_t)p->measured->choice_bytes;
}

/* Results return from the rank that has the expert. */
static uint64_t combined(const serving_prediction *p, uint32_t from, uint32_t to)
{
    return p->choices[(size_t)to * p->ranks + from] * (uint64_t)p->measured->result_bytes;
}

/* Pairwise exchange: as many rounds as there are other ranks, each as long as its largest message.
 */
static double exchange_ns(const serving_prediction *p,
                          uint64_t (*bytes)(const serving_prediction *, uint32_t, uint32_t),
                          uint64_t *sums)
{
    const uint32_t host = p->placement.host_ranks > 0 ? p->placement.host_ranks : p->ranks;
    double ns = 0;
    for (uint32_t k = 1; k < p->ranks; k++) {
        uint64_t most = 0;
        for (uint32_t r = 0; r < p->ranks; r++) {
            const uint32_t to = (r + k) % p->ranks;
            const uint64_t n = bytes(p, r, to);
            sums[r / host != to / host] += n;
            most = n > most ? n : most;
        }
        ns += most > 0 ? ns_at(&p->measured->transfer, (double)most) : 0;
    }
    return ns;
}

static void work_of_experts(const serving_prediction *p, uint32_t layer)
{
    const uint32_t *first = p->placement.first_slot + (size_t)layer * (p->ranks + 1);
    for (uint32_t r = 0; r < p->ranks; r++) {
        p->work[r] = 0;
        for (uint32_t s = first[r]; s < first[r + 1]; s++)
            if (p->rows[s - first[0]] > 0)
                p->work[r] += ns_at(&p->measured->expert, p->rows[s - first[0]]);
        p->work[r] += p->work[r] > 0 ? p->measured->experts_ns : 0;
    }
}

static orr_status predict_layer(serving_prediction *p, uint32_t layer, const orr_serving_pass *pass,
                                double *ns, double *between_ns)
{
    const double count_ns = ns_at(&p->measured->transfer, sizeof(uint64_t));
    ORR_TRY(route_all(p, layer, pass));
    for (uint32_t r = 0; r < p->ranks; r++)
        p->work[r] = backbone_ns(p->measured, &pass[r]) / p->placement.layers;
    *ns += shared_ns(p);
    *between_ns += count_ns * (p->ranks - 1) + exchange_ns(p, dispatched, p->ret->dispatch[layer]);
    work_of_experts(p, layer);
    *ns += shared_ns(p);
    *between_ns += exchange_ns(p, combined, p->ret->combine[layer]);
    return ORR_OK;
}

/* --- all rounds ---------------------------------------------------------------------------------
 */

/* Whether no program is there for a pass; then it is. */
static bool is_new(serving_prediction *p, uint32_t rank, const orr_serving_pass *pass)
{
    uint32_t(*shape)[2] = p->shape[rank], i = 0;
    const uint32_t tokens = pass->samples > 0 ? pass->tokens : 0;
    while (i < ORR_BACKBONES && (shape[i][0] != pass->samples || shape[i][1] != tokens))
        i++;
    const bool found = i < ORR_BACKBONES;
    memmove(shape[1], shape[0], (found ? i : ORR_BACKBONES - 1) * sizeof *shape);
    shape[0][0] = pass->samples;
    shape[0][1] = tokens;
    return !found;
}

static orr_status predict_round(serving_prediction *p, const orr_serving_pass *pass)
{
    double ns = 0, between_ns = ns_at(&p->measured->transfer, sizeof(orr_rank_state)) *
                                (p->ranks - 1); /* ranks agree that they go on */
    bool prefills = false;
    for (uint32_t r = 0; r < p->ranks; r++)
        p->work[r] = is_new(p, r, &pass[r]) ? p->measured->new_ns : 0;
    ns += shared_ns(p);
    for (uint32_t layer = 0; layer < p->placement.layers; layer++)
        ORR_TRY(predict_layer(p, layer, pass, &ns, &between_ns));
    for (uint32_t r = 0; r < p->ranks; r++) {
        p->work[r] = pass[r].logits > 0 ? ns_at(&p->measured->head, pass[r].logits) : 0;
        prefills |= pass[r].prefills;
    }
    ns += shared_ns(p) + between_ns;
    const orr_predicted_round round = {(int64_t)(ns + 0.5), (int64_t)(between_ns + 0.5), prefills};
    return orr_array_push(&p->done, round) ? ORR_OK : orr_fail_memory(p->err);
}

static orr_status check(const serving_prediction *p)
{
    const orr_routes *routes = p->job->routes;
    const orr_expert_placement *place = &p->placement;
    if (routes->layers != place->layers || routes->experts != place->experts ||
        routes->top_k != p->job->options->model->moe.top_k ||
        memcmp(routes->number, place->number, place->layers * sizeof *place->number) != 0)
        return orr_fail(p->err, ORR_INVALID, "%s: routes of other layers or experts than %s has",
                        routes->source, p->job->options->model->name);
    return ORR_OK;
}

static orr_status make_room(serving_prediction *p, orr_arena *arena)
{
    const uint32_t slots = orr_expert_placement_slots(&p->placement), layers = p->placement.layers;
    const size_t pairs = (size_t)p->ranks * p->ranks;
    p->rank_of = orr_arena_array(arena, uint16_t, slots);
    p->sent = orr_arena_array(arena, uint64_t, pairs);
    p->choices = orr_arena_array(arena, uint64_t, pairs);
    p->rows = orr_arena_array(arena, uint32_t, slots);
    p->shape = orr_arena_alloc(arena, p->ranks, sizeof *p->shape, sizeof(uint32_t));
    p->work = orr_arena_array(arena, double, p->ranks);
    p->left = orr_arena_array(arena, double, p->ranks);
    p->ret->dispatch = orr_arena_alloc(arena, layers, 2 * sizeof(uint64_t), sizeof(uint64_t));
    p->ret->combine = orr_arena_alloc(arena, layers, 2 * sizeof(uint64_t), sizeof(uint64_t));
    if (p->rank_of == NULL || p->sent == NULL || p->choices == NULL || p->rows == NULL ||
        p->work == NULL || p->left == NULL || p->ret->dispatch == NULL || p->ret->combine == NULL)
        return orr_fail_memory(p->err);
    memset(p->shape, 0, p->ranks * sizeof *p->shape);
    memset(p->ret->dispatch, 0, layers * sizeof *p->ret->dispatch);
    memset(p->ret->combine, 0, layers * sizeof *p->ret->combine);
    for (uint32_t layer = 0; layer < layers; layer++) {
        const uint32_t *first = p->placement.first_slot + (size_t)layer * (p->ranks + 1);
        for (uint32_t r = 0; r < p->ranks; r++)
            for (uint32_t s = first[r]; s < first[r + 1]; s++)
                p->rank_of[s] = (uint16_t)r;
    }
    return ORR_OK;
}

static orr_status predict(serving_prediction *p, orr_arena *arena)
{
    const orr_serving_pass *pass;
    ORR_TRY(
        orr_generator_place(p->job->options->model, p->job->ranks, arena, &p->placement, p->err));
    p->ranks = p->placement.ranks;
    ORR_TRY(check(p));
    ORR_TRY(make_room(p, arena));
    ORR_TRY(orr_serving_rounds_open(p->job, p->ranks, arena, &p->rounds, p->err));
    while ((pass = orr_serving_rounds_next(p->rounds)) != NULL)
        ORR_TRY(predict_round(p, pass));
    orr_predicted_round *round = orr_arena_array(arena, orr_predicted_round, p->done.n);
    if (round == NULL)
        return orr_fail_memory(p->err);
    for (size_t i = 0; i < p->done.n; i++)
        round[i] = p->done.at[i];
    p->ret->round = round;
    p->ret->rounds = (uint32_t)p->done.n;
    p->ret->layers = p->placement.layers;
    p->ret->number = p->placement.number;
    return ORR_OK;
}

orr_status orr_predict_serving(const orr_serving_job *job, const orr_measured_serving *measured,
                               orr_arena *arena, orr_predicted_serving *ret, orr_error *err)
{
    orr_predicted_serving made = {0};
    serving_prediction p = {.job = job, .measured = measured, .ret = &made, .err = err};
    const orr_status status = predict(&p, arena);
    orr_array_done(&p.done);
    if (status == ORR_OK)
        *ret = made;
    return status;
}
