/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_RECORD_RECORDER_STATE_H
#define ORR_ENGINE_RECORD_RECORDER_STATE_H

#include "base/array.h"
#include "engine/run/program_state.h"
#include "engine/record/recorder.h"

/* The inside of a recorder, for the files recorder*.c. */

/* One run of a program in a step: its calls' times stand from `first` on. */
typedef struct orr_recorded_run {
    const orr_program *program;
    size_t first;
} orr_recorded_run;

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
    bool open; /* a step that is recorded is going on */
    pthread_mutex_t noting;
    orr_array(orr_recorded_annotation) notes;
    int64_t notes_from_ns; /* nothing that was noted began earlier; 0: or it may have */
};

/* recorder_attrs.c: what a call was told and given, as attributes of its node. */
orr_status orr_recorder_attrs(orr_graph_builder *b, orr_node_id node, const orr_program *p,
                              uint32_t call, orr_error *err) ORR_MUST_CHECK;
/* recorder_notes.c */
orr_status orr_recorder_add_annotations(const orr_recorder *r, orr_graph_builder *b, uint32_t rank,
                                        orr_error *err) ORR_MUST_CHECK;
/* "float" of fp32: PyTorch's words; and "[2, 3]" of a shape. */
const char *orr_recorded_dtype(uint8_t dtype);

#endif /* ORR_ENGINE_RECORD_RECORDER_STATE_H */
