/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_XPLANE_PLANE_H
#define ORR_TRACE_XPLANE_PLANE_H

#include <stdbool.h>
#include <string.h>

#include <orrery/status.h>

#include "base/array.h"
#include "io/json/reader.h"
#include "io/protobuf/wire.h"
#include "trace/common/idmap.h"

/* A plane of an XSpace: timelines ("lines") of a host or device, and the names that its events and
 * stats (named values) refer to by number. The messages and their fields are those of xplane.proto
 * of OpenXLA (github.com/openxla/xla), the names of stats those of its xplane_schema.cc. */
enum {
    XSPACE_PLANE = 1,
    XPLANE_NAME = 2,
    XPLANE_LINE = 3,
    XPLANE_EVENT_NAME = 4,
    XPLANE_STAT_NAME = 5,
    XPLANE_STAT = 6,
    XLINE_ID = 1,
    XLINE_NAME = 2,
    XLINE_TIMESTAMP_NS = 3,
    XLINE_EVENT = 4,
    XLINE_DISPLAY_NAME = 11,
    XEVENT_NAME_ID = 1,
    XEVENT_OFFSET_PS = 2,
    XEVENT_DURATION_PS = 3,
    XEVENT_STAT = 4,
    XEVENT_OCCURRENCES = 5,
    XNAME_KEY = 1, /* of an entry of the map; its value is ... */
    XNAME_VALUE = 2,
    XNAME_NAME = 2,
    XNAME_DISPLAY_NAME = 4,
    XNAME_STAT = 5,
    XSTAT_NAME_ID = 1,
    XSTAT_DOUBLE = 2,
    XSTAT_UINT = 3,
    XSTAT_INT = 4,
    XSTAT_TEXT = 5,
    XSTAT_BYTES = 6,
    XSTAT_REFERENCE = 7 /* a text that stands as the name of a stat */
};

/* Stats that are used. */
#define XPLANE_STATS(X)                                                                            \
    X(CORRELATION, "correlation_id")                                                               \
    X(STEP, "step_num")                                                                            \
    X(ROOT, "_r")                                                                                  \
    X(PRODUCER_KIND, "_pt")                                                                        \
    X(PRODUCER, "_p")                                                                              \
    X(CONSUMER_KIND, "_ct")                                                                        \
    X(CONSUMER, "_c")                                                                              \
    X(PROCESS, "process_id")                                                                       \
    X(KERNEL, "kernel_details")                                                                    \
    X(COPY, "memcpy_details")                                                                      \
    X(SET, "Memset_details")                                                                       \
    X(ALLOCATION, "memalloc_details")                                                              \
    X(FREE, "MemFree_details")                                                                     \
    X(RESIDENCY, "MemoryResidency_details")                                                        \
    X(HLO_OP, "hlo_op")                                                                            \
    X(HLO_MODULE, "hlo_module")                                                                    \
    X(HLO_CATEGORY, "hlo_category")                                                                \
    X(FLOPS, "flops")                                                                              \
    X(BYTES_ACCESSED, "bytes_accessed")                                                            \
    X(DEVICE_TYPE, "device_type_string")                                                           \
    X(GPU_NAME, "gpu_device_name")                                                                 \
    X(START_TIME, "profile_start_time")

typedef enum xplane_stat {
#define XPLANE_STAT_ENUM_(name, text) STAT_##name,
    XPLANE_STATS(XPLANE_STAT_ENUM_)
#undef XPLANE_STAT_ENUM_
        XPLANE_N_STATS
} xplane_stat;
_Static_assert(XPLANE_N_STATS <= 32, "one bit each in xplane_stats.ints and texts");

/* The stats of an event or plane, as far as they are used. Texts point into the file. */
typedef struct xplane_stats {
    uint32_t ints, texts; /* bit s of xplane_stat s: value[s], text[s] is there */
    int64_t value[XPLANE_N_STATS];
    orr_text text[XPLANE_N_STATS];
} xplane_stats;

static inline bool xplane_has(const xplane_stats *stats, xplane_stat s)
{
    return ((stats->ints | stats->texts) >> s & 1) != 0;
}
static inline int64_t xplane_int(const xplane_stats *stats, xplane_stat s, int64_t otherwise)
{
    return (stats->ints >> s & 1) != 0 ? stats->value[s] : otherwise;
}
static inline orr_text xplane_text(const xplane_stats *stats, xplane_stat s)
{
    return (stats->texts >> s & 1) != 0 ? stats->text[s] : (orr_text){"", 0};
}

typedef struct xplane_event_name {
    orr_text name;
    const uint8_t *message; /* XEventMetadata, for the stats that all its events have */
    size_t len;
    bool has_stats;
} xplane_event_name;

typedef struct xplane_stat_name {
    orr_text text;
    uint8_t stat; /* xplane_stat; XPLANE_N_STATS: another */
} xplane_stat_name;

typedef struct xplane {
    orr_proto fields; /* of the whole plane */
    orr_text name;
    bool has_streams; /* a line "Stream #..." */
    orr_idmap event_of, stat_of;
    orr_array(xplane_event_name) event_names;
    orr_array(xplane_stat_name) stat_names;
    const uint8_t *broken; /* where it is no XPlane */
} xplane;

/* Everything of the plane but its lines. The bytes are borrowed. Errors: NO_MEMORY; PARSE: see
 * `broken`, the text is the caller's. Free with xplane_done() in any case. */
orr_status xplane_read(xplane *plane, const uint8_t *bytes, size_t len,
                       orr_error *err) ORR_MUST_CHECK;
void xplane_done(xplane *plane);

/* NULL: none of that number. */
const xplane_event_name *xplane_event_name_of(const xplane *plane, uint64_t id);
/* Adds the stats that stand in field `number` of a message. False: broken. */
bool xplane_add_stats(const xplane *plane, const uint8_t *message, size_t len, uint32_t number,
                      xplane_stats *stats);

static inline orr_text xplane_field_text(const orr_proto_field *f)
{
    return (orr_text){(const char *)f->bytes, f->len};
}
static inline bool xplane_begins(orr_text text, const char *prefix)
{
    const size_t n = strlen(prefix);
    return text.n >= n && memcmp(text.at, prefix, n) == 0;
}

#endif /* ORR_TRACE_XPLANE_PLANE_H */
