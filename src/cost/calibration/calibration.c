/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/calibration/calibration.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/* Peaks of the calibrated devices, for finding the nearest one of an uncalibrated device: dense
 * bf16 TFLOP/s and memory TB/s, as in catalog/devices. Variants of a device with the same peaks
 * are left out. */
static const struct {
    const char *device;
    double tflops, tbytes_per_s;
} NEAREST_CANDIDATES[] = {
    {"a100_sxm_40g", 312, 1.555}, {"a100_sxm_80g", 312, 2.039}, {"h100_sxm_80g", 989, 3.35},
    {"h200_sxm_141g", 989, 4.8},  {"b200_sxm_180g", 2250, 7.7}, {"gb200_186g", 2500, 8},
    {"b300_sxm_288g", 2250, 8},   {"gb300_288g", 2500, 8},      {"tpu_v5p", 459, 2.765},
};

/* Of the intervals of a device whose calibration is another's, in logarithms: assumed. */
#define BORROWED_WIDENING 1.5

static const size_t NO_FILE = SIZE_MAX;

static size_t file_of(const char *device)
{
    const size_t n = strlen(device);
    for (size_t i = 0; i < orr_n_calibration_files; i++) {
        const char *name = strrchr(orr_calibration_files[i].name, '/');
        name = name != NULL ? name + 1 : orr_calibration_files[i].name;
        if (strncmp(name, device, n) == 0 && strcmp(name + n, ".yaml") == 0)
            return i;
    }
    return NO_FILE;
}

static double distance(const orr_device *device, double tflops, double tbytes_per_s)
{
    const double flops = orr_fact_or(&device->peak_flops[ORR_DTYPE_BF16],
                                     orr_fact_or(&device->peak_flops[ORR_DTYPE_FP16], 1e12));
    const double bytes = orr_fact_or(&device->memory_bytes_per_s, 1e12);
    return fabs(log(flops / (1e12 * tflops))) + fabs(log(bytes / (1e12 * tbytes_per_s)));
}

size_t orr_calibration_file_for(const orr_device *device, bool *ret_own)
{
    const size_t own = file_of(device->name);
    *ret_own = own != NO_FILE;
    if (*ret_own)
        return own;
    size_t best = 0;
    double nearest = INFINITY;
    for (size_t i = 0; i < sizeof NEAREST_CANDIDATES / sizeof *NEAREST_CANDIDATES; i++) {
        const size_t file = file_of(NEAREST_CANDIDATES[i].device);
        const double far =
            distance(device, NEAREST_CANDIDATES[i].tflops, NEAREST_CANDIDATES[i].tbytes_per_s);
        if (file != NO_FILE && far < nearest) {
            nearest = far;
            best = file;
        }
    }
    return best;
}

static orr_status parse_file(size_t file, orr_arena *arena, const orr_yaml **ret, orr_error *err)
{
    const orr_catalog_file *f = &orr_calibration_files[file];
    return orr_yaml_parse((const char *)f->bytes, f->n, f->name, arena, ret, err);
}

orr_status orr_calibration_add_shared(orr_calibration *calibration, orr_arena *arena,
                                      orr_error *err)
{
    const orr_yaml *document;
    if (file_of("links") != NO_FILE) {
        ORR_TRY(parse_file(file_of("links"), arena, &document, err));
        ORR_TRY(orr_calibration_read_links(document, arena, calibration, err));
    }
    if (file_of("intervals") != NO_FILE) {
        ORR_TRY(parse_file(file_of("intervals"), arena, &document, err));
        ORR_TRY(orr_calibration_read_intervals(document, arena, calibration, err));
    }
    return ORR_OK;
}

/* Calibrations that are built in are read once in a process, and kept until it ends: a search asks
 * for one with each plan that it simulates. */
static struct {
    pthread_mutex_t lock; /* protects what follows */
    orr_arena *arena;
    const orr_calibration **of; /* shape (orr_n_calibration_files); NULL: not read yet */
} built_in = {.lock = PTHREAD_MUTEX_INITIALIZER};

static orr_status read_built_in(size_t file, orr_error *err)
{
    const orr_yaml *document;
    orr_calibration *read;
    if (built_in.arena == NULL)
        built_in.arena = orr_arena_new(0, 0);
    if (built_in.arena != NULL && built_in.of == NULL)
        built_in.of =
            orr_arena_array(built_in.arena, const orr_calibration *, orr_n_calibration_files);
    if (built_in.of == NULL)
        return orr_fail_memory(err);
    if (built_in.of[file] != NULL)
        return ORR_OK;
    ORR_TRY(parse_file(file, built_in.arena, &document, err));
    ORR_TRY(orr_calibration_read(document, 0, built_in.arena, &read, err));
    ORR_TRY(orr_calibration_add_shared(read, built_in.arena, err));
    built_in.of[file] = read;
    return ORR_OK;
}

orr_status orr_calibration_of(const orr_device *device, double software_year, orr_arena *arena,
                              const orr_calibration **ret, orr_error *err)
{
    bool own;
    const size_t file = orr_calibration_file_for(device, &own);
    orr_calibration *found = orr_arena_one(arena, orr_calibration);
    if (found == NULL)
        return orr_fail_memory(err);
    pthread_mutex_lock(&built_in.lock);
    const orr_status status = read_built_in(file, err);
    const orr_calibration *read = status == ORR_OK ? built_in.of[file] : NULL;
    pthread_mutex_unlock(&built_in.lock);
    if (read == NULL)
        return status;
    *found = orr_calibration_in_year(read, software_year);
    if (!own) {
        found->basis = ORR_BASIS_ASSUMED;
        found->error_frac = found->low_frac = found->high_frac = NAN;
        found->widening = fmax(found->widening, BORROWED_WIDENING);
    }
    *ret = found;
    return ORR_OK;
}
