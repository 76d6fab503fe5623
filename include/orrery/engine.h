/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_H
#define ORR_ENGINE_H

#include <orrery/experts.h>
#include <orrery/graph.h>
#include <orrery/kernel.h>
#include <orrery/model.h>
#include <orrery/team.h>
#include <orrery/text.h>
#include <orrery/weights.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Running models on this machine: training and generation. */

/* Training. */
#define ORR_LEARNING_RATE_SCHEDULE_MAP(X)                                                          \
    X(COSINE, "cosine") X(LINEAR, "linear") X(CONSTANT, "constant")
typedef enum orr_learning_rate_schedule {
#define ORR_LEARNING_RATE_SCHEDULE_ENUM_(name, text) ORR_LEARNING_RATE_##name,
    ORR_LEARNING_RATE_SCHEDULE_MAP(ORR_LEARNING_RATE_SCHEDULE_ENUM_)
#undef ORR_LEARNING_RATE_SCHEDULE_ENUM_
} orr_learning_rate_schedule;

/* What tables of one tier had to do for their rows, on all ranks, in a step or a run. */
#define ORR_TRAIN_ROWS_MAP(X)                                                                      \
    X(lookups)                                                                                     \
    X(hits)          /* of them: rows that were in memory, or asked for by the batch before */     \
    X(rows)          /* distinct rows of batches */                                                \
    X(row_hits)      /* of them */                                                                 \
    X(demand_misses) /* rows that were not there when their batch was waited for */                \
    X(reads)         /* requests of the device */                                                  \
    X(read_bytes)                                                                                  \
    X(written_bytes) /* rows and log */
typedef struct orr_train_rows {
#define ORR_TRAIN_ROWS_FIELD_(name) int64_t name;
    ORR_TRAIN_ROWS_MAP(ORR_TRAIN_ROWS_FIELD_)
#undef ORR_TRAIN_ROWS_FIELD_
    int64_t stall_ns; /* that the rank which waited longest waited for rows */
} orr_train_rows;

typedef struct orr_train_step { /* the result of a step, the same on all ranks */
    int64_t step;               /* from 1 */
    double loss, gradient_norm, rate;
    int64_t tokens; /* of this step (recommendation: samples) */
    int64_t step_ns;
    double reward, kl, auc; /* RL, DPO (reward: accuracy) and recommendation; else NAN */
    int64_t contributors;   /* replicas that contributed gradients; without a team 1 */
    int64_t retries, epoch; /* with a team: attempts before the successful one */
    int64_t slot; /* number of the data batch that this replica trained on, from 0; -1: none */
    const orr_train_rows *rows; /* shape (ORR_TIERS), by tier of their table; NULL: all live in
                                 * memory. In the arena of the result */
} orr_train_step;

/* Makes this job one replica of several that train together (orrery/team.h): every machine runs the
 * same command with another name. A step is computed from the batches of all replicas present, each
 * of the plan's `batch`; the reported loss is their mean. Pretraining, SFT and DPO; no embedding
 * tables. */
typedef struct orr_train_team {
    const char *coordinator; /* "host:port" */
    orr_team_access access;
    const char *name;        /* of this replica, unique in the team */
    const char *address;     /* where the others reach this machine; NULL: 127.0.0.1 */
    uint32_t replicas;       /* that the job is planned for */
    uint8_t rate; /* orr_team_rate_policy: learning rate when fewer replicas are present */
    bool no_shared_memory;
    int64_t failure_timeout_ns, give_up_ns;                /* 0: defaults of orr_team_options */
    uint32_t chunk_bytes, window, streams, catch_up_steps; /* likewise */
    void (*told)(void *ctx,
                 const orr_team_event *event); /* event callback on rank 0, from a thread of the
                                                  team's; or NULL. ctx: of the options */
} orr_train_team;

/* How fast a device is, at most: one request's latency, requests and bytes a second. 0: as fast as
 * it is. */
typedef struct orr_device_limits {
    int64_t read_ns, write_ns;
    double read_iops, write_iops, read_bytes_per_s, write_bytes_per_s;
} orr_device_limits;
/* Where rows of embedding tables live that the plan does not place in memory (`tier` of a
 * placement). Without `save` nothing outlives the run. */
