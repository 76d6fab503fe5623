/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "cli/arguments/checkpoint.h"
#include "cli/arguments/factor.h"
#include "cli/running/generate_predict.h"
#include "cli/running/generate_ranks.h"
#include "io/json/writer.h"

enum { TOKENS_DEFAULT = 256, CONCURRENT_MAX = 16, PIECE_ROOM = 4096 };

typedef struct generation {
    orr_session session;
    orr_checkpoint_files checkpoint;
    orr_generator *generator;
    orr_array(const char *) texts;
    orr_prompt *prompts;
    orr_generated *results;
    orr_token_stream stream; /* of the only prompt */
    orr_sampling sampling;
    orr_generation_times times;
    bool streams, begun; /* tokens are shown as they come, and some were */
    bool over_ranks;
    orr_generated_bytes bytes;       /* between ranks */
    orr_predicted_serving predicted; /* --predict */
} generation;

/* Lines of standard input, without empty ones. */
static orr_status add_lines(generation *g)
{
    orr_error *err = &g->session.err;
    const char *text;
    size_t len;
    ORR_TRY(orr_read_text("-", g->session.arena, &text, &len, err));
    for (const char *at = text; *at != '\0';) {
        const size_t n = strcspn(at, "\n");
        const char *line = orr_arena_strndup(g->session.arena, at, n);
        if (line == NULL || (n > 0 && !orr_array_push(&g->texts, line)))
            return orr_fail_memory(err);
        at += n + (at[n] == '\n');
    }
    return ORR_OK;
}

static orr_status read_prompts(generation *g)
{
    const orr_settings *settings = g->session.settings;
    for (size_t i = 1; i < settings->n_args; i++)
        if (strcmp(settings->args[i], "-") == 0)
            ORR_TRY(add_lines(g));
        else if (!orr_array_push(&g->texts, settings->args[i]))
            return orr_fail_memory(&g->session.err);
    return g->texts.n > 0 ? ORR_OK : orr_fail(&g->session.err, ORR_INVALID, "generate: no prompt");
}

static orr_status read_sampling(generation *g)
{
    const orr_settings *s = g->session.settings;
    orr_error *err = &g->session.err;
    g->sampling = (orr_sampling){.most = s->generated > 0 ? s->generated : TOKENS_DEFAULT,
                                 .top_k = (uint32_t)s->top_k,
                                 .vocab = g->checkpoint.facts->vocab,
                                 .stop = g->checkpoint.facts->stop,
                                 .n_stop = g->checkpoint.facts->n_stop};
    if (s->temperature != NULL)
        ORR_TRY(orr_parse_factor("temperature", s->temperature, strlen(s->temperature),
                                 &g->sampling.temperature, err));
    if (s->top_p != NULL)
        ORR_TRY(orr_parse_factor("top-p", s->top_p, strlen(s->top_p), &g->sampling.top_p, err));
    if (s->seed != NULL)
        ORR_TRY(orr_parse_seed(s->seed, &g->sampling.seed, err));
    return ORR_OK;
}

/* Tokens of a prompt: as it stands, or as something that a user says. */
static orr_status tokenize(generation *g, size_t i)
{
    const orr_settings *s = g->session.settings;
    const orr_checkpoint_files *c = &g->checkpoint;
    orr_prompt *prompt = &g->prompts[i];
    int32_t *tokens;
    if (s->chat || s->system != NULL) {
        const orr_chat_message turns[] = {{"system", s->system}, {"user", g->texts.at[i]}};
        const size_t first = s->system == NULL;
        ORR_TRY(orr_chat_tokens(c->tokenizer, turns + first, 2 - first, true, g->session.arena,
                                &tokens, NULL, &prompt->n, &g->session.err));
    } else {
        ORR_TRY(orr_tokenize(c->tokenizer, g->texts.at[i], strlen(g->texts.at[i]),
                             c->facts->adds_bos, true, g->session.arena, &tokens, &prompt->n,
                             &g->session.err));
    }
    prompt->tokens = tokens;
    return prompt->n > 0
               ? ORR_OK
               : orr_fail(&g->session.err, ORR_INVALID, "generate: prompt %zu is empty", i + 1);
}

