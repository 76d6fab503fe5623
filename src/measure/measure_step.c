/* SPDX-License-Identifier: Apache-2.0 */
/* What a step of a recommendation model is made of, measured on as many ranks as it has: all at
 * once, as they share caches and memory when they train; in processes of their own, so that the one
 * that trains later begins with no more memory than without a measurement. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parallel_for.h"
#include "base/sum.h"
#include "base/workers.h"
#include "engine/ranks/launch.h"
#include "engine/step/step.h"
#include "engine/train/trainer.h"
#include "measure/embedding_tables.h"
#include "measure/machine.h"
#include "measure/price.h"
#include "measure/step_calls.h"

#define DEADLINE_NS   INT64_C(600000000000)
#define LEAST_CALL_NS 20000000
enum {
    RANKS_MAX = 64,
    SUMS = 3,
    SUM_RUNS = 64,
    PIECE = 1 << 15,
    MICRO_BATCHES_MOST = 4, /* of a round */
    CALL_RUNS = 9,
    TRANSFERS_MAX = 32,
    CALLS_MAX = 4096,
    SCRATCH_BYTES = 1 << 20
};

/* In memory that all processes share. */
typedef struct findings {
    orr_status status;
    orr_error err;
    uint32_t n_calls, n_transfers;
    orr_measured_kernel calls[CALLS_MAX]; /* of rank 0, as transfers */
    orr_measured_collective transfers[TRANSFERS_MAX];
    int64_t table_ns[RANKS_MAX][ORR_TABLE_WORKS];
    int64_t rest_bytes[RANKS_MAX], meeting_ns[RANKS_MAX];
} findings;

typedef struct step_measuring {
    const orr_train_options *job;
    const orr_measured *machine;
    orr_plan plan; /* completed */
    const orr_model *model;
    orr_embedding_plan tables;
    orr_click_data *clicks;
    orr_engine_step *step; /* unallocated, of rank 0: what its program has */
    orr_arena *arena;      /* of the result */
    int64_t shared_bytes;  /* of the process that will be rank 0 of the training */
    int64_t draft_bytes;   /* that the description of a step takes in it: tapes, code */
    findings *found;
} step_measuring;

typedef struct rank_measuring {
    step_measuring *m;
    orr_transport *transport;
    orr_communicator *world, *gradients; /* NULL: one rank */
    orr_timing timing;
    orr_module module;
    orr_module_timing *calls;
    float *sums; /* shape (SUMS, sum_n) */
    int64_t sum_n;
    uint32_t rounds, n_sum_ns;
    int64_t sum_ns[SUM_RUNS]; /* of the last times that two were added */
    orr_arena *arena;
} rank_measuring;

static int64_t samples_of(const step_measuring *m)
{
    return (int64_t)m->plan.micro_batch * m->plan.micro_batches;
}

/* The module that a recommendation model is. */
static orr_status open_module(rank_measuring *r, orr_error *err)
{
    step_measuring *m = r->m;
    orr_module_sequence row;
    orr_workload workload = *m->job->workload;
    workload.real = true;
    ORR_TRY(orr_modules_build(m->model, &m->plan, &workload, r->arena, &row, err));
    ORR_TRY(orr_module_specialize(&row.modules[row.module_of[0]], &m->plan, r->transport->rank,
                                  r->arena, &r->module, err));
    return orr_module_timing_open(&r->timing, &r->module, &r->calls, err);
}

/* Gradients of blocks of samples, which a step adds up after each: what that leaves in the caches,
 * the next block finds there. */
static orr_status make_sums(rank_measuring *r, orr_error *err)
{
    const orr_tape *tape = r->module.tape;
    for (orr_value v = 0; v < tape->n_values; v++)
        if (tape->values[v].role == ORR_VALUE_PARAMETER_GRADIENT)
            r->sum_n += orr_type_elements(&tape->values[v].type);
    r->sums = orr_arena_array(r->arena, float, (size_t)r->sum_n *SUMS);
    return r->sums != NULL ? ORR_OK : orr_fail_memory(err);
}

