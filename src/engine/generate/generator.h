/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_GENERATE_GENERATOR_H
#define ORR_ENGINE_GENERATE_GENERATOR_H

#include <orrery/engine.h>

#include "base/array.h"
#include "engine/run/program.h"
#include "engine/record/recorder.h"
#include "engine/record/routes.h"
#include "model/module/module.h"

/* Internals of a generator: a model with weights and KV caches. It runs two kinds of cached
 * programs: backbones, from tokens to hidden states, for a number of samples and tokens; and LM
 * heads, from some of these rows to logits. Both are written from the modules that the simulator
 * times, bound to the checkpoint's weights. Programs are kept while their shapes recur, and
 * replaced least recently used first. */

/* A parameter of a place, bound in all programs. */
typedef struct orr_bound_weight {
    uint32_t place, nth;
    const char *name;
    orr_binding binding;
    orr_weight_rows rows;
    int64_t read_bytes; /* read per token: all of a matrix, nothing of an embedding table */
} orr_bound_weight;

/* A routing call (MoE top-k), and where a program leaves its choice. */
typedef struct orr_expert_choice {
    uint32_t place;
    orr_value indices;
    void *data; /* shape (samples, tokens, K) */
} orr_expert_choice;

/* The KV cache of a place, as a value of a program's tape. */
typedef struct orr_kv_cache_value {
    uint32_t place;
    orr_value value;
    bool values; /* values, else keys */
} orr_kv_cache_value;

/* A program with its tape. */
typedef struct orr_cached_program {
    orr_arena *arena; /* NULL: an empty entry */
    orr_tape tape;
    orr_array(orr_binding) bindings;
    orr_array(orr_program_call) calls; /* none: as they are by default */
    orr_program *program;
    uint64_t used; /* when it was used last */
} orr_cached_program;

struct orr_expert_call;
typedef struct orr_backbone {
    orr_cached_program served;
    int64_t samples, tokens, tiles;        /* samples 0: exchanges between ranks alone; tiles: of
                                            * images; 0: none */
    orr_value ids, positions, pixels, out; /* ORR_NONE: the model has none */
    orr_array(orr_kv_cache_value) caches;
    orr_array(orr_expert_choice) choices;
    orr_array(struct orr_expert_call *) exchanges; /* of rows between ranks, by layer */
} orr_backbone;

typedef struct orr_lm_head {
    orr_cached_program served;
    int64_t rows;
    orr_value in, out;
} orr_lm_head;

enum { ORR_BACKBONES = 4, ORR_LM_HEADS = 2, ORR_PREFILL_CHUNK_TOKENS = 512 };

typedef struct orr_expert_parallel orr_expert_parallel;
struct orr_generator {
    orr_generator_options options;
    orr_model model;
    orr_plan plan;
    orr_arena *arena;
    orr_array(void *) held; /* by orr_generator_allocate() */
    orr_backend *backend;
    orr_workers *workers;
    int64_t capacity; /* tokens of a cache */
    uint32_t n_places;
    orr_array(orr_bound_weight) weights;
    char **keys, **values; /* shape (places): caches (batch, capacity, G, W); NULL: none */
    size_t *cache_bytes;   /* shape (places): of one sample, for keys and for values each */
    orr_backbone bodies[ORR_BACKBONES];
    orr_lm_head heads[ORR_LM_HEADS];
    orr_array(orr_cached_program) retired; /* recorded, and replaced by others */
    uint64_t clock;                        /* counts runs */
    int64_t *ids, *positions, *first;      /* input buffers */
    uint32_t *request;                     /* shape (batch): prompts of the samples */
    float *logits;                         /* shape (ORR_LM_HEAD_ROWS, vocab) */
    void *hidden;                          /* shape (batch * ORR_PREFILL_CHUNK_TOKENS, hidden) */
    orr_recorder *recorder;                /* or NULL */
    orr_route_recorder *routes;            /* or NULL */
    uint64_t requests;
    orr_expert_parallel *parallel; /* this is one rank of several; NULL: it is alone */
};
enum { ORR_LM_HEAD_ROWS = 64 };

/* The modules for so many samples and tokens, in an arena, with `tiles` image tiles per sample. */
orr_status orr_generator_modules(const orr_generator *g, int64_t samples, int64_t tokens,
                                 int64_t tiles, orr_arena *arena, orr_module_sequence *ret,
                                 orr_error *err) ORR_MUST_CHECK;
/* n times `bytes` zeroed bytes that are only committed when touched, in huge pages where the system
 * has them, until the generator is closed. NULL: no memory. */
