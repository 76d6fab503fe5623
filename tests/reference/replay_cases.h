/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPLAY_CASES_H
#define REPLAY_CASES_H

/* Replays of recordings, held against them; shared by test_replay.c and bench/accuracy.c.
 *
 * A replay has constants (orr_sim_latencies). Each recording is replayed twice: with those
 * measured from itself, and with those of recordings that it is no part of. The split, written down
 * before anything was measured:
 *
 *   - a job of eight ranks: ranks 0-3 are judged with the constants of ranks 4-7, and ranks 4-7
 *     with those of ranks 0-3;
 *   - a single rank: with those of all other recordings of its generation of devices;
 *   - a rank whose generation was recorded once: with those of the first half of its time;
 *   - CPU only, gloo: with those of the other jobs. */
#include <stdio.h>
#include <stdlib.h>

#include <orrery/orrery.h>

#include "sim/validation/validation.h"

typedef struct replay_case {
    const char *name;
    const char *path; /* below the traces; "examples/..." below the source tree */
    const char *generation;
    bool split_ranks; /* its own ranks are the other half */
} replay_case;

static const replay_case REPLAY_CASES[] = {
    {"DLRM, 8 ranks", "dlrm_v100x8", "V100", true},
    {"ns", "kineto/ns_v100.json.gz", "V100", false},
    {"ResNet-50 (2020)", "kineto/resnet50_v100_2020_old_categories.json.gz", "V100", false},
    {"DDP, rank 3 of 8", "kineto/ddp_a100_w8_rank3.json.gz", "A100", false},
    {"rank 0 of 16, launches missing", "kineto/a100_w16_missing_launches.json.gz", "A100", false},
    {"rank 0 of 128", "kineto/w128_rank0_noflows.json.gz", "A100", false},
    {"rank 1 of 128", "kineto/w128_rank1_noflows.json.gz", "A100", false},
    {"event sync", "kineto/event_sync_a100.json.gz", "A100", false},
    {"simple add", "kineto/simple_add_a100.json.gz", "A100", false},
    {"simple add, sync records", "kineto/simple_add_a100_sync.json.gz", "A100", false},
    {"Triton", "kineto/triton.json.gz", "A100", false},
    {"BERT small", "kineto/bert-small_h100.json.gz", "H100", false},
    {"ViT", "kineto/nsfw-vit_h100.json.gz", "H100", false},
    {"Qwen1.5 0.5B", "kineto/qwen1.5-0.5b_h100.json.gz", "H100", false},
    {"minitoy", "kineto/mi250_minitoy.json.gz", "MI250", false},
    {"MTIA inference", "kineto/mtia_inference.json.gz", "MTIA", false},
    {"DLRM, gloo", "examples/traces/dlrm_gloo_w2", "CPU", false},
    {"GPT, gloo", "examples/traces/gpt_ddp_gloo_w2", "CPU", false},
    {"MLP, gloo", "examples/traces/mlp_ddp_gloo_w2", "CPU", false},
    {"MoE, gloo", "examples/traces/moe_gloo_w2", "CPU", false},
    {"pipeline, gloo", "examples/traces/pipeline_gloo_w2", "CPU", false},
};
enum { REPLAY_CASES_N = sizeof REPLAY_CASES / sizeof *REPLAY_CASES };

static inline bool replay_path(const replay_case *c, char *path, size_t n)
{
    const bool example = strncmp(c->path, "examples/", 9) == 0;
    const char *root = getenv(example ? "ORRERY_SOURCE" : "ORRERY_SHARED");
    return root != NULL &&
           (size_t)snprintf(path, n, "%s/%s%s", root, example ? "" : "data/traces/", c->path) < n;
}

static inline orr_status replay_read(const replay_case *c, orr_arena *arena, const orr_job **ret,
                                     orr_error *err)
{
    char path[1024];
    if (!replay_path(c, path, sizeof path))
        return orr_fail(err, ORR_NOT_FOUND, "no folder of traces is known");
    const char *paths[] = {path};
    const orr_job_file *files;
    size_t n;
    orr_read_options options;
    orr_read_options_init(&options);
    options.tolerant = true;
    return orr_job_read(paths, 1, &options, arena, ret, &files, &n, err);
}

/* The first half of a rank's time: what begins later has no recorded start. */
static inline orr_status replay_first_half(const orr_graph *g, orr_arena *arena,
                                           const orr_graph **ret, orr_error *err)
{
    int64_t *start = orr_arena_array(arena, int64_t, g->n_nodes);
    if (start == NULL)
        return orr_fail_memory(err);
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        start[v] = g->start_ns[v] > g->span_ns / 2 ? ORR_TIME_NONE : g->start_ns[v];
    const orr_retiming half = {start, g->duration_ns, g->base_ns, ORR_NONE};
    return orr_graph_retime(g, &half, ret, err);
}

/* All recordings that were read, NULL where one was not. */
typedef const orr_job *replay_jobs[REPLAY_CASES_N];

/* Constants for recording `i` from what it is no part of; `half`: which ranks of a split job are
 * judged (0: the lower). */