typedef struct orr_train_store {
    const char *folder;      /* tier block: files on a block device, one a rank; NULL: none */
    const char *byte_folder; /* tier byte: mapped files, one a rank; NULL: memory of a NUMA node */
    int byte_node;           /* -1: any; -2: no tier byte */
    const orr_device_limits *byte_limits; /* each rank's tier byte is slowed down to; NULL: not */
    int64_t file_bytes;                   /* of each file; 0: what its rows need */
    int64_t memory_bytes;                 /* of a rank: rows of tables in memory and row caches */
    uint8_t policy;                       /* orr_cache_policy of src/store/store.h */
    bool holes; /* on a block device changed rows go into free sectors, not into whole extents:
                   orr_storage_write_costs() says which is cheaper */
} orr_train_store;

typedef struct orr_train_options {
    const orr_model *model;
    const orr_plan *plan;             /* NULL: one rank */
    const orr_workload *workload;     /* PRETRAIN, SFT, DPO or RL; placement: which experts each
                                         rank of ep has, equally many and none twice, with the same
                                         results; NULL: neighbours */
    const orr_embedding_plan *tables; /* of recommendation: how its tables are sharded; NULL:
                                         orr_embedding_plan_default() */
    const orr_train_store *store;     /* NULL: all rows live in memory */
    const char *data;      /* plain text: a file or a folder of files; SFT and DPO: JSON lines;
                            * recommendation: a Criteo file, or "synthetic:2021,locality=0.3";
                            * NULL: synthetic, from the seed */
    const char *tokenizer; /* NULL: bytes */
    const char
        *init; /* checkpoint to start from (safetensors, GGUF); NULL: random, from the seed */
    const char *reference; /* DPO and RL: the frozen reference model; NULL: the initial weights */
    const char *reward;    /* RL: "length", "digits" or "match:TEXT" */
    const char *save; /* folder of checkpoints; NULL: none. In a team each replica has a subfolder
                         of its name */
    bool resume; /* from the last checkpoint in `save`, bitwise exactly. In a team: if there is one;
                    a replica without one, or with an older one than others, receives the others'
                    state */
    const char *export_to;             /* Hugging Face folder to write at the end; NULL: none */
    int64_t steps, warmup, save_every; /* save_every 0: at the end only */
    double rate, least_rate;           /* peak learning rate; least: at the end of the schedule */
    uint8_t rate_schedule;             /* orr_learning_rate_schedule */
    double beta1, beta2, epsilon, decay, clip; /* 0: 0.9, 0.95, 1e-8, 0.1, 1.0; negative: off */
    bool sgd; /* SGD instead of AdamW; embedding tables have optimizers of their own */
    double dpo_beta, ppo_clip, kl; /* 0: 0.1, 0.2, 0.01 */
    double dpo_nll; /* DPO: weight of the chosen answer's own loss: Llama 3's 0.2; 0: none */
    uint64_t seed;
    int threads;                /* per rank; 0: cores / ranks of this machine */
    int64_t record_steps;       /* number of last steps to record */
    const char *record;         /* folder for a trace of each rank: rank0.et, ...; NULL: none */
    const char *expert_trace;   /* file for the experts that each token chose, in all steps and
                                 * ranks, as CSV; NULL: none */
    bool check;                 /* checks every output of every call for NaN and infinity */
    uint32_t ranks_kind;        /* orr_ranks_kind of src/engine/ranks/launch.h */
    const orr_train_team *team; /* NULL: this is the whole job */
    void (*told)(void *ctx, const orr_train_step *step); /* step callback on rank 0 */
    bool (*stopped)(void *ctx);                          /* asked on rank 0 before each step */
    void *ctx;
} orr_train_options;

typedef struct orr_train_op { /* of rank 0, per step, mean over recorded steps */
    const char *name;
    uint8_t op, pass;
    double calls;
    int64_t ns;
    double flops, bytes;
} orr_train_op;
typedef struct orr_train_result {
    int64_t steps;         /* steps made */
    bool stopped;          /* ended before the last step */
    uint64_t state_digest; /* XXH3 of parameters and optimizer state of all ranks, equal in replicas
                              with equal state; 0: the state is incomplete (a replica that left
                              before it had received the others' state) */
    double first_loss, last_loss;
    int64_t step_ns;       /* median without the first */
    int64_t planned_bytes; /* static plan of the rank that holds most */
    int64_t peak_bytes; /* measured: peak resident memory of the rank that holds most, less what was
                           resident before */
    bool tiers[ORR_TIERS];          /* rows of tables live there */
    orr_train_rows rows[ORR_TIERS]; /* of all steps, and what was written by commits */
    const char *remark;             /* what rank 0 has to say about its storage; NULL: nothing */
    const orr_train_op *ops;        /* shape (n_ops), longest first; only with record_steps */
    uint32_t n_ops;
    const orr_train_step *history; /* shape (steps) */
    const orr_graph *graph;        /* of rank 0; NULL without record_steps; the caller's to free */
} orr_train_result;
/* The plan with what training adds by default. Recommendation: fp32; of a `batch`, micro-batches of
 * the largest divisor of batch / gcd(batch, 5040) up to 128 (or what that has in common with the
 * samples of a replica): the same for any few ranks, and with it the bits of all results. NULL: one
 * rank. */
