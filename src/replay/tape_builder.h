/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPLAY_TAPE_BUILDER_H
#define ORR_REPLAY_TAPE_BUILDER_H

#include <orrery/replay.h>

#include "base/array.h"
#include "engine/run/program.h"
#include "replay/arguments.h"
#include "trace/common/idmap.h"

/* Builds a tape from a recorded trace: its operators as calls of ours, on tensors in the recorded
 * storages, which live from the first call that uses them to the last. */
typedef struct orr_replay_storage {
    int64_t bytes;
    bool written;         /* by an earlier call */
    uint32_t first, last; /* calls */
} orr_replay_storage;

typedef struct orr_replay_value_location { /* location of a value of the tape */
    uint32_t storage;                      /* ORR_NONE: the program's own */
    int64_t offset_bytes;
} orr_replay_value_location;

/* Random indices below a limit, so that lookups are valid whatever the recording did in between. */
typedef struct orr_replay_indices {
    orr_value value;
    int64_t n, limit;
    bool offsets; /* ascending: offsets of bags */
} orr_replay_indices;

typedef struct orr_replay_builder {
    orr_arena *arena;
    orr_tape tape;
    uint32_t node; /* index of the current operator, the tag of its calls */
    uint8_t lane;
    uint32_t ranks; /* ranks that replay together */
    orr_idmap storage_of;
    orr_array(orr_replay_storage) storages;
    orr_array(orr_replay_value_location) places; /* by value */
    orr_array(orr_program_call) calls;
    orr_array(orr_program_dep) deps;
    orr_array(orr_replay_indices) indices;
    uint32_t last_collective; /* call of the last collective; ORR_NONE */
} orr_replay_builder;

void orr_replay_builder_init(orr_replay_builder *b, orr_arena *arena);
void orr_replay_builder_done(orr_replay_builder *b);

/* A value of `type` in a recorded tensor's storage, starting where the tensor does. */
orr_status orr_replay_value(orr_replay_builder *b, const orr_replay_tensor *t, const orr_type *type,
                            orr_value *ret, orr_error *err) ORR_MUST_CHECK;
/* The tensor as a value; dtypes without kernels are seen as fp32 of as many bytes. */
orr_status orr_replay_tensor_value(orr_replay_builder *b, const orr_replay_tensor *t,
                                   orr_value *ret, orr_error *err) ORR_MUST_CHECK;
/* Whether an earlier call has written the tensor's storage. */
bool orr_replay_is_written(const orr_replay_builder *b, const orr_replay_tensor *t);
/* All its elements, flat. */
orr_status orr_replay_flat_value(orr_replay_builder *b, const orr_replay_tensor *t, orr_value *ret,
                                 orr_error *err) ORR_MUST_CHECK;
/* A tensor that was not recorded: in the program's memory. */
orr_status orr_replay_new_value(orr_replay_builder *b, const orr_type *type, orr_value *ret,
                                orr_error *err) ORR_MUST_CHECK;
/* `type`: of int64. */
orr_status orr_replay_random_index_value(orr_replay_builder *b, const orr_type *type, int64_t limit,
                                         bool offsets, orr_value *ret,
                                         orr_error *err) ORR_MUST_CHECK;

/* Records an operator; output k goes to `to[k]` where that is not NULL and large enough. `ret` (or
 * NULL), shape (outputs). */
orr_status orr_replay_apply(orr_replay_builder *b, orr_op op, const orr_op_args *args,
                            const orr_value *in, uint32_t n_in, const orr_replay_tensor *const *to,
                            uint32_t n_to, orr_value *ret, orr_error *err) ORR_MUST_CHECK;
/* Emulates an operator: the lane is busy for `ns`. */
orr_status orr_replay_emulate(orr_replay_builder *b, int64_t ns, orr_error *err) ORR_MUST_CHECK;

/* How an operator is run. NOT_FOUND: no rule; the caller descends, or emulates. UNSUPPORTED: a rule
 * that does not apply here, and why. */
typedef enum orr_replay_method {
    ORR_REPLAY_KERNEL,
    ORR_REPLAY_VIEW,
    ORR_REPLAY_EMULATED,
    ORR_REPLAY_SKIPPED,
    ORR_REPLAY_COLLECTIVE
} orr_replay_method;
const char *orr_replay_method_name(orr_replay_method how);
typedef struct orr_replay_rule {
    const char *name; /* without "aten::" and the "_" of in-place forms; a final '*': prefix */
    uint8_t how;      /* KERNEL, VIEW or COLLECTIVE */
    uint8_t op;       /* what the builder may want to know */
    orr_status (*build)(orr_replay_builder *b, const orr_replay_call *call, uint8_t op,
                        orr_error *err);
} orr_replay_rule;
const orr_replay_rule *orr_replay_rule_of(const char *name); /* NULL */

/* Builders of rules, one file per family. */
#define ORR_REPLAY_BUILDER_(name)                                                                  \
    orr_status orr_replay_##name(orr_replay_builder *b, const orr_replay_call *call, uint8_t op,   \
                                 orr_error *err) ORR_MUST_CHECK;
#define ORR_REPLAY_BUILDER_MAP(X)                                                                  \
    X(mm)                                                                                          \
    X(addmm)                                                                                       \
    X(linear) X(bmm) X(convolution) X(convolution_backward) X(unary) X(binary) X(many)             \
        X(activation_backward) X(fill) X(copy) X(sum) X(dropout) X(layer_norm)                     \
            X(layer_norm_backward) X(batch_norm) X(batch_norm_backward) X(softmax)                 \
                X(softmax_backward) X(concat) X(pool) X(pool_backward) X(embedding)                \
                    X(embedding_backward) X(embedding_bag) X(gather) X(attention)                  \
                        X(attention_backward) X(collective) X(exchange)
ORR_REPLAY_BUILDER_MAP(ORR_REPLAY_BUILDER_)
#undef ORR_REPLAY_BUILDER_

#endif /* ORR_REPLAY_TAPE_BUILDER_H */
