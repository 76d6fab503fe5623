/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "../support/seeds.h"
#include "store/cache/pool.h"
#include "store/store_state.h"
#include "support/simulated/block_device.h"

/* What the row cache of a store keeps, against optima and caches that look at everything: one table
 * whose rows are all on a simulated drive, requests made by the caller. */
enum { ROW_BYTES = 16, MOST_ROWS = 4096, MOST_BATCH = 64 };

typedef struct cached_table {
    orr_row_shard shard;
    orr_row_file_facts facts;
    orr_store_options options;
    orr_sim_drive *drive;
    orr_store *store;
} cached_table;

static void initial(void *ctx, uint32_t shard, int64_t row, void *ret_record)
{
    (void)ctx;
    (void)shard;
    memset(ret_record, (int)row, ROW_BYTES);
}

static void begin(cached_table *t, int64_t rows, uint32_t slots, orr_cache_policy policy,
                  uint32_t window)
{
    orr_error err;
    *t = (cached_table){.shard = {"t", rows, 0, rows, 4, 0, 4, 0, 0, ROW_BYTES, 0},
                        .options = {.cache_bytes = slots * orr_cache_slot_bytes(ROW_BYTES, 0),
                                    .policy = policy,
                                    .durable = true,
                                    .inline_io = true,
                                    .window = window,
                                    .initial = initial}};
    t->facts = (orr_row_file_facts){1, 1, 0, 1, 1, &t->shard};
    orr_sim_drive_options drive = {.seed = 1, .depth = 32};
    assert_int_equal(orr_row_file_bytes(&t->facts, 512, 5, &drive.bytes, &err), ORR_OK);
    assert_int_equal(orr_sim_drive_new(&drive, &t->drive, &err), ORR_OK);
    orr_block_device *device;
    assert_int_equal(orr_sim_drive_open(t->drive, false, &device, &err), ORR_OK);
    assert_int_equal(orr_store_create(device, &t->facts, &t->options, &t->store, &err), ORR_OK);
    assert_int_equal(orr_store_slots_of(t->store, 0).n, slots);
    char *records = malloc((size_t)rows * ROW_BYTES);
    for (int64_t i = 0; i < rows; i++)
        initial(NULL, 0, i, records + i * ROW_BYTES);
    const orr_store_scan all = {0, 0, rows, records};
    int64_t step;
    assert_int_equal(orr_store_write(t->store, &all, &err), ORR_OK);
    assert_int_equal(orr_store_commit(t->store, 1, &err), ORR_OK);
    assert_int_equal(orr_store_committed(t->store, &step, &err), ORR_OK);
    free(records);
}

static void end(cached_table *t)
{
    orr_store_close(t->store);
    orr_sim_drive_free(t->drive);
}

static orr_status announce(cached_table *t, uint64_t batch, const int64_t *ids, int64_t n,
                           orr_error *err)
{
    uint32_t slots[MOST_BATCH];
    return orr_store_announce(t->store, batch, 0, ids, n, slots, err);
}

static void finish(cached_table *t, uint64_t batch)
{
    orr_error err;
    assert_int_equal(orr_store_wait(t->store, batch, &err), ORR_OK);
    orr_store_end(t->store, batch, false);
}

static uint64_t fetched(cached_table *t)
{
    const orr_store_stats s = orr_store_stats_of(t->store);
    return s.rows - s.row_hits;
}

/* --- few rows: sets of rows are bits -----------------------------------------------------------
 */

enum { ROWS = 8, SETS = 1 << ROWS, TRACE = 40 };

static uint32_t size_of(uint32_t set)
{
    return (uint32_t)__builtin_popcount(set);
}

/* The fewest rows that any cache of so many slots can fetch: all sets that it may hold after each
 * batch, by brute force. What Belady's rule reaches. */
static uint32_t fewest_fetches(const uint32_t *batches, uint32_t slots)
{
    uint32_t cost[SETS], next[SETS];
    memset(cost, 0xff, sizeof cost);
    cost[0] = 0;
    for (uint32_t i = 0; i < TRACE; i++) {
        memset(next, 0xff, sizeof next);
        for (uint32_t from = 0; from < SETS; from++)
            for (uint32_t kept = from; cost[from] != UINT32_MAX; kept = (kept - 1) & from) {
                const uint32_t to = kept | batches[i];
                const uint32_t c = cost[from] + size_of(batches[i] & ~from);
                if (size_of(to) <= slots && (kept & ~batches[i] & ~from) == 0 && c < next[to])
                    next[to] = c;
                if (kept == 0)
                    break;
            }
        memcpy(cost, next, sizeof cost);
    }
    uint32_t best = UINT32_MAX;
    for (uint32_t set = 0; set < SETS; set++)
        best = cost[set] < best ? cost[set] : best;
    return best;
}

