/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/embedding/bags.h"
#include "kernel/format/dtype_convert.h"
#include "kernel/cpu/entries.h"

/* Embedding bags: sums of table rows at arbitrary addresses. The limit is the number of memory
 * reads in flight, so the addresses of some hundred rows are computed ahead, across bags, and rows
 * are prefetched before they are summed. */
enum { AHEAD_ROOM = 512, COLUMNS = 1024 };

typedef struct lookup {
    orr_embedding_table table;
    orr_bags bags;
    orr_invalid_id stray;
    orr_row_sum *sum;
    orr_tensor_iter y;
} lookup;

/* A window of row addresses within a work item. */
typedef struct window {
    int64_t begin, end; /* ids whose row addresses stand in `row` */
    const char *row[AHEAD_ROOM];
} window;

static void sum_bag(lookup *l, int64_t begin, int64_t end, int64_t last, window *w, float *sum)
{
    for (int64_t i = begin, n; i < end; i += n) {
        if (i >= w->end) {
            w->begin = i;
            w->end = last - i < AHEAD_ROOM ? last : i + AHEAD_ROOM;
            orr_embedding_table_rows(&l->table, &l->bags.ids, i, w->end - i, &l->stray, w->row);
        }
        const int64_t until = end < w->end ? end : w->end;
        n = until - i;
        l->sum(w->row + (i - w->begin), n, w->end - until, l->table.columns, sum);
    }
}

static void sum_bags(void *ctx, int64_t begin, int64_t end)
{
    lookup *l = ctx;
    float sum[COLUMNS];
    window w = {.end = 0};
    orr_tensor_cursor cursor;
    orr_tensor_iter_seek(&l->y, begin, &cursor);
    const int64_t last = orr_bags_begin(&l->bags, end);
    for (int64_t b = begin; b < end; b++, orr_tensor_iter_next(&l->y, &cursor)) {
        for (int64_t j = 0; j < l->table.columns; j++)
            sum[j] = 0;
        sum_bag(l, orr_bags_begin(&l->bags, b), orr_bags_begin(&l->bags, b + 1), last, &w, sum);
        orr_tensor_iter_write(&l->y, 0, &cursor, 0, l->table.columns, sum);
    }
}

static orr_status bag_run(const orr_kernel_call *call, orr_error *err)
{
    lookup l = {.stray.at = -1, .y = orr_tensor_iter_over(&call->out[0].type)};
    (void)orr_tensor_iter_add(&l.y, &call->out[0]);
    ORR_TRY(orr_embedding_table_of(&call->in[0], "embedding_bag", &l.table, err));
    ORR_TRY(orr_bags_of(&call->in[1], call->n_in > 2, "embedding_bag", &l.bags, err));
    if (l.table.columns > COLUMNS)
        return orr_fail(err, ORR_UNSUPPORTED, "embedding_bag: rows of %lld columns, more than %d",
                        (long long)l.table.columns, COLUMNS);
    if (l.table.rows < 1 && l.bags.ids.n > 0)
        orr_invalid_id_note(&l.stray, 0);
    ORR_TRY(orr_invalid_id_check(&l.stray, &l.bags.ids, l.table.rows, "embedding_bag", err));
    l.sum = orr_row_sum_of(l.table.format);
    orr_parallel_ranges(l.bags.bags, orr_bags_per_range(&l.bags), sum_bags, &l, call->workers);
    return orr_invalid_id_check(&l.stray, &l.bags.ids, l.table.rows, "embedding_bag", err);
}

const orr_kernel_entry orr_cpu_EMBEDDING_BAG = {.run = bag_run};
