/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "explore/tables/planner.h"

/* TorchRec's estimate of a shard's time: EmbeddingPerfEstimator of torchrec 1.9
 * (torchrec/distributed/planner/estimator, BSD licence) with its default configuration, pooled
 * features without weights, `fused` kernels (`dense` of data-parallel tables). Its Perf.total: the
 * distribution of ids is not in it.
 *
 * Letters: n samples of a rank, L lookups, W ranks, g of a host, P row parts, D columns of the
 * shard, s bytes of a number. Where TorchRec knows only W or g row parts, P is either. */

#define GIB                   (1024.0 * 1024.0 * 1024.0)
#define ID_BYTES              8.0
#define BATCHED_COPY_FACTOR   2.455 /* constants.py, as all of these: "empirical studies" */
#define DATA_OPTIMIZER_FACTOR 9.22
#define HALF_BLOCK_PENALTY    1.15
#define QUARTER_BLOCK_PENALTY 1.75
#define DENSE_KERNEL_FRAC     0.5

void orr_torchrec_topology_init(orr_torchrec_topology *ret)
{
    *ret = (orr_torchrec_topology){.hbm_bytes_per_s = 897 * GIB,
                                   .ddr_bytes_per_s = 51 * GIB,
                                   .intra_host_bytes_per_s = 600 * GIB,
                                   .inter_host_bytes_per_s = 12.5 * GIB,
                                   .backward_factor = 2};
}

typedef struct estimate {
    double lookups, bags; /* of a rank's samples: n L, n min(1, L) */
    double ranks, host_ranks;
    double number_bytes, forward_bytes, backward_bytes; /* of rows, of what travels */
    double device;                                      /* bytes/s */
    const orr_torchrec_topology *topology;
} estimate;

static estimate estimate_of(const orr_table_planner_options *o, uint32_t table)
{
    const orr_embedding *e = &o->tables[table];
    orr_embedding one = *e;
    one.columns = 64;
    one.optimizer = ORR_ROW_OPTIMIZER_SGD;
    return (estimate){
        .lookups = (double)o->samples * e->pooling,
        .bags = (double)o->samples * fmin(1, e->pooling),
        .ranks = o->ranks,
        .host_ranks = o->host_ranks > 0 ? o->host_ranks : o->ranks,
        .number_bytes = (double)orr_embedding_row_bytes(&one) / 64,
        .forward_bytes = o->forward == ORR_EMBEDDING_CODEC_FP32   ? 4
                         : o->forward == ORR_EMBEDDING_CODEC_INT8 ? 1
                                                                  : 2,
        .backward_bytes = o->backward == ORR_EMBEDDING_CODEC_FP32   ? 4
                          : o->backward == ORR_EMBEDDING_CODEC_INT8 ? 1
                                                                    : 2,
        .device = o->torchrec.cpu ? o->torchrec.ddr_bytes_per_s : o->torchrec.hbm_bytes_per_s,
        .topology = &o->torchrec,
    };
}

static double link(const estimate *e, double ranks, double host_ranks)
{
    return ranks <= host_ranks ? e->topology->intra_host_bytes_per_s
                               : e->topology->inter_host_bytes_per_s;
}

static void put(orr_table_price *ret, double forward, double backward, double bags,
                double gradients)
{
    *ret = (orr_table_price){.stage_ns = {[ORR_TABLE_STAGE_LOOKUP] = 1e9 * forward,
                                          [ORR_TABLE_STAGE_BAGS] = 1e9 * bags,
                                          [ORR_TABLE_STAGE_GRADIENTS] = 1e9 * gradients,
                                          [ORR_TABLE_STAGE_UPDATE] = 1e9 * backward}};
}

/* Table-wise and column-wise. */
static void whole_rows(const estimate *e, double columns, orr_table_price *ret)
{
    const double penalty = columns >= 128  ? 1
                           : columns >= 64 ? HALF_BLOCK_PENALTY
                                           : QUARTER_BLOCK_PENALTY;
    const double vectors = e->bags * e->ranks * columns;
    const double forward =
        (ceil(e->lookups * e->ranks * ID_BYTES) +
         e->lookups * e->ranks * fmax(columns, 32) * e->number_bytes + vectors * e->forward_bytes) *
        penalty / e->device;
    const double bytes_per_s = link(e, e->ranks, e->host_ranks);
    put(ret, forward, forward * e->topology->backward_factor,
        vectors * e->forward_bytes / bytes_per_s, vectors * e->backward_bytes / bytes_per_s);
}

/* Row-wise, and, with `in_host`, table-row-wise and grid: sums within a group of P ranks, then
 * between groups. */
static void split_rows(const estimate *e, double columns, double rows, bool in_host,
                       orr_table_price *ret)
{
    const double lookups = e->lookups / rows, vectors = e->bags * e->ranks * columns;
    const double forward =
        (ceil(lookups * e->ranks * ID_BYTES) + lookups * e->ranks * columns * e->number_bytes +
         vectors * e->forward_bytes) /
        e->device;
    const double copy = vectors * e->backward_bytes * BATCHED_COPY_FACTOR / e->device;
    const double groups = fmax(1, floor(e->ranks / rows));
    const double near =
        in_host ? link(e, rows, fmin(rows, e->host_ranks)) : link(e, e->ranks, e->host_ranks);
    const double far = in_host && groups > 1 ? e->bags * groups * columns / link(e, groups, 1) : 0;
    put(ret, forward, forward * e->topology->backward_factor,
        vectors * e->forward_bytes / near + far * e->forward_bytes,
        vectors * e->backward_bytes / near + far * e->backward_bytes + copy);
}

static void data_parallel(const estimate *e, double rows, double columns, orr_table_price *ret)
{
    const double device = e->device * DENSE_KERNEL_FRAC;
    const double forward = (ceil(e->lookups * ID_BYTES) + e->lookups * columns * e->number_bytes +
                            e->bags * columns * e->number_bytes) /
                           device;
    const double table = rows * columns * e->number_bytes;
    const double hosts = fmin(e->ranks / e->host_ranks, 2);
    double all_reduce =
        table * (2 * hosts - 1) / hosts / (e->topology->inter_host_bytes_per_s * e->host_ranks);
    if (e->ranks > 2 * e->host_ranks)
        all_reduce *= 2;
    put(ret, forward, forward * e->topology->backward_factor, 0,
        all_reduce + table * DATA_OPTIMIZER_FACTOR / device);
}

void orr_torchrec_shard_price(const orr_table_planner_options *o, uint32_t table,
                              const orr_table_split *split, uint32_t i, orr_table_price *ret)
{
    const uint32_t all = o->tables[table].columns, column = i / split->rows;
    const double columns = orr_embedding_column_split(all, split->columns, column + 1) -
                           orr_embedding_column_split(all, split->columns, column);
    const estimate e = estimate_of(o, table);
    if (split->kind == ORR_SHARDING_TABLE || split->kind == ORR_SHARDING_COLUMN)
        whole_rows(&e, columns, ret);
    else
        split_rows(&e, columns, split->rows, split->kind != ORR_SHARDING_ROW, ret);
}

void orr_torchrec_shared_price(const orr_table_planner_options *o, uint32_t table,
                               const orr_table_split *split, orr_table_price *ret)
{
    const estimate e = estimate_of(o, table);
    *ret = (orr_table_price){.bytes = 0};
    if (split->kind == ORR_SHARDING_DATA)
        data_parallel(&e, (double)o->tables[table].rows, o->tables[table].columns, ret);
}
