/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/workers.h"
#include "kernel/cpu/embedding/row_kernels.h"
#include "kernel/cpu/embedding/sharded_table.h"

/* Sums of bags by the tree of ranges. The limit is the number of memory reads in flight: each bag's
 * rows are put in the order of their ranges some bags ahead, and are prefetched before they are
 * summed. */
enum {
    AHEAD = 64,           /* rows that stand in order behind those that are summed, at least */
    ROOM_ROWS = 2048,     /* rows in order, about */
    ITEM_LOOKUPS = 16384, /* of a work item, about */
    INSERTION_MAX = 16,   /* most lookups of a bag for insertion sort */
    FEW_MAX = 255,        /* most whose counts are bytes */
};

uint32_t orr_shard_subtrees(const orr_embedding_shard *shard,
                            orr_range_subtree ret[ORR_SHARD_SUBTREES_MAX])
{
    uint32_t n = 0;
    for (uint32_t begin = shard->range_begin; begin < shard->range_end;) {
        uint32_t count = begin != 0 ? begin & -begin : ORR_EMBEDDING_RANGES;
        while (count > shard->range_end - begin)
            count /= 2;
        ret[n++] = (orr_range_subtree){begin, count};
        begin += count;
    }
    return n;
}

void orr_join_subtrees(const orr_range_subtree *subtrees, const float *const *parts, uint32_t n,
                       int64_t columns, float *ret)
{
    orr_ranged_row row[ORR_EMBEDDING_RANGES];
    for (uint32_t i = 0; i < n; i++)
        row[i] = (orr_ranged_row){(const char *)parts[i], subtrees[i].begin};
    orr_row_kernels_of_cpu()->tree[ORR_ROW_FORMAT_FP32](row, n, 0, columns, ret);
}

typedef struct bag_sums {
    const orr_shard_lookups *lookups;
    int64_t columns, record_bytes;
    orr_range_subtree subtree[ORR_SHARD_SUBTREES_MAX];
    uint32_t n_subtrees;
    orr_row_tree *tree;
    int64_t *first;       /* shape (samples + 1): the first lookup of each sample */
    int64_t samples;      /* of a work item */
    uint64_t inverse;     /* about 2^64 / rows of the table */
    orr_ranged_row *room; /* shape (threads, room_rows) */
    int64_t room_rows;
    float *ret;
    int64_t ret_stride;
} bag_sums;

/* orr_embedding_range_of(), by a product that is the quotient or 1 more. */
static inline int64_t range_of(const bag_sums *b, int64_t id)
{
    const uint64_t rows = (uint64_t)b->lookups->table_rows,
                   end = ((uint64_t)(b->lookups->first_row + id) + 1) * ORR_EMBEDDING_RANGES - 1,
                   range = (uint64_t)((unsigned __int128)end * b->inverse >> 64);
    if (rows == 1)
        return ORR_EMBEDDING_RANGES - 1;
    return (int64_t)(range * rows > end ? range - 1 : range);
}

static inline const char *row_at(const bag_sums *b, int64_t lookup)
{
    const orr_shard_lookups *l = b->lookups;
    return l->store->base +
           (l->slots != NULL ? (int64_t)l->slots[lookup] : l->ids[lookup]) * b->record_bytes;
}

static void insert_rows(const bag_sums *b, int64_t begin, int64_t end, orr_ranged_row *to)
{
    for (int64_t i = begin; i < end; i++) {
        const orr_ranged_row row = {row_at(b, i), range_of(b, b->lookups->ids[i])};
        int64_t at = i - begin;
        for (; at > 0 && to[at - 1].range > row.range; at--)
            to[at] = to[at - 1];
        to[at] = row;
    }
}

/* Rows of a bag in the order of their ranges, those of a range in the order of lookups. */
static void order_rows(const bag_sums *b, int64_t begin, int64_t end, orr_ranged_row *to)
{
    uint32_t place[ORR_EMBEDDING_RANGES] = {0}, at = 0;
    const int64_t *id = b->lookups->ids;
    for (int64_t i = begin; i < end; i++)
        place[range_of(b, id[i])]++;
    for (int r = 0; r < ORR_EMBEDDING_RANGES; r++) {
        const uint32_t count = place[r];
        place[r] = at;
        at += count;
    }
    for (int64_t i = begin; i < end; i++) {
        const int64_t range = range_of(b, id[i]);
        to[place[range]++] = (orr_ranged_row){row_at(b, i), range};
    }
}

/* The same of a bag of few lookups, with counts in bytes: prefix sums of eight at once are a
 * product with 0x0101010101010101. */
static void order_few_rows(const bag_sums *b, int64_t begin, int64_t end, orr_ranged_row *to)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    union {
        uint8_t of[ORR_EMBEDDING_RANGES];
        uint64_t eight[ORR_EMBEDDING_RANGES / 8];
    } place = {.of = {0}};
    uint8_t range[FEW_MAX];
    const int64_t *id = b->lookups->ids + begin, n = end - begin;
    for (int64_t i = 0; i < n; i++)
        place.of[range[i] = (uint8_t)range_of(b, id[i])]++;
    uint64_t at = 0;
    for (int r = 0; r < ORR_EMBEDDING_RANGES / 8; r++) {
        const uint64_t sums = place.eight[r] * ones;
        place.eight[r] = (sums << 8) + at * ones;
        at += sums >> 56;
    }
    for (int64_t i = 0; i < n; i++)
        to[place.of[range[i]]++] = (orr_ranged_row){row_at(b, begin + i), range[i]};
}

