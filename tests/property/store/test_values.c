/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
