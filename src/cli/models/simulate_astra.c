/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/parallel_for.h"
#include "cli/command/help.h"
#include "cli/command/session.h"
#include "cli/models/simulate.h"

enum { MODES = ORR_ASTRA_MODEL + 1, MOST_QUEUES = 1024 };

typedef struct simulation {
    orr_session session;
    orr_astra_system system;
    orr_astra_network network;
    orr_astra_groups groups;
    orr_astra_job job;
    const orr_graph **graphs;        /* shape (R) */
    orr_astra_result results[MODES]; /* MODEL: with --compare */
    bool stuck;                      /* a mode never ends */
} simulation;

static orr_status need(const char *value, const char *option, orr_error *err)
{
    return value ? ORR_OK
                 : orr_fail(err, ORR_INVALID, "--%s is needed; see orrery simulate --help", option);
}

static orr_status check_options(simulation *s)
{
    const orr_settings *settings = s->session.settings;
    ORR_TRY(need(settings->astra_system, "astra-system", &s->session.err));
    ORR_TRY(need(settings->astra_network, "astra-network", &s->session.err));
    if (settings->queues_per_dim < 0 || settings->queues_per_dim > MOST_QUEUES)
        return orr_fail(&s->session.err, ORR_INVALID, "--num-queues-per-dim: 1 to %d", MOST_QUEUES);
    return need(settings->workload, "workload", &s->session.err);
}

/* PREFIX.N.et of one rank. */
static orr_status read_rank(void *ctx, size_t rank, orr_error *err)
{
    simulation *s = ctx;
    orr_read_options options;
    char path[4096];
    orr_read_options_init(&options);
    options.lowered = true; /* ASTRA-sim reads what Chakra's feeder gives it */
    snprintf(path, sizeof path, "%s.%zu.et", s->session.settings->workload, rank);
    if (access(path, F_OK) != 0)
        return orr_fail(err, ORR_NOT_FOUND,
                        "%s: not there; the network has %u ranks, each with a "
                        "trace of its own",
                        path, s->network.n_ranks);
    orr_status status = orr_trace_read(path, &options, &s->graphs[rank], NULL, err);
    if (status != ORR_OK && strstr(err->text, path) == NULL)
        orr_error_prefix(err, path);
    return status;
}

static orr_status read_inputs(simulation *s)
{
    orr_session *session = &s->session;
    const orr_settings *settings = session->settings;
    ORR_TRY(orr_astra_system_load(settings->astra_system, &s->system, &session->err));
    ORR_TRY(orr_astra_network_load(settings->astra_network, &s->network, &session->err));
    if (settings->comm_groups)
        ORR_TRY(orr_astra_groups_load(settings->comm_groups, session->arena, &s->groups,
                                      &session->err));
    s->graphs = orr_arena_array(session->arena, const orr_graph *, s->network.n_ranks);
    if (!s->graphs)
        return orr_fail_memory(&session->err);
    ORR_TRY(
        orr_parallel_for(s->network.n_ranks, (int)settings->threads, read_rank, s, &session->err));
    s->job = (orr_astra_job){&s->system, &s->network, settings->comm_groups ? &s->groups : NULL,
                             s->graphs, (uint32_t)settings->queues_per_dim};
    return ORR_OK;
}

static bool is_wanted(const orr_settings *settings, orr_astra_mode mode)
{
    static const char *const names[] = {
#define NAME(name, text) text,
        ORR_ASTRA_MODE_MAP(NAME)
#undef NAME
    };
    if (mode == ORR_ASTRA_MODEL)
        return settings->compare;
    return !settings->astra_mode || strcmp(settings->astra_mode, names[mode]) == 0;
}

/* The first of the modes, from the `from`th on, that has an answer; MODES: none. */
static int answered(const simulation *s, int from)
{
    while (from < MODES && s->results[from].n_ranks == 0)
        from++;
    return from;
}

/* Each mode by itself: one that never ends is told, the others go on. */
static orr_status run(simulation *s)
{
    static const char *const how[] = {"without congestion", "with congestion", "in orrery's model"};
    const orr_settings *settings = s->session.settings;
    for (int mode = 0; mode < MODES; mode++) {
        orr_astra_result *result = &s->results[mode];
        if (!is_wanted(settings, (orr_astra_mode)mode))
            continue;
        const orr_status status =
            orr_astra_simulate(&s->job, (orr_astra_mode)mode, !settings->unfolded, s->session.arena,
                               result, &s->session.err);
        if (status == ORR_CANCELED) {
            orr_complain("%s: %s", how[mode], s->session.err.text);
            s->stuck = true;
        } else if (status != ORR_OK) {
            return status;
        } else if (mode != ORR_ASTRA_MODEL) {
            orr_session_remark(&s->session, "%s: %llu messages; %u of %u ranks simulated",
                               how[mode], (unsigned long long)result->n_messages,
                               result->n_simulated, result->n_ranks);
        }
    }
    if (settings->compare)
        orr_session_remark(&s->session,
                           "orrery's times are closed forms of the file's bandwidth and "
                           "latency: assumed, no error band is known");
    return ORR_OK;
}

