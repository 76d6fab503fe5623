/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/evaluate/effective_time.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/array.h"

typedef struct known {
    uint32_t devices, teams;
    double frac;
} known;
struct orr_effective_time {
    orr_fleet_options options;
    pthread_mutex_t lock; /* of what is known, also while it is found: nobody finds it twice */
    orr_array(known) known;
};

/* A search compares hundreds of pairs of devices and teams: shorter lives, fewer of them. */
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

/* As many as a fleet can have, each of as many copies. */
static uint32_t teams_of(uint32_t copies, uint32_t devices, uint32_t devices_of_node)
{
    const uint32_t nodes = devices / (devices_of_node > 0 ? devices_of_node : 1);
    uint32_t teams = copies < ORR_FLEET_REPLICAS ? copies : ORR_FLEET_REPLICAS;
    while (teams > 1 && (copies % teams != 0 || nodes % teams != 0))
        teams--;
    return teams;
}

static orr_status simulate(const orr_effective_time *e, uint32_t devices, uint32_t teams,
                           double *ret, orr_error *err)
{
    const orr_fleet_policy policies[2] = {{.way = ORR_FLEET_SYNC, .replicas = 1},
                                          {.way = ORR_FLEET_FT, .replicas = teams}};
    orr_fleet_options options = e->options;
    orr_fleet fleet;
    orr_arena *arena = orr_arena_new(0, 0);
    if (arena == NULL)
        return orr_fail_memory(err);
    options.gpus = devices;
    const orr_status status =
        orr_fleet_of(&options, policies, teams > 1 ? 2 : 1, false, arena, &fleet, err);
    *ret = 0;
    for (uint32_t i = 0; status == ORR_OK && i < fleet.n; i++)
        if (fleet.outcomes[i].effective.mean > *ret)
            *ret = fleet.outcomes[i].effective.mean;
    orr_arena_free(arena);
    return status;
}

static orr_status find(orr_effective_time *e, uint32_t devices, uint32_t teams, double *ret,
                       orr_error *err)
{
    known made = {.devices = devices, .teams = teams};
    for (size_t i = 0; i < e->known.n; i++)
        if (e->known.at[i].devices == devices && e->known.at[i].teams == teams) {
            *ret = e->known.at[i].frac;
            return ORR_OK;
        }
    ORR_TRY(simulate(e, devices, teams, &made.frac, err));
    if (made.frac < 1e-3) /* a job that never gets anywhere is slow, not endless */
        made.frac = 1e-3;
    if (!orr_array_push(&e->known, made))
        return orr_fail_memory(err);
    *ret = made.frac;
    return ORR_OK;
}

orr_status orr_effective_time_frac(orr_effective_time *e, uint32_t devices, uint32_t copies,
                                   double *ret, orr_error *err)
{
    const uint32_t teams = teams_of(copies, devices, e->options.gpus_per_node);
    (void)pthread_mutex_lock(&e->lock);
    const orr_status status = find(e, devices, teams, ret, err);
    (void)pthread_mutex_unlock(&e->lock);
    return status;
}
