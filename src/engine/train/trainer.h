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
#include "engine/step/step.h"
#include "model/plan/groups.h"

/* A training, in pieces: what the files train_*.c share. */

typedef struct orr_trainer orr_trainer;

/* What is learned: the next token, clicks, preferences, rewards. */
typedef struct orr_train_task {
    uint32_t updates;         /* of a step, from the same inputs; 0: 1                      */
    orr_objective *objective; /* ctx: the trainer; NULL: the weights of the inputs         */
    /* Weights are as they begin, or come from `init`; a checkpoint is yet to be restored. */
    orr_status (*open)(orr_trainer *t, orr_error *err);
    orr_status (*feed)(orr_trainer *t, uint64_t slot,
                       orr_error *err); /* before a step: the
                                         * batch that it has, counted from 0 */
    orr_status (*evaluate)(orr_trainer *t, const orr_step_result *r, orr_train_step *told,
                           orr_error *err); /* after it, on all ranks; or NULL */
} orr_train_task;
extern const orr_train_task orr_train_task_text, orr_train_task_clicks, orr_train_task_dpo,
    orr_train_task_ppo;

/* Before there are ranks; read by all of them. */
typedef struct orr_train_job {
    const orr_train_options *options;
    const orr_model *model; /* as the plan changes it */
    orr_plan plan;          /* completed, checked     */
    orr_workload workload;
    const char *plan_text;
    const char *save; /* folder of checkpoints of this replica; NULL: none */
    orr_tokenizer *tokenizer;
    const orr_train_task *task;
    orr_dataset *batches;   /* NULL: clicks         */
    orr_click_data *clicks; /* of recommendation    */
    orr_learning_rate rate;
    double clip;
    orr_update update;       /* but rate and step */
    orr_arena *arena;        /* of the result     */
    orr_train_result result; /* of this process's rank */
    orr_train_step *history; /* shape (options->steps) */
} orr_train_job;

enum { ORR_TRAIN_EVENTS = ORR_TEAM_REFUSED + 1 };

/* One rank of it. */
struct orr_trainer {
    orr_train_job *training;
    orr_transport *transport;
    orr_workers *workers;
    orr_engine_step *step;
    orr_recorder *recorder;
    orr_checkpointer *checkpointer;
    orr_checkpoint_metadata facts;
    orr_arena *arena;
    orr_step_local_batch window;
    orr_step_inputs *inputs;          /* shape (micro-batches) */
    orr_dataset_sample sample;        /* one whole            */
    void *task;                       /* the task's own       */
    const char *folder;               /* of checkpoints; NULL: none */
    int64_t committed;                /* the latest of them         */
    int64_t saved;                    /* that was begun to be written last */
    int64_t made;                     /* the step that weights and state are after  */
    bool whole;                       /* they are; not while others are yet to send them    */
    atomic_bool fetched;              /* from others, since they were whole (team's thread) */
    orr_team_data_cursor data;        /* that are still to be trained, after it     */
    orr_team *team;                   /* other replicas; NULL: there are none       */
    orr_step_replica_reducer reducer; /* in which the step hands in gradients       */
    bool placed;                      /* `data` are those after `made`              */
    int64_t slot;                     /* whose gradients were computed last; -1: none */
    orr_recorded_annotation open[ORR_TRAIN_EVENTS]; /* of the team, that lasts; name NULL: none   */
    int64_t resident_bytes;                         /* before anything was made */
};

orr_status orr_train_prepare(const orr_train_options *options, orr_arena *arena, orr_train_job *ret,
                             orr_error *err) ORR_MUST_CHECK;
void orr_train_done(orr_train_job *training);
orr_ranks_body orr_train_rank; /* ctx: the training */

/* Steps, as loops make them (train_rank.c, and train_team.c in a team). Between two: what all have
 * written is the latest checkpoint; has rank 0 been told to stop? */
orr_status orr_train_synchronize(orr_trainer *t, bool *ret_stop, orr_error *err) ORR_MUST_CHECK;
/* The update that a step makes. */
orr_update orr_train_update(const orr_trainer *t, int64_t step);
/* Of a step that was made: told->step and what is beside its result are filled in. */
orr_status orr_train_report_step(orr_trainer *t, orr_train_step *told, const orr_step_result *r,
                                 orr_error *err) ORR_MUST_CHECK;
/* Begins to save, if it is due; with `last` if it has not been saved. */
orr_status orr_train_save(orr_trainer *t, bool last, orr_error *err) ORR_MUST_CHECK;

/* May weights and state be read? */
static inline bool orr_train_state_is_complete(const orr_trainer *t)
{
    return t->whole && !atomic_load(&t->fetched);
}

/* A replica of a team (train_team.c): where its steps hand in gradients, NULL: no team; all steps.
 */
const orr_step_replica_reducer *orr_train_replica_reducer(orr_trainer *t);
orr_status orr_train_run_replica(orr_trainer *t, orr_error *err) ORR_MUST_CHECK;
void orr_train_leave_team(orr_trainer *t);
/* What happens in it, into the recording (train_events.c). ctx: the trainer. From `begin_ns` on the
 * rank has waited for this outcome. At the end what lasts is over. */
void orr_train_annotate_event(void *ctx, const orr_team_event *event);
void orr_train_annotate_wait(orr_trainer *t, const orr_team_outcome *outcome, int64_t begin_ns);
void orr_train_annotate_end(orr_trainer *t);
/* Of the state of all ranks (train_job.c); 0: it is not whole. */
orr_status orr_train_state_digest(const orr_trainer *t, uint64_t *ret,
                                  orr_error *err) ORR_MUST_CHECK;
/* What replicas of one job have in common, and their ranks. Inputs have been opened. */
uint64_t orr_train_fingerprint(const orr_trainer *t);

/* Parameters from a checkpoint of weights (train_begin.c). */
orr_status orr_train_read_weights(orr_trainer *t, const char *path, orr_error *err) ORR_MUST_CHECK;
/* The whole model as a folder that others can load, from a checkpoint of training; by one rank. */
orr_status orr_train_export(const orr_trainer *t, const char *checkpoint, const char *folder,
                            orr_error *err) ORR_MUST_CHECK;
/* The layer of the model that a place of the row is; 0 where it is none. */
uint32_t orr_train_layer_of(const orr_model *model, uint32_t place);

/* Room for inputs of this rank's tokens, and for one sample (train_feed.c). */
orr_status orr_train_open_inputs(orr_trainer *t, orr_error *err) ORR_MUST_CHECK;

/* The weights as they are, or those of a checkpoint, beside those that are trained
 * (train_frozen.c): exchanged they are scored with. All ranks together. */
typedef struct orr_reference_weights {
    float **numbers; /* shape (parameters): of the rank's shard */
} orr_reference_weights;
orr_status orr_train_load_reference(orr_trainer *t, const char *reference,
                                    orr_reference_weights *ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_train_swap_weights(orr_trainer *t, const orr_reference_weights *frozen,
                                  orr_error *err) ORR_MUST_CHECK;

/* What was recorded (train_record.c). */
orr_status orr_train_open_recorder(orr_trainer *t, orr_error *err) ORR_MUST_CHECK;
bool orr_train_records(const orr_trainer *t, int64_t step);
orr_status orr_train_close_recorder(orr_trainer *t, orr_error *err) ORR_MUST_CHECK;

/* Bytes of this process: resident now; the most since the mark. -1: not known. */
int64_t orr_resident_bytes(void);
void orr_resident_mark(void);
int64_t orr_resident_most_bytes(void);

#endif /* ORR_ENGINE_TRAIN_TRAINER_H */
