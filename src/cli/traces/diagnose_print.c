/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/traces/diagnose.h"
#include "io/json/writer.h"
#include "report/humanize/human.h"

enum { TABLES = 3 };

typedef struct cause_row {
    uint32_t place;
    const char *cause, *where;
    int64_t lost_ns, gain_ns;
    double gain_frac;
    int64_t uncertain_ns;
    uint64_t observations;
    const char *command;
} cause_row;

static const orr_column cause_columns[] = {
    {"place", ORR_COLUMN_U32, offsetof(cause_row, place)},
    {"cause", ORR_COLUMN_TEXT, offsetof(cause_row, cause)},
    {"where", ORR_COLUMN_TEXT, offsetof(cause_row, where)},
    {"lost_ns", ORR_COLUMN_NS, offsetof(cause_row, lost_ns)},
    {"gain_ns", ORR_COLUMN_NS, offsetof(cause_row, gain_ns)},
    {"gain_frac", ORR_COLUMN_FRAC, offsetof(cause_row, gain_frac)},
    {"uncertain_ns", ORR_COLUMN_NS, offsetof(cause_row, uncertain_ns)},
    {"observations", ORR_COLUMN_U64, offsetof(cause_row, observations)},
    {"command", ORR_COLUMN_TEXT, offsetof(cause_row, command)},
};

typedef struct evidence_row {
    uint32_t place;
    const char *cause;
    uint32_t rank;
    const char *lane, *name;
    uint32_t node;
    int64_t start_ns, lost_ns;
} evidence_row;

static const orr_column evidence_columns[] = {
    {"place", ORR_COLUMN_U32, offsetof(evidence_row, place)},
    {"cause", ORR_COLUMN_TEXT, offsetof(evidence_row, cause)},
    {"rank", ORR_COLUMN_U32, offsetof(evidence_row, rank)},
    {"lane", ORR_COLUMN_TEXT, offsetof(evidence_row, lane)},
    {"name", ORR_COLUMN_TEXT, offsetof(evidence_row, name)},
    {"node", ORR_COLUMN_U32, offsetof(evidence_row, node)},
    {"start_ns", ORR_COLUMN_NS, offsetof(evidence_row, start_ns)},
    {"lost_ns", ORR_COLUMN_NS, offsetof(evidence_row, lost_ns)},
};

/* A growing text in the arena; NULL once memory ran out. */
typedef struct words {
    orr_arena *arena;
    char *at;
    size_t n;
} words;

static void add_text(words *w, const char *text, size_t n)
{
    char *longer = w->at == NULL ? NULL : orr_arena_array(w->arena, char, w->n + n + 1);
    if (longer != NULL) {
        memcpy(longer, w->at, w->n);
        memcpy(longer + w->n, text, n);
        longer[w->n += n] = '\0';
    }
    w->at = longer;
}

/* A word of a shell's command line: in single quotes unless it is plain. */
static void add_word(words *w, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./:=@%+,-";
    add_text(w, " ", 1);
    if (*word != '\0' && strspn(word, plain) == strlen(word)) {
        add_text(w, word, strlen(word));
        return;
    }
    add_text(w, "'", 1);
    for (size_t len; *word != '\0'; word += len) {
        len = strcspn(word, "'");
        add_text(w, word, len);
        if (word[len] == '\'') {
            add_text(w, "'\\''", 4);
            len++;
        }
    }
    add_text(w, "'", 1);
}

static void add_option(words *w, const char *option, const char *value)
{
    if (value == NULL)
        return;
    add_text(w, " --", 3);
    add_text(w, option, strlen(option));
    add_word(w, value);
}

/* The command that gives the figure. */
static const char *command_of(orr_diagnosis *d, const orr_settings *settings)
{
    words w = {.arena = d->session.arena,
               .at = orr_arena_strndup(d->session.arena, "orrery predict", 14),
               .n = 14};
    add_option(&w, "from", settings->from);
    if (settings->tolerant)
        add_text(&w, " --tolerant", 11);
    add_option(&w, "device", settings->device);
    add_option(&w, "remove", settings->remove);
    add_option(&w, "scale", settings->scale);
    add_option(&w, "without-stragglers", settings->without_stragglers);
    if (settings->cuda_graph)
        add_text(&w, " --cuda-graph", 13);
    for (size_t i = 0; i < settings->n_args; i++)
        add_word(&w, settings->args[i]);
    return w.at;
}

/* How far a gain may be off: as far as the replay that it rests on is, and in the share that was
 * read as recorded, for what nothing is known to have caused. */
static int64_t uncertain_ns(const orr_diagnosis *d, int64_t gain_ns)
{
    return llabs(d->replayed_ns - d->recorded_ns) + (int64_t)(d->read_frac * (double)gain_ns);
}

