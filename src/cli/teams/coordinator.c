/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/units.h"
#include "cli/arguments/team_key.h"
#include "cli/running/child_report.h"
#include "cli/command/session.h"
#include "cli/command/interrupt.h"
#include "io/json/writer.h"

typedef struct coordinating {
    orr_session session;
    orr_coordinator_options options;
    orr_table_style style;
    int reports; /* to who started it; -1 */
} coordinating;

static bool is_none(const char *text)
{
    return text != NULL && strcmp(text, "none") == 0;
}

static orr_status make_folders(char *path, orr_error *err)
{
    for (char *at = strchr(path + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        const bool is = mkdir(path, 0755) == 0 || errno == EEXIST;
        const orr_status status =
            is ? ORR_OK : orr_fail(err, ORR_IO, "--log: %s: %s", path, strerror(errno));
        *at = '/';
        ORR_TRY(status);
    }
    return ORR_OK;
}

/* $XDG_STATE_HOME/orrery, ~/.local/state/orrery: by the port, under which replicas will look for it
 * again. */
static orr_status usual_log(coordinating *c, const char **ret)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const char *port = strrchr(c->options.listen, ':');
    orr_arena *arena = c->session.arena;
    if (port == NULL || strtol(port + 1, NULL, 10) == 0)
        return ORR_OK;
    if (state == NULL || *state != '/')
        state = orr_arena_printf(arena, "%s/.local/state",
                                 home != NULL && *home == '/' ? home : "/tmp");
    char *path = state == NULL
                     ? NULL
                     : orr_arena_printf(arena, "%s/orrery/coordinator-%s.log", state, port + 1);
    if (path == NULL)
        return orr_fail_memory(&c->session.err);
    *ret = path;
    return make_folders(path, &c->session.err);
}

static orr_status find_store(coordinating *c)
{
    const orr_settings *s = c->session.settings;
    orr_error *err = &c->session.err;
    if (s->log != NULL && s->etcd != NULL)
        return orr_fail(err, ORR_INVALID, "--log or --etcd: it remembers in one place");
    if (s->etcd != NULL) {
        c->options.store = orr_arena_printf(c->session.arena, "etcd:%s", s->etcd);
        return c->options.store != NULL ? ORR_OK : orr_fail_memory(err);
    }
    if (s->log == NULL)
        return usual_log(c, &c->options.store);
    c->options.store = is_none(s->log) ? NULL : s->log;
    return ORR_OK;
}

/* `text` NULL: it was not said. */
static orr_status read_duration(const char *option, const char *text, int64_t *ret_ns,
                                orr_error *err)
{
    const orr_status status = text != NULL ? orr_parse_duration(text, ret_ns, err) : ORR_OK;
    if (status != ORR_OK)
        orr_error_prefix(err, option);
    return status;
}

static orr_status read_options(coordinating *c)
{
    const orr_settings *s = c->session.settings;
    orr_coordinator_options *o = &c->options;
    orr_error *err = &c->session.err;
    if (s->replicas > UINT16_MAX || s->least > UINT16_MAX)
        return orr_fail(err, ORR_INVALID, "--replicas, --min-replicas: so many are no team");
    o->listen = s->listen != NULL ? s->listen : ORR_COORDINATOR_ADDRESS_DEFAULT;
    o->metrics = is_none(s->metrics) ? NULL : s->metrics;
    o->replicas = (uint32_t)s->replicas;
    o->min_replicas = (uint32_t)s->least;
    o->keep_running = s->stay;
    o->standby = s->standby;
    if (s->standby && s->etcd == NULL)
        return orr_fail(err, ORR_INVALID,
                        "--standby: coordinators share what they remember: add --etcd URLS/KEY");
    ORR_TRY(read_duration("--failure-timeout", s->failure_timeout, &o->failure_timeout_ns, err));
    ORR_TRY(read_duration("--outage-timeout", s->outage_timeout, &o->outage_timeout_ns, err));
    ORR_TRY(orr_arguments_team_access(s, c->session.arena, &o->access, err));
    return find_store(c);
}

static void tell_address(void *ctx, const char *address)
{
    coordinating *c = ctx;
    orr_output *out = c->session.out;
    if (c->reports >= 0)
        orr_child_report_send_address(c->reports, address);
    if (c->style.format == ORR_TABLE_JSON) {
        orr_json_writer w;
        orr_json_write_init(&w, out);
        orr_json_write_object(&w);
        orr_json_member_text(&w, "schema", "orrery.coordinator/1");
        orr_json_write_key(&w, "listening");
        orr_json_write_cstr(&w, address);
        orr_json_write_key(&w, "store");
        if (c->options.store != NULL)
            orr_json_write_cstr(&w, c->options.store);
        else
            orr_json_write_null(&w);
        orr_json_write_object_end(&w);
        orr_output_text(out, "\n");
    } else {
        orr_output_printf(out, "listening on %s\n", address);
    }
    orr_output_flush(out);
    if (c->options.store != NULL)
        orr_session_remark(&c->session, "what must outlive it is in %s", c->options.store);
    else
        orr_session_remark(&c->session, "nothing outlives it: no --log, no --etcd");
}

static void tell_event(void *ctx, const orr_team_event *event)
{
    const coordinating *c = ctx;
    const orr_settings *s = c->session.settings;
    if (c->reports >= 0)
        orr_child_report_send_event(c->reports, event);
    else if (!s->quiet && (event->kind != ORR_TEAM_COMMIT || s->verbose))
        orr_team_event_print(NULL, event, event->text != NULL ? event->text : "");
}

static int finish(coordinating *c, int code)
{
    if (code != EXIT_DONE)
        orr_session_fail(&c->session);
    orr_session_done(&c->session);
    return code;
}

int orr_command_coordinator(const orr_settings *settings)
{
    coordinating c = {.reports = orr_child_report_open()};
    if (orr_session_init(&c.session, settings) != ORR_OK || read_options(&c) != ORR_OK)
        return finish(&c, c.session.err.status == ORR_INVALID ? EXIT_USAGE : EXIT_INPUT);
    if (orr_session_output(&c.session, &c.style) != ORR_OK)
        return finish(&c, EXIT_INPUT);
    c.options.listening = tell_address;
    c.options.on_event = tell_event;
    c.options.stopped = orr_interrupt_requested;
    c.options.ctx = &c;
    orr_interrupt_watch();
    const orr_status status = orr_coordinator_run(&c.options, &c.session.err);
    if (status != ORR_OK)
        return finish(&c, status == ORR_INVALID ? EXIT_USAGE : EXIT_INPUT);
    if (orr_output_finish(c.session.out, &c.session.err) != ORR_OK)
        return finish(&c, EXIT_INPUT);
    finish(&c, EXIT_DONE);
    return orr_interrupt_signal() != 0 ? 128 + orr_interrupt_signal() : EXIT_DONE;
}
