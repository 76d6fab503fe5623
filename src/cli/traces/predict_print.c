/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/traces/predict.h"
#include "io/json/writer.h"
#include "report/humanize/human.h"

enum { TABLES_MAX = ORR_PREDICTION_TABLES + ORR_REPLAY_ERROR_TABLES + 6, DIFFERENCES_MAX = 1000 };

/* What the tables are called in JSON. */
static const char *const NAMES[ORR_PREDICTION_TABLES] = {"ranks", "steps",     "breakdown",
                                                         "basis", "constants", "links"};

typedef struct document {
    orr_predict *predict;
    orr_named_table tables[TABLES_MAX];
    size_t n;
    int64_t recorded_ns, predicted_ns;
    int64_t bare_ns, predicted_step_ns; /* a step without recorder, measured and predicted */
    bool composed; /* one step, made anew of recorded blocks: stands beside a recorded step */
} document;

typedef struct finding_row {
    const char *what, *value, *confidence, *evidence;
} finding_row;

static const orr_column finding_columns[] = {
    {"property", ORR_COLUMN_TEXT, offsetof(finding_row, what)},
    {"value", ORR_COLUMN_TEXT, offsetof(finding_row, value)},
    {"confidence", ORR_COLUMN_TEXT, offsetof(finding_row, confidence)},
    {"evidence", ORR_COLUMN_TEXT, offsetof(finding_row, evidence)},
};

static void add(document *doc, const char *name, const orr_table *table)
{
    doc->tables[doc->n++] = (orr_named_table){name, *table};
}

static orr_status add_findings(document *doc, const char *name, const char *title,
                               const orr_finding *findings, size_t n)
{
    orr_session *session = &doc->predict->session;
    finding_row *rows = orr_arena_array(session->arena, finding_row, n);
    if (rows == NULL)
        return orr_fail_memory(&session->err);
    for (size_t i = 0; i < n; i++)
        rows[i] = (finding_row){findings[i].what, findings[i].value,
                                orr_confidence_name((orr_confidence)findings[i].confidence),
                                findings[i].evidence};
    add(doc, name,
        &(orr_table){.schema = "orrery.findings/1",
                     .title = title,
                     .columns = finding_columns,
                     .n_columns = sizeof finding_columns / sizeof *finding_columns,
                     .rows = rows,
                     .row_bytes = sizeof *rows,
                     .n_rows = n});
    return ORR_OK;
}

typedef struct transfers_row {
    const char *basis;
    uint64_t n;
    int64_t recorded_ns, predicted_ns;
} transfers_row;

static const orr_column transfers_columns[] = {
    {"length", ORR_COLUMN_TEXT, offsetof(transfers_row, basis)},
    {"transfers", ORR_COLUMN_U64, offsetof(transfers_row, n)},
    {"recorded_ns", ORR_COLUMN_NS, offsetof(transfers_row, recorded_ns)},
    {"predicted_ns", ORR_COLUMN_NS, offsetof(transfers_row, predicted_ns)},
};

/* What the lengths of transfers rest on, where another network or other ranks were asked for. */
static orr_status add_transfers(document *doc)
{
    orr_predict *p = doc->predict;
    orr_session *session = &p->session;
    const orr_whatif_report *report = &p->report;
    transfers_row *rows = orr_arena_array(session->arena, transfers_row, ORR_TRANSFER_BASES);
    size_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(&session->err);
    for (int b = 0; b < ORR_TRANSFER_BASES; b++)
        if (report->comms[b] > 0)
            rows[n++] =
                (transfers_row){orr_transfer_basis_name((orr_transfer_basis)b), report->comms[b],
                                report->comms_recorded_ns[b], report->comms_ns[b]};
    add(doc, "transfers",
        &(orr_table){.schema = "orrery.transfers/1",
                     .title = "transfers on the network, each recorded member",
                     .columns = transfers_columns,
                     .n_columns = sizeof transfers_columns / sizeof *transfers_columns,
                     .rows = rows,
                     .row_bytes = sizeof *rows,
                     .n_rows = n});
    return ORR_OK;
}

static orr_status explain(document *doc)
{
    static const char *const names[ORR_REPLAY_ERROR_TABLES] = {"errors", "causes", "differences"};
    orr_predict *p = doc->predict;
    orr_session *session = &p->session;
    orr_table tables[ORR_REPLAY_ERROR_TABLES];
    ORR_TRY(orr_replay_error_tables(session->job, &p->simulation, p->sim.queue_depth,
                                    DIFFERENCES_MAX, session->arena, tables, &session->err));
    for (int i = 0; i < ORR_REPLAY_ERROR_TABLES; i++)
        add(doc, names[i], &tables[i]);
    return ORR_OK;
}

