/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_EMBEDDING_ROW_UPDATE_H
#define ORR_KERNEL_CPU_EMBEDDING_ROW_UPDATE_H

#include "kernel/cpu/embedding/bags.h"
#include "kernel/cpu/embedding/sharded_table.h"
#include "kernel/cpu/embedding/sorted_lookups.h"

/* Exact update of the rows that were looked up: the one implementation of orr_shard_update_run()
 * and of the operator rowwise_adagrad. */
typedef struct orr_row_update {
    orr_row_store *store;
    orr_embedding_table gradient; /* row s: of the bag of sample s */
    const orr_update *by;
    const orr_shard_update *shard; /* for stochastic rounding and sums of squares; NULL: neither */
    orr_sorted_lookups lookups;    /* partitioned */
} orr_row_update;
/* UNSUPPORTED: more than ORR_SHARD_UPDATE_COLUMNS, rows that are not FP32, FP16 or BF16. */
orr_status orr_row_update_check(const orr_row_store *store, const char *what,
                                orr_error *err) ORR_MUST_CHECK;
/* Bytes of workspace beside those of the lookups. */
size_t orr_row_update_bytes(const orr_row_store *store, const orr_shard_update *shard,
                            int64_t lookups, int64_t ranges);
orr_status orr_row_update_run(const orr_row_update *update, void *workspace, orr_workers *workers,
                              orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_KERNEL_CPU_EMBEDDING_ROW_UPDATE_H */
