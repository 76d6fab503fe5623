/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/progress.h"
#include "base/units.h"
#include "cli/arguments/factor.h"
#include "cli/arguments/failures.h"

#define DAY_NS 86400000000000
enum {
    DAYS_DEFAULT = 90,
    DAYS_OF_TOKENS = 700,
    POLICIES = 64,
    REPLICAS_DEFAULT = 12,
    CATEGORIES = 4
};

typedef struct fleet_request {
    orr_session session;
    orr_failure_choice words;
    orr_fleet_options options;
    orr_fleet_policy policies[POLICIES];
    uint32_t n;
    orr_fleet fleet;
} fleet_request;

/* --- what is asked ---------------------------------------------------------------------------- */

static orr_status count_of(const char *option, const char *text, uint64_t most, uint32_t *ret,
                           orr_error *err)
{
    uint64_t value;
    ORR_TRY(orr_parse_count(text, &value, err));
    if (value == 0 || value > most)
        return orr_fail(err, ORR_INVALID, "--%s: %s is not from 1 to %llu", option, text,
                        (unsigned long long)most);
    *ret = (uint32_t)value;
    return ORR_OK;
}

static orr_status amount_of(const char *text, double *ret, orr_error *err)
{
    uint64_t value;
    ORR_TRY(orr_parse_count(text, &value, err));
    *ret = (double)value;
    return ORR_OK;
}

static orr_status read_numbers(fleet_request *r)
{
    const orr_settings *s = r->session.settings;
    orr_fleet_options *o = &r->options;
    orr_error *err = &r->session.err;
    if (s->gpus != NULL)
        ORR_TRY(count_of("gpus", s->gpus, 1u << 24, &o->gpus, err));
    if (s->tokens != NULL)
        ORR_TRY(amount_of(s->tokens, &o->tokens, err));
    if (s->tokens_per_step != NULL)
        ORR_TRY(amount_of(s->tokens_per_step, &o->tokens_per_step, err));
    if (s->seed != NULL)
        ORR_TRY(orr_parse_seed(s->seed, &o->seed, err));
    const int64_t days = s->days > 0 ? s->days : s->tokens != NULL ? DAYS_OF_TOKENS : DAYS_DEFAULT;
    if (days > 36500 || s->repetitions > 1 << 16)
        return orr_fail(err, ORR_INVALID, "--days: at most 36500; --repetitions: at most 65536");
    o->horizon_ns = days * DAY_NS;
    if (s->repetitions > 0)
        o->repetitions = (uint32_t)s->repetitions;
    o->threads = (int)s->threads;
    return s->set != NULL ? orr_fleet_set(o, s->set, r->session.arena, err) : ORR_OK;
}

/* As many as are in repair on average, and three standard deviations. */
static uint32_t usual_spares(const orr_fleet_options *o)
{
    const double rate = orr_fact_or(&o->numbers[ORR_FLEET_RATE], 0);
    const double repair = (double)orr_fleet_time_mean_ns(&o->times[ORR_FLEET_REPAIR].time);
    const double mean = repair / orr_fleet_mtbf_ns(rate, orr_fleet_nodes(o));
    const double spares = ceil(mean + 3 * sqrt(mean));
    return spares < 1 ? 1 : spares > 1e6 ? 1000000 : (uint32_t)spares;
}

static orr_status add_policy(fleet_request *r, orr_fleet_policy policy)
{
    if (r->n == POLICIES)
        return orr_fail(&r->session.err, ORR_INVALID, "over %d policies", POLICIES);
    r->policies[r->n++] = policy;
    return ORR_OK;
}

/* "12", "2,4,8" */
static orr_status add_replicated(fleet_request *r)
{
    const char *at = r->session.settings->replica_counts;
    if (at == NULL)
        return add_policy(r, (orr_fleet_policy){ORR_FLEET_FT, REPLICAS_DEFAULT, 0});
    for (char *end; *at != '\0'; at = end + (*end == ',')) {
        const unsigned long replicas = strtoul(at, &end, 10);
        if (end == at || (*end != '\0' && *end != ',') || replicas < 2 ||
            replicas > ORR_FLEET_REPLICAS)
            return orr_fail(
                &r->session.err, ORR_INVALID,
                "--replicas: '%.60s' is not a number from 2 to %d, or several with commas", at,
                ORR_FLEET_REPLICAS);
        ORR_TRY(add_policy(r, (orr_fleet_policy){ORR_FLEET_FT, (uint32_t)replicas, 0}));
    }
    return ORR_OK;
}

static orr_status read_policies(fleet_request *r)
{
    const orr_settings *s = r->session.settings;
    const uint32_t spares =
        s->spares >= 0 && s->spares < 1 << 20 ? (uint32_t)s->spares : usual_spares(&r->options);
    const char *list = s->policy != NULL ? s->policy : "sync,spares,ft";
    for (const char *at = list; *at != '\0';) {
        const size_t n = strcspn(at, ",");
        uint8_t way = 0;
        while (way < ORR_FLEET_RECOVERIES && (strlen(orr_fleet_recovery_name(way)) != n ||
                                              strncmp(orr_fleet_recovery_name(way), at, n) != 0))
            way++;
        if (way == ORR_FLEET_RECOVERIES)
            return orr_fail(&r->session.err, ORR_INVALID,
                            "--policy: '%.*s' is not sync, spares or ft", (int)(n < 60 ? n : 60),
                            at);
        if (way == ORR_FLEET_FT)
            ORR_TRY(add_replicated(r));
        else
            ORR_TRY(
                add_policy(r, (orr_fleet_policy){way, 1, way == ORR_FLEET_SPARES ? spares : 0}));
        at += n + (at[n] == ',');
    }
    return ORR_OK;
}

