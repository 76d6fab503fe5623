/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_RECORD_ROUTES_H
#define ORR_ENGINE_RECORD_ROUTES_H

#include <orrery/graph.h>

#include "experts/routes/builder.h"
#include "io/transport/transport.h"

/* Recorder of routes: which experts each token of this rank chose, in binary columns of a byte a
 * choice (12 bits beyond 256 experts), so that a step copies them and formats nothing. Threads:
 * one. */
typedef struct orr_route_recorder orr_route_recorder;
typedef struct orr_route_source {
    const uint32_t *number; /* shape (L): layers with experts that this rank has, ascending, by
                             * their number in the model */
    uint32_t layers, top_k; /* layers 0: nothing is recorded here */
    uint32_t experts;       /* of a layer */
} orr_route_source;

orr_status orr_route_recorder_new(const orr_route_source *source, orr_route_recorder **ret,
                                  orr_error *err) ORR_MUST_CHECK;
void orr_route_recorder_free(orr_route_recorder *recorder); /* NULL is allowed */

/* Adds a token, with a rank or UINT16_MAX; `choice` and `score` are not read. */
orr_status orr_route_recorder_token(orr_route_recorder *recorder, const orr_routes_row *token,
                                    orr_error *err) ORR_MUST_CHECK;
/* The experts of the next n tokens in a layer (an index), shape (n, K), of INT32 or INT64. INVALID:
 * an expert that the model does not have. */
orr_status orr_route_recorder_layer(orr_route_recorder *recorder, uint32_t layer, size_t n,
                                    const void *choice, orr_dtype dtype,
                                    orr_error *err) ORR_MUST_CHECK;

/* Writes what was recorded so far as CSV. */
orr_status orr_route_recorder_write(orr_route_recorder *recorder, const char *path,
                                    orr_error *err) ORR_MUST_CHECK;
/* All ranks together: rank 0 writes what all recorded. Ranks of one `group` have recorded the same
 * tokens in layers of their own (stages of a pipeline). Rows stand in the order of requests, those
 * of one by group and then as they were recorded. A rank that recorded no tokens adds none. `all`:
 * the layers of all ranks. INVALID: a group lacks a layer. */
orr_status orr_route_recorder_write_all(orr_route_recorder *recorder, orr_transport *transport,
                                        const orr_route_source *all, uint32_t group,
                                        const char *path, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_RECORD_ROUTES_H */
