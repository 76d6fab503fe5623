/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_GENERATE_GENERATOR_H
#define ORR_ENGINE_GENERATE_GENERATOR_H

#include <orrery/engine.h>

#include "base/array.h"
#include "engine/run/program.h"
#include "engine/record/recorder.h"
#include "model/module/module.h"

/* A model that serves, in pieces: what the files serve*.c and generate*.c share.
 *
 * What runs is two kinds of programs: bodies, from tokens to what goes into the head, of so many
 * samples and tokens; and heads, from some of these rows to logits. Both are written from the
 * modules that `simulate` times, with weights where the checkpoint has them. Programs are kept for
 * as long as their shapes come again. */

/* A parameter of a place, bound for all programs. */
typedef struct orr_bound_weight {
    uint32_t place, nth;
    const char *name;
    orr_binding binding;
    orr_weight_rows rows;
    int64_t read_bytes; /* for a token: all of a product's, nothing of a table's */
} orr_bound_weight;

/* Calls that choose experts, and where a program leaves their choice. */
typedef struct orr_expert_choice {
    uint32_t place;
    orr_value indices;
    void *data; /* shape (samples, tokens, K) */
} orr_expert_choice;

/* A cache of a place, as a value of a program's tape. */
typedef struct orr_kv_cache_value {
    uint32_t place;
    orr_value value;
    bool values; /* else keys */
} orr_kv_cache_value;

/* A program, with the tape that it is of. */
typedef struct orr_cached_program {
    orr_arena *arena; /* NULL: there is none here */
    orr_tape tape;
    orr_array(orr_binding) bindings;
    orr_program *program;
    uint64_t used; /* when last */
} orr_cached_program;

typedef struct orr_backbone {
    orr_cached_program served;
    int64_t samples, tokens, tiles;        /* tiles: of pictures; 0: none */
    orr_value ids, positions, pixels, out; /* ORR_NONE: the model has none */
    orr_array(orr_kv_cache_value) caches;
    orr_array(orr_expert_choice) choices;
} orr_backbone;

typedef struct orr_lm_head {
    orr_cached_program served;
    int64_t rows;
    orr_value in, out;
} orr_lm_head;

enum { ORR_BACKBONES = 4, ORR_LM_HEADS = 2, ORR_PREFILL_CHUNK_TOKENS = 512 };

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
    size_t *cache_bytes;   /* shape (places): of one sample, of each of both */
    orr_backbone bodies[ORR_BACKBONES];
    orr_lm_head heads[ORR_LM_HEADS];
    uint64_t clock;                   /* counts runs */
    int64_t *ids, *positions, *first; /* room for what is fed */
    float *logits;                    /* shape (ORR_LM_HEAD_ROWS, vocab) */
    void *hidden;                     /* shape (batch * ORR_PREFILL_CHUNK_TOKENS, hidden) */
    orr_recorder *recorder;           /* or NULL */
    orr_array(char) experts;          /* lines of CSV */
    uint64_t requests;
};
enum { ORR_LM_HEAD_ROWS = 64 };

/* Modules for so many samples and tokens, in an arena. `tiles` of pictures a sample. */
orr_status orr_generator_modules(const orr_generator *g, int64_t samples, int64_t tokens,
                                 int64_t tiles, orr_arena *arena, orr_module_sequence *ret,
                                 orr_error *err) ORR_MUST_CHECK;
/* Room for n times so many bytes, zeros that cost nothing until they are touched, in large pages
 * where the system has them; until the generator is closed. NULL: no memory. */
void *orr_generator_allocate(orr_generator *g, size_t n, size_t bytes);
/* Weights of all places: mapped, quantised, or drawn. */
orr_status orr_generator_bind_weights(orr_generator *g, orr_error *err) ORR_MUST_CHECK;
const orr_binding *orr_generator_weight(const orr_generator *g, uint32_t place, const char *name,
                                        uint32_t nth);

/* A program for this shape: one that there is, or a new one in place of the one not used for
 * longest. */
orr_status orr_generator_backbone(orr_generator *g, int64_t samples, int64_t tokens, int64_t tiles,
                                  orr_backbone **ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_generator_lm_head(orr_generator *g, int64_t rows, orr_lm_head **ret,
                                 orr_error *err) ORR_MUST_CHECK;
void orr_backbone_free(orr_backbone *body);
void orr_lm_head_free(orr_lm_head *head);

/* Tokens `ids`, shape (samples, tokens), go in behind first[b] that are cached of sample slot + b;
 * g->hidden then has what comes out, shape (samples, tokens, hidden). */
typedef struct orr_forward_input {
    uint32_t slot; /* first sample of the caches */
    int64_t samples, tokens;
    const int64_t *ids, *first;
    const float *pixels;
    int64_t tiles;
    char phase; /* 'p' or 'd', of records of experts */
} orr_forward_input;
orr_status orr_generator_forward(orr_generator *g, const orr_forward_input *feed,
                                 orr_error *err) ORR_MUST_CHECK;
/* Logits of `rows` rows of g->hidden from `row` on, in steps of `step` rows, into g->logits. At
 * most ORR_LM_HEAD_ROWS. */
orr_status orr_generator_logits(orr_generator *g, int64_t row, int64_t step, int64_t rows,
                                orr_error *err) ORR_MUST_CHECK;
/* A prompt into the caches of a slot, in chunks; `each` (or NULL) is called after each chunk, when
 * g->hidden has its rows. */
typedef orr_status orr_prefill_visit(void *ctx, orr_generator *g, int64_t from, int64_t n,
                                     orr_error *err);
orr_status orr_generator_prefill(orr_generator *g, uint32_t slot, const orr_prompt *prompt,
                                 orr_prefill_visit *each, void *ctx, orr_error *err) ORR_MUST_CHECK;

/* What experts a run of a body chose, as lines. */
orr_status orr_generator_log_experts(orr_generator *g, const orr_backbone *body,
                                     const orr_forward_input *feed, orr_error *err) ORR_MUST_CHECK;

/* What ran, as the trace that was asked for. */
orr_status orr_generator_write_trace(orr_generator *g, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_GENERATE_GENERATOR_H */
