/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/serve/load.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/serve/client.h"

#define SECOND_NS 1e9
#define GRACE_NS  INT64_C(5000000000)
#define SILENT_NS INT64_C(60000000000)

orr_arrivals orr_arrivals_of(double rate, uint64_t seed)
{
    return (orr_arrivals){.random = orr_random_of(seed, 0x6c6f6164), .rate = rate};
}

/* Times between arrivals of a Poisson process are exponential. */
int64_t orr_arrivals_next(orr_arrivals *a)
{
    a->at_ns += -log1p(-orr_random_unit(&a->random)) / a->rate * SECOND_NS;
    return (int64_t)a->at_ns;
}

static int by_size(const void *a_, const void *b_)
{
    const int64_t a = *(const int64_t *)a_, b = *(const int64_t *)b_;
    return (a > b) - (a < b);
}

static int64_t quantile(const int64_t *sorted, size_t n, double share)
{
    const size_t rank = (size_t)ceil(share * (double)n);
    return n > 0 ? sorted[rank > 0 ? rank - 1 : 0] : 0;
}

void orr_load_summarize(int64_t *latencies, size_t n, orr_load_result *ret)
{
    double sum = 0;
    if (n > 0)
        qsort(latencies, n, sizeof *latencies, by_size);
    for (size_t i = 0; i < n; i++)
        sum += (double)latencies[i];
    ret->mean_ns = n > 0 ? (int64_t)(sum / (double)n) : 0;
    ret->p50_ns = quantile(latencies, n, 0.5);
    ret->p99_ns = quantile(latencies, n, 0.99);
    ret->p999_ns = quantile(latencies, n, 0.999);
    ret->most_ns = quantile(latencies, n, 1);
}

typedef struct load load;
typedef struct asker {
    load *all;
    orr_score_thread *thread; /* NULL: a server is asked */
    orr_serve_client *client; /* or NULL */
    uint64_t refused;
    bool no_memory;
    pthread_t id;
    bool running;
    orr_click_batch clicks;
    float *logits;
    orr_array(int64_t) latencies;
    int64_t last_ns;
    orr_status status;
    orr_error err;
} asker;

struct load {
    const orr_load_options *o;
    pthread_mutex_t lock; /* of the schedule */
    orr_arrivals arrivals;
    uint64_t next, missed;
    int64_t began_ns;
    bool over;
    asker *askers;
};

static int64_t now(void)
{
    return orr_clock_now_ns(&orr_clock_monotonic);
}

/* Counts the arrivals that are left. */
static void miss_all(load *l)
{
    l->missed = 1;
    while (l->next < l->o->count && orr_arrivals_next(&l->arrivals) < l->o->for_ns) {
        l->next++;
        l->missed++;
    }
    l->over = true;
}

/* The next arrival; false: there is none. */
static bool take(load *l, uint64_t *ret_number, int64_t *ret_at_ns)
{
    (void)pthread_mutex_lock(&l->lock);
    const bool stopped = l->o->stopped != NULL && l->o->stopped(l->o->ctx);
    if (!l->over && !stopped && l->next < l->o->count) {
        *ret_number = l->next++;
        const int64_t at = orr_arrivals_next(&l->arrivals);
        l->over = l->o->for_ns > 0 && at >= l->o->for_ns;
        *ret_at_ns = l->began_ns + at;
        if (l->o->for_ns > 0 && now() - l->began_ns > 2 * l->o->for_ns + GRACE_NS)
            miss_all(l);
    } else {
        l->over = true;
    }
    const bool taken = !l->over;
    (void)pthread_mutex_unlock(&l->lock);
    return taken;
}

static void sleep_until(int64_t at_ns)
{
    const struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        continue;
}

/* A server's answer; questions have their arrival as their number. */
static void answered(void *ctx, uint64_t number, const orr_answer_header *head, const void *body)
{
    asker *a = ctx;
    (void)body;
    a->last_ns = now();
    if (head->code != 200)
        a->refused++;
    else if (!orr_array_push(&a->latencies, a->last_ns - (int64_t)number))
        a->no_memory = true;
}

/* Answers are taken until the arrival, and nobody waits for this one's. */
static orr_status ask_server(asker *a, const orr_score_batch *batch, int64_t at_ns)
{
    do {
        ORR_TRY(orr_serve_client_poll(a->client, at_ns, &a->err));
    } while (now() < at_ns);
    ORR_TRY(orr_serve_client_ask(a->client, (uint64_t)at_ns, batch, &a->err));
    return a->no_memory ? orr_fail_memory(&a->err) : ORR_OK;
}

/* The answers that are left. */
static orr_status await(asker *a)
{
    int64_t until = now() + SILENT_NS;
    for (uint64_t left; (left = orr_serve_client_waiting(a->client)) > 0;) {
        if (now() > until)
            return orr_fail(&a->err, ORR_IO, "%s: %llu requests are not answered in a minute",
                            a->all->o->address, (unsigned long long)left);
        ORR_TRY(orr_serve_client_poll(a->client, until, &a->err));
        if (orr_serve_client_waiting(a->client) < left)
            until = now() + SILENT_NS;
    }
    return a->no_memory ? orr_fail_memory(&a->err) : ORR_OK;
}

