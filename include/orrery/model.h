/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_H
#define ORR_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include <orrery/arena.h>
#include <orrery/dtype.h>
#include <orrery/embedding.h>
#include <orrery/experts.h>
#include <orrery/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Models that are trained or served. Read from YAML (the built-in catalogue, or files of the user)
 * or from a Hugging Face config.json as it is.
 *
 * Immutable once read: any number of threads may share a model. */
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

/* Mixture of experts. `experts` 0: a dense model. */
typedef struct orr_moe {
    uint32_t experts, top_k;
    uint32_t expert_ffn;         /* width of one                                        */
    uint32_t shared, shared_ffn; /* shared experts, which see every token; width of one */
    bool shared_gate;            /* their output has a learned gate */
    uint32_t first_dense, every; /* layer i has experts iff i >= first_dense and (i + 1 -
                                  * first_dense) % every == 0; every >= 1 */
    uint8_t router;              /* orr_router_kind                                     */
    bool router_bias;            /* correction bias of each expert (DeepSeek-V3) */
    bool biases;                 /* router and experts have biases (GPT-OSS) */
    bool scales_input;           /* the score scales the expert's input, not its output (Llama 4) */
    uint32_t groups, top_groups; /* experts are chosen within the best groups; 0: no groups */
} orr_moe;

/* Multi-head latent attention: widths. kv_rank 0: none. */
typedef struct orr_mla {
    uint32_t q_rank, kv_rank, nope_dim, rope_dim, value_dim;
} orr_mla;

/* Vision encoder and its adapter into the model. layers 0: none. */
typedef struct orr_vision {
    uint32_t layers, global_layers, hidden, ffn, heads;
    uint32_t image, patch, tiles;     /* pixels a side of an image; of a patch; most tiles */
    uint32_t tokens;                  /* per tile, as the model sees them */
    uint32_t output;                  /* columns of the encoder's output */
    uint32_t adapter_in, adapter_ffn; /* MLP of the adapter (Llama 4); 0: none */
    uint32_t aspect_ratios;           /* rows of tables of tile positions (Llama 3.2); 0: none */
    bool biases, gated_global, class_token; /* biases: of attention; the MLP always has them */
    uint32_t intermediate; /* layers whose outputs are concatenated                  */
    int64_t parameters;    /* as published or read from a checkpoint; 0: from shapes */
} orr_vision;

/* Recommendation model. n_tables 0: none. */
enum { ORR_MLP_LAYERS = 8 };
typedef struct orr_dlrm {
    uint32_t dense_features, dim; /* of the input; columns of what the bottom layers make */
    uint32_t n_tables;
    const orr_embedding *tables; /* shape (n_tables) */
    uint32_t n_bottom, n_top;
    uint32_t bottom[ORR_MLP_LAYERS], top[ORR_MLP_LAYERS]; /* widths of outputs                */
    uint32_t cross_layers, cross_rank; /* DCNv2; 0: dot interaction                           */
} orr_dlrm;

/* Residual network of bottleneck blocks. n_stages 0: none. */
typedef struct orr_resnet {
    uint32_t n_stages, blocks[4], width[4], stem, classes, image, expansion;
} orr_resnet;

/* A note of a model's card that is no number of its shape. */
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
    bool unverified; /* shape from hearsay: notes give the source */
    uint32_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab;
    uint32_t context; /* tokens                                                            */
    double rope_theta;
    double rope_factor;         /* scaling of rotary positions by wavelength (Llama 3.1, 4); 0:
                                 * none; see src/op/families/rotary.c; negative: a scaling that
                                 * cannot be executed (YaRN, ...) */
    double rope_low, rope_high; /* wavelengths above rope_context / low are scaled by the whole
                                 * factor, those below rope_context / high not at all */
    uint32_t rope_context;      /* context that the model was trained on before scaling */
    bool rope_interleaved; /* columns 2i and 2i + 1 are rotated as a pair (Llama 4, GGUF), not i
                            * and i + D / 2 */
    uint32_t tuned_floor;  /* attention temperature (Llama 4): queries of layers without positions
                            * are multiplied by 1 + tuned_scale ln(floor((p + 1) / tuned_floor) + 1)
                            * at position p; 0: not */
    double tuned_scale;
    uint8_t norm, activation, position;
    double norm_epsilon;
    bool tied; /* embedding and head share weights                                   */
    bool qkv_bias, output_bias, mlp_bias, norm_bias, head_bias, parallel_residual;
    uint32_t positions;    /* rows of a learned position table; 0: none                          */
    uint8_t qk_norm;       /* 0 none, 1 learned per head, 2 without weights                      */
    bool final_norm;       /* true mostly                                                        */
    uint32_t extra_tokens; /* rows of the embedding that the head does not have (Llama 3.2
                            * Vision) */
    bool sinks;            /* attention sinks: a learned score per head without a value (GPT-OSS) */
    uint32_t chunk;        /* tokens of an attention window; 0: unlimited */
    bool sliding;          /* the window slides, and global layers have rotary positions too;
                            * else fixed chunks */
    uint32_t global_every; /* every so many layers attention is global (without rotary
                            * positions); 0: none */
    uint32_t cross_layers; /* number of `layers` with cross-attention to the vision encoder */
    uint32_t cross_first, cross_every; /* layers cross_first, + cross_every, ...                 */
    uint32_t mtp; /* multi-token prediction: layers for further tokens (DeepSeek-V3) */
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
/* Loads a model by its name in the catalogue (case is ignored, '_' equals '-') or, when the text
 * ends in .yaml, .yml or .json or holds a slash, from that file; a folder means its config.json.
 * Errors: NOT_FOUND with the closest name; IO; PARSE and INVALID as "file:line:column: what is
 * wrong and what is right"; UNSUPPORTED: a config.json of an unknown architecture. */
