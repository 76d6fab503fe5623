/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_TORCH_MEMORY_SNAPSHOT_H
#define ORR_TRACE_TORCH_MEMORY_SNAPSHOT_H

#include <stdbool.h>

#include "base/array.h"
#include "graph/builder.h"
#include "io/json/reader.h"
#include "trace/common/reader.h"

/* What a snapshot of torch.cuda.memory says, in either of its forms: segments, which the allocator
 * holds at the end, and for each device a trace of what it did. Keys and actions: what
 * torch/csrc/cuda/memory_snapshot.cpp of PyTorch writes. */

/* Words of a snapshot that mean something here. Those before FIELDS are keys of a number, or, for
 * the action, of a word. */
#define SNAPSHOT_WORDS(X)                                                                          \
    X(ACTION, "action")                                                                            \
    X(ADDR, "addr")                                                                                \
    X(SIZE, "size")                                                                                \
    X(STREAM, "stream")                                                                            \
    X(TIME_US, "time_us")                                                                          \
    X(DEVICE, "device")                                                                            \
    X(TOTAL_SIZE, "total_size")                                                                    \
    X(ALLOCATED_SIZE, "allocated_size")                                                            \
    X(REQUESTED_SIZE, "requested_size")                                                            \
    X(FIELDS, "")                                                                                  \
    X(SEGMENTS, "segments")                                                                        \
    X(DEVICE_TRACES, "device_traces")                                                              \
    X(ALLOC, "alloc")                                                                              \
    X(FREE, "free")                                                                                \
    X(FREE_REQUESTED, "free_requested")                                                            \
    X(FREE_COMPLETED, "free_completed")                                                            \
    X(SEGMENT_ALLOC, "segment_alloc")                                                              \
    X(SEGMENT_FREE, "segment_free")                                                                \
    X(SEGMENT_MAP, "segment_map")                                                                  \
    X(SEGMENT_UNMAP, "segment_unmap")                                                              \
    X(OOM, "oom")                                                                                  \
    X(SNAPSHOT, "snapshot")                                                                        \
    X(OTHER, "")

typedef enum snapshot_word {
#define SNAPSHOT_WORD_ENUM_(name, text) WORD_##name,
    SNAPSHOT_WORDS(SNAPSHOT_WORD_ENUM_)
#undef SNAPSHOT_WORD_ENUM_
} snapshot_word;
snapshot_word snapshot_word_of(orr_text text); /* OTHER: none of them */

/* A segment or an entry of a trace, as far as it is used. */
typedef struct snapshot_record {
    uint32_t has; /* bit w of snapshot_word w < FIELDS */
    int64_t value[WORD_FIELDS];
} snapshot_record;

static inline void snapshot_set(snapshot_record *record, snapshot_word word, int64_t value)
{
    record->value[word] = value;
    record->has |= UINT32_C(1) << word;
}

typedef struct snapshot_device {
    int64_t requested_bytes, allocated_bytes, reserved_bytes; /* of its segments */
    bool rounded;                                             /* requested_bytes is not known */
    bool unsure; /* what its trace says and its segments do not agree */
} snapshot_device;

/* Zero-initialized but for the first three. */
typedef struct snapshot {
    orr_graph_builder *builder;
    const orr_read_options *options;
    orr_read_report *report;
    orr_stream *stream;
    bool has_traces; /* the key was there */
    orr_array(snapshot_device) devices;
    orr_array(int64_t) reserved_change; /* of each row of builder->memories */
} snapshot;

/* Errors: NO_MEMORY, CANCELED, PARSE, LIMIT (a device over 4095). */
orr_status snapshot_add_segment(snapshot *s, const snapshot_record *segment,
                                orr_error *err) ORR_MUST_CHECK;
orr_status snapshot_add_entry(snapshot *s, uint64_t device, const snapshot_record *entry,
                              orr_error *err) ORR_MUST_CHECK;
/* Totals after each event, from those at the end backwards. */
orr_status snapshot_finish(snapshot *s, orr_error *err) ORR_MUST_CHECK;
void snapshot_done(snapshot *s);

/* A snapshot in Python's pickle format, protocols 2 to 5. Only opcodes that build numbers, texts,
 * lists, tuples and dictionaries are executed; all that could name or call code is refused. Errors:
 * PARSE, with the byte. */
orr_status snapshot_read_pickle(snapshot *s, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_TORCH_MEMORY_SNAPSHOT_H */
