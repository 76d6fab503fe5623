/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cli/arguments/checkpoint.h"
#include "cli/command/help.h"
#include "cli/running/serving.h"
#include "report/analyses/registry.h"

/* A text, or with --all a token of it. */
typedef struct score_row {
    const char *file, *text;
    int64_t tokens;
    double log_probability, perplexity;
} score_row;

#define C(field, type) ORR_COL_(score_row, field, type)
static const orr_column file_columns[] = {C(file, TEXT), C(tokens, I64), C(log_probability, NUMBER),
                                          C(perplexity, NUMBER)};
static const orr_column token_columns[] = {C(file, TEXT), C(text, TEXT),
                                           C(log_probability, NUMBER)};
#undef C

typedef struct scoring {
    orr_session session;
    orr_checkpoint_files checkpoint;
    orr_generator *generator;
    score_row *rows;
    size_t n;
} scoring;

static orr_status open_generator(scoring *s, int64_t tokens)
{
    const orr_settings *settings = s->session.settings;
    const orr_generator_options options = {.model = s->checkpoint.model,
                                           .weights = s->checkpoint.weights,
                                           .format = orr_row_format_parse(settings->quantize),
                                           .fp32 = settings->fp32,
                                           .context = tokens,
                                           .batch = 1,
                                           .threads = (int)settings->threads};
    orr_generator_close(s->generator);
    s->generator = NULL;
    return orr_generator_open(&options, &s->generator, &s->session.err);
}

static orr_status token_row(scoring *s, const char *file, int32_t token, double p)
{
    const char *text;
    size_t len;
    ORR_TRY(orr_token_text(s->checkpoint.tokenizer, token, true, &text, &len, &s->session.err));
    const char *copy = orr_arena_strndup(s->session.arena, text, len);
    s->rows[s->n++] = (score_row){.file = file, .text = copy, .tokens = 1, .log_probability = p};
    return copy == NULL ? orr_fail_memory(&s->session.err) : ORR_OK;
}

/* Tokens as many as the model sees at once; from then on windows that overlap by half, so that no
 * token has less than half a window before it. */
static orr_status score_tokens(scoring *s, const int32_t *tokens, size_t n, float *ret)
{
    orr_error *err = &s->session.err;
    const int64_t asked = s->session.settings->context, seen = s->checkpoint.model->context;
    const size_t most = asked > 1  ? (size_t)asked
                        : seen > 1 ? (size_t)seen
                                   : n,
                 window = n < most ? n : most;
    float *scores = orr_arena_array(s->session.arena, float, window);
    if (scores == NULL)
        return orr_fail_memory(err);
    ORR_TRY(open_generator(s, (int64_t)window));
    for (size_t begin = 0, done = 0; done + 1 < n; begin += window / 2 > 0 ? window / 2 : 1) {
        const size_t here = n - begin < window ? n - begin : window;
        const orr_prompt part = {.tokens = tokens + begin, .n = here};
        ORR_TRY(orr_score(s->generator, &part, scores, err));
        memcpy(ret + done, scores + (done - begin), (begin + here - 1 - done) * sizeof *ret);
        done = begin + here - 1;
    }
    return ORR_OK;
}

static orr_status score_file(scoring *s, const char *file)
{
    orr_error *err = &s->session.err;
    orr_arena *arena = s->session.arena;
    const bool all = s->session.settings->all;
    const char *text;
    int32_t *tokens;
    size_t len, n;
    ORR_TRY(orr_read_text(file, arena, &text, &len, err));
    ORR_TRY(orr_tokenize(s->checkpoint.tokenizer, text, len, s->checkpoint.facts->adds_bos, false,
                         arena, &tokens, &n, err));
    if (n < 2)
        return orr_fail(err, ORR_INVALID, "%s: a text of two tokens at least can be scored", file);
    float *scores = orr_arena_array(arena, float, n);
    score_row *rows = orr_arena_array(arena, score_row, s->n + (all ? n : 1));
    if (scores == NULL || rows == NULL)
        return orr_fail_memory(err);
    if (s->n > 0)
        memcpy(rows, s->rows, s->n * sizeof *rows);
    s->rows = rows;
    ORR_TRY(score_tokens(s, tokens, n, scores));
    double sum = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        sum += scores[i];
        if (all)
            ORR_TRY(token_row(s, file, tokens[i + 1], scores[i]));
    }
    if (!all)
        s->rows[s->n++] = (score_row){.file = file,
                                      .tokens = (int64_t)n - 1,
                                      .log_probability = sum,
                                      .perplexity = exp(-sum / (double)(n - 1))};
    return ORR_OK;
}

static orr_status run(scoring *s)
{
    const orr_settings *settings = s->session.settings;
    orr_table_style style;
    ORR_TRY(orr_checkpoint_files_open(settings->args[0], settings->tokenizer, s->session.arena,
                                      &s->checkpoint, &s->session.err));
    for (size_t i = 1; i < settings->n_args; i++)
        ORR_TRY(score_file(s, settings->args[i]));
    const orr_table files = ORR_TABLE_("orrery.scores/1", "texts", file_columns, s->rows, s->n);
    const orr_table each =
        ORR_TABLE_("orrery.token_scores/1", "tokens", token_columns, s->rows, s->n);
    ORR_TRY(orr_session_output(&s->session, &style));
    orr_table_write(settings->all ? &each : &files, &style, s->session.out);
    return orr_output_finish(s->session.out, &s->session.err);
}

int orr_command_score(const orr_settings *settings)
{
    scoring s = {0};
    int code = EXIT_DONE;
    if (settings->weights != NULL || settings->connect != NULL)
        return settings->qps != NULL ? orr_score_load(settings) : orr_score_clicks(settings);
    if (settings->n_args < 2) {
        orr_complain("score: which texts? Name files after MODEL; of a recommendation model add "
                     "--weights FOLDER");
        return EXIT_USAGE;
    }
    if (orr_session_init(&s.session, settings) != ORR_OK || run(&s) != ORR_OK)
        code = orr_session_fail(&s.session);
    orr_generator_close(s.generator);
    orr_checkpoint_files_close(&s.checkpoint);
    orr_session_done(&s.session);
    return code;
}
