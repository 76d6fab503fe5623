/* SPDX-License-Identifier: Apache-2.0 */
#include "model/module/module.h"

#include <string.h>

#include "model/experts/skew.h"
#include "model/module/lower.h"
#include "model/arch/dlrm.h"
#include "model/arch/transformer.h"

/* Builds the module sequence of a model. Each place of the sequence has a spec; places with
 * equal specs share one module. */
typedef struct spec {
    uint8_t kind; /* orr_module_kind */
    uint8_t part; /* part of a vision encoder */
    uint8_t skew; /* of its experts: index + 1 of orr_layer_skews; 0: even */
    orr_layer_kind layer;
} spec;
enum { PATCHES, LOCAL, GLOBAL, OUTPUT };

/* A kind of layer with experts may come in two visibilities, each with all skews. */
enum { KINDS_MAX = 24 + 2 * ORR_LAYER_SKEWS_MAX, EVEN_MAX = 16 };
typedef struct row_builder {
    const orr_job_shape *job, *vision;
    orr_arena *arena;
    spec specs[KINDS_MAX];
    uint8_t plain[KINDS_MAX], again[KINDS_MAX]; /* by spec: its module, and its recomputed form */
    orr_module *modules;                        /* shape (2 x KINDS_MAX) */
    uint32_t n_specs, n_modules, n_places;
    orr_layer_skews skews;
    struct {
        spec of;
        orr_module module;
    } even[EVEN_MAX]; /* modules of even routing that skewed ones are made from */
    uint32_t n_even;
    uint8_t *module_of, *recomputed_of;
    orr_error *err;
} row_builder;

static const char *name_of(const spec *s)
{
    static const char *const of_vision[] = {[PATCHES] = "vision patches",
                                            [LOCAL] = "vision layer",
                                            [GLOBAL] = "global vision layer",
                                            [OUTPUT] = "vision output"};
    switch (s->kind) {
    case ORR_MODULE_VISION:
        return of_vision[s->part];
    case ORR_MODULE_EMBEDDING:
        return "embedding";
    case ORR_MODULE_MTP:
        return "multi-token prediction";
    case ORR_MODULE_HEAD:
        return "head";
    case ORR_MODULE_CROSS_LAYER:
        return "cross-attention layer";
    case ORR_MODULE_BODY:
        return "body";
    case ORR_MODULE_MOE_LAYER:
        return s->layer.visibility.chunked ? "chunked expert layer" : "expert layer";
    default:
        return s->layer.visibility.chunked ? "chunked layer" : "layer";
    }
}

static void write_vision(orr_draft *draft, const spec *s)
{
    switch (s->part) {
    case PATCHES:
        orr_write_vision_patches(draft);
        break;
    case OUTPUT:
        orr_write_vision_output(draft);
        break;
    default:
        orr_write_vision_layer(draft, s->part == GLOBAL);
        break;
    }
}

static void write_module(orr_draft *draft, const spec *s)
{
    draft->frozen = draft->job->workload->task == ORR_TASK_LORA;
    switch (s->kind) {
    case ORR_MODULE_EMBEDDING:
        orr_write_embedding(draft);
        break;
    case ORR_MODULE_MTP:
        orr_write_mtp(draft, &s->layer);
        break;
    case ORR_MODULE_HEAD:
        orr_write_head(draft);
        break;
    case ORR_MODULE_VISION:
        write_vision(draft, s);
        break;
    case ORR_MODULE_BODY:
        if (draft->job->model->kind == ORR_MODEL_DLRM)
            orr_write_dlrm(draft);
        else
            orr_write_resnet(draft);
        break;
    default:
        orr_write_layer(draft, &s->layer);
        break;
    }
}

static bool is_layer(uint8_t kind)
{
    return kind == ORR_MODULE_LAYER || kind == ORR_MODULE_MOE_LAYER ||
           kind == ORR_MODULE_CROSS_LAYER || kind == ORR_MODULE_MTP;
}

/* But for how uneven their routing is. */
static bool same_layers(const spec *a, const spec *b)
{
    return a->kind == b->kind && a->part == b->part && a->layer.moe == b->layer.moe &&
           a->layer.cross == b->layer.cross &&
           a->layer.visibility.chunked == b->layer.visibility.chunked &&
           a->layer.visibility.rotary == b->layer.visibility.rotary;
}

