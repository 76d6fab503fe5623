/* SPDX-License-Identifier: Apache-2.0 */
#include "failing.h"
#include "leaks.h"

#include <stdio.h>
#include <string.h>

#include "engine/checkpoint/shard_text.h"
#include "experts/placement/build.h"
#include "experts/placement/file.h"

/* Placements read, written, evaluated and moved to, with every allocation failing in turn. */

enum { SMALLEST_BLOCK = 64, LAYERS = 2, EXPERTS = 6, RANKS = 4, SLOTS = 2 };

/* Expert (slot + turn) mod E in each slot of each layer. */
static orr_status make(uint32_t turn, orr_arena *arena, orr_expert_placement *ret, orr_error *err)
{
    const orr_expert_placement like = {
        .layers = LAYERS, .experts = EXPERTS, .ranks = RANKS, .host_ranks = 2};
    const uint32_t slots[RANKS] = {SLOTS, SLOTS, SLOTS, SLOTS};
    orr_placement_draft draft;
    ORR_TRY(orr_placement_draft_new(&like, slots, false, arena, &draft, err));
    for (uint32_t s = 0; s < LAYERS * RANKS * SLOTS; s++)
        draft.expert[s] = (uint16_t)((s + turn) % EXPERTS);
    orr_placement_even_shares(&draft);
    *ret = draft.placement;
    return ORR_OK;
}

static orr_status write_and_read(orr_placement_format format, orr_error *err)
{
    const char *path = inside("placement");
    orr_arena *arena = orr_arena_new(SMALLEST_BLOCK, 0);
    orr_expert_placement p, read;
    orr_status status = arena != NULL ? ORR_OK : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, make(0, arena, &p, err));
    ORR_TRY_OUT(status, orr_expert_placement_write(&p, format, path, err));
    status = orr_expert_placement_read(path, RANKS, 2, arena, &read, err);
    if (status == ORR_OK)
        status = orr_expert_placement_layers(&read, read.number, LAYERS, arena, &p, err);
out:
    remove(path);
    orr_arena_free(arena);
    return status;
}

static orr_status yaml(orr_error *err)
{
    return write_and_read(ORR_PLACEMENT_FORMAT_YAML, err);
}

static orr_status sglang(orr_error *err)
{
    return write_and_read(ORR_PLACEMENT_FORMAT_SGLANG, err);
}

static orr_status vllm(orr_error *err)
{
    return write_and_read(ORR_PLACEMENT_FORMAT_VLLM, err);
}

/* Two placements and loads that suit neither. */
typedef struct world {
    orr_arena *arena;
    orr_expert_placement running, fresh;
    const orr_routes *routes;
    orr_expert_windows windows;
    orr_expert_costs costs;
    orr_expert_options options;
} world;

static orr_status open_world(world *w, orr_error *err)
{
    const orr_routes_drawn how = {.layers = LAYERS,
                                  .experts = EXPERTS,
                                  .top_k = 2,
                                  .requests = 6,
                                  .prompt = 5,
                                  .decoded = 5,
                                  .kinds = 2,
                                  .affinity = 0.5,
                                  .skew = 1};
    *w = (world){.arena = orr_arena_new(SMALLEST_BLOCK, 0)};
    if (w->arena == NULL)
        return orr_fail_memory(err);
    ORR_TRY(make(0, w->arena, &w->running, err));
    ORR_TRY(make(3, w->arena, &w->fresh, err));
    ORR_TRY(orr_routes_draw(&how, w->arena, &w->routes, err));
    ORR_TRY(orr_expert_windows_of_routes(w->routes, 2, w->arena, &w->windows, err));
    w->running.number = w->fresh.number = w->routes->number;
    w->costs = (orr_expert_costs){.host_bytes_per_s = 4e11,
                                  .network_bytes_per_s = 5e10,
                                  .row_ns = 100,
                                  .dispatch_bytes = 7168,
                                  .combine_bytes = 14336,
                                  .expert_bytes = 1e6,
                                  .tokens = 4096};
    orr_expert_options_init(&w->options);
    w->options.routes = w->routes;
    w->options.costs = &w->costs;
    return ORR_OK;
}

static orr_status moved(orr_error *err)
{
    world w;
    orr_expert_moves moves;
    orr_expert_placement after;
    orr_expert_drift drift;
    orr_status status = open_world(&w, err);
    if (status == ORR_OK)
        status = orr_expert_moves_plan(&w.running, &w.fresh, NULL, w.arena, &moves, err);
    if (status == ORR_OK)
        status = orr_expert_moves_apply(&w.running, &moves, moves.n, w.arena, &after, err);
    if (status == ORR_OK)
        status = orr_experts_drift(&after, &w.windows, &w.windows, w.arena, &drift, err);
    orr_arena_free(w.arena);
    return status;
}

