/* SPDX-License-Identifier: Apache-2.0 */
/* Vision encoders. Llama 4's (meta-llama/llama-models, models/llama4/vision) encodes each tile
 * by itself and joins four patches to a token; Llama 3.2's (transformers, models/mllama) attends
 * over all tiles of an image. Their modules stand before the embedding: patches, layers, and the
 * adapter into the model. Letters: N sequences, P patches of one, Dv columns of the encoder. */
#include "model/arch/transformer.h"

#include <math.h>

enum { COLOURS = 3 };

typedef struct pictures {
    int64_t sequences;      /* N: tiles, or images */
    int64_t tiles, patches; /* of a sequence; of a tile */
} pictures;

static pictures pictures_of(const orr_job_shape *job)
{
    const orr_vision *v = &job->model->vision;
    const int64_t images = job->samples * orr_images_of(job), side = v->image / v->patch;
    const bool together = v->aspect_ratios > 0;
    return (pictures){.sequences = together ? images : images * v->tiles,
                      .tiles = together ? v->tiles : 1,
                      .patches = side * side + v->class_token};
}

/* Without images cross-attention layers are left out. */
uint32_t orr_images_of(const orr_job_shape *job)
{
    const uint32_t images = job->workload->images;
    return images == 0 && job->model->cross_layers > 0 ? 1 : images;
}

/* The encoder as a model of its own, so that its layers are built by the same code as the
 * model's. Every tensor-parallel rank has all images; where heads do not divide, the ranks
 * compute the same. */
orr_status orr_vision_job_of(const orr_job_shape *job, orr_arena *arena, const orr_job_shape **ret,
                             orr_error *err)
{
    const orr_vision *v = &job->model->vision;
    orr_job_shape *inner = orr_arena_one(arena, orr_job_shape);
    orr_model *model = orr_arena_one(arena, orr_model);
    if (inner == NULL || model == NULL)
        return orr_fail_memory(err);
    const pictures p = pictures_of(job);
    *model = *job->model;
    model->hidden = v->hidden;
    model->ffn = v->ffn;
    model->heads = model->kv_heads = v->heads;
    model->head_dim = v->heads > 0 ? v->hidden / v->heads : 0;
    model->norm = ORR_NORM_LAYER;
    model->activation = ORR_ACTIVATION_GELU;
    model->position = v->aspect_ratios > 0 ? ORR_POSITION_LEARNED : ORR_POSITION_ROTARY;
    model->rope_theta = 1e4;
    model->rope_factor = 0;
    model->rope_interleaved = true;
    model->norm_bias = model->mlp_bias = true;
    model->qkv_bias = model->output_bias = v->biases;
    model->qk_norm = 0;
    model->parallel_residual = model->sinks = false;
    *inner = *job;
    inner->model = model;
    inner->outer = job;
    inner->samples = p.sequences;
    inner->tokens = inner->keys = p.tiles * p.patches;
    inner->sequence = inner->dropout = false;
    inner->how.members[ORR_AXIS_CP] = 1;
    inner->how.ring = 0;
    if (v->heads % inner->how.members[ORR_AXIS_TP] != 0)
        inner->how.members[ORR_AXIS_TP] = 1;
    *ret = inner;
    return ORR_OK;
}

static orr_value stream(orr_draft *draft)
{
    const orr_job_shape *job = draft->job;
    const orr_layout whole = {0};
    return orr_draft_input(draft, job->stream,
                           ORR_DIMS(job->samples, job->tokens, job->model->hidden), &whole,
                           "patches");
}

static orr_value weight(orr_draft *draft, orr_dims dims, const char *name)
{
    return orr_draft_weight(draft, dims, 0, ORR_AXIS_NONE, name);
}

/* Adds the class token before the patches of each tile (Llama 3.2), or after them (Llama 4). */
static orr_value with_class_token(orr_draft *draft, orr_value x, int64_t tiles, int64_t width)
{
    const orr_op_args each = {.dim = 0, .count = tiles}, join = {.dim = 1};
    const orr_value token = ORR_CALL(draft, EXPAND, &each, "class token",
                                     weight(draft, ORR_DIMS(width), "class token"));
    const orr_value one = orr_write_view(draft, token, ORR_DIMS(tiles, 1, width));
    return draft->job->model->vision.aspect_ratios > 0
               ? ORR_CALL(draft, CONCAT, &join, "class token", one, x)
               : ORR_CALL(draft, CONCAT, &join, "class token", x, one);
}

/* Embedding by the image's aspect ratio, `each` x Dv numbers, times a gate. */
static orr_value by_aspect(orr_draft *draft, orr_value x, int64_t each, const char *name)
{
    const orr_job_shape *job = draft->job;
    const orr_vision *v = &job->model->vision;
    const int64_t width = job->model->hidden, tokens = job->tokens / each;
    const orr_layout whole = {0};
    const orr_value table = weight(draft, ORR_DIMS(v->aspect_ratios, each * width), name);
    const orr_value ids =
        orr_draft_input(draft, ORR_DTYPE_INT64, ORR_DIMS(job->samples), &whole, "aspect ratios");
    const orr_value row = ORR_CALL(draft, EMBEDDING, NULL, name, table, ids);
    orr_value all = orr_write_view(draft, row, ORR_DIMS(job->samples, each, width));
    if (tokens > 1) {
        const orr_op_args repeat = {.dim = 2, .count = tokens};
        all = orr_write_view(draft, ORR_CALL(draft, EXPAND, &repeat, name, all),
                             ORR_DIMS(job->samples, job->tokens, width));
    }
    return ORR_CALL(draft, ADD, NULL, name, x, orr_write_gate(draft, all, name));
}

