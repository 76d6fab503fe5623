/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_SHARDING_SVG_H
#define ORR_REPORT_SHARDING_SVG_H

#include <orrery/table_planner.h>

#include "io/stream/output.h"

/* A sharding plan as a picture: ranks as columns, and in each its shards, one above the other. */
typedef enum orr_sharding_measure {
    ORR_SHARDING_TIME, /* of a step */
    ORR_SHARDING_MEMORY
} orr_sharding_measure;
typedef struct orr_sharding_picture {
    const orr_embedding_plan *plan;
    const orr_table_shard_cost *costs; /* shape (n_shards) */
    double common_ns, common_bytes;    /* of every rank, beside its shards */
    double bound_ns;   /* that the fullest rank is above in every plan; 0: not known */
    double room_bytes; /* of a rank for tables; 0: not known */
} orr_sharding_picture;

/* With a legend of the kinds, and the bound or the room as a line right across. Shards too small to
 * be seen are one block a kind and rank. Errors: NO_MEMORY. */
orr_status orr_svg_sharding(orr_output *out, const orr_sharding_picture *picture,
                            orr_sharding_measure measure, orr_arena *arena,
                            orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_REPORT_SHARDING_SVG_H */
