/* SPDX-License-Identifier: Apache-2.0 */
/* `serve-tables`: answers lookups and samples until it is asked to end, then what it has taken. */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/units.h"
#include "cli/command/help.h"
#include "cli/command/interrupt.h"
#include "cli/running/serving.h"
#include "engine/serve/frames.h"
#include "engine/serve/http.h"
#include "io/json/writer.h"

static const char HTTP_DEFAULT[] = "127.0.0.1:8470";

enum {
    QUEUE_DEFAULT = 1024,
    QUEUE_MAX = 1 << 20,
    SAMPLES_DEFAULT = 4096,
    LOOKUPS_DEFAULT = 1 << 20,
    NUMBERS_MAX = 64 << 20,
    CONNECTIONS_DEFAULT = 256,
    BODY_DEFAULT = 16 << 20,
    IDLE_SECONDS = 30,
    BODY_SECONDS = 60,
    LOOK_MS = 50, /* between looks at signals */
};

typedef struct server {
    orr_serving serving;
    orr_table_style style;
    orr_service *service;
    orr_serve_http *http;
    orr_serve_frames *frames; /* NULL: no --connections */
    atomic_bool swap_wanted;
} server;

static volatile sig_atomic_t hung_up; /* SIGHUP came */

static void note_hang_up(int signal)
{
    (void)signal;
    hung_up = 1;
}

static void want_swap(void *ctx)
{
    server *s = ctx;
    atomic_store(&s->swap_wanted, true);
}

static orr_status open_trace(const server *s, orr_error *err)
{
    const orr_settings *o = s->serving.session.settings;
    orr_row_server *rows = orr_scorer_rows(s->serving.scorer);
    if (rows == NULL && (o->warm != NULL || o->record != NULL))
        return orr_fail(err, ORR_INVALID, "--warm, --record: without --store all rows are mapped");
    if (o->warm != NULL)
        ORR_TRY(orr_row_server_warm(rows, o->warm, err));
    return o->record != NULL ? orr_row_server_record(rows, o->record, err) : ORR_OK;
}

static orr_status open_service(server *s)
{
    const orr_settings *o = s->serving.session.settings;
    orr_error *err = &s->serving.session.err;
    uint64_t queue, samples, lookups, body = BODY_DEFAULT, connections;
    ORR_TRY(orr_serving_count("--queue", o->queue, QUEUE_DEFAULT, QUEUE_MAX, &queue, err));
    ORR_TRY(orr_serving_count("--max-samples", o->max_samples, SAMPLES_DEFAULT, 1 << 20, &samples,
                              err));
    ORR_TRY(orr_serving_count("--max-lookups", o->max_lookups, LOOKUPS_DEFAULT, 1 << 28, &lookups,
                              err));
    ORR_TRY(orr_serving_count("--max-connections", o->max_connections, CONNECTIONS_DEFAULT, 1 << 16,
                              &connections, err));
    if (o->max_body != NULL && orr_parse_bytes(o->max_body, &body, err) != ORR_OK) {
        orr_error_prefix(err, "--max-body");
        return err->status;
    }
    const orr_service_options options = {
        .scorer = s->serving.scorer,
        .threads = s->serving.threads,
        .queue = (uint32_t)queue,
        .limits = {(int64_t)samples, (int64_t)lookups, NUMBERS_MAX}};
    ORR_TRY(orr_service_open(&options, &s->service, err));
    const orr_serve_http_options http = {.where = o->listen != NULL ? o->listen : HTTP_DEFAULT,
                                         .body_bytes = (size_t)body,
                                         .connections = (uint32_t)connections,
                                         .idle_seconds = IDLE_SECONDS,
                                         .body_seconds = BODY_SECONDS,
                                         .service = s->service,
                                         .swap = want_swap,
                                         .ctx = s};
    ORR_TRY(orr_serve_http_open(&http, &s->http, err));
    const orr_serve_frames_options frames = {.where = o->frames,
                                             .body_bytes = (size_t)body,
                                             .connections = (uint32_t)connections,
                                             .idle_seconds = IDLE_SECONDS,
                                             .body_seconds = BODY_SECONDS,
                                             .service = s->service};
    return o->frames != NULL ? orr_serve_frames_open(&frames, &s->frames, err) : ORR_OK;
}

