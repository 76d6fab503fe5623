/* SPDX-License-Identifier: Apache-2.0 */
/* Predicts a training step: the programs of all ranks, priced call by call from measurements and
 * simulated over lanes and ranks. */
#include <orrery/measure.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <string.h>

#include "base/parallel_for.h"
#include "engine/step/step.h"
#include "measure/embedding_tables.h"
#include "measure/price.h"
#include "measure/simulate_ranks.h"
#include "measure/step_calls.h"

typedef struct prediction {
    const orr_measured *measured;
    const orr_train_options *job;
    orr_plan plan;
    const orr_model *model;
    orr_arena *arena;
    orr_engine_step **steps; /* shape (ranks) */
    orr_simulated_rank *ranks;
    uint8_t **basis; /* shape (ranks)(calls) */
    uint32_t n;
    orr_kernel_pricer pricer;
    double oversubscription; /* threads for each core, at least 1 */
    orr_error *err;
} prediction;

/* Threads of a rank, as training shares out the cores. Prices use the nearest measured number. */
static void set_threads(prediction *e)
{
    const uint32_t cores = e->measured->cores > 0 ? e->measured->cores : 1;
    const uint32_t each = e->job->threads > 0 ? (uint32_t)e->job->threads
                          : cores / e->n > 0  ? cores / e->n
                                              : 1;
    uint32_t best = 1;
    for (uint32_t i = 0; i < e->measured->n_kernels; i++)
        if (e->measured->kernels[i].threads <= each && e->measured->kernels[i].threads > best)
            best = e->measured->kernels[i].threads;
    e->pricer = (orr_kernel_pricer){.measured = e->measured, .threads = best};
    e->oversubscription = (double)(each * e->n) / cores;
    e->oversubscription = e->oversubscription < 1 ? 1 : e->oversubscription;
}

static orr_status draft_rank(prediction *e, uint32_t rank)
{
    orr_transport *transport = orr_arena_one(e->arena, orr_transport);
    orr_backend *backend;
    if (transport == NULL)
        return orr_fail_memory(e->err);
    *transport = (orr_transport){.rank = rank, .ranks = e->n, .name = "none"};
    ORR_TRY(orr_backend_cpu(&backend, e->err));
    const orr_step_source source = {.model = e->model,
                                    .plan = &e->plan,
                                    .workload = e->job->workload,
                                    .transport = transport,
                                    .backend = backend,
                                    .tables = e->job->tables,
                                    .seed = e->job->seed};
    return orr_engine_step_make_unallocated(&source, &e->steps[rank], e->err);
}

/* Reuse distance: bytes touched since a value was last touched, in this step or the one before.
 * Values further back than the caches hold come from memory. */
typedef struct reuse_distances {
    double *last; /* shape (values): bytes touched up to the last use */
    double gone, all, cache;
} reuse_distances;

static double reuse_miss_bytes(reuse_distances *d, const orr_tape *tape, orr_value v)
{
    const orr_value root = tape->values[v].view_of == ORR_NONE ? v : tape->values[v].view_of;
    const double bytes = (double)orr_type_bytes(&tape->values[v].type);
    const double since = d->last[root] < 0 ? d->all : d->gone - d->last[root];
    d->gone += bytes;
    d->last[root] = d->gone;
    return since > d->cache ? bytes : 0;
}

static double all_bytes(const orr_tape *tape)
{
    double bytes = 0;
    for (uint32_t c = 0; c < tape->n_calls; c++)
        for (uint32_t k = 0; k < (uint32_t)tape->calls[c].n_in + tape->calls[c].n_out; k++) {
            const orr_tape_call *call = &tape->calls[c];
            const orr_value v = k < call->n_in ? call->in[k] : call->out[k - call->n_in];
            bytes += (double)orr_type_bytes(&tape->values[v].type);
        }
    return bytes;
}

