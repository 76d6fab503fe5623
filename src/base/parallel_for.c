/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parallel_for.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/alloc.h"

typedef struct work {
    size_t count;
    orr_status (*body)(void *ctx, size_t index, orr_error *err);
    void *ctx;
    _Atomic size_t next;
    atomic_bool stop;

    pthread_mutex_t lock; /* guards the rest */
    size_t failed_index;
    orr_status status;
    orr_error *err;
} work;

static void remember_failure(work *w, size_t index, orr_status status, const orr_error *err)
{
    atomic_store(&w->stop, true);
    pthread_mutex_lock(&w->lock);
    if (w->status == ORR_OK || index < w->failed_index) {
        w->status = status;
        w->failed_index = index;
        if (w->err != NULL)
            *w->err = *err;
    }
    pthread_mutex_unlock(&w->lock);
}

/* Numbers are taken in order: when i fails, all below i have been started and will be
 * finished, so that the lowest failure is the same for any number of threads. */
static void *run(void *arg)
{
    work *w = arg;
    while (!atomic_load(&w->stop)) {
        const size_t index = atomic_fetch_add(&w->next, 1);
        if (index >= w->count)
            break;
        orr_error err = {.byte_pos = UINT64_MAX};
        const orr_status status = w->body(w->ctx, index, &err);
        if (status != ORR_OK)
            remember_failure(w, index, status, &err);
    }
    return NULL;
}

int orr_core_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        const int allowed = CPU_COUNT(&set);
        if (allowed > 0)
            return allowed;
    }
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && online < 1 << 16 ? (int)online : 1;
}

orr_status orr_parallel_for(size_t count, int threads,
                            orr_status (*body)(void *ctx, size_t index, orr_error *err), void *ctx,
                            orr_error *err)
{
    work w = {.count = count, .body = body, .ctx = ctx, .status = ORR_OK, .err = err};
    pthread_mutex_init(&w.lock, NULL);

    size_t wanted = threads > 0 ? (size_t)threads : (size_t)orr_core_count();
    if (wanted > count)
        wanted = count;
    size_t started = 0;
    pthread_t *helpers = wanted > 1 ? orr_calloc(wanted - 1, sizeof *helpers) : NULL;
    while (helpers != NULL && started < wanted - 1) {
        if (pthread_create(&helpers[started], NULL, run, &w) != 0)
            break;
        started++;
    }
    run(&w);
    for (size_t i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);

    orr_free(helpers);
    pthread_mutex_destroy(&w.lock);
    return w.status;
}