static int by_size(const void *a_, const void *b_)
{
    const int64_t *a = a_, *b = b_;
    return (*a > *b) - (*a < *b);
}

/* Unchanged where no step was recorded. */
static orr_status median_step_ns(orr_session *session, int64_t *ret_ns)
{
    const orr_step_summary *steps;
    size_t n;
    ORR_TRY(orr_analyze_steps(session->job, &session->analysis, session->arena, &steps, &n,
                              &session->err));
    int64_t *ns = orr_arena_array(session->arena, int64_t, n);
    if (ns == NULL)
        return orr_fail_memory(&session->err);
    for (size_t i = 0; i < n; i++)
        ns[i] = steps[i].duration_ns;
    if (n == 0)
        return ORR_OK;
    qsort(ns, n, sizeof *ns, by_size);
    *ret_ns = ns[n / 2];
    return ORR_OK;
}

static orr_status gather(document *doc)
{
    orr_predict *p = doc->predict;
    orr_session *session = &p->session;
    const orr_prediction input = {.recorded = session->job,
                                  .simulated = p->simulated,
                                  .simulation = &p->simulation,
                                  .seen = &p->seen,
                                  .analysis = &session->analysis,
                                  .cluster = p->network};
    orr_table tables[ORR_PREDICTION_TABLES];
    ORR_TRY(orr_prediction_tables(&input, session->arena, tables, &session->err));
    if (p->rescales) {
        ORR_TRY(add_findings(doc, "recognised", "what was recognised in the recording",
                             p->recognition.findings, p->recognition.n_findings));
        ORR_TRY(add_findings(doc, "rescaled", "what was changed", p->rescaled.findings,
                             p->rescaled.n_findings));
    }
    ORR_TRY(add_transfers(doc));
    for (int i = 0; i < ORR_PREDICTION_TABLES; i++)
        add(doc, NAMES[i], &tables[i]);
    if (!p->changes)
        add(doc, "read_time", &p->read_time);
    orr_table pollers, costs;
    if (p->sim.recording_costs != NULL) {
        ORR_TRY(orr_predict_recording_costs_table(p, &costs));
        add(doc, "recording_costs", &costs);
        ORR_TRY(orr_predict_bare_step(p, &doc->bare_ns, &doc->predicted_step_ns));
    }
    ORR_TRY(orr_pollers_table(session->job, session->arena, &pollers, &session->err));
    if (pollers.n_rows > 0)
        add(doc, "pollers", &pollers);
    if (session->settings->explain)
        ORR_TRY(explain(doc));
    doc->composed = p->rescaled.n_made > 0;
    doc->recorded_ns = orr_recorded_span_ns(session->job, ORR_NONE);
    if (doc->composed)
        ORR_TRY(median_step_ns(session, &doc->recorded_ns));
    doc->predicted_ns = p->simulation.end_ns - p->simulation.begin_ns;
    return ORR_OK;
}

/* "62 % recorded, 30 % learned, 8 % roofline" */
static void print_basis(const orr_predict *p, orr_output *out)
{
    const int64_t *ns = p->simulation.basis_ns;
    double sum = 0;
    const char *between = "";
    for (int b = 0; b < ORR_BASES; b++)
        sum += (double)ns[b];
    for (int b = 0; b < ORR_BASES; b++) {
        char share[ORR_HUMAN_MAX];
        if (ns[b] <= 0)
            continue;
        orr_output_printf(out, "%s%s %s", between, orr_human_frac(share, (double)ns[b] / sum),
                          orr_basis_name((orr_basis)b));
        between = ", ";
    }
    if (!*between)
        orr_output_text(out, "nothing takes any time");
}

/* "+1.2 %" */
static const char *percent(char buf[ORR_HUMAN_MAX], int64_t was_ns, int64_t is_ns)
{
    const double change = was_ns > 0 ? (double)is_ns / (double)was_ns - 1 : 0;
    char plain[ORR_HUMAN_MAX];
    orr_human_frac(plain, change);
    snprintf(buf, ORR_HUMAN_MAX, "%s%.30s", change > 0 && isdigit((unsigned char)*plain) ? "+" : "",
             plain);
    return buf;
}

/* The worst of the replays of docs/accuracy.md; nothing there was recorded both before a change
 * and after it. */
static const double replay_band_frac = 0.026;