/* Measured for this job, or from the machine's rates. */
static int64_t price_tables(const prediction *e, uint32_t rank, orr_table_work work, uint8_t *basis)
{
    const orr_measured_step *own = &e->measured->step;
    const orr_embedding_plan *plan = orr_engine_step_table_plan(e->steps[rank]);
    if (own->ranks == e->n)
        return own->table_ns[rank][work];
    const orr_table_load load = {.measured = e->measured,
                                 .threads = e->pricer.threads,
                                 .plan = plan,
                                 .samples = (int64_t)e->plan.micro_batch * e->plan.micro_batches,
                                 .rank = rank % plan->ranks};
    if (work != ORR_TABLE_WORK_SUM && work != ORR_TABLE_WORK_UPDATE)
        *basis = ORR_BASIS_ASSUMED;
    return orr_table_work_ns(&load, work);
}

static int64_t price_call(prediction *e, const orr_program_source *s, uint32_t rank, uint32_t c,
                          reuse_distances *d, uint8_t *basis)
{
    const orr_tape *tape = s->tape;
    const orr_tape_call *call = &tape->calls[c];
    double cold = 0;
    for (uint32_t k = 0; k < call->n_in; k++)
        cold += reuse_miss_bytes(d, tape, call->in[k]);
    for (uint32_t k = 0; k < call->n_out; k++)
        cold += reuse_miss_bytes(d, tape, call->out[k]);
    if (s->calls != NULL && s->calls[c].skip)
        return 0;
    const orr_table_work work =
        s->calls != NULL ? orr_table_work_of(&s->calls[c]) : ORR_TABLE_WORKS;
    const orr_collective collective = orr_collective_of_call(s, c);
    *basis = ORR_BASIS_TABLE;
    if (work != ORR_TABLE_WORKS)
        return price_tables(e, rank, work, basis) +
               (collective != ORR_COLL_UNKNOWN ? e->measured->step.meeting_ns : 0);
    if (collective != ORR_COLL_UNKNOWN)
        return e->measured->step.meeting_ns +
               orr_measured_collective_ns(e->measured, collective, call->args.members,
                                          orr_travelling_bytes(tape, c));
    const orr_measured_kernel *measured =
        orr_measured_call(e->measured->step.calls, e->measured->step.n_calls, tape, c);
    if (measured != NULL)
        return measured->ns;
    const orr_price price =
        orr_measured_price(&e->pricer, tape, c, cold, s->calls != NULL && s->calls[c].accumulate);
    *basis = price.basis;
    return (int64_t)(e->oversubscription * (double)price.ns);
}

static orr_status price_rank(prediction *e, uint32_t r)
{
    orr_simulated_rank *rank = &e->ranks[r];
    rank->source = orr_engine_step_program(e->steps[r]);
    const orr_tape *tape = rank->source.tape;
    int64_t *ns = orr_arena_array(e->arena, int64_t, tape->n_calls);
    reuse_distances d = {.last = orr_arena_array(e->arena, double, tape->n_values),
                         .all = all_bytes(tape),
                         .cache = (double)e->measured->cache_bytes /
                                  (e->n < e->measured->cores ? e->n : e->measured->cores)};
    rank->end_ns = orr_arena_array(e->arena, int64_t, tape->n_calls);
    e->basis[r] = orr_arena_array(e->arena, uint8_t, tape->n_calls);
    if (ns == NULL || d.last == NULL || rank->end_ns == NULL || e->basis[r] == NULL)
        return orr_fail_memory(e->err);
    for (orr_value v = 0; v < tape->n_values; v++)
        d.last[v] = -1;
    for (uint32_t c = 0; c < tape->n_calls; c++)
        ns[c] = price_call(e, &rank->source, r, c, &d, &e->basis[r][c]);
    rank->ns = ns;
    return ORR_OK;
}

static int by_ns(const void *a, const void *b)
{
    const orr_predicted_op *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns < y->ns ? 1 : -1;
    return x->op != y->op ? (x->op > y->op) - (x->op < y->op)
                          : (x->pass > y->pass) - (x->pass < y->pass);
}