/* The most that look-ahead may fetch. A row is surely kept where all rows from the batch that used
 * it last to the one that uses it next have slots together: the later batch was announced before
 * the earlier one ended. */
static uint32_t most_fetches(const uint32_t *batches, uint32_t slots)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < TRACE; i++)
        for (uint32_t row = 0; row < ROWS; row++) {
            uint32_t between = batches[i], j = i;
            while (j > 0 && (batches[j - 1] >> row & 1) == 0)
                between |= batches[--j];
            if (batches[i] >> row & 1)
                n += j == 0 || size_of(between | batches[j - 1]) > slots;
        }
    return n;
}

static int64_t ids_of(uint32_t set, int64_t *ret_ids)
{
    int64_t n = 0;
    for (int64_t row = 0; row < ROWS; row++)
        if (set >> row & 1)
            ret_ids[n++] = row;
    return n;
}

/* Rows that a store fetches which announces whatever has room beside what is announced already, up
 * to `ahead` batches. */
static uint64_t fetches_of(const uint32_t *batches, uint32_t slots, orr_cache_policy policy,
                           uint32_t ahead)
{
    cached_table t;
    orr_error err;
    uint32_t first = 0, next = 0;
    begin(&t, ROWS, slots, policy, TRACE);
    for (; first < TRACE; first++) {
        for (; next < TRACE && next < first + ahead; next++) {
            uint32_t together = 0;
            int64_t ids[ROWS];
            for (uint32_t i = first; i <= next; i++)
                together |= batches[i];
            if (size_of(together) > slots)
                break;
            const int64_t n = ids_of(batches[next], ids);
            assert_int_equal(announce(&t, next, ids, n, &err), ORR_OK);
        }
        finish(&t, first);
    }
    const uint64_t n = fetched(&t);
    end(&t);
    return n;
}

static void test_look_ahead_and_belady(void **state)
{
    (void)state;
    const seed_range range = seeds(120);
    uint64_t best = 0, whole = 0, least_recent = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 3);
        const uint32_t slots = 2 + (uint32_t)orr_random_below(&random, ROWS - 1);
        uint32_t batches[TRACE], all = 0;
        for (uint32_t i = 0; i < TRACE; all |= batches[i++]) {
            batches[i] = 0;
            while (batches[i] == 0 || orr_random_below(&random, 2) > 0)
                if (size_of(batches[i]) < slots)
                    batches[i] |= 1u << orr_random_below(&random, ROWS);
        }
        const uint32_t fewest = fewest_fetches(batches, slots);
        const uint64_t is = fetches_of(batches, slots, ORR_CACHE_POLICY_LOOKAHEAD, TRACE);
        if (is < fewest || is > most_fetches(batches, slots))
            seed_fail(seed, "%u slots: %llu rows fetched, the fewest are %u, the most %u", slots,
                      (unsigned long long)is, fewest, most_fetches(batches, slots));
        if (size_of(all) <= slots && is != fewest)
            seed_fail(seed, "all rows fit, and yet %llu were fetched", (unsigned long long)is);
        for (int policy = 0; policy < ORR_CACHE_POLICIES; policy++)
            if (fetches_of(batches, slots, (orr_cache_policy)policy, 1) < fewest)
                seed_fail(seed, "policy %d fetches fewer than the optimum", policy);
        best += fewest;
        whole += is;
        least_recent += fetches_of(batches, slots, ORR_CACHE_POLICY_LRU, 1);
    }
    print_message("rows fetched: %llu at least, %llu with look-ahead, %llu by LRU without\n",
                  (unsigned long long)best, (unsigned long long)whole,
                  (unsigned long long)least_recent);
    if (range.end - range.begin > 1)
        assert_true(best < whole && best < least_recent);
}

/* --- hits against naive caches ---------------------------------------------------------------- */

typedef struct naive_row {
    bool cached;
    uint64_t pinned_by; /* batch + 1 */
    uint64_t used, count;
} naive_row;

typedef struct naive_cache {
    naive_row rows[MOST_ROWS];
    uint32_t slots, used;
    bool by_count;
    uint64_t now, hits;
} naive_cache;

static void evict_one(naive_cache *c, uint64_t first)
{
    naive_row *victim = NULL;
    for (uint32_t i = 0; i < MOST_ROWS; i++) {
        naive_row *r = &c->rows[i];
        const bool worse = victim == NULL || (c->by_count && r->count < victim->count) ||
                           ((!c->by_count || r->count == victim->count) && r->used < victim->used);
        if (r->cached && r->pinned_by <= first && worse)
            victim = r;
    }
    assert_non_null(victim);
    victim->cached = false;
    c->used--;
}