static void print_band(const document *doc, orr_output *out)
{
    const orr_predict *p = doc->predict;
    const orr_whatif_report *report = &p->report;
    char share[ORR_HUMAN_MAX], error[ORR_HUMAN_MAX];
    if (!p->changes) {
        const double off = (double)doc->predicted_ns / (double)doc->recorded_ns - 1;
        if (doc->recorded_ns == 0)
            orr_output_text(out, "error band: none is known; the recording has no times\n\n");
        else if (fabs(off) > replay_band_frac)
            orr_output_text(out, "error band: none; this replay is off by more than any in "
                                 "docs/accuracy.md, and --explain tells why\n\n");
        else
            orr_output_printf(out,
                              "error band: %s, the worst of the replays in docs/accuracy.md\n\n",
                              orr_human_frac(error, replay_band_frac));
        return;
    }
    if (doc->composed) {
        orr_output_text(out,
                        "error band: none is known; docs/accuracy.md tells how close steps come "
                        "that are composed anew\n\n");
        return;
    }
    orr_output_printf(out, "error band: the unchanged replay is off by %s; ",
                      percent(error, doc->recorded_ns, p->replayed_ns));
    if (report->known_ns > 0)
        orr_output_printf(
            out, "%s of what was repriced by models that are off by %s on average\n\n",
            orr_human_frac(share, (double)report->known_ns / (double)report->changed_ns),
            orr_human_frac(error, report->known_error_ns / (double)report->known_ns));
    else
        orr_output_text(out, "of the change itself none is known\n\n");
}

/* What the answer to a question about ranks or a network rests on. */
static void print_network(const orr_predict *p, orr_output *out)
{
    const orr_whatif_report *report = &p->report;
    const orr_cluster *recorded = p->what.recorded_network;
    uint64_t kept = 0, all = 0;
    if (p->only_ranks && p->rescaled.n_made == 0)
        orr_output_printf(out,
                          "nothing but the number of ranks was changed, from %u to %u: every "
                          "transfer takes its recorded time, however many ranks take part; "
                          "--network prices them\n",
                          p->session.job->n_ranks, p->ensemble->n_ranks);
    for (int b = 0; b < ORR_TRANSFER_BASES; b++) {
        all += report->comms[b];
        kept += b >= ORR_TRANSFER_NO_SIZE ? report->comms[b] : 0;
    }
    if (p->network == NULL || all == 0)
        return;
    if (report->comms[ORR_TRANSFER_ANCHORED] > 0)
        orr_output_printf(out, "recorded network: %s, %s\n", recorded->name,
                          p->network_stated ? "as stated"
                                            : "assumed: the smallest of the recorded device that "
                                              "holds its ranks; --traced-network states it");
    else if (recorded == NULL)
        orr_output_text(out, "recorded network: not known, so that transfers take their price "
                             "alone; --traced-network states it\n");
    if (kept > 0)
        orr_output_printf(out,
                          "%llu of %llu transfers take their recorded time: their size, kind "
                          "or ranks are not recorded\n",
                          (unsigned long long)kept, (unsigned long long)all);
}

static void print_summary(const document *doc, orr_output *out)
{
    const orr_predict *p = doc->predict;
    char predicted[ORR_HUMAN_MAX], recorded[ORR_HUMAN_MAX], ratio[ORR_HUMAN_MAX];
    orr_output_printf(out, "predicted %s%s, recorded %s%s (%s%s)\n",
                      orr_human_ns(predicted, (double)doc->predicted_ns),
                      doc->composed ? " for one step" : "",
                      orr_human_ns(recorded, (double)doc->recorded_ns),
                      doc->composed ? " for the median step" : "",
                      percent(ratio, doc->recorded_ns, doc->predicted_ns),
                      p->changes ? "" : ", the error of the replay");
    uint32_t known = 0;
    for (uint32_t c = 0; c < p->simulation.n_classes; c++)
        known += p->simulation.timelines[c].n_ranks;
    orr_output_printf(out, "%u of %u ranks, simulated as %u; rests on: ", known,
                      p->ensemble->n_ranks, p->simulation.n_classes);
    print_basis(p, out);
    orr_output_text(out, "\n");
    print_network(p, out);
    orr_output_printf(out,
                      "of the replayed recording %s was read as recorded: nothing says what it "
                      "waited for\n",
                      orr_human_frac(ratio, p->read_frac));
    orr_predict_print_unprofiled(p, doc->bare_ns, doc->predicted_step_ns, out);
    print_band(doc, out);
}

