/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_FLOW_LINK_LOAD_H
#define ORR_SIM_FLOW_LINK_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

/* What one link has carried: bytes, time under load, and load over time in at most a given
 * number of samples. A sample lasts until the next. */
typedef struct orr_link_load_sample {
    int64_t at_ns, load; /* units                                           */
    int64_t rest;        /* units x ns that a merged sample has beyond load */
} orr_link_load_sample;
typedef struct orr_link_load {
    int64_t bytes, busy_ns;
    int64_t load, since_ns; /* as last noted */
    int64_t step_ns;        /* samples shorter than this take in what follows them */
    orr_array(orr_link_load_sample) samples;
} orr_link_load;

/* Room for more samples, up to `limit` (at least 8) of them; false when out of memory. */
bool orr_link_load_reserve(orr_link_load *use, size_t limit);
void orr_link_load_done(orr_link_load *use);
/* From now on the link carries `load`; room was reserved once. Time does not go back. Where
 * there is no more room the shortest samples are merged into the mean of their time; nothing is
 * lost by that. */
void orr_link_load_set(orr_link_load *use, int64_t now_ns, int64_t load);

#endif /* ORR_SIM_FLOW_LINK_LOAD_H */
