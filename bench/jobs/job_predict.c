/* SPDX-License-Identifier: Apache-2.0 */
#include "job_predict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/parallel_for.h"
#include "cost/calibration/calibration.h"
#include "job_kernels.h"
#include "job_serving.h"
#include "outcome/outcome.h"

static const orr_cluster *cluster_of(const job_world *world, const job_case *c)
{
    return orr_catalog_cluster(world->catalog, c->cluster);
}

job_device *job_device_of(job_world *world, const job_case *c)
{
    const orr_cluster *cluster = cluster_of(world, c);
    for (size_t i = 0; cluster != NULL && i < world->n_devices; i++)
        if (world->devices[i].device == cluster->device)
            return &world->devices[i];
    return NULL;
}

static orr_status
load_shared(const char *folder, const char *name, orr_arena *arena, orr_calibration *c,
            orr_status (*read)(const orr_yaml *, orr_arena *, orr_calibration *, orr_error *),
            orr_error *err)
{
    const orr_yaml *document;
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s.yaml", folder, name) >= (int)sizeof path ||
        access(path, R_OK) != 0)
        return ORR_OK;
    ORR_TRY(orr_yaml_load(path, arena, &document, err));
    return read(document, arena, c, err);
}

/* The calibration of a file, with the links and intervals of its folder. */
static orr_status load(const char *path, const char *folder, orr_arena *arena,
                       const orr_calibration **ret, orr_error *err)
{
    const orr_calibration *of_device;
    orr_calibration *c = orr_arena_one(arena, orr_calibration);
    if (c == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_calibration_load(path, 0, arena, &of_device, err));
    *c = *of_device;
    ORR_TRY(load_shared(folder, "links", arena, c, orr_calibration_read_links, err));
    ORR_TRY(load_shared(folder, "intervals", arena, c, orr_calibration_read_intervals, err));
    *ret = c;
    return ORR_OK;
}

static orr_status open_device(job_world *world, const orr_device *device, const char *folder,
                              orr_error *err)
{
    char path[4096] = "";
    const orr_calibration *calibration;
    if (world->n_devices == JOB_DEVICES_MOST)
        return orr_fail(err, ORR_LIMIT, "more than %d devices", JOB_DEVICES_MOST);
    if (folder != NULL)
        (void)snprintf(path, sizeof path, "%s/%s.yaml", folder, device->name);
    if (path[0] != '\0' && access(path, R_OK) == 0)
        ORR_TRY(load(path, folder, world->arena, &calibration, err));
    else
        ORR_TRY(orr_calibration_of(device, 0, world->arena, &calibration, err));
    world->devices[world->n_devices++] =
        (job_device){.device = device, .calibration = *calibration};
    return ORR_OK;
}

orr_status job_world_open(const job_cases *cases, const char *folder, orr_arena *arena,
                          job_world *ret, orr_error *err)
{
    job_world world = {.arena = arena, .threads = 1};
    ORR_TRY(orr_catalog_open(arena, &world.catalog, err));
    for (size_t i = 0; i < cases->n; i++) {
        const orr_cluster *cluster = cluster_of(&world, &cases->at[i]);
        if (cluster == NULL)
            return orr_fail(err, ORR_NOT_FOUND, "no cluster '%s'", cases->at[i].cluster);
        job_device *device = job_device_of(&world, &cases->at[i]);
        if (device == NULL) {
            ORR_TRY(open_device(&world, cluster->device, folder, err));
            device = &world.devices[world.n_devices - 1];
        }
        device->n_cases++;
        device->n_fitted += cases->at[i].fitted;
    }
    *ret = world;
    return ORR_OK;
}

static void note_memory(const job_case *c, const orr_memory_plan *memory, job_prediction *ret)
{
    if (memory->n_stages == 0)
        return;
    const orr_stage_memory *worst = &memory->stages[memory->worst];
    const bool reserved = strcmp(c->memory_kind, "reserved") == 0;
    ret->memory_gib =
        (double)(reserved ? worst->reserved_bytes : worst->allocated_bytes) / 1073741824.0;
    ret->missing_gib = (double)memory->missing_bytes / 1073741824.0;
}

orr_job_kind job_kind_of(const job_case *c)
{
    return c->kernel != NULL               ? ORR_JOB_KINDS
           : c->measure == JOB_FIRST_TOKEN ? ORR_JOB_KIND_PREFILL
           : c->measure == JOB_REQUEST || c->measure == JOB_TOKEN
               ? ORR_JOB_KIND_DECODE
               : orr_outcome_kind(c->model, c->workload.task);
}

/* A request is passes over prompts and steps of decoding: its error is that of decoding. */
static void fill_interval(const job_case *c, const orr_calibration *calibration,
                          job_prediction *ret)
{
    const orr_job_kind kind = job_kind_of(c);
    if (kind == ORR_JOB_KINDS || calibration->intervals == NULL)
        return;
    const orr_error_interval *of = &calibration->intervals[kind];
    const double widening = fmax(calibration->widening, 1);
    ret->low_s = ret->seconds * exp(widening * log1p(of->low_frac));
    ret->high_s = ret->seconds * exp(widening * log1p(of->high_frac));
}

void job_predict(const job_world *world, const job_case *c, const orr_calibration *calibration,
                 job_prediction *ret)
{
    orr_error err = {0};
    orr_outcome outcome = {0};
    orr_job_options options;
    *ret = (job_prediction){NAN, NAN, NAN, NAN, 0, {0}, ""};
    if (c->measure != JOB_STEP) {
        (c->kernel != NULL ? job_predict_kernel : job_predict_serving)(world, c, calibration, ret);
        fill_interval(c, calibration, ret);
        return;
    }
    orr_arena *arena = orr_arena_new(0, 0);
    if (arena == NULL)
        return;
    orr_job_options_init(&options);
    options.workload = c->workload;
    options.detail = ORR_DETAIL_CHUNK;
    options.calibration = calibration;
    if (orr_outcome_of(c->model, &c->plan, cluster_of(world, c), &options, arena, &outcome, &err) !=
        ORR_OK) {
        (void)snprintf(ret->reason, sizeof ret->reason, "%s", err.text);
    } else {
        if (c->seconds > 0) /* else: its memory alone was measured */
            ret->seconds = (double)outcome.step_ns / 1e9;
        ret->low_s = outcome.low_ns < 0 ? NAN : (double)outcome.low_ns / 1e9;
        ret->high_s = outcome.high_ns < 0 ? NAN : (double)outcome.high_ns / 1e9;
        memcpy(ret->waterfall_ns, outcome.waterfall_ns, sizeof ret->waterfall_ns);
        note_memory(c, &outcome.memory, ret);
    }
    orr_outcome_free(&outcome);
    orr_arena_free(arena);
}

typedef struct batch {
    const job_world *world;
    const job_cases *cases;
    job_prediction *ret;
} batch;

static orr_status predict_one(void *ctx, size_t i, orr_error *err)
{
    const batch *b = ctx;
    (void)err;
    const job_device *device = job_device_of((job_world *)(uintptr_t)b->world, &b->cases->at[i]);
    const orr_calibration at =
        orr_calibration_in_year(&device->calibration, b->cases->at[i].software_year);
    job_predict(b->world, &b->cases->at[i], &at, &b->ret[i]);
    return ORR_OK;
}

orr_status job_predict_all(const job_world *world, const job_cases *cases, job_prediction *ret,
                           orr_error *err)
{
    batch b = {world, cases, ret};
    return orr_parallel_for(cases->n, world->threads, predict_one, &b, err);
}