static orr_status read_request(fleet_request *r)
{
    ORR_TRY(read_numbers(r));
    return read_policies(r);
}

static void show_progress(void *ctx, uint64_t lives, uint64_t of)
{
    orr_progress_update(ctx, lives, of);
}

static orr_status run(fleet_request *r)
{
    const orr_settings *s = r->session.settings;
    orr_progress progress;
    orr_progress_init(&progress, "simulating", false, STDERR_FILENO, s->quiet, NULL);
    r->options.progress = show_progress;
    r->options.progress_ctx = &progress;
    const orr_status status = orr_fleet_of(&r->options, r->policies, r->n, s->sensitivity,
                                           r->session.arena, &r->fleet, &r->session.err);
    orr_progress_done(&progress);
    return status;
}

/* --- what is told ----------------------------------------------------------------------------- */

static void tell(const fleet_request *r, orr_output *out)
{
    const orr_fleet_options *o = &r->options;
    const double rate = orr_fact_or(&o->numbers[ORR_FLEET_RATE], 0);
    orr_output_printf(out, "%u GPUs in %u nodes, failures as %s", o->gpus, orr_fleet_nodes(o),
                      o->failures->name);
    if (o->interval_ns > 0)
        orr_output_printf(out, " (one each %.1f min)", (double)o->interval_ns / 60e9);
    else
        orr_output_printf(out, " (%.4g per 1,000 node-days: one in %.1f min)", rate,
                          orr_fleet_mtbf_ns(rate, orr_fleet_nodes(o)) / 60e9);
    orr_output_printf(out, ", times as %s\n", r->words.timing->name);
    orr_output_printf(out, "%u lives of %s%.0f days, seed %llu\n\n", o->repetitions,
                      o->tokens > 0 ? "up to " : "", (double)o->horizon_ns / (double)DAY_NS,
                      (unsigned long long)o->seed);
}

/* Rows that one would miss are all shown; of categories those that are asked for. */
static void print_text(const fleet_request *r, orr_table_style style, const orr_named_table *tables)
{
    const size_t most = style.max_rows;
    for (int i = 0; i < ORR_FLEET_TABLES; i++) {
        if (tables[i].table.n_rows == 0)
            continue;
        if (i > 0)
            orr_output_text(r->session.out, "\n");
        style.max_rows = i == CATEGORIES ? most : 0;
        orr_table_write(&tables[i].table, &style, r->session.out);
    }
}

static orr_status print(fleet_request *r)
{
    orr_session *session = &r->session;
    orr_table_style style;
    orr_named_table tables[ORR_FLEET_TABLES];
    ORR_TRY(orr_fleet_tables(&r->fleet, &r->words.catalog, session->arena, tables, &session->err));
    ORR_TRY(orr_session_output(session, &style));
    if (style.format == ORR_TABLE_JSON)
        orr_output_printf(session->out,
                          "{\"schema\":\"orrery.fleet/1\",\"version\":\"%s\",\"tables\":{",
                          orr_version());
    if (style.format == ORR_TABLE_TEXT) {
        tell(r, session->out);
        print_text(r, style, tables);
    } else {
        orr_session_tables(session, &style, tables, ORR_FLEET_TABLES, 0);
    }
    if (style.format == ORR_TABLE_JSON)
        orr_output_text(session->out, "}}\n");
    return orr_output_finish(session->out, &session->err);
}

static orr_status write_page(fleet_request *r)
{
    const char *path = r->session.settings->html;
    if (path == NULL)
        return ORR_OK;
    ORR_TRY(orr_fleet_html(path, &r->fleet, &r->words.catalog, &r->session.err));
    orr_session_remark(&r->session, "report written to %s", path);
    return ORR_OK;
}

static int fail(fleet_request *r, int code)
{
    orr_session_fail(&r->session);
    orr_session_done(&r->session);
    return code;
}

int orr_command_fleet(const orr_settings *settings)
{
    fleet_request r = {0};
    if (orr_session_init(&r.session, settings) != ORR_OK ||
        orr_failure_choice_read(&r.session, &r.words) != ORR_OK)
        return fail(&r, EXIT_INPUT);
    orr_fleet_options_init(&r.options, r.words.failures, r.words.timing);
    if (read_request(&r) != ORR_OK)
        return fail(&r, r.session.err.status == ORR_NO_MEMORY ? EXIT_INPUT : EXIT_USAGE);
    if (run(&r) != ORR_OK)
        return fail(&r, r.session.err.status == ORR_INVALID ? EXIT_INFEASIBLE : EXIT_INPUT);
    if (write_page(&r) != ORR_OK || print(&r) != ORR_OK)
        return fail(&r, EXIT_INPUT);
    orr_session_done(&r.session);
    return EXIT_DONE;
}
