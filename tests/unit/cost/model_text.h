/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_TEXT_H
#define MODEL_TEXT_H

/* Fitted files as text. */
#include "measured.h"

#include "cost/models/file.h"

#define FEATURES                                                                                   \
    "\"features\":[\"dim0\",\"dim1\",\"dim2\",\"dim3\",\"dim4\",\"dim5\",\"dim6\",\"dim7\","       \
    "\"flops\",\"bytes\",\"intensity\",\"roofline_ns\",\"element_bytes\",\"backward\",\"copy\","   \
    "\"peak_flops\",\"memory_bytes_per_s\",\"l2_bytes\",\"sms\"]"
#define NULLS                                                                                      \
    "[null,null,null,null,null,null,null,null,null,null,"                                          \
    "null,null,null,null,null,null,null,null,null]"
#define LEARNED(families) "\"learned\":{" FEATURES ",\"families\":[" families "]}"
#define FAMILY(trees)                                                                              \
    "{\"family\":\"gemm\",\"base\":-0.5,\"error_frac\":0.1,\"samples\":9,\"groups\":3,"            \
    "\"low\":" NULLS ",\"high\":" NULLS ",\"trees\":[" trees "]}"
#define TREE(feature, value, child, missing)                                                       \
    "{\"feature\":[" feature "],\"value\":[" value "],\"child\":[" child                           \
    "],\"missing_left\":[" missing "]}"
#define GOOD_TREE               TREE("8,-1,-1", "20,0.5,-0.5", "1,0,0", "1,0,0")
#define TABLE(families, series) "\"table\":{\"families\":[" families "],\"series\":[" series "]}"
#define GEMM                                                                                       \
    "{\"family\":\"gemm\",\"neighbours\":2,\"trend\":false,\"error_frac\":null,"                   \
    "\"repeat_frac\":0.5}"
#define SERIES(points)                                                                             \
    "{\"family\":\"gemm\",\"dtype\":\"fp16\",\"copy\":0,\"backward\":false,\"n_dims\":4,"          \
    "\"label\":\"\",\"device\":\"one\",\"points\":[" points "]}"
#define POINT(ns, m) "[" ns ",3,1000,10,10,1," m ",64,64]"
#define BODY(parts)                                                                                \
    "{\"schema\":\"orrery.cost/1\",\"seed\":\"7\",\"samples\":9,\"sources\":[\"a\"],"              \
    "\"devices\":[\"one\"]," parts "}"

static inline orr_status model_from(const void *bytes, size_t n, orr_arena *arena,
                                    const orr_cost_file **ret, orr_error *err)
{
    orr_stream *stream;
    ORR_TRY(orr_stream_open_memory(bytes, n, &stream, err));
    const orr_status status = orr_cost_file_read(stream, arena, ret, err);
    orr_stream_close(stream);
    return status;
}

/* A text that has to be refused: INVALID or PARSE, naming a byte. */
static inline void refuse(const char *text, const char *says)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_cost_file *file = NULL;
    orr_error err = {0};
    const orr_status status = model_from(text, strlen(text), arena, &file, &err);
    if ((status != ORR_INVALID && status != ORR_PARSE) || strstr(err.text, says) == NULL ||
        strstr(err.text, "byte ") == NULL || err.byte_pos == UINT64_MAX)
        fail_msg("%s: %s (wanted '%s' of %.300s)", orr_status_name(status), err.text, says, text);
    assert_null(file);
    orr_arena_free(arena);
}

#endif /* MODEL_TEXT_H */