/* A row for a rank, or, for people, for neighbouring ranks that are alike. Cycles are ns. */
typedef struct rank_row {
    uint32_t rank;
    const char *ranks;
    int64_t compute_ns, cycles[MODES], finish_ns[MODES], exposed_ns[MODES];
} rank_row;

#define AT(type, field, mode) (offsetof(type, field) + (mode) * sizeof(int64_t))
enum { ALWAYS = -1 };
typedef struct mode_column {
    orr_column column;
    int mode; /* of which the mode has an answer, or ALWAYS */
} mode_column;
#define RANK_MODE(text, mode)                                                                      \
    {{text "_ns", ORR_COLUMN_NS, AT(rank_row, finish_ns, mode)}, mode},                            \
    {                                                                                              \
        {text "_exposed_ns", ORR_COLUMN_NS, AT(rank_row, exposed_ns, mode)}, mode                  \
    }
static const mode_column RANK_COLUMNS[] = {
    {{"rank", ORR_COLUMN_U32, offsetof(rank_row, rank)}, ALWAYS},
    {{"compute_ns", ORR_COLUMN_NS, offsetof(rank_row, compute_ns)}, ALWAYS},
    {{"unaware_cycles", ORR_COLUMN_I64, AT(rank_row, cycles, ORR_ASTRA_UNAWARE)},
     ORR_ASTRA_UNAWARE},
    RANK_MODE("unaware", ORR_ASTRA_UNAWARE),
    {{"aware_cycles", ORR_COLUMN_I64, AT(rank_row, cycles, ORR_ASTRA_AWARE)}, ORR_ASTRA_AWARE},
    RANK_MODE("aware", ORR_ASTRA_AWARE),
    RANK_MODE("orrery", ORR_ASTRA_MODEL),
};
static const orr_column SOME_RANKS = {"ranks", ORR_COLUMN_TEXT, offsetof(rank_row, ranks)};

/* The columns of modes that have an answer; in the arena. */
static orr_status choose(simulation *s, const mode_column *from, size_t n, const orr_column **ret,
                         size_t *ret_n)
{
    orr_column *columns = orr_arena_array(s->session.arena, orr_column, n);
    *ret_n = 0;
    if (!columns)
        return orr_fail_memory(&s->session.err);
    for (size_t i = 0; i < n; i++)
        if (from[i].mode == ALWAYS || s->results[from[i].mode].n_ranks > 0)
            columns[(*ret_n)++] = from[i].column;
    *ret = columns;
    return ORR_OK;
}

/* A collective as the rank that came first saw it. */
typedef struct collective_row {
    const char *name, *collective;
    int64_t group, bytes, start_ns, wait_ns, duration_ns[MODES];
    uint32_t rank, members;
    uint64_t node;
} collective_row;

#define EVERY(name, kind, field)                                                                   \
    {                                                                                              \
        {name, kind, offsetof(collective_row, field)}, ALWAYS                                      \
    }
#define COLLECTIVE_MODE(name, mode)                                                                \
    {                                                                                              \
        {name, ORR_COLUMN_NS, AT(collective_row, duration_ns, mode)}, mode                         \
    }
static const mode_column COLLECTIVE_COLUMNS[] = {
    EVERY("name", ORR_COLUMN_TEXT, name),         EVERY("collective", ORR_COLUMN_TEXT, collective),
    EVERY("group", ORR_COLUMN_I64, group),        EVERY("members", ORR_COLUMN_U32, members),
    EVERY("first_rank", ORR_COLUMN_U32, rank),    EVERY("node", ORR_COLUMN_U64, node),
    EVERY("size_bytes", ORR_COLUMN_BYTES, bytes), EVERY("start_ns", ORR_COLUMN_NS, start_ns),
    EVERY("wait_ns", ORR_COLUMN_NS, wait_ns),     COLLECTIVE_MODE("unaware_ns", ORR_ASTRA_UNAWARE),
    COLLECTIVE_MODE("aware_ns", ORR_ASTRA_AWARE), COLLECTIVE_MODE("orrery_ns", ORR_ASTRA_MODEL),
};

