/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <orrery/hit_rate.h>

#include "base/clock.h"
#include "base/philox.h"
#include "model/tables/popularity.h"
#include "store/store.h"

/* The row cache of training, in two parts.
 *
 *   bench_store hits [2021|2022|zipf] POLICY ROWS CACHED BATCH AHEAD LOOKUPS [REPEATED REACH]
 *       hit rates of one table: lookups by popularity, in batches of BATCH of which AHEAD are
 *       announced beside the present one; rows have initial values, so that nothing is read.
 *       REPEATED of the lookups repeat one of the last REACH. The first half is not counted.
 *   bench_store train FILE ROWS ROW_BYTES CACHED BATCH AHEAD BATCHES [holes] [commit]
 *       batches of BATCH lookups (published popularity of 2021) whose rows are all changed, from a
 *       row file at FILE, which is made anew; another thread announces AHEAD batches ahead.
 *
 * Lines of JSON. A hit: the row was in memory when its batch was announced, or asked for before in
 * the same batch. A demand miss: a row that was not there when its batch was waited for. */
static void die(const char *what, const orr_error *err)
{
    fprintf(stderr, "bench_store: %s: %s\n", what, err != NULL ? err->text : "");
    exit(1);
}

static void zeros(void *ctx, uint32_t shard, int64_t row, void *ret_record)
{
    (void)shard;
    (void)row;
    memset(ret_record, 0, *(const size_t *)ctx);
}

static int64_t now_ns(void)
{
    return orr_clock_now_ns(&orr_clock_monotonic);
}

static double cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Lookups of a table, some of which repeat earlier ones. */
typedef struct source {
    orr_row_sampler sampler;
    orr_random random;
    double repeated;
    int64_t *last, reach;
    uint64_t n;
} source;

static source source_of(const orr_popularity *p, double repeated, int64_t reach)
{
    source s = {.random = orr_random_of(1, 1), .repeated = repeated, .reach = reach};
    orr_row_sampler_init(p, &s.sampler);
    s.last = calloc((size_t)reach + 1, sizeof *s.last);
    return s;
}

static int64_t draw(source *s)
{
    int64_t row;
    const uint64_t reach = s->n < (uint64_t)s->reach ? s->n : (uint64_t)s->reach;
    if (s->repeated > 0 && reach > 0 && orr_random_unit(&s->random) < s->repeated)
        row = s->last[orr_random_below(&s->random, reach)];
    else
        row = orr_row_sampler_row(&s->sampler, orr_random_u32(&s->random),
                                  orr_random_u64(&s->random));
    if (s->reach > 0)
        s->last[s->n++ % (uint64_t)s->reach] = row;
    return row;
}

static uint8_t word_of(const char *text, const char *(*name)(int), int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(text, name(i)) == 0)
            return (uint8_t)i;
    die(text, NULL);
    return 0;
}
static const char *kind_name(int i)
{
    return orr_popularity_name((orr_popularity_kind)i);
}
static const char *policy_name(int i)
{
    return orr_cache_policy_name((orr_cache_policy)i);
}

static orr_row_shard shard_of(int64_t rows, uint32_t row_bytes)
{
    return (orr_row_shard){.table = "t0",
                           .table_rows = rows,
                           .rows = rows,
                           .table_columns = row_bytes / 4,
                           .column_end = row_bytes / 4,
                           .row_bytes = row_bytes};
}

