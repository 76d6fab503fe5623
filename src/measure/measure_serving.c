/* SPDX-License-Identifier: Apache-2.0 */
/* Measures what a model's passes take when it is served: the engine's own passes of a generator
 * that is alone with all experts, over a few sizes; and messages between as many ranks as there
 * will be. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/clock.h"
#include "base/parallel_for.h"
#include "engine/generate/answer.h"
#include "engine/ranks/launch.h"
#include "measure/machine.h"
#include "measure/timing.h"

#define DEADLINE_NS INT64_C(600000000000)
#define LEAST_NS    40000000
enum { RUNS_LEAST = 5, RUNS_MOST = 64, SCRATCH_BYTES = 1 << 20 };

/* In memory that all processes share. */
typedef struct findings {
    orr_status status;
    orr_error err;
    orr_measured_serving serving;
} findings;

typedef struct serving_measuring {
    const orr_serving_job *job;
    orr_expert_placement all; /* experts on one rank */
    uint32_t ranks, at_once;
    int64_t longest; /* prompt */
    findings *found;
} serving_measuring;

typedef struct rank_measuring {
    serving_measuring *m;
    orr_generator *g;
    orr_arena *arena;
    orr_communicator *others; /* that measure at the same time */
    orr_token_candidate *candidates;
    void *rows, *sorted; /* shape (T, D), (T x K, D) */
    int32_t *choice;     /* shape (T, K) */
    uint32_t *zeros;     /* shape (T) */
    float *ones;         /* shape (T, K) */
    double new_ns;       /* the last point's first run beyond its median */
    uint32_t turn;       /* layers and experts take turns, so that weights come from memory */
} rank_measuring;

static int64_t now(void)
{
    return orr_clock_now_ns(&orr_clock_monotonic);
}

/* A size at which something is done; *ret_ns: how long it took. */
typedef orr_status timed_body(rank_measuring *r, int64_t size, int64_t cached, int64_t *ret_ns,
                              orr_error *err);

/* Adds the median of several runs to a curve. All ranks begin together. */
static orr_status add_point(rank_measuring *r, timed_body *body, int64_t size, int64_t cached,
                            orr_serving_curve *to, orr_error *err)
{
    int64_t ns[RUNS_MOST], first_ns, all = 0;
    uint32_t n = 0;
    double spread;
    if (to->n == ORR_SERVING_POINTS)
        return ORR_OK;
    ORR_TRY(body(r, size, cached, &first_ns, err)); /* programs are made */
    ORR_TRY(orr_barrier(r->others, err));
    while (n < RUNS_LEAST || (n < RUNS_MOST && all < LEAST_NS)) {
        ORR_TRY(body(r, size, cached, &ns[n], err));
        all += ns[n++];
    }
    to->at[to->n] = (double)size;
    to->ns[to->n++] = (double)orr_median_of(ns, n, &spread);
    r->new_ns = (double)first_ns - to->ns[to->n - 1];
    return ORR_OK;
}

/* Points at powers of a factor, and at the largest size. Factor 1: at 1, 2, 3, 4, 6, 8, 12, ... up
 * to 64, where tiles that are not full show, then at powers of 2. */
static orr_status add_curve(rank_measuring *r, timed_body *body, int64_t most, int64_t factor,
                            int64_t cached, orr_serving_curve *to, orr_error *err)
{
    for (int64_t size = 1; size < most;) {
        ORR_TRY(add_point(r, body, size, cached, to, err));
        const bool between = factor == 1 && size > 1 && size < 64;
        size = !between                   ? size * (factor > 1 ? factor : 2)
               : (size & (size - 1)) == 0 ? size / 2 * 3
                                          : size / 3 * 4;
    }
    return add_point(r, body, most, cached, to, err);
}

/* --- passes without experts ---------------------------------------------------------------------
 */

static orr_status pass(rank_measuring *r, const orr_forward_input *feed, int64_t *ret_ns,
                       orr_error *err)
{
    const int64_t began = now(), before = r->g->parallel->experts_ns;
    ORR_TRY(orr_generator_forward(r->g, feed, err));
    *ret_ns = now() - began - (r->g->parallel->experts_ns - before);
    return ORR_OK;
}

