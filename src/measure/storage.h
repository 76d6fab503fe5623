/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MEASURE_STORAGE_H
#define ORR_MEASURE_STORAGE_H

#include <orrery/measure.h>

#include "base/clock.h"
#include "io/block/device.h"

/* A device that is measured; its content is overwritten. */
typedef struct orr_storage_probe {
    orr_block_device *device;
    const orr_clock *clock;
    int64_t least_ns; /* each access is repeated for that long */
    void *memory;     /* aligned as the device wants it, for `depth` transfers of `bytes` */
} orr_storage_probe;

/* One access: depth is at most that of the device. */
orr_status orr_probe_storage(const orr_storage_probe *probe, orr_storage_access access,
                             uint32_t bytes, uint32_t depth, orr_measured_access *ret,
                             orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MEASURE_STORAGE_H */
