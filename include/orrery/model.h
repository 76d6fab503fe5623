/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_H
#define ORR_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include <orrery/arena.h>
#include <orrery/dtype.h>
#include <orrery/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Models: what is trained or served. Read from YAML (the catalogue that is built in, or files of
 * the user) or from a Hugging Face config.json as it is.
 *
 * Frozen once read: any number of threads may share it. */
#define ORR_MODEL_KIND_MAP(X)                                                                      \
    X(TRANSFORMER, "transformer") X(DLRM, "dlrm") X(CONVOLUTIONAL, "convolutional")
typedef enum orr_model_kind {
#define ORR_MODEL_KIND_ENUM_(name, text) ORR_MODEL_##name,
    ORR_MODEL_KIND_MAP(ORR_MODEL_KIND_ENUM_)
#undef ORR_MODEL_KIND_ENUM_
} orr_model_kind;
typedef enum orr_norm_kind { ORR_NORM_RMS, ORR_NORM_LAYER } orr_norm_kind;
typedef enum orr_activation_kind {
    ORR_ACTIVATION_SWIGLU,
    ORR_ACTIVATION_GELU,
    ORR_ACTIVATION_RELU,
    ORR_ACTIVATION_GELU_TANH /* GPT-2's: src/op/families/activation.c */
} orr_activation_kind;
typedef enum orr_position_kind {
    ORR_POSITION_ROTARY,
    ORR_POSITION_LEARNED,
    ORR_POSITION_ALIBI,
    ORR_POSITION_NONE
} orr_position_kind;
typedef enum orr_router_kind { ORR_ROUTER_SOFTMAX, ORR_ROUTER_SIGMOID } orr_router_kind;

/* Experts of a mixture. `experts` 0: dense. */
typedef struct orr_moe {
    uint32_t experts, top_k;
    uint32_t expert_ffn;         /* width of one                                        */
    uint32_t shared, shared_ffn; /* experts that see every token; width of one          */
    bool shared_gate;            /* their output is weighed by a learned gate           */
    uint32_t first_dense, every; /* layer i has experts iff i >= first_dense and
                                  * (i + 1 - first_dense) % every == 0; every >= 1      */
    uint8_t router;              /* orr_router_kind                                     */
    bool router_bias;            /* correction bias per expert (DeepSeek-V3)            */
    bool biases;                 /* of router and experts (GPT-OSS)                      */
    bool scales_input;           /* the score weighs what goes into an expert (Llama 4)  */
    uint32_t groups, top_groups; /* experts are chosen in the best groups; 0: no groups */
} orr_moe;

/* Multi-head latent attention: widths. kv_rank 0: none. */
typedef struct orr_mla {
    uint32_t q_rank, kv_rank, nope_dim, rope_dim, value_dim;
} orr_mla;

/* Vision encoder and what leads from it into the model. layers 0: none. */
typedef struct orr_vision {
    uint32_t layers, global_layers, hidden, ffn, heads;
    uint32_t image, patch, tiles;     /* pixels a side; pixels a side of a patch; most tiles   */
    uint32_t tokens;                  /* that one tile gives to the model                       */
    uint32_t output;                  /* columns that come out                                  */
    uint32_t adapter_in, adapter_ffn; /* MLP behind it (Llama 4); 0: none                       */
    uint32_t aspect_ratios;           /* rows of tables of tile positions (Llama 3.2); 0: none  */
    bool biases, gated_global, class_token; /* biases: of attention; its MLP always has them */
    uint32_t intermediate; /* layers whose outputs are concatenated                  */
    int64_t parameters;    /* as published or read from a checkpoint; 0: from shapes */
} orr_vision;

/* Recommendation. tables 0: none. */
enum { ORR_MLP_LAYERS = 8, ORR_TABLES_MAX = 64 };
typedef struct orr_dlrm {
    uint32_t dense_features, dim; /* of the input; columns of every table                */
    uint32_t n_tables;
    int64_t rows[ORR_TABLES_MAX];
    uint32_t pooling[ORR_TABLES_MAX]; /* lookups a sample                                    */
    uint32_t n_bottom, n_top;
    uint32_t bottom[ORR_MLP_LAYERS], top[ORR_MLP_LAYERS]; /* widths of outputs                */
    uint32_t cross_layers, cross_rank; /* DCNv2; 0: dot interaction                           */
} orr_dlrm;

/* Residual network of bottlenecks. n_stages 0: none. */
typedef struct orr_resnet {
    uint32_t n_stages, blocks[4], width[4], stem, classes, image, expansion;
} orr_resnet;

/* A line of a model's card that is no number of its shape. */
typedef struct orr_model_note {
    const char *what; /* "training tokens", "licence", "not published" */
    const char *value;
    const char *source; /* never NULL */
} orr_model_note;

