/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

/* A coordinator's process, and its disk; or the record that two of them share. */

static orr_status load(orr_team_store *store, uint64_t *ret_version, void *ret, size_t room,
                       size_t *ret_bytes, orr_error *err)
{
    const coordinator_process *k = store->ctx;
    return orr_sim_disk_load(&k->disk, ret_version, ret, room, ret_bytes, err);
}

static orr_status save(orr_team_store *store, uint64_t version, const void *record, size_t bytes,
                       orr_error *err)
{
    coordinator_process *k = store->ctx;
    return orr_sim_disk_save(&k->disk, version, record, bytes, err);
}

static orr_status load_shared(orr_team_store *store, uint64_t *ret_version, void *ret, size_t room,
                              size_t *ret_bytes, orr_error *err)
{
    coordinator_process *k = store->ctx;
    const shared_record *shared = &k->of->shared;
    k->seen = shared->version;
    if (shared->version == 0 || shared->bytes > room)
        return orr_fail(err, ORR_NOT_FOUND, "there is no record");
    memcpy(ret, shared->at, shared->bytes);
    *ret_version = shared->version;
    *ret_bytes = shared->bytes;
    return ORR_OK;
}

static orr_status save_shared(orr_team_store *store, uint64_t version, const void *record,
                              size_t bytes, orr_error *err)
{
    coordinator_process *k = store->ctx;
    shared_record *shared = &k->of->shared;
    if (shared->version != k->seen)
        return orr_fail(err, ORR_CANCELED, "another coordinator wrote");
    if (bytes > sizeof shared->at || version <= shared->version)
        return orr_fail(err, ORR_LIMIT, "no record for this store");
    memcpy(shared->at, record, bytes);
    shared->bytes = bytes;
    shared->version = k->seen = version;
    return ORR_OK;
}

static void close_nothing(orr_team_store *store)
{
    (void)store;
}

/* This is another job, and who lives of the one before has to be taken in like a stranger. */
static void begin_another(scenario *d, const char *why)
{
    scenario_log(d, "FAULT", "%s: another job", why);
    oracle_forget(&d->oracle);
    for (uint32_t i = 0; i < SCENARIO_REPLICAS; i++)
        for (uint32_t j = 0; j < d->plan.ranks; j++)
            d->replicas[i].ranks[j].part = oracle_no_part(d->replicas[i].ranks[j].part.epoch);
}

/* A coordinator that lost its disk, and hears only of replicas that were in no epoch, cannot know
 * that there was a team. */
static void begin_if_forgotten(const coordinator_process *k)
{
    scenario *d = k->of;
    bool known = false;
    for (uint32_t i = 0; i < SCENARIO_REPLICAS; i++)
        for (uint32_t j = 0; j < d->plan.ranks; j++)
            known |= k->joined[i] && d->replicas[i].ranks[j].part.epoch > 0;
    if (k->forgot && !known)
        begin_another(d, "nobody knows of a team");
}

static void note_joined(coordinator_process *k, const char *text)
{
    const scenario *d = k->of;
    for (uint32_t i = 0; i < SCENARIO_REPLICAS; i++)
        if (d->replicas[i].of != NULL &&
            strncmp(text, d->replicas[i].name, strlen(d->replicas[i].name)) == 0)
            k->joined[i] = true;
}

/* A commit, told as such or, where it dies before, by what it says last. */
static void note_decision(scenario *d, const orr_team_event *event)
{
    const oracle_decision none = {0},
                          next = {event->step, event->epoch, orr_simnet_events(d->world)};
    const oracle_decision last = d->decisions.n > 0 ? d->decisions.at[d->decisions.n - 1] : none;
    if (event->kind != ORR_TEAM_COMMIT &&
        (event->kind != ORR_TEAM_HALT || event->step != last.step + 1))
        return;
    if (event->step <= last.step)
        d->abandoned = last;
    if (!orr_array_push(&d->decisions, next))
        abort();
}

static void on_told(void *ctx, const orr_team_event *event)
{
    coordinator_process *k = ctx;
    scenario *d = k->of;
    scenario_log(d, k == d->coordinators ? "COORDINATOR" : "THE SECOND",
                 "%s: %s (epoch %" PRIu64 ", step %" PRIu64 ")",
                 orr_team_event_name((orr_team_event_kind)event->kind), event->text, event->epoch,
                 event->step);
    note_decision(d, event);
    d->takeovers += event->kind == ORR_TEAM_COORDINATOR && strncmp(event->text, "leads", 5) == 0;
    if ((event->kind == ORR_TEAM_HALT || event->kind == ORR_TEAM_COORDINATOR) &&
        strstr(event->text, "no replica has a whole state") != NULL)
        d->stateless = true;
    else if (event->kind == ORR_TEAM_JOINED)
        note_joined(k, event->text);
    if (event->kind == ORR_TEAM_LEFT && strcmp(event->text, "all replicas have left") == 0)
        begin_another(d, "the last that was heard has left");
    if (event->kind == ORR_TEAM_EPOCH) {
        begin_if_forgotten(k);
        d->stateless = k->forgot = false;
    }
    faults_notice(d, event->kind);
}

void coordinator_process_start(coordinator_process *k)
{
    scenario *d = k->of;
    const bool shares = d->plan.coordinators > 1;
    orr_error err;
    if (k->lives)
        return;
    orr_simnet_restart(d->world, k->host);
    scenario_log(d, k == d->coordinators ? "COORDINATOR" : "THE SECOND", "starts");
    k->store = (orr_team_store){.name = "sim",
                                .ctx = k,
                                .shared = shares,
                                .load = shares ? load_shared : load,
                                .save = shares ? save_shared : save,
                                .close = close_nothing};
    const orr_coordinator_settings settings = {.listen = "here:77",
                                               .store = &k->store,
                                               .replicas = d->plan.replicas,
                                               .min_replicas = 1,
                                               .failure_timeout_ns = d->plan.failure_ns,
                                               .keep_running = true,
                                               .standby = shares,
                                               .jump = orr_random_below(&d->random, 1 << 20),
                                               .on_event = on_told,
                                               .ctx = k};
    k->lives = true;
    memset(k->joined, 0, sizeof k->joined);
    if (orr_coordinator_new(orr_simnet_host_net(d->world, k->host), &settings, &k->coordinator,
                            &err) != ORR_OK)
        scenario_fail(d, "the coordinator cannot start: %s", err.text);
}

void coordinator_process_kill(coordinator_process *k, bool silently)
{
    orr_simnet_kill(k->of->world, k->host, silently);
    orr_coordinator_free(k->coordinator);
    k->coordinator = NULL;
    k->lives = false;
    k->died = true;
}
