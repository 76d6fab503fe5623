/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_EMBEDDING_BAGS_H
#define ORR_KERNEL_CPU_EMBEDDING_BAGS_H

#include <stdatomic.h>

#include "kernel/cpu/embedding/row_kernels.h"
#include "kernel/cpu/tensor/iterator.h"

/* What embedding bags (torch.nn.EmbeddingBag), their gradients and their optimizer share: tables,
 * ids and bags. */

/* An embedding table (R, D), its rows in one of orr_row_format. */
typedef struct orr_embedding_table {
    char *base; /* address of row 0; NULL: in segments */
    const orr_weight_rows *segments;
    int64_t rows, columns, row_bytes;
    orr_row_format format;
} orr_embedding_table;
/* UNSUPPORTED: a dtype that is not a row format, or gaps between columns. */
orr_status orr_embedding_table_of(const orr_operand *operand, const char *op,
                                  orr_embedding_table *ret, orr_error *err) ORR_MUST_CHECK;

/* Ids in the order of bags. Bag b begins at its offset; without offsets every bag has `each`
 * ids. */
typedef struct orr_bags {
    orr_indices ids, offsets;
    int64_t bags, each; /* each 0: by offsets */
} orr_bags;
/* From an input of ids and, where `listed`, one of offsets after it. INVALID: offsets that do not
 * begin at 0, decrease, or exceed the number of ids. */
orr_status orr_bags_of(const orr_operand *ids, bool listed, const char *op, orr_bags *ret,
                       orr_error *err) ORR_MUST_CHECK;
/* First id of a bag; for bag == bags, the number of ids. */
int64_t orr_bags_begin(const orr_bags *bags, int64_t bag);
/* Bags of a work item of about 4096 lookups. */
int64_t orr_bags_per_range(const orr_bags *bags);

/* The first position of an id that is not in the table; -1: none. Shared by all threads. */
typedef struct orr_invalid_id {
    _Atomic int64_t at;
} orr_invalid_id;
void orr_invalid_id_note(orr_invalid_id *stray, int64_t at);
orr_status orr_invalid_id_check(const orr_invalid_id *stray, const orr_indices *ids, int64_t rows,
                                const char *op, orr_error *err) ORR_MUST_CHECK;

/* Addresses of the rows of ids [from, from + n); row 0 for invalid ids. */
void orr_embedding_table_rows(const orr_embedding_table *table, const orr_indices *ids,
                              int64_t from, int64_t n, orr_invalid_id *stray, const char **ret);

#endif /* ORR_KERNEL_CPU_EMBEDDING_BAGS_H */
