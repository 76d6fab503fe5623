/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the programs of a generator from its modules, and caches them by shape. */
#include "engine/generate/experts.h"
#include "engine/generate/writer.h"

orr_status orr_generator_modules(const orr_generator *g, int64_t samples, int64_t tokens,
                                 int64_t tiles, orr_arena *arena, orr_module_sequence *ret,
                                 orr_error *err)
{
    orr_model *model = orr_arena_one(arena, orr_model);
    orr_plan *plan = orr_arena_one(arena, orr_plan);
    orr_workload *workload = orr_arena_one(arena, orr_workload);
    if (model == NULL || plan == NULL || workload == NULL)
        return orr_fail_memory(err);
    *model = g->model;
    if (tiles > 0)
        model->vision.tiles = (uint32_t)tiles;
    *plan = g->plan;
    plan->micro_batch = (uint32_t)samples;
    *workload = (orr_workload){.task = ORR_TASK_PREFILL,
                               .prompt = (uint32_t)tokens,
                               .cache = (uint32_t)g->capacity,
                               .images = tiles > 0};
    return orr_modules_build(model, plan, workload, arena, ret, err);
}

void orr_backbone_free(orr_backbone *backbone)
{
    orr_array_done(&backbone->caches);
    orr_array_done(&backbone->choices);
    orr_array_done(&backbone->exchanges);
    orr_cached_program_free(&backbone->served);
}

void orr_lm_head_free(orr_lm_head *head)
{
    orr_cached_program_free(&head->served);
}

/* The exchanges of layers with experts alone, for a rank without tokens. */
static orr_status write_exchanges(orr_generator *g, orr_backbone *backbone, orr_error *err)
{
    orr_program_writer w = {.g = g, .to = &backbone->served, .backbone = backbone, .err = err};
    for (uint32_t layer = 0; layer < g->parallel->placement->layers; layer++) {
        w.place = g->parallel->place[layer];
        ORR_TRY(orr_expert_call_write(&w, NULL, NULL));
    }
    return orr_cached_program_finish(g, &backbone->served, err);
}

/* All modules before the head. The vision encoder's output waits for the embedding. */
static orr_status write_backbone(orr_generator *g, orr_backbone *backbone, orr_error *err)
{
    orr_program_writer w = {.g = g,
                            .to = &backbone->served,
                            .backbone = backbone,
                            .last = ORR_NONE,
                            .pictures = ORR_NONE,
                            .err = err};
    orr_module_sequence row;
    ORR_TRY(orr_generator_modules(g, backbone->samples, backbone->tokens, backbone->tiles,
                                  backbone->served.arena, &row, err));
    const uint32_t skipped =
        g->n_places - row.n; /* without images: after the vision encoder's places */
    for (uint32_t place = 0; place < row.n; place++) {
        const orr_module *module = &row.modules[row.module_of[place]];
        if (module->kind == ORR_MODULE_HEAD)
            continue;
        if (module->kind == ORR_MODULE_EMBEDDING) {
            w.pictures = w.last;
            w.last = ORR_NONE;
        }
        w.place = place + skipped;
        ORR_TRY(orr_writer_copy_module(&w, module));
    }
    backbone->out = w.last;
    backbone->served.bindings.at[backbone->out].data = g->hidden;
    return orr_cached_program_finish(g, &backbone->served, err);
}

/* Rows of the head are samples of one token. Logits are fp32, which products can output. */
static orr_status write_head(orr_generator *g, orr_lm_head *head, orr_error *err)
{
    orr_program_writer w = {
        .g = g, .to = &head->served, .last = ORR_NONE, .pictures = ORR_NONE, .err = err};
    orr_module_sequence row;
    ORR_TRY(orr_generator_modules(g, head->rows, 1, 0, head->served.arena, &row, err));
    const orr_module *module = &row.modules[row.module_of[row.n - 1]];
    w.place = g->n_places - 1;
    if (module->kind != ORR_MODULE_HEAD)
        return orr_fail(err, ORR_UNSUPPORTED, "serving: %s has no head", g->model.name);
    ORR_TRY(orr_writer_copy_module(&w, module));
    head->in = w.map[module->in];
    head->out = w.last;
    orr_tape *tape = &head->served.tape;
    if (tape->calls[tape->values[head->out].made_by].op == ORR_OP_MATMUL)
        tape->values[head->out].type.dtype = ORR_DTYPE_FP32;
    head->served.bindings.at[head->in].data = g->hidden;
    return orr_cached_program_finish(g, &head->served, err);
}

orr_status orr_generator_backbone(orr_generator *g, int64_t samples, int64_t tokens, int64_t tiles,
                                  orr_backbone **ret, orr_error *err)
{
    orr_backbone *oldest = &g->bodies[0];
    for (int i = 0; i < ORR_BACKBONES; i++) {
        orr_backbone *b = &g->bodies[i];
        if (b->served.program != NULL && b->samples == samples && b->tokens == tokens &&
            b->tiles == tiles) {
            b->served.used = ++g->clock;
            *ret = b;
            return ORR_OK;
        }
        if (b->served.used < oldest->served.used)
            oldest = b;
    }
    ORR_TRY(orr_cached_program_retire(g, &oldest->served, err));
    orr_backbone_free(oldest);
    *oldest = (orr_backbone){.samples = samples,
                             .tokens = tokens,
                             .tiles = tiles,
                             .ids = ORR_NONE,
                             .positions = ORR_NONE,
                             .pixels = ORR_NONE};
    orr_status status = orr_cached_program_begin(&oldest->served, err);
    if (status == ORR_OK)
        status = samples > 0 ? write_backbone(g, oldest, err) : write_exchanges(g, oldest, err);
    if (status != ORR_OK) {
        orr_backbone_free(oldest);
        return status;
    }
    oldest->served.used = ++g->clock;
    *ret = oldest;
    return ORR_OK;
}

orr_status orr_generator_lm_head(orr_generator *g, int64_t rows, orr_lm_head **ret, orr_error *err)
{
    orr_lm_head *oldest = &g->heads[0];
    for (int i = 0; i < ORR_LM_HEADS; i++) {
        orr_lm_head *h = &g->heads[i];
        if (h->served.program != NULL && h->rows == rows) {
            h->served.used = ++g->clock;
            *ret = h;
            return ORR_OK;
        }
        if (h->served.used < oldest->served.used)
            oldest = h;
    }
    ORR_TRY(orr_cached_program_retire(g, &oldest->served, err));
    oldest->rows = rows;
    orr_status status = orr_cached_program_begin(&oldest->served, err);
    if (status == ORR_OK)
        status = write_head(g, oldest, err);
    if (status != ORR_OK) {
        orr_lm_head_free(oldest);
        return status;
    }
    oldest->served.used = ++g->clock;
    *ret = oldest;
    return ORR_OK;
}
