/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_GENERATE_EXPERTS_H
#define ORR_ENGINE_GENERATE_EXPERTS_H

#include "engine/experts/exchange.h"
#include "engine/generate/generator.h"

/* Experts of a generator that is one rank of several: this rank has the experts of its slots.
 *
 * A backbone program ends its calls of a layer at the router. In place of DISPATCH and the experts
 * stands a call that sends rows (orr_expert_call.dispatch), and then one that sends results back
 * (.combine), before COMBINE. Between these two calls the rows that came are run through another
 * program, with the experts alone, in pieces: as many rows as there happen to be. A rank without
 * tokens runs a backbone of these calls alone. */

/* The calls of a module between its router and COMBINE. */
typedef struct orr_expert_part {
    uint32_t dispatch, combine; /* calls; ORR_NONE: a dense module */
    const bool *inside;         /* shape (n_calls): of the experts alone */
    const bool *hidden;         /* shape (n_values): read and made by such calls alone */
} orr_expert_part;
orr_status orr_expert_part_of(const orr_tape *tape, orr_arena *arena, orr_expert_part *ret,
                              orr_error *err) ORR_MUST_CHECK;

/* The exchange of a layer, as two calls of a backbone. */
struct orr_expert_call {
    orr_generator *g;
    orr_backbone *backbone;
    uint32_t layer;                /* index of the placement */
    uint32_t dispatch, combine;    /* calls */
    orr_value rows, choice, score; /* ORR_NONE: without tokens, or score not needed */
    orr_value sorted;
};

/* The program of one layer's experts: `rows` rows, sorted by slot, to their results. */
enum { ORR_EXPERT_PROGRAMS = 16, ORR_EXPERT_WEIGHTS = 4, ORR_EXPERT_PIECE_ROWS = 1024 };
typedef struct orr_expert_program {
    orr_cached_program served;
    uint32_t module; /* of the sequence */
    int64_t rows, slots;
    const char *names[ORR_EXPERT_WEIGHTS];
    uint8_t formats[ORR_EXPERT_WEIGHTS];         /* of its weights: workspaces depend on them */
    orr_weight_rows weights[ORR_EXPERT_WEIGHTS]; /* of the layer that runs, set before */
    uint32_t n_weights;
} orr_expert_program;

/* A weight of experts, and the rows of those that this rank has. */
typedef struct orr_expert_weight {
    uint32_t layer; /* index of the placement */
    uint32_t place, nth;
    const char *name;
    orr_weight_rows source; /* of all experts; n_segments 0: drawn from the seed */
    int64_t rows;           /* of an expert */
    uint8_t format;         /* orr_row_format, of the slots */
    orr_weight_rows slots;  /* segments: those of the experts in this rank's slots, then of the
                             * first again up to `slots` of orr_expert_parallel */
    char **made; /* shape (E): rows of an expert here that were converted, drawn or received; NULL:
                  * mapped, or not here */
} orr_expert_weight;

/* What a rank says of itself between rounds. */
typedef struct orr_rank_state {
    uint8_t works, over; /* it has something to do; it was told to end */
    uint8_t prefills, unused;
    uint32_t group;  /* where its sequence that was just prefilled should go on; ORR_NONE: here */
    uint32_t active; /* slots that are taken */
    uint32_t unused2;
    uint64_t tokens; /* in the caches of active slots */
} orr_rank_state;

struct orr_expert_parallel {
    const orr_expert_placement *placement;
    orr_expert_exchange *exchange;
    orr_communicator *communicators[ORR_AXES];
    orr_module_sequence row; /* of one token */
    orr_dtype dtype;         /* of rows */
    uint32_t *place;         /* shape (layers): of a layer of the placement */
    uint32_t rank;
    uint32_t slots; /* most of this rank in a layer */
    uint64_t rounds;
    orr_array(orr_generated_round) times; /* of the rounds before the one that runs */
    int64_t agreed_ns;                    /* when ranks agreed last */
    bool prefills;                        /* some rank does in this round */
    int64_t dispatched_ns, experts_ns;    /* when the layer that runs began to send its tokens; from
                                           * there to their results, sum of all layers so far */
    const orr_expert_groups *groups; /* that requests go on in after their prefill; NULL: none */
    uint32_t n_groups;               /* a divisor of the ranks */
    uint32_t *counts_of;             /* shape (layers, E): choices of the prompt being prefilled */
    struct orr_rebalancer *rebalancer;                     /* or NULL */
    uint64_t moved_requests, moved_bytes[ORR_WIRE_LEVELS]; /* sent to other ranks */
    uint32_t arrived;                                      /* rows of the layer that runs */
    orr_array(orr_expert_weight) weights;
    orr_expert_program programs[ORR_EXPERT_PROGRAMS];
    void *rows, *results;         /* shape (ORR_EXPERT_PIECE_ROWS, D) */
    int32_t *counts;              /* shape (slots) */
    uint32_t *request, *position; /* shape (rows of a backbone) */
    orr_rank_state *states;       /* shape (ranks): what each said before this round */
    uint32_t tokens;              /* of the backbone that runs; 0: none */
};

