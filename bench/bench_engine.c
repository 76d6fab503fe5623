/* SPDX-License-Identifier: Apache-2.0 */
/* Generation on this machine, beside what it can do at most, measured between the same runs.
 *
 *   bench_engine generate [FORMAT [PROMPT [TOKENS]]]   a Llama of 1.1 billion parameters, drawn
 *   bench_engine start CHECKPOINT                      from opening to the first token
 *
 * FORMAT: how weights of products are kept; bf16 without. With THREADS=<n> in the environment; one
 * per core without. Prints JSON lines; figures are medians of several runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <orrery/orrery.h>

#include <orrery/engine.h>
#include <orrery/weights.h>

#include "floors.h"

enum { RUNS = 5, FLOOR_BYTES = 512 << 20, CONTEXT = 1024, START_TOKENS = 8 };

static orr_workers *workers;
static orr_error err;

static void check(orr_status status)
{
    if (status == ORR_OK)
        return;
    fprintf(stderr, "bench_engine: %s\n", err.text);
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return values[n / 2];
}

static double wall_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const orr_model LLAMA = {.name = "llama-1.1b",
                                .family = "llama",
                                .kind = ORR_MODEL_TRANSFORMER,
                                .layers = 16,
                                .hidden = 2048,
                                .ffn = 8192,
                                .heads = 32,
                                .kv_heads = 8,
                                .head_dim = 64,
                                .vocab = 32000,
                                .context = 4096,
                                .rope_theta = 1e4,
                                .position = ORR_POSITION_ROTARY,
                                .norm_epsilon = 1e-5,
                                .final_norm = true,
                                .moe = {.every = 1},
                                .source = "bench"};

static orr_arena *new_arena(void)
{
    orr_arena *arena = orr_arena_new(0, 0);
    if (arena == NULL)
        check(orr_fail_memory(&err));
    return arena;
}

static int threads(void)
{
    const char *said = getenv("THREADS");
    return said != NULL ? (int)strtol(said, NULL, 10) : 0;
}

/* Multiply-adds of products for a token: twice the weights that it meets, without the table. */
static double product_flops(const orr_model *m)
{
    const double attention = (double)m->hidden * m->head_dim * (2 * m->heads + 2 * m->kv_heads);
    return 2.0 * m->layers * (attention + 3.0 * m->hidden * m->ffn);
}

typedef struct answer {
    double prompt_s, token_s;
} answer;

static answer ask(orr_generator *g, int64_t prompt, int64_t tokens)
{
    orr_arena *arena = new_arena();
    int32_t *ids = orr_arena_array(arena, int32_t, (size_t)prompt);
    if (ids == NULL)
        check(orr_fail_memory(&err));
    for (int64_t i = 0; i < prompt; i++)
        ids[i] = (int32_t)(i * 7919 % 31000) + 3;
    const orr_prompt asked = {.tokens = ids, .n = (size_t)prompt};
    const orr_sampling sampling = {.most = tokens};
    orr_generated generated;
    orr_generation_times times;
    check(orr_generate(g, &asked, 1, &sampling, NULL, NULL, arena, &generated, &times, &err));
    orr_arena_free(arena);
    const double tokens_made = times.tokens > 0 ? (double)times.tokens : 1;
    return (answer){.prompt_s = 1e-9 * (double)times.prompt_ns,
                    .token_s = 1e-9 * (double)times.decode_ns / tokens_made};
}

static orr_row_format format_named(const char *name)
{
    int format = 0;
    while (format < ORR_ROW_FORMATS &&
           strcmp(orr_row_format_name((orr_row_format)format), name) != 0)
        format++;
    return (orr_row_format)format;
}

static char *floor_bytes(void)
{
    orr_backend *cpu;
    void *data;
    check(orr_backend_cpu(&cpu, &err));
    check(cpu->allocate(cpu, FLOOR_BYTES, &data, &err));
    memset(data, 1, FLOOR_BYTES);
    return data;
}