static void tell_address(server *s)
{
    orr_output *out = s->serving.session.out;
    if (s->style.format == ORR_TABLE_JSON) {
        orr_json_writer w;
        orr_json_write_init(&w, out);
        orr_json_write_object(&w);
        orr_json_member_text(&w, "schema", "orrery.serving/1");
        orr_json_member_text(&w, "http", orr_serve_http_address(s->http));
        if (s->frames != NULL)
            orr_json_member_text(&w, "connections", orr_serve_frames_address(s->frames));
        orr_json_write_object_end(&w);
        orr_output_text(out, "\n");
    } else {
        orr_output_printf(out, "http://%s\n", orr_serve_http_address(s->http));
        if (s->frames != NULL)
            orr_output_printf(out, "%s\n", orr_serve_frames_address(s->frames));
    }
    orr_output_flush(out);
}

static void swap(server *s)
{
    orr_error err;
    const char *folder = s->serving.session.settings->weights;
    if (orr_scorer_swap(s->serving.scorer, folder, &err) == ORR_OK)
        orr_session_remark(&s->serving.session, "the weights of %s are served now", folder);
    else
        orr_session_remark(&s->serving.session, "the weights stay as they were: %s", err.text);
}

static void wait_for_end(server *s)
{
    const struct timespec look = {.tv_nsec = LOOK_MS * 1000000L};
    while (!orr_interrupt_requested(NULL)) {
        if (hung_up || atomic_exchange(&s->swap_wanted, false)) {
            hung_up = 0;
            swap(s);
        }
        (void)nanosleep(&look, NULL); /* a signal ends it */
    }
}

static orr_status run(server *s)
{
    ORR_TRY(orr_serving_open(&s->serving, false));
    ORR_TRY(open_trace(s, &s->serving.session.err));
    ORR_TRY(open_service(s));
    ORR_TRY(orr_session_output(&s->serving.session, &s->style));
    tell_address(s);
    wait_for_end(s);
    orr_session_remark(&s->serving.session, "ending: what was asked is answered first");
    orr_serve_http_drain(s->http);
    if (s->frames != NULL)
        orr_serve_frames_drain(s->frames);
    orr_service_drain(s->service);
    if (s->serving.session.settings->record != NULL)
        ORR_TRY(orr_row_server_record(orr_scorer_rows(s->serving.scorer), NULL,
                                      &s->serving.session.err));
    orr_session_remark(&s->serving.session, "%llu requests were answered",
                       (unsigned long long)orr_service_answered(s->service));
    return orr_output_finish(s->serving.session.out, &s->serving.session.err);
}

int orr_command_serve_tables(const orr_settings *settings)
{
    server s = {0};
    int code = EXIT_DONE;
    const struct sigaction on_hang_up = {.sa_handler = note_hang_up};
    if (settings->weights == NULL) {
        orr_complain(
            "serve-tables: which weights? Add --weights FOLDER, as train --export wrote it");
        return EXIT_USAGE;
    }
    orr_interrupt_watch();
    (void)sigaction(SIGHUP, &on_hang_up, NULL);
    if (orr_session_init(&s.serving.session, settings) != ORR_OK || run(&s) != ORR_OK)
        code = orr_session_fail(&s.serving.session);
    if (s.service != NULL)
        orr_service_drain(s.service); /* nobody is answered from now on */
    orr_serve_frames_close(s.frames);
    orr_serve_http_close(s.http);
    orr_service_close(s.service);
    orr_serving_close(&s.serving);
    orr_session_done(&s.serving.session);
    return code;
}
