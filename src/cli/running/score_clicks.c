/* SPDX-License-Identifier: Apache-2.0 */
/* `score` of a recommendation model: a probability for each sample, in the order of the data. */
#include <float.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/progress.h"
#include "base/workers.h"
#include "cli/command/interrupt.h"
#include "cli/running/serving.h"
#include "engine/serve/client.h"
#include "io/json/writer.h"

enum { BLOCKS_AHEAD = 64, SYNTHETIC_SAMPLES = 65536 };

/* One thread's. */
typedef struct lane {
    orr_score_thread *thread; /* NULL: a server is asked */
    orr_serve_client *client; /* or NULL */
    orr_click_batch clicks;
    orr_status status;
    orr_error err;
} lane;

typedef struct scoring {
    orr_serving serving;
    orr_table_style style;
    orr_workers *workers;
    lane *lanes;
    int64_t block;
    uint64_t n, first, chunk; /* samples; of the chunk */
    float *logits, *labels;   /* shape (chunk): of the chunk; of a server probabilities */
    orr_array(orr_scored) scored;
    double loss;
    orr_json_writer json;
    int64_t began_ns;
} scoring;

static orr_status score_block(scoring *s, size_t i, lane *l)
{
    const uint64_t at = i * (uint64_t)s->block, left = s->chunk - at;
    const int64_t n = left < (uint64_t)s->block ? (int64_t)left : s->block;
    ORR_TRY(orr_click_data_read(s->serving.clicks, s->first + at, n, &l->clicks, &l->err));
    const orr_score_batch batch = {.samples = n,
                                   .dense = l->clicks.dense.at,
                                   .lengths = l->clicks.lengths.at,
                                   .ids = l->clicks.ids.at};
    memcpy(s->labels + at, l->clicks.labels.at, (size_t)n * sizeof *s->labels);
    if (l->client != NULL)
        return orr_serve_client_score(l->client, &batch, s->logits + at, &l->err);
    return orr_score_logits(l->thread, &batch, s->logits + at, &l->err);
}

static void score_in_thread(void *ctx, size_t i, int thread)
{
    scoring *s = ctx;
    lane *l = &s->lanes[thread];
    if (l->status == ORR_OK)
        l->status = score_block(s, i, l);
}

/* Binary cross entropy of a logit: max(x, 0) - x y + log(1 + exp(-|x|)). */
static double loss_of(double x, double y)
{
    return (x > 0 ? x : 0) - x * y + log1p(exp(-fabs(x)));
}

/* The same of a probability, which a float may have rounded to 0 or 1. */
static double loss_of_probability(double p, double y)
{
    return -log(fmax(y > 0 ? p : 1 - p, (double)FLT_MIN));
}

static orr_status write_chunk(scoring *s)
{
    const bool asked = s->lanes[0].client != NULL;
    orr_output *out = s->serving.session.out;
    if (!orr_array_reserve(&s->scored, s->chunk))
        return orr_fail_memory(&s->serving.session.err);
    for (uint64_t i = 0; i < s->chunk; i++) {
        const double x = (double)s->logits[i], y = (double)s->labels[i];
        const double p = asked ? x : (double)orr_score_probability(s->logits[i]);
        s->loss += asked ? loss_of_probability(p, y) : loss_of(x, y);
        s->scored.at[s->scored.n++] = (orr_scored){s->logits[i], s->labels[i]};
        if (s->style.format == ORR_TABLE_JSON)
            orr_json_write_double(&s->json, p);
        else if (s->style.format == ORR_TABLE_CSV)
            orr_output_printf(out, "%.9g,%g\n", p, (double)s->labels[i]);
        else if (s->style.format == ORR_TABLE_MARKDOWN)
            orr_output_printf(out, "| %.9g | %g |\n", p, (double)s->labels[i]);
        else
            orr_output_printf(out, "%.9g\n", p);
    }
    return ORR_OK;
}

static void write_head(scoring *s)
{
    orr_output *out = s->serving.session.out;
    if (s->style.format == ORR_TABLE_CSV)
        orr_output_text(out, "probability,label\n");
    if (s->style.format == ORR_TABLE_MARKDOWN)
        orr_output_text(out, "| probability | label |\n|---:|---:|\n");
    if (s->style.format != ORR_TABLE_JSON)
        return;
    orr_json_write_init(&s->json, out);
    orr_json_write_object(&s->json);
    orr_json_member_text(&s->json, "schema", "orrery.probabilities/1");
    orr_json_write_key(&s->json, "probabilities");
    orr_json_write_array(&s->json);
}

