/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/step/embedding_tables.h"

#include <math.h>
#include <string.h>

/* Tables of a step: opening them, and passing batches through the stages. */

/* Channels that no axis of parallelism has (lanes.c). */
enum { CHANNEL_OF_IDS = 5, CHANNEL_OF_BAGS = 6 };

static orr_status choose_plan(orr_engine_step *step, orr_embedding_plan *ret, orr_error *err)
{
    const orr_dlrm *d = &step->source.model->dlrm;
    const orr_embedding_plan *asked = step->source.tables;
    if (asked == NULL)
        return orr_embedding_plan_default(d->tables, d->n_tables, step->plan.dp, step->arena, ret,
                                          err);
    *ret = *asked;
    const uint64_t ranks = (uint64_t)asked->ranks * (asked->groups > 1 ? asked->groups : 1);
    if (ranks != step->plan.dp)
        return orr_fail(err, ORR_INVALID, "the tables are sharded over %llu ranks, the job has %u",
                        (unsigned long long)ranks, step->plan.dp);
    if (asked->n_tables != d->n_tables)
        return orr_fail(err, ORR_INVALID, "a plan of %u tables, and the model has %u",
                        asked->n_tables, d->n_tables);
    return ORR_OK;
}

static orr_tables_source source_of(const orr_engine_step *step)
{
    return (orr_tables_source){.plan = &step->tables->plan,
                               .transport = step->source.transport,
                               .channels = {CHANNEL_OF_IDS, CHANNEL_OF_BAGS},
                               .workers = step->source.workers,
                               .samples = step->tables->samples,
                               .seed = step->source.seed,
                               .trained = true,
                               .tiers = step->source.tiers};
}

static orr_status count_memory(orr_engine_step *step, const orr_tables_source *source,
                               orr_error *err)
{
    orr_tables_memory need;
    ORR_TRY(orr_tables_measure(source, &need, err));
    step->memory.weights += need.rows + need.cache;
    step->memory.optimizer += need.state;
    step->memory.buffers += need.buffers;
    return ORR_OK;
}

orr_status orr_step_open_tables(orr_engine_step *step, orr_error *err)
{
    const orr_dlrm *d = &step->source.model->dlrm;
    orr_step_tables *t;
    if (step->source.model->kind != ORR_MODEL_DLRM)
        return ORR_OK;
    t = step->tables = orr_arena_one(step->arena, orr_step_tables);
    if (t == NULL)
        return orr_fail_memory(err);
    t->samples = (int64_t)step->plan.micro_batch * step->plan.micro_batches;
    for (uint32_t i = 0; i < d->n_tables; i++)
        t->columns += d->tables[i].columns;
    for (uint8_t ahead = 0; ahead < ORR_TABLES_AHEAD; ahead++)
        t->hooks[ahead] = (orr_table_hook){step, ahead};
    ORR_TRY(choose_plan(step, &t->plan, err));
    const size_t bytes = (size_t)(t->samples * t->columns) * sizeof(float);
    ORR_TRY(orr_step_allocate(step, bytes, &step->memory.buffers, &t->bags, err));
    ORR_TRY(orr_step_allocate(step, bytes, &step->memory.buffers, &t->gradients, err));
    const orr_tables_source source = source_of(step);
    ORR_TRY(count_memory(step, &source, err));
    return step->measures ? ORR_OK : orr_tables_open(&source, &t->tables, err);
}

static uint32_t slot_of(uint64_t batch)
{
    return (uint32_t)(batch % ORR_TABLES_AHEAD);
}

/* Forgets what was prepared: batches whose ids have been exchanged are ended. */
static void drop(orr_step_tables *t)
{
    for (uint64_t b = t->batch; b < t->passed[ORR_BATCH_IDS]; b++)
        orr_tables_skip(t->tables, slot_of(b));
}

void orr_step_close_tables(orr_engine_step *step)
{
    if (step->tables == NULL || step->tables->tables == NULL)
        return;
    drop(step->tables);
    orr_tables_close(step->tables->tables);
}

orr_tables *orr_engine_step_tables(const orr_engine_step *step)
{
    return step->tables != NULL ? step->tables->tables : NULL;
}

const orr_embedding_plan *orr_engine_step_table_plan(const orr_engine_step *step)
{
    return step->tables != NULL ? &step->tables->plan : NULL;
}

uint8_t orr_step_batch_stage_ahead(const orr_engine_step *step, orr_batch_stage stage)
{
    static const uint8_t most[ORR_BATCH_STAGES] = {3, 2, 1};
    const uint32_t lookahead = orr_tables_lookahead(&step->tables->plan);
    uint8_t asked = step->tables->plan.pipeline;
    if (lookahead > 0 && asked == 0)
        asked = 1;
    asked = asked < most[stage] ? asked : most[stage];
    return (uint8_t)(asked + (lookahead > 0 ? lookahead - 1 : 0));
}

static orr_status pass_stage(orr_engine_step *step, orr_batch_stage stage, uint64_t batch,
                             orr_error *err)
{
    const orr_step_reader *reader = step->source.reader;
    orr_step_tables *t = step->tables;
    orr_step_batch *at = &t->batches[slot_of(batch)];
    switch (stage) {
    case ORR_BATCH_READ:
        return reader->read(reader->ctx, batch, at, err);
    case ORR_BATCH_IDS:
        return orr_tables_exchange_ids(t->tables, slot_of(batch), &at->lookups, err);
    default:
        return orr_tables_fetch(t->tables, slot_of(batch), err);
    }
}

