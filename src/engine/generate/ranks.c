/* SPDX-License-Identifier: Apache-2.0 */
/* Generation over ranks: prompts are dealt, every rank answers its own, and rank 0 gathers what all
 * have answered and counted. */
#include <string.h>

#include "base/parallel_for.h"
#include "engine/generate/rebalance.h"
#include "engine/ranks/launch.h"

static const int64_t DEADLINE_NS = INT64_C(300) * 1000 * 1000 * 1000;

typedef struct rank_job {
    const orr_generator_options *options;
    const orr_generator_ranks *ranks;
    const orr_expert_placement *placement;
    orr_expert_groups *groups; /* or NULL */
    uint32_t n_groups;
    orr_answer_job job;
    orr_generation_times times;
    orr_generated_bytes *bytes;                              /* or NULL */
    bool (*told)(void *ctx, uint32_t prompt, int32_t token); /* the caller's, or NULL */
    void *told_ctx;
    size_t *n_told; /* shape (prompts): tokens that the caller was told */
    bool ends;      /* the caller wants no more */
} rank_job;

/* Tells the caller the tokens of a prompt that are here: a request that has come from another rank
 * has some more than one. */
static bool tell(void *ctx, uint32_t prompt, int32_t last)
{
    rank_job *r = ctx;
    const orr_generated *g = &r->job.ret[prompt];
    (void)last;
    for (; r->n_told[prompt] < g->n && !r->ends; r->n_told[prompt]++)
        r->ends = !r->told(r->told_ctx, prompt, g->tokens[r->n_told[prompt]]);
    return !r->ends;
}

/* Prompts are dealt to ranks in turn. */
static uint32_t rank_of(const rank_job *r, uint32_t prompt)
{
    return prompt % r->placement->ranks;
}

/* Neighbouring experts, as many on each rank; the first ranks have one more. */
static orr_status linear_placement(const orr_model *m, const uint32_t *number, uint32_t layers,
                                   uint32_t ranks, orr_arena *arena, orr_expert_placement *ret,
                                   orr_error *err)
{
    const uint32_t experts = m->moe.experts;
    uint32_t *first = orr_arena_array(arena, uint32_t, (size_t)layers * (ranks + 1));
    uint16_t *expert = orr_arena_array(arena, uint16_t, (size_t)layers * experts);
    float *share = orr_arena_array(arena, float, (size_t)layers *experts);
    if (first == NULL || expert == NULL || share == NULL)
        return orr_fail_memory(err);
    for (uint32_t n = 0; n < layers; n++) {
        for (uint32_t r = 0; r <= ranks; r++)
            first[n * (ranks + 1) + r] = n * experts + (r * experts + ranks - 1) / ranks;
        for (uint32_t e = 0; e < experts; e++) {
            expert[n * experts + e] = (uint16_t)e;
            share[n * experts + e] = 1;
        }
    }
    *ret = (orr_expert_placement){.layers = layers,
                                  .experts = experts,
                                  .ranks = ranks,
                                  .host_ranks = ranks,
                                  .number = number,
                                  .first_slot = first,
                                  .expert = expert,
                                  .share = share,
                                  .policy = "linear",
                                  .source = "neighbouring experts"};
    return ORR_OK;
}

orr_status orr_generator_place(const orr_model *m, const orr_generator_ranks *ranks,
                               orr_arena *arena, orr_expert_placement *ret, orr_error *err)
{
    uint32_t *number = orr_arena_array(arena, uint32_t, m->layers), n = 0;
    if (number == NULL)
        return orr_fail_memory(err);
    for (uint32_t layer = 0; layer < m->layers; layer++)
        if (m->moe.experts > 0 && orr_model_layer_moe(m, layer))
            number[n++] = layer;
    return ranks->placement == NULL
               ? linear_placement(m, number, n, ranks->ranks, arena, ret, err)
               : orr_expert_placement_layers(ranks->placement, number, n, arena, ret, err);
}

