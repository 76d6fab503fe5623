/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_ARCH_DLRM_H
#define ORR_MODEL_ARCH_DLRM_H

#include <orrery/model.h>

/* Embedding tables of one replica: consecutive tables. All replicas have as many tables, rows
 * and lookups as the fullest one: the last tables may be padding, and so are rows after the last
 * table. */
typedef struct orr_table_shard {
    uint32_t first, n; /* real tables */
    uint32_t count;    /* with padding tables */
    int64_t rows;      /* of the replica, with padding */
    int64_t lookups;   /* of a sample on the replica, with padding */
    bool padded;       /* some replica has fewer lookups: the missing ones read the last row,
                        * which is padding and has to stay zero */
} orr_table_shard;
orr_table_shard orr_table_shard_of(const orr_dlrm *dlrm, uint32_t replicas, uint32_t replica);

static inline int64_t orr_dlrm_pooling(const orr_dlrm *dlrm, uint32_t table)
{
    return (int64_t)(dlrm->tables[table].pooling + 0.5);
}

#endif /* ORR_MODEL_ARCH_DLRM_H */
