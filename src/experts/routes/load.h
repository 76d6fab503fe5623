/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_ROUTES_LOAD_H
#define ORR_EXPERTS_ROUTES_LOAD_H

#include <orrery/experts.h>

#include "io/stream/stream.h"

/* orr_expert_load_read() from a stream, which is borrowed; messages call it `path`. */
orr_status orr_expert_load_from(orr_stream *stream, const char *path, const char *phase,
                                orr_arena *arena, orr_expert_load *ret,
                                orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPERTS_ROUTES_LOAD_H */