/* Groups of requests, from routes of the same layers. */
static orr_status fit_groups(rank_job *r, orr_error *err)
{
    const orr_routes *routes = r->ranks->routes;
    const orr_expert_placement *p = r->placement;
    const uint32_t groups = r->ranks->groups > 0 ? r->ranks->groups : p->ranks;
    orr_expert_groups_options how;
    if (routes->layers != p->layers || routes->experts != p->experts ||
        memcmp(routes->number, p->number, p->layers * sizeof *p->number) != 0)
        return orr_fail(err, ORR_INVALID, "%s: routes of other layers or experts than %s has",
                        routes->source, r->options->model->name);
    if (p->ranks % groups != 0)
        return orr_fail(err, ORR_INVALID, "%u groups of requests do not divide %u ranks", groups,
                        p->ranks);
    orr_expert_groups_options_init(&how);
    how.groups = groups;
    how.seed = r->options->seed;
    r->n_groups = groups;
    return orr_expert_groups_fit(routes, &how, r->job.arena, &r->groups, NULL, err);
}

/* What rank 0 is told of an answer; its tokens follow. */
typedef struct answer_head {
    uint64_t n, logits_digest;
    double log_probability;
    uint64_t ended;
} answer_head;

static orr_status send(orr_communicator *c, const void *data, size_t bytes, orr_error *err)
{
    return orr_send_receive(c, 0, data, bytes, ORR_NONE, NULL, 0, err);
}

static orr_status receive(orr_communicator *c, uint32_t from, void *data, size_t bytes,
                          orr_error *err)
{
    return orr_send_receive(c, ORR_NONE, NULL, 0, from, data, bytes, err);
}

static orr_status send_answer(orr_communicator *c, const orr_generated *g, orr_error *err)
{
    const answer_head head = {g->n, g->logits_digest, g->log_probability, g->ended};
    ORR_TRY(send(c, &head, sizeof head, err));
    return g->n > 0 ? send(c, g->tokens, g->n * sizeof *g->tokens, err) : ORR_OK;
}

static orr_status receive_answer(orr_communicator *c, uint32_t from, orr_arena *arena,
                                 orr_generated *ret, orr_error *err)
{
    answer_head head;
    ORR_TRY(receive(c, from, &head, sizeof head, err));
    *ret = (orr_generated){.tokens = orr_arena_array(arena, int32_t, head.n),
                           .n = head.n,
                           .ended = head.ended != 0,
                           .log_probability = head.log_probability,
                           .logits_digest = head.logits_digest};
    if (ret->tokens == NULL)
        return orr_fail_memory(err);
    return ret->n > 0 ? receive(c, from, ret->tokens, ret->n * sizeof *ret->tokens, err) : ORR_OK;
}

/* The rank that has each answer, 0 where none has: prompts that were not begun. */
static orr_status find_holders(const rank_job *r, orr_communicator *c, int64_t *ret, orr_error *err)
{
    for (uint32_t p = 0; p < r->job.n; p++)
        ret[p] = r->job.holds[p] ? c->me : 0;
    return orr_all_reduce(c, ret, ret, r->job.n, ORR_DTYPE_INT64, err);
}

static orr_status gather_answers(rank_job *r, orr_communicator *c, orr_error *err)
{
    int64_t *holder = orr_arena_array(r->job.arena, int64_t, r->job.n);
    if (holder == NULL)
        return orr_fail_memory(err);
    ORR_TRY(find_holders(r, c, holder, err));
    for (uint32_t p = 0; p < r->job.n; p++) {
        const uint32_t from = (uint32_t)holder[p];
        if (from == 0 && c->me == 0 && !r->job.holds[p])
            r->job.ret[p] = (orr_generated){0};
        if (from == 0)
            continue;
        if (c->me == 0)
            ORR_TRY(receive_answer(c, from, r->job.arena, &r->job.ret[p], err));
        else if (c->me == from)
            ORR_TRY(send_answer(c, &r->job.ret[p], err));
    }
    return ORR_OK;
}

/* Times of all ranks: the first token of any, tokens of all, the longest of the rest. */
static orr_status gather_times(rank_job *r, orr_communicator *c, orr_error *err)
{
    orr_generation_times other, *all = &r->times;
    if (c->me != 0)
        return send(c, all, sizeof *all, err);
    for (uint32_t from = 1; from < c->n; from++) {
        ORR_TRY(receive(c, from, &other, sizeof other, err));
        if (all->first_token_ns == 0 ||
            (other.first_token_ns > 0 && other.first_token_ns < all->first_token_ns))
            all->first_token_ns = other.first_token_ns;
        all->prompt_ns = other.prompt_ns > all->prompt_ns ? other.prompt_ns : all->prompt_ns;
        all->decode_ns = other.decode_ns > all->decode_ns ? other.decode_ns : all->decode_ns;
        all->prompt_tokens += other.prompt_tokens;
        all->tokens += other.tokens;
    }
    return ORR_OK;
}