/* Patch embedding: rows of pixels to columns; positions; a norm. */
void orr_write_vision_patches(orr_draft *draft)
{
    const orr_job_shape *job = draft->job;
    const orr_vision *v = &job->model->vision;
    const pictures p = pictures_of(job->outer);
    const int64_t tiles = p.sequences * p.tiles, plain = p.patches - v->class_token;
    const int64_t columns = COLOURS * (int64_t)v->patch * v->patch, width = job->model->hidden;
    const orr_layout whole = {0};
    orr_value x =
        orr_draft_input(draft, job->stream, ORR_DIMS(tiles, plain, columns), &whole, "pixels");
    x = orr_write_linear(draft, x, &(orr_linear){.name = "patches", .in = columns, .out = width});
    if (v->class_token)
        x = with_class_token(draft, x, tiles, width);
    x = ORR_CALL(draft, BIAS, NULL, "positions", x,
                 weight(draft, ORR_DIMS(p.patches, width), "positions"));
    x = orr_write_view(draft, x, ORR_DIMS(job->samples, job->tokens, width));
    if (v->aspect_ratios > 0) {
        x = by_aspect(draft, x, v->tiles, "tile positions");
        x = by_aspect(draft, x, job->tokens, "patch positions");
    }
    draft->out = orr_write_norm(draft, x, width, "norm");
}

/* Encoder layers attend to all patches; global ones have gates after attention and MLP. */
void orr_write_vision_layer(orr_draft *draft, bool global)
{
    const orr_layer_kind kind = {.gated = global && draft->job->model->vision.gated_global,
                                 .visibility = {.rotary = true, .all = true}};
    draft->in = stream(draft);
    draft->out = orr_write_body(draft, draft->in, &kind);
}

/* Pixel shuffle: neighbouring patches become one token with the columns of all. */
static orr_value joined(orr_draft *draft, orr_value x, int64_t *ret_tokens, int64_t *ret_width)
{
    const orr_job_shape *job = draft->job;
    const orr_vision *v = &job->model->vision;
    const int64_t n = job->samples, side = v->image / v->patch, width = job->model->hidden;
    const int64_t out = (int64_t)(sqrt(v->tokens) + 0.5), each = out > 0 ? side / out : 1;
    *ret_tokens = job->tokens;
    *ret_width = width;
    if (v->adapter_ffn == 0 || out * out != v->tokens || out * each != side)
        return x;
    if (v->class_token)
        x = ORR_CALL(draft, SLICE, (&(orr_op_args){.dim = 1, .count = side * side}), "patches", x);
    const orr_op_args swap = {.dim = 2, .to_dim = 3};
    x = orr_write_view(draft, x, ORR_DIMS(n, out, each, out, each * width));
    x = ORR_CALL(draft, TRANSPOSE, &swap, "shuffle", x);
    *ret_tokens = v->tokens;
    *ret_width = each * each * width;
    return orr_write_view(draft, x, ORR_DIMS(n, *ret_tokens, *ret_width));
}

static orr_value adapted(orr_draft *draft, orr_value x, int64_t in)
{
    const orr_vision *v = &draft->job->model->vision;
    const orr_layout whole = {0};
    x = orr_write_linear(
        draft, x,
        &(orr_linear){
            .name = "adapter", .in = in, .out = v->adapter_ffn, .slicing = ORR_BY_COLUMN});
    x = ORR_CALL(draft, GELU, NULL, "gelu", x);
    x = orr_write_linear(
        draft, x,
        &(orr_linear){
            .name = "adapter", .in = v->adapter_ffn, .out = v->output, .slicing = ORR_BY_ROW});
    return ORR_CALL(draft, GELU, NULL, "gelu", orr_draft_set_layout(draft, x, &whole));
}

/* Concatenates the outputs of intermediate layers. */
static orr_value with_others(orr_draft *draft, orr_value x, int64_t *width)
{
    const orr_job_shape *job = draft->job;
    const orr_vision *v = &job->model->vision;
    const orr_layout whole = {0};
    if (v->intermediate == 0)
        return x;
    const orr_op_args join = {.dim = 2};
    const orr_value others = orr_draft_input(
        draft, job->stream, ORR_DIMS(job->samples, job->tokens, v->intermediate * *width), &whole,
        "intermediate");
    *width *= v->intermediate + 1;
    return ORR_CALL(draft, CONCAT, &join, "intermediate", x, others);
}

/* Norm, adapter, and projection to the model's width. */
void orr_write_vision_output(orr_draft *draft)
{
    const orr_job_shape *job = draft->job;
    const orr_vision *v = &job->model->vision;
    int64_t tokens, width;
    draft->in = stream(draft);
    orr_value x = orr_write_norm(draft, draft->in, job->model->hidden, "norm");
    if (v->aspect_ratios > 0)
        x = by_aspect(draft, x, v->tiles, "tile positions");
    x = joined(draft, x, &tokens, &width);
    if (v->adapter_ffn > 0) {
        x = adapted(draft, x, width);
        width = v->output;
    } else {
        x = with_others(draft, x, &width);
    }
    draft->out = orr_write_linear(draft, x,
                                  &(orr_linear){.name = "projector",
                                                .in = width,
                                                .out = job->outer->model->hidden,
                                                .bias = v->adapter_ffn == 0});
}
