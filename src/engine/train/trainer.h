/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_TRAIN_TRAINER_H
#define ORR_ENGINE_TRAIN_TRAINER_H

#include <stdatomic.h>

#include <orrery/engine.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/data/clicks.h"
#include "engine/data/dataset.h"
#include "engine/ranks/launch.h"
#include "engine/train/learning_rate.h"
#include "engine/record/routes.h"
#include "engine/step/step.h"
#include "model/plan/groups.h"

/* Internals of training, shared by the files of this folder. */

typedef struct orr_trainer orr_trainer;

/* The task: what is learned (next token, clicks, preferences, rewards), how batches are fed, and
 * the objective. */
typedef struct orr_train_task {
    uint32_t updates;              /* updates of a step from the same inputs; 0: 1 */
    orr_step_objective *objective; /* ctx: the trainer; NULL: the weights of the inputs */
    /* Called with weights initialized or read from `init`, before a checkpoint is restored. */
    orr_status (*open)(orr_trainer *t, orr_error *err);
    orr_status (*feed)(
        orr_trainer *t, uint64_t slot,
        orr_error *err); /* before a step; `batch`: the number of its batch, from 0 */
    orr_status (*evaluate)(orr_trainer *t, const orr_step_result *r, orr_train_step *told,
                           orr_error *err); /* after a step, on all ranks; or NULL */
} orr_train_task;
extern const orr_train_task orr_train_task_text, orr_train_task_clicks, orr_train_task_dpo,
    orr_train_task_ppo;

/* State of the whole job, made before ranks are started and read by all of them. */
typedef struct orr_train_job {
    const orr_train_options *options;
    const orr_model *model; /* as changed by the plan */
    orr_plan plan;          /* completed and checked */
    orr_workload workload;
    const char *plan_text;
    const char *save; /* this replica's folder of checkpoints; NULL: none */
    int lock;         /* of the folder; -1: none */
    orr_tokenizer *tokenizer;
    const orr_train_task *task;
    orr_dataset *batches;   /* NULL: click data */
    orr_click_data *clicks; /* for recommendation */
    orr_learning_rate rate;
    double clip;
    orr_update update;       /* all but learning rate and step */
    orr_arena *arena;        /* of the result */
    orr_train_result result; /* of this process's rank */
    orr_train_step *history; /* shape (options->steps) */
    orr_train_rows *rows;    /* shape (options->steps, ORR_TIERS); NULL: all live in memory */
} orr_train_job;

/* Where rows of embedding tables live that are not in memory (row_tiers.c). */
typedef struct orr_trainer_rows {
    bool there;   /* some may: the options have a store */
    bool resumes; /* files are opened as of the checkpoint; else they are made */
    orr_tables_tier tiers[ORR_TIERS];
    orr_block_limits byte_limits;  /* of tier byte; not read where its `limits` are NULL */
    bool committed[ORR_TIERS];     /* rows of tables of this tier are committed by a store */
    const char *folder[ORR_TIERS]; /* of files; NULL: none */
    const char *sharding;          /* text of which rows are in which file */
    uint32_t generation;           /* of the files */
    const char **old; /* shape (n_old): files that rows were read from, to be removed */
    uint32_t n_old;
    orr_train_rows counted[ORR_TIERS]; /* of this rank, up to the last step */
} orr_trainer_rows;

enum { ORR_TRAIN_EVENTS = ORR_TEAM_REFUSED + 1 };