/* The longest pause of any rank. */
static orr_status gather_pause(const rank_job *r, orr_generator *g, orr_error *err)
{
    orr_communicator *c = orr_expert_exchange_ranks(g->parallel->exchange);
    int64_t *all = orr_arena_array(r->job.arena, int64_t, c->n);
    if (all == NULL)
        return orr_fail_memory(err);
    const int64_t mine = orr_rebalancer_total(g->parallel->rebalancer).pause_ns;
    ORR_TRY(orr_all_gather(c, &mine, all, 1, ORR_DTYPE_INT64, err));
    for (uint32_t i = 0; i < c->n && c->me == 0 && r->bytes != NULL; i++)
        r->bytes->pause_ns = all[i] > r->bytes->pause_ns ? all[i] : r->bytes->pause_ns;
    return ORR_OK;
}

/* Sums over ranks of what each has counted so far. */
static orr_status gather_bytes(const rank_job *r, orr_generator *g, orr_error *err)
{
    enum { FIELDS = 3 * ORR_WIRE_LEVELS, OTHERS = 3 * ORR_WIRE_LEVELS + 4 };
    orr_expert_exchange *x = g->parallel->exchange;
    orr_communicator *c = orr_expert_exchange_ranks(x);
    const uint32_t layers = r->placement->layers;
    const orr_expert_wire_format format = orr_expert_exchange_format(x);
    const size_t n = (size_t)layers * FIELDS + OTHERS;
    uint64_t *sums = orr_arena_array(r->job.arena, uint64_t, n);
    orr_generated_bytes *ret = r->bytes;
    if (sums == NULL)
        return orr_fail_memory(err);
    memcpy(sums, orr_expert_exchange_bytes(x), layers * sizeof(orr_expert_wire_bytes));
    uint64_t *other = sums + n - OTHERS, *moved = other + ORR_WIRE_LEVELS,
             *weights = moved + ORR_WIRE_LEVELS, *numbers = weights + ORR_WIRE_LEVELS;
    const orr_rebalancer *rebalancer = g->parallel->rebalancer;
    const orr_rebalanced total =
        rebalancer != NULL ? orr_rebalancer_total(rebalancer) : (orr_rebalanced){0};
    memcpy(other, orr_expert_exchange_other_bytes(x), ORR_WIRE_LEVELS * sizeof *sums);
    memcpy(moved, g->parallel->moved_bytes, ORR_WIRE_LEVELS * sizeof *sums);
    memcpy(weights, total.bytes, ORR_WIRE_LEVELS * sizeof *sums);
    memcpy(numbers,
           (const uint64_t[]){g->parallel->moved_requests, total.looks, total.plans, total.moved},
           4 * sizeof *numbers);
    ORR_TRY(orr_all_reduce(c, sums, sums, (int64_t)n, ORR_DTYPE_INT64, err));
    if (ret == NULL || c->me != 0)
        return ORR_OK;
    *ret = (orr_generated_bytes){.ranks = c->n,
                                 .layers = layers,
                                 .number = r->placement->number,
                                 .dispatch = orr_arena_alloc(r->job.arena, layers + 1, 16, 8),
                                 .combine = orr_arena_alloc(r->job.arena, layers + 1, 16, 8),
                                 .row_bytes = format.row_bytes,
                                 .choice_bytes = format.choice_bytes,
                                 .result_bytes = format.result_bytes,
                                 .rounds = g->parallel->rounds,
                                 .moved_requests = numbers[0],
                                 .looks = numbers[1],
                                 .plans = numbers[2],
                                 .moved_experts = numbers[3]};
    orr_generated_round *round =
        orr_arena_array(r->job.arena, orr_generated_round, g->parallel->times.n);
    if (ret->dispatch == NULL || ret->combine == NULL || round == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < g->parallel->times.n; i++)
        round[i] = g->parallel->times.at[i];
    ret->round = round;
    for (uint32_t level = 0; level < ORR_WIRE_LEVELS; level++) {
        ret->moved[level] = moved[level];
        ret->weights[level] = weights[level];
        ret->all[level] = other[level] + moved[level] + weights[level];
        for (uint32_t layer = 0; layer < layers; layer++) {
            const orr_expert_wire_bytes *b = (const orr_expert_wire_bytes *)(void *)sums + layer;
            ret->dispatch[layer][level] = b->dispatch[level];
            ret->combine[layer][level] = b->combine[level];
            ret->counts[level] += b->counts[level];
            ret->all[level] += b->dispatch[level] + b->combine[level] + b->counts[level];
        }
    }
    return ORR_OK;
}

