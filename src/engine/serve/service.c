/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/serve/service.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/serve/service_counts.h"
#include "io/json/writer.h"

typedef struct worker {
    orr_service *service;
    orr_score_thread *thread;
    pthread_t id;
    bool running;
    orr_ask ask;
    orr_array(char) values; /* a header, then numbers */
    orr_row_bags *bags;     /* shape (tables) */
    orr_error err;
} worker;

struct orr_service {
    orr_service_options options;
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    orr_service_request *queue; /* ring, shape (options.queue) */
    uint32_t first, waiting;    /* of the ring */
    uint32_t busy;              /* requests that threads work on */
    bool draining, ending;
    worker *workers;
    orr_service_counts counts;
};

static int64_t now(void)
{
    return orr_clock_now_ns(&orr_clock_monotonic);
}

/* Counted first: who has an answer finds it among the metrics. */
static void answer_with(worker *w, const orr_service_request *r, const orr_service_answer *answer)
{
    orr_service_counts *counts = &w->service->counts;
    orr_service_count(counts, w->ask.kind, answer->code, now() - r->came_ns);
    if (answer->code == 200)
        orr_service_count_work(counts, w->ask.samples, (int64_t)w->ask.ids.n);
    r->answer(r->ctx, answer);
}

/* A line of text, as JSON or after a header. */
static void refuse(worker *w, const orr_service_request *r, unsigned code, const char *text)
{
    char body[sizeof(orr_answer_header) + sizeof w->err.text + 64];
    orr_output *out = NULL;
    if (r->binary) {
        const size_t n = strlen(text);
        const orr_answer_header head = {.magic = ORR_ASK_MAGIC, .code = code, .bytes = n};
        memcpy(body, &head, sizeof head);
        memcpy(body + sizeof head, text, n);
        answer_with(w, r, &(orr_service_answer){code, true, body, sizeof head + n});
        return;
    }
    orr_service_answer answer = {.code = code};
    if (orr_output_open_memory(&out, NULL) == ORR_OK) {
        orr_json_writer json;
        orr_json_write_init(&json, out);
        orr_json_write_object(&json);
        orr_json_member_text(&json, "error", text);
        orr_json_write_object_end(&json);
        orr_output_text(out, "\n");
        if (orr_output_finish(out, NULL) == ORR_OK)
            answer.body = orr_output_memory(out, &answer.bytes);
    }
    answer_with(w, r, &answer);
    orr_output_close(out);
}

static orr_status compute(worker *w)
{
    const orr_dlrm *model = orr_scorer_model(w->service->options.scorer);
    const orr_answer_header head = orr_answer_header_of(&w->ask, model);
    const size_t bytes = sizeof head + (size_t)head.bytes;
    if (head.bytes / sizeof(float) > (uint64_t)w->service->options.limits.numbers)
        return orr_fail(&w->err, ORR_LIMIT, "an answer of %llu numbers, of %lld at most",
                        (unsigned long long)(head.bytes / sizeof(float)),
                        (long long)w->service->options.limits.numbers);
    w->values.n = 0;
    if (!orr_array_reserve(&w->values, bytes))
        return orr_fail_memory(&w->err);
    w->values.n = bytes;
    memcpy(w->values.at, &head, sizeof head);
    float *values = (float *)(void *)(w->values.at + sizeof head);
    if (w->ask.kind == ORR_ASK_BAGS) {
        orr_ask_bags(&w->ask, model, values, w->bags);
        return orr_score_bags(w->thread, w->bags, w->ask.n_lists, &w->err);
    }
    if (w->ask.kind == ORR_ASK_UPDATE)
        return orr_scorer_update(w->service->options.scorer, w->ask.table, w->ask.ids.at,
                                 (int64_t)w->ask.ids.n, w->ask.dense.at, &w->err);
    const orr_score_batch batch = {.samples = w->ask.samples,
                                   .dense = w->ask.dense.at,
                                   .lengths = w->ask.lengths.at,
                                   .ids = w->ask.ids.at};
    ORR_TRY(orr_score_logits(w->thread, &batch, values, &w->err));
    for (int64_t i = 0; i < batch.samples; i++)
        values[i] = orr_score_probability(values[i]);
    return ORR_OK;
}

static orr_status answer_json(worker *w, const orr_service_request *r)
{
    orr_output *out;
    orr_service_answer answer = {.code = 200};
    ORR_TRY(orr_output_open_memory(&out, &w->err));
    orr_answer_json(&w->ask, orr_scorer_model(w->service->options.scorer),
                    (const float *)(const void *)(w->values.at + sizeof(orr_answer_header)), out);
    const orr_status status = orr_output_finish(out, &w->err);
    if (status == ORR_OK) {
        answer.body = orr_output_memory(out, &answer.bytes);
        answer_with(w, r, &answer);
    }
    orr_output_close(out);
    return status;
}