ORR_API orr_plan orr_train_plan(const orr_model *model, const orr_plan *asked);
/* Starts the ranks of the plan, trains, and ends them. Results are in the arena. Call it while the
 * process has no threads (ranks are forked). Errors: INVALID: a loss that is not finite, with the
 * operator that made it; a plan that cannot run here; LIMIT: more memory than is free, before any
 * is taken; IO: data, checkpoints. */
ORR_API ORR_MUST_CHECK orr_status orr_train(const orr_train_options *options, orr_arena *arena,
                                            orr_train_result *ret, orr_error *err);
/* The memory that a step would hold on the rank that holds most; nothing runs. */
ORR_API ORR_MUST_CHECK orr_status orr_train_measure(const orr_train_options *options,
                                                    int64_t *ret_bytes, orr_error *err);

/* Generation. A model with its weights, mapped. */
typedef struct orr_generator orr_generator;
typedef struct orr_generator_options {
    const orr_model *model;
    const orr_weights *weights; /* NULL: random, from the seed */
    orr_row_format format;      /* of matrix weights: as in the file, or quantized on opening (INT8,
                                   Q8_0, Q4_0); ORR_ROW_FORMATS: as in the file */
    bool fp32;                  /* fp32 activations, for comparisons; else bf16 products */
    int64_t context; /* capacity of the KV cache in tokens; 0: the model's context, up to 8192 */
    uint32_t batch;  /* sequences at once */
    int threads;
    uint64_t seed;
    const char *record;  /* file for a trace of what ran, or NULL */
    bool record_experts; /* see orr_generator_experts() */
} orr_generator_options;
ORR_API ORR_MUST_CHECK orr_status orr_generator_open(const orr_generator_options *options,
                                                     orr_generator **ret, orr_error *err);
ORR_API void orr_generator_close(orr_generator *generator); /* NULL is allowed */

typedef struct orr_sampling {
    double temperature; /* 0: greedy */
    double top_p;       /* 0 or 1: all */
    uint32_t top_k;     /* top-k; 0: all */
    uint64_t seed;
    int64_t most;        /* maximum number of tokens to generate */
    const int32_t *stop; /* shape (n_stop) */
    uint32_t n_stop;
    uint32_t vocab; /* only tokens below it are sampled: a model may have more than its tokenizer;
                       0: all */
} orr_sampling;
typedef struct orr_prompt {
    const int32_t *tokens; /* shape (n) */
    size_t n;
    const float *pixels; /* of images: shape (tiles, patches, columns) as the vision encoder takes
                            them; NULL: none. Its output replaces the `picture_token` tokens */
    uint32_t tiles;
    int32_t picture_token;
} orr_prompt;
typedef struct orr_generated {
    int32_t *tokens; /* shape (n), in the arena, without the prompt */
    size_t n;
    bool ended;             /* by a stop token */
    double log_probability; /* of all generated tokens, under the model (temperature 1) */
    uint64_t logits_digest; /* XXH3 of the logits that tokens were sampled from: runs that agree
                             * in all bits have the same */
} orr_generated;
typedef struct orr_generation_times {
    int64_t first_token_ns; /* time to first token, from the call */
    int64_t prompt_tokens, prompt_ns, tokens, decode_ns;
} orr_generation_times;
/* Answers `n` prompts, up to `batch` at a time. `told` (may be NULL) is called for each token as it
 * comes; false ends the generation. Errors: INVALID: a token outside the vocabulary, a prompt
 * longer than the cache. */
ORR_API ORR_MUST_CHECK orr_status orr_generate(
    orr_generator *generator, const orr_prompt *prompts, uint32_t n, const orr_sampling *sampling,
    bool (*told)(void *ctx, uint32_t prompt, int32_t token), void *ctx, orr_arena *arena,
    orr_generated *ret, orr_generation_times *ret_times, orr_error *err);
/* Generation over ranks, each a process with a generator of its own: prompts are dealt to ranks,
 * experts stand where a placement says, and rows of tokens go to their experts and back in every
 * layer. Ranks work in rounds, a prefill or a decode each, so that a rank without tokens serves the
 * experts that others need. Answers have the same bits for any placement and number of ranks. */