static orr_status ask_once(asker *a, uint64_t number, int64_t at_ns)
{
    const orr_load_options *o = a->all->o;
    ORR_TRY(orr_click_data_read(o->clicks, number * (uint64_t)o->samples, o->samples, &a->clicks,
                                &a->err));
    const orr_score_batch batch = {.samples = o->samples,
                                   .dense = a->clicks.dense.at,
                                   .lengths = a->clicks.lengths.at,
                                   .ids = a->clicks.ids.at};
    if (a->client != NULL)
        return ask_server(a, &batch, at_ns);
    sleep_until(at_ns);
    ORR_TRY(orr_score_logits(a->thread, &batch, a->logits, &a->err));
    for (int64_t i = 0; i < o->samples; i++)
        a->logits[i] = orr_score_probability(a->logits[i]);
    a->last_ns = now();
    return orr_array_push(&a->latencies, a->last_ns - at_ns) ? ORR_OK : orr_fail_memory(&a->err);
}

static void *ask(void *ctx)
{
    asker *a = ctx;
    uint64_t number;
    int64_t at_ns;
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* else sleep is 50 us too long */
    while (a->status == ORR_OK && take(a->all, &number, &at_ns))
        a->status = ask_once(a, number, at_ns);
    if (a->status == ORR_OK && a->client != NULL)
        a->status = await(a);
    return NULL;
}

/* Programs are made, and pages touched, before the first arrival. */
static orr_status prepare(asker *a)
{
    const orr_load_options *o = a->all->o;
    a->logits = orr_calloc((size_t)o->samples, sizeof *a->logits);
    if (a->logits == NULL)
        return orr_fail_memory(&a->err);
    const orr_serve_client_options client = {
        .address = o->address, .model = o->model, .answered = answered, .ctx = a};
    ORR_TRY(o->address != NULL ? orr_serve_client_open(&client, &a->client, &a->err)
                               : orr_score_thread_open(o->scorer, &a->thread, &a->err));
    ORR_TRY(orr_click_data_read(o->clicks, 0, o->samples, &a->clicks, &a->err));
    const orr_score_batch batch = {.samples = o->samples,
                                   .dense = a->clicks.dense.at,
                                   .lengths = a->clicks.lengths.at,
                                   .ids = a->clicks.ids.at};
    return a->client != NULL ? orr_serve_client_score(a->client, &batch, a->logits, &a->err)
                             : orr_score_logits(a->thread, &batch, a->logits, &a->err);
}

static orr_status start(load *l, orr_error *err)
{
    orr_status status = ORR_OK;
    for (uint32_t i = 0; i < l->o->threads && status == ORR_OK; i++) {
        l->askers[i].all = l;
        status = prepare(&l->askers[i]);
        if (status != ORR_OK && err != NULL)
            *err = l->askers[i].err;
    }
    l->began_ns = now();
    for (uint32_t i = 0; i < l->o->threads && status == ORR_OK; i++) {
        asker *a = &l->askers[i];
        const int why = pthread_create(&a->id, NULL, ask, a);
        a->running = why == 0;
        if (why != 0)
            status = orr_fail(err, ORR_NO_MEMORY, "no thread can be started: %s", strerror(why));
    }
    if (status != ORR_OK) {
        (void)pthread_mutex_lock(&l->lock);
        l->over = true;
        (void)pthread_mutex_unlock(&l->lock);
    }
    return status;
}

static orr_status gather(load *l, orr_load_result *ret, orr_error *err)
{
    orr_array(int64_t) all = {0};
    orr_load_result r = {0};
    int64_t last = l->began_ns;
    for (uint32_t i = 0; i < l->o->threads; i++) {
        const asker *a = &l->askers[i];
        if (!orr_array_reserve(&all, a->latencies.n + 1)) {
            orr_array_done(&all);
            return orr_fail_memory(err);
        }
        if (a->latencies.n > 0)
            memcpy(all.at + all.n, a->latencies.at, a->latencies.n * sizeof *all.at);
        all.n += a->latencies.n;
        last = a->last_ns > last ? a->last_ns : last;
        r.refused += a->refused;
    }
    orr_load_summarize(all.at, all.n, &r);
    r.answered = all.n;
    r.missed = l->missed;
    r.samples = all.n * (uint64_t)l->o->samples;
    r.ns = last - l->began_ns;
    r.rate = r.ns > 0 ? (double)all.n * SECOND_NS / (double)r.ns : 0;
    orr_array_done(&all);
    *ret = r;
    return ORR_OK;
}

orr_status orr_load_run(const orr_load_options *o, orr_load_result *ret, orr_error *err)
{
    load l = {.o = o, .arrivals = orr_arrivals_of(o->rate, o->seed)};
    if (!(o->rate > 0) || o->samples < 1 || o->threads < 1)
        return orr_fail(err, ORR_INVALID, "a load of no requests");
    if (o->count > ORR_LOAD_MAX)
        return orr_fail(err, ORR_LIMIT, "%llu requests, of %d at most",
                        (unsigned long long)o->count, ORR_LOAD_MAX);
    l.askers = orr_calloc(o->threads, sizeof *l.askers);
    if (l.askers == NULL)
        return orr_fail_memory(err);
    (void)pthread_mutex_init(&l.lock, NULL);
    orr_status status = start(&l, err);
    for (uint32_t i = 0; i < o->threads; i++)
        if (l.askers[i].running)
            (void)pthread_join(l.askers[i].id, NULL);
    for (uint32_t i = 0; i < o->threads && status == ORR_OK; i++) {
        status = l.askers[i].status;
        if (status != ORR_OK && err != NULL)
            *err = l.askers[i].err;
    }
    if (status == ORR_OK)
        status = gather(&l, ret, err);
    for (uint32_t i = 0; i < o->threads; i++) {
        orr_score_thread_close(l.askers[i].thread);
        orr_serve_client_close(l.askers[i].client);
        orr_click_batch_done(&l.askers[i].clicks);
        orr_array_done(&l.askers[i].latencies);
        orr_free(l.askers[i].logits);
    }
    orr_free(l.askers);
    (void)pthread_mutex_destroy(&l.lock);
    return status;
}