static void json_frac(orr_output *out, const char *name, double frac)
{
    if (isfinite(frac))
        orr_output_printf(out, "\"%s\":%.6g,", name, frac);
    else
        orr_output_printf(out, "\"%s\":null,", name);
}

static void json_text(orr_output *out, const char *name, const char *text)
{
    orr_output_printf(out, "\"%s\":", name);
    if (text != NULL)
        orr_json_put_string(out, text, strlen(text));
    else
        orr_output_text(out, "null");
    orr_output_text(out, ",");
}

static void begin_json(const document *doc, orr_output *out)
{
    const orr_predict *p = doc->predict;
    const orr_whatif_report *report = &p->report;
    const char *single = doc->composed ? "true" : "false";
    /* classes and one_step are the old names, kept for one release */
    orr_output_printf(out,
                      "{\"schema\":\"orrery.predict/1\",\"version\":\"%s\",\"ranks\":%u,"
                      "\"rank_classes\":%u,\"classes\":%u,\"recorded_ns\":%" PRId64
                      ",\"predicted_ns\":%" PRId64 ","
                      "\"replayed_ns\":%" PRId64 ",\"single_step\":%s,\"one_step\":%s,",
                      orr_version(), p->ensemble->n_ranks, p->simulation.n_classes,
                      p->simulation.n_classes, doc->recorded_ns, doc->predicted_ns, p->replayed_ns,
                      single, single);
    json_text(out, "recorded_network",
              p->network != NULL && p->what.recorded_network != NULL
                  ? p->what.recorded_network->name
                  : NULL);
    orr_output_printf(out, "\"only_ranks_changed\":%s,", p->only_ranks ? "true" : "false");
    json_frac(out, "replay_band_frac", p->changes ? NAN : replay_band_frac);
    json_frac(out, "read_frac", p->read_frac);
    if (doc->bare_ns > 0)
        orr_output_printf(out, "\"bare_step_ns\":%" PRId64 ",\"predicted_step_ns\":%" PRId64 ",",
                          doc->bare_ns, doc->predicted_step_ns);
    json_frac(out, "repriced_error_frac", report->known_error_ns / (double)report->known_ns);
    orr_output_text(out, "\"tables\":{");
}

static orr_status print_tables(const document *doc)
{
    orr_session *session = &doc->predict->session;
    orr_table_style style;
    ORR_TRY(orr_session_output(session, &style));
    orr_output *out = session->out;
    const bool json = style.format == ORR_TABLE_JSON;
    if (json)
        begin_json(doc, out);
    else if (style.format == ORR_TABLE_TEXT)
        print_summary(doc, out);
    orr_session_tables(session, &style, doc->tables, doc->n, 0);
    if (json)
        orr_output_text(out, "}}\n");
    return orr_output_finish(out, &session->err);
}

/* The page of the simulated job, with the recording in the lanes above. */
static orr_status write_page(const document *doc, const orr_job *overlay)
{
    orr_session *session = &doc->predict->session;
    orr_table tables[TABLES_MAX];
    for (size_t i = 0; i < doc->n; i++)
        tables[i] = doc->tables[i].table;
    const orr_trace_html_options page = {.struct_bytes = sizeof page,
                                         .title = "Prediction",
                                         .overlay = overlay,
                                         .tables = tables,
                                         .n_tables = doc->n,
                                         .tables_title = "Prediction"};
    ORR_TRY(orr_trace_html(session->settings->html, doc->predict->simulated, &session->analysis,
                           &page, &session->err));
    orr_session_remark(session, "report written to %s", session->settings->html);
    return ORR_OK;
}

static orr_status write_pictures(const document *doc)
{
    orr_session *session = &doc->predict->session;
    const orr_settings *settings = session->settings;
    const orr_job *overlay;
    if (!settings->html && !settings->trace)
        return ORR_OK;
    ORR_TRY(orr_job_overlay(doc->predict->simulated, "simulated", session->job, "recorded",
                            &overlay, &session->err));
    orr_status status = ORR_OK;
    if (settings->trace)
        status = orr_job_write(settings->trace, orr_format_from_path(settings->trace), overlay,
                               &session->err);
    if (status == ORR_OK && settings->html)
        status = write_page(doc, overlay);
    orr_job_free(overlay);
    return status;
}

orr_status orr_predict_print(orr_predict *predict)
{
    document doc = {.predict = predict};
    ORR_TRY(gather(&doc));
    ORR_TRY(print_tables(&doc));
    return write_pictures(&doc);
}