/* The rows of coming bags of a work item, in order: `at` .. `end` of the room. */
typedef struct window {
    orr_ranged_row *room;
    int64_t at, end;
    int64_t sample; /* the first that is not in order yet */
} window;

static void order_ahead(const bag_sums *b, int64_t rows, int64_t samples_end, window *w)
{
    for (; w->sample < samples_end && w->end - w->at < rows; w->sample++) {
        const int64_t begin = b->first[w->sample], end = b->first[w->sample + 1], n = end - begin;
        if (w->end + n > b->room_rows) {
            memmove(w->room, w->room + w->at, (size_t)(w->end - w->at) * sizeof *w->room);
            w->end -= w->at;
            w->at = 0;
        }
        if (n <= INSERTION_MAX)
            insert_rows(b, begin, end, w->room + w->end);
        else if (n <= FEW_MAX)
            order_few_rows(b, begin, end, w->room + w->end);
        else
            order_rows(b, begin, end, w->room + w->end);
        w->end += n;
    }
}

/* The next n rows of the window by subtree. */
static void sum_bag(const bag_sums *b, int64_t n, window *w, float *ret)
{
    const int64_t end = w->at + n;
    for (uint32_t t = 0; t < b->n_subtrees; t++, ret += b->columns) {
        const int64_t ranges_end = b->subtree[t].begin + b->subtree[t].count, at = w->at;
        if (t + 1 == b->n_subtrees)
            w->at = end;
        while (w->at < end && w->room[w->at].range < ranges_end)
            w->at++;
        if (w->at > at)
            b->tree(w->room + at, w->at - at, w->end - w->at, b->columns, ret);
        else
            memset(ret, 0, (size_t)b->columns * sizeof *ret);
    }
}

static void sum_item(void *ctx, size_t item, int thread)
{
    const bag_sums *b = ctx;
    const int64_t begin = (int64_t)item * b->samples, samples = b->lookups->samples,
                  end = samples - begin < b->samples ? samples : begin + b->samples;
    window w = {.room = b->room + thread * b->room_rows, .sample = begin};
    for (int64_t s = begin; s < end; s++) {
        const int64_t n = b->first[s + 1] - b->first[s];
        order_ahead(b, n + AHEAD, end, &w);
        sum_bag(b, n, &w, b->ret + s * b->ret_stride);
    }
}

/* What the workspace is divided into: the first lookup of each sample, rows in order of each
 * thread. */
typedef struct bag_room {
    int64_t longest, room_rows;
    size_t first, rows; /* bytes */
} bag_room;

static size_t lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static bag_room room_of(const orr_shard_lookups *l, const orr_workers *workers)
{
    const size_t threads = (size_t)orr_workers_count(workers);
    bag_room r = {.longest = l->samples > 0 ? 2 * (l->n / l->samples + 1) : 0};
    if (l->lengths != NULL)
        r.longest = 0;
    for (int64_t s = 0; l->lengths != NULL && s < l->samples; s++)
        r.longest = l->lengths[s] > r.longest ? l->lengths[s] : r.longest;
    r.room_rows = 2 * r.longest + AHEAD + ROOM_ROWS;
    r.first = lines(((size_t)l->samples + 1) * sizeof(int64_t));
    r.rows = lines(threads * (size_t)r.room_rows * sizeof(orr_ranged_row));
    return r;
}

size_t orr_shard_bag_bytes(const orr_shard_lookups *lookups, const orr_workers *workers)
{
    const bag_room room = room_of(lookups, workers);
    return room.first + room.rows;
}

static void place_samples(bag_sums *b)
{
    const orr_shard_lookups *l = b->lookups;
    int64_t at = 0;
    for (int64_t s = 0; s < l->samples; s++) {
        b->first[s] = at;
        at += l->lengths[s];
    }
    b->first[l->samples] = at;
    b->samples = l->n > ITEM_LOOKUPS ? ITEM_LOOKUPS * l->samples / l->n : l->samples;
    b->samples = b->samples > 0 ? b->samples : 1;
}

orr_status orr_shard_bag_sums(const orr_shard_lookups *lookups, float *ret, int64_t ret_stride,
                              void *workspace, orr_workers *workers, orr_error *err)
{
    const orr_row_store *store = lookups->store;
    const bag_room room = room_of(lookups, workers);
    char *at = workspace;
    bag_sums b = {.lookups = lookups,
                  .columns = store->columns,
                  .record_bytes = store->record_bytes,
                  .tree = orr_row_kernels_of_cpu()->tree[store->format],
                  .inverse = UINT64_MAX / (uint64_t)lookups->table_rows + 1,
                  .first = workspace,
                  .room_rows = room.room_rows,
                  .ret = ret,
                  .ret_stride = ret_stride};
    if (b.tree == NULL || lookups->n > UINT32_MAX)
        return orr_fail(err, ORR_UNSUPPORTED, "%lld lookups of %s rows in a sharded table",
                        (long long)lookups->n, orr_row_format_name((orr_row_format)store->format));
    if (lookups->samples == 0)
        return ORR_OK;
    b.room = (orr_ranged_row *)(void *)(at + room.first);
    b.n_subtrees = orr_shard_subtrees(lookups->shard, b.subtree);
    place_samples(&b);
    orr_workers_run(workers, (size_t)((lookups->samples - 1) / b.samples + 1), sum_item, &b);
    return ORR_OK;
}
