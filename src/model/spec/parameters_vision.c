/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters and FLOPs of the vision encoders of Llama 4 (meta-llama/llama-models,
 * models/llama4/vision) and of Llama 3.2 (transformers, models/mllama/modeling_mllama.py). D:
 * hidden size, F columns of the MLP, P patches. */
#include "model/spec/parameters.h"

enum { COLOURS = 3 };

static int64_t patches_of_tile(const orr_vision *v)
{
    const int64_t side = v->image / v->patch;
    return side * side + v->class_token;
}

static int64_t patch_columns(const orr_vision *v)
{
    return COLOURS * (int64_t)v->patch * v->patch;
}

static int64_t layer_multiplied(const orr_vision *v)
{
    const int64_t D = v->hidden;
    return orr_saturating_add(orr_saturating_mul(4, D * D),
                              orr_saturating_mul(2, D * (int64_t)v->ffn));
}

static int64_t layer(const orr_vision *v)
{
    const int64_t D = v->hidden, norms = 4 * D, mlp_biases = D + v->ffn;
    return orr_saturating_add(layer_multiplied(v), norms + mlp_biases + (v->biases ? 4 * D : 0));
}

/* Position embeddings: of a patch within its tile; and, by aspect ratio, of a patch in the
 * image, of the tile before the layers, and of the tile after them. The last three have a gate
 * each. */
static int64_t positions(const orr_vision *v)
{
    const int64_t D = v->hidden, P = patches_of_tile(v);
    int64_t n = orr_saturating_mul(P, D);
    if (v->aspect_ratios > 0) {
        const int64_t tiles = orr_saturating_mul(v->aspect_ratios, v->tiles);
        const int64_t of_patches = orr_saturating_mul(orr_saturating_mul(tiles, P), D),
                      of_tiles = orr_saturating_mul(tiles, D);
        n = orr_saturating_add(n, orr_saturating_add(of_patches, orr_saturating_mul(2, of_tiles)));
        n = orr_saturating_add(n, 3);
    }
    return n;
}

/* Parameters in the adapter's products: an MLP over the encoder's output, then a projection; or
 * the projection alone, with biases. */
static int64_t adapter_multiplied(const orr_vision *v)
{
    const int64_t F = v->adapter_ffn;
    return F > 0 ? orr_saturating_add(orr_saturating_mul(v->adapter_in, F),
                                      orr_saturating_mul(F, v->output))
                 : 0;
}
static int64_t projector_multiplied(const orr_model *model)
{
    return orr_saturating_mul(model->vision.output, model->hidden);
}

int64_t orr_parameter_count_vision(const orr_model *model)
{
    const orr_vision *v = &model->vision;
    if (v->layers == 0 || v->parameters > 0)
        return v->parameters;
    const int64_t layers = (int64_t)v->layers + v->global_layers;
    int64_t n = orr_saturating_mul(patch_columns(v), v->hidden);
    n = orr_saturating_add(n, v->class_token ? v->hidden : 0);
    n = orr_saturating_add(n, positions(v));
    n = orr_saturating_add(n, 4 * (int64_t)v->hidden); /* norms before and after the layers */
    n = orr_saturating_add(n, orr_saturating_mul(layers, layer(v)));
    n = orr_saturating_add(n, v->gated_global ? 2 * (int64_t)v->global_layers : 0);
    n = orr_saturating_add(n, adapter_multiplied(v));
    n = orr_saturating_add(n, projector_multiplied(model));
    return orr_saturating_add(n, v->adapter_ffn == 0 ? model->hidden : 0);
}

double orr_model_image_flops(const orr_model *model)
{
    const orr_vision *v = &model->vision;
    if (v->layers == 0 || model->incomplete)
        return 0;
    const double patches = (double)patches_of_tile(v), tiles = v->tiles;
    const double layers = (double)v->layers + v->global_layers, D = v->hidden;
    /* Llama 4 encodes each tile by itself; with embeddings of tile positions all tiles attend to
     * each other. */
    const double seen = v->aspect_ratios > 0 ? patches * tiles : patches;
    const double of_patch =
        (double)patch_columns(v) * D + layers * ((double)layer_multiplied(v) + 2 * seen * D);
    const double of_token = (double)adapter_multiplied(v) + (double)projector_multiplied(model);
    const double tokens = v->tokens > 0 ? v->tokens : patches;
    return 2 * tiles * (patches * of_patch + tokens * of_token);
}
