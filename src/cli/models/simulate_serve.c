/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/arguments/job.h"
#include "cli/arguments/tiers.h"
#include "cli/models/simulate.h"
#include "report/humanize/human.h"

/* `simulate MODEL --task serve`: a host that serves a recommendation model. */

typedef struct limit_row {
    const char *resource;
    double samples_per_s, busy_frac;
    bool limits;
} limit_row;
static const orr_column limit_columns[] = {
    {"resource", ORR_COLUMN_TEXT, offsetof(limit_row, resource)},
    {"samples_per_s", ORR_COLUMN_NUMBER, offsetof(limit_row, samples_per_s)},
    {"busy_frac", ORR_COLUMN_FRAC, offsetof(limit_row, busy_frac)},
    {"limits", ORR_COLUMN_BOOL, offsetof(limit_row, limits)},
};

typedef struct figure_row {
    const char *figure, *unit;
    double value;
} figure_row;
static const orr_column figure_columns[] = {
    {"figure", ORR_COLUMN_TEXT, offsetof(figure_row, figure)},
    {"value", ORR_COLUMN_NUMBER, offsetof(figure_row, value)},
    {"unit", ORR_COLUMN_TEXT, offsetof(figure_row, unit)},
};

/* USD of a host and hour; 0: not said. */
static orr_status read_price(const char *text, double *ret, orr_error *err)
{
    char *end;
    if (text == NULL)
        return ORR_OK;
    *ret = strtod(text, &end);
    return end == text || *end != '\0' || !(*ret > 0) || !isfinite(*ret)
               ? orr_fail(err, ORR_INVALID,
                          "--price: '%.60s' is not USD of a host and hour, as 2.5", text)
               : ORR_OK;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static orr_status make_tables(const orr_host_serving *v, orr_arena *arena, orr_named_table ret[2],
                              orr_error *err)
{
    const figure_row all[] = {
        {"samples_per_s", "1/s", v->samples_per_s},
        {"latency", "ns", v->latency_ns},
        {"power", "W", v->power_w},
        {"idle_power", "W", v->idle_w},
        {"energy", "J per 1000 samples", v->joules_per_1k},
        {"lookups", "of a sample", v->lookups},
        {"hit_rate", "", v->hit_frac},
        {"byte_reads", "of a sample", v->reads[ORR_TIER_BYTE]},
        {"block_reads", "of a sample", v->reads[ORR_TIER_BLOCK]},
        {"cache", "bytes", v->tiering.cache_bytes},
        {"cost", "USD per million samples", v->usd_per_million},
    };
    const size_t known = COUNT(all) - !(v->usd_per_million > 0); /* the last is of a price */
    figure_row *figures = orr_arena_array(arena, figure_row, COUNT(all));
    limit_row *limits = orr_arena_array(arena, limit_row, ORR_SERVING_LIMITS);
    size_t n = 0;
    if (figures == NULL || limits == NULL)
        return orr_fail_memory(err);
    memcpy(figures, all, sizeof all);
    for (int k = 0; k < ORR_SERVING_LIMITS; k++)
        if (isfinite(v->limit[k]))
            limits[n++] = (limit_row){orr_serving_limit_name((orr_serving_limit)k), v->limit[k],
                                      v->samples_per_s / v->limit[k], k == v->bound_by};
    ret[0] = (orr_named_table){"figures",
                               {"orrery.serving_figures/1", "the host", figure_columns,
                                COUNT(figure_columns), figures, sizeof *figures, known}};
    ret[1] = (orr_named_table){"limits",
                               {"orrery.serving_limits/1", "what limits it", limit_columns,
                                COUNT(limit_columns), limits, sizeof *limits, n}};
    return ORR_OK;
}

static void put_summary(const orr_host_serving_question *q, const orr_host_serving *v,
                        orr_output *out)
{
    char latency[ORR_HUMAN_MAX], hit[ORR_HUMAN_MAX], used[ORR_HUMAN_MAX], all[ORR_HUMAN_MAX];
    orr_output_printf(out, "%s served by a host of %s: %.0f samples/s, bound by the %s\n",
                      q->model->title, q->cluster->name, v->samples_per_s,
                      orr_serving_limit_name((orr_serving_limit)v->bound_by));
    orr_output_printf(out, "latency %s, %.0f W (%.0f idle), %.2f J per 1000 samples\n",
                      orr_human_ns(latency, v->latency_ns), v->power_w, v->idle_w,
                      v->joules_per_1k);
    if (v->usd_per_million > 0)
        orr_output_printf(out,
                          "%.4g USD per million samples, at %g USD of a host and hour (said)\n",
                          v->usd_per_million, q->usd_per_hour);
    orr_output_printf(out, "%s of the lookups are in memory\n", orr_human_frac(hit, v->hit_frac));
    for (int k = 0; k < ORR_TIERS; k++)
        if (v->tier[k].bytes > 0)
            orr_output_printf(out, "%s: %u tables, %s of %s of %s\n", orr_tier_name((orr_tier)k),
                              v->tiering.load[k].tables,
                              orr_human_bytes(used, (double)v->tiering.load[k].bytes),
                              orr_human_bytes(all, (double)v->tier[k].bytes), v->tier[k].name);
    orr_output_printf(out,
                      "assumed: run at %.0f %% of the limit; %d cores a socket, each %.0f GFLOP/s; "
                      "%.0f W beside sockets, memory and drives\n",
                      100 * ORR_SERVING_LOAD_FRAC, ORR_SERVING_CORES, ORR_SERVING_CORE_FLOPS / 1e9,
                      ORR_SERVING_REST_W);
}

static orr_status read_question(orr_session *session, orr_host_serving_question *q)
{
    const orr_settings *s = session->settings;
    orr_error *err = &session->err;
    const orr_catalog *catalog;
    ORR_TRY(read_price(s->price, &q->usd_per_hour, err));
    if (s->cluster == NULL)
        return orr_fail(err, ORR_INVALID, "--cluster is needed, as sdm_nand_host");
    ORR_TRY(orr_catalog_open(session->arena, &catalog, err));
    ORR_TRY(orr_model_load(s->args[0], session->arena, &q->model, err));
    ORR_TRY(orr_cluster_load(catalog, s->cluster, session->arena, &q->cluster, err));
    for (uint8_t k = 0; s->popularity != NULL && k < ORR_POPULARITIES; k++)
        if (strcmp(orr_popularity_name((orr_popularity_kind)k), s->popularity) == 0)
            q->popularity = k;
    if (s->tiers != NULL) {
        orr_tier_rates *tiers = orr_arena_array(session->arena, orr_tier_rates, ORR_TIERS);
        if (tiers == NULL)
            return orr_fail_memory(err);
        ORR_TRY(orr_tiers_parse(session, s->tiers, catalog, q->cluster, tiers));
        q->tiers = tiers;
    }
    return ORR_OK;
}

static orr_status print(orr_session *session, const orr_host_serving_question *q,
                        const orr_host_serving *v)
{
    orr_table_style style;
    orr_named_table tables[2];
    ORR_TRY(make_tables(v, session->arena, tables, &session->err));
    ORR_TRY(orr_session_output(session, &style));
    if (style.format == ORR_TABLE_TEXT) {
        put_summary(q, v, session->out);
        orr_output_text(session->out, "\n");
    }
    if (style.format == ORR_TABLE_JSON)
        orr_output_printf(session->out,
                          "{\"schema\":\"orrery.serving/1\",\"version\":\"%s\",\"tables\":{",
                          orr_version());
    orr_session_tables(session, &style, tables, 2, style.format == ORR_TABLE_TEXT ? 1 : 0);
    if (style.format == ORR_TABLE_JSON)
        orr_output_text(session->out, "}}\n");
    return orr_output_finish(session->out, &session->err);
}

int orr_simulate_serve(const orr_settings *settings)
{
    orr_session session;
    orr_host_serving_question q = {.popularity = ORR_POPULARITY_META_2021};
    orr_host_serving v = {.infeasible = NULL};
    int code = EXIT_DONE;
    if (orr_session_init(&session, settings) != ORR_OK || read_question(&session, &q) != ORR_OK ||
        orr_host_serving_of(&q, session.arena, &v, &session.err) != ORR_OK) {
        code = orr_job_exit_code_of_input(session.err.status);
        orr_session_fail(&session);
    } else if (v.infeasible != NULL) {
        code = EXIT_INFEASIBLE;
        (void)orr_fail(&session.err, ORR_INVALID, "%s", v.infeasible);
        orr_session_fail(&session);
    } else if (print(&session, &q, &v) != ORR_OK) {
        code = EXIT_INPUT;
        orr_session_fail(&session);
    }
    orr_session_done(&session);
    return code;
}
