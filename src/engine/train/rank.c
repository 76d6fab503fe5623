/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/parallel_for.h"
#include "engine/train/trainer.h"
#include "team/protocol/message.h"

/* The training loop of one rank, from its first step to its last. */

static int threads_of(const orr_trainer *t)
{
    const orr_train_options *o = t->training->options;
    const int each = orr_core_count() / (int)t->transport->ranks;
    return o->threads > 0 ? o->threads : each > 1 ? each : 1;
}

/* The rank's samples are next to one another in the batch. */
static void read_clicks(orr_trainer *t)
{
    const orr_plan *plan = &t->training->plan;
    const orr_embedding_plan *tables = t->training->options->tables;
    const int64_t samples = (int64_t)plan->micro_batch * plan->micro_batches;
    t->clicks = (orr_click_reader){.clicks = t->training->clicks,
                                   .batch = plan->batch,
                                   .first = t->transport->rank * (uint64_t)samples,
                                   .samples = samples,
                                   .kept = tables != NULL ? orr_tables_steps(tables) : 1};
    t->reader = (orr_step_reader){orr_click_reader_read, &t->clicks};
}

static orr_status make_step(orr_trainer *t, orr_error *err)
{
    const orr_train_job *training = t->training;
    orr_step_source source = {.model = training->model,
                              .plan = &training->plan,
                              .workload = &training->workload,
                              .transport = t->transport,
                              .seed = training->options->seed,
                              .check = training->options->check,
                              .sgd = training->options->sgd,
                              .tables = training->options->tables,
                              .tiers = t->rows.there ? t->rows.tiers : NULL,
                              .reader = &t->reader,
                              .objective = training->task->objective,
                              .objective_ctx = t,
                              .team = orr_train_replica_reducer(t),
                              .routes = training->options->expert_trace != NULL};
    read_clicks(t);
    ORR_TRY(orr_backend_cpu(&source.backend, err));
    ORR_TRY(orr_workers_new(threads_of(t), &t->workers, err));
    source.workers = t->workers;
    return orr_engine_step_make(&source, &t->step, err);
}

static orr_status restore(orr_trainer *t, const orr_checkpoint *checkpoint, orr_error *err)
{
    const uint64_t seed = t->training->options->seed;
    uint32_t n;
    const orr_parameter *parameters = orr_engine_step_parameters(t->step, &n);
    if (checkpoint->seed != seed)
        return orr_fail(err, ORR_INVALID,
                        "the checkpoint was begun with seed %llu, not %llu: the data would differ",
                        (unsigned long long)checkpoint->seed, (unsigned long long)seed);
    ORR_TRY(orr_train_restore_tables(t, checkpoint, err));
    ORR_TRY(orr_checkpoint_restore(checkpoint, &t->facts, parameters, n, err));
    ORR_TRY(orr_train_remember_rows(t, checkpoint, err));
    t->last_step = t->committed = t->saved = t->settled = checkpoint->step;
    t->data = checkpoint->data;
    return orr_engine_step_weights_changed(t->step, err);
}

static orr_status make_checkpointer(orr_trainer *t, orr_error *err)
{
    uint32_t n, n_parts;
    orr_table_part *parts;
    const orr_parameter *parameters = orr_engine_step_parameters(t->step, &n);
    ORR_TRY(orr_train_table_parts(t, &parts, &n_parts, err));
    orr_store *stores[ORR_TIERS];
    ORR_TRY(orr_checkpointer_new(t->folder, &t->facts, parameters, n, &t->checkpointer, err));
    orr_train_stores(t, stores);
    orr_checkpointer_add_stores(t->checkpointer, stores);
    return n_parts > 0 ? orr_checkpointer_add_tables(t->checkpointer, parts, n_parts, err) : ORR_OK;
}

