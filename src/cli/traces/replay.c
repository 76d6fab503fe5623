/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/arguments/factor.h"
#include "cli/command/session.h"

static uint8_t part_of(const char *name)
{
    static const char *const names[] = {
#define NAME_(name, text) text,
        ORR_REPLAY_PART_MAP(NAME_)
#undef NAME_
    };
    for (uint8_t i = 0; name != NULL && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return ORR_REPLAY_ALL;
}

static orr_status read_options(orr_session *session, orr_replay_options *ret)
{
    const orr_settings *s = session->settings;
    *ret = (orr_replay_options){.graphs = session->job->graphs,
                                .n_graphs = session->job->n_graphs,
                                .from = s->begin,
                                .to = s->end,
                                .subtree = s->subtree,
                                .part = part_of(s->part),
                                .skip = s->skip,
                                .strict = s->strict,
                                .warm_up = (uint32_t)s->warm_up,
                                .iterations = (uint32_t)s->iterations,
                                .threads = (int)s->threads,
                                .counters = s->counters};
    return s->seed != NULL ? orr_parse_seed(s->seed, &ret->seed, &session->err) : ORR_OK;
}

static orr_status extract(orr_session *session, const orr_replay_options *options)
{
    const orr_settings *s = session->settings;
    const orr_graph *graph;
    ORR_TRY(orr_replay_extract(options, s->obfuscate, &graph, &session->err));
    const orr_status status =
        orr_trace_write(s->extract, orr_format_from_path(s->extract), graph, &session->err);
    if (status == ORR_OK)
        orr_session_remark(session, "%u nodes written to %s", graph->n_nodes, s->extract);
    orr_graph_free(graph);
    return status;
}

static void tell(const orr_replay_result *r, orr_output *out)
{
    const double by_count = r->operators > 0 ? (double)r->covered / (double)r->operators : 0;
    const double by_time =
        r->operator_ns > 0 ? (double)r->covered_ns / (double)r->operator_ns : by_count;
    orr_output_printf(out,
                      "%llu operators, of which %.1f %% by count and %.1f %% by recorded time ran "
                      "here; the others waited as long as they took\n\n",
                      (unsigned long long)r->operators, 100 * by_count, 100 * by_time);
}

static orr_status run(orr_session *session)
{
    const orr_settings *settings = session->settings;
    orr_named_table tables[ORR_BENCHMARK_TABLES];
    orr_replay_options options;
    orr_replay_result result;
    orr_table_style style;
    ORR_TRY(orr_session_load(session, settings->args, settings->n_args));
    ORR_TRY(read_options(session, &options));
    if (settings->extract != NULL)
        return extract(session, &options);
    ORR_TRY(orr_replay(&options, session->arena, &result, &session->err));
    ORR_TRY(orr_benchmark_tables(&result, session->arena, tables, &session->err));
    ORR_TRY(orr_session_output(session, &style));
    if (style.format == ORR_TABLE_JSON)
        orr_output_printf(session->out,
                          "{\"schema\":\"orrery.replay/1\",\"version\":\"%s\",\"tables\":{",
                          orr_version());
    else if (style.format == ORR_TABLE_TEXT)
        tell(&result, session->out);
    orr_session_tables(session, &style, tables, ORR_BENCHMARK_TABLES, 0);
    if (style.format == ORR_TABLE_JSON)
        orr_output_text(session->out, "}}\n");
    return orr_output_finish(session->out, &session->err);
}

int orr_command_replay(const orr_settings *settings)
{
    orr_session session;
    int code = EXIT_DONE;
    if (orr_session_init(&session, settings) != ORR_OK || run(&session) != ORR_OK) {
        orr_session_fail(&session);
        code = session.err.status == ORR_UNSUPPORTED || session.err.status == ORR_LIMIT
                   ? EXIT_INFEASIBLE
                   : EXIT_INPUT;
    }
    orr_session_done(&session);
    return code;
}