static orr_status work_on(worker *w, const orr_service_request *r)
{
    const orr_service_options *o = &w->service->options;
    const orr_dlrm *model = orr_scorer_model(o->scorer);
    ORR_TRY(r->binary ? orr_ask_read_binary(r->body, r->bytes, model, &o->limits, &w->ask, &w->err)
                      : orr_ask_read_json((orr_ask_kind)r->kind, r->body, r->bytes, model,
                                          &o->limits, &w->ask, &w->err));
    ORR_TRY(compute(w));
    if (!r->binary)
        return answer_json(w, r);
    answer_with(w, r, &(orr_service_answer){200, true, w->values.at, w->values.n});
    return ORR_OK;
}

static void handle(worker *w, const orr_service_request *r)
{
    w->err = (orr_error){0};
    orr_ask_clear(&w->ask, (orr_ask_kind)r->kind);
    const orr_status status = work_on(w, r);
    if (status != ORR_OK)
        refuse(w, r, orr_answer_code(status), w->err.text);
}

static void *serve(void *ctx)
{
    worker *w = ctx;
    orr_service *s = w->service;
    (void)pthread_mutex_lock(&s->lock);
    for (;;) {
        while (s->waiting == 0 && !s->ending)
            (void)pthread_cond_wait(&s->work, &s->lock);
        if (s->waiting == 0)
            break;
        const orr_service_request r = s->queue[s->first];
        s->first = (s->first + 1) % s->options.queue;
        s->waiting--;
        s->busy++;
        (void)pthread_mutex_unlock(&s->lock);
        handle(w, &r);
        (void)pthread_mutex_lock(&s->lock);
        s->busy--;
        if (s->busy == 0 && s->waiting == 0)
            (void)pthread_cond_broadcast(&s->idle);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}

bool orr_service_submit(orr_service *s, const orr_service_request *request)
{
    (void)pthread_mutex_lock(&s->lock);
    const bool taken = !s->draining && s->waiting < s->options.queue;
    if (taken) {
        orr_service_request *r = &s->queue[(s->first + s->waiting) % s->options.queue];
        *r = *request;
        r->came_ns = now();
        s->waiting++;
        orr_service_count_taken(&s->counts);
        (void)pthread_cond_signal(&s->work);
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (!taken)
        orr_service_count(&s->counts, request->kind, 503, 0);
    return taken;
}

void orr_service_drain(orr_service *s)
{
    (void)pthread_mutex_lock(&s->lock);
    s->draining = true;
    while (s->busy > 0 || s->waiting > 0)
        (void)pthread_cond_wait(&s->idle, &s->lock);
    (void)pthread_mutex_unlock(&s->lock);
}

/* Threads of a service hear no signals: they are for the program. */
static orr_status start(worker *w, orr_error *err)
{
    sigset_t all, before;
    w->bags = orr_calloc((size_t)orr_scorer_model(w->service->options.scorer)->n_tables + 1,
                         sizeof *w->bags);
    if (w->bags == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_score_thread_open(w->service->options.scorer, &w->thread, err));
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int why = pthread_create(&w->id, NULL, serve, w);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    w->running = why == 0;
    return why == 0 ? ORR_OK
                    : orr_fail(err, ORR_NO_MEMORY, "no thread can be started: %s", strerror(why));
}

orr_status orr_service_open(const orr_service_options *options, orr_service **ret, orr_error *err)
{
    orr_service *s = orr_calloc(1, sizeof *s);
    if (s == NULL)
        return orr_fail_memory(err);
    s->options = *options;
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->work, NULL);
    (void)pthread_cond_init(&s->idle, NULL);
    s->queue = orr_calloc(options->queue, sizeof *s->queue);
    s->workers = orr_calloc(options->threads, sizeof *s->workers);
    orr_status status = s->queue != NULL && s->workers != NULL ? ORR_OK : orr_fail_memory(err);
    for (uint32_t i = 0; i < options->threads && status == ORR_OK; i++) {
        s->workers[i].service = s;
        status = start(&s->workers[i], err);
    }
    if (status == ORR_OK)
        *ret = s;
    else
        orr_service_close(s);
    return status;
}

void orr_service_close(orr_service *s)
{
    if (s == NULL)
        return;
    (void)pthread_mutex_lock(&s->lock);
    s->draining = s->ending = true;
    (void)pthread_cond_broadcast(&s->work);
    (void)pthread_mutex_unlock(&s->lock);
    for (uint32_t i = 0; s->workers != NULL && i < s->options.threads; i++) {
        worker *w = &s->workers[i];
        if (w->running)
            (void)pthread_join(w->id, NULL);
        orr_score_thread_close(w->thread);
        orr_ask_done(&w->ask);
        orr_array_done(&w->values);
        orr_free(w->bags);
    }
    orr_free(s->workers);
    orr_free(s->queue);
    (void)pthread_cond_destroy(&s->work);
    (void)pthread_cond_destroy(&s->idle);
    (void)pthread_mutex_destroy(&s->lock);
    orr_free(s);
}

uint64_t orr_service_answered(const orr_service *s)
{
    return orr_service_counts_answered(&s->counts);
}

void orr_service_metrics(orr_service *s, orr_output *out)
{
    (void)pthread_mutex_lock(&s->lock);
    const uint32_t waiting = s->waiting, busy = s->busy;
    (void)pthread_mutex_unlock(&s->lock);
    orr_service_counts_write(&s->counts, waiting, busy, out);
    orr_scorer_metrics(s->options.scorer, out);
}