static void write_end(scoring *s)
{
    const double loss = s->scored.n > 0 ? s->loss / (double)s->scored.n : NAN;
    const double auc = orr_auc(s->scored.at, s->scored.n);
    const double seconds = (double)(orr_clock_now_ns(&orr_clock_monotonic) - s->began_ns) * 1e-9;
    if (s->style.format == ORR_TABLE_JSON) {
        orr_json_write_array_end(&s->json);
        orr_json_member_uint(&s->json, "samples", s->scored.n);
        orr_json_member_double(&s->json, "log_loss", loss);
        orr_json_member_double(&s->json, "auc", auc);
        orr_json_member_double(&s->json, "samples_per_s", (double)s->scored.n / seconds);
        orr_json_write_object_end(&s->json);
        orr_output_text(s->serving.session.out, "\n");
    }
    orr_session_remark(&s->serving.session,
                       "%zu samples: log loss %.6f, AUC %.6f; %.0f samples a second", s->scored.n,
                       loss, auc, (double)s->scored.n / seconds);
}

static orr_status open_lanes(scoring *s)
{
    const orr_settings *settings = s->serving.session.settings;
    orr_error *err = &s->serving.session.err;
    const orr_click_data *clicks = s->serving.clicks;
    uint64_t block;
    ORR_TRY(orr_serving_count("--batch", settings->batch, ORR_SCORER_BLOCK, ORR_SCORER_BLOCK_MAX,
                              &block, err));
    ORR_TRY(orr_serving_count("--count", settings->count,
                              clicks->n > 0 ? clicks->n : SYNTHETIC_SAMPLES,
                              clicks->n > 0 ? clicks->n : UINT64_C(1) << 40, &s->n, err));
    s->block = (int64_t)block;
    s->chunk = block * BLOCKS_AHEAD;
    s->lanes = orr_calloc(s->serving.threads, sizeof *s->lanes);
    s->logits = orr_calloc(s->chunk, sizeof *s->logits);
    s->labels = orr_calloc(s->chunk, sizeof *s->labels);
    if (s->lanes == NULL || s->logits == NULL || s->labels == NULL)
        return orr_fail_memory(err);
    const orr_serve_client_options client = {.address = settings->connect,
                                             .model = &s->serving.model->dlrm};
    for (uint32_t i = 0; i < s->serving.threads; i++)
        ORR_TRY(settings->connect != NULL
                    ? orr_serve_client_open(&client, &s->lanes[i].client, err)
                    : orr_score_thread_open(s->serving.scorer, &s->lanes[i].thread, err));
    return orr_workers_new((int)s->serving.threads, &s->workers, err);
}

static orr_status score_chunk(scoring *s)
{
    orr_workers_run(s->workers, (s->chunk + (uint64_t)s->block - 1) / (uint64_t)s->block,
                    score_in_thread, s);
    for (uint32_t i = 0; i < s->serving.threads; i++)
        if (s->lanes[i].status != ORR_OK) {
            s->serving.session.err = s->lanes[i].err;
            if (s->serving.session.settings->data != NULL && s->lanes[i].err.status == ORR_PARSE)
                orr_error_prefix(&s->serving.session.err, s->serving.session.settings->data);
            return s->lanes[i].status;
        }
    return write_chunk(s);
}

static orr_status run(scoring *s)
{
    orr_progress progress;
    orr_status status = ORR_OK;
    ORR_TRY(orr_serving_open(&s->serving, true));
    ORR_TRY(open_lanes(s));
    ORR_TRY(orr_session_output(&s->serving.session, &s->style));
    const uint64_t most = s->chunk;
    s->began_ns = orr_clock_now_ns(&orr_clock_monotonic);
    orr_progress_init(&progress, "scoring", false, STDERR_FILENO,
                      s->serving.session.settings->quiet, NULL);
    write_head(s);
    for (; status == ORR_OK && s->first < s->n && !orr_interrupt_requested(NULL);
         s->first += s->chunk) {
        s->chunk = s->n - s->first < most ? s->n - s->first : most;
        status = score_chunk(s);
        orr_progress_update(&progress, s->first + s->chunk, s->n);
    }
    orr_progress_done(&progress);
    ORR_TRY(status);
    if (orr_interrupt_requested(NULL))
        return orr_fail(&s->serving.session.err, ORR_CANCELED, "interrupted");
    write_end(s);
    return orr_output_finish(s->serving.session.out, &s->serving.session.err);
}

int orr_score_clicks(const orr_settings *settings)
{
    scoring s = {0};
    int code = EXIT_DONE;
    orr_interrupt_watch();
    if (orr_session_init(&s.serving.session, settings) != ORR_OK || run(&s) != ORR_OK)
        code = orr_interrupt_signal() != 0 ? 128 + orr_interrupt_signal()
                                           : orr_session_fail(&s.serving.session);
    orr_workers_free(s.workers);
    for (uint32_t i = 0; s.lanes != NULL && i < s.serving.threads; i++) {
        orr_score_thread_close(s.lanes[i].thread);
        orr_serve_client_close(s.lanes[i].client);
        orr_click_batch_done(&s.lanes[i].clicks);
    }
    orr_array_done(&s.scored);
    orr_free(s.lanes);
    orr_free(s.logits);
    orr_free(s.labels);
    orr_serving_close(&s.serving);
    orr_session_done(&s.serving.session);
    return code;
}