static inline orr_status replay_held_out(const replay_jobs jobs, size_t i, int half,
                                         orr_arena *arena, orr_sim_latencies *ret, orr_error *err)
{
    const orr_graph *graphs[64];
    const orr_job *own = jobs[i];
    uint32_t n = 0;
    orr_sim_latencies_init(ret);
    if (REPLAY_CASES[i].split_ranks) {
        const uint32_t quarter = own->n_graphs / 2;
        return orr_sim_latencies_measure(own->graphs + (half == 0 ? quarter : 0), quarter, ret,
                                         NULL, err);
    }
    for (size_t k = 0; k < REPLAY_CASES_N; k++)
        if (k != i && jobs[k] != NULL &&
            strcmp(REPLAY_CASES[k].generation, REPLAY_CASES[i].generation) == 0)
            for (uint32_t d = 0; d < jobs[k]->n_graphs && n < 64; d++)
                graphs[n++] = jobs[k]->graphs[d];
    if (n > 0)
        return orr_sim_latencies_measure(graphs, n, ret, NULL, err);
    ORR_TRY(replay_first_half(own->graphs[0], arena, &graphs[0], err));
    const orr_status status = orr_sim_latencies_measure(graphs, 1, ret, NULL, err);
    orr_graph_free(graphs[0]);
    return status;
}

static inline orr_status replay_run(const orr_job *job, const orr_sim_latencies *constants,
                                    orr_arena *arena, orr_simulation *ret,
                                    orr_validation *ret_error, orr_error *err)
{
    const orr_ensemble *ensemble;
    orr_sim_options options;
    orr_sim_options_init(&options);
    if (constants != NULL)
        options.constants = *constants;
    ORR_TRY(orr_ensemble_of_job(job, arena, &ensemble, err));
    ORR_TRY(orr_simulate(ensemble, &options, arena, ret, err));
    return orr_simulation_validate(job, ret, arena, ret_error, err);
}

/* What is reported of a recording. */
typedef struct replay_score {
    uint32_t n_ranks;
    size_t n_steps;
    double span_ms;     /* the longest rank's */
    double mean, worst; /* |error| of the spans of ranks, as fractions */
    double mean_step, worst_step;
    double mean_start_us; /* of device work, or of communications */
    double read_frac;     /* of the span, of the rank where most was read as recorded */
} replay_score;

static inline void replay_add(replay_score *s, const orr_validation *e, uint32_t from, uint32_t to)
{
    double starts = 0;
    uint64_t n_starts = 0;
    for (size_t i = 0; i < e->n_ranks; i++) {
        const orr_validation_span *span = &e->ranks[i].span;
        if (e->ranks[i].rank < from || e->ranks[i].rank >= to)
            continue;
        const double error = span->error_frac < 0 ? -span->error_frac : span->error_frac;
        s->mean = (s->mean * s->n_ranks + error) / (s->n_ranks + 1);
        s->worst = error > s->worst ? error : s->worst;
        s->span_ms = (double)span->recorded_ns / 1e6 > s->span_ms ? (double)span->recorded_ns / 1e6
                                                                  : s->span_ms;
        starts += span->mean_start_ns * (double)span->n_starts;
        n_starts += span->n_starts;
        s->n_ranks++;
    }
    for (size_t i = 0; i < e->n_steps; i++) {
        const double frac = e->steps[i].span.error_frac, error = frac < 0 ? -frac : frac;
        if (e->steps[i].rank < from || e->steps[i].rank >= to)
            continue;
        s->mean_step = (s->mean_step * (double)s->n_steps + error) / (double)(s->n_steps + 1);
        s->worst_step = error > s->worst_step ? error : s->worst_step;
        s->n_steps++;
    }
    if (n_starts > 0)
        s->mean_start_us +=
            starts / (double)n_starts / 1000 / (from > 0 || to < UINT32_MAX ? 2 : 1);
}

/* Replays a recording with its own constants, or with those of others. */
static inline orr_status replay_judge(const replay_jobs jobs, size_t i, bool held_out,
                                      orr_arena *arena, replay_score *ret, orr_error *err)
{
    const bool split = held_out && REPLAY_CASES[i].split_ranks;
    replay_score score = {0};
    for (int half = 0; half < (split ? 2 : 1); half++) {
        const uint32_t middle = jobs[i]->n_ranks / 2;
        orr_sim_latencies constants;
        orr_simulation simulation;
        orr_validation error;
        if (held_out)
            ORR_TRY(replay_held_out(jobs, i, half, arena, &constants, err));
        ORR_TRY(replay_run(jobs[i], held_out ? &constants : NULL, arena, &simulation, &error, err));
        const orr_span_shares *shares;
        ORR_TRY(orr_simulation_read_time(jobs[i], &simulation, 1024, arena, &shares, err));
        for (uint32_t d = 0; d < jobs[i]->n_graphs; d++)
            if (shares[d].read_frac > score.read_frac)
                score.read_frac = shares[d].read_frac;
        replay_add(&score, &error, split && half == 1 ? middle : 0,
                   split && half == 0 ? middle : UINT32_MAX);
    }
    *ret = score;
    return ORR_OK;
}

#endif /* REPLAY_CASES_H */