static void bench_hits(char **argv, int argc)
{
    orr_error err;
    const orr_popularity_kind kind = word_of(argv[0], kind_name, ORR_POPULARITIES);
    const orr_cache_policy policy = word_of(argv[1], policy_name, ORR_CACHE_POLICIES);
    const int64_t rows = atoll(argv[2]), cached = atoll(argv[3]), batch = atoll(argv[4]);
    const int64_t ahead = atoll(argv[5]), batches = atoll(argv[6]) / batch;
    const double repeated = argc > 7 ? strtod(argv[7], NULL) : 0;
    const int64_t reach = argc > 8 ? atoll(argv[8]) : 0;
    const orr_popularity p = orr_popularity_of(kind, rows);
    size_t record = 4;
    const orr_row_shard shard = shard_of(rows, 4);
    const orr_row_file_facts facts = {.ranks = 1, .n_shards = 1, .shards = &shard};
    const orr_store_options options = {.cache_bytes = (uint64_t)cached * (4 + 24 + 8 + 1) + 64,
                                       .policy = policy,
                                       .inline_io = true,
                                       .window = (uint32_t)ahead + 1,
                                       .initial = zeros,
                                       .ctx = &record};
    orr_block_map map = {.node = -1, .sector = 4096};
    orr_block_device *device;
    orr_store *store;
    if (orr_row_file_bytes(&facts, map.sector, 0.5, &map.bytes, &err) != ORR_OK ||
        orr_block_device_map(&map, &device, &err) != ORR_OK ||
        orr_store_create(device, &facts, &options, &store, &err) != ORR_OK)
        die("create", &err);
    source s = source_of(&p, repeated, reach);
    int64_t *ids = calloc((size_t)batch, sizeof *ids), announce_ns = 0;
    uint32_t *slots = calloc((size_t)batch, sizeof *slots);
    orr_store_stats half = {0};
    for (int64_t b = 0; b < batches; b++) {
        for (int64_t i = 0; i < batch; i++)
            ids[i] = draw(&s);
        const int64_t begin = now_ns();
        if (orr_store_announce(store, (uint64_t)b, 0, ids, batch, slots, &err) != ORR_OK)
            die("announce", &err);
        announce_ns += now_ns() - begin;
        if (b >= ahead)
            orr_store_end(store, (uint64_t)(b - ahead), false);
        if (b == batches / 2)
            half = orr_store_stats_of(store);
    }
    const orr_store_stats all = orr_store_stats_of(store);
    const orr_hit_terms terms = {.policy = policy == ORR_CACHE_POLICY_LRU   ? ORR_HIT_LRU
                                           : policy == ORR_CACHE_POLICY_LFU ? ORR_HIT_LFU
                                                                            : ORR_HIT_LOOKAHEAD,
                                 .batch = (double)batch,
                                 .window = (double)ahead,
                                 .repeated_frac = repeated,
                                 .repeated_window = (double)reach};
    printf("{\"popularity\": \"%s\", \"policy\": \"%s\", \"rows\": %lld, \"slots\": %llu, "
           "\"batch\": %lld, \"ahead\": %lld, \"hit_frac\": %.4f, \"row_hit_frac\": %.4f, "
           "\"static_frac\": %.4f, \"modelled_frac\": %.4f, \"announce_ns_lookup\": %.1f}\n",
           argv[0], argv[1], (long long)rows, (unsigned long long)all.cache_slots, (long long)batch,
           (long long)ahead, (double)(all.hits - half.hits) / (double)(all.lookups - half.lookups),
           (double)(all.row_hits - half.row_hits) / (double)(all.rows - half.rows),
           orr_popularity_hit_rate(&p, (int64_t)all.cache_slots),
           orr_hit_rate(&p, &terms, (double)all.cache_slots),
           (double)announce_ns / (double)all.lookups);
    orr_store_close(store);
    free(ids);
    free(slots);
    free(s.last);
}

/* --- training -------------------------------------------------------------------------------- */

typedef struct training {
    orr_store *store;
    source lookups;
    int64_t batch, batches, ahead;
    int64_t *ids;    /* of a batch */
    uint32_t *slots; /* shape (ahead + 2, batch) */
    int64_t announced;
    int64_t announce_ns;
    pthread_mutex_t lock;
    pthread_cond_t changed;
} training;

static uint32_t *slots_of(training *t, int64_t batch)
{
    return t->slots + batch % (t->ahead + 2) * t->batch;
}

