/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/random.h>

#include "team/access.h"
#include "team/coordinator/coordinator.h"
#include "team/status/http.h"

/* A coordinator as a process of its own: network, memory, and what it shows. */

#define LOOK_NS INT64_C(100000000)
/* Assumed: a process that died is started again, and has read its data, within a minute. */
#define LATE_NS INT64_C(60000000000)

typedef struct service {
    orr_net *net;
    orr_team_store *store;
    orr_coordinator *coordinator;
    orr_http_server *endpoint;
} service;

static orr_status open_service(const orr_coordinator_options *o, service *s, orr_error *err)
{
    const orr_net_system_options net = orr_team_access_net(&o->access);
    orr_coordinator_settings settings = {.listen = o->listen,
                                         .replicas = o->replicas,
                                         .min_replicas = o->min_replicas,
                                         .failure_timeout_ns = o->failure_timeout_ns,
                                         .join_window_ns = o->join_window_ns,
                                         .outage_timeout_ns = o->outage_timeout_ns,
                                         .keep_running = o->keep_running,
                                         .standby = o->standby,
                                         .on_event = o->on_event,
                                         .ctx = o->ctx};
    const int64_t patience =
        o->failure_timeout_ns > 0 ? o->failure_timeout_ns : INT64_C(2000000000);
    ORR_TRY(orr_team_access_check(&o->access, o->listen, err));
    if (getrandom(&settings.jump, sizeof settings.jump, 0) != sizeof settings.jump)
        settings.jump = (uint64_t)(uintptr_t)s;
    settings.jump &= (1 << 20) - 1;
    if (o->store != NULL)
        ORR_TRY(orr_team_store_open(o->store, patience / 4, &s->store, err));
    settings.store = s->store;
    ORR_TRY(orr_net_system_new(&net, &s->net, err));
    ORR_TRY(orr_coordinator_new(s->net, &settings, &s->coordinator, err));
    if (o->metrics != NULL)
        ORR_TRY(orr_http_server_open(o->metrics, &s->endpoint, err));
    return ORR_OK;
}

static void close_service(service *s)
{
    orr_http_server_close(s->endpoint);
    orr_coordinator_free(s->coordinator);
    orr_net_free(s->net);
    orr_team_store_close(s->store);
}

static void show(service *s)
{
    orr_team_status status;
    orr_error err;
    if (s->endpoint == NULL)
        return;
    orr_coordinator_status(s->coordinator, &status);
    if (orr_http_server_publish(s->endpoint, &status, &err) != ORR_OK) { /* the page before stays */
    }
}

/* A replica that was lost, and is on its way back, hears that the job has ended. */
static void await_late(service *s, const orr_coordinator_options *o)
{
    const int64_t until = s->net->now_ns(s->net) + LATE_NS;
    while (orr_coordinator_awaits_late(s->coordinator) && s->net->now_ns(s->net) < until &&
           (o->stopped == NULL || !o->stopped(o->ctx)))
        s->net->poll(s->net, s->net->now_ns(s->net) + LOOK_NS);
}

/* What was said last, to those who have left, is handed over before the process ends. */
static void say_goodbye(service *s)
{
    const int64_t until = s->net->now_ns(s->net) + 2 * LOOK_NS;
    while (s->net->now_ns(s->net) < until)
        s->net->poll(s->net, until);
}

orr_status orr_coordinator_run(const orr_coordinator_options *o, orr_error *err)
{
    service s = {0};
    const char *why;
    int64_t shown_ns = 0;
    orr_status status = open_service(o, &s, err);
    if (status == ORR_OK && o->listening != NULL)
        o->listening(o->ctx, orr_coordinator_address(s.coordinator));
    while (status == ORR_OK && !orr_coordinator_has_ended(s.coordinator, &why) &&
           (o->stopped == NULL || !o->stopped(o->ctx))) {
        const int64_t now = s.net->now_ns(s.net);
        if (now - shown_ns >= LOOK_NS) {
            show(&s);
            shown_ns = now;
        }
        s.net->poll(s.net, now + LOOK_NS);
    }
    if (status == ORR_OK && orr_coordinator_is_superseded(s.coordinator))
        status = orr_fail(err, ORR_CANCELED, "%s", why);
    if (status == ORR_OK)
        await_late(&s, o);
    if (status == ORR_OK)
        say_goodbye(&s);
    close_service(&s);
    return status;
}
