/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_ARGUMENTS_SHARDING_H
#define ORR_CLI_ARGUMENTS_SHARDING_H

#include <orrery/orrery.h>

/* What the planner of embedding tables is asked, by `orrery tables` and by tables=auto: the tables
 * of a model over ranks of a cluster. */
typedef struct orr_sharding_question {
    const orr_model *model;
    const orr_cluster *cluster;   /* NULL: this machine, of which */
    const orr_table_costs *costs; /* these are the rates */
    uint32_t ranks;
    int64_t batch;        /* samples of a step over all ranks; rounded up to as many on each */
    int64_t memory_bytes; /* of a rank, for tables; 0: what the device can use, less weights,
                           * gradients and moments of the dense layers; no limit on this machine */
    double software_year; /* 0: the newest */
    uint8_t popularity;   /* orr_popularity_kind of rows */
    const orr_tier_rates *tiers; /* shape (ORR_TIERS), of a rank; without bytes of DRAM it has
                                  * `memory_bytes`. NULL: all rows are in memory */
    uint32_t lookahead;          /* batches that are fetched ahead, with tiers */
} orr_sharding_question;
/* INVALID: the model has no tables to shard. */
orr_status orr_sharding_check_model(const orr_model *model, orr_error *err) ORR_MUST_CHECK;
/* The question with the rates of the cluster by its calibration; the rest is as
 * orr_table_planner_options_init() has it, but stages are balanced more. Errors: INVALID: a model
 * without tables, too many ranks, a device whose memory is too small for the dense layers. */
orr_status orr_sharding_ask(const orr_sharding_question *question, orr_arena *arena,
                            orr_table_planner_options *ret, orr_error *err) ORR_MUST_CHECK;

/* The one field of --plan that is a text: tables=FILE, a sharding plan of a recommendation model's
 * tables, or tables=auto, the plan that `orrery tables` would choose. */

/* Takes the field out of the words of a plan. `ret_tables`: "auto" or a path; NULL: not said. Both
 * in the arena. INVALID: it is said twice, or says nothing. */
orr_status orr_sharding_split(const char *words, orr_arena *arena, const char **ret_plan,
                              const char **ret_tables, orr_error *err) ORR_MUST_CHECK;
/* The way back: the text of a plan, with tables=... behind it unless `tables` is NULL. In the
 * arena; NULL: no memory. */
const char *orr_sharding_join(const orr_plan *plan, const char *tables, orr_arena *arena);
/* The sharding plan that the field says, of the question's tables and ranks: of a file, or for
 * "auto" the planner's. Errors: IO, PARSE: the file; INVALID: it is for other ranks, the planner
 * has no plan, and those of orr_sharding_ask(). */
orr_status orr_sharding_load(const char *tables, const orr_sharding_question *question,
                             orr_arena *arena, orr_embedding_plan *ret,
                             orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_CLI_ARGUMENTS_SHARDING_H */