static void add_piece(void *ctx, size_t piece, int thread)
{
    const rank_measuring *r = ctx;
    const int64_t at = (int64_t)piece * PIECE, left = r->sum_n - at;
    float *to = r->sums + (r->rounds % SUMS) * r->sum_n + at;
    const float *from = r->sums + ((r->rounds + 1) % SUMS) * r->sum_n + at;
    (void)thread;
    orr_sum_pair(ORR_DTYPE_FP32, to, to, from, (size_t)(left < PIECE ? left : PIECE));
}

static orr_status run_module(void *ctx, orr_error *err)
{
    rank_measuring *r = ctx;
    const uint32_t n = r->m->plan.micro_batches;
    for (uint32_t i = 0; i < n && i < MICRO_BATCHES_MOST; i++, r->rounds++) {
        ORR_TRY(orr_module_timing_run(r->calls, err));
        if (n == 1)
            continue;
        const int64_t began = orr_clock_now_ns(&orr_clock_monotonic);
        orr_workers_run(r->timing.workers, (size_t)((r->sum_n + PIECE - 1) / PIECE), add_piece, r);
        r->sum_ns[r->n_sum_ns++ % SUM_RUNS] = orr_clock_now_ns(&orr_clock_monotonic) - began;
    }
    return ORR_OK;
}

