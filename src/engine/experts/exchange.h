/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_EXPERTS_EXCHANGE_H
#define ORR_ENGINE_EXPERTS_EXCHANGE_H

#include <orrery/arena.h>
#include <orrery/dtype.h>
#include <orrery/experts.h>

#include "engine/experts/counted_transport.h"
#include "engine/ranks/communicator.h"

/* The exchange of rows between ranks whose experts stand by a placement: T tokens of this rank, K
 * experts of each, D columns of a row, R ranks, S slots of this rank in a layer.
 *
 * In each layer every rank calls, also without tokens: orr_expert_exchange_dispatch(), which sends
 * each token once to each distinct other rank that has one of its slots;
 * orr_expert_exchange_rows() and _results() for all rows that came here, in pieces;
 * orr_expert_exchange_combine(), which sends the result of each choice back on its own. The token's
 * rank then has the K rows of each token where DISPATCH (op/families/routing.c) of one process
 * would put them, so that sums have one order wherever experts stand. Rows are copied as they are,
 * so results have the same bits for any placement.
 *
 * On the wire, to each other rank: in every layer two counts; where there are rows, the choices and
 * the rows, nothing padded; and a row for each choice on the way back. orr_expert_wire_format() has
 * the sizes, with which orr_experts_count_traffic() predicts all bytes. */
typedef struct orr_expert_exchange orr_expert_exchange;

typedef struct orr_expert_wire_format {
    int64_t count_bytes;  /* from each rank to each other one, in each layer of each round */
    int64_t choice_bytes; /* of a remote choice, on its way to the expert */
    int64_t row_bytes;    /* of a token sent to a rank */
    int64_t result_bytes; /* of a remote choice, on its way back */
} orr_expert_wire_format;

/* Bytes that this rank sent: shape (ORR_WIRE_LEVELS) each. */
typedef struct orr_expert_wire_bytes {
    uint64_t counts[ORR_WIRE_LEVELS], dispatch[ORR_WIRE_LEVELS], combine[ORR_WIRE_LEVELS];
} orr_expert_wire_bytes;

typedef struct orr_expert_exchange_options {
    orr_transport *transport;
    uint32_t channel;
    const orr_expert_placement *placement; /* its ranks are those of the transport */
    uint32_t top_k;                        /* K */
    int64_t columns;                       /* D */
    orr_dtype dtype, result_dtype;
    bool scored;     /* a row is multiplied by its score before its expert (Llama 4) */
    uint32_t tokens; /* most of a rank in a layer: ORR_EXPERT_TOKENS_MAX at most */
} orr_expert_exchange_options;
enum { ORR_EXPERT_TOKENS_MAX = UINT16_MAX };
/* INVALID: a placement of other ranks, larger tokens. */
orr_status orr_expert_exchange_new(const orr_expert_exchange_options *options,
                                   orr_expert_exchange **ret, orr_error *err) ORR_MUST_CHECK;
void orr_expert_exchange_free(orr_expert_exchange *exchange);
/* Another placement, on all ranks between the same two layers. It must outlive the exchange or the
 * next one. */
orr_status orr_expert_exchange_place(orr_expert_exchange *exchange,
                                     const orr_expert_placement *placement,
                                     orr_error *err) ORR_MUST_CHECK;

/* The tokens of this rank in a layer. */
typedef struct orr_expert_tokens {
    uint32_t n;              /* T */
    const void *rows;        /* shape (T, D) */
    const int32_t *choice;   /* shape (T, K): experts, in the router's order */
    const float *score;      /* shape (T, K); only where the exchange is scored */
    const uint32_t *request; /* shape (T): numbers of requests, and positions in them: what picks */
    const uint32_t *position; /* among copies */
} orr_expert_tokens;
/* `layer`: an index of the placement. *ret_n: rows for this rank's experts. INVALID: an expert that
 * has no slot; IO: of the transport. */
orr_status orr_expert_exchange_dispatch(orr_expert_exchange *exchange, uint32_t layer,
                                        const orr_expert_tokens *tokens, uint32_t *ret_n,
                                        orr_error *err) ORR_MUST_CHECK;
/* Rows [from, from + n) of those that came, sorted by slot: ret_rows, shape (n, D), and how many
 * each slot has of them: ret_counts, shape (S). */
void orr_expert_exchange_rows(const orr_expert_exchange *exchange, uint32_t from, uint32_t n,
                              void *ret_rows, int32_t *ret_counts);
/* The experts' results of the same rows. */
void orr_expert_exchange_results(orr_expert_exchange *exchange, uint32_t from, uint32_t n,
                                 const void *results);
/* ret_sorted: shape (T x K, D), sorted by expert, rows of an expert in the order of (token,
 * choice). */
orr_status orr_expert_exchange_combine(orr_expert_exchange *exchange, void *ret_sorted,
                                       orr_error *err) ORR_MUST_CHECK;

/* Bytes of the rows that went through the last dispatch and combine: of all peers and of this rank
 * itself, sent and received. */
typedef struct orr_expert_exchanged {
    int64_t sent, received;
} orr_expert_exchanged;
orr_expert_exchanged orr_expert_exchange_dispatched(const orr_expert_exchange *exchange);
orr_expert_exchanged orr_expert_exchange_combined(const orr_expert_exchange *exchange);

/* All ranks, members by rank, over the counted transport: for what ranks agree about between
 * layers. */
orr_communicator *orr_expert_exchange_ranks(orr_expert_exchange *exchange);
orr_expert_wire_format orr_expert_exchange_format(const orr_expert_exchange *exchange);
/* Shape (layers of the placement). */
const orr_expert_wire_bytes *orr_expert_exchange_bytes(const orr_expert_exchange *exchange);
/* Where bytes that are not of a layer are counted from now on, shape (ORR_WIRE_LEVELS); NULL: among
 * the other bytes. */
void orr_expert_exchange_count(orr_expert_exchange *exchange, uint64_t *sent);
/* Bytes of all else that went over the transport: shape (ORR_WIRE_LEVELS). */
const uint64_t *orr_expert_exchange_other_bytes(const orr_expert_exchange *exchange);

#endif /* ORR_ENGINE_EXPERTS_EXCHANGE_H */