/* A number that no other run has, the same on all ranks: what rank 0 drew, or has read. */
static orr_status agree_on_run(orr_trainer *t, orr_error *err)
{
    const uint32_t n = t->transport->ranks;
    uint64_t *all = orr_malloc(n * sizeof *all);
    orr_status status = all != NULL ? ORR_OK : orr_fail_memory(err);
    if (status == ORR_OK && t->facts.run == 0 &&
        getrandom(&t->facts.run, sizeof t->facts.run, 0) != (ssize_t)sizeof t->facts.run)
        status = orr_fail(err, ORR_IO, "no random number for the run: %s", strerror(errno));
    if (status == ORR_OK && n > 1)
        status = orr_all_gather(orr_engine_step_world(t->step), &t->facts.run, all, 1,
                                ORR_DTYPE_INT64, err);
    if (status == ORR_OK && n > 1)
        t->facts.run = all[0];
    orr_free(all);
    return status;
}

/* `from`: the checkpoint that is resumed from; NULL: none. */
static orr_status open_checkpoints(orr_trainer *t, const orr_checkpoint *from, orr_error *err)
{
    const orr_train_options *o = t->training->options;
    t->facts = (orr_checkpoint_metadata){.model = t->training->model->name,
                                         .plan = t->training->plan_text,
                                         .run = from != NULL ? from->run : 0,
                                         .seed = o->seed,
                                         .rank = t->transport->rank,
                                         .ranks = t->transport->ranks};
    orr_train_describe_rows(t, &t->facts);
    if (from != NULL)
        ORR_TRY(restore(t, from, err));
    t->folder = t->training->save;
    if (o->save == NULL &&
        o->export_to != NULL) { /* export reads a checkpoint, so one is written */
        t->folder =
            orr_arena_printf(t->arena, "%s.checkpoint%s%s", o->export_to,
                             o->team != NULL ? "." : "", o->team != NULL ? o->team->name : "");
        if (t->folder == NULL)
            return orr_fail_memory(err);
    }
    if (t->folder == NULL)
        return ORR_OK;
    ORR_TRY(agree_on_run(t, err));
    return make_checkpointer(t, err);
}

/* The checkpoint to resume from; NULL: none. In a team other ranks may have one. */
static orr_status open_latest(const orr_trainer *t, orr_checkpoint **ret, orr_error *err)
{
    const orr_train_options *o = t->training->options;
    *ret = NULL;
    if (!o->resume)
        return ORR_OK;
    const orr_status status = orr_checkpoint_open(t->training->save, ret, err);
    return status == ORR_NOT_FOUND && o->team != NULL ? ORR_OK : status;
}

static orr_status begin_from(orr_trainer *t, orr_checkpoint *from, orr_error *err)
{
    const orr_train_options *o = t->training->options;
    ORR_TRY(orr_train_place_rows(t, from, err));
    ORR_TRY(make_step(t, err));
    orr_train_remove_rows(t, false);
    if (o->init != NULL && !o->resume) {
        ORR_TRY(orr_train_read_weights(t, o->init, err));
        ORR_TRY(orr_engine_step_weights_changed(t->step, err));
    }
    ORR_TRY(t->training->task->open(t, err));
    return open_checkpoints(t, from, err);
}

static orr_status begin(orr_trainer *t, orr_error *err)
{
    orr_checkpoint *from;
    t->resident_bytes = orr_resident_bytes();
    orr_resident_mark();
    ORR_TRY(open_latest(t, &from, err));
    const orr_status status = begin_from(t, from, err);
    orr_checkpoint_close(from);
    ORR_TRY(status);
    orr_train_rows restored[ORR_TIERS]; /* which belongs to no step */
    if (t->rows.there)
        ORR_TRY(orr_train_count_rows(t, restored, err));
    ORR_TRY(orr_train_open_routes(t, err));
    return orr_train_open_recorder(t, err);
}

/* What ranks agree on before each step. */
typedef struct rank_status {
    int64_t stop, written, latest; /* latest: checkpoint that rank 0 has committed */
} rank_status;

