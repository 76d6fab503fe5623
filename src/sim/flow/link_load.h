/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_FLOW_LINK_LOAD_H
#define ORR_SIM_FLOW_LINK_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

/* Load of one link: bytes, busy time, and load over time in a limited number of samples. A
 * sample lasts until the next one. */
typedef struct orr_link_load_sample {
    int64_t at_ns, load; /* load in units */
    int64_t rest;        /* units x ns that a merged sample has beyond load */
} orr_link_load_sample;
typedef struct orr_link_load {
    int64_t bytes, busy_ns;
    int64_t load, since_ns; /* as last set */
    int64_t step_ns;        /* shorter samples are merged with those after them */
    orr_array(orr_link_load_sample) samples;
} orr_link_load;

/* Makes room for more samples, up to `limit` (at least 8). False: out of memory. */
bool orr_link_load_reserve(orr_link_load *use, size_t limit);
void orr_link_load_done(orr_link_load *use);
/* From now on the link carries `load`; room was reserved before. Time does not go back. Where
 * there is no room the shortest samples are merged into their mean over time; bytes and busy
 * time lose nothing by that. */
void orr_link_load_set(orr_link_load *use, int64_t now_ns, int64_t load);

#endif /* ORR_SIM_FLOW_LINK_LOAD_H */