static orr_status evaluated(orr_error *err)
{
    world w;
    uint64_t sent[RANKS * RANKS], rows[RANKS];
    const uint32_t rank_of_request[6] = {0, 1, 2, 3, 0, 1};
    orr_expert_quality quality;
    orr_status status = open_world(&w, err);
    if (status == ORR_OK)
        status = orr_experts_count_traffic(&w.running, w.routes, 1, rank_of_request, false,
                                           &(orr_expert_traffic){.sent = sent, .rows = rows}, err);
    if (status == ORR_OK)
        status = orr_experts_evaluate(&w.running, &w.options, w.arena, &quality, err);
    orr_arena_free(w.arena);
    return status;
}

static orr_status approached(orr_error *err)
{
    world w;
    orr_expert_approach result;
    orr_status status = open_world(&w, err);
    if (status == ORR_OK)
        status =
            orr_experts_approach(&w.running, &w.fresh, &w.options, 0.01, w.arena, &result, err);
    orr_arena_free(w.arena);
    return status;
}

/* A step whose experts stand by a placement, measured. */
static orr_status trained(orr_error *err)
{
    enum { HALF = 3, TRAINED_RANKS = 2 };
    const orr_expert_placement like = {
        .layers = 1, .experts = EXPERTS, .ranks = TRAINED_RANKS, .host_ranks = TRAINED_RANKS};
    const uint32_t slots[TRAINED_RANKS] = {HALF, HALF};
    const orr_model model = {.name = "small",
                             .kind = ORR_MODEL_TRANSFORMER,
                             .layers = 1,
                             .hidden = 8,
                             .heads = 2,
                             .kv_heads = 2,
                             .head_dim = 4,
                             .vocab = 16,
                             .rope_theta = 1e4,
                             .position = ORR_POSITION_ROTARY,
                             .norm_epsilon = 1e-5,
                             .final_norm = true,
                             .moe = {.experts = EXPERTS, .top_k = 2, .expert_ffn = 8, .every = 1},
                             .source = "small"};
    const orr_plan asked = {.dp = TRAINED_RANKS,
                            .ep = TRAINED_RANKS,
                            .seq = 4,
                            .micro_batch = 1,
                            .precision = ORR_PRECISION_FP32};
    const orr_plan plan = orr_plan_with_defaults(&asked);
    orr_arena *arena = orr_arena_new(SMALLEST_BLOCK, 0);
    orr_transport silent = *orr_transport_self();
    orr_workload workload = {.task = ORR_TASK_PRETRAIN};
    orr_step_source source = {
        .model = &model, .plan = &plan, .workload = &workload, .transport = &silent};
    orr_placement_draft draft;
    orr_step_memory memory;
    orr_status status = arena != NULL ? ORR_OK : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, orr_placement_draft_new(&like, slots, false, arena, &draft, err));
    for (uint32_t e = 0; e < EXPERTS; e++)
        draft.expert[e] = (uint16_t)(EXPERTS - 1 - e);
    orr_placement_even_shares(&draft);
    draft.placement.number = &(const uint32_t){0};
    draft.placement.source = "reversed";
    workload.placement = &draft.placement;
    silent.ranks = TRAINED_RANKS;
    ORR_TRY_OUT(status, orr_backend_cpu(&source.backend, err));
    status = orr_engine_step_measure(&source, &memory, err);
out:
    orr_arena_free(arena);
    return status;
}

/* The text of a shard of experts, written and read. */
static orr_status shard(orr_error *err)
{
    const uint32_t rows[] = {5, 0, 2};
    const orr_type whole = {.rank = 2, .dim = {EXPERTS, 4}};
    orr_parameter p = {.type = whole, .shard_n = 12, .own = {.whole = whole, .rows = rows}};
    orr_arena *arena = orr_arena_new(SMALLEST_BLOCK, 0);
    orr_shard_part part;
    p.type.dim[0] = 3;
    p.own.by[0] = p.own.by[1] = (orr_dim_pieces){.n = 1, .piece = {{.count = 3}}};
    const char *text = arena != NULL ? orr_shard_text(&p, arena) : NULL;
    orr_status status = text != NULL ? ORR_OK : orr_fail_memory(err);
    if (status == ORR_OK)
        status = orr_shard_text_read(text, "shard", arena, &part, err);
    orr_arena_free(arena);
    return status;
}

TEST_OF(trained)
TEST_OF(shard)
TEST_OF(yaml)
TEST_OF(sglang)
TEST_OF(vllm)
TEST_OF(moved)
TEST_OF(evaluated)
TEST_OF(approached)

int main(int argc, char **argv)
{
    (void)argc;
    restart_without_caches(argv);
    const struct CMUnitTest tests[] = {
        TEST(yaml),      TEST(sglang),     TEST(vllm),    TEST(moved),
        TEST(evaluated), TEST(approached), TEST(trained), TEST(shard),
    };
    return cmocka_run_group_tests_name("no_memory_placements", tests, make_folder, remove_folder);
}
