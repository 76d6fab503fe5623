/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "naive_store.h"

/* Rows of a store against arrays, through batches that are announced ahead and change rows, in
 * caches that hardly hold them, with commits under way, after reopening at a commit; with both ways
 * of writing, with a thread and without. */

static void must(naive_store *s, orr_status status, const char *what, const orr_error *err)
{
    if (status != ORR_OK)
        seed_fail(s->seed, "%s: %s", what, err->text);
}

static void forget(naive_store *s, uint64_t batch)
{
    orr_store_forget(s->store, batch);
    s->next = batch;
}

/* Announces as many batches as the window and the cache allow. */
static void announce_some(naive_store *s)
{
    orr_error err;
    const uint64_t most = s->options.inline_io ? s->options.window : 1;
    while (s->next - s->first < most) {
        const orr_status status = naive_announce(s, &err);
        if (status == ORR_LIMIT) {
            forget(s, s->next - 1);
            if (s->next == s->first) /* a batch alone must fit these caches */
                seed_fail(s->seed, "announce: %s", err.text);
            return;
        }
        must(s, status, "announce", &err);
    }
}

static void finish_batches(naive_store *s)
{
    orr_error err;
    if (naive_below(s, 2) && s->next > s->first)
        forget(s, s->first + naive_below(s, s->next - s->first));
    while (s->first < s->next)
        must(s, naive_step(s, &err), "step", &err);
}

/* Closes it and opens it at the last commit, or at one before that is not settled. */
static void reopen(naive_store *s)
{
    orr_error err;
    int64_t step;
    must(s, orr_store_committed(s->store, &step, &err), "committed", &err);
    if (step != s->step)
        seed_fail(s->seed, "step %lld is committed, not %lld", (long long)step, (long long)s->step);
    if (s->step < 0)
        return;
    if (s->settled >= 0 && naive_below(s, 2)) {
        s->step -= (int64_t)naive_below(s, (uint64_t)(s->step - s->settled) + 1);
        must(s, naive_reopen(s, s->step, &err), "open at a step", &err);
    } else {
        must(s, naive_reopen(s, -1, &err), "open", &err);
    }
    s->settled = s->durable = s->step; /* of a file that was opened, the others are gone */
    memcpy(s->rows[0], s->committed[s->step % NAIVE_COMMITS], s->bytes);
}

static void test_values(void **state)
{
    (void)state;
    const seed_range range = seeds(60);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        naive_store s;
        orr_error err;
        naive_begin(&s, seed, 2);
        for (int i = 0; i < 150; i++) {
            announce_some(&s);
            must(&s, naive_step(&s, &err), "step", &err);
            if (naive_below(&s, 10) == 0)
                must(&s, naive_commit(&s, &err), "commit", &err);
            if (naive_below(&s, 25) == 0) {
                finish_batches(&s);
                must(&s, naive_scan(&s, &err), "scan", &err);
                if (naive_below(&s, 2))
                    must(&s, naive_write(&s, &err), "write", &err);
                if (naive_below(&s, 3) == 0)
                    reopen(&s);
            }
        }
        finish_batches(&s);
        must(&s, naive_scan(&s, &err), "scan", &err);
        naive_end(&s);
    }
}

/* --- announced by a thread of its own --------------------------------------------------------- */

enum { BATCHES = 80 };
typedef struct announcer {
    naive_store *s;
    naive_batch *batches; /* shape (BATCHES) */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t announced;
    orr_status status;
    orr_error err;
} announcer;

static void *announce_all(void *ctx)
{
    announcer *a = ctx;
    orr_status status = ORR_OK;
    for (uint64_t i = 0; i < BATCHES && status == ORR_OK; i++) {
        naive_batch *b = &a->batches[i];
        for (uint32_t k = 0; k < a->s->facts.n_shards && status == ORR_OK; k++)
            status =
                orr_store_announce(a->s->store, i, k, b->ids[k], b->n[k], b->slots[k], &a->err);
        pthread_mutex_lock(&a->lock);
        a->announced = i + 1;
        a->status = status;
        pthread_cond_signal(&a->changed);
        pthread_mutex_unlock(&a->lock);
    }
    return NULL;
}

static orr_status wait_announced(announcer *a, uint64_t batch)
{
    pthread_mutex_lock(&a->lock);
    while (a->announced <= batch && a->status == ORR_OK)
        pthread_cond_wait(&a->changed, &a->lock);
    const orr_status status = a->status;
    pthread_mutex_unlock(&a->lock);
    return status;
}

/* Trains while a thread announces ahead as far as the window and the cache allow. */
static void train_beside(naive_store *s, announcer *a)
{
    orr_error err;
    for (s->first = 0; s->first < BATCHES; s->first++) {
        const naive_batch *b = &a->batches[s->first];
        must(s, wait_announced(a, s->first), "announce", &a->err);
        must(s, orr_store_wait(s->store, s->first, &err), "wait", &err);
        naive_check_batch(s, b);
        const bool change = naive_below(s, 8) != 0;
        if (change) {
            must(s, orr_store_change(s->store, s->first, &err), "change", &err);
            naive_change_batch(s, b);
        }
        orr_store_end(s->store, s->first, change);
        if (naive_below(s, 10) == 0)
            must(s, naive_commit(s, &err), "commit", &err);
    }
}

static void test_announced_by_a_thread(void **state)
{
    (void)state;
    const seed_range range = seeds(40);
    naive_batch *batches = malloc(BATCHES * sizeof *batches);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        naive_store s;
        orr_error err;
        pthread_t thread;
        naive_begin(&s, seed, 0);
        for (int i = 0; i < BATCHES; i++)
            naive_draw_batch(&s, &batches[i]);
        announcer a = {.s = &s, .batches = batches};
        pthread_mutex_init(&a.lock, NULL);
        pthread_cond_init(&a.changed, NULL);
        assert_int_equal(pthread_create(&thread, NULL, announce_all, &a), 0);
        train_beside(&s, &a);
        pthread_join(thread, NULL);
        s.next = s.first;
        must(&s, naive_scan(&s, &err), "scan", &err);
        pthread_mutex_destroy(&a.lock);
        pthread_cond_destroy(&a.changed);
        naive_end(&s);
    }
    free(batches);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_announced_by_a_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
