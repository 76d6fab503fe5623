/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/evaluate/effective_time.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/array.h"

typedef struct known {
    uint32_t devices, replicas;
    double frac;
} known;
struct orr_effective_time {
    orr_fleet_options options;
    pthread_mutex_t lock; /* of the cache; held while a value is computed, so that no other thread
                             computes it too */
    orr_array(known) known;
};

/* A search compares hundreds of pairs of devices and replicas: shorter and fewer trials than usual.
 */
enum { REPETITIONS = 4, DAYS = 30 };
static const int64_t DAY_NS = INT64_C(86400000000000);

orr_status orr_effective_time_new(const orr_fleet_options *options, orr_effective_time **ret,
                                  orr_error *err)
{
    orr_effective_time *e = orr_calloc(1, sizeof *e);
    if (e == NULL)
        return orr_fail_memory(err);
    e->options = *options;
    e->options.threads = 1;
    e->options.progress = NULL;
    e->options.tokens = 0;
    if (e->options.repetitions > REPETITIONS)
        e->options.repetitions = REPETITIONS;
    if (e->options.horizon_ns > DAYS * DAY_NS)
        e->options.horizon_ns = DAYS * DAY_NS;
    (void)pthread_mutex_init(&e->lock, NULL);
    *ret = e;
    return ORR_OK;
}

void orr_effective_time_free(orr_effective_time *e)
{
    if (e == NULL)
        return;
    orr_array_done(&e->known);
    (void)pthread_mutex_destroy(&e->lock);
    orr_free(e);
}

/* A node that a job uses in part can fail all the same. */
static uint32_t nodes_for(uint32_t devices, uint32_t devices_of_node)
{
    return devices_of_node > 0 ? (devices - 1) / devices_of_node + 1 : devices;
}

/* Groups copies into the number of replicas that a fleet can have. */
static uint32_t replicas_for(uint32_t copies, uint32_t devices, uint32_t devices_of_node)
{
    const uint32_t nodes = nodes_for(devices, devices_of_node);
    uint32_t replicas = copies < ORR_FLEET_REPLICAS ? copies : ORR_FLEET_REPLICAS;
    while (replicas > 1 && (copies % replicas != 0 || nodes % replicas != 0))
        replicas--;
    return replicas;
}

static orr_status simulate(const orr_effective_time *e, uint32_t devices, uint32_t replicas,
                           double *ret, orr_error *err)
{
    const orr_fleet_policy policies[2] = {{.recovery = ORR_FLEET_SYNC, .replicas = 1},
                                          {.recovery = ORR_FLEET_FT, .replicas = replicas}};
    orr_fleet_options options = e->options;
    orr_fleet fleet;
    orr_arena *arena = orr_arena_new(0, 0);
    if (arena == NULL)
        return orr_fail_memory(err);
    options.gpus = nodes_for(devices, options.gpus_per_node) * options.gpus_per_node;
    const orr_status status =
        orr_fleet_of(&options, policies, replicas > 1 ? 2 : 1, false, arena, &fleet, err);
    *ret = 0;
    for (uint32_t i = 0; status == ORR_OK && i < fleet.n; i++)
        if (fleet.outcomes[i].effective.mean > *ret)
            *ret = fleet.outcomes[i].effective.mean;
    orr_arena_free(arena);
    return status;
}

static orr_status find(orr_effective_time *e, uint32_t devices, uint32_t replicas, double *ret,
                       orr_error *err)
{
    known made = {.devices = devices, .replicas = replicas};
    for (size_t i = 0; i < e->known.n; i++)
        if (e->known.at[i].devices == devices && e->known.at[i].replicas == replicas) {
            *ret = e->known.at[i].frac;
            return ORR_OK;
        }
    ORR_TRY(simulate(e, devices, replicas, &made.frac, err));
    if (made.frac < 1e-3) /* a job that never makes progress is slow, not endless */
        made.frac = 1e-3;
    if (!orr_array_push(&e->known, made))
        return orr_fail_memory(err);
    *ret = made.frac;
    return ORR_OK;
}

orr_status orr_effective_time_frac(orr_effective_time *e, uint32_t devices, uint32_t copies,
                                   double *ret, orr_error *err)
{
    const uint32_t replicas = replicas_for(copies, devices, e->options.gpus_per_node);
    (void)pthread_mutex_lock(&e->lock);
    const orr_status status = find(e, devices, replicas, ret, err);
    (void)pthread_mutex_unlock(&e->lock);
    return status;
}

orr_status orr_effective_time_most(orr_effective_time *e, uint32_t devices, uint32_t ranks,
                                   double *ret, orr_error *err)
{
    const uint32_t each = e->options.gpus_per_node > 0 ? e->options.gpus_per_node : 1;
    orr_status status = ORR_OK;
    double most = 0;
    (void)pthread_mutex_lock(&e->lock);
    for (uint32_t r = 1; r <= ORR_FLEET_REPLICAS && status == ORR_OK; r++) {
        double frac = 0;
        if (r == 1 || (ranks % r == 0 && devices / each % r == 0))
            status = find(e, devices, r, &frac, err);
        most = frac > most ? frac : most;
    }
    (void)pthread_mutex_unlock(&e->lock);
    if (status == ORR_OK)
        *ret = most;
    return status;
}
