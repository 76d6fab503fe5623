/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_KINETO_KEYS_H
#define ORR_TRACE_KINETO_KEYS_H

#include <stdint.h>

#include "io/json/reader.h"

/* Kineto's vocabulary: keys of an event, its arguments, its categories. */

/* Category of an event; older names and other accelerators' are mapped to one. */
typedef enum kineto_cat {
    CAT_OTHER,
    CAT_CPU_OP,
    CAT_USER_ANNOTATION,
    CAT_GPU_ANNOTATION,
    CAT_RUNTIME,
    CAT_KERNEL,
    CAT_MEMCPY,
    CAT_MEMSET,
    CAT_CUDA_SYNC,
    CAT_MTIA_WORK,
    CAT_PYTHON,
    CAT_INSTANT,
    CAT_OVERHEAD,
    CAT_FLOW_LAUNCH,
    CAT_FLOW_FORWARD
} kineto_cat;

/* Whether the event's tid is a device stream. */
static inline bool kineto_cat_on_device(kineto_cat cat)
{
    return cat >= CAT_GPU_ANNOTATION && cat <= CAT_MTIA_WORK && cat != CAT_RUNTIME;
}

typedef enum kineto_key {
    KEY_UNKNOWN,
    KEY_PH,
    KEY_CAT,
    KEY_NAME,
    KEY_PID,
    KEY_TID,
    KEY_TS,
    KEY_DUR,
    KEY_ID,
    KEY_ARGS
} kineto_key;

kineto_key kineto_key_of(orr_text text);

/* How an argument is used. */
typedef enum kineto_use {
    USE_NOT,     /* skipped: redundant */
    USE_INT,     /* into the event's `value`, if it is an integer, else an attribute    */
    USE_INT_TOO, /* both                                                                */
    USE_TEXT,    /* interned into the event's `value`                                   */
    USE_RATE,    /* GB/s                                                                */
    USE_ATTR     /* kept as an attribute                                                */
} kineto_use;

/* Arguments: X(name, text, use). */
#define KINETO_ARGS(X)                                                                             \
    X(OTHER, "", USE_ATTR)                                                                         \
    X(EXTERNAL_ID, "External id", USE_NOT)                                                         \
    X(EXTERNAL_ID_OLD, "external id", USE_NOT)                                                     \
    X(EXTERNAL_TS, "external ts", USE_NOT)                                                         \
    X(EVENT_INDEX, "Ev Idx", USE_NOT)                                                              \
    X(EVENT_INDEX_OLD, "Profiler Event Index", USE_NOT)                                            \
    X(TRACE_NAME, "Trace name", USE_NOT)                                                           \
    X(TRACE_ITERATION, "Trace iteration", USE_NOT)                                                 \
    X(CBID, "cbid", USE_NOT)                                                                       \
    X(CID, "cid", USE_NOT)                                                                         \
    X(QUEUED, "queued", USE_NOT)                                                                   \
    X(CONTEXT, "context", USE_NOT)                                                                 \
    X(PYTHON_ID, "Python id", USE_NOT)                                                             \
    X(PYTHON_PARENT, "Python parent id", USE_NOT)                                                  \
    X(SORT_INDEX, "sort_index", USE_NOT)                                                           \
    X(SYNC_KIND, "cuda_sync_kind", USE_NOT)                                                        \
    X(CORRELATION, "correlation", USE_INT)                                                         \
    X(RECORD_FUNCTION, "Record function id", USE_INT)                                              \
    X(SEQUENCE, "Sequence number", USE_INT_TOO)                                                    \
    X(FORWARD_THREAD, "Fwd thread id", USE_INT_TOO)                                                \
    X(DEVICE, "device", USE_INT)                                                                   \
    X(STREAM, "stream", USE_INT)                                                                   \
    X(STREAM_ID, "stream_id", USE_INT)                                                             \
    X(BYTES, "bytes", USE_INT)                                                                     \
    X(SIZE, "size", USE_INT_TOO)                                                                   \
    X(BANDWIDTH, "memory bandwidth (GB/s)", USE_RATE)                                              \
    X(MEMORY_BYTES, "Bytes", USE_INT)                                                              \
    X(MEMORY_ADDR, "Addr", USE_INT)                                                                \
    X(MEMORY_DEVICE, "Device Id", USE_INT)                                                         \
    X(MEMORY_DEVICE_TYPE, "Device Type", USE_INT)                                                  \
    X(MEMORY_ALLOCATED, "Total Allocated", USE_INT)                                                \
    X(MEMORY_RESERVED, "Total Reserved", USE_INT)                                                  \
    X(WAIT_STREAM, "wait_on_stream", USE_INT)                                                      \
    X(WAIT_RECORD, "wait_on_cuda_event_record_corr_id", USE_INT)                                   \
    X(WAIT_EVENT, "wait_on_cuda_event_id", USE_INT)                                                \
    X(SEQ_NUM, "seq_num", USE_INT_TOO)                                                             \
    X(COLLECTIVE, "Collective name", USE_TEXT)                                                     \
    X(DTYPE, "dtype", USE_TEXT)                                                                    \
    X(IN_ELEMENTS, "In msg nelems", USE_INT)                                                       \
    X(OUT_ELEMENTS, "Out msg nelems", USE_INT)                                                     \
    X(IN_SPLITS, "In split size", USE_TEXT)                                                        \
    X(OUT_SPLITS, "Out split size", USE_TEXT)                                                      \
    X(GROUP_SIZE, "Group size", USE_INT)                                                           \
    X(GROUP_NAME, "Process Group Name", USE_TEXT)                                                  \
    X(GROUP_ID, "Process Group ID", USE_TEXT)                                                      \
    X(GROUP_DESC, "Process Group Description", USE_TEXT)                                           \
    X(GROUP_RANKS, "Process Group Ranks", USE_TEXT)                                                \
    X(GLOBAL_START, "Global rank start", USE_INT)                                                  \
    X(GLOBAL_STRIDE, "Global rank stride", USE_INT)                                                \
    X(RANK, "Rank", USE_INT)                                                                       \
    X(SRC_RANK, "Src Rank", USE_INT)                                                               \
    X(DST_RANK, "Dst Rank", USE_INT)                                                               \
    X(SEQ, "Seq", USE_INT)                                                                         \
    X(META_NAME, "name", USE_TEXT)                                                                 \
    X(INPUT_DIMS, "Input Dims", USE_ATTR)                                                          \
    X(INPUT_TYPE, "Input type", USE_ATTR)                                                          \
    X(INPUT_VALUES, "Concrete Inputs", USE_ATTR)

typedef enum kineto_arg {
#define KINETO_ARG_ENUM(name, text, use) ARG_##name,
    KINETO_ARGS(KINETO_ARG_ENUM)
#undef KINETO_ARG_ENUM
        KINETO_N_ARGS
} kineto_arg;

/* Hash tables of the names of arguments and of categories. Zero it, then kineto_words_init(). */
typedef struct kineto_words {
    uint8_t arg_slot[256], cat_slot[256];
} kineto_words;

void kineto_words_init(kineto_words *words);
kineto_arg kineto_arg_of(const kineto_words *words, orr_text text);
kineto_cat kineto_cat_of(const kineto_words *words, orr_text text);
extern const uint8_t kineto_arg_uses[KINETO_N_ARGS]; /* kineto_use */

#endif /* ORR_TRACE_KINETO_KEYS_H */