static void *announce_all(void *ctx)
{
    training *t = ctx;
    orr_error err;
    for (int64_t b = 0; b < t->batches; b++) {
        for (int64_t i = 0; i < t->batch; i++)
            t->ids[i] = draw(&t->lookups);
        const int64_t begin = now_ns();
        if (orr_store_announce(t->store, (uint64_t)b, 0, t->ids, t->batch, slots_of(t, b), &err) !=
            ORR_OK)
            die("announce", &err);
        t->announce_ns += now_ns() - begin;
        pthread_mutex_lock(&t->lock);
        t->announced = b + 1;
        pthread_cond_broadcast(&t->changed);
        pthread_mutex_unlock(&t->lock);
    }
    return NULL;
}

/* Adds 1 to the first number of each row that a batch looked up, as often as it did. */
static void touch(const orr_store_slots *at, const uint32_t *slots, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (i + 16 < n)
            __builtin_prefetch(at->rows + slots[i + 16] * at->row_bytes, 1);
        *(float *)(at->rows + slots[i] * at->row_bytes) += 1;
    }
}

static void print_training(training *t, int64_t wall_ns, double cpu, const orr_store_stats *from)
{
    const orr_store_stats to = orr_store_stats_of(t->store);
    const double s = 1e-9 * (double)wall_ns, lookups = (double)(to.lookups - from->lookups);
    const double misses = (double)(to.rows - to.row_hits - from->rows + from->row_hits);
    printf("{\"batches\": %lld, \"seconds\": %.2f, \"lookups_s\": %.0f, \"hit_frac\": %.4f, "
           "\"rows_missed\": %.0f, \"reads\": %llu, \"reads_s\": %.0f, \"read_mib_s\": %.1f, "
           "\"drawn\": %llu, \"demand_misses\": %llu, \"stall_frac\": %.3f, \"evictions\": %llu, "
           "\"written_back\": %llu, \"written_mib_s\": %.1f, \"cpu_us_miss\": %.2f, "
           "\"announce_ns_lookup\": %.1f}\n",
           (long long)t->batches, s, lookups / s, (double)(to.hits - from->hits) / lookups, misses,
           (unsigned long long)(to.reads - from->reads), (double)(to.reads - from->reads) / s,
           (double)(to.read_bytes - from->read_bytes) / s / (1 << 20),
           (unsigned long long)(to.drawn - from->drawn),
           (unsigned long long)(to.demand_misses - from->demand_misses),
           (double)(to.stall_ns - from->stall_ns) / (double)wall_ns,
           (unsigned long long)(to.evictions - from->evictions),
           (unsigned long long)(to.written_back - from->written_back),
           (double)(to.file.bytes_written - from->file.bytes_written) / s / (1 << 20),
           cpu / misses * 1e6, (double)t->announce_ns / (double)to.lookups);
}

static void train(training *t, bool commit)
{
    orr_error err;
    const orr_store_slots at = orr_store_slots_of(t->store, 0);
    orr_store_stats from = {0};
    int64_t begin = 0;
    double cpu = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, announce_all, t);
    for (int64_t b = 0; b < t->batches; b++) {
        pthread_mutex_lock(&t->lock);
        while (t->announced <= b)
            pthread_cond_wait(&t->changed, &t->lock);
        pthread_mutex_unlock(&t->lock);
        if (b == t->batches / 4) { /* the cache is full */
            begin = now_ns();
            cpu = cpu_s();
            from = orr_store_stats_of(t->store);
        }
        if (orr_store_wait(t->store, (uint64_t)b, &err) != ORR_OK ||
            orr_store_change(t->store, (uint64_t)b, &err) != ORR_OK)
            die("batch", &err);
        touch(&at, slots_of(t, b), t->batch);
        orr_store_end(t->store, (uint64_t)b, true);
        if (commit && b % 64 == 63) {
            int64_t step = -1;
            if (orr_store_committed(t->store, &step, &err) != ORR_OK)
                die("commit", &err);
            orr_store_settle(t->store, step);
            if (orr_store_commit(t->store, b, &err) != ORR_OK)
                die("commit", &err);
        }
    }
    const int64_t wall = now_ns() - begin;
    pthread_join(thread, NULL);
    print_training(t, wall, cpu_s() - cpu, &from);
}