static bool same_times(const rank_row *a, const rank_row *b)
{
    return a->compute_ns == b->compute_ns &&
           memcmp(a->finish_ns, b->finish_ns, sizeof a->finish_ns) == 0 &&
           memcmp(a->exposed_ns, b->exposed_ns, sizeof a->exposed_ns) == 0;
}

static void fill_rank(const simulation *s, uint32_t rank, rank_row *row)
{
    *row =
        (rank_row){.rank = rank, .compute_ns = s->results[answered(s, 0)].ranks[rank].compute_ns};
    for (int mode = 0; mode < MODES; mode++)
        if (s->results[mode].n_ranks) {
            const orr_astra_rank *at = &s->results[mode].ranks[rank];
            row->cycles[mode] = row->finish_ns[mode] = at->finish_ns;
            row->exposed_ns[mode] = at->exposed_ns;
        }
}

static orr_status rank_table(simulation *s, bool merge, orr_table *ret)
{
    orr_session *session = &s->session;
    rank_row *rows = orr_arena_array(session->arena, rank_row, s->network.n_ranks);
    const size_t most = sizeof RANK_COLUMNS / sizeof *RANK_COLUMNS;
    mode_column from[sizeof RANK_COLUMNS / sizeof *RANK_COLUMNS];
    const orr_column *columns;
    size_t n = 0, n_columns;
    if (!rows)
        return orr_fail_memory(&session->err);
    for (uint32_t rank = 0; rank < s->network.n_ranks; rank++) {
        fill_rank(s, rank, &rows[n]);
        if (!merge || n == 0 || !same_times(&rows[n - 1], &rows[n]))
            n++;
    }
    for (size_t i = 0; merge && i < n; i++) {
        const uint32_t last = i + 1 < n ? rows[i + 1].rank - 1 : s->network.n_ranks - 1;
        rows[i].ranks = last == rows[i].rank
                            ? orr_arena_printf(session->arena, "%u", last)
                            : orr_arena_printf(session->arena, "%u-%u", rows[i].rank, last);
        if (!rows[i].ranks)
            return orr_fail_memory(&session->err);
    }
    memcpy(from, RANK_COLUMNS, sizeof from);
    if (merge)
        from[0].column = SOME_RANKS;
    ORR_TRY(choose(s, from, most, &columns, &n_columns));
    *ret =
        (orr_table){"orrery.simulated_ranks/1", "Ranks", columns, n_columns, rows, sizeof *rows, n};
    return ORR_OK;
}

static orr_status collective_table(simulation *s, orr_table *ret)
{
    orr_session *session = &s->session;
    const orr_astra_result *first = &s->results[answered(s, 0)];
    collective_row *rows = orr_arena_array(session->arena, collective_row, first->n_collectives);
    const orr_column *columns;
    size_t n_columns;
    if (!rows)
        return orr_fail_memory(&session->err);
    for (uint32_t i = 0; i < first->n_collectives; i++) {
        const orr_astra_collective *c = &first->collectives[i];
        const orr_graph *graph = s->graphs[c->rank];
        rows[i] = (collective_row){.name = orr_graph_str(graph, graph->name[c->node]),
                                   .collective = orr_collective_name((orr_collective)c->collective),
                                   .group = c->group,
                                   .bytes = c->bytes,
                                   .start_ns = c->first_ns,
                                   .wait_ns = c->last_ns - c->first_ns,
                                   .rank = c->rank,
                                   .members = c->n_members,
                                   .node = graph->source_id[c->node]};
        for (int mode = 0; mode < MODES; mode++)
            if (s->results[mode].n_ranks) {
                const orr_astra_rank *rank = &s->results[mode].ranks[c->rank];
                rows[i].duration_ns[mode] = rank->end_ns[c->node] - rank->start_ns[c->node];
            }
    }
    ORR_TRY(choose(s, COLLECTIVE_COLUMNS, sizeof COLLECTIVE_COLUMNS / sizeof *COLLECTIVE_COLUMNS,
                   &columns, &n_columns));
    *ret = (orr_table){"orrery.simulated_collectives/1",
                       "Collectives",
                       columns,
                       n_columns,
                       rows,
                       sizeof *rows,
                       first->n_collectives};
    return ORR_OK;
}