/* Passes all batches below `to` that will be computed. */
static orr_status pass_until(orr_engine_step *step, orr_batch_stage stage, uint64_t to,
                             orr_error *err)
{
    orr_step_tables *t = step->tables;
    for (uint64_t *at = &t->passed[stage]; *at < to && *at < t->end; ++*at)
        ORR_TRY(pass_stage(step, stage, *at, err));
    return ORR_OK;
}

static void fill(orr_engine_step *step, const char *name, const float *from)
{
    for (uint32_t m = 0; m < step->plan.micro_batches; m++) {
        orr_type type;
        void *to = orr_engine_step_input(step, name, m, &type);
        const int64_t n = orr_type_elements(&type);
        memcpy(to, from + m * n, (size_t)n * sizeof *from);
    }
}

static void fill_inputs(orr_engine_step *step)
{
    const orr_step_batch *batch = &step->tables->batches[slot_of(step->tables->batch)];
    fill(step, "dense", batch->dense);
    fill(step, "targets", batch->targets);
}

orr_status orr_engine_step_set_batch(orr_engine_step *step, uint64_t batch, uint64_t end,
                                     orr_error *err)
{
    orr_step_tables *t = step->tables;
    if (step->source.reader == NULL)
        return orr_fail(err, ORR_INVALID, "a step without a reader of batches");
    if (batch != t->batch) {
        drop(t);
        t->batch = batch;
        for (int s = 0; s < ORR_BATCH_STAGES; s++)
            t->passed[s] = batch;
    }
    t->end = end;
    ORR_TRY(pass_until(step, ORR_BATCH_READ, batch + 1, err));
    fill_inputs(step);
    return ORR_OK;
}

/* Catches up with what earlier steps would have prepared. */
orr_status orr_step_begin_batch(orr_engine_step *step, orr_error *err)
{
    orr_step_tables *t = step->tables;
    if (t == NULL)
        return ORR_OK;
    if (t->passed[ORR_BATCH_READ] <= t->batch)
        return orr_fail(err, ORR_INVALID, "no batch has been set");
    for (orr_batch_stage s = ORR_BATCH_READ; s < ORR_BATCH_STAGES; s++)
        ORR_TRY(pass_until(step, s, t->batch + orr_step_batch_stage_ahead(step, s), err));
    return ORR_OK;
}

void orr_step_end_batch(orr_engine_step *step, bool updated)
{
    orr_step_tables *t = step->tables;
    if (t == NULL)
        return;
    if (!updated)
        orr_tables_skip(t->tables, slot_of(t->batch));
    t->batch++;
}

/* --- hooks: a repeated step, which looks for a NaN, has what they made ----------------------- */

static orr_status prepare(const orr_table_hook *h, orr_batch_stage stage, orr_error *err)
{
    return h->step->searches
               ? ORR_OK
               : pass_until(h->step, stage, h->step->tables->batch + h->ahead + 1, err);
}

orr_status orr_step_read_batch(void *ctx, uint32_t call, orr_error *err)
{
    (void)call;
    return prepare(ctx, ORR_BATCH_READ, err);
}

orr_status orr_step_exchange_ids(void *ctx, uint32_t call, orr_error *err)
{
    (void)call;
    return prepare(ctx, ORR_BATCH_IDS, err);
}

orr_status orr_step_fetch_rows(void *ctx, uint32_t call, orr_error *err)
{
    (void)call;
    return prepare(ctx, ORR_BATCH_FETCH, err);
}

orr_status orr_step_sum_bags(void *ctx, uint32_t call, orr_error *err)
{
    const orr_table_hook *h = ctx;
    const orr_step_tables *t = h->step->tables;
    (void)call;
    return h->step->searches ? ORR_OK : orr_tables_sum(t->tables, slot_of(t->batch), t->bags, err);
}

static orr_status check_bags(const orr_engine_step *step, orr_error *err)
{
    const orr_dlrm *d = &step->source.model->dlrm;
    const float *at = step->tables->bags;
    for (int64_t s = 0; s < step->tables->samples; s++)
        for (uint32_t i = 0; i < d->n_tables; i++)
            for (uint32_t k = 0; k < d->tables[i].columns; k++)
                if (!isfinite(*at++))
                    return orr_fail(
                        err, ORR_INVALID,
                        "table %s, sample %lld: the bag has a number that is not finite",
                        d->tables[i].name, (long long)(step->rank * step->tables->samples + s));
    return ORR_OK;
}

orr_status orr_step_exchange_bags(void *ctx, uint32_t call, orr_error *err)
{
    const orr_table_hook *h = ctx;
    const orr_step_tables *t = h->step->tables;
    (void)call;
    if (!h->step->searches)
        ORR_TRY(orr_tables_exchange_bags(t->tables, slot_of(t->batch), t->bags, err));
    return h->step->searches || h->step->source.check ? check_bags(h->step, err) : ORR_OK;
}

orr_status orr_step_exchange_bag_gradients(void *ctx, uint32_t call, orr_error *err)
{
    const orr_table_hook *h = ctx;
    const orr_step_tables *t = h->step->tables;
    (void)call;
    return h->step->searches
               ? ORR_OK
               : orr_tables_exchange_gradients(t->tables, slot_of(t->batch), t->gradients, err);
}

/* Losses are weighted for the mean over the whole batch; the tables of a group learn from the mean
 * over its own samples. */
orr_status orr_step_update_tables(void *ctx, uint32_t call, orr_error *err)
{
    const orr_table_hook *h = ctx;
    const orr_step_tables *t = h->step->tables;
    orr_update by = *t->update;
    (void)call;
    by.gradient_scale *= h->step->plan.dp / t->plan.ranks;
    return orr_tables_update(t->tables, slot_of(t->batch), &by, err);
}