ORR_API ORR_MUST_CHECK orr_status orr_model_load(const char *name, orr_arena *arena,
                                                 const orr_model **ret, orr_error *err);
/* The model with the plan's overrides of its shape (layers, hidden, ffn, heads, vocab): where
 * only `hidden` changes, ffn and heads scale with it. In the arena. INVALID: sizes that do not
 * divide. */
ORR_API ORR_MUST_CHECK orr_status orr_model_override(const orr_model *model, const orr_plan *plan,
                                                     orr_arena *arena, const orr_model **ret,
                                                     orr_error *err);

/* Exact parameter counts. */
typedef struct orr_model_part {
    const char *name; /* "embedding", "attention", "experts", "norms", ...                  */
    uint64_t count;   /* number of such parts */
    int64_t each;     /* parameters of one                                                  */
    int64_t active;   /* of all of them, that one token activates */
} orr_model_part;
typedef struct orr_model_size {
    const orr_model_part *parts; /* shape (n) */
    uint32_t n;
    int64_t total, active; /* active: with embedding and head, without the vision encoder */
    int64_t mtp;           /* of multi-token prediction layers: not in the total */
    int64_t matmul;        /* active parameters in matrix products: with the head, without
                            * embedding, norms and positions. 6 x this is the FLOPs of a token
                            * without attention */
} orr_model_size;
ORR_API ORR_MUST_CHECK orr_status orr_model_count_parameters(const orr_model *model,
                                                             orr_arena *arena, orr_model_size *ret,
                                                             orr_error *err);
/* Model FLOPs of the forward pass of one sample of `seq` tokens, as usually counted: products of
 * active parameters, and attention (causal: half of the pairs; `full`: all of them, as some
 * publications count; cross-attention sees one image of all its tiles). Backward: twice that.
 * Models of other kinds: of one sample. 0: the shape is not published. */
ORR_API double orr_model_flops(const orr_model *model, uint32_t seq, bool full);
/* FLOPs of vision encoder and adapter for one image of all its tiles: not in the above. */
ORR_API double orr_model_image_flops(const orr_model *model);
/* KV-cache bytes of one token in all layers. Chunked layers keep them for one chunk at most. */
ORR_API double orr_model_kv_cache_bytes(const orr_model *model, orr_dtype dtype);

/* Does layer i have experts? Global attention? Cross-attention to images? */
ORR_API bool orr_model_layer_moe(const orr_model *model, uint32_t layer);
ORR_API bool orr_model_layer_global(const orr_model *model, uint32_t layer);
ORR_API bool orr_model_layer_cross(const orr_model *model, uint32_t layer);

/* Tasks that a model is used for. */
#define ORR_TASK_MAP(X)                                                                            \
    X(PRETRAIN, "pretrain")                                                                        \
    X(SFT, "sft")                                                                                  \
    X(LORA, "lora")                                                                                \
    X(DPO, "dpo") /* two answers a sample; a frozen reference model beside */                      \
    X(RL, "rl")   /* generate, score by a reward and a reference model, update               */    \
    X(PREFILL, "prefill") X(DECODE, "decode")
typedef enum orr_task {
#define ORR_TASK_ENUM_(name, text) ORR_TASK_##name,
    ORR_TASK_MAP(ORR_TASK_ENUM_)
#undef ORR_TASK_ENUM_
        ORR_TASKS
} orr_task;
ORR_API const char *orr_task_name(orr_task task);

/* What plans made of a workload's experts: a cache for workloads of one model and
 * one set of loads. Threads: any may use workloads that have it. */
typedef struct orr_expert_arrangements orr_expert_arrangements;
ORR_API ORR_MUST_CHECK orr_status orr_expert_arrangements_open(orr_expert_arrangements **ret,
                                                               orr_error *err);
