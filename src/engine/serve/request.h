/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_SERVE_REQUEST_H
#define ORR_ENGINE_SERVE_REQUEST_H

#include "base/array.h"
#include "engine/serve/scorer.h"
#include "io/stream/output.h"

/* What a server of tables is asked, and what it answers, as bytes from outside: JSON, or binary
 * messages, little endian, in bodies of HTTP and in frames (io/net):
 *
 *   request   orr_ask_header, then arrays without gaps:
 *     SCORE   ids int64 (n_ids), by table, then sample; dense fp32 (samples, dense features);
 *             lengths int32 (tables of the model, samples)
 *     BAGS    ids int64 (n_ids), by list, then sample; tables uint32 (lists); lengths int32 (lists,
 *             samples)
 *     UPDATE  ids int64 (n_ids): rows; values fp32 (n_ids, columns of the table); `lists` is the
 *             table
 *   answer    orr_answer_header, then fp32: SCORE probabilities (samples); BAGS (samples, columns
 *             of the lists one behind another); UPDATE nothing; else a line of text
 *
 * JSON:
 *
 *   SCORE   {"samples": [{"dense": [0.5, ...], "ids": [[3], [1, 2], ...]}, ...]}, ids by table
 *           -> {"probabilities": [0.25, ...]}
 *   BAGS    {"lookups": [{"table": "t3", "ids": [[5, 6], [7]]}, ...]}, ids by sample, equally many
 *           -> {"embeddings": [{"table": "t3", "values": [[...], [...]]}, ...]}
 *   UPDATE  {"table": "t3", "rows": [5], "values": [[...]]} -> {"rows": 1} */
#define ORR_ASK_KIND_MAP(X) X(SCORE, "score") X(BAGS, "bags") X(UPDATE, "update")
typedef enum orr_ask_kind {
#define ORR_ASK_ENUM_(name, text) ORR_ASK_##name,
    ORR_ASK_KIND_MAP(ORR_ASK_ENUM_)
#undef ORR_ASK_ENUM_
        ORR_ASK_KINDS
} orr_ask_kind;
const char *orr_ask_kind_name(orr_ask_kind kind);

#define ORR_ASK_MAGIC UINT32_C(0x3153414f) /* "OAS1" */
typedef struct orr_ask_header {
    uint32_t magic, kind; /* orr_ask_kind */
    uint32_t samples, lists;
    uint64_t n_ids;
} orr_ask_header;
typedef struct orr_answer_header {
    uint32_t magic, code; /* code: 200, or as HTTP has it: 400, 413, 503 */
    uint32_t samples, columns;
    uint64_t bytes; /* behind this */
} orr_answer_header;
_Static_assert(sizeof(orr_ask_header) == 24 && sizeof(orr_answer_header) == 24,
               "headers are on the wire as they are");

typedef struct orr_ask_limits {
    int64_t samples, lookups; /* of a request, at most */
    int64_t numbers;          /* of an answer */
} orr_ask_limits;

typedef orr_array(int64_t) orr_ask_ids;
/* A request, checked: ids are rows of their tables. {0} before the first use; buffers are used
 * again by the next one. */
typedef struct orr_ask {
    uint8_t kind; /* orr_ask_kind */
    int64_t samples;
    uint32_t n_lists;           /* of BAGS */
    uint32_t table;             /* of UPDATE */
    orr_ask_ids ids;            /* UPDATE: rows */
    orr_array(int32_t) lengths; /* shape (tables or lists, samples) */
    orr_array(uint32_t) lists;  /* tables of BAGS */
    orr_array(float) dense;     /* UPDATE: values */
    orr_ask_ids read;           /* ids of JSON as they are read: by sample, then table */
    orr_ask_ids first;          /* of each table, ditto */
    orr_array(int32_t) counts;  /* lengths, ditto */
} orr_ask;
void orr_ask_done(orr_ask *ask);
/* Errors: PARSE: no such message, with the byte; INVALID: ids, tables or shapes that the model does
 * not have; LIMIT. Of any bytes: what is not the model's is refused before it is allocated. */
orr_status orr_ask_read_binary(const void *bytes, size_t n, const orr_dlrm *model,
                               const orr_ask_limits *limits, orr_ask *ret,
                               orr_error *err) ORR_MUST_CHECK;
orr_status orr_ask_read_json(orr_ask_kind kind, const void *text, size_t n, const orr_dlrm *model,
                             const orr_ask_limits *limits, orr_ask *ret,
                             orr_error *err) ORR_MUST_CHECK;
/* Bags of a request: shape (orr_ask_lists()), into `ret`, whose rows have *ret_columns. */
uint32_t orr_ask_lists(const orr_ask *ask, const orr_dlrm *model);
int64_t orr_ask_columns(const orr_ask *ask, const orr_dlrm *model); /* of an answer's sample */
void orr_ask_bags(const orr_ask *ask, const orr_dlrm *model, float *values, orr_row_bags *ret);

/* For the files of this folder. */
void orr_ask_clear(orr_ask *ask, orr_ask_kind kind);
orr_status orr_ask_check_size(uint64_t samples, uint64_t lookups, const orr_ask_limits *limits,
                              orr_error *err) ORR_MUST_CHECK;
orr_status orr_ask_check_ids(const orr_ask *ask, const orr_dlrm *model,
                             orr_error *err) ORR_MUST_CHECK;

/* The answer, `values` as in the binary one. */
void orr_answer_json(const orr_ask *ask, const orr_dlrm *model, const float *values,
                     orr_output *out);
orr_answer_header orr_answer_header_of(const orr_ask *ask, const orr_dlrm *model);
/* As HTTP would say it: 400, 413, 500. */
unsigned orr_answer_code(orr_status status);

#endif /* ORR_ENGINE_SERVE_REQUEST_H */
