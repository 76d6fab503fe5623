/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_CHECKPOINT_CHECKPOINT_H
#define ORR_ENGINE_CHECKPOINT_CHECKPOINT_H

#include <orrery/team.h>
#include <orrery/weights.h>

#include "engine/step/step.h"

/* Checkpoints of training: a folder
 *
 *   latest                               "step-00000200": the one to go on from
 *   step-00000200/rank-00000.safetensors what rank 0 has, and so on
 *
 * A file has for each parameter `place.name.nth` the tensors "/master", "/mean" and "/square", flat
 * fp32: numbers of the rank's shard. Its metadata say step, seed, plan, model, which batches come
 * next
 * ("next", and those "returned" to a team), how many ranks there are, and for each parameter
 * ("own.place.name.nth") which part of the whole the shard is. So a job can go on in another plan.
 *
 * Files are written beside and renamed; `latest` is replaced last, when all ranks have written
 * theirs. Whatever is killed at whatever moment, `latest` names one that is whole. */
typedef struct orr_checkpoint_metadata {
    const char *model, *plan; /* its name; text of the completed plan */
    uint64_t seed;
    uint32_t rank, ranks;
} orr_checkpoint_metadata;

/* Writes in a thread of its own from a copy of the numbers, while training goes on. */
typedef struct orr_checkpointer orr_checkpointer;
orr_status orr_checkpointer_new(const char *folder, const orr_checkpoint_metadata *facts,
                                const orr_parameter *parameters, uint32_t n, orr_checkpointer **ret,
                                orr_error *err) ORR_MUST_CHECK;
/* Copies all numbers and begins to write them; waits for the one before first. Errors: of that one.
 */
orr_status orr_checkpointer_save(orr_checkpointer *c, int64_t step,
                                 const orr_team_data_cursor *data, orr_error *err) ORR_MUST_CHECK;
orr_status orr_checkpointer_wait(orr_checkpointer *c, orr_error *err) ORR_MUST_CHECK;
int64_t orr_checkpointer_written(orr_checkpointer *c); /* step of the last that is whole; 0: none */
int64_t orr_checkpointer_bytes(const orr_checkpointer *c); /* that it holds; of NULL: 0 */
void orr_checkpointer_free(orr_checkpointer *c);           /* NULL is allowed; waits */
/* All ranks have written this step: it is the latest now. The one before it stays, older ones go.
 */
orr_status orr_checkpoint_commit(const char *folder, int64_t step, orr_error *err) ORR_MUST_CHECK;

/* A folder of checkpoints, as far as it is nothing else. */
void orr_checkpoint_remove(const char *folder);

/* The latest of a folder. NOT_FOUND: there is none. */
typedef struct orr_checkpoint {
    int64_t step;
    uint64_t seed;
    uint32_t ranks;
    orr_team_data_cursor data; /* batches that are still to be trained */
    const char *plan, *model;
    orr_weights **files; /* shape (ranks) */
} orr_checkpoint;
orr_status orr_checkpoint_open(const char *folder, orr_checkpoint **ret,
                               orr_error *err) ORR_MUST_CHECK;
void orr_checkpoint_close(orr_checkpoint *checkpoint); /* NULL is allowed */
/* Masters and moments of a rank: as the same rank wrote them, or, of another plan, put together
 * from all that have a part. INVALID: a parameter that is not there, or of other dims. */
orr_status orr_checkpoint_restore(const orr_checkpoint *checkpoint,
                                  const orr_checkpoint_metadata *facts,
                                  const orr_parameter *parameters, uint32_t n,
                                  orr_error *err) ORR_MUST_CHECK;
/* A whole parameter's "master", "mean" or "square", of `elements` numbers. */
orr_status orr_checkpoint_read_tensor(const orr_checkpoint *checkpoint, const char *parameter,
                                      const char *part, float *ret, int64_t elements,
                                      orr_error *err) ORR_MUST_CHECK;

/* "3.qkv.0" */
enum { ORR_PARAMETER_KEY_CHARS = 96 };
const char *orr_parameter_key(uint32_t place, const char *name, uint32_t nth,
                              char ret[ORR_PARAMETER_KEY_CHARS]);

#endif /* ORR_ENGINE_CHECKPOINT_CHECKPOINT_H */
