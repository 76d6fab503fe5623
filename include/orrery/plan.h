/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_PLAN_H
#define ORR_PLAN_H

#include <stdint.h>

#include <orrery/arena.h>
#include <orrery/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Plan: what is trained, and how it is spread over ranks.
 *
 * Letters: d data-, t tensor-, p pipeline-parallel degree; rank = (stage * d + replica) * t +
 * slice: tensor-parallel neighbours first, pipeline stages last, as Megatron-LM lays them out. */

#define ORR_SCHEDULE_MAP(X)                                                             \
    X(UNKNOWN, "unknown")                                                               \
    X(1F1B, "1f1b")   /* warm-up forwards, one forward one backward, the rest backward */ \
    X(GPIPE, "gpipe") /* all forwards, then all backwards                              */
typedef enum orr_schedule {
#define ORR_SCHEDULE_ENUM_(name, text) ORR_SCHEDULE_##name,
    ORR_SCHEDULE_MAP(ORR_SCHEDULE_ENUM_)
#undef ORR_SCHEDULE_ENUM_
} orr_schedule;
ORR_API const char *orr_schedule_name(orr_schedule schedule);

/* What is trained, and how. 0 in a field: not known, or (where a change is asked for) as it was. */
#define ORR_PLAN_MAP(X)                                                                   \
    X(dp, "data-parallel replicas")            X(tp, "tensor-parallel slices")            \
    X(pp, "pipeline stages")                   X(micro_batches, "micro-batches a step")   \
    X(micro_batch, "samples a micro-batch")    X(layers, "transformer layers")            \
    X(hidden, "hidden size")                   X(ffn, "width of the feed-forward part")   \
    X(heads, "attention heads")                X(seq, "tokens a sample")                  \
    X(vocab, "tokens in the vocabulary")
typedef struct orr_plan {
#define ORR_PLAN_FIELD_(name, text) uint32_t name;
    ORR_PLAN_MAP(ORR_PLAN_FIELD_)
#undef ORR_PLAN_FIELD_
    uint8_t schedule; /* orr_schedule */
} orr_plan;

/* "dp=4,tp=2,schedule=gpipe"; what is not named is 0. Numbers take k and M ("seq=4k" is 4096).
 * INVALID: a field that does not exist (with the closest one), twice the same, or no number > 0. */
ORR_API ORR_MUST_CHECK orr_status orr_plan_parse(const char *text, orr_plan *ret, orr_error *err);
/* The same text from a plan; fields of 0 are left out. In the arena; NULL: out of memory. */
ORR_API ORR_MUST_CHECK const char *orr_plan_text(const orr_plan *plan, orr_arena *arena);
/* `from` with the fields that `change` names. */
ORR_API orr_plan orr_plan_changed(const orr_plan *from, const orr_plan *change);
/* INVALID, with the reason: 6 layers do not divide into 4 stages, 12 heads into 8 slices... Fields
 * of 0 are not checked. */
ORR_API ORR_MUST_CHECK orr_status orr_plan_check(const orr_plan *plan, orr_error *err);
/* d * t * p; fields of 0 count as 1. UINT64 because products of uint32_t may not fit. */
ORR_API uint64_t orr_plan_ranks(const orr_plan *plan);

#ifdef __cplusplus
}
#endif

#endif /* ORR_PLAN_H */