/* All rows are on disk before it begins. */
static void fill(orr_store *store, int64_t rows, size_t record)
{
    enum { PIECE = 8192 };
    orr_error err;
    char *records = calloc(PIECE, record);
    for (int64_t row = 0; row < rows; row += PIECE) {
        const orr_store_scan scan = {0, row, rows - row < PIECE ? rows - row : PIECE, records};
        if (orr_store_write(store, &scan, &err) != ORR_OK)
            die("fill", &err);
    }
    if (orr_store_commit(store, 0, &err) != ORR_OK ||
        orr_store_committed(store, NULL, &err) != ORR_OK)
        die("commit", &err);
    orr_store_settle(store, 0);
    free(records);
}

static void bench_train(char **argv, int argc)
{
    orr_error err;
    const int64_t rows = atoll(argv[1]), cached = atoll(argv[3]);
    const uint32_t row_bytes = (uint32_t)atoll(argv[2]);
    training t = {.batch = atoll(argv[4]),
                  .ahead = atoll(argv[5]),
                  .batches = atoll(argv[6]),
                  .lock = PTHREAD_MUTEX_INITIALIZER,
                  .changed = PTHREAD_COND_INITIALIZER};
    bool holes = false, commit = false;
    for (int i = 7; i < argc; i++) {
        holes |= strcmp(argv[i], "holes") == 0;
        commit |= strcmp(argv[i], "commit") == 0;
    }
    size_t record = row_bytes;
    const orr_popularity p = orr_popularity_of(ORR_POPULARITY_META_2021, rows);
    const orr_row_shard shard = shard_of(rows, row_bytes);
    const orr_row_file_facts facts = {.ranks = 1, .n_shards = 1, .shards = &shard};
    const orr_store_options options = {.cache_bytes = (uint64_t)cached * (row_bytes + 33),
                                       .policy = ORR_CACHE_POLICY_LOOKAHEAD,
                                       .writes =
                                           holes ? ORR_ROW_WRITES_HOLES : ORR_ROW_WRITES_EXTENTS,
                                       .durable = true,
                                       .huge_pages = true,
                                       .window = (uint32_t)t.ahead + 1,
                                       .initial = zeros,
                                       .ctx = &record};
    orr_block_open how = {.path = argv[0], .create = true, .sector = 512};
    orr_block_device *device;
    (void)remove(argv[0]);
    if (orr_row_file_bytes(&facts, how.sector, 1, &how.bytes, &err) != ORR_OK ||
        orr_block_device_open(&how, &device, &err) != ORR_OK ||
        orr_store_create(device, &facts, &options, &t.store, &err) != ORR_OK)
        die("create", &err);
    fill(t.store, rows, record);
    t.lookups = source_of(&p, 0, 0);
    t.ids = calloc((size_t)t.batch, sizeof *t.ids);
    t.slots = calloc((size_t)(t.ahead + 2) * (size_t)t.batch, sizeof *t.slots);
    train(&t, commit);
    orr_store_close(t.store);
    (void)remove(argv[0]);
    free(t.ids);
    free(t.slots);
    free(t.lookups.last);
}

int main(int argc, char **argv)
{
    if (argc >= 9 && strcmp(argv[1], "hits") == 0)
        bench_hits(argv + 2, argc - 2);
    else if (argc >= 9 && strcmp(argv[1], "train") == 0)
        bench_train(argv + 2, argc - 2);
    else
        die("see the head of bench_store.c", NULL);
    return 0;
}
