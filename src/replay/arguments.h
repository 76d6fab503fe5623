/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPLAY_ARGUMENTS_H
#define ORR_REPLAY_ARGUMENTS_H

#include <orrery/graph.h>
#include <orrery/op.h>

/* Arguments and results of a recorded operator: tensors with their storages, numbers, lists of
 * both. From the texts of a PyTorch execution trace or of Chakra; without tensors in the recording
 * (Kineto), every tensor has a storage of its own. */
typedef struct orr_replay_tensor {
    orr_type type;
    int64_t stride[ORR_TYPE_DIMS]; /* elements; contiguous where none were recorded */
    int64_t storage;               /* -1: of its own */
    int64_t offset_bytes;
    int64_t id; /* as recorded; -1 */
} orr_replay_tensor;

enum { ORR_REPLAY_NUMBERS = 8 };
typedef struct orr_replay_argument {
    const orr_replay_tensor *tensors; /* shape (n_tensors): one, or those of a list */
    uint32_t n_tensors;
    double number[ORR_REPLAY_NUMBERS]; /* shape (n_numbers): one, or those of a list; true is 1 */
    uint32_t n_numbers;
} orr_replay_argument;

enum { ORR_REPLAY_ARGUMENTS = 24 };
typedef struct orr_replay_call {
    orr_node_id node;
    const char *name;
    uint32_t n_in, n_out;
    orr_replay_argument in[ORR_REPLAY_ARGUMENTS], out[ORR_REPLAY_ARGUMENTS];
} orr_replay_call;

/* Tensors are in the arena. *ret_known false: the recording has no shapes. Errors: NO_MEMORY. */
orr_status orr_replay_call_read(const orr_graph *graph, orr_node_id node, orr_arena *arena,
                                orr_replay_call *ret, bool *ret_known,
                                orr_error *err) ORR_MUST_CHECK;

/* The tensor of an argument; NULL: it is not one. */
static inline const orr_replay_tensor *orr_replay_in(const orr_replay_call *call, uint32_t i)
{
    return i < call->n_in && call->in[i].n_tensors > 0 ? &call->in[i].tensors[0] : NULL;
}
static inline const orr_replay_tensor *orr_replay_out(const orr_replay_call *call, uint32_t i)
{
    return i < call->n_out && call->out[i].n_tensors > 0 ? &call->out[i].tensors[0] : NULL;
}
/* Number k of an argument, or the default. */
static inline double orr_replay_number(const orr_replay_call *call, uint32_t i, uint32_t k,
                                       double otherwise)
{
    return i < call->n_in && k < call->in[i].n_numbers ? call->in[i].number[k] : otherwise;
}

#endif /* ORR_REPLAY_ARGUMENTS_H */