/* Lowers a spec as if its routing were even. The draft is written when it is first needed. */
static orr_status lower_spec(row_builder *b, const spec *s, orr_draft *draft, bool recomputed,
                             orr_module *ret)
{
    if (draft->job == NULL) {
        orr_draft_init(draft, s->kind == ORR_MODULE_VISION ? b->vision : b->job, b->arena, b->err);
        write_module(draft, s);
        ORR_TRY(draft->status);
    }
    *ret = (orr_module){.kind = s->kind, .name = name_of(s), .recomputed = recomputed};
    ORR_TRY(orr_module_lower(draft, b->arena, ret, b->err));
    if (s->kind == ORR_MODULE_BODY && b->job->model->kind == ORR_MODEL_DLRM && !b->job->real)
        ORR_TRY(orr_dlrm_tables_work(b->job, b->arena, &ret->tables, b->err));
    return ORR_OK;
}

/* The module of even routing that all layers of its kind are made from. */
static orr_status even_module(row_builder *b, const spec *s, orr_draft *draft, bool recomputed,
                              const orr_module **ret)
{
    uint32_t i = 0;
    while (i < b->n_even &&
           !(same_layers(&b->even[i].of, s) && b->even[i].module.recomputed == recomputed))
        i++;
    if (i == b->n_even) {
        if (i == EVEN_MAX)
            return orr_fail(b->err, ORR_LIMIT, "more than %d kinds of expert layers", EVEN_MAX);
        ORR_TRY(lower_spec(b, s, draft, recomputed, &b->even[i].module));
        b->even[b->n_even++].of = *s;
    }
    *ret = &b->even[i].module;
    return ORR_OK;
}

static orr_status add_module(row_builder *b, const spec *s, orr_draft *draft, bool recomputed,
                             uint8_t *ret)
{
    orr_module *module = &b->modules[b->n_modules];
    if (s->skew == 0) {
        ORR_TRY(lower_spec(b, s, draft, recomputed, module));
    } else {
        const orr_module *even;
        ORR_TRY(even_module(b, s, draft, recomputed, &even));
        ORR_TRY(orr_module_skew(even, &b->skews.skew[s->skew - 1], b->job->model->moe.experts,
                                b->arena, module, b->err));
    }
    *ret = (uint8_t)b->n_modules++;
    return ORR_OK;
}

/* Builds a spec's module, its recomputed form, or both, as places need them. */
static orr_status build_spec(row_builder *b, const spec *s)
{
    const uint8_t recompute = b->job->trained && is_layer(s->kind) ? b->job->plan->recompute
                                                                   : (uint8_t)ORR_RECOMPUTE_NONE;
    uint8_t *plain = &b->plain[b->n_specs], *again = &b->again[b->n_specs];
    orr_draft draft = {0};
    if (recompute != ORR_RECOMPUTE_FULL)
        ORR_TRY(add_module(b, s, &draft, false, plain));
    if (recompute == ORR_RECOMPUTE_FULL || recompute == ORR_RECOMPUTE_BLOCK)
        ORR_TRY(add_module(b, s, &draft, true, again));
    else
        *again = *plain;
    if (recompute == ORR_RECOMPUTE_FULL)
        *plain = *again;
    b->specs[b->n_specs++] = *s;
    return ORR_OK;
}

static orr_status add_place(row_builder *b, const spec *s)
{
    uint32_t i = b->n_specs;
    while (i-- > 0)
        if (same_layers(&b->specs[i], s) && b->specs[i].skew == s->skew)
            break;
    if (i == UINT32_MAX) {
        if (b->n_specs == KINDS_MAX)
            return orr_fail(b->err, ORR_LIMIT, "more than %d kinds of modules", KINDS_MAX);
        ORR_TRY(build_spec(b, s));
        i = b->n_specs - 1;
    }
    b->module_of[b->n_places] = b->plain[i];
    b->recomputed_of[b->n_places++] = b->again[i];
    return ORR_OK;
}

static spec layer_spec(const orr_model *m, uint32_t layer)
{
    const bool global = orr_model_layer_global(m, layer);
    spec s = {.kind = ORR_MODULE_LAYER};
    s.layer.moe = m->moe.experts > 0 && orr_model_layer_moe(m, layer);
    s.layer.cross = s.layer.gated = m->cross_layers > 0 && orr_model_layer_cross(m, layer);
    s.layer.visibility.chunked = m->chunk > 0 && !global;
    s.layer.visibility.rotary = m->global_every == 0 || m->sliding || !global;
    if (s.layer.cross)
        s.kind = ORR_MODULE_CROSS_LAYER;
    else if (s.layer.moe)
        s.kind = ORR_MODULE_MOE_LAYER;
    return s;
}