static double frac_of_replay(const orr_diagnosis *d, int64_t ns)
{
    return d->replayed_ns > 0 ? (double)ns / (double)d->replayed_ns : 0;
}

static orr_status causes_table(orr_diagnosis *d, orr_table *ret)
{
    orr_session *session = &d->session;
    cause_row *rows = orr_arena_array(session->arena, cause_row, d->n_lost);
    if (rows == NULL)
        return orr_fail_memory(&session->err);
    for (size_t i = 0; i < d->n_lost; i++) {
        const orr_lost *lost = &d->lost[i];
        orr_settings settings = *session->settings;
        ORR_TRY(orr_diagnosis_mend(d, lost, &settings));
        rows[i] = (cause_row){(uint32_t)i + 1,
                              lost->cause,
                              lost->where,
                              lost->lost_ns,
                              lost->gain_ns,
                              frac_of_replay(d, lost->gain_ns),
                              uncertain_ns(d, lost->gain_ns),
                              lost->observations,
                              command_of(d, &settings)};
        if (rows[i].command == NULL)
            return orr_fail_memory(&session->err);
    }
    *ret = (orr_table){"orrery.causes/1",
                       "causes of lost time",
                       cause_columns,
                       sizeof cause_columns / sizeof *cause_columns,
                       rows,
                       sizeof *rows,
                       d->n_lost};
    return ORR_OK;
}

typedef struct measure_row {
    const char *cause, *lost_time;
} measure_row;

static const orr_column measure_columns[] = {
    {"cause", ORR_COLUMN_TEXT, offsetof(measure_row, cause)},
    {"lost_time", ORR_COLUMN_TEXT, offsetof(measure_row, lost_time)},
};

/* What the lost time of each cause is; a row a cause. */
static orr_status measures_table(orr_diagnosis *d, orr_table *ret)
{
    measure_row *rows = orr_arena_array(d->session.arena, measure_row, d->n_lost);
    size_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(&d->session.err);
    for (size_t i = 0; i < d->n_lost; i++) {
        bool known = false;
        for (size_t k = 0; k < n; k++)
            known |= strcmp(rows[k].cause, d->lost[i].cause) == 0;
        if (!known)
            rows[n++] = (measure_row){d->lost[i].cause, d->lost[i].measured};
    }
    *ret = (orr_table){"orrery.lost_time/1",
                       "what the lost time is",
                       measure_columns,
                       sizeof measure_columns / sizeof *measure_columns,
                       rows,
                       sizeof *rows,
                       n};
    return ORR_OK;
}

static const char *lane_label(const orr_graph *g, orr_node_id v)
{
    const orr_lane *lane = &g->lanes[g->lane[v]];
    return lane->kind == ORR_LANE_STREAM ? "stream" : "thread";
}

static orr_status evidence_table(orr_diagnosis *d, orr_table *ret)
{
    orr_session *session = &d->session;
    const orr_job *job = session->job;
    evidence_row *rows = orr_arena_array(session->arena, evidence_row, d->n_lost * ORR_LOST_PIECES);
    size_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(&session->err);
    for (size_t i = 0; i < d->n_lost; i++)
        for (uint32_t k = 0; k < d->lost[i].n_pieces; k++) {
            const orr_lost_piece *piece = &d->lost[i].pieces[k];
            const orr_graph *g = job->graphs[piece->graph];
            char *lane = orr_arena_array(session->arena, char, 48);
            if (lane == NULL)
                return orr_fail_memory(&session->err);
            snprintf(lane, 48, "%s %" PRId64, lane_label(g, piece->node),
                     g->lanes[g->lane[piece->node]].tid);
            rows[n++] = (evidence_row){(uint32_t)i + 1,
                                       d->lost[i].cause,
                                       job->rank_of_graph[piece->graph],
                                       lane,
                                       orr_graph_str(g, g->name[piece->node]),
                                       piece->node,
                                       piece->from_ns,
                                       piece->lost_ns};
        }
    *ret = (orr_table){"orrery.evidence/1",
                       "where they are seen, the longest of each",
                       evidence_columns,
                       sizeof evidence_columns / sizeof *evidence_columns,
                       rows,
                       sizeof *rows,
                       n};
    return ORR_OK;
}