static orr_status decode(rank_measuring *r, int64_t samples, int64_t cached, int64_t *ret_ns,
                         orr_error *err)
{
    orr_generator *g = r->g;
    for (int64_t i = 0; i < samples; i++) {
        g->ids[i] = (i * 7919 + r->turn++) % g->model.vocab;
        g->first[i] = cached;
        g->request[i] = (uint32_t)i;
    }
    const orr_forward_input feed = {.samples = samples,
                                    .tokens = 1,
                                    .ids = g->ids,
                                    .first = g->first,
                                    .request = g->request,
                                    .phase = 'd'};
    return pass(r, &feed, ret_ns, err);
}

static orr_status prefill(rank_measuring *r, int64_t tokens, int64_t cached, int64_t *ret_ns,
                          orr_error *err)
{
    orr_generator *g = r->g;
    const uint32_t request = 0;
    for (int64_t i = 0; i < tokens; i++)
        g->ids[i] = (i * 7919 + r->turn++) % g->model.vocab;
    const orr_forward_input feed = {.samples = 1,
                                    .tokens = tokens,
                                    .ids = g->ids,
                                    .first = &cached,
                                    .request = &request,
                                    .phase = 'p'};
    return pass(r, &feed, ret_ns, err);
}

/* As orr_generator_answer() does it for each sequence. */
static orr_status sample(rank_measuring *r, int64_t rows, int64_t cached, int64_t *ret_ns,
                         orr_error *err)
{
    orr_generator *g = r->g;
    const orr_sampling greedy = {.most = 1};
    orr_random random = orr_random_of(1, 0);
    volatile double sum = 0;
    const int64_t began = now();
    (void)cached;
    ORR_TRY(orr_generator_logits(g, 0, 1, rows, err));
    for (int64_t i = 0; i < rows; i++) {
        const float *logits = g->logits + (size_t)i * g->model.vocab;
        const int32_t token =
            orr_sample_token(&greedy, &random, logits, g->model.vocab, r->candidates);
        sum = sum + orr_log_probability(logits, g->model.vocab, token) +
              (double)XXH3_64bits(logits, g->model.vocab * sizeof *logits);
    }
    *ret_ns = now() - began;
    return ORR_OK;
}

/* --- experts ------------------------------------------------------------------------------------
 */

/* A layer with `experts` experts of `rows` rows each. Ranks that measure at the same time have
 * experts of their own, as when they serve: none finds the other's in the caches. */
static orr_status run_experts(rank_measuring *r, uint32_t experts, int64_t rows, int64_t *ret_ns,
                              orr_error *err)
{
    orr_expert_parallel *x = r->g->parallel;
    const uint32_t top_k = r->g->model.moe.top_k, all = r->g->model.moe.experts,
                   share = all / r->others->n, layer = r->turn % x->placement->layers,
                   first = r->others->me * share +
                           (share > 0 ? r->turn / x->placement->layers * experts % share : 0);
    const orr_expert_tokens tokens = {.n = (uint32_t)(experts * rows / top_k),
                                      .rows = r->rows,
                                      .choice = r->choice,
                                      .score = r->ones,
                                      .request = r->zeros,
                                      .position = r->zeros};
    for (uint32_t i = 0; i < tokens.n * top_k; i++)
        r->choice[i] = (int32_t)((first + i % experts) % all);
    r->turn++;
    const int64_t began = now();
    ORR_TRY(orr_expert_exchange_dispatch(x->exchange, layer, &tokens, &x->arrived, err));
    ORR_TRY(orr_generator_run_experts(r->g, layer, err));
    ORR_TRY(orr_expert_exchange_combine(x->exchange, r->sorted, err));
    *ret_ns = now() - began;
    return ORR_OK;
}

/* Experts that are busy at once: a multiple of K, so that each has as many rows, of which a pass
 * has room for so many. */
static uint32_t busy(const rank_measuring *r, int64_t rows)
{
    const orr_moe *moe = &r->g->model.moe;
    uint32_t n = moe->experts >= 4 * moe->top_k ? 4 : moe->experts / moe->top_k;
    while (n > 1 && rows * n > orr_generator_rows(r->g))
        n--;
    return n * moe->top_k;
}

static orr_status experts(rank_measuring *r, int64_t rows, int64_t several, int64_t *ret_ns,
                          orr_error *err)
{
    return run_experts(r, several != 0 ? busy(r, rows) : r->g->model.moe.top_k, rows, ret_ns, err);
}

/* What a layer takes besides its experts: of K experts with a row, what is not in proportion to
 * them. */
