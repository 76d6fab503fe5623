/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_EXPERTS_EXCHANGE_STATE_H
#define ORR_ENGINE_EXPERTS_EXCHANGE_STATE_H

#include "engine/experts/exchange.h"

/* Internals of an exchange, shared by exchange.c (between ranks) and arrivals.c (for the experts of
 * this one). */

/* What a rank tells another one first. */
typedef struct orr_wire_count {
    uint32_t rows, choices;
} orr_wire_count;

/* A choice of a row that goes along. */
typedef struct orr_wire_choice {
    uint16_t row;  /* of the parcel */
    uint16_t slot; /* of the rank that receives it, in the layer */
} orr_wire_choice;

/* The choices of a rank's tokens for the slots of another, or of its own: `choices`, then their
 * scores where the exchange is scored, then the rows. */
typedef struct orr_parcel {
    orr_wire_count n;
    char *bytes;
} orr_parcel;

/* A choice that came here. */
typedef struct orr_arrival {
    uint16_t source; /* rank */
    uint32_t choice; /* of its parcel */
} orr_arrival;

struct orr_expert_exchange {
    orr_expert_exchange_options options;
    orr_arena *arena;
    orr_counted_transport counted;
    orr_communicator *ranks;
    uint32_t me, n_ranks;
    orr_expert_wire_format format;
    uint16_t *rank_of;            /* shape (slots of the placement) */
    orr_expert_wire_bytes *bytes; /* shape (layers) */

    /* the tokens of this rank in the current layer */
    uint32_t layer, n_choices; /* n_choices: T x K */
    uint32_t *slot;            /* shape (T, K): of the placement */
    uint32_t *place;           /* shape (T, K): row of the choice when sorted by expert */
    orr_wire_count *sent;      /* shape (R) */
    char *parcel, *returned;   /* one on its way to a rank; results from a rank */

    /* what came for the slots of this rank */
    orr_parcel *arrived;           /* shape (R) */
    uint32_t *first;               /* shape (R + 1): first choice of each rank, counted over all */
    orr_arrival *order;            /* shape (all choices): by slot */
    uint32_t n_slots, *slot_first; /* shape (S + 1): in `order` */
    char *results;                 /* shape (all choices, D): in the order of `first` */
};

static inline size_t orr_parcel_bytes(const orr_expert_exchange *x, orr_wire_count n)
{
    return (size_t)n.choices * (size_t)x->format.choice_bytes +
           (size_t)n.rows * (size_t)x->format.row_bytes;
}
static inline orr_wire_choice *orr_parcel_choices(char *bytes)
{
    return (orr_wire_choice *)(void *)bytes;
}
static inline float *orr_parcel_scores(char *bytes, orr_wire_count n)
{
    return (float *)(void *)(bytes + (size_t)n.choices * sizeof(orr_wire_choice));
}
static inline char *orr_parcel_rows(const orr_expert_exchange *x, char *bytes, orr_wire_count n)
{
    return bytes + (size_t)n.choices * (size_t)x->format.choice_bytes;
}

/* arrivals.c: sorts what has arrived by slot. INVALID: a slot or row that is none. */
orr_status orr_expert_arrivals_sort(orr_expert_exchange *x, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_EXPERTS_EXCHANGE_STATE_H */
