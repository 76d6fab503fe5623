/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the programs of a generator from its modules, and caches them by shape. */
#include "engine/generate/generator.h"

#include <string.h>

#include "op/tape/tape.h"

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

/* The tape being written, from those of modules. */
typedef struct writer {
    orr_generator *g;
    orr_cached_program *to;
    orr_backbone *backbone; /* NULL: an LM head */
    orr_value *map;         /* values of the tape for the module's */
    orr_value last;         /* output of the previous place */
    orr_value pictures;     /* output of the vision encoder; ORR_NONE */
    uint32_t place;
    orr_error *err;
} writer;

static orr_status new_value(writer *w, const orr_tape_value *like, orr_value *ret)
{
    ORR_TRY(orr_tape_value_new(&w->to->tape, (orr_value_role)like->role, &like->type, like->name,
                               ret, w->err));
    return orr_array_push(&w->to->bindings, (orr_binding){0}) ? ORR_OK : orr_fail_memory(w->err);
}

static bool named(const orr_tape_value *value, const char *name)
{
    return strcmp(value->name, name) == 0;
}

/* Places an input: a buffer that is fed, or another module's output. */
static orr_status place_input(writer *w, const orr_tape_value *value, orr_value *here)
{
    orr_backbone *backbone = w->backbone;
    if (backbone == NULL)
        return orr_fail(w->err, ORR_UNSUPPORTED, "serving: nobody gives '%s' to the head",
                        value->name);
    if (named(value, "tokens"))
        backbone->ids = *here;
    else if (named(value, "positions"))
        backbone->positions = *here;
    else if (named(value, "pixels"))
        backbone->pixels = *here;
    else if (named(value, "pictures") && w->pictures != ORR_NONE)
        *here = w->pictures;
    else if (named(value, "key cache") || named(value, "value cache")) {
        const orr_kv_cache_value cache = {
            .place = w->place, .value = *here, .values = named(value, "value cache")};
        return orr_array_push(&backbone->caches, cache) ? ORR_OK : orr_fail_memory(w->err);
    } else
        return orr_fail(w->err, ORR_UNSUPPORTED, "serving: nobody gives '%s'", value->name);
    return ORR_OK;
}

static uint32_t nth_of_name(const orr_tape *tape, orr_value value)
{
    uint32_t n = 0;
    for (orr_value v = 0; v < value; v++)
        n += tape->values[v].role == ORR_VALUE_PARAMETER &&
             named(&tape->values[v], tape->values[value].name);
    return n;
}

static orr_status place_parameter(writer *w, const orr_tape *from, orr_value value, orr_value here)
{
    const char *name = from->values[value].name;
    const orr_binding *weight =
        orr_generator_weight(w->g, w->place, name, nth_of_name(from, value));
    if (weight == NULL)
        return orr_fail(w->err, ORR_INVALID, "serving: no weights for %s", name);
    w->to->bindings.at[here] = *weight;
    return ORR_OK;
}

/* Copies every value of the module to the tape; its input is the previous output. */
static orr_status copy_values(writer *w, const orr_module *module)
{
    const orr_tape *from = module->tape;
    for (orr_value v = 0; v < from->n_values; v++) {
        const orr_tape_value *value = &from->values[v];
        if (v == module->in && w->last != ORR_NONE) {
            w->map[v] = w->last;
            continue;
        }
        ORR_TRY(new_value(w, value, &w->map[v]));
        if (value->role == ORR_VALUE_INPUT && v != module->in)
            ORR_TRY(place_input(w, value, &w->map[v]));
        else if (value->role == ORR_VALUE_PARAMETER)
            ORR_TRY(place_parameter(w, from, v, w->map[v]));
    }
    return ORR_OK;
}

/* The choice of experts is read after the run, so it gets bytes of its own. */
static orr_status note_choice(writer *w, orr_value indices)
{
    const size_t bytes = (size_t)orr_type_bytes(&w->to->tape.values[indices].type);
    const orr_expert_choice choice = {
        .place = w->place, .indices = indices, .data = orr_arena_alloc(w->to->arena, bytes, 1, 64)};
    if (choice.data == NULL || !orr_array_push(&w->backbone->choices, choice))
        return orr_fail_memory(w->err);
    w->to->bindings.at[indices].data = choice.data;
    return ORR_OK;
}

/* Weights bound as rows are those of a product (K, N), however the module's tape has them. */
static void use_row_weights(writer *w, orr_tape_call *call)
{
    if (call->op != ORR_OP_MATMUL || !call->args.transpose_b ||
        w->to->bindings.at[call->in[1]].rows == NULL)
        return;
    orr_type *type = &w->to->tape.values[call->in[1]].type;
    const int64_t n = type->dim[0];
    type->dim[0] = type->dim[1];
    type->dim[1] = n;
    call->args.transpose_b = false;
}