/* The state of one rank. */
struct orr_trainer {
    orr_train_job *training;
    orr_transport *transport;
    orr_workers *workers;
    orr_engine_step *step;
    orr_recorder *recorder;
    orr_route_recorder *routes; /* NULL: none */
    orr_checkpointer *checkpointer;
    orr_checkpoint_metadata facts;
    orr_trainer_rows rows;
    orr_arena *arena;
    orr_step_local_batch window;
    orr_step_inputs *inputs;   /* shape (micro-batches) */
    orr_dataset_sample sample; /* buffer for one sample */
    void *task;                /* state of the task */
    const char *folder;        /* of checkpoints; NULL: none */
    int64_t committed;         /* the latest committed checkpoint */
    int64_t settled;           /* likewise, as all ranks know it */
    int64_t saved;             /* the latest checkpoint that was begun */
    int64_t last_step;         /* the step that weights and optimizer state belong to */
    bool state_complete; /* weights and state are complete; false while another replica has yet to
                            send them */
    atomic_bool
        state_received; /* received from another replica since then (set by the team's thread) */
    orr_team_data_cursor data;        /* batches still to be trained */
    orr_team *team;                   /* the team of replicas; NULL: none */
    orr_step_replica_reducer reducer; /* where the step submits gradients */
    orr_step_reader reader;           /* where a recommendation step reads batches */
    orr_click_reader clicks;
    bool data_positioned; /* `data` are the batches after `last_step` */
    int64_t slot;         /* the batch whose gradients were computed last; -1: none */
    orr_recorded_annotation
        open[ORR_TRAIN_EVENTS]; /* open intervals of team events; name NULL: none */
    int64_t resident_bytes;     /* before the training allocated anything */
};

orr_ranks_body orr_train_rank; /* ctx: the job */

/* rank.c, used by replica.c too: between two steps, commits a checkpoint that all ranks have
 * written, and tells whether rank 0 was asked to stop. */
orr_status orr_train_synchronize(orr_trainer *t, bool *ret_stop, orr_error *err) ORR_MUST_CHECK;
/* The hyperparameters of a step's update. */
orr_update orr_train_update(const orr_trainer *t, int64_t step);
/* Fills in and reports a step; told->step and what is not in its result are set by the caller. */
orr_status orr_train_report_step(orr_trainer *t, orr_train_step *told, const orr_step_result *r,
                                 orr_error *err) ORR_MUST_CHECK;
/* Begins to save a checkpoint if one is due; with `last`, if the step has not been saved. */
orr_status orr_train_save(orr_trainer *t, bool last, orr_error *err) ORR_MUST_CHECK;

/* Whether weights and state may be read. */
static inline bool orr_train_state_is_complete(const orr_trainer *t)
{
    return t->state_complete && !atomic_load(&t->state_received);
}

/* replica.c: where steps submit gradients, NULL: no team; the training loop of a replica. */
const orr_step_replica_reducer *orr_train_replica_reducer(orr_trainer *t);
orr_status orr_train_run_replica(orr_trainer *t, orr_error *err) ORR_MUST_CHECK;
void orr_train_leave_team(orr_trainer *t);
/* team_annotations.c: records a team event. ctx: the trainer. From `begin_ns` on the rank has
 * waited for this outcome. At the end open intervals are closed. */
void orr_train_annotate_event(void *ctx, const orr_team_event *event);
void orr_train_annotate_wait(orr_trainer *t, const orr_team_outcome *outcome, int64_t begin_ns);
void orr_train_annotate_end(orr_trainer *t);
/* Digest of the state of all ranks (fingerprint.c); 0: it is not complete. */
orr_status orr_train_state_digest(const orr_trainer *t, uint64_t *ret,
                                  orr_error *err) ORR_MUST_CHECK;
/* Digest of this rank's embedding tables, to be added to those of the other ranks
 * (table_digest.c). */
orr_status orr_train_table_digest(const orr_trainer *t, uint64_t *ret,
                                  orr_error *err) ORR_MUST_CHECK;
/* Fingerprint of the job, equal in all its replicas. Inputs have been opened. */
uint64_t orr_train_fingerprint(const orr_trainer *t);

/* Reads parameters from a checkpoint of weights (weights.c). */
orr_status orr_train_read_weights(orr_trainer *t, const char *path, orr_error *err) ORR_MUST_CHECK;
/* The rank's shard of a parameter from the whole one. */
void orr_train_cut_parameter(const orr_parameter *parameter, const float *whole);
/* Recommendation models (table_weights.c): shards of the rank's tables, none of other models; what
 * these three do for others. */
orr_status orr_train_table_parts(const orr_trainer *t, orr_table_part **ret, uint32_t *ret_n,
                                 orr_error *err) ORR_MUST_CHECK;