static orr_status measure_experts(rank_measuring *r, orr_measured_serving *ret, orr_error *err)
{
    orr_serving_curve few = {0};
    const double k = r->g->model.moe.top_k, n = busy(r, 1);
    ORR_TRY(add_point(r, experts, 1, 0, &few, err));
    ORR_TRY(add_curve(r, experts, orr_generator_rows(r->g), 1, 1, &ret->expert, err));
    const double each = n > k ? (ret->expert.ns[0] - few.ns[0]) / (n - k) : few.ns[0] / k,
                 besides = few.ns[0] - k * each;
    ret->experts_ns = besides > 0 ? besides : 0;
    for (uint32_t i = 0; i < ret->expert.n; i++)
        ret->expert.ns[i] =
            (ret->expert.ns[i] - ret->experts_ns) / busy(r, (int64_t)ret->expert.at[i]);
    return ORR_OK;
}

static orr_status make_rows(rank_measuring *r, orr_error *err)
{
    const orr_generator *g = r->g;
    const size_t n = (size_t)orr_generator_rows(g), k = g->model.moe.top_k,
                 columns = (size_t)g->model.hidden * sizeof(float);
    r->rows = orr_arena_alloc(r->arena, n, columns, 64);
    r->sorted = orr_arena_alloc(r->arena, n * k, columns, 64);
    r->choice = orr_arena_array(r->arena, int32_t, n * k);
    r->zeros = orr_arena_array(r->arena, uint32_t, n);
    r->ones = orr_arena_array(r->arena, float, n *k);
    r->candidates = orr_arena_array(r->arena, orr_token_candidate, g->model.vocab);
    if (r->rows == NULL || r->sorted == NULL || r->choice == NULL || r->zeros == NULL ||
        r->ones == NULL || r->candidates == NULL)
        return orr_fail_memory(err);
    memset(r->rows, 0x3c, n * columns); /* about 0.01 in fp32 and bf16 */
    memset(r->zeros, 0, n * sizeof *r->zeros);
    for (size_t i = 0; i < n * k; i++)
        r->ones[i] = 1;
    return ORR_OK;
}

/* --- one rank -----------------------------------------------------------------------------------
 */

static orr_status measure_passes(rank_measuring *r, orr_measured_serving *ret, orr_error *err)
{
    const orr_generator *g = r->g;
    const int64_t batch = g->options.batch, chunk = r->m->longest < ORR_PREFILL_CHUNK_TOKENS
                                                        ? r->m->longest
                                                        : ORR_PREFILL_CHUNK_TOKENS;
    const int64_t last = g->capacity - 1, last_chunk = g->capacity - chunk;
    ret->decode_cached = (double)last;
    ret->prefill_cached = (double)last_chunk;
    ORR_TRY(add_curve(r, decode, batch, 2, 0, &ret->decode[0], err));
    ORR_TRY(add_curve(r, prefill, chunk, 4, 0, &ret->prefill[0], err));
    ret->new_ns = fmax(r->new_ns, 0);
    if (last > 0)
        ORR_TRY(add_curve(r, decode, batch, 2, last, &ret->decode[1], err));
    if (last_chunk > 0)
        ORR_TRY(add_curve(r, prefill, chunk, 4, last_chunk, &ret->prefill[1], err));
    ORR_TRY(add_curve(r, sample, batch < ORR_LM_HEAD_ROWS ? batch : ORR_LM_HEAD_ROWS, 4, 0,
                      &ret->head, err));
    ORR_TRY(make_rows(r, err));
    ORR_TRY(measure_experts(r, ret, err));
    const orr_expert_wire_format format = orr_expert_exchange_format(g->parallel->exchange);
    ret->row_bytes = format.row_bytes;
    ret->choice_bytes = format.choice_bytes;
    ret->result_bytes = format.result_bytes;
    return ORR_OK;
}

static orr_status meet(orr_transport *transport, orr_arena *arena, orr_communicator **ret,
                       orr_error *err)
{
    uint32_t *members = orr_arena_array(arena, uint32_t, transport->ranks);
    if (members == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < transport->ranks; i++)
        members[i] = i;
    return orr_communicator_make(transport, members, transport->ranks, 0, SCRATCH_BYTES, arena, ret,
                                 err);
}

