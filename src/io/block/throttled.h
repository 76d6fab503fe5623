/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_BLOCK_THROTTLED_H
#define ORR_IO_BLOCK_THROTTLED_H

#include "base/clock.h"
#include "io/block/device.h"

/* orr_block_device_throttle() on this clock, which outlives the device. */
orr_status orr_block_device_throttle_by(orr_block_device *device, const orr_block_limits *limits,
                                        const orr_clock *clock, orr_block_device **ret,
                                        orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_IO_BLOCK_THROTTLED_H */