static orr_status answer_and_gather(rank_job *r, orr_generator *g, orr_error *err)
{
    orr_communicator *c = orr_expert_exchange_ranks(g->parallel->exchange);
    orr_answer_job *job = &r->job;
    uint32_t *mine = orr_arena_array(job->arena, uint32_t, job->n);
    if (mine == NULL)
        return orr_fail_memory(err);
    job->n_mine = 0;
    for (uint32_t p = 0; p < job->n; p++)
        if (rank_of(r, p) == c->me)
            mine[job->n_mine++] = p;
    job->mine = mine;
    job->holds = orr_arena_array(job->arena, bool, job->n);
    if (job->holds == NULL)
        return orr_fail_memory(err);
    r->n_told = orr_arena_array(job->arena, size_t, job->n);
    if (r->n_told == NULL)
        return orr_fail_memory(err);
    memset(r->n_told, 0, job->n * sizeof *r->n_told);
    if (c->me == 0 && r->told != NULL)
        job->told = tell;
    ORR_TRY(orr_generator_answer(g, job, &r->times, err));
    ORR_TRY(gather_bytes(r, g, err));
    if (g->parallel->rebalancer != NULL)
        ORR_TRY(gather_pause(r, g, err));
    ORR_TRY(gather_answers(r, c, err));
    for (uint32_t p = 0; p < job->n && job->told != NULL; p++)
        (void)tell(r, p, 0);
    if (g->routes != NULL && r->ranks->expert_trace != NULL)
        ORR_TRY(orr_generator_gather_routes(g, r->ranks->expert_trace, err));
    return gather_times(r, c, err);
}

int orr_generator_rank_threads(int asked, uint32_t ranks)
{
    const int each = orr_core_count() / (int)ranks;
    return asked > 0 ? asked : each > 1 ? each : 1;
}

static orr_status run_rank(void *ctx, orr_transport *transport, orr_error *err)
{
    rank_job *r = ctx;
    orr_generator_options options = *r->options;
    const orr_generator_ranks *ranks = r->ranks;
    const orr_rebalance_options rebalance = {.every = ranks->rebalance,
                                             .step_bytes = ranks->move_bytes,
                                             .tolerance = ranks->tolerance,
                                             .policy = ranks->policy};
    const orr_generator_rank rank = {.transport = transport,
                                     .placement = r->placement,
                                     .groups = r->groups,
                                     .n_groups = r->n_groups,
                                     .rebalance = ranks->rebalance > 0 ? &rebalance : NULL};
    orr_generator *g = NULL;
    options.threads = orr_generator_rank_threads(options.threads, transport->ranks);
    ORR_TRY(orr_generator_open_rank(&options, &rank, &g, err));
    const orr_status status = answer_and_gather(r, g, err);
    orr_generator_close(g);
    return status;
}

orr_status orr_generate_over_ranks(const orr_generator_options *options,
                                   const orr_generator_ranks *ranks, const orr_prompt *prompts,
                                   uint32_t n, const orr_sampling *sampling,
                                   bool (*told)(void *ctx, uint32_t prompt, int32_t token),
                                   void *ctx, orr_arena *arena, orr_generated *ret,
                                   orr_generation_times *ret_times, orr_generated_bytes *ret_bytes,
                                   orr_error *err)
{
    orr_expert_placement placement;
    ORR_TRY(orr_generator_place(options->model, ranks, arena, &placement, err));
    rank_job r = {
        .options = options,
        .ranks = ranks,
        .placement = &placement,
        .bytes = ret_bytes,
        .job = {.prompts = prompts, .n = n, .sampling = sampling, .arena = arena, .ret = ret},
        .told = told,
        .told_ctx = ctx};
    r.job.ctx = &r;
    if (ranks->routes != NULL)
        ORR_TRY(fit_groups(&r, err));
    ORR_TRY(
        orr_ranks_run(ranks->ranks, (orr_ranks_kind)ranks->kind, DEADLINE_NS, run_rank, &r, err));
    if (ret_times != NULL)
        *ret_times = r.times;
    return ORR_OK;
}