/* Sums of gradients, by their bytes. */
static orr_status list_sums(rank_measuring *r, const orr_program_source *p,
                            orr_measured_calls *calls, orr_error *err)
{
    const uint32_t n = r->n_sum_ns < SUM_RUNS ? r->n_sum_ns : SUM_RUNS;
    double spread;
    if (n == 0 || r->sum_n == 0)
        return ORR_OK;
    const double ns = (double)orr_median_of(r->sum_ns, n, &spread),
                 bytes = 3 * (double)r->sum_n * sizeof(float);
    for (uint32_t c = 0; c < p->tape->n_calls; c++) {
        orr_measured_kernel sum = orr_kernel_of_call(p->tape, c);
        if (sum.op != ORR_OP_ADD || p->tape->calls[c].pass != ORR_PASS_WEIGHT ||
            orr_measured_call(calls->at, (uint32_t)calls->n, p->tape, c) != NULL)
            continue;
        sum.ns = (int64_t)(ns * sum.bytes / bytes);
        sum.threads = r->timing.threads;
        if (!orr_array_push(calls, sum))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

static orr_status list_calls(rank_measuring *r, orr_measured_calls *calls, orr_error *err)
{
    const orr_program_source program = orr_engine_step_program(r->m->step);
    ORR_TRY(orr_module_timing_calls(r->calls, calls, err));
    ORR_TRY(list_sums(r, &program, calls, err));
    return orr_time_other_calls(&r->timing, &program, calls, err);
}

static orr_status keep_calls(const rank_measuring *r, const orr_measured_calls *calls,
                             orr_error *err)
{
    findings *found = r->m->found;
    if (calls->n > CALLS_MAX)
        return orr_fail(err, ORR_LIMIT, "a step of %zu kinds of calls", calls->n);
    if (r->transport->rank > 0)
        return ORR_OK;
    if (calls->n > 0)
        memcpy(found->calls, calls->at, calls->n * sizeof *calls->at);
    found->n_calls = (uint32_t)calls->n;
    return ORR_OK;
}

/* Transfers of all ranks that the program has beside those of tables. */
static orr_status time_transfers(rank_measuring *r, orr_error *err)
{
    step_measuring *m = r->m;
    const orr_program_source p = orr_engine_step_program(m->step);
    orr_measured_collective kept[TRANSFERS_MAX];
    uint32_t n = 0;
    for (uint32_t c = 0; c < p.tape->n_calls && n < TRANSFERS_MAX && r->world != NULL; c++) {
        const orr_collective kind = orr_collective_of_call(&p, c);
        const int64_t bytes = orr_travelling_bytes(p.tape, c);
        if (kind == ORR_COLL_UNKNOWN || p.tape->calls[c].args.members != r->world->n ||
            orr_table_work_of(&p.calls[c]) != ORR_TABLE_WORKS)
            continue;
        kept[n] = (orr_measured_collective){(uint8_t)kind, r->world->n, bytes, 0};
        ORR_TRY(orr_time_transfer(r->gradients, kind, bytes, &kept[n].ns, err));
        n++;
    }
    if (r->transport->rank > 0)
        return ORR_OK;
    memcpy(m->found->transfers, kept, n * sizeof *kept);
    m->found->n_transfers = n;
    return ORR_OK;
}

static orr_status time_rounds(rank_measuring *r, orr_error *err)
{
    step_measuring *m = r->m;
    const orr_table_job job = {.plan = &m->tables,
                               .clicks = m->clicks,
                               .samples = samples_of(m),
                               .seed = m->job->seed,
                               .transport = r->transport,
                               .world = r->world,
                               .workers = r->timing.workers,
                               .between = run_module,
                               .ctx = r};
    const uint32_t me = r->transport->rank;
    return orr_measure_table_work(&job, m->found->table_ns[me], &m->found->meeting_ns[me], err);
}

static orr_status meet(rank_measuring *r, orr_error *err)
{
    enum { CHANNEL_OF_GRADIENTS = 3 };
    const uint32_t n = r->transport->ranks;
    uint32_t *members = orr_arena_array(r->arena, uint32_t, n);
    if (members == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++)
        members[i] = i;
    if (n == 1)
        return ORR_OK;
    ORR_TRY(orr_communicator_make(r->transport, members, n, 0, SCRATCH_BYTES, r->arena, &r->world,
                                  err));
    return orr_communicator_make(r->transport, members, n, CHANNEL_OF_GRADIENTS, SCRATCH_BYTES,
                                 r->arena, &r->gradients, err);
}

static int threads_of(const step_measuring *m)
{
    const int each = orr_core_count() / (int)m->plan.dp;
    return m->job->threads > 0 ? m->job->threads : each > 1 ? each : 1;
}

static orr_status open_rank(rank_measuring *r, orr_error *err)
{
    r->arena = orr_arena_new(0, 0);
    r->timing.room = orr_arena_new(0, 0);
    if (r->arena == NULL || r->timing.room == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_backend_cpu(&r->timing.backend, err));
    ORR_TRY(orr_workers_new(threads_of(r->m), &r->timing.workers, err));
    r->timing.threads = (uint32_t)orr_workers_count(r->timing.workers);
    return meet(r, err);
}

static orr_status measure_rank(void *ctx, orr_transport *transport, orr_error *err)
{
    step_measuring *m = ctx;
    rank_measuring r = {.m = m,
                        .transport = transport,
                        .timing = {.cache_bytes = m->machine->cache_bytes,
                                   .least_ns = LEAST_CALL_NS,
                                   .least_runs = CALL_RUNS}};
    orr_measured_calls calls = {0};
    const int64_t shared_bytes =
        transport->rank == 0 ? m->shared_bytes : orr_resident_shared_bytes();
    orr_status status = open_rank(&r, err);
    if (status == ORR_OK && r.world != NULL)
        status = orr_barrier(r.world, err);
    if (status == ORR_OK)
        status = open_module(&r, err);
    if (status == ORR_OK)
        status = make_sums(&r, err);
    if (status == ORR_OK)
        status = time_rounds(&r, err);
    if (status == ORR_OK)
        status = time_transfers(&r, err);
    m->found->rest_bytes[transport->rank] = orr_resident_shared_bytes() - shared_bytes;
    if (status == ORR_OK)
        status = list_calls(&r, &calls, err);
    if (status == ORR_OK)
        status = keep_calls(&r, &calls, err);
    orr_module_timing_close(r.calls);
    orr_array_done(&calls);
    orr_workers_free(r.timing.workers);
    orr_arena_free(r.timing.room);
    orr_arena_free(r.arena);
    return status;
}

static orr_status open_step(step_measuring *m, orr_error *err)
{
    orr_transport *transport = orr_arena_one(m->arena, orr_transport);
    orr_backend *backend;
    const orr_dlrm *d = &m->model->dlrm;
    if (transport == NULL)
        return orr_fail_memory(err);
    *transport = (orr_transport){.ranks = m->plan.dp, .name = "none"};
    ORR_TRY(orr_backend_cpu(&backend, err));
    const orr_step_source source = {.model = m->model,
                                    .plan = &m->plan,
                                    .workload = m->job->workload,
                                    .transport = transport,
                                    .backend = backend,
                                    .tables = m->job->tables,
                                    .seed = m->job->seed};
    ORR_TRY(orr_engine_step_make_unallocated(&source, &m->step, err));
    m->tables = *orr_engine_step_table_plan(m->step);
    return orr_click_data_open(m->job->data, d, m->job->seed, &m->clicks, err);
}

/* Measures in a child, whose children the other ranks are. */
static orr_status measure_apart(step_measuring *m, orr_error *err)
{
    m->shared_bytes = orr_resident_shared_bytes();
    const pid_t child = fork();
    int how = 0;
    if (child < 0)
        return orr_fail(err, ORR_IO, "no process to measure in: %s", strerror(errno));
    if (child == 0) {
        m->found->status = orr_ranks_run((uint32_t)orr_plan_ranks(&m->plan), ORR_RANKS_SHM,
                                         DEADLINE_NS, measure_rank, m, &m->found->err);
        _exit(0);
    }
    while (waitpid(child, &how, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(how))
        return orr_fail(err, ORR_IO, "the process that measured was killed by signal %d",
                        WTERMSIG(how));
    if (m->found->status != ORR_OK && err != NULL)
        *err = m->found->err;
    return m->found->status;
}

static orr_status keep(const step_measuring *m, orr_measured_step *ret, orr_error *err)
{
    const findings *f = m->found;
    const uint32_t n = (uint32_t)orr_plan_ranks(&m->plan);
    orr_measured_kernel *calls = orr_arena_array(m->arena, orr_measured_kernel, f->n_calls);
    orr_measured_collective *transfers =
        orr_arena_array(m->arena, orr_measured_collective, f->n_transfers);
    int64_t(*table_ns)[ORR_TABLE_WORKS] =
        orr_arena_alloc(m->arena, n, sizeof *table_ns, _Alignof(int64_t));
    if (calls == NULL || transfers == NULL || table_ns == NULL)
        return orr_fail_memory(err);
    memcpy(calls, f->calls, f->n_calls * sizeof *calls);
    memcpy(transfers, f->transfers, f->n_transfers * sizeof *transfers);
    memcpy(table_ns, f->table_ns, n * sizeof *table_ns);
    *ret = (orr_measured_step){.ranks = n,
                               .calls = calls,
                               .n_calls = f->n_calls,
                               .transfers = transfers,
                               .n_transfers = f->n_transfers,
                               .table_ns = (const int64_t(*)[ORR_TABLE_WORKS])table_ns};
    for (uint32_t r = 0; r < n; r++) {
        const int64_t rest = f->rest_bytes[r] > 0 ? f->rest_bytes[r] : 0;
        ret->rest_bytes = rest > ret->rest_bytes ? rest : ret->rest_bytes;
        ret->meeting_ns += f->meeting_ns[r] / n;
    }
    ret->rest_bytes += m->draft_bytes > 0 ? m->draft_bytes : 0;
    return ORR_OK;
}

static orr_status measure_step(step_measuring *m, orr_measured_step *ret, orr_error *err)
{
    const int64_t before = orr_resident_bytes();
    orr_status status = orr_plan_ranks(&m->plan) <= RANKS_MAX
                            ? open_step(m, err)
                            : orr_fail(err, ORR_LIMIT, "%llu ranks are not measured here",
                                       (unsigned long long)orr_plan_ranks(&m->plan));
    m->draft_bytes = orr_resident_bytes() - before;
    if (status == ORR_OK)
        status = measure_apart(m, err);
    if (status == ORR_OK)
        status = keep(m, ret, err);
    orr_engine_step_free(m->step);
    orr_click_data_free(m->clicks);
    return status;
}

orr_status orr_measure_step(const orr_train_options *job, orr_arena *arena, orr_measured *measured,
                            orr_error *err)
{
    step_measuring m = {.job = job, .machine = measured, .arena = arena};
    if (job->model->kind != ORR_MODEL_DLRM)
        return ORR_OK;
    m.plan = orr_train_plan(job->model, job->plan);
    ORR_TRY(orr_plan_check(&m.plan, err));
    ORR_TRY(orr_model_override(job->model, &m.plan, arena, &m.model, err));
    m.found =
        mmap(NULL, sizeof *m.found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (m.found == MAP_FAILED)
        return orr_fail_memory(err);
    const orr_status status = measure_step(&m, &measured->step, err);
    munmap(m.found, sizeof *m.found);
    return status;
}