static orr_status sum_ops(prediction *e, orr_predicted_step *ret)
{
    const orr_tape *tape = e->ranks[0].source.tape;
    orr_predicted_op *ops =
        orr_arena_array(e->arena, orr_predicted_op, (size_t)ORR_OPS * ORR_PASSES);
    uint32_t n = 0;
    if (ops == NULL)
        return orr_fail_memory(e->err);
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        const orr_tape_call *call = &tape->calls[c];
        uint32_t i = 0;
        while (i < n && (ops[i].op != call->op || ops[i].pass != call->pass))
            i++;
        if (i == n)
            ops[n++] = (orr_predicted_op){.name = orr_op_of((orr_op)call->op)->name,
                                          .op = call->op,
                                          .pass = call->pass,
                                          .basis = e->basis[0][c]};
        ops[i].calls++;
        ops[i].ns += e->ranks[0].ns[c];
    }
    qsort(ops, n, sizeof *ops, by_ns);
    ret->ops = ops;
    ret->n_ops = n;
    return ORR_OK;
}

static int64_t bytes_of_rank(const prediction *e, uint32_t r)
{
    const orr_embedding_plan *tables = orr_engine_step_table_plan(e->steps[r]);
    const orr_click_reader reader = {.samples =
                                         (int64_t)e->plan.micro_batch * e->plan.micro_batches,
                                     .kept = tables != NULL ? orr_tables_steps(tables) : 1};
    return orr_engine_step_memory_of(e->steps[r]).total + e->measured->step.rest_bytes +
           (e->model->kind == ORR_MODEL_DLRM
                ? orr_click_reader_bytes(&reader, &e->model->dlrm, e->job->steps)
                : 0);
}

static orr_status predict(prediction *e, orr_predicted_step *ret)
{
    for (uint32_t r = 0; r < e->n; r++) {
        ORR_TRY(draft_rank(e, r));
        ORR_TRY(price_rank(e, r));
        const int64_t bytes = bytes_of_rank(e, r);
        ret->peak_bytes = bytes > ret->peak_bytes ? bytes : ret->peak_bytes;
    }
    ORR_TRY(orr_simulate_ranks(&e->plan, e->ranks, e->n,
                               e->n * e->pricer.threads >= e->measured->cores, e->arena, e->err));
    for (uint32_t r = 0; r < e->n; r++)
        ret->step_ns = e->ranks[r].span_ns > ret->step_ns ? e->ranks[r].span_ns : ret->step_ns;
    return sum_ops(e, ret);
}

orr_status orr_predict_step(const orr_measured *measured, const orr_train_options *job,
                            orr_arena *arena, orr_predicted_step *ret, orr_error *err)
{
    prediction e = {.measured = measured, .job = job, .arena = arena, .err = err};
    orr_predicted_step made = {0};
    e.plan = orr_train_plan(job->model, job->plan);
    ORR_TRY(orr_plan_check(&e.plan, err));
    ORR_TRY(orr_model_override(job->model, &e.plan, arena, &e.model, err));
    const uint64_t n = orr_plan_ranks(&e.plan);
    if (n > 64)
        return orr_fail(err, ORR_LIMIT, "%llu ranks on this machine are not expected",
                        (unsigned long long)n);
    e.n = (uint32_t)n;
    e.steps = orr_arena_array(arena, orr_engine_step *, e.n);
    e.ranks = orr_arena_array(arena, orr_simulated_rank, e.n);
    e.basis = orr_arena_array(arena, uint8_t *, e.n);
    if (e.steps == NULL || e.ranks == NULL || e.basis == NULL)
        return orr_fail_memory(err);
    set_threads(&e);
    const orr_status status = predict(&e, &made);
    for (uint32_t r = 0; r < e.n; r++)
        orr_engine_step_free(e.steps[r]);
#ifdef __GLIBC__
    (void)malloc_trim(0); /* else a training that follows seems to take less memory */
#endif
    if (status == ORR_OK)
        *ret = made;
    return status;
}
