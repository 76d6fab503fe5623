/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_SERVE_H
#define ORR_ENGINE_SERVE_H

#include <orrery/engine.h>

#include "base/array.h"
#include "engine/run/program.h"
#include "engine/record/recorder.h"
#include "model/module/module.h"

/* A model that serves, in pieces: what the files serve*.c and generate*.c share.
 *
 * What runs is two kinds of programs: bodies, from tokens to what goes into the head, of so many samples
 * and tokens; and heads, from some of these rows to logits. Both are written from the modules that
 * `simulate` times, with weights where the checkpoint has them. Programs are kept for as long as their
 * shapes come again. */

/* A parameter of a place, bound for all programs. */
typedef struct orr_served_weight {
    uint32_t    place, nth;
    const char *name;
    orr_binding binding;
    orr_weight_rows    rows;
    int64_t     read_bytes; /* for a token: all of a product's, nothing of a table's */
} orr_served_weight;

/* Calls that choose experts, and where a program leaves their choice. */
typedef struct orr_served_choice {
    uint32_t place;
    orr_value indices;
    void    *data;  /* shape (samples, tokens, K) */
} orr_served_choice;

/* A cache of a place, as a value of a program's tape. */
typedef struct orr_served_cache {
    uint32_t  place;
    orr_value value;
    bool      values; /* else keys */
} orr_served_cache;

/* A program, with the tape that it is of. */
typedef struct orr_served {
    orr_arena   *arena;     /* NULL: there is none here */
    orr_tape     tape;
    orr_array(orr_binding) bindings;
    orr_program *program;
    uint64_t     used;      /* when last */
} orr_served;

typedef struct orr_body {
    orr_served   served;
    int64_t      samples, tokens, tiles; /* tiles: of pictures; 0: none */
    orr_value    ids, positions, pixels, out; /* ORR_NONE: the model has none */
    orr_array(orr_served_cache)  caches;
    orr_array(orr_served_choice) choices;
} orr_body;

typedef struct orr_head {
    orr_served   served;
    int64_t      rows;
    orr_value    in, out;
} orr_head;

enum { ORR_BODIES = 4, ORR_HEADS = 2, ORR_CHUNK_TOKENS = 512 };

struct orr_generator {
    orr_generator_options options;
    orr_model    model;
    orr_plan     plan;
    orr_arena   *arena;
    orr_array(void *) held;  /* by orr_serve_hold() */
    orr_backend *backend;
    orr_workers *workers;
    int64_t      capacity;  /* tokens of a cache */
    uint32_t     n_places;
    orr_array(orr_served_weight) weights;
    char       **keys, **values; /* shape (places): caches (batch, capacity, G, W); NULL: none */
    size_t      *cache_bytes;    /* shape (places): of one sample, of each of both */
    orr_body     bodies[ORR_BODIES];
    orr_head     heads[ORR_HEADS];
    uint64_t     clock;     /* counts runs */
    int64_t     *ids, *positions, *first; /* room for what is fed */
    float       *logits;    /* shape (ORR_HEAD_ROWS, vocab) */
    void        *hidden;    /* shape (batch * ORR_CHUNK_TOKENS, hidden) */
    orr_recorder *recorder; /* or NULL */
    orr_array(char) experts; /* lines of CSV */
    uint64_t     requests;
};
enum { ORR_HEAD_ROWS = 64 };

/* Modules for so many samples and tokens, in an arena. `tiles` of pictures a sample. */
orr_status orr_serve_modules(const orr_generator *g, int64_t samples, int64_t tokens, int64_t tiles,
                             orr_arena *arena, orr_module_sequence *ret, orr_error *err) ORR_MUST_CHECK;
/* Room for n times so many bytes, zeros that cost nothing until they are touched, in large pages where
 * the system has them; until the generator is closed. NULL: no memory. */
void *orr_serve_hold(orr_generator *g, size_t n, size_t bytes);
/* Weights of all places: mapped, quantised, or drawn. */
orr_status orr_serve_bind_weights(orr_generator *g, orr_error *err) ORR_MUST_CHECK;
const orr_binding *orr_serve_weight(const orr_generator *g, uint32_t place, const char *name, uint32_t nth);

/* A program for this shape: one that there is, or a new one in place of the one not used for longest. */
orr_status orr_serve_body(orr_generator *g, int64_t samples, int64_t tokens, int64_t tiles,
                          orr_body **ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_serve_head(orr_generator *g, int64_t rows, orr_head **ret, orr_error *err) ORR_MUST_CHECK;
void orr_body_free(orr_body *body);
void orr_head_free(orr_head *head);

/* Tokens `ids`, shape (samples, tokens), go in behind first[b] that are cached of sample slot + b;
 * g->hidden then has what comes out, shape (samples, tokens, hidden). */
typedef struct orr_feed {
    uint32_t slot;          /* first sample of the caches */
    int64_t  samples, tokens;
    const int64_t *ids, *first;
    const float   *pixels;
    int64_t  tiles;
    char     phase;         /* 'p' or 'd', of records of experts */
} orr_feed;
orr_status orr_serve_feed(orr_generator *g, const orr_feed *feed, orr_error *err) ORR_MUST_CHECK;
/* Logits of `rows` rows of g->hidden from `row` on, in steps of `step` rows, into g->logits. At most
 * ORR_HEAD_ROWS. */
orr_status orr_serve_logits(orr_generator *g, int64_t row, int64_t step, int64_t rows,
                            orr_error *err) ORR_MUST_CHECK;
/* A prompt into the caches of a slot, in chunks; `each` (or NULL) is called after each chunk, when g->hidden
 * has its rows. */
typedef orr_status orr_chunk_visit(void *ctx, orr_generator *g, int64_t from, int64_t n, orr_error *err);
orr_status orr_serve_prompt(orr_generator *g, uint32_t slot, const orr_prompt *prompt, orr_chunk_visit *each,
                            void *ctx, orr_error *err) ORR_MUST_CHECK;

/* What experts a run of a body chose, as lines. */
orr_status orr_serve_note_experts(orr_generator *g, const orr_body *body, const orr_feed *feed,
                                  orr_error *err) ORR_MUST_CHECK;

/* What ran, as the trace that was asked for. */
orr_status orr_serve_write_record(orr_generator *g, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_SERVE_H */