static void bench_generate(const char *format, int64_t prompt, int64_t tokens)
{
    const orr_generator_options options = {.model = &LLAMA,
                                           .format = format_named(format),
                                           .context = CONTEXT,
                                           .batch = 1,
                                           .threads = threads(),
                                           .seed = 1};
    double prompt_s[RUNS], token_s[RUNS], flops[RUNS], bytes[RUNS];
    orr_generator *g;
    char *room = floor_bytes();
    check(orr_generator_open(&options, &g, &err));
    (void)ask(g, prompt, tokens);
    for (int i = 0; i < RUNS; i++) {
        flops[i] = floor_flops_per_s(workers, true);
        bytes[i] = floor_read_per_s(workers, room, FLOOR_BYTES);
        const answer a = ask(g, prompt, tokens);
        prompt_s[i] = a.prompt_s;
        token_s[i] = a.token_s;
    }
    const double first_s = median(prompt_s, RUNS), each_s = median(token_s, RUNS);
    const double prefill = product_flops(&LLAMA) * (double)prompt / first_s;
    const double read = (double)orr_generator_read_bytes(g, prompt + tokens / 2) / each_s;
    const double flops_most = median(flops, RUNS), read_most = median(bytes, RUNS);
    printf("{\"generate\": \"llama-1.1b\", \"weights\": \"%s\", \"prompt\": %lld, "
           "\"prefill_tokens_per_s\": %.1f, \"gflops\": %.1f, \"bf16_peak_gflops\": %.1f, "
           "\"frac\": %.3f, \"decode_tokens_per_s\": %.2f, \"gb_per_s\": %.2f, "
           "\"read_gb_per_s\": %.2f, \"decode_frac\": %.3f}\n",
           format, (long long)prompt, (double)prompt / first_s, prefill / 1e9, flops_most / 1e9,
           prefill / flops_most, 1 / each_s, read / 1e9, read_most / 1e9, read / read_most);
    orr_generator_close(g);
}

/* Everything that a process does before it can answer, but its own start. */
static void bench_start(const char *path)
{
    double open_s[RUNS], all_s[RUNS];
    for (int i = 0; i < RUNS; i++) {
        orr_arena *arena = new_arena();
        orr_weights *weights;
        orr_generator_options options = {
            .format = ORR_ROW_FORMATS, .context = CONTEXT, .batch = 1, .threads = threads()};
        orr_generator *g;
        const double begin = wall_s();
        check(orr_weights_open(path, &weights, &err));
        options.weights = weights;
        check(orr_model_of_weights(weights, arena, &options.model, &err));
        check(orr_generator_open(&options, &g, &err));
        open_s[i] = wall_s() - begin;
        (void)ask(g, START_TOKENS, 1);
        all_s[i] = wall_s() - begin;
        orr_generator_close(g);
        orr_weights_close(weights);
        orr_arena_free(arena);
    }
    printf("{\"start\": \"%s\", \"opened_ms\": %.1f, \"first_token_ms\": %.1f, \"prompt\": %d}\n",
           path, 1e3 * median(open_s, RUNS), 1e3 * median(all_s, RUNS), START_TOKENS);
}

int main(int argc, char **argv)
{
    check(orr_workers_new(threads(), &workers, &err));
    if (argc >= 2 && argc <= 5 && strcmp(argv[1], "generate") == 0)
        bench_generate(argc > 2 ? argv[2] : "bf16", argc > 3 ? strtoll(argv[3], NULL, 10) : 64,
                       argc > 4 ? strtoll(argv[4], NULL, 10) : 32);
    else if (argc == 3 && strcmp(argv[1], "start") == 0)
        bench_start(argv[2]);
    else
        fputs("usage: bench_engine generate [FORMAT [PROMPT [TOKENS]]] | start CHECKPOINT\n",
              stderr);
    orr_workers_free(workers);
    return 0;
}
