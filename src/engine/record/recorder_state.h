/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_RECORD_RECORDER_STATE_H
#define ORR_ENGINE_RECORD_RECORDER_STATE_H

#include "base/array.h"
#include "engine/run/program_state.h"
#include "engine/record/recorder.h"

/* Internals of a recorder, shared by the files of this folder. */

/* One run of a program in a step, or a part of one: its calls [from, to). The times of the whole
 * program start at index `first`. */
typedef struct orr_recorded_run {
    const orr_program *program;
    size_t first;
    uint32_t from, to;
} orr_recorded_run;

/* What a collective of a run sent and received. */
typedef struct orr_recorded_bytes {
    size_t time; /* of the call: its index in start_ns */
    int64_t sent, received;
} orr_recorded_bytes;

typedef struct orr_recorded_step {
    int64_t number, start_ns, end_ns;
    uint32_t first_run, n_runs;
} orr_recorded_step;

struct orr_recorder {
    orr_recorded_step *steps;   /* shape (room_steps) */
    orr_recorded_run *runs;     /* shape (room_runs)  */
    int64_t *start_ns, *end_ns; /* shape (room_calls) */
    uint32_t room_steps, n_steps, room_runs, n_runs;
    size_t room_calls, n_calls;
    bool open;                           /* a recorded step is in progress */
    orr_array(orr_recorded_bytes) bytes; /* by time */
    pthread_mutex_t noting;
    orr_array(orr_recorded_annotation) notes;
    int64_t notes_from_ns; /* annotations that began earlier are cut to it; 0: none are */
};

/* attributes.c: attributes of a call's node. */
orr_status orr_recorder_attrs(orr_graph_builder *b, orr_node_id node, const orr_program *p,
                              uint32_t call, orr_error *err) ORR_MUST_CHECK;
/* annotations.c */
orr_status orr_recorder_add_annotations(const orr_recorder *r, orr_graph_builder *b, uint32_t rank,
                                        orr_error *err) ORR_MUST_CHECK;
/* PyTorch's names: "float" for fp32; "[2, 3]" for a shape. */
const char *orr_recorded_dtype(uint8_t dtype);

#endif /* ORR_ENGINE_RECORD_RECORDER_STATE_H */