static orr_status copy_calls(writer *w, const orr_module *module)
{
    orr_tape *to = &w->to->tape;
    ORR_TRY(orr_tape_reserve(to, 0, module->tape->n_calls, w->err));
    for (uint32_t c = 0; c < module->tape->n_calls; c++) {
        orr_tape_call *call = &to->calls[to->n_calls];
        *call = module->tape->calls[c];
        for (uint32_t i = 0; i < call->n_in; i++)
            call->in[i] = w->map[call->in[i]];
        for (uint32_t i = 0; i < call->n_out; i++)
            call->out[i] = w->map[call->out[i]];
        use_row_weights(w, call);
        orr_tape_commit_call(to);
        if (call->op == ORR_OP_TOP_K && w->backbone != NULL && w->g->options.record_experts)
            ORR_TRY(note_choice(w, call->out[1]));
    }
    return ORR_OK;
}

static orr_status copy_module(writer *w, const orr_module *module)
{
    w->map = orr_arena_array(w->to->arena, orr_value, module->tape->n_values);
    if (w->map == NULL)
        return orr_fail_memory(w->err);
    ORR_TRY(copy_values(w, module));
    ORR_TRY(copy_calls(w, module));
    if (module->out != ORR_NONE)
        w->last = w->map[module->out];
    return ORR_OK;
}

static orr_status begin(orr_cached_program *served, orr_error *err)
{
    *served = (orr_cached_program){.arena = orr_arena_new(0, 0)};
    if (served->arena == NULL)
        return orr_fail_memory(err);
    orr_tape_init(&served->tape, served->arena);
    return ORR_OK;
}

static orr_status finish(orr_generator *g, orr_cached_program *served, orr_error *err)
{
    const orr_program_source source = {.tape = &served->tape,
                                       .bindings = served->bindings.at,
                                       .backend = g->backend,
                                       .workers = g->workers};
    return orr_program_make(&source, &served->program, err);
}

static void release(orr_cached_program *served)
{
    orr_program_free(served->program);
    orr_array_done(&served->bindings);
    orr_arena_free(served->arena);
    *served = (orr_cached_program){0};
}

void orr_backbone_free(orr_backbone *backbone)
{
    orr_array_done(&backbone->caches);
    orr_array_done(&backbone->choices);
    release(&backbone->served);
}

void orr_lm_head_free(orr_lm_head *head)
{
    release(&head->served);
}

/* All modules before the head. The vision encoder's output waits for the embedding. */
static orr_status write_backbone(orr_generator *g, orr_backbone *backbone, orr_error *err)
{
    writer w = {.g = g,
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
        ORR_TRY(copy_module(&w, module));
    }
    backbone->out = w.last;
    backbone->served.bindings.at[backbone->out].data = g->hidden;
    return finish(g, &backbone->served, err);
}

/* Rows of the head are samples of one token. Logits are fp32, which products can output. */
static orr_status write_head(orr_generator *g, orr_lm_head *head, orr_error *err)
{
    writer w = {.g = g, .to = &head->served, .last = ORR_NONE, .pictures = ORR_NONE, .err = err};
    orr_module_sequence row;
    ORR_TRY(orr_generator_modules(g, head->rows, 1, 0, head->served.arena, &row, err));
    const orr_module *module = &row.modules[row.module_of[row.n - 1]];
    w.place = g->n_places - 1;
    if (module->kind != ORR_MODULE_HEAD)
        return orr_fail(err, ORR_UNSUPPORTED, "serving: %s has no head", g->model.name);
    ORR_TRY(copy_module(&w, module));
    head->in = w.map[module->in];
    head->out = w.last;
    orr_tape *tape = &head->served.tape;
    if (tape->calls[tape->values[head->out].made_by].op == ORR_OP_MATMUL)
        tape->values[head->out].type.dtype = ORR_DTYPE_FP32;
    head->served.bindings.at[head->in].data = g->hidden;
    return finish(g, &head->served, err);
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
    orr_backbone_free(oldest);
    *oldest = (orr_backbone){.samples = samples,
                             .tokens = tokens,
                             .tiles = tiles,
                             .ids = ORR_NONE,
                             .positions = ORR_NONE,
                             .pixels = ORR_NONE};
    orr_status status = begin(&oldest->served, err);
    if (status == ORR_OK)
        status = write_backbone(g, oldest, err);
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
    orr_lm_head_free(oldest);
    oldest->rows = rows;
    orr_status status = begin(&oldest->served, err);
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