/* Rank 0's figures count; the others keep the machine as busy as it will be. */
static orr_status measure_rank(void *ctx, orr_transport *transport, orr_error *err)
{
    serving_measuring *m = ctx;
    orr_generator_options options = *m->job->options;
    const orr_generator_rank rank = {.transport = orr_transport_self(), .placement = &m->all};
    rank_measuring r = {.m = m, .arena = orr_arena_new(0, 0)};
    orr_measured_serving made = {0};
    options.record = NULL;
    options.record_experts = false;
    options.threads = orr_generator_rank_threads(options.threads, m->ranks);
    orr_status status =
        r.arena != NULL ? meet(transport, r.arena, &r.others, err) : orr_fail_memory(err);
    if (status == ORR_OK)
        status = orr_generator_open_rank(&options, &rank, &r.g, err);
    if (status == ORR_OK)
        status = measure_passes(&r, &made, err);
    if (status == ORR_OK && transport->rank == 0)
        m->found->serving = made;
    orr_generator_close(r.g);
    orr_arena_free(r.arena);
    return status;
}

static orr_status measure_transfers(void *ctx, orr_transport *transport, orr_error *err)
{
    static const int64_t sizes[] = {8, 1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 22};
    const serving_measuring *m = ctx;
    orr_communicator *all;
    orr_serving_curve made = {0};
    orr_arena *arena = orr_arena_new(0, 0);
    orr_status status = arena != NULL ? meet(transport, arena, &all, err) : orr_fail_memory(err);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && status == ORR_OK; i++) {
        int64_t ns = 0;
        status = orr_time_transfer(all, ORR_COLL_SEND, sizes[i], &ns, err);
        made.at[made.n] = (double)sizes[i];
        made.ns[made.n++] = (double)ns;
    }
    if (status == ORR_OK && transport->rank == 0)
        m->found->serving.transfer = made;
    orr_arena_free(arena);
    return status;
}

static orr_status measure_all(serving_measuring *m, orr_error *err)
{
    ORR_TRY(orr_ranks_run(m->at_once, ORR_RANKS_SHM, DEADLINE_NS, measure_rank, m, err));
    if (m->ranks > 1)
        ORR_TRY(orr_ranks_run(m->ranks, ORR_RANKS_SHM, DEADLINE_NS, measure_transfers, m, err));
    return ORR_OK;
}

/* In a child, whose children the other ranks are: this process has no threads afterwards. */
static orr_status measure_apart(serving_measuring *m, orr_error *err)
{
    const pid_t child = fork();
    int how = 0;
    if (child < 0)
        return orr_fail(err, ORR_IO, "no process to measure in: %s", strerror(errno));
    if (child == 0) {
        m->found->status = measure_all(m, &m->found->err);
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

static orr_status check(const orr_serving_job *job, orr_error *err)
{
    if (job->options->model->moe.experts == 0)
        return orr_fail(err, ORR_UNSUPPORTED, "%s has no experts", job->options->model->name);
    if (job->ranks->routes != NULL || job->ranks->rebalance > 0)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "runs whose requests or experts move are not predicted");
    return ORR_OK;
}

orr_status orr_measure_serving(const orr_serving_job *job, orr_arena *arena,
                               orr_measured_serving *ret, orr_error *err)
{
    const orr_generator_ranks one = {.ranks = 1};
    serving_measuring m = {.job = job};
    ORR_TRY(check(job, err));
    m.ranks = job->ranks->placement != NULL ? job->ranks->placement->ranks : job->ranks->ranks;
    const int threads = orr_generator_rank_threads(job->options->threads, m.ranks);
    const double at_once = (double)orr_core_count() / threads;
    m.at_once = at_once < 1 ? 1 : m.ranks < at_once ? m.ranks : (uint32_t)at_once;
    for (uint32_t p = 0; p < job->n; p++)
        m.longest = (int64_t)job->prompts[p].n > m.longest ? (int64_t)job->prompts[p].n : m.longest;
    ORR_TRY(orr_generator_place(job->options->model, &one, arena, &m.all, err));
    m.found =
        mmap(NULL, sizeof *m.found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (m.found == MAP_FAILED)
        return orr_fail_memory(err);
    const orr_status status = measure_apart(&m, err);
    if (status == ORR_OK) {
        *ret = m.found->serving;
        ret->at_once = at_once < 1 ? 1 : at_once;
    }
    munmap(m.found, sizeof *m.found);
    return status;
}
