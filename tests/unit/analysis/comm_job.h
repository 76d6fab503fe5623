/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMM_JOB_H
#define COMM_JOB_H

#include "small_job.h"

/* Communication by hand, on top of small_job.h. */
static inline orr_group_id small_group(small *s, const char *name, const char *desc, uint32_t size)
{
    orr_group_id id;
    const orr_group group = {.name = small_str(s, name),
                             .desc = small_str(s, desc),
                             .size = size,
                             .start = 0,
                             .stride = 1};
    assert_int_equal(orr_builder_group(s->builder, &group, &id, &s->err), ORR_OK);
    return id;
}

static inline uint32_t small_comm(small *s, orr_collective collective, orr_group_id group,
                                  int32_t size, uint32_t lane, int64_t start_ns,
                                  int64_t duration_ns, int64_t bytes)
{
    const uint32_t v = small_node(s, ORR_NODE_COLLECTIVE, orr_collective_name(collective), lane,
                                  start_ns, duration_ns, ORR_NONE);
    const orr_comm comm = {.collective = (uint8_t)collective,
                           .group = group,
                           .group_size = size,
                           .seq = -1,
                           .peer = -1,
                           .root = -1,
                           .tag = -1,
                           .in_bytes = bytes,
                           .out_bytes = -1};
    assert_int_equal(orr_builder_comm(s->builder, v, &comm, &s->err), ORR_OK);
    return v;
}

#endif /* COMM_JOB_H */
