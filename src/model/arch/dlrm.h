/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_ARCH_DLRM_H
#define ORR_MODEL_ARCH_DLRM_H

#include <orrery/model.h>

/* Which tables of embeddings a replica has: neighbours, in order, one behind another. All replicas
 * have as many tables, rows and lookups as the fullest: the last tables may stand for nothing; rows
 * behind the last table are padding. */
typedef struct orr_table_shard {
    uint32_t first, n; /* tables that are there                                          */
    uint32_t count;    /* with those that stand for nothing                              */
    int64_t rows;      /* of the replica, with padding                                   */
    int64_t lookups;   /* of a sample on the replica, with padding                       */
    bool padded;       /* some replica has fewer lookups than that: what is missing asks
                        * for the last row, which is padding, and has to stay zero       */
} orr_table_shard;
orr_table_shard orr_table_shard_of(const orr_dlrm *dlrm, uint32_t replicas, uint32_t replica);

static inline int64_t orr_dlrm_pooling(const orr_dlrm *dlrm, uint32_t table)
{
    return dlrm->pooling[table] > 0 ? dlrm->pooling[table] : 1;
}

#endif /* ORR_MODEL_ARCH_DLRM_H */