typedef struct orr_model {
    const char *name;  /* "llama3.1-405b": what `orrery simulate` takes                     */
    const char *title; /* "Llama 3.1 405B"                                                  */
    const char *family;
    uint8_t kind;    /* orr_model_kind                                                    */
    bool incomplete; /* previewed: shape not published; cannot be simulated              */
    bool unverified; /* shape from hearsay: notes say whose                              */
    uint32_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab;
    uint32_t context; /* tokens                                                            */
    double rope_theta;
    double rope_factor;         /* positions stretched, wave by wave (Llama 3.1, 4): 0: not; see
                                 * src/op/families/rotary.c; negative: in a way that cannot be run (YaRN,
                                 * ...)  */
    double rope_low, rope_high; /* waves longer than rope_context / low are stretched by all of the
                                 * factor, shorter than rope_context / high not at all */
    uint32_t rope_context; /* tokens that the model was trained on before                        */
    bool rope_interleaved; /* columns 2i and 2i + 1 are a pair (Llama 4, GGUF), not i and i + D / 2
                            */
    uint32_t
        tuned_floor; /* Llama 4: queries of layers without positions grow with their position p:
                      * times 1 + tuned_scale ln(floor((p + 1) / tuned_floor) + 1); 0: not   */
    double tuned_scale;
    uint8_t norm, activation, position;
    double norm_epsilon;
    bool tied; /* embedding and head share weights                                   */
    bool qkv_bias, output_bias, mlp_bias, norm_bias, head_bias, parallel_residual;
    uint32_t positions;    /* rows of a learned position table; 0: none                          */
    uint8_t qk_norm;       /* 0 none, 1 learned per head, 2 without weights                      */
    bool final_norm;       /* true mostly                                                        */
    uint32_t extra_tokens; /* rows of the embedding that the head has not (Llama 3.2 Vision)     */
    bool sinks;            /* a learned score per head that nothing is behind (GPT-OSS)          */
    uint32_t chunk;        /* tokens that chunked attention sees; 0: all                         */
    bool sliding;          /* the chunk is a window that slides, and global layers are rotary too */
    uint32_t global_every; /* every so many layers attention sees all (and has no rotary); 0     */
    uint32_t cross_layers; /* cross-attention to the vision encoder: how many of `layers`        */
    uint32_t cross_first, cross_every; /* layers cross_first, + cross_every, ...                 */
    uint32_t mtp; /* layers that predict further tokens (DeepSeek-V3)                   */
    orr_moe moe;
    orr_mla mla;
    orr_vision vision;
    orr_dlrm dlrm;
    orr_resnet resnet;
    const orr_model_note *notes; /* shape (n_notes) */
    uint32_t n_notes;
    const char *source;                             /* of the shape */
    int64_t published_parameters, published_active; /* exact, of the source; 0: none published   */
} orr_model;

/* The built-in models, by family, in the arena. Errors: NO_MEMORY. */
typedef struct orr_models {
    const orr_model *const *models; /* shape (n) */
    uint32_t n;
} orr_models;
ORR_API ORR_MUST_CHECK orr_status orr_models_open(orr_arena *arena, orr_models *ret,
                                                  orr_error *err);
/* A model by name of the catalogue (case does not matter, '_' is '-') or, when the text ends in
 * .yaml, .yml or .json or holds a slash, from that file; a folder means its config.json. Errors:
 * NOT_FOUND with the closest name; IO; PARSE and INVALID as "file:line:column: what is wrong and
 * what is right"; UNSUPPORTED: a config.json of an architecture that is not known. */
ORR_API ORR_MUST_CHECK orr_status orr_model_load(const char *name, orr_arena *arena,
                                                 const orr_model **ret, orr_error *err);
/* The model with what the plan changes of its shape (layers, hidden, ffn, heads, vocab): where
 * only `hidden` changes, ffn and heads go with it. In the arena. INVALID: what does not divide. */
ORR_API ORR_MUST_CHECK orr_status orr_model_override(const orr_model *model, const orr_plan *plan,
                                                     orr_arena *arena, const orr_model **ret,
                                                     orr_error *err);

/* Parameters, exact. */
typedef struct orr_model_part {
    const char *name; /* "embedding", "attention", "experts", "norms", ...                  */
    uint64_t count;   /* how many of them                                                   */
    int64_t each;     /* parameters of one                                                  */
    int64_t active;   /* of all, that one token meets                                       */
} orr_model_part;
typedef struct orr_model_size {
    const orr_model_part *parts; /* shape (n) */
    uint32_t n;
    int64_t total, active; /* active: with embedding and head, without the vision encoder     */
    int64_t mtp;           /* of layers that predict further tokens: beside the total         */
    int64_t matmul;        /* active parameters that are multiplied: without embedding, norms,
                            * positions; with the head. 6 x this is FLOPs a token, but for attention */
} orr_model_size;
ORR_API ORR_MUST_CHECK orr_status orr_model_count_parameters(const orr_model *model,
                                                             orr_arena *arena, orr_model_size *ret,
                                                             orr_error *err);