/* Opens a generator as one rank of several. The placement must outlive it. */
typedef struct orr_generator_rank {
    orr_transport *transport;
    const orr_expert_placement *placement;
    const orr_expert_groups *groups; /* of requests, fitted; NULL: they stay where they are */
    uint32_t n_groups;
    const struct orr_rebalance_options *rebalance; /* NULL: experts stay where they are */
} orr_generator_rank;
orr_status orr_generator_open_rank(const orr_generator_options *options,
                                   const orr_generator_rank *rank, orr_generator **ret,
                                   orr_error *err) ORR_MUST_CHECK;

/* The placement of the model's layers with experts: that of `ranks`, else neighbouring experts. */
orr_status orr_generator_place(const orr_model *model, const orr_generator_ranks *ranks,
                               orr_arena *arena, orr_expert_placement *ret,
                               orr_error *err) ORR_MUST_CHECK;
/* Threads of a rank of several: as asked for, else the cores are shared out. */
int orr_generator_rank_threads(int asked, uint32_t ranks);

/* Takes the placement of this rank's experts. INVALID: a placement of another model. */
orr_status orr_generator_experts_open(orr_generator *g, const orr_generator_rank *rank,
                                      orr_error *err) ORR_MUST_CHECK;
void orr_generator_experts_close(orr_generator *g);
/* Index of the placement for a place; ORR_NONE: dense. */
uint32_t orr_generator_expert_layer(const orr_generator *g, uint32_t place);

/* After the placement has changed: the most slots of a layer here, and the rows of all slots. */
orr_status orr_generator_count_slots(orr_generator *g, orr_error *err) ORR_MUST_CHECK;
/* The experts in this rank's slots of a layer. */
const uint16_t *orr_generator_experts_of(const orr_expert_parallel *experts, uint32_t layer,
                                         uint32_t *ret_n);

/* expert_weights.c: notes a weight of experts whose stored rows are `source` (n_segments 0: drawn
 * from the seed). */
orr_status orr_expert_weight_add(orr_generator *g, const orr_expert_weight *weight,
                                 orr_error *err) ORR_MUST_CHECK;
/* Makes the rows of all slots of this rank. */
orr_status orr_expert_weights_make(orr_generator *g, orr_error *err) ORR_MUST_CHECK;
/* The slots of all weights, after the placement has changed: their experts have rows. */
orr_status orr_expert_weights_list(orr_generator *g, orr_error *err) ORR_MUST_CHECK;
/* Room for the rows of an expert that is to come; gives up those that were made or have come; a
 * copy of the rows of one that is here. */
orr_status orr_expert_weight_take(const orr_expert_weight *weight, uint32_t expert,
                                  orr_error *err) ORR_MUST_CHECK;
void orr_expert_weight_drop(const orr_expert_weight *weight, uint32_t expert);
void orr_expert_weight_copy(const orr_expert_weight *weight, uint32_t expert, char *ret);
int64_t orr_expert_weight_bytes(const orr_expert_weight *weight); /* of an expert */
void orr_expert_weights_free(orr_generator *g);

/* expert_program.c: runs the rows that came for a layer. */
orr_status orr_generator_run_experts(orr_generator *g, uint32_t layer,
                                     orr_error *err) ORR_MUST_CHECK;
/* Makes the programs of few rows and touches their memory, so that the first tokens need not wait
 * for that. */
orr_status orr_generator_warm_experts(orr_generator *g, orr_error *err) ORR_MUST_CHECK;
void orr_expert_program_free(orr_expert_program *program);

/* Tells all ranks the state of this one, between rounds. *ret_going: some rank works, and none has
 * ended all. */
orr_status orr_generator_agree(orr_generator *g, const orr_rank_state *state, bool *ret_going,
                               orr_error *err) ORR_MUST_CHECK;

/* grouping.c: counts what a prompt's prefill chose from now on; adds what a backbone chose. Nothing
 * where requests are not grouped. */
void orr_generator_group_begin(orr_generator *g);
void orr_generator_group_count(orr_generator *g, const orr_backbone *backbone);
/* The group of the prompt, if it is not this rank's; else ORR_NONE. */
uint32_t orr_generator_group(const orr_generator *g);

/* expert_calls.c: runs a backbone, exchanges and experts included. */
orr_status orr_generator_run_backbone(orr_generator *g, orr_backbone *backbone,
                                      orr_error *err) ORR_MUST_CHECK;
/* Writes the exchange of a layer to the writer's tape: `module` NULL: without tokens. */
struct orr_program_writer;
orr_status orr_expert_call_write(struct orr_program_writer *w, const orr_tape *module,
                                 const orr_expert_part *part) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_GENERATE_EXPERTS_H */
