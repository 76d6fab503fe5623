/* SPDX-License-Identifier: Apache-2.0 */
#include "base/workers.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/parallel_for.h"

enum { SPINS = 4000, THREADS_MAX = 1024 };

typedef struct worker {
    orr_workers *team;
    pthread_t thread;
    int number;
} worker;

struct orr_workers {
    int n; /* with the caller's */
    worker *others;
    void (*body)(void *ctx, size_t i, int thread);
    void *ctx;
    size_t count;
    _Alignas(64) atomic_size_t next; /* piece of work */
    _Alignas(64) atomic_uint round;  /* of work; a change wakes */
    _Alignas(64) atomic_int working; /* others that have not finished this round */
    atomic_int asleep;
    atomic_bool over;
    pthread_mutex_t lock;
    pthread_cond_t wake;
};

static void take_pieces(orr_workers *w, int thread)
{
    for (;;) {
        const size_t i = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed);
        if (i >= w->count)
            return;
        w->body(w->ctx, i, thread);
    }
}

static void await_round(orr_workers *w, unsigned seen)
{
    for (int spins = 0; spins < SPINS; spins++) {
        if (atomic_load_explicit(&w->round, memory_order_acquire) != seen)
            return;
        orr_cpu_relax();
    }
    pthread_mutex_lock(&w->lock);
    atomic_fetch_add(&w->asleep, 1);
    while (atomic_load(&w->round) == seen)
        pthread_cond_wait(&w->wake, &w->lock);
    atomic_fetch_sub(&w->asleep, 1);
    pthread_mutex_unlock(&w->lock);
}

static void *work(void *ctx)
{
    const worker *self = ctx;
    orr_workers *w = self->team;
    for (unsigned seen = 0;;) {
        await_round(w, seen);
        seen = atomic_load_explicit(&w->round, memory_order_acquire);
        if (atomic_load(&w->over))
            return NULL;
        take_pieces(w, self->number);
        atomic_fetch_sub_explicit(&w->working, 1, memory_order_release);
    }
}

/* A new round for those who spin and those who sleep. */
static void announce(orr_workers *w)
{
    atomic_fetch_add(&w->round, 1);
    if (atomic_load(&w->asleep) == 0)
        return;
    pthread_mutex_lock(&w->lock);
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

orr_status orr_workers_new(int threads, orr_workers **ret, orr_error *err)
{
    int n = threads > 0 ? threads : orr_core_count();
    n = n > THREADS_MAX ? THREADS_MAX : n;
    orr_workers *w = orr_malloc_aligned(sizeof *w);
    worker *others = orr_calloc((size_t)n, sizeof *others);
    if (w == NULL || others == NULL) {
        orr_free(w);
        orr_free(others);
        return orr_fail_memory(err);
    }
    *w = (orr_workers){.n = 1, .others = others};
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    for (int i = 1; i < n; i++) {
        others[i] = (worker){.team = w, .number = w->n};
        if (pthread_create(&others[i].thread, NULL, work, &others[i]) != 0)
            break;
        w->n++;
    }
    *ret = w;
    return ORR_OK;
}

void orr_workers_free(orr_workers *w)
{
    if (w == NULL)
        return;
    atomic_store(&w->over, true);
    announce(w);
    for (int i = 1; i < w->n; i++)
        pthread_join(w->others[i].thread, NULL);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->wake);
    orr_free(w->others);
    orr_free(w);
}

int orr_workers_count(const orr_workers *w)
{
    return w == NULL ? 1 : w->n;
}

void orr_workers_run(orr_workers *w, size_t count, void (*body)(void *ctx, size_t i, int thread),
                     void *ctx)
{
    if (w == NULL || w->n == 1 || count <= 1) {
        for (size_t i = 0; i < count; i++)
            body(ctx, i, 0);
        return;
    }
    w->body = body;
    w->ctx = ctx;
    w->count = count;
    atomic_store_explicit(&w->next, 0, memory_order_relaxed);
    atomic_store_explicit(&w->working, w->n - 1, memory_order_relaxed);
    announce(w);
    take_pieces(w, 0);
    for (int spins = 0; atomic_load_explicit(&w->working, memory_order_acquire) > 0; spins++)
        if (spins < SPINS)
            orr_cpu_relax();
        else
            sched_yield();
}