static void naive_announce(naive_cache *c, uint64_t batch, uint64_t first, const int64_t *ids,
                           int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        naive_row *r = &c->rows[ids[i]];
        c->hits += r->cached;
        if (r->cached && r->pinned_by == batch + 1)
            continue;
        if (!r->cached && c->used == c->slots)
            evict_one(c, first);
        c->used += !r->cached;
        r->cached = true;
        r->pinned_by = batch + 1;
        r->count++;
    }
}

/* Rows that no later batch has asked for may go from now on, in the order of their lookups. */
static void naive_end(naive_cache *c, uint64_t batch, const int64_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        naive_row *r = &c->rows[ids[i]];
        if (r->pinned_by == batch + 1 && r->used < (batch + 1) << 32)
            r->used = ((batch + 1) << 32) + ++c->now;
    }
}

/* Skewed: row r of those drawn is about as likely as 1 / r. */
static int64_t draw(orr_random *random, int64_t rows, bool skewed)
{
    if (!skewed)
        return (int64_t)orr_random_below(random, (uint64_t)rows);
    uint64_t most = 2;
    while (most < (uint64_t)rows && orr_random_below(random, 8) > 0)
        most *= 2;
    const uint64_t row = orr_random_below(random, most);
    return (int64_t)(row < (uint64_t)rows ? row : 0);
}

static double furthest; /* of a share of hits from that of the naive cache */

/* Hits of the second half, as the store counts them and as the naive cache does: the same with LRU;
 * counts of 8 bits that age are not those of all time, but nearly as good where what is asked for
 * does not change. */
static void compare_hits(uint64_t seed, orr_cache_policy policy, bool skewed)
{
    static naive_cache c; /* large */
    enum { BATCHES = 600 };
    static int64_t ids[BATCHES][MOST_BATCH];
    orr_random random = orr_random_of(seed, 4);
    orr_error err;
    cached_table t;
    const int64_t rows = 500 + (int64_t)orr_random_below(&random, MOST_ROWS - 500);
    const int64_t n = 8 + (int64_t)orr_random_below(&random, MOST_BATCH - 8);
    const uint32_t ahead = 1 + (uint32_t)orr_random_below(&random, 4);
    const uint32_t slots = ahead * MOST_BATCH + (uint32_t)orr_random_below(&random, 200);
    memset(&c, 0, sizeof c);
    c.slots = slots;
    c.by_count = policy != ORR_CACHE_POLICY_LRU;
    begin(&t, rows, slots, policy, ahead);
    uint64_t first = 0, lookups = 0, hits = 0, naive_hits = 0;
    for (uint64_t batch = 0; batch < BATCHES; batch++) {
        for (int64_t i = 0; i < n; i++)
            ids[batch][i] = draw(&random, rows, skewed);
        assert_int_equal(announce(&t, batch, ids[batch], n, &err), ORR_OK);
        naive_announce(&c, batch, first, ids[batch], n);
        for (; batch + 1 - first == ahead; first++) {
            finish(&t, first);
            naive_end(&c, first, ids[first], n);
        }
        if (batch == BATCHES / 2) { /* counts know the rows by now */
            const orr_store_stats s = orr_store_stats_of(t.store);
            lookups = s.lookups;
            hits = s.hits;
            naive_hits = c.hits;
        }
        if (policy == ORR_CACHE_POLICY_LRU && orr_store_stats_of(t.store).hits != c.hits)
            seed_fail(
                seed, "batch %llu: %llu hits, of a naive cache %llu", (unsigned long long)batch,
                (unsigned long long)orr_store_stats_of(t.store).hits, (unsigned long long)c.hits);
    }
    const orr_store_stats s = orr_store_stats_of(t.store);
    const double of = (double)(s.lookups - lookups);
    const double is = (double)(s.hits - hits) / of, naive = (double)(c.hits - naive_hits) / of;
    const double off = is > naive ? is - naive : naive - is;
    furthest = off > furthest ? off : furthest;
    if (off > 0.02)
        seed_fail(seed, "policy %d: %.4f of the lookups are hits, of a naive cache %.4f", policy,
                  is, naive);
    end(&t);
}

static void test_hits(void **state)
{
    (void)state;
    const seed_range range = seeds(5);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        for (int policy = 0; policy < ORR_CACHE_POLICIES; policy++)
            for (int skewed = 0; skewed < 2; skewed++)
                compare_hits(seed, (orr_cache_policy)policy, skewed != 0);
    print_message("hits are off by %.4f of the lookups at most\n", furthest);
}

