/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_CALIBRATION_CALIBRATION_H
#define ORR_COST_CALIBRATION_CALIBRATION_H

#include <orrery/calibration.h>

#include "io/yaml/yaml.h"
#include "machine/catalog/embedded_files.h"

/* The files of catalog/calibrations, embedded into the library at build time by tools/embed.py:
 * name "calibrations/<device>.yaml". */
extern const orr_catalog_file orr_calibration_files[];
extern const size_t orr_n_calibration_files;

/* Reads the calibration of a device type. INVALID: an unknown or missing key, a value that no
 * device can have. */
orr_status orr_calibration_read(const orr_yaml *document, double software_year, orr_arena *arena,
                                orr_calibration **ret, orr_error *err) ORR_MUST_CHECK;
/* Read what all devices share into a calibration; and do so from the files that are built in. */
orr_status orr_calibration_read_links(const orr_yaml *document, orr_arena *arena,
                                      orr_calibration *calibration, orr_error *err) ORR_MUST_CHECK;
orr_status orr_calibration_read_intervals(const orr_yaml *document, orr_arena *arena,
                                          orr_calibration *calibration,
                                          orr_error *err) ORR_MUST_CHECK;
orr_status orr_calibration_add_shared(orr_calibration *calibration, orr_arena *arena,
                                      orr_error *err) ORR_MUST_CHECK;
/* Index of the file for a device: its own, else that of the device with the nearest FLOP/s and
 * memory bandwidth. `ret_own`: it is its own. */
size_t orr_calibration_file_for(const orr_device *device, bool *ret_own);

#endif /* ORR_COST_CALIBRATION_CALIBRATION_H */