static void print_summary(const orr_diagnosis *d, const char *together, orr_output *out)
{
    char recorded[ORR_HUMAN_MAX], replayed[ORR_HUMAN_MAX], share[ORR_HUMAN_MAX],
        read[ORR_HUMAN_MAX], ideal[ORR_HUMAN_MAX];
    const double gain_frac = frac_of_replay(d, d->replayed_ns - d->together_ns);
    orr_output_printf(out, "recorded %s, replayed as %s, of which %s was read as recorded\n",
                      orr_human_ns(recorded, (double)d->recorded_ns),
                      orr_human_ns(replayed, (double)d->replayed_ns),
                      orr_human_frac(read, d->read_frac));
    if (d->n_lost == 0)
        orr_output_text(out, "no cause was found that costs 1 % of it or more\n");
    else
        orr_output_printf(
            out,
            "with all causes mended %s: they explain %s of the time; the rest is work, "
            "and what no cause here mends\n%s\n\n",
            orr_human_ns(ideal, (double)d->together_ns), orr_human_frac(share, gain_frac),
            together);
}

static void begin_json(const orr_diagnosis *d, const char *together, orr_output *out)
{
    orr_output_printf(out,
                      "{\"schema\":\"orrery.diagnose/1\",\"version\":\"%s\",\"ranks\":%u,"
                      "\"recorded_ns\":%" PRId64 ",\"replayed_ns\":%" PRId64
                      ",\"read_frac\":%.6g,\"together_ns\":%" PRId64
                      ",\"explained_frac\":%.6g,\"together_command\":",
                      orr_version(), d->session.job->n_ranks, d->recorded_ns, d->replayed_ns,
                      d->read_frac, d->together_ns,
                      frac_of_replay(d, d->replayed_ns - d->together_ns));
    orr_json_put_string(out, together, strlen(together));
    orr_output_text(out, ",\"tables\":{");
}

/* Causes lead to all of their pieces on the page, evidence each to its own. By table and row. */
static orr_status find_nodes(orr_diagnosis *d, const orr_cell_node **ret, size_t *ret_n)
{
    orr_cell_node *nodes =
        orr_arena_array(d->session.arena, orr_cell_node, 2 * d->n_lost * ORR_LOST_PIECES);
    size_t n = 0;
    if (nodes == NULL)
        return orr_fail_memory(&d->session.err);
    for (uint32_t table = 0; table < 2; table++) {
        uint32_t row = 0;
        for (size_t i = 0; i < d->n_lost; i++) {
            for (uint32_t k = 0; k < d->lost[i].n_pieces; k++, row += table) {
                const orr_lost_piece *piece = &d->lost[i].pieces[k];
                nodes[n++] = (orr_cell_node){table, row, table == 0 ? "cause" : "name",
                                             piece->graph, piece->node};
            }
            row += 1 - table;
        }
    }
    *ret = nodes;
    *ret_n = n;
    return ORR_OK;
}

static orr_status write_page(orr_diagnosis *d, const orr_table tables[TABLES])
{
    orr_session *session = &d->session;
    const orr_cell_node *nodes;
    size_t n_nodes;
    ORR_TRY(find_nodes(d, &nodes, &n_nodes));
    const orr_trace_html_options page = {.struct_bytes = sizeof page,
                                         .title = "Diagnosis",
                                         .tables = tables,
                                         .n_tables = TABLES,
                                         .tables_title = "Causes of lost time",
                                         .cell_nodes = nodes,
                                         .n_cell_nodes = n_nodes};
    ORR_TRY(orr_trace_html(session->settings->html, session->job, &session->analysis, &page,
                           &session->err));
    orr_session_remark(session, "report written to %s", session->settings->html);
    return ORR_OK;
}

orr_status orr_diagnosis_print(orr_diagnosis *d)
{
    static const char *const names[TABLES] = {"causes", "evidence", "lost_time"};
    orr_session *session = &d->session;
    orr_table tables[TABLES];
    orr_named_table named[TABLES];
    orr_table_style style;
    ORR_TRY(causes_table(d, &tables[0]));
    ORR_TRY(evidence_table(d, &tables[1]));
    ORR_TRY(measures_table(d, &tables[2]));
    const char *together = command_of(d, &d->all_mended);
    if (together == NULL)
        return orr_fail_memory(&session->err);
    for (int i = 0; i < TABLES; i++)
        named[i] = (orr_named_table){names[i], tables[i]};
    ORR_TRY(orr_session_output(session, &style));
    if (style.format == ORR_TABLE_JSON)
        begin_json(d, together, session->out);
    else if (style.format == ORR_TABLE_TEXT)
        print_summary(d, together, session->out);
    orr_session_tables(session, &style, named, TABLES, 0);
    if (style.format == ORR_TABLE_JSON)
        orr_output_text(session->out, "}}\n");
    ORR_TRY(orr_output_finish(session->out, &session->err));
    return session->settings->html ? write_page(d, tables) : ORR_OK;
}