static orr_status exchange_rank_status(orr_trainer *t, rank_status *ret, orr_error *err)
{
    const uint32_t n = t->transport->ranks;
    const orr_train_options *o = t->training->options;
    rank_status mine = {.stop = o->stopped != NULL && o->stopped(o->ctx),
                        .written =
                            t->checkpointer != NULL ? orr_checkpointer_written(t->checkpointer) : 0,
                        .latest = t->committed};
    *ret = mine;
    if (n == 1)
        return ORR_OK;
    rank_status *all = orr_malloc(n * sizeof *all);
    if (all == NULL)
        return orr_fail_memory(err);
    const orr_status status = orr_all_gather(orr_engine_step_world(t->step), &mine, all,
                                             sizeof mine / sizeof(int64_t), ORR_DTYPE_INT64, err);
    for (uint32_t r = 0; r < n && status == ORR_OK; r++) {
        ret->stop |= all[r].stop;
        ret->written = all[r].written < ret->written ? all[r].written : ret->written;
    }
    ret->latest = all[0].latest;
    orr_free(all);
    return status;
}

/* Commits a checkpoint that all ranks have written: it becomes the latest. */
static orr_status commit(orr_trainer *t, int64_t written, orr_error *err)
{
    if (written <= t->committed)
        return ORR_OK;
    t->committed = written;
    return t->transport->rank == 0 ? orr_checkpoint_commit(t->folder, written, err) : ORR_OK;
}

/* Rows of before the latest checkpoint are not needed any more. */
static void settle(orr_trainer *t, int64_t latest)
{
    if (latest <= t->settled)
        return;
    t->settled = latest;
    orr_checkpointer_settle(t->checkpointer, latest);
    orr_train_remove_older_rows(t);
}

orr_status orr_train_synchronize(orr_trainer *t, bool *ret_stop, orr_error *err)
{
    rank_status all;
    ORR_TRY(exchange_rank_status(t, &all, err));
    *ret_stop = all.stop;
    settle(t, all.latest);
    return commit(t, all.written, err);
}

/* All updates of a step; the reported result is the first one's. */
static orr_status update_all(orr_trainer *t, orr_update *update, int64_t step, bool records,
                             orr_step_result *ret, orr_error *err)
{
    const int64_t n = t->training->task->updates > 0 ? t->training->task->updates : 1;
    for (int64_t i = 0; i < n; i++) {
        orr_step_result r = {0};
        update->step = (step - 1) * n + i + 1;
        ORR_TRY(orr_engine_step_run(t->step, t->inputs, update, t->training->clip,
                                    records && i == 0 ? t->recorder : NULL, &r, err));
        *ret = i == 0 ? r : *ret;
    }
    return ORR_OK;
}

orr_update orr_train_update(const orr_trainer *t, int64_t step)
{
    orr_update update = t->training->update;
    update.rate = orr_learning_rate_at(&t->training->rate, step);
    update.step = step;
    return update;
}

orr_status orr_train_report_step(orr_trainer *t, orr_train_step *told, const orr_step_result *r,
                                 orr_error *err)
{
    orr_train_job *training = t->training;
    const orr_train_options *o = training->options;
    told->loss = r->loss;
    told->gradient_norm = r->gradient_norm;
    told->tokens = r->tokens;
    told->step_ns = r->step_ns;
    told->reward = told->kl = told->auc = NAN;
    if (training->task->evaluate != NULL)
        ORR_TRY(training->task->evaluate(t, r, told, err));
    if (t->rows.there && training->result.steps < o->steps) {
        orr_train_rows *rows = &training->rows[training->result.steps * ORR_TIERS];
        ORR_TRY(orr_train_count_rows(t, rows, err));
        told->rows = rows;
    }
    if (training->result.steps < o->steps)
        training->history[training->result.steps++] = *told;
    if (t->transport->rank == 0 && o->told != NULL)
        o->told(o->ctx, told);
    return ORR_OK;
}

/* A store commits a step when the one before it is settled: when that checkpoint is the latest, and
 * all ranks know it. */