ORR_API void orr_expert_arrangements_close(orr_expert_arrangements *arrangements);

/* Documents that samples of training are packed of, one behind another; what does not fit into a
 * sample is the beginning of the next one. A token attends to tokens of its own document alone
 * (Llama 3, arXiv 2407.21783, section 3.2). */
typedef struct orr_documents {
    const uint32_t *stream; /* shape (n): tokens of each document, in the order in which they are
                             * packed; after the last comes the first again */
    uint32_t n;
    double mean_tokens;
    struct orr_packings *packings; /* samples are packed once for each plan's slices; NULL: each
                                    * time. Threads: any may use documents that have it */
} orr_documents;
/* `text`: "4k": all documents have so many tokens; "mean:4k": geometric lengths with that mean;
 * else a file (plain or compressed) with a line for each document, its tokens, or `tokens,count`.
 * The stream is drawn of them by a fixed seed. In the arena. Errors: INVALID: no such number; PARSE
 * with the position, IO, LIMIT (more than 2^48 documents), NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_documents_read(const char *text, orr_arena *arena,
                                                     orr_documents *ret, orr_error *err);

struct orr_calibration;

typedef struct orr_workload {
    uint8_t task; /* orr_task                                                          */
    uint32_t seq; /* tokens a sample; 0: the plan's, else the model's context up to 8192 */
    uint32_t prompt, generated; /* RL, PREFILL, DECODE: tokens; DECODE: `prompt` in the cache  */
    uint32_t lora_rank; /* LORA; 0: 16                                                       */
    bool lora_all;      /* adapters on every linear layer, else on attention's               */
    const orr_expert_load *load; /* NULL: even                                                 */
    const orr_expert_windows *windows; /* loads of one micro-batch and the next, instead of `load`;
                                        * NULL: `load` is all that is known */
    uint32_t request_groups; /* > 1: `windows` are those of so many groups of requests instead, each
                              * of which an equal part of the ranks serves, the first group the
                              * first ranks */
    const orr_expert_placement *placement; /* NULL: as the plan says, else neighbouring experts
                                            * without copies */
    const orr_routes *routes; /* NULL: loads alone are known. Where neither `load` nor `windows` is
                               * given, loads are those of these tokens, of the task's phase where
                               * there are any */
    struct orr_expert_arrangements *arrangements; /* placements and groups that plans ask for are
                                                   * made once; NULL: each time */
    const orr_cluster *cluster; /* placements that plans ask for are made for its hosts and
                                 * links, by the calibration, as `orrery experts` makes them:
                                 * set for a simulation. NULL: all ranks are one host, and
                                 * loads alone count */
    const struct orr_calibration *calibration; /* not NULL where there is a cluster */
    uint32_t images; /* a sample: of models with a vision encoder                          */
    uint32_t cache;  /* PREFILL with a prompt: tokens of a sample that the KV caches have room
                      * for. Tapes are then those for execution: `prompt` tokens are computed
                      * after those that are cached (how many is known at run time), and their
                      * keys and values go through CACHE into the inputs "key cache" and "value
                      * cache" (B, cache, G, W). 0: as simulated */
    bool all_logits; /* PREFILL with a prompt: logits of every token, not of the last only */
    const orr_embedding_plan *tables; /* of recommendation models: how tables are sharded over
                                       * replicas, as simulated; NULL: by a rule */
    uint8_t popularity;               /* orr_popularity_kind: of rows, as simulated */
    bool padded; /* bags are padded to the longest of a batch; else their lengths vary */
    bool real;   /* for execution (always with `cache`): experts have room for any routing
                  * and get their counts, image tokens stand among text tokens, and what
                  * cannot be executed is UNSUPPORTED. Else for simulation: the average
                  * amount of work */
    const orr_documents *documents; /* of PRETRAIN, SFT and LORA; NULL: one fills each sample. With
                                     * flash=off all pairs of tokens are multiplied all the same */
} orr_workload;

/* What placements of a model's experts are weighed by (`include/orrery/experts.h`) on `ranks`
 * devices of a cluster: rates of all-to-all within a host and between hosts, and a token through an
 * expert, by the calibration; bf16 activations and weights. `tokens`: of all ranks in a step. Model
 * NULL: an expert of 5120 x 2048, assumed. Ranks of a host in *ret_host_ranks, the source in the
 * arena. INVALID: more ranks than devices, a model without experts. */
ORR_API ORR_MUST_CHECK orr_status
orr_expert_costs_of_cluster(const orr_cluster *cluster, const struct orr_calibration *calibration,
                            const orr_model *model, uint32_t ranks, double tokens, orr_arena *arena,
                            orr_expert_costs *ret, uint32_t *ret_host_ranks, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_MODEL_H */
