/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_ROUTES_WINDOWS_H
#define ORR_EXPERTS_ROUTES_WINDOWS_H

#include <orrery/experts.h>

#include "base/array.h"
#include "io/stream/stream.h"

/* Windows of loads while they are read: what both forms fill. */
typedef struct orr_windows_reading {
    const char *path;
    orr_stream *stream;
    uint32_t layers, experts;   /* 0: not known yet */
    orr_array(uint32_t) number; /* of layers; none: 0, 1, .. */
    orr_array(double) load;     /* shape (windows, L, E) */
} orr_windows_reading;

/* Whether a file has windows of loads, not routes, by what it begins with: lists of numbers or a
 * key of loads in JSON; a column "layer" in CSV. */
orr_status orr_windows_look(orr_stream *stream, bool *ret, orr_error *err) ORR_MUST_CHECK;
/* The same of a file. Errors name it. */
orr_status orr_windows_look_at(const char *path, bool *ret, orr_error *err) ORR_MUST_CHECK;
/* orr_expert_windows_read() from a stream, which is borrowed; messages call it `path`. */
orr_status orr_windows_read_stream(orr_stream *stream, const char *path, orr_arena *arena,
                                   orr_expert_windows *ret, orr_error *err) ORR_MUST_CHECK;

orr_status orr_windows_read_json(orr_windows_reading *r, orr_error *err) ORR_MUST_CHECK;
orr_status orr_windows_read_csv(orr_windows_reading *r, orr_error *err) ORR_MUST_CHECK;
/* The name of a key that has loads in JSON; NULL: i is beyond the last. */
const char *orr_windows_key(uint32_t i);

#endif /* ORR_EXPERTS_ROUTES_WINDOWS_H */