static orr_status finish_before(orr_trainer *t, orr_error *err)
{
    bool stop; /* is asked again before the next step */
    if (!t->rows.committed[ORR_TIER_DRAM] || t->saved <= t->settled)
        return ORR_OK;
    ORR_TRY(orr_checkpointer_wait(t->checkpointer, err));
    ORR_TRY(orr_train_synchronize(t, &stop, err));
    return orr_train_synchronize(t, &stop, err);
}

orr_status orr_train_save(orr_trainer *t, bool last, orr_error *err)
{
    const int64_t every = t->training->options->save_every;
    const bool due = last || (every > 0 && t->last_step % every == 0);
    if (t->checkpointer == NULL || !orr_train_state_is_complete(t) || !t->data_positioned || !due ||
        t->saved >= t->last_step)
        return ORR_OK;
    ORR_TRY(finish_before(t, err));
    t->saved = t->last_step;
    return orr_checkpointer_save(t->checkpointer, t->last_step, &t->data, err);
}

static orr_status make_one(orr_trainer *t, int64_t step, orr_error *err)
{
    const uint64_t slot = t->data.n > 0 ? t->data.returned[0] : t->data.next;
    const bool records = orr_train_records(t, step);
    orr_update update = orr_train_update(t, step);
    orr_train_step told = {
        .step = step, .rate = update.rate, .contributors = 1, .slot = (int64_t)slot};
    orr_step_result r;
    const int64_t begin_ns = orr_clock_now_ns(&orr_clock_monotonic);
    ORR_TRY(t->training->task->feed(t, slot, err));
    if (records)
        orr_recorder_step(t->recorder, step);
    ORR_TRY(update_all(t, &update, step, records, &r, err));
    ORR_TRY(orr_train_record_routes(t, slot, err));
    if (t->training->task->updates > 0) /* the task makes its own data within the step */
        r.step_ns = orr_clock_now_ns(&orr_clock_monotonic) - begin_ns;
    if (records)
        orr_recorder_end(t->recorder);
    t->last_step = step;
    if (!orr_team_data_cursor_consume(&t->data, &slot, 1))
        return orr_fail(err, ORR_INVALID, "data of step %lld do not add up", (long long)step);
    return orr_train_report_step(t, &told, &r, err);
}

static orr_status make_all(orr_trainer *t, orr_error *err)
{
    orr_train_job *training = t->training;
    while (t->last_step < training->options->steps) {
        ORR_TRY(orr_train_synchronize(t, &training->result.stopped, err));
        if (training->result.stopped)
            break;
        ORR_TRY(make_one(t, t->last_step + 1, err));
        ORR_TRY(orr_train_save(t, false, err));
    }
    return orr_train_save(t, true, err);
}

static orr_status finish_checkpoints(orr_trainer *t, orr_error *err)
{
    bool stop;
    if (t->checkpointer == NULL)
        return ORR_OK;
    ORR_TRY(orr_checkpointer_wait(t->checkpointer, err));
    ORR_TRY(orr_train_synchronize(t, &stop, err));
    return orr_train_synchronize(t, &stop, err); /* now all know what is the latest */
}

/* Where the export fails, the run is in a checkpoint still. */
static orr_status export_weights(orr_trainer *t, orr_error *err)
{
    const orr_train_options *o = t->training->options;
    if (o->export_to == NULL || t->transport->rank != 0 || !orr_train_state_is_complete(t))
        return ORR_OK;
    const orr_status status = orr_train_export(t, t->folder, o->export_to, err);
    if (status == ORR_OK && o->save == NULL)
        orr_checkpoint_remove(t->folder);
    if (status != ORR_OK && o->save == NULL && err != NULL) {
        const orr_error why = *err;
        return orr_fail(err, status, "%s; the run is kept in %s", why.text, t->folder);
    }
    return status;
}

static int by_size(const void *a_, const void *b_)
{
    const int64_t a = *(const int64_t *)a_, b = *(const int64_t *)b_;
    return (a > b) - (a < b);
}