/* The vision encoder runs once, when a prompt arrives. */
static orr_status add_vision(row_builder *b)
{
    const orr_vision *v = &b->job->model->vision;
    if (v->layers == 0 || orr_images_of(b->job) == 0 || b->job->workload->task == ORR_TASK_DECODE)
        return ORR_OK;
    if (v->patch == 0 || v->heads == 0)
        return orr_fail(b->err, ORR_INVALID, "a vision encoder of no patches, or no heads");
    ORR_TRY(orr_vision_job_of(b->job, b->arena, &b->vision, b->err));
    ORR_TRY(add_place(b, &(spec){.kind = ORR_MODULE_VISION, .part = PATCHES}));
    for (uint32_t i = 0; i < v->layers + v->global_layers; i++)
        ORR_TRY(add_place(
            b, &(spec){.kind = ORR_MODULE_VISION, .part = i < v->layers ? LOCAL : GLOBAL}));
    return add_place(b, &(spec){.kind = ORR_MODULE_VISION, .part = OUTPUT});
}

static orr_status add_transformer(row_builder *b)
{
    const orr_model *m = b->job->model;
    uint32_t n = 0;
    uint8_t last = 0;
    ORR_TRY(add_vision(b));
    ORR_TRY(add_place(b, &(spec){.kind = ORR_MODULE_EMBEDDING}));
    for (uint32_t layer = 0; layer < m->layers; layer++) {
        spec s = layer_spec(m, layer);
        if (s.layer.moe && b->skews.n > 0)
            s.skew = last = b->skews.of_layer[n++];
        ORR_TRY(add_place(b, &s));
    }
    /* Prediction of further tokens routes as the last layer does. */
    for (uint32_t i = 0; i < m->mtp && b->job->trained; i++) {
        spec s = layer_spec(m, m->layers - 1);
        s.kind = ORR_MODULE_MTP;
        s.skew = s.layer.moe ? last : 0;
        ORR_TRY(add_place(b, &s));
    }
    return add_place(b, &(spec){.kind = ORR_MODULE_HEAD});
}

static orr_status check(const orr_model *m, const orr_plan *plan, orr_error *err)
{
    if (m->incomplete)
        return orr_fail(err, ORR_UNSUPPORTED, "the shape of %s is not published", m->name);
    if (m->kind != ORR_MODEL_TRANSFORMER && (plan->tp > 1 || plan->cp > 1 || plan->pp > 1))
        return orr_fail(err, ORR_UNSUPPORTED,
                        "%s: only replicas (dp) of a model without layers alike", m->name);
    return ORR_OK;
}

/* Bytes that a rank sends to the next stage: its slice of the activations. Where every slice
 * holds all of them, each rank sends its share and the next stage gathers them within its host
 * (Narayanan et al., SC21, section 4.1); that gather is not counted. */
static int64_t boundary(const orr_job_shape *job)
{
    const uint32_t *members = job->how.members;
    const int64_t slices = (int64_t)members[ORR_AXIS_CP] * members[ORR_AXIS_TP];
    const double bytes = (double)job->samples * (double)job->tokens * job->model->hidden *
                         orr_dtype_bytes(job->stream);
    return (int64_t)(bytes / (double)slices);
}

orr_status orr_modules_build(const orr_model *model, const orr_plan *plan,
                             const orr_workload *workload, orr_arena *arena,
                             orr_module_sequence *ret, orr_error *err)
{
    orr_job_shape job;
    ORR_TRY(check(model, plan, err));
    ORR_TRY(orr_job_shape_of(model, plan, workload, arena, &job, err));
    const size_t places =
        (size_t)model->layers + model->mtp + model->vision.layers + model->vision.global_layers + 4;
    row_builder b = {.job = &job, .arena = arena, .err = err};
    b.modules = orr_arena_array(arena, orr_module, 2 * KINDS_MAX);
    b.module_of = orr_arena_array(arena, uint8_t, places);
    b.recomputed_of = orr_arena_array(arena, uint8_t, places);
    if (b.modules == NULL || b.module_of == NULL || b.recomputed_of == NULL)
        return orr_fail_memory(err);
    if (!job.real)
        ORR_TRY(orr_layer_skews_of(model, plan, workload, arena, &b.skews, err));
    if (model->kind == ORR_MODEL_TRANSFORMER)
        ORR_TRY(add_transformer(&b));
    else
        ORR_TRY(add_place(&b, &(spec){.kind = ORR_MODULE_BODY}));
    *ret = (orr_module_sequence){.modules = b.modules,
                                 .n_modules = b.n_modules,
                                 .n = b.n_places,
                                 .module_of = b.module_of,
                                 .recomputed_of = b.recomputed_of,
                                 .boundary_bytes = boundary(&job),
                                 .imbalance = job.even_rows * b.skews.rows,
                                 .imbalance_worst = job.even_rows * b.skews.rows_worst,
                                 .expert_slots = b.skews.slots,
                                 .packed = {job.packed[0], job.packed[1]}};
    return ORR_OK;
}
