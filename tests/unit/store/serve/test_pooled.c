/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "store/serve/pooled.h"

enum { COLUMNS = 4, PARTICIPANT = 0 };

typedef struct cached {
    orr_epochs epochs;
    orr_pooled_cache cache;
    orr_pooled_writer writer;
} cached;

static cached *begin(uint64_t bytes)
{
    static cached c;
    orr_error err;
    orr_epochs_init(&c.epochs);
    assert_int_equal(orr_epochs_join(&c.epochs), PARTICIPANT);
    assert_int_equal(orr_pooled_init(&c.cache, bytes, 1000, &c.epochs, &err), ORR_OK);
    c.writer = (orr_pooled_writer){.segment = -1};
    return &c;
}

static void end(cached *c)
{
    orr_pooled_leave(&c->cache, &c->writer);
    orr_pooled_done(&c->cache);
}

static orr_pooled_key key_of(uint32_t table, const int64_t *rows, uint32_t n)
{
    orr_pooled_key key = {.table = table, .n = n, .rows = rows, .columns = COLUMNS};
    orr_pooled_hash(&key);
    return key;
}

/* Looks up, and inserts `value` where that is wanted; gives what was found, or -1. */
static float use(cached *c, const orr_pooled_key *key, float value, bool *ret_wanted)
{
    const float sum[COLUMNS] = {value, value, value, value};
    orr_epoch_enter(&c->epochs, PARTICIPANT);
    const float *found = orr_pooled_find(&c->cache, key, ret_wanted);
    const float result = found != NULL ? found[COLUMNS - 1] : -1;
    if (found == NULL && *ret_wanted)
        orr_pooled_insert(&c->cache, &c->writer, key, orr_pooled_begin(&c->cache), sum);
    orr_epoch_exit(&c->epochs, PARTICIPANT);
    return result;
}

static void keeps_at_the_second_sight(void **state)
{
    (void)state;
    const int64_t rows[] = {3, 1, 4};
    const orr_pooled_key key = key_of(2, rows, 3);
    cached *c = begin(1 << 16);
    bool wanted;
    assert_true(use(c, &key, 5, &wanted) < 0);
    assert_false(wanted);
    assert_true(use(c, &key, 5, &wanted) < 0);
    assert_true(wanted);
    assert_true(use(c, &key, 6, &wanted) == 5);
    end(c);
}

/* Keys with one hash are told apart by table and rows. */
static void verifies_in_full(void **state)
{
    (void)state;
    const int64_t rows[] = {3, 1, 4}, others[] = {3, 1, 5};
    const orr_pooled_key key = key_of(2, rows, 3);
    orr_pooled_key other = key_of(2, others, 3), table = key_of(1, rows, 3),
                   shorter = key_of(2, rows, 2);
    cached *c = begin(1 << 16);
    bool wanted;
    (void)use(c, &key, 5, &wanted);
    (void)use(c, &key, 5, &wanted);
    other.hash = table.hash = shorter.hash = key.hash;
    orr_epoch_enter(&c->epochs, PARTICIPANT);
    assert_null(orr_pooled_find(&c->cache, &other, &wanted));
    assert_null(orr_pooled_find(&c->cache, &table, &wanted));
    assert_null(orr_pooled_find(&c->cache, &shorter, &wanted));
    assert_non_null(orr_pooled_find(&c->cache, &key, &wanted));
    orr_epoch_exit(&c->epochs, PARTICIPANT);
    end(c);
}

static void forgets_what_was_updated(void **state)
{
    (void)state;
    const int64_t rows[] = {3, 1, 4}, changed = 4;
    const orr_pooled_key key = key_of(2, rows, 3);
    cached *c = begin(1 << 16);
    bool wanted;
    const uint64_t begun = orr_pooled_begin(&c->cache);
    const float old[COLUMNS] = {1, 1, 1, 1};
    (void)use(c, &key, 5, &wanted);
    (void)use(c, &key, 5, &wanted);
    assert_true(use(c, &key, 6, &wanted) == 5);
    orr_pooled_updated(&c->cache, 2, &changed, 1);
    assert_true(use(c, &key, 7, &wanted) < 0);
    assert_true(use(c, &key, 8, &wanted) == 7);
    /* A sum that was begun before the update is no good after it. */
    orr_pooled_updated(&c->cache, 2, &changed, 1);
    orr_epoch_enter(&c->epochs, PARTICIPANT);
    assert_null(orr_pooled_find(&c->cache, &key, &wanted));
    orr_pooled_insert(&c->cache, &c->writer, &key, begun, old);
    assert_null(orr_pooled_find(&c->cache, &key, &wanted));
    orr_epoch_exit(&c->epochs, PARTICIPANT);
    end(c);
}

static void keeps_no_nan(void **state)
{
    (void)state;
    const int64_t rows[] = {8, 9};
    const orr_pooled_key key = key_of(0, rows, 2);
    cached *c = begin(1 << 16);
    bool wanted;
    for (int i = 0; i < 5; i++)
        assert_true(use(c, &key, NAN, &wanted) < 0);
    end(c);
}

/* Far more than there is room for: what is found is right, and the newest is found. */
static void forgets_the_oldest(void **state)
{
    (void)state;
    cached *c = begin(1 << 17);
    uint64_t hits = 0;
    bool wanted;
    for (int64_t i = 0; i < 20000; i++) {
        const int64_t rows[] = {i, i + 1};
        const orr_pooled_key key = key_of(0, rows, 2);
        (void)use(c, &key, (float)i, &wanted);
        (void)use(c, &key, (float)i, &wanted);
        hits += use(c, &key, -2, &wanted) == (float)i;
        const int64_t old[] = {i / 2, i / 2 + 1};
        const orr_pooled_key older = key_of(0, old, 2);
        const float found = use(c, &older, (float)(i / 2), &wanted);
        assert_true(found < 0 || found == (float)(i / 2));
    }
    assert_true(hits > 15000);
    end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_at_the_second_sight), cmocka_unit_test(verifies_in_full),
        cmocka_unit_test(forgets_what_was_updated), cmocka_unit_test(keeps_no_nan),
        cmocka_unit_test(forgets_the_oldest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