orr_status orr_train_restore_tables(const orr_trainer *t, const orr_checkpoint *checkpoint,
                                    orr_error *err) ORR_MUST_CHECK;
orr_status orr_train_import_recommendation(const orr_trainer *t, const char *folder,
                                           orr_error *err) ORR_MUST_CHECK;
orr_status orr_train_export_recommendation(const orr_trainer *t, const char *checkpoint,
                                           const char *folder, orr_error *err) ORR_MUST_CHECK;
/* Rows that do not live in memory (row_tiers.c). Says where; `from`: the checkpoint that is resumed
 * from, NULL: none, whose files are looked for where they are now. LIMIT: memory for none of them.
 */
orr_status orr_train_place_rows(orr_trainer *t, orr_checkpoint *from,
                                orr_error *err) ORR_MUST_CHECK;
void orr_train_describe_rows(const orr_trainer *t, orr_checkpoint_metadata *ret);
/* Stores that commit with a checkpoint; NULL: none. */
void orr_train_stores(const orr_trainer *t, orr_store *ret[ORR_TIERS]);
/* Files that no checkpoint names go as soon as they are open, or when their rows are exported. */
void orr_train_remove_rows(const orr_trainer *t, bool exported);
orr_status orr_train_remember_rows(orr_trainer *t, const orr_checkpoint *from,
                                   orr_error *err) ORR_MUST_CHECK;
/* What rows took since the last call, on all ranks, by tier (row_counts.c). */
orr_status orr_train_count_rows(orr_trainer *t, orr_train_rows ret[ORR_TIERS],
                                orr_error *err) ORR_MUST_CHECK;
orr_status orr_train_total_rows(orr_trainer *t, orr_train_result *ret,
                                orr_error *err) ORR_MUST_CHECK;
/* When a checkpoint that does not need them is the latest. */
void orr_train_remove_older_rows(orr_trainer *t);
/* Writes the whole model as a Hugging Face folder, from a training checkpoint; called by one
 * rank. */
orr_status orr_train_export(const orr_trainer *t, const char *checkpoint, const char *folder,
                            orr_error *err) ORR_MUST_CHECK;
/* The model layer at a place; 0 where it is not a layer. */
uint32_t orr_train_layer_of(const orr_model *model, uint32_t place);

/* Buffers for this rank's inputs and for one sample (task_text.c). */
orr_status orr_train_open_inputs(orr_trainer *t, orr_error *err) ORR_MUST_CHECK;

/* Reference weights (reference_model.c): the initial ones or those of a checkpoint, beside the
 * trained ones; exchanged with these to score. All ranks together. */
typedef struct orr_reference_weights {
    float **numbers; /* shape (parameters): of the rank's shard */
} orr_reference_weights;
orr_status orr_train_load_reference(orr_trainer *t, const char *reference,
                                    orr_reference_weights *ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_train_swap_weights(orr_trainer *t, const orr_reference_weights *frozen,
                                  orr_error *err) ORR_MUST_CHECK;

/* Recording (records.c). */
orr_status orr_train_open_recorder(orr_trainer *t, orr_error *err) ORR_MUST_CHECK;
bool orr_train_records(const orr_trainer *t, int64_t step);
orr_status orr_train_close_recorder(orr_trainer *t, orr_error *err) ORR_MUST_CHECK;
/* routes.c: the experts that tokens chose, where the options ask for a file of them: after a step
 * of the batch `slot`; at the end, on all ranks. */
orr_status orr_train_open_routes(orr_trainer *t, orr_error *err) ORR_MUST_CHECK;
orr_status orr_train_record_routes(orr_trainer *t, uint64_t slot, orr_error *err) ORR_MUST_CHECK;
orr_status orr_train_write_routes(orr_trainer *t, orr_error *err) ORR_MUST_CHECK;

/* Bytes resident now; the peak since the mark. -1: unknown. */
int64_t orr_resident_bytes(void);
int64_t orr_resident_shared_bytes(void); /* of them: shared memory and mapped files */
void orr_resident_mark(void);
int64_t orr_resident_most_bytes(void);

#endif /* ORR_ENGINE_TRAIN_TRAINER_H */
