/* SPDX-License-Identifier: Apache-2.0 */
/* `score --rate`: an open-loop load on a recommendation model. */
#include <math.h>
#include <stdlib.h>

#include "base/units.h"
#include "cli/arguments/factor.h"
#include "cli/command/interrupt.h"
#include "cli/running/serving.h"
#include "engine/serve/load.h"
#include "io/json/writer.h"

#define FOR_DEFAULT_NS INT64_C(10000000000)

typedef struct loading {
    orr_serving serving;
    orr_table_style style;
    orr_load_options options;
    orr_load_result result;
} loading;

static orr_status read_options(loading *l)
{
    const orr_settings *s = l->serving.session.settings;
    orr_error *err = &l->serving.session.err;
    orr_load_options *o = &l->options;
    char *end;
    uint64_t samples;
    o->rate = strtod(s->qps, &end);
    if (end == s->qps || *end != '\0' || !(o->rate > 0 && o->rate <= 1e9)) {
        uint64_t rate;
        if (orr_parse_count(s->qps, &rate, err) != ORR_OK || rate == 0)
            return orr_fail(err, ORR_INVALID, "--rate: '%s' is no number of requests a second",
                            s->qps);
        o->rate = (double)rate;
    }
    ORR_TRY(orr_serving_count("--request", s->request, 1, 1 << 16, &samples, err));
    ORR_TRY(orr_serving_count("--count", s->count, ORR_LOAD_MAX, ORR_LOAD_MAX, &o->count, err));
    if (s->for_time != NULL && orr_parse_duration(s->for_time, &o->for_ns, err) != ORR_OK) {
        orr_error_prefix(err, "--for");
        return err->status;
    }
    if (s->for_time == NULL && s->count == NULL)
        o->for_ns = FOR_DEFAULT_NS;
    if (s->seed != NULL)
        ORR_TRY(orr_parse_seed(s->seed, &o->seed, err));
    o->samples = (int64_t)samples;
    o->clicks = l->serving.clicks;
    o->scorer = l->serving.scorer;
    o->address = s->connect;
    o->model = &l->serving.model->dlrm;
    o->threads = l->serving.threads;
    o->stopped = orr_interrupt_requested;
    return ORR_OK;
}

/* What the rows cost, where they are served from storage. */
static orr_row_server_stats rows_of(const loading *l)
{
    const orr_scorer *scorer = l->serving.scorer;
    const orr_row_server *rows = scorer != NULL ? orr_scorer_rows(scorer) : NULL;
    return rows != NULL ? orr_row_server_stats_of(rows, UINT32_MAX) : (orr_row_server_stats){0};
}

static void write_json(const loading *l)
{
    const orr_load_result *r = &l->result;
    orr_json_writer w;
    orr_json_write_init(&w, l->serving.session.out);
    orr_json_write_object(&w);
    orr_json_member_text(&w, "schema", "orrery.load/1");
    orr_json_member_double(&w, "asked_rate", l->options.rate);
    orr_json_member_double(&w, "rate", r->rate);
    orr_json_member_uint(&w, "answered", r->answered);
    orr_json_member_uint(&w, "refused", r->refused);
    orr_json_member_uint(&w, "missed", r->missed);
    orr_json_member_uint(&w, "samples", r->samples);
    orr_json_member_int(&w, "ns", r->ns);
    orr_json_member_int(&w, "mean_ns", r->mean_ns);
    orr_json_member_int(&w, "p50_ns", r->p50_ns);
    orr_json_member_int(&w, "p99_ns", r->p99_ns);
    orr_json_member_int(&w, "p999_ns", r->p999_ns);
    orr_json_member_int(&w, "max_ns", r->most_ns);
    const orr_row_server_stats rows = rows_of(l);
    orr_json_member_uint(&w, "lookups", rows.lookups);
    orr_json_member_uint(&w, "hits", rows.hits);
    orr_json_member_uint(&w, "pooled_lookups", rows.pooled_lookups);
    orr_json_member_uint(&w, "pooled_hits", rows.pooled_hits);
    orr_json_member_uint(&w, "pooled_rows_saved", rows.pooled_rows_saved);
    orr_json_member_uint(&w, "rows_read", rows.reads);
    orr_json_member_uint(&w, "read_bytes", rows.read_bytes);
    orr_json_member_uint(&w, "throttled", rows.throttled);
    orr_json_write_object_end(&w);
    orr_output_text(l->serving.session.out, "\n");
}

static void write_text(const loading *l)
{
    const orr_load_result *r = &l->result;
    orr_output *out = l->serving.session.out;
    orr_output_printf(out, "asked     %.0f requests a second of %lld samples\n", l->options.rate,
                      (long long)l->options.samples);
    orr_output_printf(
        out, "answered  %.0f a second, %llu in all, %llu refused, %llu not asked in time\n",
        r->rate, (unsigned long long)r->answered, (unsigned long long)r->refused,
        (unsigned long long)r->missed);
    orr_output_printf(out,
                      "latency   mean %.1f us, p50 %.1f us, p99 %.1f us, p99.9 %.1f us, max "
                      "%.1f us\n",
                      (double)r->mean_ns * 1e-3, (double)r->p50_ns * 1e-3, (double)r->p99_ns * 1e-3,
                      (double)r->p999_ns * 1e-3, (double)r->most_ns * 1e-3);
    if (l->serving.scorer == NULL || orr_scorer_rows(l->serving.scorer) == NULL)
        return;
    const orr_row_server_stats rows = rows_of(l);
    orr_output_printf(out, "rows      %llu lookups, %llu in memory, %llu reads, %llu bytes\n",
                      (unsigned long long)rows.lookups, (unsigned long long)rows.hits,
                      (unsigned long long)rows.reads, (unsigned long long)rows.read_bytes);
    orr_output_printf(out, "pooled    %llu of %llu bags, %llu rows saved\n",
                      (unsigned long long)rows.pooled_hits, (unsigned long long)rows.pooled_lookups,
                      (unsigned long long)rows.pooled_rows_saved);
}

static orr_status run(loading *l)
{
    ORR_TRY(orr_serving_open(&l->serving, true));
    ORR_TRY(read_options(l));
    ORR_TRY(orr_session_output(&l->serving.session, &l->style));
    ORR_TRY(orr_load_run(&l->options, &l->result, &l->serving.session.err));
    if (l->style.format == ORR_TABLE_JSON)
        write_json(l);
    else
        write_text(l);
    return orr_output_finish(l->serving.session.out, &l->serving.session.err);
}

int orr_score_load(const orr_settings *settings)
{
    loading l = {0};
    int code = EXIT_DONE;
    orr_interrupt_watch();
    if (orr_session_init(&l.serving.session, settings) != ORR_OK || run(&l) != ORR_OK)
        code = orr_session_fail(&l.serving.session);
    else if (orr_interrupt_signal() != 0)
        code = 128 + orr_interrupt_signal();
    orr_serving_close(&l.serving);
    orr_session_done(&l.serving.session);
    return code;
}