static int64_t median_ns(const orr_train_job *training)
{
    const int64_t all = training->result.steps, n = all > 1 ? all - 1 : all;
    int64_t *ns = orr_malloc((size_t)n * sizeof *ns + 1);
    if (ns == NULL || n == 0) {
        orr_free(ns);
        return 0;
    }
    for (int64_t i = 0; i < n; i++)
        ns[i] = training->history[all - n + i].step_ns;
    qsort(ns, (size_t)n, sizeof *ns, by_size);
    const int64_t median = n % 2 == 1 ? ns[n / 2] : (ns[n / 2 - 1] + ns[n / 2]) / 2;
    orr_free(ns);
    return median;
}

/* What this rank was going to hold. */
static int64_t planned_bytes(const orr_trainer *t)
{
    const orr_dlrm *d = &t->training->model->dlrm;
    return orr_engine_step_memory_of(t->step).total + orr_checkpointer_bytes(t->checkpointer) +
           (t->training->clicks != NULL
                ? orr_click_reader_bytes(&t->clicks, d, t->training->options->steps)
                : 0);
}

/* The maximum over ranks. */
static orr_status compare_memory(orr_trainer *t, orr_error *err)
{
    orr_train_result *r = &t->training->result;
    const int64_t most = orr_resident_most_bytes();
    const int64_t mine[2] = {planned_bytes(t), most >= 0 ? most - t->resident_bytes : -1};
    const uint32_t n = t->transport->ranks;
    int64_t *all = orr_malloc(2 * (size_t)n * sizeof *all);
    orr_status status = ORR_OK;
    if (all == NULL)
        return orr_fail_memory(err);
    memcpy(all, mine, sizeof mine);
    if (n > 1)
        status = orr_all_gather(orr_engine_step_world(t->step), mine, all, 2, ORR_DTYPE_INT64, err);
    for (uint32_t i = 0; i < n && status == ORR_OK; i++) {
        r->planned_bytes = all[2 * i] > r->planned_bytes ? all[2 * i] : r->planned_bytes;
        r->peak_bytes = all[2 * i + 1] > r->peak_bytes ? all[2 * i + 1] : r->peak_bytes;
    }
    orr_free(all);
    return status;
}

static orr_status finish(orr_trainer *t, orr_error *err)
{
    orr_train_job *training = t->training;
    orr_train_result *r = &training->result;
    r->history = training->history;
    if (r->steps > 0) {
        r->first_loss = training->history[0].loss;
        r->last_loss = training->history[r->steps - 1].loss;
    }
    r->step_ns = median_ns(training);
    ORR_TRY(orr_train_state_digest(t, &r->state_digest, err));
    ORR_TRY(finish_checkpoints(t, err)); /* before what may fail */
    ORR_TRY(compare_memory(t, err));
    ORR_TRY(orr_train_close_recorder(t, err));
    ORR_TRY(orr_train_write_routes(t, err));
    ORR_TRY(export_weights(t, err));
    if (t->rows.there)
        ORR_TRY(orr_train_total_rows(t, r, err)); /* all ranks are here: the export is complete */
    orr_train_remove_rows(t, true);
    return ORR_OK;
}

orr_status orr_train_rank(void *ctx, orr_transport *transport, orr_error *err)
{
    orr_trainer t = {.training = ctx,
                     .transport = transport,
                     .state_complete = true,
                     .data_positioned = true,
                     .arena = orr_arena_new(0, 0)};
    orr_status status = t.arena != NULL ? begin(&t, err) : orr_fail_memory(err);
    if (status == ORR_OK)
        status =
            t.training->options->team != NULL ? orr_train_run_replica(&t, err) : make_all(&t, err);
    orr_train_leave_team(&t);
    if (status == ORR_OK)
        status = finish(&t, err);
    orr_checkpointer_free(t.checkpointer);
    orr_recorder_free(t.recorder);
    orr_route_recorder_free(t.routes);
    orr_engine_step_free(t.step);
    orr_click_reader_done(&t.clicks);
    orr_workers_free(t.workers);
    orr_arena_free(t.arena);
    return status;
}
