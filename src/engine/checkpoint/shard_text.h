/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_CHECKPOINT_SHARD_TEXT_H
#define ORR_ENGINE_CHECKPOINT_SHARD_TEXT_H

#include "engine/step/step.h"

/* Numbers of 0 or more, separated by spaces. After one that cannot be read `failed` stands. */
typedef struct orr_number_text {
    const char *at;
    bool failed;
} orr_number_text;
/* 0: failed. */
int64_t orr_number_text_next(orr_number_text *text);

/* Which part of a whole tensor a shard is, as the metadata of a checkpoint say it: numbers
 * separated by spaces: rank, whole dims, own dims; for each dim the number of pieces and their
 * whole, own, count; the shard's first and count. Where rows are not as the pieces say (experts of
 * a placement): for each index of own dim 0 that in the whole one. */

/* In the arena; NULL: no memory. */
const char *orr_shard_text(const orr_parameter *parameter, orr_arena *arena);

typedef struct orr_shard_part {
    orr_local_shard own; /* rows: in the arena */
    orr_type type;
    int64_t begin, n;
} orr_shard_part;
/* INVALID: a text that cannot be; `what`: names it in the error. */
orr_status orr_shard_text_read(const char *text, const char *what, orr_arena *arena,
                               orr_shard_part *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_CHECKPOINT_SHARD_TEXT_H */