static orr_status print_tables(simulation *s)
{
    static const char *const names[] = {"ranks", "collectives"};
    orr_session *session = &s->session;
    orr_table_style style;
    orr_table tables[2];
    ORR_TRY(orr_session_output(session, &style));
    const bool json = style.format == ORR_TABLE_JSON;
    const bool people = style.format == ORR_TABLE_TEXT || style.format == ORR_TABLE_MARKDOWN;
    ORR_TRY(rank_table(s, people, &tables[0]));
    ORR_TRY(collective_table(s, &tables[1]));
    if (json)
        orr_output_printf(session->out,
                          "{\"schema\":\"orrery.simulate/1\",\"version\":\"%s\",\"tables\":{",
                          orr_version());
    for (int i = 0; i < 2; i++) {
        if (json)
            orr_output_printf(session->out, "%s\n\"%s\":", i ? "," : "", names[i]);
        else if (i)
            orr_output_text(session->out, "\n");
        orr_table_write(&tables[i], &style, session->out);
    }
    if (json)
        orr_output_text(session->out, "}}\n");
    return orr_output_finish(session->out, &session->err);
}

/* One rank's graph at the times of the run with congestion, or of the other if there is none. */
static orr_status retime(const simulation *s, uint32_t rank, int64_t *duration_ns,
                         const orr_graph **ret, orr_error *err)
{
    const orr_graph *graph = s->graphs[rank];
    const bool aware = s->results[ORR_ASTRA_AWARE].n_ranks > 0;
    const orr_astra_rank *times = &s->results[aware ? ORR_ASTRA_AWARE : answered(s, 0)].ranks[rank];
    for (uint32_t v = 0; v < graph->n_nodes; v++)
        duration_ns[v] =
            times->end_ns[v] == ORR_TIME_NONE ? 0 : times->end_ns[v] - times->start_ns[v];
    const orr_retiming retiming = {times->start_ns, duration_ns, 0, rank};
    return orr_graph_retime(graph, &retiming, ret, err);
}

static orr_status write_trace(simulation *s)
{
    orr_session *session = &s->session;
    const char *path = session->settings->trace;
    const orr_format format = orr_format_from_path(path);
    const orr_job *job = NULL;
    uint32_t n = 0, most = 0;
    orr_status status = ORR_OK;
    if (format != ORR_FORMAT_PERFETTO && format != ORR_FORMAT_CHROME)
        return orr_fail(&session->err, ORR_INVALID, "--trace %s: .pftrace or .json", path);
    for (uint32_t rank = 0; rank < s->network.n_ranks; rank++)
        most = s->graphs[rank]->n_nodes > most ? s->graphs[rank]->n_nodes : most;
    const orr_graph **graphs =
        orr_arena_array(session->arena, const orr_graph *, s->network.n_ranks);
    int64_t *duration_ns = orr_arena_array(session->arena, int64_t, most);
    if (!graphs || !duration_ns)
        return orr_fail_memory(&session->err);
    for (; n < s->network.n_ranks && status == ORR_OK; n += status == ORR_OK)
        status = retime(s, n, duration_ns, &graphs[n], &session->err);
    if (status == ORR_OK)
        status = orr_job_build(graphs, n, &job, &session->err);
    if (status == ORR_OK)
        status = orr_job_write(path, format, job, &session->err);
    for (uint32_t i = 0; !job && i < n; i++)
        orr_graph_free(graphs[i]);
    orr_job_free(job);
    return status;
}

static void done(simulation *s)
{
    for (uint32_t rank = 0; s->graphs && rank < s->network.n_ranks; rank++)
        orr_graph_free(s->graphs[rank]);
    orr_session_done(&s->session);
}

int orr_simulate_astra(const orr_settings *settings)
{
    simulation s = {0};
    int code = EXIT_DONE;

    orr_status status = orr_session_init(&s.session, settings);
    if (status == ORR_OK && check_options(&s) != ORR_OK) {
        (void)orr_session_fail(&s.session);
        code = EXIT_USAGE;
        goto out;
    }
    if (status == ORR_OK)
        status = read_inputs(&s);
    if (status == ORR_OK)
        status = run(&s);
    if (status == ORR_OK && settings->trace && answered(&s, 0) < MODES)
        status = write_trace(&s);
    if (status == ORR_OK && answered(&s, 0) < MODES)
        status = print_tables(&s);
    if (status != ORR_OK)
        code = orr_session_fail(&s.session);
    else if (s.stuck)
        code = EXIT_INFEASIBLE;
out:
    done(&s);
    return code;
}