/* FLOPs of a forward pass of one sample of `seq` tokens, as the field counts model FLOPs: products
 * of active parameters, and attention (causal: half of the pairs; the published convention that
 * counts all of them is `full`; cross-attention sees one image of all its tiles). Backward: twice
 * that. Models of other kinds: of one sample. 0: the shape is not published. */
ORR_API double orr_model_flops(const orr_model *model, uint32_t seq, bool full);
/* FLOPs of the vision encoder, and of what leads from it into the model, for one image of all its
 * tiles: not in the above. */
ORR_API double orr_model_image_flops(const orr_model *model);
/* Keys and values that a token leaves in the cache, of all layers. Chunked layers keep them for no
 * more than a chunk. */
ORR_API double orr_model_kv_cache_bytes(const orr_model *model, orr_dtype dtype);

/* Does layer i have experts, see everything, look at pictures? */
ORR_API bool orr_model_layer_moe(const orr_model *model, uint32_t layer);
ORR_API bool orr_model_layer_global(const orr_model *model, uint32_t layer);
ORR_API bool orr_model_layer_cross(const orr_model *model, uint32_t layer);

/* What is done with a model. */
#define ORR_TASK_MAP(X)                                                                            \
    X(PRETRAIN, "pretrain")                                                                        \
    X(SFT, "sft") X(LORA, "lora")                                                                  \
        X(DPO, "dpo") /* two answers a sample; a frozen reference model beside */                                                                                                \
        X(RL, "rl") /* generate, score by a reward and a reference model, update               */  \
        X(PREFILL, "prefill") X(DECODE, "decode")
typedef enum orr_task {
#define ORR_TASK_ENUM_(name, text) ORR_TASK_##name,
    ORR_TASK_MAP(ORR_TASK_ENUM_)
#undef ORR_TASK_ENUM_
        ORR_TASKS
} orr_task;
ORR_API const char *orr_task_name(orr_task task);

/* How many tokens each expert gets. */
typedef struct orr_expert_load {
    uint32_t layers, experts; /* of the trace: the experts up to the last that was chosen    */
    const double *share;      /* shape (layers, experts): of a layer's tokens, sums to 1     */
    uint64_t tokens;          /* that it rests on                                            */
    const char *source;
    const uint32_t *number; /* shape (layers): which layer of the model; may be NULL       */
} orr_expert_load;
/* From a trace of expert activations: CSV, also .gz: a row for a token, a column for each layer
 * with experts (named by the layer's number, "13" or "L13"), cells the chosen expert; several for
 * top-k: "3;17". Other columns (subject, request, phase, token) are left alone; `phase` "p" or "d"
 * chooses rows of the column of that name, NULL: all. Errors: IO; PARSE with the line; LIMIT;
 * NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_expert_load_read(const char *path, const char *phase,
                                                       orr_arena *arena, orr_expert_load *ret,
                                                       orr_error *err);
/* Most loaded of `ranks` ranks that hold neighbouring experts, over the mean: 1 is even. Of a layer
 * of the trace (a row of `share`), or the mean of all (layer ORR_NONE). */
ORR_API double orr_expert_imbalance(const orr_expert_load *load, uint32_t layer, uint32_t ranks);

typedef struct orr_workload {
    uint8_t task; /* orr_task                                                          */
    uint32_t seq; /* tokens a sample; 0: the plan's, else the model's context up to 8192 */
    uint32_t prompt, generated; /* RL, PREFILL, DECODE: tokens; DECODE: `prompt` in the cache  */
    uint32_t lora_rank; /* LORA; 0: 16                                                       */
    bool lora_all;      /* adapters on every linear layer, else on attention's               */
    const orr_expert_load *load; /* NULL: even                                                 */
    uint32_t images; /* a sample: of models with a vision encoder                          */
    uint32_t cache;  /* PREFILL with a prompt: tokens of a sample that caches have room for: tapes
                      * as an engine runs them, where `prompt` tokens are computed behind those
                      * that are cached (how many is known when it runs), and their keys and
                      * values go through CACHE into the inputs "key cache" and "value cache"
                      * (B, cache, G, W). 0: as simulated                                    */
    bool all_logits; /* PREFILL with a prompt: of every token, not of the last alone        */
    bool real;       /* what an engine runs (with `cache` always): experts have room for whoever
                      * comes and are told how many did, pictures stand among the tokens, and
                      * what cannot be run is UNSUPPORTED. Else as simulated: as much work as
                      * there is on average                                                  */
} orr_workload;

#ifdef __cplusplus
}
#endif

#endif /* ORR_MODEL_H */