typedef struct orr_generator_ranks {
    uint32_t ranks;
    uint32_t kind;                         /* orr_ranks_kind of src/engine/ranks/launch.h */
    const orr_expert_placement *placement; /* NULL: neighbouring experts, without copies */
    const char *expert_trace; /* file for the routes of all ranks (options.record_experts), or
                               * NULL */
    const orr_routes *routes; /* recorded from this model: after its prefill a request moves to a
                               * rank of the group that it is nearest to; NULL: it stays */
    uint32_t groups;          /* of requests, a divisor of the ranks; 0: as many as ranks */
    uint64_t rebalance; /* rounds from one look at the loads of experts to the next: where they
                         * have drifted, experts move, between rounds; 0: never */
    double move_bytes;  /* most weights that a rank sends or receives between two rounds, but
                         * one expert at least; 0: all at once */
    double tolerance;   /* a placement this much costlier than a fresh one will do */
    uint8_t policy;     /* orr_expert_policy of fresh placements */
} orr_generator_ranks;
/* A round of all ranks: each prefills a part of a prompt, decodes a token of all its sequences, or
 * has experts alone. */
typedef struct orr_generated_round {
    int64_t ns;    /* from one agreement of the ranks to the next, as rank 0 saw it */
    bool prefills; /* some rank did */
} orr_generated_round;
/* Bytes that crossed between ranks, as counted where they were handed to the transport: within
 * hosts, and beyond. */
typedef struct orr_generated_bytes {
    uint32_t ranks, layers;
    const uint32_t *number;     /* shape (layers): of the model */
    uint64_t (*dispatch)[2];    /* shape (layers, 2): rows on their way to experts, with choices */
    uint64_t (*combine)[2];     /* shape (layers, 2): results on their way back */
    uint64_t counts[2], all[2]; /* how many rows will come; everything together */
    /* By these sizes and orr_experts_count_traffic() bytes are predicted: a row that is sent has
     * row_bytes and each remote choice choice_bytes; a row that returns has result_bytes. */
    int64_t row_bytes, choice_bytes, result_bytes;
    uint64_t rounds, moved_requests;    /* agreements of the ranks, the last of which ends the run;
                                         * requests that went on on another rank */
    const orr_generated_round *round;   /* shape (rounds - 1) */
    uint64_t moved[2];                  /* their caches */
    uint64_t looks, plans;              /* at loads; after which experts moved */
    uint64_t moved_experts, weights[2]; /* copies that were made on another rank, and their bytes */
    int64_t pause_ns; /* longest time between two rounds on any rank for looks, plans and moves */
} orr_generated_bytes;
/* As orr_generate(), over the ranks of `ranks`; options.record is a folder, for a trace of each
 * rank; `told` is called for each token of rank 0 as it
 * comes, and in the end for those of other ranks, prompt by prompt. Call it while the process has
 * no threads (ranks are forked). ret_bytes may be NULL. Errors beside those: INVALID: a placement
 * of another model, or of other ranks; IO: "rank 2 was killed by signal 9". */
ORR_API ORR_MUST_CHECK orr_status
orr_generate_over_ranks(const orr_generator_options *options, const orr_generator_ranks *ranks,
                        const orr_prompt *prompts, uint32_t n, const orr_sampling *sampling,
                        bool (*told)(void *ctx, uint32_t prompt, int32_t token), void *ctx,
                        orr_arena *arena, orr_generated *ret, orr_generation_times *ret_times,
                        orr_generated_bytes *ret_bytes, orr_error *err);
/* Log-probability of each token after the first, given those before it: ret[i] is of tokens[i +
 * 1]. */
ORR_API ORR_MUST_CHECK orr_status orr_score(orr_generator *generator, const orr_prompt *prompt,
                                            float *ret, orr_error *err);
/* Logits of all tokens of a prompt, shape (n, vocab), for comparisons. */
ORR_API ORR_MUST_CHECK orr_status orr_logits(orr_generator *generator, const orr_prompt *prompt,
                                             float *ret, orr_error *err);
/* Writes which experts every token was routed to, for all that ran so far, as CSV in the form that
 * orr_expert_load_read() reads. UNSUPPORTED: record_experts was not set, or the model is dense. */
ORR_API ORR_MUST_CHECK orr_status orr_generator_experts(const orr_generator *generator,
                                                        const char *path, orr_error *err);
/* Bytes that decoding one token reads: weights, and the cache at `tokens` tokens. */
ORR_API int64_t orr_generator_read_bytes(const orr_generator *generator, int64_t tokens);

#ifdef __cplusplus
}
#endif

#endif /* ORR_ENGINE_H */