void *orr_generator_allocate(orr_generator *g, size_t n, size_t bytes);
/* Binds the weights of all places: mapped, quantized, or drawn at random. */
orr_status orr_generator_bind_weights(orr_generator *g, orr_error *err) ORR_MUST_CHECK;
/* Random weights: rows from .. from + n - 1 of `rows` rows, in bf16. */
void orr_generator_draw(const orr_generator *g, int64_t rows, int64_t columns, int64_t from,
                        int64_t n, uint16_t *ret);
const orr_binding *orr_generator_weight(const orr_generator *g, uint32_t place, const char *name,
                                        uint32_t nth);

/* The backbone program for a shape: a cached one, or a new one in place of the least recently
 * used. */
orr_status orr_generator_backbone(orr_generator *g, int64_t samples, int64_t tokens, int64_t tiles,
                                  orr_backbone **ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_generator_lm_head(orr_generator *g, int64_t rows, orr_lm_head **ret,
                                 orr_error *err) ORR_MUST_CHECK;
void orr_backbone_free(orr_backbone *backbone);
void orr_lm_head_free(orr_lm_head *head);

/* Runs tokens `ids`, shape (samples, tokens), after the first[b] cached tokens of cache slot slot +
 * b. g->hidden then has the hidden states, shape (samples, tokens, hidden). */
typedef struct orr_forward_input {
    uint32_t slot;           /* first slot of the caches */
    int64_t samples, tokens; /* samples 0: only exchanges with other ranks */
    const int64_t *ids, *first;
    const uint32_t *request; /* shape (samples): numbers of the prompts */
    const float *pixels;
    int64_t tiles;
    char phase; /* 'p' (prefill) or 'd' (decode), for records of experts */
} orr_forward_input;
orr_status orr_generator_forward(orr_generator *g, const orr_forward_input *feed,
                                 orr_error *err) ORR_MUST_CHECK;
/* Logits of `rows` rows of g->hidden, from `row` on, `step` apart, into g->logits. At most
 * ORR_LM_HEAD_ROWS. */
orr_status orr_generator_logits(orr_generator *g, int64_t row, int64_t step, int64_t rows,
                                orr_error *err) ORR_MUST_CHECK;
/* PARSE: one of the first `rows` rows of logits has NaN or infinity; names the weight that has. */
orr_status orr_generator_check_logits(const orr_generator *g, int64_t rows,
                                      orr_error *err) ORR_MUST_CHECK;
/* Prefills a prompt into a slot, in chunks; `each` (or NULL) is called after each chunk, when
 * g->hidden has its rows. */
typedef orr_status orr_prefill_visit(void *ctx, orr_generator *g, int64_t from, int64_t n,
                                     orr_error *err);
orr_status orr_generator_prefill(orr_generator *g, uint32_t slot, const orr_prompt *prompt,
                                 orr_prefill_visit *each, void *ctx, orr_error *err) ORR_MUST_CHECK;
/* Prefills the next chunk of prompt number `request`, of which *cached tokens are in the cache. */
orr_status orr_generator_prefill_chunk(orr_generator *g, uint32_t slot, uint32_t request,
                                       const orr_prompt *prompt, int64_t *cached,
                                       orr_error *err) ORR_MUST_CHECK;

/* The prompts that a rank answers. */
typedef struct orr_answer_job {
    const orr_prompt *prompts; /* shape (n): of all ranks */
    uint32_t n, n_mine;
    const uint32_t *mine; /* shape (n_mine): of this rank, in order */
    const orr_sampling *sampling;
    bool (*told)(void *ctx, uint32_t prompt, int32_t token);
    void *ctx;
    orr_arena *arena;
    orr_generated *ret; /* shape (n): of this rank's prompts */
    bool *holds;        /* shape (n): set where this rank has the answer in the end; may be NULL */
} orr_answer_job;
orr_status orr_generator_answer(orr_generator *g, const orr_answer_job *job,
                                orr_generation_times *ret_times, orr_error *err) ORR_MUST_CHECK;
/* Most rows of a backbone. */
static inline int64_t orr_generator_rows(const orr_generator *g)
{
    return g->options.batch > ORR_PREFILL_CHUNK_TOKENS ? g->options.batch
                                                       : ORR_PREFILL_CHUNK_TOKENS;
}

/* Begins to record routes; adds the experts that a backbone run chose. */
orr_status orr_generator_open_routes(orr_generator *g, orr_error *err) ORR_MUST_CHECK;
/* Rank 0 writes what all ranks recorded. */
orr_status orr_generator_gather_routes(orr_generator *g, const char *path,
                                       orr_error *err) ORR_MUST_CHECK;
orr_status orr_generator_log_experts(orr_generator *g, const orr_backbone *backbone,
                                     const orr_forward_input *feed, orr_error *err) ORR_MUST_CHECK;

/* Writes the requested trace. */
orr_status orr_generator_write_trace(orr_generator *g, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_GENERATE_GENERATOR_H */