static orr_status tokenize_all(generation *g, size_t *ret_longest)
{
    g->prompts = orr_arena_array(g->session.arena, orr_prompt, g->texts.n);
    g->results = orr_arena_array(g->session.arena, orr_generated, g->texts.n);
    if (g->prompts == NULL || g->results == NULL)
        return orr_fail_memory(&g->session.err);
    memset(g->prompts, 0, g->texts.n * sizeof *g->prompts);
    for (size_t i = 0; i < g->texts.n; i++) {
        ORR_TRY(tokenize(g, i));
        if (g->prompts[i].n > *ret_longest)
            *ret_longest = g->prompts[i].n;
    }
    return ORR_OK;
}

static orr_generator_options options_of(const generation *g, size_t longest)
{
    const orr_settings *s = g->session.settings;
    const size_t most = s->concurrent > 0 ? (size_t)s->concurrent : CONCURRENT_MAX;
    return (orr_generator_options){.model = g->checkpoint.model,
                                   .weights = g->checkpoint.weights,
                                   .format = orr_row_format_parse(s->quantize),
                                   .fp32 = s->fp32,
                                   .context = s->context > 0 ? s->context
                                                             : (int64_t)longest + g->sampling.most,
                                   .batch = (uint32_t)(g->texts.n < most ? g->texts.n : most),
                                   .threads = (int)s->threads,
                                   .seed = g->sampling.seed,
                                   .record = s->record,
                                   .record_experts = s->expert_trace != NULL};
}

/* A single prompt's answer is seen as it comes. */
static bool show_token(void *ctx, uint32_t prompt, int32_t token)
{
    generation *g = ctx;
    char text[PIECE_ROOM];
    size_t n = 0;
    (void)prompt;
    if (!g->streams ||
        orr_token_stream_next(&g->stream, token, text, sizeof text, &n, NULL) != ORR_OK)
        return true;
    g->begun = true;
    return fwrite(text, 1, n, stdout) == n && fflush(stdout) == 0;
}

static void put_text(orr_output *out, const char *name, const char *text, size_t len)
{
    orr_output_printf(out, "\"%s\":", name);
    orr_json_put_string(out, text, len);
}

static orr_status print_json(generation *g, size_t i, const char *text, size_t len)
{
    const orr_generated *r = &g->results[i];
    const char *ended = r->ended ? "true" : "false";
    orr_output *out = g->session.out;
    orr_output_text(out, i > 0 ? ",\n{" : "\n{");
    put_text(out, "prompt", g->texts.at[i], strlen(g->texts.at[i]));
    orr_output_text(out, ",");
    put_text(out, "text", text, len);
    orr_output_printf(out, ",\"prompt_tokens\":%zu,\"tokens\":[", g->prompts[i].n);
    for (size_t k = 0; k < r->n; k++)
        orr_output_printf(out, "%s%d", k > 0 ? "," : "", r->tokens[k]);
    orr_output_printf(out, "],\"finished\":%s,\"ended\":%s,\"log_probability\":%.9g}", ended, ended,
                      r->log_probability); /* "ended" is the old name, for one release */
    return ORR_OK;
}

static orr_status print_results(generation *g)
{
    orr_table_style style;
    ORR_TRY(orr_session_output(&g->session, &style));
    orr_output *out = g->session.out;
    const bool json = style.format == ORR_TABLE_JSON;
    if (json)
        orr_output_printf(out,
                          "{\"schema\":\"orrery.generated/1\",\"version\":\"%s\",\"answers\":[",
                          orr_version());
    for (size_t i = 0; i < g->texts.n; i++) {
        const char *text;
        size_t len;
        ORR_TRY(orr_detokenize(g->checkpoint.tokenizer, g->results[i].tokens, g->results[i].n,
                               g->session.arena, &text, &len, &g->session.err));
        if (json) {
            ORR_TRY(print_json(g, i, text, len));
            continue;
        }
        if (g->texts.n > 1)
            orr_output_printf(out, "%s[%zu]%s ", i > 0 ? "\n" : "", i + 1, g->texts.at[i]);
        if (!g->streams)
            orr_output_printf(out, "%.*s", (int)len, text);
        orr_output_text(out, "\n");
    }
    const orr_generation_times *t = &g->times;
    if (json)
        orr_output_printf(out,
                          "],\n\"first_token_ns\":%lld,\"prompt_tokens\":%lld,\"prompt_ns\":%lld,"
                          "\"tokens\":%lld,\"decode_ns\":%lld",
                          (long long)t->first_token_ns, (long long)t->prompt_tokens,
                          (long long)t->prompt_ns, (long long)t->tokens, (long long)t->decode_ns);
    if (json && g->over_ranks)
        orr_generate_print_ranks(&g->bytes, out);
    if (json && g->session.settings->predict)
        orr_generate_print_prediction(&g->predicted, &g->bytes, out);
    if (json)
        orr_output_text(out, "}\n");
    return orr_output_finish(out, &g->session.err);
}