/* --- pins and limits -------------------------------------------------------------------------- */

static void test_a_batch_that_does_not_fit_says_what_would_do(void **state)
{
    (void)state;
    const seed_range range = seeds(30);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 6);
        const uint32_t slots = 1 + (uint32_t)orr_random_below(&random, MOST_BATCH - 1);
        const uint32_t n = slots + 1 + (uint32_t)orr_random_below(&random, MOST_BATCH - slots);
        int64_t ids[MOST_BATCH];
        orr_error err;
        cached_table t;
        for (uint32_t i = 0; i < n; i++)
            ids[i] = i * 3;
        begin(&t, 3 * MOST_BATCH, slots, ORR_CACHE_POLICY_LOOKAHEAD, 1);
        assert_int_equal(announce(&t, 0, ids, n, &err), ORR_LIMIT);
        const char *text = strstr(err.text, "at most ");
        assert_non_null(text);
        const uint32_t more = (uint32_t)strtoul(text + strlen("at most "), NULL, 10);
        orr_store_forget(t.store, 0);
        assert_int_equal(announce(&t, 0, ids, slots, &err), ORR_OK); /* what fits still does */
        finish(&t, 0);
        end(&t);
        for (uint32_t less = 0; less < 2; less++) {
            begin(&t, 3 * MOST_BATCH, slots + more - less, ORR_CACHE_POLICY_LOOKAHEAD, 1);
            assert_int_equal(announce(&t, 0, ids, n, &err), less == 0 ? ORR_OK : ORR_LIMIT);
            orr_store_forget(t.store, 0);
            end(&t);
        }
    }
}

static void test_announced_rows_stay(void **state)
{
    enum { SLOTS = 12, N = 4 };
    (void)state;
    for (int policy = 0; policy < ORR_CACHE_POLICIES; policy++) {
        const int64_t ids[4][N] = {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {0, 20, 21, 22}};
        uint32_t slots[3][N], more[N];
        orr_error err;
        cached_table t;
        begin(&t, 64, SLOTS, (orr_cache_policy)policy, 4);
        for (uint64_t i = 0; i < 3; i++)
            assert_int_equal(orr_store_announce(t.store, i, 0, ids[i], N, slots[i], &err), ORR_OK);
        /* All slots are pinned: one of these rows has one, for the others there is none. */
        assert_int_equal(orr_store_announce(t.store, 3, 0, ids[3], N, more, &err), ORR_LIMIT);
        orr_store_forget(t.store, 3);
        for (uint64_t i = 0; i < 3; i++) {
            const orr_store_slots at = orr_store_slots_of(t.store, 0);
            assert_int_equal(orr_store_wait(t.store, i, &err), ORR_OK);
            for (int k = 0; k < N; k++)
                assert_int_equal((uint8_t)at.rows[slots[i][k] * ROW_BYTES], ids[i][k]);
        }
        orr_store_end(t.store, 0, false);
        assert_int_equal(orr_store_announce(t.store, 3, 0, ids[3], N, more, &err), ORR_OK);
        for (int k = 0; k < N; k++) /* only slots of the batch that has ended */
            for (int j = 0; j < N; j++)
                assert_true(more[k] != slots[1][j] && more[k] != slots[2][j]);
        end(&t);
    }
}

/* --- rows that are late ----------------------------------------------------------------------- */

static void test_demand_misses(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        orr_random random = orr_random_of(1, 7);
        orr_error err;
        cached_table t;
        begin(&t, MOST_ROWS, 4 * MOST_BATCH, ORR_CACHE_POLICY_LOOKAHEAD, 2);
        for (uint64_t batch = 0; batch < 100; batch++) {
            int64_t ids[MOST_BATCH];
            for (int i = 0; i < MOST_BATCH; i++)
                ids[i] = draw(&random, MOST_ROWS, false);
            assert_int_equal(announce(&t, batch, ids, MOST_BATCH, &err), ORR_OK);
            for (int i = 0; late && t.store->n_requests > 0; i++) {
                assert_true(i < 10000);
                orr_store_kick(t.store); /* the drive has time */
            }
            finish(&t, batch);
        }
        const orr_store_stats s = orr_store_stats_of(t.store);
        assert_true(s.rows - s.row_hits > 1000);
        if (late)
            assert_int_equal(s.demand_misses, 0);
        else
            assert_true(s.demand_misses > 1000 && s.stall_ns > 0);
        end(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_look_ahead_and_belady),
        cmocka_unit_test(test_hits),
        cmocka_unit_test(test_a_batch_that_does_not_fit_says_what_would_do),
        cmocka_unit_test(test_announced_rows_stay),
        cmocka_unit_test(test_demand_misses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
