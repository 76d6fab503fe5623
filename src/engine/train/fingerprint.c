/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <xxhash.h>

#include "engine/train/trainer.h"

/* Fingerprint of a job: a hash of everything that decides its numbers, which must be equal in all
 * replicas of a team. Paths differ between machines and are left out; what is in the files is
 * not. */

static uint64_t of_text(uint64_t so_far, const char *text)
{
    return text == NULL ? so_far : XXH3_64bits_withSeed(text, strlen(text), so_far + 1);
}

static uint64_t of_name(uint64_t so_far, const char *path)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    return of_text(so_far, slash != NULL ? slash + 1 : path);
}

static uint64_t of_numbers(uint64_t so_far, const double *numbers, size_t bytes)
{
    return XXH3_64bits_withSeed(numbers, bytes, so_far);
}

static uint64_t of_model(uint64_t so_far, const orr_model *m)
{
    const double shape[] = {
        m->kind,       m->layers,      m->hidden, m->ffn,        m->heads,       m->kv_heads,
        m->head_dim,   m->vocab,       m->norm,   m->activation, m->position,    m->norm_epsilon,
        m->rope_theta, m->rope_factor, m->tied,   m->qkv_bias,   m->output_bias, m->mlp_bias,
        m->head_bias,  m->sinks,       m->chunk,  m->sliding,    m->moe.experts, m->moe.top_k};
    return of_numbers(of_text(so_far, m->name), shape, sizeof shape);
}

/* Replicas sum gradients as they are stored, so their experts stand alike. */
static uint64_t of_placement(uint64_t so_far, const orr_expert_placement *p)
{
    return p == NULL ? so_far
                     : XXH3_64bits_withSeed(
                           p->expert, orr_expert_placement_slots(p) * sizeof *p->expert, so_far);
}

static uint64_t of_schedule(uint64_t so_far, const orr_train_job *t)
{
    const orr_train_options *o = t->options;
    const double numbers[] = {t->workload.task,  (double)o->steps,       t->rate.most,
                              t->rate.least,     (double)t->rate.warmup, t->rate.schedule,
                              t->clip,           t->update.beta1,        t->update.beta2,
                              t->update.epsilon, t->update.decay,        o->sgd,
                              o->team->replicas, o->team->rate};
    return of_numbers(so_far, numbers, sizeof numbers);
}

/* The first samples distinguish one file, or tokenizer, from another. */
static uint64_t of_data(uint64_t so_far, const orr_trainer *t)
{
    enum { SAMPLES = 4 };
    orr_dataset *b = t->training->batches;
    const size_t n = (size_t)b->tokens;
    const double about[] = {(double)b->tokens, (double)b->n};
    so_far = of_numbers(of_text(so_far, b->name), about, sizeof about);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        orr_dataset_fill(b, i, &t->sample);
        so_far = XXH3_64bits_withSeed(t->sample.tokens, n * sizeof *t->sample.tokens, so_far);
        so_far = XXH3_64bits_withSeed(t->sample.targets, n * sizeof *t->sample.targets, so_far);
    }
    return so_far;
}

uint64_t orr_train_fingerprint(const orr_trainer *t)
{
    const orr_train_job *training = t->training;
    uint64_t job = of_text(training->options->seed, training->plan_text);
    job = of_model(job, training->model);
    job = of_placement(job, training->workload.placement);
    job = of_schedule(job, training);
    job = of_name(job, training->options->init);
    return of_data(job, t);
}

static uint64_t of_spans(const orr_trainer *t)
{
    uint32_t n;
    const orr_team_span *spans = orr_engine_step_state(t->step, &n);
    uint64_t digest = 0;
    for (uint32_t i = 0; i < n; i++)
        digest = XXH3_64bits_withSeed(spans[i].data, spans[i].bytes, digest);
    return digest;
}

/* Of recommendation, the same for any number of ranks: each has the dense part. */
static orr_status of_recommendation(const orr_trainer *t, uint64_t *ret, orr_error *err)
{
    enum { DENSE, TABLES, PARTS };
    const uint32_t ranks = t->transport->ranks;
    uint64_t *all = orr_arena_array(t->arena, uint64_t, (size_t)ranks * PARTS);
    if (all == NULL)
        return orr_fail_memory(err);
    uint64_t mine[PARTS] = {[DENSE] = of_spans(t)};
    ORR_TRY(orr_train_table_digest(t, &mine[TABLES], err));
    memcpy(all, mine, sizeof mine);
    if (ranks > 1)
        ORR_TRY(
            orr_all_gather(orr_engine_step_world(t->step), mine, all, PARTS, ORR_DTYPE_INT64, err));
    for (uint32_t r = 1; r < ranks; r++) {
        if (all[PARTS * r + DENSE] != all[DENSE])
            return orr_fail(err, ORR_INVALID, "the dense parts of ranks 0 and %u differ", r);
        all[TABLES] += all[PARTS * r + TABLES];
    }
    *ret = XXH3_64bits(all, sizeof mine);
    return ORR_OK;
}

orr_status orr_train_state_digest(const orr_trainer *t, uint64_t *ret, orr_error *err)
{
    const uint32_t ranks = t->transport->ranks;
    if (orr_engine_step_tables(t->step) != NULL)
        return of_recommendation(t, ret, err);
    const uint64_t mine = of_spans(t);
    uint64_t *all = orr_arena_array(t->arena, uint64_t, ranks);
    if (all == NULL)
        return orr_fail_memory(err);
    all[0] = mine;
    if (ranks > 1)
        ORR_TRY(
            orr_all_gather(orr_engine_step_world(t->step), &mine, all, 1, ORR_DTYPE_INT64, err));
    *ret = orr_train_state_is_complete(t) ? XXH3_64bits(all, ranks * sizeof *all) : 0;
    return ORR_OK;
}