static double per_second(int64_t n, int64_t ns)
{
    return ns > 0 ? (double)n * 1e9 / (double)ns : 0;
}

static void tell_times(const generation *g)
{
    const orr_generation_times *t = &g->times;
    if (g->over_ranks) {
        orr_session_remark(
            &g->session, "first token after %.0f ms; prompts of %lld tokens, then %lld tokens",
            (double)t->first_token_ns / 1e6, (long long)t->prompt_tokens, (long long)t->tokens);
        orr_generate_tell_ranks(&g->session, &g->bytes);
        if (g->session.settings->predict)
            orr_generate_tell_prediction(&g->session, &g->predicted, &g->bytes);
        return;
    }
    const double bytes = (double)orr_generator_read_bytes(g->generator, t->prompt_tokens);
    orr_session_remark(&g->session,
                       "first token after %.0f ms; prompt %lld tokens at %.0f tokens/s; then %lld "
                       "tokens at %.1f tokens/s, which reads %.1f GB/s of weights",
                       (double)t->first_token_ns / 1e6, (long long)t->prompt_tokens,
                       per_second(t->prompt_tokens, t->prompt_ns), (long long)t->tokens,
                       per_second(t->tokens, t->decode_ns),
                       per_second(t->tokens, t->decode_ns) * bytes / 1e9 / (double)g->texts.n);
}

static orr_status answer(generation *g, const orr_generator_options *options)
{
    const orr_settings *s = g->session.settings;
    orr_error *err = &g->session.err;
    const uint32_t n = (uint32_t)g->texts.n;
    orr_generator_ranks ranks;
    ORR_TRY(orr_generate_read_ranks(&g->session, options->model, &ranks, &g->over_ranks));
    if (s->predict)
        ORR_TRY(orr_generate_predict(&g->session, options, &ranks, g->prompts, n, &g->predicted));
    if (g->over_ranks)
        return orr_generate_over_ranks(options, &ranks, g->prompts, n, &g->sampling, show_token, g,
                                       g->session.arena, g->results, &g->times, &g->bytes, err);
    ORR_TRY(orr_generator_open(options, &g->generator, err));
    ORR_TRY(orr_generate(g->generator, g->prompts, n, &g->sampling, show_token, g, g->session.arena,
                         g->results, &g->times, err));
    return s->expert_trace == NULL ? ORR_OK
                                   : orr_generator_experts(g->generator, s->expert_trace, err);
}

static orr_status run(generation *g)
{
    const orr_settings *s = g->session.settings;
    size_t longest = 0;
    ORR_TRY(orr_checkpoint_files_open(s->args[0], s->tokenizer, g->session.arena, &g->checkpoint,
                                      &g->session.err));
    ORR_TRY(read_sampling(g));
    ORR_TRY(orr_check_output("record", s->record, s->ranks > 0 || s->placement != NULL,
                             g->session.arena, &g->session.err));
    ORR_TRY(orr_check_output("expert-trace", s->expert_trace, false, g->session.arena,
                             &g->session.err));
    ORR_TRY(read_prompts(g));
    ORR_TRY(tokenize_all(g, &longest));
    g->stream.tokenizer = g->checkpoint.tokenizer;
    g->streams = g->texts.n == 1 && s->output == NULL && strcmp(s->format, "table") == 0;
    const orr_generator_options options = options_of(g, longest);
    ORR_TRY(answer(g, &options));
    ORR_TRY(print_results(g));
    tell_times(g);
    return ORR_OK;
}

int orr_command_generate(const orr_settings *settings)
{
    generation g = {0};
    int code = EXIT_DONE;
    if (orr_session_init(&g.session, settings) != ORR_OK || run(&g) != ORR_OK) {
        if (g.begun) /* the line of what has come so far ends here */
            putchar('\n'), fflush(stdout);
        code = orr_session_fail(&g.session);
    }
    orr_generator_close(g.generator);
    orr_checkpoint_files_close(&g.checkpoint);
    orr_array_done(&g.texts);
    orr_session_done(&g.session);
    return code;
}
