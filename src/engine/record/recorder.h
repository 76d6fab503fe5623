/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_RECORD_RECORDER_H
#define ORR_ENGINE_RECORD_RECORDER_H

#include "engine/run/program.h"

/* Records runs and makes a graph of them: a node for each call that ran, in its lane, with tensors,
 * shapes, operator (PyTorch's name as an attribute), transfers and dependencies; an annotation
 * "ProfilerStep#n" around each step (as Kineto); annotations of events beside the calls. Recording
 * costs two clock reads a call into preallocated arrays; the graph is made afterwards. */
typedef struct orr_recorder orr_recorder;
/* Room for `steps` steps of programs that have `calls` calls in total. */
orr_status orr_recorder_new(uint32_t steps, uint32_t calls, orr_recorder **ret,
                            orr_error *err) ORR_MUST_CHECK;
void orr_recorder_free(orr_recorder *recorder);
/* Begins a step; the runs that follow belong to it. Steps beyond the room are not recorded. */
void orr_recorder_step(orr_recorder *recorder, int64_t number);
/* Arrays for the next run of the program, which must live until the graph is made; NULL, NULL: no
 * room. */
void orr_recorder_run(orr_recorder *recorder, const orr_program *program, int64_t **ret_start_ns,
                      int64_t **ret_end_ns);
/* The last run of the program goes on with call `from`, in the same arrays, after other programs
 * that ran meanwhile. */
void orr_recorder_resume(orr_recorder *recorder, const orr_program *program, uint32_t from);
/* Bytes that a collective of the last run sent and received, all members together, where they are
 * not those of its tensors. Calls in order. Dropped when memory is out. */
void orr_recorder_bytes(orr_recorder *recorder, uint32_t call, int64_t sent, int64_t received);
void orr_recorder_end(orr_recorder *recorder); /* of the step */
/* Records an annotation from any thread, in lane `lane` of at most ORR_ANNOTATION_LANES, with
 * epoch, step and text as attributes. Annotations of a lane do not overlap. One is dropped when
 * memory is out. */
enum { ORR_ANNOTATION_LANES = 32, ORR_ANNOTATION_TEXT = 112 };
typedef struct orr_recorded_annotation {
    uint8_t lane;
    const char *name; /* of the lane and of the annotation; not copied */
    int64_t start_ns, end_ns;
    uint64_t epoch, step;
    char text[ORR_ANNOTATION_TEXT];
} orr_recorded_annotation;
void orr_recorder_annotate(orr_recorder *recorder, const orr_recorded_annotation *note);
/* Drops annotations up to now: they belong to steps that are not recorded. */
void orr_recorder_drop_annotations(orr_recorder *recorder);
orr_status orr_recorder_graph(const orr_recorder *recorder, uint32_t rank, uint32_t ranks,
                              const orr_graph **ret, orr_error *err) ORR_MUST_CHECK;

/* Time by operator over all recorded steps, longest first. In the arena. */
typedef struct orr_recorded_op {
    const char *name; /* of the operator */
    uint8_t op, pass;
    uint64_t calls;
    int64_t ns;
    double flops, bytes;
} orr_recorded_op;
orr_status orr_recorder_ops(const orr_recorder *recorder, orr_arena *arena,
                            const orr_recorded_op **ret, uint32_t *ret_n,
                            orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_RECORD_RECORDER_H */
